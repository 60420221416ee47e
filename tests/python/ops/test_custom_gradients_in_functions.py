# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients of Python (tf.custom_gradient, gradient_override_map, …) in bodies of functions."""
import numpy as np
import pytest

import millrace as tf
from millrace.python.framework import function
from millrace.python.ops import cond_v2, while_v2


def run(*fetches):
    with tf.compat.v1.Session() as sess:
        sess.run(tf.compat.v1.global_variables_initializer())
        return sess.run(list(fetches))


@tf.custom_gradient
def cube(x):
    """x**3 that says that its derivative is 5 x**2."""
    square = x * x
    return square * x, lambda dy: dy * square * 5.0


def cond(fn, x, taken=True):
    return cond_v2.cond_v2(tf.constant(taken), lambda: fn(x), lambda: x)


def repeat(fn, x, steps):
    return while_v2.while_loop(lambda i, v: i < steps, lambda i, v: (i + 1, fn(v)), [0, x])[1]


def test_of_a_branch_of_any_order():
    x = tf.constant(2.0)
    y = cond(cube, x)
    (g,) = tf.gradients(y, [x])
    (h,) = tf.gradients(g, [x])
    (k,) = tf.gradients(h, [x])
    (again,) = tf.gradients(2 * y, [x])
    np.testing.assert_allclose(run(y, g, h, k, again), [8, 20, 20, 10, 40])  # 5 x**2, 10 x, 10


def test_of_the_branch_that_is_not_taken():
    x = tf.constant(2.0)
    (g,) = tf.gradients(cond(cube, x, taken=False), [x])
    np.testing.assert_allclose(run(g), [1])


def test_of_a_loop_of_second_order():
    x = tf.constant(1.1)
    y = repeat(cube, x, 2)
    (g,) = tf.gradients(y, [x])
    (h,) = tf.gradients(g, [x])
    u = 1.1**3  # g is 5 u**2 * 5 x**2, and u changes by 5 x**2
    wanted = [1.1**9, 25 * u**2 * 1.21, 50 * u * (5 * 1.21) * (5 * 1.21) / 5 + 5 * u**2 * 11]
    np.testing.assert_allclose(run(y, g, h), wanted, rtol=1e-5)


def test_of_a_branch_in_a_loop():
    x = tf.constant(1.1)

    def body(i, v):
        return i + 1, cond_v2.cond_v2(i < 1, lambda: cube(v), lambda: v * 2)

    y = while_v2.while_loop(lambda i, v: i < 2, body, [0, x])[1]
    (g,) = tf.gradients(y, [x])
    (again,) = tf.gradients(y, [x])
    (h,) = tf.gradients(g, [x])
    np.testing.assert_allclose(run(y, g, again, h), [2 * 1.331, 12.1, 12.1, 22.0], rtol=1e-5)


def test_of_a_loop_in_a_branch_in_a_function():
    @function.Defun(tf.float32)
    def f(v):
        return cond(lambda u: repeat(cube, u, 1), v)

    x = tf.constant(2.0)
    y = f(x)
    (g,) = tf.gradients(y, [x])
    (h,) = tf.gradients(g, [x])
    np.testing.assert_allclose(run(y, g, h), [8, 20, 20])


def test_of_functions_that_call_functions():
    @function.Defun(tf.float32)
    def f(v):
        return cube(v)

    @function.Defun(tf.float32)
    def g(v):
        return f(v) * 2.0

    x = tf.constant(2.0)
    y = g(x)
    (first,) = tf.gradients(y, [x])
    (second,) = tf.gradients(first, [x])
    np.testing.assert_allclose(run(y, first, second), [16, 40, 40])


def test_of_a_tf_function_with_a_condition_in_it():
    @tf.function
    def f(v):
        return cube(v) + tf.cond(v > 0, lambda: cube(v), lambda: v)

    x = tf.constant(2.0)
    y = f(x)
    (g,) = tf.gradients(y, [x])
    (h,) = tf.gradients(g, [x])
    np.testing.assert_allclose(run(y, g, h), [16, 40, 40])


def test_of_a_tf_function_that_is_random():
    @tf.function
    def f(v):
        mask = tf.random.uniform([2])
        return cube(v) * mask, mask

    x = tf.constant([2.0, 3.0])
    y, mask = f(x)
    (g,) = tf.gradients(y, [x])
    value, grad, m = run(y, g, mask)
    np.testing.assert_allclose(value, np.array([8.0, 27.0]) * m, rtol=1e-5)
    np.testing.assert_allclose(grad, 5 * np.array([4.0, 9.0]) * m, rtol=1e-5)


@pytest.mark.parametrize("steps", [1, 3])
def test_of_a_loop_that_is_random(steps):
    x = tf.constant([1.1, 0.9], tf.float64)

    def body(i, v, masks):
        mask = tf.random.uniform([2], dtype=tf.float64)
        return i + 1, cube(v) * mask, tf.concat([masks, [mask]], 0)

    shapes = [tf.TensorShape([]), x.shape, tf.TensorShape([None, 2])]
    start = tf.zeros([0, 2], tf.float64)
    _, y, masks = while_v2.while_loop(lambda i, v, m: i < steps, body, [0, x, start], shape_invariants=shapes)
    (g,) = tf.gradients(y, [x])
    value, grad, drawn = run(y, g, masks)
    v, d = np.array([1.1, 0.9]), np.ones(2)
    for mask in drawn:
        v, d = v**3 * mask, 5 * v**2 * d * mask
    np.testing.assert_allclose(value, v, rtol=1e-10)
    np.testing.assert_allclose(grad, d, rtol=1e-10)


def test_with_a_tensor_that_only_the_gradient_uses():
    x = tf.constant(2.0)
    factor = tf.constant(3.0) * 2

    @tf.custom_gradient
    def f(v):
        return v * v, lambda dy: dy * factor

    (g,) = tf.gradients(cond(f, x), [x])
    np.testing.assert_allclose(run(g), [6])


@pytest.mark.parametrize("build", [cond, lambda f, x: repeat(f, x, 1)])
def test_of_variables(build):
    v = tf.compat.v1.get_variable("v", initializer=3.0, use_resource=True)

    @tf.custom_gradient
    def f(x):
        def grad(dy, variables=None):
            assert [u.name for u in variables] == ["v:0"]
            return dy * 7.0, [dy * x * 11.0]

        return x * v.read_value(), grad

    x = tf.constant(2.0)
    y = build(f, x)
    np.testing.assert_allclose(run(y, *tf.gradients(y, [x, v])), [6, 7, 22])


def test_of_elements_that_a_loop_writes():
    x = tf.constant(2.0)
    array = tf.TensorArray(tf.float32, 3)

    def body(i, array, y):
        return i + 1, array.write(i, cube(y)), y * x

    array = while_v2.while_loop(lambda i, a, y: i < 3, body, [0, array, x])[1]
    (g,) = tf.gradients(array.stack(), [x])
    wanted = sum(5 * 2.0 ** (2 * k) * k * 2.0 ** (k - 1) for k in (1, 2, 3))
    np.testing.assert_allclose(run(g), [wanted])


def test_of_an_op_with_an_overridden_gradient():
    @tf.RegisterGradient("FourTimesInABody")
    def _four_times(op, grad):
        return grad * 4.0

    def branch(x):
        with tf.compat.v1.get_default_graph().gradient_override_map({"Identity": "FourTimesInABody"}):
            return tf.identity(x)

    x = tf.constant(2.0)
    (g,) = tf.gradients(cond(branch, x), [x])
    np.testing.assert_allclose(run(g), [4])


def test_of_an_op_whose_gradient_is_written_in_python():
    a = tf.SparseTensor([[0], [2]], [1.0, 2.0], [3])

    def add(values):
        b = tf.SparseTensor([[0], [1]], values, [3])
        total = tf.sparse.add(a, b)
        return tf.sparse.to_dense(total) * [3.0, 5.0, 7.0]

    x = tf.constant([10.0, 20.0])
    y = cond_v2.cond_v2(tf.constant(True), lambda: add(x), lambda: tf.concat([x, [0.0]], 0))
    (g,) = tf.gradients(y, [x])
    value, grad = run(y, g)
    np.testing.assert_allclose(value, [33, 100, 14])
    np.testing.assert_allclose(grad, [3, 5])


def test_an_error_of_the_gradient_function_is_raised_when_it_is_made():
    @tf.custom_gradient
    def f(x):
        def grad(dy):
            raise KeyError("not here")

        return x + 1.0, grad

    x = tf.constant(2.0)
    y = cond(f, x)
    with pytest.raises(KeyError, match="not here"):
        tf.gradients(y, [x])


def test_what_a_handle_is_of_is_found_in_functions_that_are_called_over_and_over():
    from millrace.python.ops import _function_gradients

    def level(number, inner):
        @function.Defun(tf.resource, func_name="level_%d" % number)
        def f(handle):
            return inner(handle) + inner(handle)

        return f

    with tf.Graph().as_default():
        v = tf.compat.v1.get_variable("v", initializer=3.0, use_resource=True)
        f = level(0, lambda handle: tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32))
        for number in range(1, 60):  # 2^60 reads
            f = level(number, f)
        f(v.handle)
        assert not _function_gradients._is_array(v.handle)
