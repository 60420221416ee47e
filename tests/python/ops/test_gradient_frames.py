# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients that are made inside branches and loops: each operation lands in the frame that it belongs to."""
from __future__ import annotations

from typing import Any

import numpy as np
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


def of_scaled(variables: list[Any], n: tf.Tensor) -> tf.Tensor:
    first, second = variables
    x = tf.while_loop(
        lambda i, x: i < n, lambda i, x: (i + 1, x * first + second), [0, tf.constant([3.0, 4.0])]
    )[1]
    return tf.reduce_sum(x) + tf.reduce_sum(first)


def of_nested(variables: list[Any], n: tf.Tensor) -> tf.Tensor:
    def body(i: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        x = tf.while_loop(lambda j, x: j < 2, lambda j, x: (j + 1, x * variables[0]), [0, x])[1]
        return i + 1, tf.cond(i < 1, lambda: x * variables[1], lambda: x)

    return tf.while_loop(lambda i, x: i < n, body, [0, tf.constant([0.3, 0.4])])[1]


def of_rows(variables: list[Any], n: tf.Tensor) -> tf.Tensor:
    def body(i: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return i + 1, x + tf.gather(variables[0], [i % 2]) * x * tf.gather(variables[1], [0, 0])

    return tf.while_loop(lambda i, x: i < n, body, [0, tf.constant([0.3, 0.4])])[1]


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("loss", [of_scaled, of_nested, of_rows])
def test_of_variables_that_a_functional_loop_reads(loss: Any, order: int) -> None:
    def values(functional: bool) -> list[Any]:
        with tf.Graph().as_default(), tf.Session() as session:
            if functional:
                tf.enable_control_flow_v2()
            try:
                read = [
                    tf.get_variable(name, initializer=tf.constant(value), use_resource=True)
                    for name, value in (("a", [0.5, 0.6]), ("b", [0.7, 0.8]))
                ]
                n = tf.placeholder_with_default(3, [])
                y = loss(read, n)
                assert not functional or session.graph.get_operation_by_name("while").type == "While"
                for _ in range(order):
                    grads = [tf.convert_to_tensor(g) for g in tf.gradients(y, read)]
                    y = tf.add_n([tf.reduce_sum(g * g) for g in grads])
            finally:
                tf.disable_control_flow_v2()
            session.run(tf.global_variables_initializer())
            return [session.run(grads, {n: count}) for count in (3, 1, 0)]

    for ours, theirs in zip(values(True), values(False)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def _branch_in_a_loop(x: tf.Tensor, branch: Any) -> tf.Tensor:
    """Twice: nothing in the first iteration, then the branch."""

    def body(i: tf.Tensor, a: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return i + 1, tf.cond(i < 1, lambda: a, lambda: branch(a))

    return tf.while_loop(lambda i, a: i < 2, body, [0, x])[1]


@pytest.mark.parametrize(
    "branch",
    [
        lambda a, x: a + tf.gather(x, [1, 1]),
        lambda a, x: a + tf.gather_nd(x, [[1], [1]]),
        lambda a, x: a + tf.nn.embedding_lookup(x, [1, 1]),
        lambda a, x: a + tf.sparse.segment_sum(x, [1, 1], [0, 1]),
        lambda a, x: tf.gather(a, [1, 1]) + a,
        lambda a, x: a + tf.cond(a[0, 0] > 0, lambda: tf.gather(x, [1, 1]), lambda: tf.gather(x, [0])),
    ],
)
def test_of_constant_rows_in_a_branch_of_a_loop(branch: Any) -> None:
    x = tf.constant(np.ones((2, 2), np.float32))
    y = _branch_in_a_loop(x, lambda a: branch(a, x))
    with tf.Session() as session:
        assert session.run(tf.convert_to_tensor(tf.gradients(y, x)[0])).tolist() == [[1, 1], [3, 3]]


def test_of_constant_rows_of_a_variable_in_a_branch_of_a_loop() -> None:
    v = tf.get_variable("v", initializer=np.ones((2, 2), np.float32), use_resource=True)
    y = _branch_in_a_loop(tf.zeros([2, 2]), lambda a: a + tf.gather(v, [1, 1]))
    step = tf.train.GradientDescentOptimizer(1.0).minimize(y)
    with tf.Session() as session:
        session.run(v.initializer)
        session.run(step)
        assert session.run(v).tolist() == [[1, 1], [-1, -1]]


_OUTSIDE = [100.0, 200.0]


@pytest.mark.parametrize("kind", ["constant", "constant of the call", "tensor from outside"])
@pytest.mark.parametrize("taken", [True, False])
def test_that_do_not_depend_on_those_of_the_branch(kind: str, taken: bool) -> None:
    outside = tf.constant(_OUTSIDE)

    @tf.custom_gradient
    def twice(a: tf.Tensor) -> Any:
        own = tf.constant(_OUTSIDE)
        given = {"constant of the call": own, "tensor from outside": outside}
        return a * 2.0, lambda dy: given.get(kind, tf.constant(_OUTSIDE))

    x = tf.placeholder(tf.float32, [2])
    pred = tf.placeholder(tf.bool, [])
    once = tf.gradients(tf.cond(pred, lambda: twice(x), lambda: x), x)[0]
    nested = tf.cond(pred, lambda: tf.cond(x[0] > 0, lambda: twice(x), lambda: x), lambda: x)
    in_loop = tf.while_loop(
        lambda i, a: i < 2, lambda i, a: (i + 1, tf.cond(pred, lambda: twice(a), lambda: a)), [0, x]
    )[1]
    everything = [once, tf.gradients(nested, x)[0], tf.gradients(in_loop, x)[0]]
    with tf.Session() as session:
        for value in session.run(everything, {x: [3.0, 4.0], pred: taken}):
            assert value.tolist() == (_OUTSIDE if taken else [1, 1])
