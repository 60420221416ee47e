# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients that are written in Python, against closed forms. They do not run the ops themselves."""
from __future__ import annotations

from typing import Any, Iterator

import numpy as np
import pytest

import millrace as tf
from millrace.python.framework import ops
from millrace.python.ops import gen_array_ops, gen_math_ops, gen_resource_variable_ops

_PLACES = [[0, 1], [1, 0], [1, 2]]
_VALUES = np.array([1.0, 2.0, 3.0], np.float32)


@pytest.fixture(autouse=True)
def session() -> Iterator[Any]:
    with tf.Graph().as_default(), tf.Session() as sess:
        yield sess


def _sparse(values: Any) -> tf.SparseTensor:
    return tf.SparseTensor(_PLACES, values, [2, 3])


def test_sparse_sums(session: Any) -> None:
    v = tf.constant(_VALUES)
    g = tf.gradients(tf.sparse_reduce_sum(_sparse(v), 1), v, grad_ys=tf.constant([10.0, 20.0]))
    assert session.run(g[0]).tolist() == [10, 20, 20]
    g = tf.gradients(
        tf.sparse_reduce_sum(_sparse(v), 0, keepdims=True), v, grad_ys=tf.constant([[1.0, 2.0, 3.0]])
    )
    assert session.run(g[0]).tolist() == [2, 1, 3]
    d = tf.constant(np.ones((2, 3), np.float32))
    dy = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    gv, gd = tf.gradients(tf.sparse_add(_sparse(v), d), [v, d], grad_ys=tf.constant(dy))
    assert session.run(gv).tolist() == [1, 3, 5] and session.run(gd).tolist() == dy.tolist()


def test_sparse_products(session: Any) -> None:
    v, row = tf.constant(_VALUES), tf.constant([[2.0, 4.0, 8.0]])
    dy = tf.constant([1.0, 10.0, 100.0])
    g = tf.gradients((_sparse(v) * row).values, v, grad_ys=dy)[0]
    assert session.run(g).tolist() == [4, 20, 800]
    g = tf.gradients((_sparse(v) / row).values, v, grad_ys=dy)[0]
    assert session.run(g).tolist() == [0.25, 5, 12.5]


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_products_of_sparse_matrices(session: Any, transpose_a: bool, transpose_b: bool) -> None:
    rng = np.random.RandomState(0)
    a, b, dy = (rng.rand(*shape).astype(np.float32) for shape in ((2, 3), (3, 4), (2, 4)))
    ta, tb = tf.constant(a.T if transpose_a else a), tf.constant(b.T if transpose_b else b)
    y = gen_math_ops.sparse_mat_mul(ta, tb, transpose_a=transpose_a, transpose_b=transpose_b)
    ga, gb = session.run(tf.gradients(y, [ta, tb], grad_ys=tf.constant(dy)))
    np.testing.assert_allclose(ga.T if transpose_a else ga, dy @ b.T, rtol=1e-5)
    np.testing.assert_allclose(gb.T if transpose_b else gb, a.T @ dy, rtol=1e-5)


def test_scattered_and_gathered_rows(session: Any) -> None:
    x, updates = tf.constant([1.0, 2.0, 3.0]), tf.constant([5.0, 6.0])
    y = gen_array_ops.scatter_nd_non_aliasing_add(tf.identity(x), [[0], [2]], updates)
    gx, gu = tf.gradients(y, [x, updates], grad_ys=tf.constant([1.0, 10.0, 100.0]))
    assert session.run([gx, gu])[0].tolist() == [1, 10, 100] and session.run(gu).tolist() == [1, 100]
    v = tf.get_variable("v", initializer=np.ones((3, 2), np.float32), use_resource=True)
    session.run(v.initializer)
    rows = gen_resource_variable_ops.resource_gather_nd(v.handle, [[2], [0]], dtype=tf.float32)
    g = tf.gradients(rows, v)[0]
    assert isinstance(g, tf.IndexedSlices) and session.run(g.indices).tolist() == [2, 0]
    one = gen_resource_variable_ops.resource_gather_nd(v.handle, [[2, 1]], dtype=tf.float32)
    g = tf.gradients(one, v, grad_ys=tf.constant([7.0]))[0]
    assert session.run(g).tolist() == [[0, 0], [0, 0], [0, 7]]


def test_functions_of_python_end_gradients(session: Any) -> None:
    x = tf.constant([1.0])
    assert tf.gradients(tf.py_func(lambda v: v * 2, [x], tf.float32), x) == [None]
    assert ops.get_gradient_function(tf.py_func(lambda v: v, [x], tf.float32).op) is None
    name = "SquareInPython"
    tf.RegisterGradient(name)(lambda op, grad: grad * 2.0 * op.inputs[0])
    with tf.get_default_graph().gradient_override_map({"PyFunc": name}):
        y = tf.py_func(np.square, [x * 3.0], tf.float32)
    assert session.run([y] + tf.gradients(y, x)) == [9, 18]


def test_gradients_that_tensorflow_does_not_have(session: Any) -> None:
    v = tf.constant([2.0, 3.0])
    one, other = (tf.SparseTensor([[0, 1], [1, 0]], x, [2, 2]) for x in (v, tf.constant([1.0, 5.0])))
    y = tf.sparse_maximum(one, other).values
    assert session.run(tf.gradients(y, v)[0]).tolist() == [1.0, 0.0]
