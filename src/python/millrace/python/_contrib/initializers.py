# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Initializers and regularizers of tf.contrib.layers."""
from __future__ import annotations

import math
import numbers
from typing import Any

from millrace.python.framework import constant_op
from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import math_ops
from millrace.python.ops import nn
from millrace.python.ops import random_ops


def xavier_initializer(uniform: bool = True, seed: Any = None, dtype: Any = dtypes.float32) -> Any:
    """Random numbers with the variance 2 / (inputs + outputs), by default uniform."""
    return variance_scaling_initializer(factor=1.0, mode="FAN_AVG", uniform=uniform, seed=seed, dtype=dtype)


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: Any = None,
    dtype: Any = dtypes.float32,
) -> Any:
    """Random numbers with the variance `factor` / n; n: the number of inputs, of outputs or their mean.

    Raises:
      TypeError: `dtype` is no floating type, or `mode` is none of "FAN_IN", "FAN_OUT", "FAN_AVG".
    """
    if not dtype.is_floating:
        raise TypeError("Cannot create initializer for non-floating point type.")
    if mode not in ["FAN_IN", "FAN_OUT", "FAN_AVG"]:
        raise TypeError("Unknown mode %s [FAN_IN, FAN_OUT, FAN_AVG]" % mode)

    def _initializer(shape: Any, dtype: Any = dtype, partition_info: Any = None) -> Any:
        if not dtype.is_floating:
            raise TypeError("Cannot create initializer for non-floating point type.")
        shape = [int(size) for size in shape]
        fan_in = float(shape[-2] if len(shape) > 1 else shape[-1]) if shape else 1.0
        fan_out = float(shape[-1]) if shape else 1.0
        for size in shape[:-2]:
            fan_in *= float(size)
            fan_out *= float(size)
        n = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "FAN_AVG": (fan_in + fan_out) / 2.0}[mode]
        if uniform:
            limit = math.sqrt(3.0 * factor / n)
            return random_ops.random_uniform(shape, minval=-limit, maxval=limit, dtype=dtype, seed=seed)
        # A truncated normal distribution has a smaller standard deviation than its argument.
        stddev = math.sqrt(1.3 * factor / n)
        return random_ops.truncated_normal(shape, mean=0.0, stddev=stddev, dtype=dtype, seed=seed)

    return _initializer


def _check_scale(scale: Any, what: str = "scale") -> None:
    if isinstance(scale, numbers.Integral):
        raise ValueError("%s cannot be an integer: %s" % (what, scale))
    if isinstance(scale, numbers.Real):
        if scale < 0.0:
            raise ValueError("Setting a %s less than 0 on a regularizer: %g" % (what, scale))


def l1_regularizer(scale: Any, scope: Any = None) -> Any:
    """Returns a function of weights: `scale` times the sum of their absolute values."""
    _check_scale(scale)
    if isinstance(scale, numbers.Real) and scale == 0.0:
        return lambda _: None

    def l1(weights: Any, name: Any = None) -> Any:
        with ops.name_scope(scope, "l1_regularizer", [weights]) as name:
            factor = ops.convert_to_tensor(scale, dtype=weights.dtype.base_dtype, name="scale")
            return math_ops.multiply(factor, math_ops.reduce_sum(math_ops.abs(weights)), name=name)

    return l1


def l2_regularizer(scale: Any, scope: Any = None) -> Any:
    """Returns a function of weights: `scale` times half the sum of their squares."""
    _check_scale(scale)
    if isinstance(scale, numbers.Real) and scale == 0.0:
        return lambda _: None

    def l2(weights: Any) -> Any:
        with ops.name_scope(scope, "l2_regularizer", [weights]) as name:
            factor = ops.convert_to_tensor(scale, dtype=weights.dtype.base_dtype, name="scale")
            return math_ops.multiply(factor, nn.l2_loss(weights), name=name)

    return l2


def l1_l2_regularizer(scale_l1: Any = 1.0, scale_l2: Any = 1.0, scope: Any = None) -> Any:
    """Returns the sum of the L1 and the L2 regularizer."""
    if isinstance(scale_l1, numbers.Integral):
        raise ValueError("scale_l1 cannot be an integer: %s" % (scale_l1,))
    if isinstance(scale_l2, numbers.Integral):
        raise ValueError("scale_l2 cannot be an integer: %s" % (scale_l2,))
    scope = scope or "l1_l2_regularizer"
    if scale_l1 == 0.0:
        return l2_regularizer(scale_l2, scope)
    if scale_l2 == 0.0:
        return l1_regularizer(scale_l1, scope)
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope=scope)


def sum_regularizer(regularizer_list: Any, scope: Any = None) -> Any:
    """Returns the sum of several regularizers; None if there are none."""
    regularizer_list = [reg for reg in regularizer_list if reg is not None]
    if not regularizer_list:
        return None

    def sum_reg(weights: Any) -> Any:
        with ops.name_scope(scope, "sum_regularizer", [weights]) as name:
            tensors = [t for t in (reg(weights) for reg in regularizer_list) if t is not None]
            return math_ops.add_n(tensors, name=name) if tensors else None

    return sum_reg


def apply_regularization(regularizer: Any, weights_list: Any = None) -> Any:
    """The sum of a regularizer of weights, those of the collection WEIGHTS by default; also added to the losses."""
    if not weights_list:
        weights_list = ops.get_collection(ops.GraphKeys.WEIGHTS)
    if not weights_list:
        raise ValueError("No weights to regularize.")
    with ops.name_scope("get_regularization_penalty", values=weights_list) as scope:
        penalties = [regularizer(w) for w in weights_list]
        penalties = [p if p is not None else constant_op.constant(0.0) for p in penalties]
        for p in penalties:
            if p.get_shape().ndims != 0:
                raise ValueError(
                    "regularizer must return a scalar Tensor instead of a Tensor with rank %d."
                    % p.get_shape().ndims
                )
        total = math_ops.add_n(penalties, name=scope)
        ops.add_to_collection(ops.GraphKeys.REGULARIZATION_LOSSES, total)
        return total
