# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Graph, Operation and Tensor."""
from __future__ import annotations

import copy
import gc
import threading
import weakref

import numpy as np
import pytest

import millrace as tf
from millrace.core.framework import attr_value_pb2, types_pb2
from millrace.python.framework import dtypes, ops


def test_names_of_operations_are_unique() -> None:
    graph = tf.Graph()
    with graph.as_default():
        names = [tf.constant(1, name="a").op.name for _ in range(3)]
        assert names == ["a", "a_1", "a_2"]
        assert tf.constant(1, name="A").op.name == "A_3" and tf.constant(1).op.name == "Const"
        assert graph.unique_name("a") == "a_4" and graph.unique_name("new", mark_as_used=False) == "new"
        assert graph.unique_name("new") == "new" and graph.unique_name("new") == "new_1"
        with pytest.raises(ValueError, match="'_a' is not a valid node name|'_a' is not a valid scope name"):
            tf.constant(1, name="_a")
        with pytest.raises(ValueError):
            tf.constant(1, name="a:0")


def test_finding_elements() -> None:
    graph = tf.Graph()
    with graph.as_default():
        a, b = tf.split(tf.constant([1, 2], name="c"), 2, name="s")
        variable = tf.Variable(1.0, name="v")
    op = a.op
    assert (
        graph.as_graph_element(a) is a
        and graph.as_graph_element(op) is op
        and graph.as_graph_element("s") is op
    )
    assert graph.as_graph_element("s:1") is b and graph.get_tensor_by_name("s:0") is a
    assert graph.get_operation_by_name("s") is op and graph.as_graph_element(variable).op.type == "VariableV2"
    assert graph.get_operations()[-1].name == "v/read" and graph.as_graph_element(b"s:1") is b
    for name, error, text in (
        ("s:2", KeyError, "The name 's:2' refers to a Tensor which does not exist. The operation, 's', exists but only has 2 outputs."),
        ("x:0", KeyError, "The name 'x:0' refers to a Tensor which does not exist. The operation, 'x', does not exist in the graph."),
        ("x", KeyError, "The name 'x' refers to an Operation not in the graph."),
        ("s:0:1", ValueError, "The name 's:0:1' looks a like a Tensor name, but is not a valid one."),
        ("s:a", ValueError, 'Tensor names must be of the form "<op_name>:<output_index>".'),
    ):  # fmt: skip
        with pytest.raises(error) as caught:
            graph.as_graph_element(name)
        assert text in str(caught.value.args[0])
    with pytest.raises(ValueError, match="Name 's:0' appears to refer to a Tensor, not a Operation."):
        graph.get_operation_by_name("s:0")
    with pytest.raises(ValueError, match="The name 's' refers to an Operation, not a Tensor."):
        graph.get_tensor_by_name("s")
    with pytest.raises(
        ValueError, match="The name 'x' looks like an \\(invalid\\) Operation name, not a Tensor."
    ):
        graph.get_tensor_by_name("x")
    with pytest.raises(TypeError, match="Tensor names are strings \\(or similar\\), not Tensor."):
        graph.get_tensor_by_name(a)
    with pytest.raises(TypeError, match="Can not convert a float into a Tensor or Operation."):
        graph.as_graph_element(1.5)
    with pytest.raises(TypeError, match="Can not convert a Operation into a Tensor."):
        graph.as_graph_element(op, allow_operation=False)
    with pytest.raises(ValueError, match="allow_tensor and allow_operation can't both be False."):
        graph.as_graph_element(op, allow_tensor=False, allow_operation=False)
    with tf.Graph().as_default() as other:
        with pytest.raises(ValueError, match="Tensor Tensor\\(.*\\) is not an element of this graph."):
            other.as_graph_element(a)
        with pytest.raises(ValueError, match="Operation .* is not an element of this graph."):
            other.as_graph_element(op)


def test_default_graphs() -> None:
    first = tf.get_default_graph()
    assert tf.get_default_graph() is first
    with tf.Graph().as_default() as graph:
        assert tf.get_default_graph() is graph
        with pytest.raises(
            AssertionError, match="Do not use tf.reset_default_graph\\(\\) to clear nested graphs"
        ):
            tf.reset_default_graph()
        with pytest.raises(ValueError):
            with tf.Graph().as_default():
                raise ValueError("left")
        assert tf.get_default_graph() is graph
    assert tf.get_default_graph() is first
    tf.reset_default_graph()
    assert tf.get_default_graph() is not first
    seen = []
    with tf.Graph().as_default() as graph:
        thread = threading.Thread(target=lambda: seen.append(tf.get_default_graph()))
        thread.start()
        thread.join(10)
    assert seen[0] is tf.get_default_graph() and seen[0] is not graph


def test_graphs_do_not_mix() -> None:
    with tf.Graph().as_default():
        a = tf.constant(1.0, name="a")
    with tf.Graph().as_default():
        b = tf.constant(2.0, name="b")
        # The graph of the inputs is taken, not the default one.
        assert (a + 1.0).graph is a.graph
        with pytest.raises(ValueError, match="Tensor\\(.*\\) must be from the same graph as Tensor\\(.*\\)."):
            tf.add(a, b)
        with pytest.raises(ValueError, match="must be from the same graph"):
            tf.group(a.op, b.op)
    with pytest.raises(ValueError):
        ops._get_graph_from_inputs([a], tf.Graph())


def test_finalized_graphs_stay_as_they_are() -> None:
    graph = tf.Graph()
    with graph.as_default():
        a = tf.constant(1)
        assert not graph.finalized
        graph.finalize()
        assert graph.finalized
        with pytest.raises(RuntimeError, match="Graph is finalized and cannot be modified."):
            tf.constant(2)
        with pytest.raises(RuntimeError, match="Graph is finalized and cannot be modified."):
            graph.add_to_collection("x", 1)
        with tf.Session() as session:
            assert session.run(a) == 1
    graph._unsafe_unfinalize()
    with graph.as_default():
        assert tf.constant(2).op.name == "Const_1"


def test_versions_and_messages() -> None:
    graph = tf.Graph()
    with graph.as_default():
        assert graph.version == 0
        tf.constant(1, name="a")
        assert graph.version == 1
        version = graph.version
        placeholder = tf.placeholder(tf.float32, [None, 2], name="p")
    assert graph.version == 2 and [n.name for n in graph.as_graph_def().node] == ["a", "p"]
    assert [n.name for n in graph.as_graph_def(from_version=version).node] == ["p"]
    shapes = graph.as_graph_def(add_shapes=True).node[1].attr["_output_shapes"].list.shape
    assert [d.size for d in shapes[0].dim] == [-1, 2] and placeholder.op._id == 2
    versions = graph.graph_def_versions
    assert (
        versions.producer == tf.GRAPH_DEF_VERSION
        and versions.min_consumer == tf.GRAPH_DEF_VERSION_MIN_CONSUMER
    )
    assert "_output_shapes" not in graph.as_graph_def().node[1].attr


def test_operations() -> None:
    a = tf.constant([1.0, 2.0], name="a")
    b = tf.constant([3.0, 4.0], name="b")
    with tf.control_dependencies([b.op]):
        c = tf.identity(a, name="c")
    op = c.op
    assert (op.name, op.type, op.device) == ("c", "Identity", "") and op.graph is tf.get_default_graph()
    assert list(op.inputs) == [a] and len(op.inputs) == 1 and op.inputs[0] is a and op.outputs == [c]
    assert op.control_inputs == [b.op] and b.op._control_outputs == [op] and op.values() == (c,)
    assert a.consumers() == [op] and c.consumers() == [] and c.value_index == 0 and c.name == "c:0"
    assert op.node_def.name == "c" and list(op.node_def.input) == ["a", "^b"] and op.op_def.name == "Identity"
    assert repr(op) == "<tf.Operation 'c' type=Identity>" and str(op) == str(op.node_def)
    assert (
        repr(c) == "<tf.Tensor 'c:0' shape=(2,) dtype=float32>"
        and str(c) == 'Tensor("c:0", shape=(2,), dtype=float32)'
    )
    assert str(tf.placeholder(tf.int32, name="u")) == 'Tensor("u:0", dtype=int32)'
    assert copy.copy(c) is c and len({c, a, c}) == 2 and c == c and c != a and not c == 1
    with pytest.raises(AttributeError):
        op.outputs = []
    frames = op.traceback
    assert any(frame[0] == __file__ and frame[2] == "test_operations" for frame in frames)


def test_attributes() -> None:
    op = tf.constant([1.0, 2.0], name="a").op
    assert op.get_attr("dtype") == dtypes.float32 and op.get_attr("value").dtype == types_pb2.DT_FLOAT
    with pytest.raises(ValueError, match="Operation 'a' has no attr named 'nothing'."):
        op.get_attr("nothing")
    for name, message, value in (
        ("i", attr_value_pb2.AttrValue(i=-2), -2), ("f", attr_value_pb2.AttrValue(f=2.5), 2.5),
        ("b", attr_value_pb2.AttrValue(b=True), True), ("s", attr_value_pb2.AttrValue(s=b"xy"), b"xy"),
        ("t", attr_value_pb2.AttrValue(type=types_pb2.DT_INT64), dtypes.int64),
        ("li", attr_value_pb2.AttrValue(list=attr_value_pb2.AttrValue.ListValue(i=[1, 2])), [1, 2]),
        ("ls", attr_value_pb2.AttrValue(list=attr_value_pb2.AttrValue.ListValue(s=[b"a", b"b"])), [b"a", b"b"]),
        ("lt", attr_value_pb2.AttrValue(list=attr_value_pb2.AttrValue.ListValue(type=[1, 3])), [dtypes.float32, dtypes.int32]),
        ("empty", attr_value_pb2.AttrValue(list=attr_value_pb2.AttrValue.ListValue()), []),
        ("fn", attr_value_pb2.AttrValue(func=attr_value_pb2.NameAttrList(name="F")), attr_value_pb2.NameAttrList(name="F")),
    ):  # fmt: skip
        op._set_attr("_" + name, message)
        assert op.get_attr("_" + name) == value
        op._clear_attr("_" + name)
        with pytest.raises(ValueError):
            op.get_attr("_" + name)
    conv = tf.nn.conv2d(tf.zeros([1, 4, 4, 1]), tf.zeros([2, 2, 1, 1]), [1, 2, 2, 1], "SAME").op
    assert (
        conv.get_attr("strides") == [1, 2, 2, 1]
        and conv.get_attr("padding") == b"SAME"
        and conv.get_attr("use_cudnn_on_gpu")
    )
    assert conv.get_attr("T") == tf.float32


def test_create_op() -> None:
    graph = tf.Graph()
    with graph.as_default():
        a = graph.create_op("Placeholder", [], [dtypes.float32], None, name="a",
                            attrs={"dtype": attr_value_pb2.AttrValue(type=types_pb2.DT_FLOAT)}).outputs[0]  # fmt: skip
        out = graph.create_op("AddN", [a, a], [dtypes.float32], name="sum",
                              attrs={"N": attr_value_pb2.AttrValue(i=2), "T": attr_value_pb2.AttrValue(type=1)})  # fmt: skip
        assert out.name == "sum" and list(out.inputs) == [a, a]
        with pytest.raises(TypeError, match="Input #0 is not a tensor"):
            graph.create_op("Identity", [1.0], [dtypes.float32])
        with tf.Session() as session:
            assert session.run(out.outputs[0], {a: 2.0}) == 4.0


def test_node_definitions_become_operations() -> None:
    graph = tf.Graph()
    op = ops.Operation(ops._NodeDef("NoOp", "nothing"), graph, [], [])
    assert op.type == "NoOp" and graph.get_operation_by_name("nothing") is op
    for name in ("a", "a.b", "a/b", "0", "a-b", "A_b"):
        ops._NodeDef("NoOp", name)
        ops.Operation(ops._NodeDef("NoOp", name + "_"), graph, [], [])
    for name in ("", "_a", "/a", "a b", "é"):
        with pytest.raises(ValueError, match="is not a valid node name"):
            ops.Operation(ops._NodeDef("NoOp", name), graph, [], [])
    with pytest.raises(TypeError, match="node_def needs to be a NodeDef"):
        ops.Operation(None, graph)
    with pytest.raises(TypeError, match="g needs to be a Graph"):
        ops.Operation(ops._NodeDef("NoOp", "z"), None)


def test_changing_operations() -> None:
    a, b = tf.constant(1.0), tf.constant(2.0)
    total = tf.add(a, b)
    total.op._update_input(1, a)
    assert list(total.op.inputs) == [a, a] and b.consumers() == []
    total.op._add_control_input(b.op)
    assert total.op.control_inputs == [b.op]
    with tf.Session() as session:
        assert session.run(total) == 2.0
    total.op._remove_all_control_inputs()
    assert total.op.control_inputs == []
    total.op._set_device("/cpu:0")
    assert total.device == "/device:CPU:0"
    with pytest.raises(TypeError, match="tensor must be a Tensor"):
        total.op._update_input(0, 3)
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="must be from the same graph"):
            total.op._update_input(0, tf.constant(1.0))


def test_shapes_of_tensors() -> None:
    tensor = tf.placeholder(tf.float32)
    assert tensor.shape.ndims is None
    tensor.set_shape([None, 3])
    assert tensor.shape.as_list() == [None, 3]
    tensor.set_shape([2, None])
    assert tensor.shape.as_list() == [2, 3] and tensor.get_shape().as_list() == [2, 3]
    with pytest.raises(ValueError):
        tensor.set_shape([4, 3])
    with pytest.raises(ValueError):
        tensor.set_shape([2])
    assert tensor._shape_as_list() == [2, 3] and tensor._rank() == 2
    assert tf.matmul(tensor, tf.zeros([3, 5])).shape.as_list() == [2, 5]


def test_tensors_are_neither_true_nor_iterable() -> None:
    tensor = tf.constant([1, 2])
    with pytest.raises(TypeError, match="Using a `tf.Tensor` as a Python `bool` is not allowed."):
        bool(tensor)
    with pytest.raises(TypeError, match="Using a `tf.Tensor` as a Python `bool` is not allowed."):
        if tensor:
            pass
    with pytest.raises(TypeError, match="Tensor objects are only iterable when eager execution is enabled."):
        iter(tensor)
    with pytest.raises(TypeError, match="Cannot iterate over a scalar tensor|only iterable when eager"):
        list(tf.constant(1))
    with pytest.raises(TypeError, match="len is not well defined for symbolic Tensors"):
        len(tensor)
    with pytest.raises(
        NotImplementedError, match="Cannot convert a symbolic Tensor \\(Const:0\\) to a numpy array."
    ):
        np.array(tensor)
    with pytest.raises(TypeError):
        int(tf.constant(1))
    with pytest.raises(TypeError):
        [1, 2][tf.constant(0)]


def test_arrays_leave_operators_to_tensors() -> None:
    tensor = tf.constant([1.0, 2.0])
    for made in (np.ones(2, np.float32) + tensor, np.float32(3) * tensor, np.ones(2, np.float32) - tensor,
                 np.ones([2, 2], np.float32) @ tf.ones([2, 2])):  # fmt: skip
        assert isinstance(made, tf.Tensor)
    assert isinstance(np.ones(2, np.float32) < tensor, tf.Tensor)


def test_eval_and_run_need_a_session() -> None:
    tensor, op = tf.constant(3.0), tf.no_op()
    with pytest.raises(
        ValueError, match="Cannot evaluate tensor using `eval\\(\\)`: No default session is registered."
    ):
        tensor.eval()
    with pytest.raises(
        ValueError, match="Cannot execute operation using `run\\(\\)`: No default session is registered."
    ):
        op.run()
    with tf.Session() as session:
        assert tensor.eval() == 3.0 and op.run() is None and tensor.eval(session=session) == 3.0
        placeholder = tf.placeholder(tf.float32)
        assert (placeholder * 2.0).eval({placeholder: 4.0}) == 8.0
        with tf.Graph().as_default():
            other = tf.constant(1.0)
            with pytest.raises(
                ValueError,
                match="Cannot use the default session to evaluate tensor: the tensor's graph is different",
            ):
                other.eval()
            with pytest.raises(ValueError, match="Cannot use the given session to evaluate tensor"):
                other.eval(session=session)


def test_graphs_are_freed() -> None:
    def make() -> weakref.ref[tf.Graph]:
        with tf.Graph().as_default() as graph:
            x = tf.Variable(tf.ones([3]))
            tf.gradients(tf.reduce_sum(x * x), [x])
            tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
            return weakref.ref(graph)

    references = [make() for _ in range(3)]
    gc.collect()
    assert [r() for r in references] == [None] * 3


def test_changes_after_a_run_are_warned_of():
    from unittest import mock

    from millrace.python.platform import tf_logging

    with tf.Graph().as_default() as graph:
        a = tf.constant(1.0)
        b = tf.identity(a, name="b")
        with mock.patch.object(tf_logging, "warning") as warning:
            with tf.Session() as sess:
                sess.run(b)
                later = tf.identity(a)
                later.op._set_device("/cpu:0")  # the session does not have it yet
                assert not warning.called
                b.op._add_control_input(tf.no_op())
                b.op._update_input(0, tf.constant(2.0))
            text = warning.call_args_list[1][0]
            assert "was changed by %s after it was run by a session" in text[0]
            assert text[1:] == ("b", "updating input tensor")
            b.op._set_device("/cpu:0")  # the session is closed
            assert warning.call_count == 2
        assert graph.version > 0


def test_consumers_are_listed_once_for_each_use() -> None:
    with tf.Graph().as_default():
        x = tf.constant(1.0)
        y, z = tf.multiply(x, x), tf.negative(x)
        assert sorted(op.name for op in x.consumers()) == sorted([y.op.name, y.op.name, z.op.name])


def test_ops_that_are_not_there() -> None:
    with pytest.raises(
        tf.errors.NotFoundError, match="Op type not registered 'NoSuchOp' in binary running on"
    ):
        tf.Graph().create_op("NoSuchOp", [], [])


def test_operations_of_node_defs_are_told_once() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.int32, [], name="x")
        made = ops._create_c_op(graph, ops._NodeDef("Identity", "myop"), [x], [])
        op = graph._create_op_from_tf_operation(made)
        assert op.name == "myop" and list(op.inputs) == [x] and x.consumers() == [op] and op.traceback
        assert graph._add_new_tf_operations() == [] and graph.get_operation_by_name("myop") is op

        def branch() -> tf.Tensor:
            ops._create_c_op(tf.get_default_graph(), ops._NodeDef("Identity", "cond/inner"), [x], [])
            assert len(graph._add_new_tf_operations()) == 1
            return x

        tf.cond(x < 10, branch, lambda: x)
        inner = graph.get_operation_by_name("cond/inner")
        assert inner.inputs[0].op.type == "Switch" and inner.inputs[0].op.inputs[0] is x
        assert inner._get_control_flow_context().name == "cond/cond_text"

        def body(i: tf.Tensor) -> tf.Tensor:
            ops._create_c_op(tf.get_default_graph(), ops._NodeDef("Identity", "myloop/inner"), [x], [])
            assert len(graph._add_new_tf_operations()) == 1
            return i

        tf.while_loop(lambda i: i < 10, body, [0], name="myloop")
        inner = graph.get_operation_by_name("myloop/inner")
        assert inner.inputs[0].op.type == "Enter" and list(inner.inputs[0].op.inputs) == [x]
        assert inner._get_control_flow_context().name == "myloop/while_context"
