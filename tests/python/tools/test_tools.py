# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Programs that freeze, strip, optimize, inspect and run models."""
from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.core.framework import graph_pb2
from millrace.python.tools import (
    freeze_graph,
    inspect_checkpoint,
    optimize_for_inference_lib,
    saved_model_cli,
    strip_unused_lib,
)


def _save(folder: Any, resource: bool) -> tuple[str, str]:
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        w = tf.get_variable("w", initializer=[[2.0], [3.0]], use_resource=resource)
        tf.get_variable("unused", initializer=1.0, use_resource=resource)
        tf.matmul(x, w, name="y")
        saver = tf.train.Saver()
        sess.run(tf.global_variables_initializer())
        path = saver.save(sess, os.path.join(folder, "model"))
        graph = tf.train.write_graph(sess.graph, str(folder), "graph.pbtxt")
    return path, graph


@pytest.mark.parametrize("resource", [False, True])
def test_frozen_graphs_have_constants(tmp_path: Any, resource: bool) -> None:
    checkpoint, graph = _save(tmp_path, resource)
    target = str(tmp_path / "frozen.pb")
    freeze_graph.freeze_graph(
        graph, "", False, checkpoint, "y", "save/restore_all", "save/Const:0", target, False, ""
    )
    message = graph_pb2.GraphDef.FromString(open(target, "rb").read())
    assert not [n for n in message.node if n.op in ("VariableV2", "VarHandleOp") or "unused" in n.name]
    with tf.Graph().as_default(), tf.Session() as sess:
        (y,) = tf.import_graph_def(message, return_elements=["y:0"], name="")
        assert sess.run(y, {"x:0": [[1.0, 10.0]]}).tolist() == [[32.0]]
    meta = freeze_graph.freeze_graph(
        "", "", True, checkpoint, "y", "", "", "", True, "", input_meta_graph=checkpoint + ".meta"
    )
    assert [n.op for n in meta.node if n.name == "w"] == ["Const"]
    assert freeze_graph.freeze_graph("nowhere", "", False, checkpoint, "y", "", "", "", False, "") == -1


def test_strip_unused() -> None:
    with tf.Graph().as_default() as graph:
        a = tf.constant(1.0, name="a")
        b = tf.add(a, 2.0, name="b")
        tf.add(b, 3.0, name="c")
        tf.add(a, 100.0, name="other")
    made = strip_unused_lib.strip_unused(graph.as_graph_def(), ["b"], ["c"], tf.float32.as_datatype_enum)
    assert sorted(n.name for n in made.node) == ["b", "c", "c/y"]
    assert [n.op for n in made.node if n.name == "b"] == ["Placeholder"]
    with pytest.raises(KeyError, match="The following input nodes were not found"):
        strip_unused_lib.strip_unused(graph.as_graph_def(), ["nothing"], ["c"], 1)


@pytest.mark.parametrize("depthwise", [False, True])
def test_batch_norms_are_folded(depthwise: bool) -> None:
    rng = np.random.RandomState(1)
    image = rng.rand(1, 5, 5, 2).astype(np.float32)
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        x = tf.placeholder(tf.float32, [1, 5, 5, 2], name="x")
        weights = tf.constant(rng.rand(2, 2, 2, 3), tf.float32)
        if depthwise:
            conv, count = tf.nn.depthwise_conv2d_native(x, weights, [1, 1, 1, 1], "SAME"), 6
        else:
            conv, count = tf.nn.conv2d(x, weights, [1, 1, 1, 1], "SAME"), 3
        scale, offset, mean, variance = (tf.constant(rng.rand(count) + 0.1, tf.float32) for _ in range(4))
        y = tf.nn.fused_batch_norm(conv, scale, offset, mean, variance, is_training=False)[0]
        tf.identity(y, name="y")
        want = sess.run("y:0", {x: image})
    made = optimize_for_inference_lib.optimize_for_inference(graph.as_graph_def(), ["x"], ["y"], 1)
    kinds = {n.op for n in made.node}
    assert "BiasAdd" in kinds and not any("BatchNorm" in kind for kind in kinds)
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.import_graph_def(made, name="")
        np.testing.assert_allclose(sess.run("y:0", {"x:0": image}), want, rtol=1e-5)


def test_inspect_checkpoint(tmp_path: Any, capsys: Any) -> None:
    checkpoint, _ = _save(tmp_path, False)
    inspect_checkpoint.print_tensors_in_checkpoint_file(checkpoint, None, True)
    text = capsys.readouterr().out
    assert "tensor_name: w (float32) [2,1]\n[[2.]\n [3.]]" in text
    assert "# Total number of params: 3" in text
    inspect_checkpoint.print_tensors_in_checkpoint_file(checkpoint, "nothing", False)
    assert "Tensor nothing not found in checkpoint" in capsys.readouterr().out


def test_saved_model_cli(tmp_path: Any, capsys: Any) -> None:
    folder = str(tmp_path / "model")
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None], name="x")
        v = tf.get_variable("v", initializer=3.0)
        sess.run(v.initializer)
        tf.saved_model.simple_save(sess, folder, {"x": x}, {"y": x * v})
    parser = saved_model_cli.create_parser()

    def call(*words: str) -> str:
        args = parser.parse_args(words)
        args.func(args)
        return capsys.readouterr().out

    assert "serve" in call("show", "--dir", folder)
    assert 'SignatureDef key: "serving_default"' in call("show", "--dir", folder, "--tag_set", "serve")
    text = call("show", "--dir", folder, "--all")
    assert "inputs['x'] tensor_info:\n        dtype: DT_FLOAT\n        shape: (-1)\n        name: x:0" in text
    run = ["run", "--dir", folder, "--tag_set", "serve", "--signature_def", "serving_default"]
    text = call(*run, "--input_exprs", "x=np.array([1.0, 2.0])", "--outdir", str(tmp_path / "out"))
    assert "Result for output key y:\n[3. 6.]" in text
    assert np.load(tmp_path / "out" / "y.npy").tolist() == [3, 6]
    with pytest.raises(RuntimeError, match='already exists. Add "--overwrite"'):
        call(*run, "--input_exprs", "x=[1.0]", "--outdir", str(tmp_path / "out"))
    with pytest.raises(ValueError, match='"z" is not a valid input key'):
        call(*run, "--input_exprs", "z=[1.0]")
    np.save(tmp_path / "x.npy", np.array([5.0]))
    assert "[15.]" in call(*run, "--inputs", "x=%s" % (tmp_path / "x.npy"))
    assert "does not contain blacklisted ops" in call("scan", "--dir", folder)
