# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of graphs, and variables that become constants."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.core.framework import attr_value_pb2, graph_pb2
from millrace.python.framework import graph_util


def _node(graph_def: Any, name: str, op: str, inputs: Any = ()) -> Any:
    node = graph_def.node.add(name=name, op=op)
    node.input.extend(inputs)
    return node


def test_a_sub_graph_has_what_its_outputs_need() -> None:
    graph_def = graph_pb2.GraphDef()
    n1 = _node(graph_def, "n1", "A", ["n5"])
    n2 = _node(graph_def, "n2", "B", ["n1:1", "n5", "^n3"])
    n3 = _node(graph_def, "n3", "C", ["^n4"])
    n4 = _node(graph_def, "n4", "D")
    n5 = _node(graph_def, "n5", "E", ["n1"])
    n1.device = "/cpu:0"
    made = graph_util.extract_sub_graph(graph_def, ["n5"])
    assert [n.name for n in made.node] == ["n1", "n5"] and made.node[0] == n1 and made.node[1] == n5
    assert list(graph_util.extract_sub_graph(graph_def, ["n2"]).node) == [n1, n2, n3, n4, n5]
    with pytest.raises(AssertionError, match="not_there is not in graph"):
        graph_util.extract_sub_graph(graph_def, ["not_there"])
    with pytest.raises(TypeError, match="dest_nodes must be a list"):
        graph_util.extract_sub_graph(graph_def, "n1")


@pytest.mark.parametrize("resource", [False, True])
def test_variables_become_constants(resource: bool) -> None:
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        v = tf.get_variable("v", initializer=np.arange(4.0, dtype=np.float32), use_resource=resource)
        w = tf.get_variable("w", initializer=2.0, use_resource=resource)
        y = tf.gather(v, [1, 3]) * w
        tf.identity(y, name="y")
        tf.get_variable("other", initializer=5.0, use_resource=resource)
        sess.run(tf.global_variables_initializer())
        want = sess.run("y:0").tolist()
        made = graph_util.convert_variables_to_constants(sess, graph.as_graph_def(), ["y"])
        kept = graph_util.convert_variables_to_constants(
            sess, graph.as_graph_def(), ["y"], variable_names_blacklist=["w"]
        )
    kinds = {n.name: n.op for n in made.node}
    assert kinds["v"] == kinds["w"] == "Const" and "other" not in kinds
    assert not {"VariableV2", "VarHandleOp", "ReadVariableOp", "ResourceGather", "Assign"} & set(
        kinds.values()
    )
    assert {n.op for n in kept.node if n.name == "w"} & {"VariableV2", "VarHandleOp"}
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.import_graph_def(made, name="")
        assert sess.run("y:0").tolist() == want == [2, 6]


def test_nodes_of_training_are_removed() -> None:
    with tf.Graph().as_default() as graph:
        a = tf.constant([1.0], name="a")
        b = tf.identity(tf.check_numerics(tf.identity(a, name="i1"), "bad", name="check"), name="i2")
        tf.square(b, name="y")
    made = graph_util.remove_training_nodes(graph.as_graph_def())
    assert [(n.name, list(n.input)) for n in made.node] == [("a", []), ("y", ["a"])]
    made = graph_util.remove_training_nodes(graph.as_graph_def(), protected_nodes=["i2"])
    assert [(n.name, list(n.input)) for n in made.node] == [("a", []), ("i2", ["a"]), ("y", ["i2"])]


def test_questions_about_nodes() -> None:
    with tf.Graph().as_default() as graph:
        words = tf.constant(["a", "b"], name="words")
        number = tf.constant([[1, 2]], name="number")
        big = tf.get_variable("v", [2, 2])
    assert graph_util.must_run_on_cpu(words.op) and graph_util.must_run_on_cpu(number.op)
    assert not graph_util.must_run_on_cpu(big.op)
    assert graph_util.must_run_on_cpu(big.op, pin_variables_on_cpu=True)
    assert graph_util.tensor_shape_from_node_def_name(graph, "number").as_list() == [1, 2]
    assert graph_util.tensor_shape_from_node_def_name(graph, "number:0").as_list() == [1, 2]


def test_attributes_of_nodes_stay() -> None:
    graph_def = graph_pb2.GraphDef()
    node = _node(graph_def, "x", "Placeholder")
    node.attr["dtype"].CopyFrom(attr_value_pb2.AttrValue(type=1))
    graph_def.versions.producer = 27
    made = graph_util.extract_sub_graph(graph_def, ["x"])
    assert made.node[0] == node and made.versions.producer == 27
