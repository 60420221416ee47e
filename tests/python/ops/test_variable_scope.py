# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Scopes of variables: names, reuse, defaults, getters, partitions."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf

RNG = np.random.RandomState(1)


def test_names_and_reuse() -> None:
    with tf.variable_scope("a") as scope:
        v = tf.get_variable("v", [1])
        with tf.variable_scope("b"):
            w = tf.get_variable("w", [1])
    assert v.name == "a/v:0" and w.name == "a/b/w:0" and scope.name == "a"
    with tf.variable_scope(scope, reuse=True):
        assert tf.get_variable("v", [1]) is v
    with tf.variable_scope("a", reuse=tf.AUTO_REUSE):
        assert tf.get_variable("v", [1]) is v and tf.get_variable("new", [2]).name == "a/new:0"
    with tf.variable_scope("a"):
        with pytest.raises(
            ValueError,
            match="Variable a/v already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in VarScope\\?",
        ):
            tf.get_variable("v", [1])
    with tf.variable_scope("a", reuse=True):
        with pytest.raises(
            ValueError, match="Variable a/x does not exist, or was not created with tf.get_variable\\(\\)."
        ):
            tf.get_variable("x", [1])
        with pytest.raises(
            ValueError,
            match="Trying to share variable a/v, but specified shape \\(2,\\) and found shape \\(1,\\).",
        ):
            tf.get_variable("v", [2])
        with pytest.raises(
            ValueError,
            match="Trying to share variable a/v, but specified dtype int32 and found dtype float32",
        ):
            tf.get_variable("v", [1], tf.int32)
    with tf.variable_scope(tf.get_variable_scope()):
        tf.get_variable_scope().reuse_variables()
        assert tf.get_variable_scope().reuse


def test_default_names_and_name_scopes() -> None:
    with tf.variable_scope(None, "layer") as a:
        assert tf.constant(1).op.name == "layer/Const"
    with tf.variable_scope(None, "layer") as b:
        pass
    assert (a.name, b.name) == ("layer", "layer_1")
    with tf.variable_scope("s"):
        pass
    with tf.variable_scope("s"):
        assert tf.constant(1).op.name == "s_1/Const" and tf.get_variable("v", []).name == "s/v:0"
    with tf.variable_scope(a, auxiliary_name_scope=False):
        assert tf.get_variable("x", []).name == "layer/x:0"
    with tf.variable_scope(a) as again:
        assert again.original_name_scope == "layer/"
    with tf.name_scope("n"):
        assert tf.get_variable("outside", []).name == "outside:0"
        assert tf.Variable(1.0, name="inside").name == "n/inside:0"
    with pytest.raises(TypeError, match="If default_name is None then name_or_scope is required"):
        tf.variable_scope(None)
    with tf.variable_op_scope([tf.constant(1)], None, "op") if hasattr(
        tf, "variable_op_scope"
    ) else tf.variable_scope("op"):
        assert tf.get_variable_scope().name == "op"


def test_defaults_of_scopes() -> None:
    ones = tf.ones_initializer()
    regularizer = lambda x: tf.reduce_sum(x) * 2.0  # noqa: E731
    with tf.variable_scope(
        "a", initializer=ones, regularizer=regularizer, dtype=tf.float64, use_resource=True
    ):
        v = tf.get_variable("v", [2])
        with tf.variable_scope("b", initializer=tf.constant_initializer(5.0)):
            w = tf.get_variable("w", [1])
    assert v.dtype == tf.float64 and type(v).__name__ == "ResourceVariable"
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(v).tolist() == [1, 1] and session.run(w).tolist() == [5]
        assert session.run(losses) == [4, 10] and session.run(tf.losses.get_regularization_loss()) == 14


def test_arguments_of_get_variable() -> None:
    v = tf.get_variable("v", initializer=[1.0, 2.0])
    assert v.shape == [2]
    with pytest.raises(ValueError, match="If initializer is a constant, do not specify shape."):
        tf.get_variable("w", [2], initializer=tf.constant([1.0, 2.0]))
    with pytest.raises(ValueError, match="`shape` should be fully defined"):
        tf.get_variable("x", [None])
    with pytest.raises(ValueError, match="`shape` should be fully defined"):
        tf.get_variable("y")
    integer = tf.get_variable("i", [2], tf.int32)
    assert integer.dtype.base_dtype == tf.int32
    frozen = tf.get_variable("f", [], trainable=False)
    assert frozen not in tf.trainable_variables()
    local = tf.get_local_variable("local", [])
    assert local in tf.local_variables() and local not in tf.global_variables()
    constrained = tf.get_variable("c", [], constraint=tf.abs)
    assert constrained.constraint is tf.abs
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(integer).tolist() == [0, 0]


def test_custom_getters_and_creators() -> None:
    def double(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        return getter(name, *args, **kwargs) * 2.0

    with tf.variable_scope("s", custom_getter=double):
        t = tf.get_variable("v", initializer=3.0)
    assert isinstance(t, tf.Tensor)
    seen = []

    def creator(next_creator: Any, **kwargs: Any) -> Any:
        seen.append(kwargs["name"])
        return next_creator(**kwargs)

    with tf.variable_creator_scope(creator):
        tf.Variable(1.0, name="made")
        tf.get_variable("got", [])
    assert seen == ["made", "got"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(t) == 6


def test_partitions() -> None:
    with tf.variable_scope("p", partitioner=tf.fixed_size_partitioner(3)):
        v = tf.get_variable("v", [7, 2], initializer=tf.ones_initializer())
    assert [part.name for part in v] == ["p/v/part_0:0", "p/v/part_1:0", "p/v/part_2:0"]
    assert [part.shape.as_list() for part in v] == [[3, 2], [2, 2], [2, 2]] and v.get_shape() == [7, 2]
    infos = [part._get_save_slice_info().spec for part in v]
    assert infos == ["7 2 0,3:0,2", "7 2 3,2:0,2", "7 2 5,2:0,2"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(tf.convert_to_tensor(v)).tolist() == np.ones([7, 2]).tolist()
    sized = tf.variable_axis_size_partitioner(max_shard_bytes=16)(
        shape=tf.TensorShape([8, 2]), dtype=tf.float32
    )
    assert sized == [4, 1]
    assert tf.min_max_variable_partitioner(max_partitions=2, min_slice_size=8)(
        shape=tf.TensorShape([8, 2]), dtype=tf.float32
    ) == [2, 1]
    parts = tf.create_partitioned_variables([4, 2], [2, 1], tf.zeros_initializer())
    assert len(parts) == 2


def test_collections_by_scope() -> None:
    with tf.variable_scope("one"):
        a = tf.get_variable("a", [])
    with tf.variable_scope("two"):
        b = tf.get_variable("b", [])
    assert tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope="two") == [b]
    assert tf.global_variables("one") == [a]
    with tf.variable_scope("one") as scope:
        assert scope.trainable_variables() == [a] and scope.global_variables() == [a]


def test_internal_names() -> None:
    from millrace.python.ops import variable_scope

    store = variable_scope._get_default_variable_store()
    v = tf.get_variable("v", [])
    assert store._vars["v"] is v
    with variable_scope._pure_variable_scope("pure"):
        assert tf.get_variable("x", []).name == "pure/x:0"
    assert variable_scope.variable(1.0).dtype.base_dtype == tf.float32
    assert variable_scope.VariableScope(False, name="n").name == "n"
    with variable_scope.variable_scope("outer"):
        with variable_scope.name_scope("inner") if hasattr(variable_scope, "name_scope") else tf.name_scope(
            "inner"
        ):
            assert tf.get_variable_scope().name == "outer"
