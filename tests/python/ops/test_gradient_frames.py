# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients that are made inside branches and loops: each operation lands in the frame that it belongs to."""
from __future__ import annotations

import pytest

import millrace as tf


def loop(n: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    return tf.while_loop(lambda n: n < 10.0, lambda n: n + x, [n], [tf.TensorShape(None)])


@pytest.mark.parametrize("taken", [True, False])
def test_of_a_loop_in_a_branch(taken: bool) -> None:
    n, x = tf.constant(1.0), tf.placeholder(tf.float32)
    result = tf.cond(
        tf.placeholder_with_default(taken, []), lambda: tf.gradients(loop(n, x), x)[0], lambda: x
    )
    with tf.Session() as session:
        assert session.run(result, {x: 1.0}) == (9.0 if taken else 1.0)


def test_of_nested_loops_in_a_branch() -> None:
    x = tf.placeholder(tf.float32, [])

    def power() -> tf.Tensor:
        def body(i: tf.Tensor, a: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return i + 1, tf.while_loop(lambda j, b: j < 2, lambda j, b: (j + 1, b * x), [0, a])[1]

        return tf.gradients(tf.while_loop(lambda i, a: i < 3, body, [0, 1.0])[1], x)[0]

    result = tf.cond(tf.placeholder_with_default(True, []), power, lambda: x)
    with tf.Session() as session:
        assert session.run(result, {x: 2.0}) == 6 * 2.0**5


def test_of_a_branch_in_a_loop_body() -> None:
    x = tf.placeholder(tf.float32, [])

    def body(i: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        y = tf.cond(tf.equal(i % 2, 0), lambda: x * x, lambda: 3.0 * x)
        return i + 1, total + tf.gradients(y, x)[0]

    result = tf.while_loop(lambda i, _: i < 4, body, [0, 0.0])[1]
    with tf.Session() as session:
        assert session.run(result, {x: 5.0}) == 2 * (10.0 + 3.0)


def test_of_gradients_in_a_branch() -> None:
    n, x = tf.constant(1.0), tf.placeholder(tf.float32, [])

    def twice() -> tf.Tensor:
        y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), [0, n])[1]
        return tf.gradients(tf.gradients(y, x)[0], x)[0]

    result = tf.cond(tf.placeholder_with_default(True, []), twice, lambda: x)
    with tf.Session() as session:
        assert session.run(result, {x: 2.0}) == 12.0
