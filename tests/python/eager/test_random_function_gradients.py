# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Tapes over functions whose loops and conditions, as functions, draw random numbers or have effects."""
import numpy as np
import pytest

import millrace as tf
from millrace.python.eager import backprop, context, def_function
from millrace.python.ops import cond_v2, functional_ops, while_v2
from millrace.python.framework import function

X = np.array([0.5, 1.0, 1.5, 2.0])


@pytest.fixture(autouse=True)
def eager():
    with context.eager_mode():
        yield


def test_a_loop_in_a_function():
    counter = tf.Variable(0, use_resource=True)

    @def_function.function
    def f(x):
        def body(i, y, noise):
            with tf.control_dependencies([counter.assign_add(1)]):
                r = tf.random.uniform([4], dtype=tf.float64)
            return i + 1, tf.sin(y) * r, tf.concat([noise, [r]], 0)

        shapes = [tf.TensorShape([]), tf.TensorShape([4]), tf.TensorShape([None, 4])]
        start = tf.zeros([0, 4], tf.float64)
        return while_v2.while_loop(lambda i, y, n: i < 3, body, [0, x, start], shape_invariants=shapes)[1:]

    x = tf.constant(X)
    for calls in (1, 2):
        with backprop.GradientTape() as tape:
            tape.watch(x)
            y, noise = f(x)
        g = tape.gradient(y, x)
        v, d = X.copy(), np.ones(4)
        for r in noise.numpy():
            v, d = np.sin(v) * r, np.cos(v) * d * r
        np.testing.assert_allclose(y.numpy(), v)
        np.testing.assert_allclose(g.numpy(), d)
        assert counter.numpy() == 3 * calls


@pytest.mark.parametrize("taken", [True, False])
def test_a_condition_in_a_function(taken):
    @def_function.function
    def f(x, pred):
        def of(fn):
            def branch():
                r = tf.random.uniform([4], dtype=tf.float64)
                return fn(x) * r, r

            return branch

        return cond_v2.cond_v2(pred, of(tf.sin), of(tf.exp))

    x = tf.constant(X)
    with backprop.GradientTape() as tape:
        tape.watch(x)
        y, noise = f(x, tf.constant(taken))
    g = tape.gradient(y, x)
    np.testing.assert_allclose(g.numpy(), (np.cos(X) if taken else np.exp(X)) * noise.numpy())


def test_an_operation_that_was_executed_at_once_has_kept_nothing():
    with tf.Graph().as_default():

        @function.Defun(tf.float64)
        def noisy(a):
            return a * a * tf.random.uniform([4], dtype=tf.float64)

        noisy.add_to_graph(tf.compat.v1.get_default_graph())
    from millrace.python.eager import execute

    execute.add_function(noisy)
    x = tf.constant(X)
    with backprop.GradientTape() as tape:
        tape.watch(x)
        (y,) = functional_ops.If(tf.constant(True), [x], noisy, noisy)
    with pytest.raises(NotImplementedError, match="call it in a tf.function"):
        tape.gradient(y, x)
