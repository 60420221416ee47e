# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""TransformGraph: graphs compute the same after each transform, and are what it says."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.tools.graph_transforms import TransformGraph

IMAGES = np.random.RandomState(0).rand(2, 8, 8, 3).astype(np.float32)


def network() -> Any:
    """A GraphDef from "x" to "out", with what a frozen network has that can go."""
    rnd = np.random.RandomState(1)
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 8, 8, 3], name="x")
        kernel = tf.constant(rnd.rand(3, 3, 3, 16).astype(np.float32) - 0.5, name="kernel")
        y = tf.nn.conv2d(tf.identity(x, name="same"), kernel, [1, 1, 1, 1], "SAME", name="conv")
        scale = tf.constant(rnd.rand(16).astype(np.float32), name="scale")
        y = tf.multiply(y, scale * 2.0, name="scaled")
        y = tf.reshape(tf.check_numerics(y, "bad", name="check"), [-1, 8 * 8 * 16])
        w = tf.constant((rnd.rand(1024, 4).astype(np.float32) - 0.5) / 30.0, name="weights")
        y = tf.matmul(y, w, name="product") + tf.matmul(y, w, name="product_again")
        tf.nn.softmax(y, name="out")
        tf.square(y, name="unused")
        return graph.as_graph_def()


def result(graph_def: Any) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        out = tf.import_graph_def(graph_def, return_elements=["out:0"], name="")
        return session.run(out[0], {"x:0": IMAGES})


def changed(*transforms: str) -> Any:
    return TransformGraph(network(), ["x"], ["out"], list(transforms))


def names(graph_def: Any) -> set[str]:
    return {node.name for node in graph_def.node}


@pytest.mark.parametrize(
    "transforms, gone",
    [
        (["strip_unused_nodes"], {"unused"}),
        (["remove_nodes(op=Identity, op=CheckNumerics)"], {"same", "check"}),
        (["fold_constants(ignore_errors=true)"], {"unused", "scale"}),
        (["fold_constants", "fold_batch_norms"], {"scaled", "scale"}),
        (["merge_duplicate_nodes"], {"product_again"}),
        (["obfuscate_names"], {"conv", "weights", "product"}),
        (["sort_by_execution_order", "remove_device", "add_default_attributes"], set()),
        (["remove_control_dependencies", 'set_device(device="/cpu:0")'], set()),
        (["rename_node(old_node_name=conv, new_node_name=other)"], {"conv"}),
    ],
)
def test_graphs_compute_the_same(transforms: list[str], gone: set[str]) -> None:
    made = changed(*transforms)
    np.testing.assert_allclose(result(made), result(network()), rtol=1e-4, atol=1e-6)
    assert not gone & names(made) and {"x", "out"} <= names(made)


@pytest.mark.parametrize("name", ["quantize_weights", "round_weights(num_steps=256)"])
def test_weights_of_few_values(name: str) -> None:
    made = changed(name)
    np.testing.assert_allclose(result(made), result(network()), atol=0.02)
    if name == "quantize_weights":
        node = next(n for n in made.node if n.name == "weights")
        assert node.op == "Dequantize" and "weights_quantized_const" in names(made)
        assert len(made.SerializeToString()) < 0.5 * len(network().SerializeToString())
    else:
        node = next(n for n in made.node if n.name == "weights")
        assert len(np.unique(tf.make_ndarray(node.attr["value"].tensor))) <= 256


def test_ops_and_attributes() -> None:
    made = changed(
        "rename_op(old_op_name=Softmax, new_op_name=LogSoftmax)",
        "remove_attribute(attribute_name=use_cudnn_on_gpu, op_name=Conv2D)",
        "rename_attribute(old_attribute_name=padding, new_attribute_name=margin)",
    )
    by_name = {node.name: node for node in made.node}
    assert by_name["out"].op == "LogSoftmax" and "use_cudnn_on_gpu" not in by_name["conv"].attr
    assert by_name["conv"].attr["margin"].s == b"SAME" and "padding" not in by_name["conv"].attr
    typed = changed('strip_unused_nodes(type=float, shape="1,8,8,3")')
    shape = next(n for n in typed.node if n.name == "x").attr["shape"].shape
    assert [d.size for d in shape.dim] == [1, 8, 8, 3]


@pytest.mark.parametrize(
    "bad, text",
    [
        ("nothing", "Transform 'nothing' not recognized."),
        ("remove_nodes(op)", "Looking for a parameter"),
        ("(", "Looking for a transform name"),
        ("rename_op(old_op_name=a)", "needs the parameter 'new_op_name'"),
        ("round_weights(num_steps=many)", "Couldn't interpret the num_steps argument as a number:many"),
        ("rename_node(old_node_name=conv, new_node_name=x)", "A node with name: x already exists"),
    ],
)
def test_wrong_transforms(bad: str, text: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        changed(bad)
