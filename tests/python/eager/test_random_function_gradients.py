# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Tapes over functions whose loops and conditions, as functions, draw random numbers or have effects."""
import numpy as np
import pytest

import millrace as tf
from millrace.python.eager import backprop, context, def_function
from millrace.python.ops import control_flow_v2_toggles as toggles
from millrace.python.ops import cond_v2, functional_ops, gen_functional_ops, while_v2
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


def test_an_operation_that_is_executed_at_once_keeps_what_its_gradient_needs():
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
    np.testing.assert_allclose(tape.gradient(y, x), 2 * y.numpy() / X)  # of a * a * r


def test_gradients_of_a_function_of_second_and_third_order():
    @tf.function
    def f(x):
        return tf.exp(x * x) * x

    x = tf.constant(0.5, tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as middle:
            middle.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = f(x)
            first = inner.gradient(y, x)
        second = middle.gradient(first, x)
    third = outer.gradient(second, x)
    power = np.exp(0.25)
    np.testing.assert_allclose(first, power * 1.5)  # 1 + 2 x**2
    np.testing.assert_allclose(second, power * 3.5)  # 6 x + 4 x**3
    np.testing.assert_allclose(third, power * (3.5 + 6 + 3))  # 2 x (...) + 6 + 12 x**2


def test_gradients_of_second_order_are_of_the_numbers_that_a_function_drew():
    @tf.function
    def f(x):
        mask = tf.random.uniform([3], dtype=tf.float64)
        return tf.sin(x * x) * mask, mask

    values = np.array([0.5, 0.6, 0.7])
    x = tf.constant(values)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, mask = f(x)
        first = tape.gradient(y, x)
    second = tape.gradient(first, x)
    sine, cosine, m = np.sin(values**2), np.cos(values**2), mask.numpy()
    np.testing.assert_allclose(first, 2 * values * cosine * m)
    np.testing.assert_allclose(second, (2 * cosine - 4 * values**2 * sine) * m)


@pytest.mark.parametrize("functional", [False, True])
def test_gradients_of_second_order_of_a_condition_and_a_loop(functional):
    variable = tf.Variable(2.0, dtype=tf.float64)

    @tf.function
    def f(x):
        y = tf.cond(x > 0, lambda: x * x * variable, lambda: x)
        return tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a * y), [0, x])[1]

    toggles.enable_control_flow_v2() if functional else toggles.disable_control_flow_v2()
    try:
        x = tf.constant(3.0, tf.float64)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            with tf.GradientTape(persistent=True) as inner:
                inner.watch(x)
                z = f(x)  # v**2 x**5
            of_x, of_v = inner.gradient(z, x), inner.gradient(z, variable)
        got = [z, of_x, of_v, tape.gradient(of_x, x), tape.gradient(of_v, x)]
    finally:
        toggles.disable_control_flow_v2()
    np.testing.assert_allclose(got, [4 * 243, 20 * 81, 4 * 243, 80 * 27, 20 * 81])


def test_operations_that_call_functions_are_executed_under_tapes():
    @tf.contrib.eager.defun
    def square(x):
        return x * x

    @tf.contrib.eager.defun
    def negative(x):
        return -x

    spec = tf.TensorSpec([], tf.float64)
    first, second = (f.get_concrete_function(spec)._defined for f in (square, negative))
    x = tf.constant(3.0, tf.float64)
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(x)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            (y,) = gen_functional_ops.stateless_if(
                x > 0, [x], Tout=[tf.float64], then_branch=first, else_branch=second
            )
            (z,) = gen_functional_ops.partitioned_call([x], Tout=[tf.float64], f=first)
            (w,) = gen_functional_ops.case(tf.constant(1), [x], Tout=[tf.float64], branches=[first, second])
        grads = [tape.gradient(t, x) for t in (y, z, w)]
    np.testing.assert_allclose([y, z, w], [9, 9, -3])
    np.testing.assert_allclose(grads, [6, 6, -1])
    np.testing.assert_allclose([outer.gradient(g, x) for g in grads[:2]], [2, 2])


@pytest.mark.parametrize("step", [1.5, 0.5])
def test_functional_control_flow_is_executed_under_tapes(step):
    """x**3 by a loop whose number of iterations the tape does not know, twice with one program."""
    for value in (3.0, 2.0):
        x = tf.constant(value, tf.float64)
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                body = lambda i, v: (i + step, v * x)
                y = while_v2.while_loop(lambda i, v: i < 2 * step, body, [0.0, x])[1]
                y = cond_v2.cond_v2(x > 2.5, lambda: y * y, lambda: y)
            first = tape.gradient(y, x)
        power = 6 if value > 2.5 else 3
        np.testing.assert_allclose(y, value**power)
        np.testing.assert_allclose(first, power * value ** (power - 1))
        np.testing.assert_allclose(outer.gradient(first, x), power * (power - 1) * value ** (power - 2))


def test_a_random_loop_is_executed_under_a_tape():
    x = tf.constant(X)

    def body(i, y, noise):
        r = tf.random.uniform([4], dtype=tf.float64)
        return i + 1, tf.sin(y) * r, tf.concat([noise, [r]], 0)

    shapes = [tf.TensorShape([]), x.shape, tf.TensorShape([None, 4])]
    start = tf.zeros([0, 4], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        _, y, noise = while_v2.while_loop(lambda i, y, n: i < 3, body, [0, x, start], shapes)
    value, derivative = X, np.ones(4)
    for r in noise.numpy():
        value, derivative = np.sin(value) * r, np.cos(value) * derivative * r
    np.testing.assert_allclose(y, value)
    np.testing.assert_allclose(tape.gradient(y, x), derivative)


def test_a_custom_gradient_in_a_branch_that_is_executed_under_a_tape():
    @tf.custom_gradient
    def f(x):
        return x * x, lambda dy: dy * x * 5.0

    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = cond_v2.cond_v2(tf.constant(True), lambda: f(x), lambda: x)
    np.testing.assert_allclose(y, 9)
    np.testing.assert_allclose(tape.gradient(y, x), 15)
