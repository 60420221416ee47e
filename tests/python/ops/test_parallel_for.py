# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Loops of independent iterations, and Jacobians."""
from __future__ import annotations

import numpy as np
import pytest

import millrace as tf
from millrace.python.ops.parallel_for import control_flow_ops, gradients, test_util


def evaluate(fetches: object, feeds: object = None) -> object:
    with tf.Session() as session:
        return session.run(fetches, feeds)


def test_for_loop_and_pfor() -> None:
    x = tf.constant(np.arange(12.0).reshape(4, 3))
    both = control_flow_ops.pfor(lambda i: (tf.gather(x, i) * 2.0, i), 4)
    rows, numbers = evaluate(both)
    np.testing.assert_array_equal(rows, np.arange(12.0).reshape(4, 3) * 2)
    assert numbers.tolist() == [0, 1, 2, 3]
    assert evaluate(control_flow_ops.for_loop(lambda i: i * i, tf.int32, tf.constant(5))).tolist() == [
        0,
        1,
        4,
        9,
        16,
    ]
    with pytest.raises(ValueError, match="must be None or a positive integer"):
        control_flow_ops.pfor(lambda i: i, 3, parallel_iterations=0)


def test_vectorized_map() -> None:
    a, b = np.random.rand(5, 2).astype(np.float32), np.random.rand(5, 2).astype(np.float32)
    made = evaluate(tf.vectorized_map(lambda e: tf.tensordot(e[0], e[1], 1), (a, b)))
    np.testing.assert_allclose(made, (a * b).sum(1), rtol=1e-5)


def test_jacobians() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    y = tf.stack([x[:, 0] * x[:, 1], x[:, 0] + 3.0 * x[:, 1], x[:, 0] ** 2], axis=1)
    full = gradients.jacobian(y, [x, tf.constant(1.0)])
    assert full[0].shape.as_list() == [2, 3, 2, 2] and full[1] is None
    batch = gradients.batch_jacobian(y, x)
    whole, rows = evaluate([full[0], batch])
    want = np.array([[[2.0, 1.0], [1.0, 3.0], [2.0, 0.0]], [[4.0, 3.0], [1.0, 3.0], [6.0, 0.0]]])
    np.testing.assert_allclose(rows, want)
    for i in range(2):
        np.testing.assert_allclose(whole[i, :, i], want[i])
        assert (whole[i, :, 1 - i] == 0).all()


class Compared(test_util.PForTestCase):
    """What the base of tests of pfor compares."""

    def test_equal_loops(self) -> None:
        with self.cached_session(), tf.Graph().as_default() as graph, self.session(graph=graph):
            v = tf.Variable([1.0, 2.0, 3.0])
            self._test_loop_fn(lambda i: tf.gather(v, i) * 3.0, 3, loop_fn_dtypes=tf.float32)

    def test_other_values(self) -> None:
        with tf.Graph().as_default() as graph, self.session(graph=graph):
            with self.assertRaises(AssertionError):
                self.run_and_assert_equal([tf.constant(1.0)], [tf.constant(2.0)])
