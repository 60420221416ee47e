# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradient functions under TensorFlow's names: `_MatMulGrad(op, grad)`. They are the engine's."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes
from millrace.python.ops import _engine_gradients, array_ops, math_ops


def __getattr__(name: str) -> Any:
    return _engine_gradients.function_of_name(__name__, name)


def _BatchNormGrad(
    grad_y: Any, x: Any, scale: Any, pop_mean: Any, pop_var: Any, epsilon: float, data_format: str,
    is_training: bool = True,
) -> Any:  # fmt: skip
    """The gradients of a batch normalization with respect to x, scale and offset, made of other ops.

    Args:
      grad_y: gradient of the result.
      x: the values, in four dimensions.
      scale: factor of each channel.
      pop_mean, pop_var: mean and variance where `is_training` is false; else those of `x` count.
      epsilon: the number that was added to the variance.
      data_format: NHWC or NCHW.
    """
    axes = [0, 1, 2] if data_format in (b"NHWC", "NHWC") else [0, 2, 3]
    kind = x.dtype

    def along(channel: Any) -> Any:
        """A vector of the channels in a shape that broadcasts with `x`."""
        channel = math_ops.cast(channel, dtypes.float32)
        return channel if axes == [0, 1, 2] else array_ops.reshape(channel, [1, -1, 1, 1])

    x, grad_y = math_ops.cast(x, dtypes.float32), math_ops.cast(grad_y, dtypes.float32)
    if is_training:
        mean = math_ops.reduce_mean(x, axes, keepdims=True)
        variance = math_ops.reduce_mean(math_ops.squared_difference(x, mean), axes, keepdims=True)
    else:
        mean, variance = along(pop_mean), along(pop_var)
    factor = math_ops.rsqrt(variance + epsilon)
    normalized = (x - mean) * factor
    grad_scale = math_ops.reduce_sum(grad_y * normalized, axes)
    grad_offset = math_ops.reduce_sum(grad_y, axes)
    grad_x = grad_y
    if is_training:
        grad_x = grad_y - math_ops.reduce_mean(grad_y, axes, keepdims=True)
        grad_x -= normalized * math_ops.reduce_mean(grad_y * normalized, axes, keepdims=True)
    return math_ops.cast(along(scale) * factor * grad_x, kind), grad_scale, grad_offset
