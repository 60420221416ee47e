# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Scopes: names, devices, control inputs, colocation, attributes, gradients and containers."""
from __future__ import annotations

import pytest

import millrace as tf
from millrace.core.framework import attr_value_pb2
from millrace.python.framework import ops


def test_name_scopes() -> None:
    with tf.name_scope("foo") as scope:
        assert scope == "foo/" and tf.constant(1, name="a").op.name == "foo/a"
        with tf.name_scope("bar") as inner:
            assert inner == "foo/bar/" and tf.constant(1).op.name == "foo/bar/Const"
        with tf.name_scope("bar") as again:
            assert again == "foo/bar_1/"
        with tf.name_scope(scope) as same:
            assert same == "foo/" and tf.constant(1, name="b").op.name == "foo/b"
        with tf.name_scope(None, "default") as made:
            assert made == "foo/default/"
        with tf.name_scope(""):
            assert tf.constant(1, name="top").op.name == "top"
        with tf.name_scope(None):
            assert tf.constant(1, name="top").op.name == "top_1"
    with tf.name_scope("foo") as scope:
        assert scope == "foo_1/"
    graph = tf.get_default_graph()
    with graph.name_scope("x") as scope:
        assert scope == "x/" and graph.get_name_scope() == "x"
        with graph.name_scope(None) as outside:
            assert outside == ""
    for wrong in ("_bad", "a b", "/x"):
        with pytest.raises(ValueError, match="is not a valid scope name"):
            with tf.name_scope(wrong):
                pass
    with tf.name_scope("ok"):
        with tf.name_scope("_fine") as scope:
            assert scope == "ok/_fine/"


def test_name_scope_takes_the_graph_of_values() -> None:
    with tf.Graph().as_default() as graph:
        a = tf.constant(1.0)
    with tf.name_scope("s", values=[a]) as scope:
        assert tf.get_default_graph() is graph and scope == "s/"
    with tf.name_scope(None, "d", [a, 1.0]) as scope:
        assert scope == "d/"
    with pytest.raises(
        ValueError, match="At least one of name \\(None\\) and default_name \\(None\\) must be provided."
    ):
        with tf.name_scope(None, None, [a]):
            pass
    with pytest.raises(TypeError, match="name for name_scope must be a string."):
        tf.name_scope(3)
    with tf.op_scope([a], "old") as scope:
        assert scope == "old/" and tf.get_default_graph() is graph


def test_device_scopes() -> None:
    with tf.device("/job:worker/replica:2"):
        a = tf.constant(1)
        with tf.device("/device:CPU:1"):
            b = tf.constant(1)
            with tf.device(None):
                c = tf.constant(1)
        with tf.device("/job:ps"):
            d = tf.constant(1)
        with tf.device(tf.DeviceSpec(device_type="GPU", device_index=3)):
            e = tf.constant(1)
    assert (
        a.device == "/job:worker/replica:2"
        and b.device == "/job:worker/replica:2/device:CPU:1"
        and c.device == ""
    )
    assert d.device == "/job:ps/replica:2" and e.device == "/job:worker/replica:2/device:GPU:3"
    assert tf.constant(1).device == ""
    with pytest.raises(ValueError, match="Unknown attribute|Invalid|too many values|not enough"):
        with tf.device("/nonsense:x"):
            tf.constant(1)


def test_device_functions() -> None:
    def choose(op: tf.Operation) -> str:
        return "/device:CPU:0" if op.type == "Const" else "/device:GPU:0"

    with tf.device(choose):
        a = tf.constant(1.0)
        b = tf.identity(a)
        with tf.device("/job:ps"):
            c = tf.constant(1.0)
    assert a.device == "/device:CPU:0" and b.device == "/device:GPU:0" and c.device == "/device:CPU:0"
    with tf.device(lambda op: None):
        assert tf.constant(1).device == ""
    with tf.device(lambda op: "/job:a"):
        with tf.device("/job:b"):
            assert tf.constant(1).device == "/job:a"


def test_control_dependencies() -> None:
    a, b, c = tf.constant(1), tf.constant(2), tf.constant(3)
    with tf.control_dependencies([a, b.op]):
        d = tf.constant(4)
        e = tf.identity(a)
        with tf.control_dependencies([c]):
            f = tf.constant(5)
            g = tf.identity(f)
            with tf.control_dependencies(None):
                h = tf.constant(6)
    assert set(d.op.control_inputs) == {a.op, b.op} and set(e.op.control_inputs) == {b.op}
    assert (
        set(f.op.control_inputs) == {a.op, b.op, c.op}
        and g.op.control_inputs == []
        and h.op.control_inputs == []
    )
    variable = tf.Variable(1.0, use_resource=True)
    with tf.control_dependencies([variable, "Const:0", "Const_1"]):
        names = {op.name for op in tf.constant(1).op.control_inputs}
    assert {"Const", "Const_1"} <= names and len(names) == 3
    with pytest.raises(TypeError, match="Can not convert a int into a Tensor or Operation."):
        with tf.control_dependencies([3]):
            pass
    with pytest.raises(KeyError):
        tf.control_dependencies(["nothing"])


def test_colocation() -> None:
    with tf.device("/device:CPU:0"):
        a = tf.constant(1.0, name="a")
    b = tf.constant(1.0, name="b")
    with tf.colocate_with(a.op):
        c = tf.constant(2.0, name="c")
    with ops.colocate_with(b):
        with ops.colocate_with(a):
            d = tf.constant(3.0, name="d")
        with ops.colocate_with(c, ignore_existing=True):
            e = tf.constant(4.0, name="e")
    assert c.op.colocation_groups() == [b"loc:@a"] and c.device == "/device:CPU:0"
    assert d.op.colocation_groups() == [b"loc:@a", b"loc:@b"] and a.op.colocation_groups() == [b"loc:@a"]
    assert e.op.colocation_groups() == [b"loc:@a"]
    with pytest.raises(ValueError):
        c.op.get_attr("_nothing")
    with pytest.raises(
        ValueError, match="Trying to reset colocation \\(op is None\\) but ignore_existing is not True"
    ):
        with ops.colocate_with(None):
            pass
    with ops.colocate_with(a):
        with ops.colocate_with(None, ignore_existing=True):
            free = tf.constant(1.0, name="free")
    assert free.op.colocation_groups() == [b"loc:@free"]
    with ops.colocate_with(a), tf.device("/device:CPU:1"):
        later = tf.constant(1.0)
    assert later.op.colocation_groups() == [b"loc:@a"]


def test_attribute_scopes() -> None:
    graph = tf.get_default_graph()
    with graph._attr_scope({"_A": attr_value_pb2.AttrValue(s=b"foo")}):
        a = tf.no_op()
        with graph._attr_scope({"_A": None, "_B": attr_value_pb2.AttrValue(i=3)}):
            b = tf.no_op()
        with graph._attr_scope({"_A": lambda node: attr_value_pb2.AttrValue(s=node.name.encode())}):
            c = tf.no_op(name="named")
    assert a.get_attr("_A") == b"foo" and b.get_attr("_B") == 3 and c.get_attr("_A") == b"named"
    for op, name in ((b, "_A"), (a, "_B"), (tf.no_op(), "_A")):
        with pytest.raises(ValueError):
            op.get_attr(name)
    with pytest.raises(TypeError, match="attr_map must be a dictionary"):
        with graph._attr_scope("x"):
            pass
    with pytest.raises(TypeError):
        with graph._attr_scope({"x": 3}):
            pass


def test_kernel_labels_and_gradient_overrides() -> None:
    graph = tf.get_default_graph()
    with graph._kernel_label_map({"Square": "fast"}):
        a = tf.square(2.0)
        b = tf.sqrt(2.0)
    assert a.op.get_attr("_kernel") == b"fast"
    with pytest.raises(ValueError):
        b.op.get_attr("_kernel")
    with graph.gradient_override_map({"Square": "CustomSquare"}):
        c = tf.square(2.0)
        with graph.gradient_override_map({"Sqrt": "CustomSqrt"}):
            d = tf.sqrt(2.0)
    assert (
        c.op.get_attr("_gradient_op_type") == b"CustomSquare"
        and d.op.get_attr("_gradient_op_type") == b"CustomSqrt"
    )
    with pytest.raises(TypeError):
        with graph.gradient_override_map({"Square": 3}):
            pass


def test_containers() -> None:
    graph = tf.get_default_graph()
    with graph.container("outer"):
        a = tf.Variable(1.0)
        with graph.container("inner"):
            b = tf.FIFOQueue(1, [tf.float32])
        with tf.container(""):
            c = tf.Variable(1.0)
    assert a.op.get_attr("container") == b"outer" and b.queue_ref.op.get_attr("container") == b"inner"
    assert c.op.get_attr("container") == b""


def test_scopes_of_names() -> None:
    assert ops.strip_name_scope("hidden1/hidden2/weights", "hidden1") == "hidden2/weights"
    assert (
        ops.strip_name_scope("^hidden1/w", "hidden1/") == "^w"
        and ops.strip_name_scope("loc:@s/w", "s") == "loc:@w"
    )
    assert ops.strip_name_scope("other/w", "hidden1") == "other/w" and ops.strip_name_scope("a", None) == "a"
    assert ops.prepend_name_scope("w", "s") == "s/w" and ops.prepend_name_scope("^w", "s") == "^s/w"
    assert ops.prepend_name_scope("loc:@w", "s/") == "loc:@s/w" and ops.prepend_name_scope("w", "") == "w"
    assert ops.name_from_scope_name("a/b/") == "a/b" and ops.name_from_scope_name("a") == "a"


def test_init_scope() -> None:
    a = tf.constant(1.0)
    with tf.name_scope("outer"), tf.control_dependencies([a]):
        with tf.init_scope():
            b = tf.constant(2.0, name="b")
    assert b.op.control_inputs == [] and b.op.name == "outer/b"
