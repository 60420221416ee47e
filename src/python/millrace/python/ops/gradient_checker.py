# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Compares gradients with differences of values."""
from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.framework import constant_op
from millrace.python.framework import dtypes
from millrace.python.framework import indexed_slices
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import gradients_impl
from millrace.python.platform import tf_logging as logging

_TYPES = [
    dtypes.float16,
    dtypes.bfloat16,
    dtypes.float32,
    dtypes.float64,
    dtypes.complex64,
    dtypes.complex128,
]


def _product(t: Any) -> int:
    return int(np.prod(t, dtype=np.int64)) if np.ndim(t) else int(t)


def _parts(shape: Any, dtype: Any) -> int:
    """The number of real numbers in a tensor."""
    return _product(shape) * (2 if dtype.is_complex else 1)


def _dx_and_dy(x: Any, y: Any, y_shape: Any) -> tuple[Any, Any]:
    with x.graph.as_default():
        dy_orig = constant_op.constant(1.0, shape=y_shape, dtype=y.dtype)
        dy = array_ops.identity(dy_orig)
        grads = gradients_impl.gradients(y, x, dy)
        assert len(grads) == 1
        return grads[0], dy_orig


def _row(value: Any, x_shape: Any, x_np: Any) -> Any:
    """A gradient as an array of the shape of x."""
    if not isinstance(value, indexed_slices.IndexedSlicesValue):
        return np.asarray(value)
    dense = np.zeros(x_shape, dtype=x_np)
    np.add.at(dense, value.indices, value.values)
    return dense


def _compute_theoretical_jacobian(
    x: Any, x_shape: Any, x_data: Any, dy: Any, dy_shape: Any, dx: Any, extra_feed_dict: Any
) -> Any:
    """The matrix of derivatives, a row for each part of x and a column for each of y, from the gradient."""
    if x.dtype not in _TYPES:
        raise TypeError("x has type %s, whose gradients are not checked" % x.dtype.name)
    if dy.dtype.is_complex:
        # A gradient with respect to complex numbers is conjugated.
        x_data = np.asarray(x_data)
    sess = ops.get_default_session()
    x_size, dy_size = _parts(x_shape, x.dtype), _parts(dy_shape, dy.dtype)
    x_np, dy_np = x.dtype.as_numpy_dtype, dy.dtype.as_numpy_dtype
    jacobian = np.zeros((x_size, dy_size), dtype=x.dtype.real_dtype.as_numpy_dtype)
    dy_data = np.zeros(dy_shape, dtype=dy_np)
    dy_flat = dy_data.ravel().view(dy.dtype.real_dtype.as_numpy_dtype)
    feed = dict(extra_feed_dict or {})
    for col in range(dy_size):
        dy_flat[col] = 1
        backprop = _row(
            sess.run(dx, feed_dict={**feed, x: x_data, dy: dy_flat.view(dy_np).reshape(dy_shape)}),
            x_shape,
            x_np,
        )
        if backprop.shape != tuple(np.shape(x_data)):
            raise ValueError(
                "gradient has wrong shape: expected %s, got %s" % (np.shape(x_data), backprop.shape)
            )
        jacobian[:, col] = backprop.astype(x_np).ravel().view(jacobian.dtype)
        dy_flat[col] = 0
    if dy_size == 0:
        backprop = _row(sess.run(dx, feed_dict={**feed, x: x_data, dy: dy_data}), x_shape, x_np)
        if backprop.shape != tuple(np.shape(x_data)):
            raise ValueError(
                "Empty gradient has wrong shape: expected %s, got %s" % (np.shape(x_data), backprop.shape)
            )
        if np.any(backprop):
            raise ValueError("Empty tensor with nonzero gradients")
    logging.vlog(1, "Theoretical Jacobian =\n%s", jacobian)
    return jacobian


def _compute_numeric_jacobian(
    x: Any, x_shape: Any, x_data: Any, y: Any, y_shape: Any, delta: float, extra_feed_dict: Any
) -> Any:
    """The same matrix by central differences of y, `delta` to both sides of each number."""
    sess = ops.get_default_session()
    x_size, y_size = _parts(x_shape, x.dtype), _parts(y_shape, y.dtype)
    x_real, y_real = x.dtype.real_dtype.as_numpy_dtype, y.dtype.real_dtype.as_numpy_dtype
    x_np, y_np = x.dtype.as_numpy_dtype, y.dtype.as_numpy_dtype
    jacobian = np.zeros((x_size, y_size), dtype=x_real)
    feed = dict(extra_feed_dict or {})
    base = np.array(x_data, dtype=x_np)

    def value(row: int, step: float) -> Any:
        moved = base.copy().ravel()
        moved.view(x_real)[row] += step
        result = sess.run(y, feed_dict={**feed, x: moved.reshape(x_shape)})
        return np.asarray(result, dtype=y_np).ravel().view(y_real)

    for row in range(x_size):
        scale = y_real(2 * delta) if y_real in (np.float32, np.float64) else 2 * delta
        jacobian[row, :] = (value(row, delta) - value(row, -delta)) / scale
    logging.vlog(1, "Numeric Jacobian =\n%s", jacobian)
    return jacobian


def _compute_gradient(
    x: Any,
    x_shape: Any,
    dx: Any,
    y: Any,
    y_shape: Any,
    dy: Any,
    x_init_value: Any,
    delta: float,
    extra_feed_dict: Any,
) -> tuple[Any, Any]:
    for t in (x, y):
        if dtypes.as_dtype(t.dtype).base_dtype not in _TYPES:
            raise AssertionError("Don't support type %s for %s" % (t.dtype.name, "x" if t is x else "y"))
    if x_init_value is not None:
        data = np.asarray(x_init_value, dtype=x.dtype.as_numpy_dtype)
        if tuple(data.shape) != tuple(x_shape):
            raise AssertionError("x_init_value has the shape %s, x_shape is %s" % (data.shape, x_shape))
    else:
        data = np.random.random_sample(x_shape).astype(x.dtype.as_numpy_dtype)
        if x.dtype.is_complex:
            data.imag = np.random.random_sample(x_shape)
    theoretical = _compute_theoretical_jacobian(x, x_shape, data, dy, y_shape, dx, extra_feed_dict)
    numeric = _compute_numeric_jacobian(x, x_shape, data, y, y_shape, delta, extra_feed_dict)
    return theoretical, numeric


def _compute_gradient_list(
    x: Any,
    x_shape: Any,
    y: Any,
    y_shape: Any,
    x_init_value: Any,
    delta: float,
    init_targets: Any,
    extra_feed_dict: Any,
) -> list[Any]:
    assert isinstance(x, list)
    pairs = [_dx_and_dy(xi, y, y_shape) for xi in x]
    if init_targets is not None:
        assert isinstance(init_targets, (list, tuple))
        for init in init_targets:
            init.run()
    if x_init_value is None:
        x_init_value = [None] * len(x)
    return [
        _compute_gradient(xi, shape, dx, y, y_shape, dy, init, delta, extra_feed_dict)
        for xi, shape, (dx, dy), init in zip(x, x_shape, pairs, x_init_value)
    ]


def compute_gradient(
    x: Any, x_shape: Any, y: Any, y_shape: Any, x_init_value: Any = None, delta: float = 1e-3, init_targets: Any = None,
    extra_feed_dict: Any = None,
) -> Any:  # fmt: skip
    """The derivatives of `y` with respect to `x`, from tf.gradients and from differences of values.

    Args:
      x: a tensor that can be fed, or a list of them.
      x_shape: its shape (or a list), a tuple of int.
      y: a tensor.
      y_shape: its shape.
      x_init_value: where the derivatives are taken; random numbers when None.
      delta: the step of the central differences.
      init_targets: operations to be run first.
      extra_feed_dict: values of other tensors.

    Returns:
      Two matrices with a row for each number of x and a column for each of y; complex numbers count twice. For a list
      a list of such pairs. The default session is used.
    """
    feed = extra_feed_dict or {}
    if isinstance(x, list):
        return _compute_gradient_list(x, x_shape, y, y_shape, x_init_value, delta, init_targets, feed)
    if init_targets is not None:
        assert isinstance(init_targets, (list, tuple))
        for init in init_targets:
            init.run()
    dx, dy = _dx_and_dy(x, y, y_shape)
    return _compute_gradient(x, x_shape, dx, y, y_shape, dy, x_init_value, delta, feed)


def _compute_error(grad: Any) -> float:
    error = 0.0
    for theoretical, numeric in grad if isinstance(grad, list) else [grad]:
        if theoretical.size or numeric.size:
            error = np.fmax(error, np.fabs(theoretical - numeric).max())
    return error


def compute_gradient_error(
    x: Any, x_shape: Any, y: Any, y_shape: Any, x_init_value: Any = None, delta: float = 1e-3, init_targets: Any = None,
    extra_feed_dict: Any = None,
) -> Any:  # fmt: skip
    """The largest difference between the two matrices of `compute_gradient`, which has the same arguments."""
    return _compute_error(
        compute_gradient(x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict)
    )
