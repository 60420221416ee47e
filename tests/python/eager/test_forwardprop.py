# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Derivatives along directions, and helpers of gradient functions."""
import numpy as np
import pytest

import millrace as tf
from millrace.python import pywrap_tensorflow
from millrace.python.eager import backprop, context, def_function, forwardprop


@pytest.fixture(autouse=True)
def eager():
    with context.eager_mode():
        yield


def test_product_of_jacobian_and_tangent():
    x = tf.constant([[2.0, 3.0], [1.0, 4.0]])
    tangent = np.array([[0.5, -1.0], [2.0, 0.25]], np.float32)
    with forwardprop.ForwardGradientAccumulator() as acc:
        acc.watch(x, tangent)
        y = tf.matmul(x, x)
        unrelated = tf.constant(1.0) * 2.0
    np.testing.assert_allclose(acc.jvp(y), tangent @ x.numpy() + x.numpy() @ tangent, rtol=1e-6)
    assert acc.jvp(unrelated) is None
    np.testing.assert_array_equal(acc.jvp(x), tangent)


def test_several_tensors_a_structure_and_a_use_within_the_context():
    a, b = tf.constant(2.0), tf.constant([1.0, 3.0])
    with forwardprop.ForwardGradientAccumulator() as acc:
        acc.watch([a, b], [1.0, [10.0, 20.0]])
        y = {"p": a * b, "q": tf.sin(a)}
        got = acc.jvp(y)
        z = y["p"] * 2.0
    np.testing.assert_allclose(got["p"], [1 + 20.0, 3 + 40.0])
    np.testing.assert_allclose(got["q"], np.cos(2.0), rtol=1e-6)
    np.testing.assert_allclose(acc.jvp(z), [42.0, 86.0])


def test_variables_and_functions():
    v = tf.Variable([1.0, 2.0], use_resource=True)

    @def_function.function
    def f(x):
        return tf.reduce_prod(x * v)

    with forwardprop.ForwardGradientAccumulator() as acc:
        x = tf.constant([3.0, 4.0])
        acc.watch(x, [1.0, 0.0])
        y = f(x)
    np.testing.assert_allclose(acc.jvp(y), 8.0)
    with forwardprop.ForwardGradientAccumulator() as acc:
        acc.watch(v, tf.constant([0.0, 1.0]))
        y = tf.reduce_prod(v * [3.0, 4.0])
    np.testing.assert_allclose(acc.jvp(y), 12.0)


def test_second_derivatives_by_nesting():
    x = tf.constant(1.5)
    with forwardprop.ForwardGradientAccumulator() as outer:
        outer.watch(x, 1.0)
        with forwardprop.ForwardGradientAccumulator() as inner:
            inner.watch(x, 1.0)
            y = x**4
        dy = inner.jvp(y)
    np.testing.assert_allclose(dy, 4 * 1.5**3, rtol=1e-6)
    np.testing.assert_allclose(outer.jvp(dy), 12 * 1.5**2, rtol=1e-6)
    with forwardprop.ForwardGradientAccumulator() as acc:
        acc.watch(x, 2.0)
        with backprop.GradientTape() as tape:
            tape.watch(x)
            y = x**3
        g = tape.gradient(y, x)
    np.testing.assert_allclose(acc.jvp(g), 2 * 6 * 1.5, rtol=1e-6)


def test_wrong_use():
    with pytest.raises(ValueError, match="shape"):
        forwardprop.ForwardGradientAccumulator().watch(tf.constant([1.0, 2.0]), tf.constant([1.0, 2.0, 3.0]))
    acc = forwardprop.ForwardGradientAccumulator()
    with acc:
        with pytest.raises(ValueError, match="already recording"):
            acc.__enter__()


def test_attributes():
    assert backprop.op_attr_type("MatMul", "transpose_a") == pywrap_tensorflow.TF_ATTR_BOOL
    assert backprop.op_attr_type("ShapeN", "N") == pywrap_tensorflow.TF_ATTR_INT
    assert backprop.op_attr_type("If", "Tin") == [pywrap_tensorflow.TF_ATTR_TYPE]
    with pytest.raises(ValueError):
        backprop.op_attr_type("MatMul", "no_such")
    shape = backprop.make_attr(pywrap_tensorflow.TF_ATTR_SHAPE, [1, None])
    assert [d.size for d in shape.dim] == [1, -1]
    shapes = backprop.make_attr([pywrap_tensorflow.TF_ATTR_SHAPE], [[1], [2, 3]])
    assert [len(s.dim) for s in shapes] == [1, 2]
    assert backprop.make_attr(pywrap_tensorflow.TF_ATTR_TYPE, 1) is tf.float32
    assert backprop.make_attr(pywrap_tensorflow.TF_ATTR_STRING, "a") == b"a"


def test_slices_of_slices():
    inner = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([2, 0]), tf.constant([3, 1]))
    outer = tf.IndexedSlices(inner, tf.constant([5, 6, 7]), tf.constant([9, 1]))
    flat = backprop.flatten_nested_indexed_slices(outer)
    np.testing.assert_array_equal(flat.indices, [7, 5])
    np.testing.assert_array_equal(flat.values, [[1.0], [2.0]])
    assert backprop._num_elements(flat) == 2
    with pytest.raises(ValueError, match="neither|not a Tensor"):
        backprop._num_elements(3)
