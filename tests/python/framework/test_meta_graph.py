# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Meta graphs: what is exported with a graph comes back."""
from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import text_format

import millrace as tf
from millrace.core.protobuf import graph_debug_info_pb2, meta_graph_pb2
from millrace.python.framework import meta_graph


def _model(scope: str = "") -> Any:
    with tf.name_scope(scope or None):
        x = tf.placeholder(tf.float32, [None], name="x")
    v = tf.Variable(3.0, name=(scope + "/" if scope else "") + "v")
    y = tf.multiply(x, v, name=(scope + "/" if scope else "") + "y")
    return x, v, y


def test_collections_come_back(tmp_path: Any) -> None:
    with tf.Graph().as_default():
        x, v, y = _model()
        tf.add_to_collection("int_collection", 3)
        tf.add_to_collection("float_collection", 3.5)
        tf.add_to_collection("string_collection", "hello")
        tf.add_to_collection("tensors", y)
        path = str(tmp_path / "model.meta")
        message, _ = meta_graph.export_scoped_meta_graph(
            filename=path, graph_def=tf.get_default_graph().as_graph_def()
        )
        assert set(message.collection_def) >= {
            "variables",
            "int_collection",
            "float_collection",
            "string_collection",
        }
        assert list(message.collection_def["int_collection"].int64_list.value) == [3]
        assert message.meta_info_def.tensorflow_version and "Mul" in {
            op.name for op in message.meta_info_def.stripped_op_list.op
        }
    with tf.Graph().as_default(), tf.Session() as sess:
        variables = meta_graph.import_scoped_meta_graph(path)
        assert list(variables) == ["v:0"] and tf.trainable_variables()[0].op.name == "v"
        assert tf.get_collection("int_collection") == [3]
        assert tf.get_collection("string_collection") == [b"hello"] or tf.get_collection(
            "string_collection"
        ) == ["hello"]
        (again,) = tf.get_collection("tensors")
        sess.run(tf.global_variables_initializer())
        assert sess.run(again, {"x:0": [2.0]}).tolist() == [6]


def test_scopes_are_exported_and_imported() -> None:
    with tf.Graph().as_default() as graph:
        _model("one")
        _model("two")
        message, variables = meta_graph.export_scoped_meta_graph(graph=graph, export_scope="one")
        assert sorted(variables) == ["v:0"]
        assert not [n.name for n in message.graph_def.node if n.name.startswith(("one", "two"))]
    with tf.Graph().as_default(), tf.Session() as sess:
        variables = meta_graph.import_scoped_meta_graph(message, import_scope="new")
        assert variables["v:0"].op.name == "new/v"
        sess.run(tf.global_variables_initializer())
        assert sess.run("new/y:0", {"new/x:0": [5.0]}).tolist() == [15]


def test_unbound_inputs_must_be_given() -> None:
    with tf.Graph().as_default() as graph:
        outside = tf.constant(4.0, name="outside")
        with tf.name_scope("inner"):
            tf.multiply(outside, 2.0, name="y")
        message, _ = meta_graph.export_scoped_meta_graph(graph=graph, export_scope="inner")
        (name,) = message.collection_def["unbound_inputs"].bytes_list.value
        assert name == b"$unbound_inputs_outside"
    with tf.Graph().as_default(), tf.Session() as sess:
        with pytest.raises(ValueError, match="Graph contains unbound inputs"):
            meta_graph.import_scoped_meta_graph(message, import_scope="s")
        meta_graph.import_scoped_meta_graph(
            message, import_scope="s", input_map={"$unbound_inputs_outside": tf.constant(10.0)}
        )
        assert sess.run("s/y:0") == 20


def test_devices_are_cleared() -> None:
    with tf.Graph().as_default():
        with tf.device("/job:ps/device:GPU:3"):
            tf.constant(1.0, name="a")
        message = meta_graph.create_meta_graph_def(graph_def=tf.get_default_graph().as_graph_def())
        assert message.graph_def.node[0].device
    with tf.Graph().as_default() as graph:
        meta_graph.import_scoped_meta_graph(message, clear_devices=True)
        assert graph.get_operation_by_name("a").device == ""


def test_default_attributes_are_stripped() -> None:
    with tf.Graph().as_default() as graph:
        tf.complex(1.0, 2.0, name="c")
        plain = meta_graph.create_meta_graph_def(graph=graph, graph_def=graph.as_graph_def())
        stripped = meta_graph.create_meta_graph_def(
            graph=graph, graph_def=graph.as_graph_def(), strip_default_attrs=True
        )
    attrs = lambda message: {n.name: set(n.attr) for n in message.graph_def.node}["c"]  # noqa: E731
    assert attrs(plain) == {"T", "Tout"} and attrs(stripped) == set()
    assert stripped.meta_info_def.stripped_default_attrs


def test_scopes_are_copied() -> None:
    source, target = tf.Graph(), tf.Graph()
    with source.as_default():
        _model("from")
    variables = meta_graph.copy_scoped_meta_graph("from", "to", from_graph=source, to_graph=target)
    assert variables["v:0"].op.name == "to/v" and target.get_operation_by_name("to/y").type == "Mul"
    with pytest.raises(ValueError, match="need to be different"):
        meta_graph.copy_scoped_meta_graph("from", "from", from_graph=source, to_graph=source)


def test_files(tmp_path: Any) -> None:
    with pytest.raises(IOError, match="does not exist"):
        meta_graph.read_meta_graph_file(str(tmp_path / "nothing"))
    with tf.Graph().as_default():
        tf.constant(1.0, name="a")
        meta_graph.export_scoped_meta_graph(str(tmp_path / "text"), as_text=True)
    read = meta_graph.read_meta_graph_file(str(tmp_path / "text"))
    assert isinstance(read, meta_graph_pb2.MetaGraphDef) and read.graph_def.node[0].name == "a"


def test_debug_information_lies_beside_a_meta_graph(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", [])
        total = tf.add(v, 1.0, name="total")
        session.run(tf.global_variables_initializer())
        saver = tf.train.Saver()
        saver.save(session, str(tmp_path / "plain"))
        saver.save(session, str(tmp_path / "m"), global_step=3, save_debug_info=True)
        saver.export_meta_graph(str(tmp_path / "text.meta"), as_text=True, save_debug_info=True)
    assert not (tmp_path / "plain.debug").exists()
    info = graph_debug_info_pb2.GraphDebugInfo.FromString((tmp_path / "m-3.debug").read_bytes())
    own = list(info.files).index(__file__)
    lines = [place.line for place in info.traces["total@"].file_line_cols if place.file_index == own]
    assert lines == [frame[1] for frame in total.op.traceback if frame[0] == __file__]
    assert text_format.Parse(
        (tmp_path / "text.debug").read_text(), graph_debug_info_pb2.GraphDebugInfo()
    ).traces
