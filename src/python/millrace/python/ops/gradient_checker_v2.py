# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Compares gradients of Python functions of tensors with differences of values."""
from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.eager import backprop
from millrace.python.framework import indexed_slices
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import gradients_impl


def _dense(value: Any, like: Any) -> Any:
    if value is None:
        return np.zeros_like(like)
    if isinstance(value, indexed_slices.IndexedSlicesValue):
        dense = np.zeros_like(like)
        np.add.at(dense, value.indices, value.values)
        return dense
    return np.asarray(value)


class _Values:
    """Values and gradients of a function in eager mode, for a feed of arrays as a session takes it."""

    def __init__(self, f: Any, xs: list[Any], keys: list[Any]) -> None:
        self._f, self._xs, self._keys = f, xs, keys

    def run(self, what: Any, feed: Any) -> Any:
        """The value where `what` is "y", else the gradient of the argument number `what`."""
        args = [ops.convert_to_tensor(feed[key]) for key in self._keys]
        with backprop.GradientTape() as tape:
            tape.watch(args)
            y = ops.convert_to_tensor(self._f(*args))
        if what == "y":
            return y.numpy()
        grad = tape.gradient(y, args[what], output_gradients=ops.convert_to_tensor(feed["dy"]))
        return None if grad is None else ops.convert_to_tensor(grad).numpy()


class _Checked:
    """A function of tensors that is built once in the default graph."""

    def __init__(self, f: Any, xs: list[Any]) -> None:
        if ops.executing_eagerly():
            self.xs = ["x%d" % i for i in range(len(xs))]
            self.y, self.dy, self.grads = "y", "dy", list(range(len(xs)))
            self.session = _Values(f, xs, self.xs)
            return
        self.xs = [array_ops.placeholder(x.dtype, x.shape) for x in xs]
        self.y = ops.convert_to_tensor(f(*self.xs))
        self.dy = array_ops.placeholder(self.y.dtype, self.y.shape)  # type: ignore[attr-defined]
        self.grads = gradients_impl.gradients(self.y, self.xs, grad_ys=self.dy)
        self.session = ops.get_default_session()

    def value(self, xs: list[Any]) -> Any:
        return np.asarray(self.session.run(self.y, dict(zip(self.xs, xs))))

    def theoretical(self, xs: list[Any], y: Any, param: int) -> Any:
        real_x = xs[param].real.dtype
        x_parts = xs[param].size * (2 if np.iscomplexobj(xs[param]) else 1)
        y_parts = y.size * (2 if np.iscomplexobj(y) else 1)
        jacobian = np.zeros((y_parts, x_parts), dtype=real_x)
        feed = dict(zip(self.xs, xs))
        for row in range(y_parts):
            dy = np.zeros(y.shape, dtype=y.dtype).ravel()
            dy.view(y.real.dtype)[row] = 1
            feed[self.dy] = dy.reshape(y.shape)
            grad = self.grads[param]
            value = _dense(None if grad is None else self.session.run(grad, feed), xs[param])
            if value.shape != xs[param].shape:
                raise ValueError(
                    "Gradient has wrong shape: expected %s, got %s" % (xs[param].shape, value.shape)
                )
            jacobian[row, :] = value.astype(xs[param].dtype).ravel().view(real_x)
        if y.size == 0 and self.grads[param] is not None:
            feed[self.dy] = y
            value = _dense(self.session.run(self.grads[param], feed), xs[param])
            if value.shape != xs[param].shape:
                raise ValueError(
                    "Empty gradient has wrong shape: expected %s, got %s" % (xs[param].shape, value.shape)
                )
            if np.any(value):
                raise ValueError("Empty tensor with nonzero gradients")
        return jacobian

    def numeric(self, xs: list[Any], y: Any, param: int, delta: float) -> Any:
        x = xs[param]
        parts = x.size * (2 if np.iscomplexobj(x) else 1)
        columns = []
        for col in range(parts):
            ends = []
            for step in (delta, -delta):
                moved = x.copy().ravel()
                moved.view(x.real.dtype)[col] += step
                changed = list(xs)
                changed[param] = moved.reshape(x.shape)
                value = self.value(changed)
                ends.append(value.ravel().view(value.real.dtype))
            columns.append((ends[0] - ends[1]) / (2 * delta))
        rows = y.size * (2 if np.iscomplexobj(y) else 1)
        return (
            np.array(columns).T.astype(x.real.dtype) if columns else np.zeros((rows, 0), dtype=x.real.dtype)
        )


def compute_gradient(f: Any, x: Any, delta: Any = None) -> tuple[list[Any], list[Any]]:
    """The derivatives of a function from tf.gradients and from differences of values.

    Args:
      f: a Python function of tensors that returns a tensor.
      x: a list of arrays, its arguments.
      delta: the step of the central differences; 1/1024 when None.

    Returns:
      Two lists with a matrix for each argument: a row for each number of the result, a column for each of the argument.

    Raises:
      ValueError: `x` is no list, or a gradient has another shape than its argument.
    """
    if not isinstance(x, (list, tuple)):
        raise ValueError(
            "`x` must be a list or tuple of values convertible to a Tensor (arguments to `f`), not a %s"
            % type(x)
        )
    delta = 1.0 / 1024 if delta is None else delta
    xs = []
    for value in x:
        if isinstance(value, ops.Tensor):
            value = value.numpy() if ops.executing_eagerly() else ops.get_default_session().run(value)
        value = np.array(value)
        xs.append(value.astype(np.float32) if value.dtype == np.int_ else value)
    checked = _Checked(f, xs)
    y = checked.value(xs)
    count = range(len(xs))
    return (
        [checked.theoretical(xs, y, i) for i in count],
        [checked.numeric(xs, y, i, delta) for i in count],
    )


def max_error(grad1: Any, grad2: Any) -> float:
    """The largest difference between matrices of two lists."""
    error = 0.0
    for first, second in zip(grad1, grad2):
        if first.size or second.size:
            error = np.maximum(error, np.fabs(first - second).max())
    return error
