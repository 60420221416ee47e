# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Moments, and normalisation by mean and variance."""
from __future__ import annotations

from typing import Any, Optional, Tuple

from millrace.python.framework import constant_op, dtypes, ops
from millrace.python.ops import array_ops, gen_nn_ops, math_ops
from millrace.python.util import deprecation


def _keepdims(keepdims: Any, keep_dims: Any) -> bool:
    value = deprecation.deprecated_argument_lookup("keepdims", keepdims, "keep_dims", keep_dims)
    return bool(value) if value is not None else False


def sufficient_statistics(
    x: Any,
    axes: Any,
    shift: Any = None,
    keep_dims: Any = None,
    name: Optional[str] = None,
    keepdims: Any = None,
) -> Tuple[Any, Any, Any, Any]:
    """Returns (count, sum of x - shift, sum of (x - shift)^2, shift) over `axes`."""
    axes = list(set(axes))
    keep = _keepdims(keepdims, keep_dims)
    with ops.name_scope(name, "sufficient_statistics", [x, shift]):
        x = ops.convert_to_tensor(x, name="x")
        dims = x.get_shape().as_list() if x.get_shape().ndims is not None else None
        if dims is not None and not all(-len(dims) <= d < len(dims) for d in axes):
            raise ValueError("axes %s are out of range of tensors of rank %d" % (axes, len(dims)))
        counts: Any
        if dims is not None and all(dims[d] is not None for d in axes):
            product = 1
            for d in axes:
                product *= dims[d]
            counts = constant_op.constant(product, dtype=x.dtype)
        else:
            x_dims = array_ops.gather(math_ops.cast(array_ops.shape(x), x.dtype), axes)
            counts = math_ops.reduce_prod(x_dims, name="count")
        if shift is not None:
            shift = ops.convert_to_tensor(shift, name="shift")
            m_ss, v_ss = math_ops.subtract(x, shift), math_ops.squared_difference(x, shift)
        else:
            m_ss, v_ss = x, math_ops.square(x)
        m_ss = math_ops.reduce_sum(m_ss, axes, keepdims=keep, name="mean_ss")
        v_ss = math_ops.reduce_sum(v_ss, axes, keepdims=keep, name="var_ss")
    return counts, m_ss, v_ss, shift


def sufficient_statistics_v2(
    x: Any, axes: Any, shift: Any = None, keepdims: Any = False, name: Optional[str] = None
) -> Any:
    """As `sufficient_statistics`, with the arguments of version 2."""
    return sufficient_statistics(x=x, axes=axes, shift=shift, keep_dims=keepdims, name=name)


def normalize_moments(
    counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: Optional[str] = None
) -> Tuple[Any, Any]:
    """Returns (mean, variance) from sufficient statistics."""
    with ops.name_scope(name, "normalize", [counts, mean_ss, variance_ss, shift]):
        divisor = math_ops.reciprocal(counts, name="divisor")
        if shift is not None:
            shifted_mean = math_ops.multiply(mean_ss, divisor, name="shifted_mean")
            mean = math_ops.add(shifted_mean, shift, name="mean")
        else:
            shifted_mean = math_ops.multiply(mean_ss, divisor, name="mean")
            mean = shifted_mean
        variance = math_ops.subtract(
            math_ops.multiply(variance_ss, divisor), math_ops.square(shifted_mean), name="variance"
        )
    return mean, variance


def moments(
    x: Any,
    axes: Any,
    shift: Any = None,
    name: Optional[str] = None,
    keep_dims: Any = None,
    keepdims: Any = None,
) -> Tuple[Any, Any]:
    """Returns (mean, variance) of `x` over `axes`; half precision is computed in float32. `shift` is not used."""
    keep = _keepdims(keepdims, keep_dims)
    with ops.name_scope(name, "moments", [x, axes]):
        x = ops.convert_to_tensor(x)
        half = x.dtype == dtypes.float16
        y = math_ops.cast(x, dtypes.float32) if half else x
        mean = math_ops.reduce_mean(y, axes, keepdims=True, name="mean")
        variance = math_ops.reduce_mean(
            math_ops.squared_difference(y, array_ops.stop_gradient(mean)),
            axes,
            keepdims=True,
            name="variance",
        )
        if not keep:
            mean = array_ops.squeeze(mean, axes)
            variance = array_ops.squeeze(variance, axes)
        if half:
            return math_ops.cast(mean, dtypes.float16), math_ops.cast(variance, dtypes.float16)
        return mean, variance


def moments_v2(
    x: Any, axes: Any, shift: Any = None, keepdims: Any = False, name: Optional[str] = None
) -> Any:
    """As `moments`, with the arguments of version 2."""
    return moments(x=x, axes=axes, shift=shift, name=name, keep_dims=keepdims)


def weighted_moments(
    x: Any,
    axes: Any,
    frequency_weights: Any,
    name: Optional[str] = None,
    keep_dims: Any = None,
    keepdims: Any = None,
) -> Tuple[Any, Any]:
    """Returns (mean, variance) of `x` over `axes`, weighted by `frequency_weights`, which is broadcast."""
    keep = _keepdims(keepdims, keep_dims)
    with ops.name_scope(name, "weighted_moments", [x, frequency_weights, axes]):
        x = ops.convert_to_tensor(x, name="x")
        frequency_weights = ops.convert_to_tensor(frequency_weights, name="frequency_weights")
        half = x.dtype == dtypes.float16
        if half:
            x = math_ops.cast(x, dtypes.float32)
        if frequency_weights.dtype != x.dtype:
            frequency_weights = math_ops.cast(frequency_weights, x.dtype)
        weighted_input_sum = math_ops.reduce_sum(
            frequency_weights * x, axes, name="weighted_input_sum", keepdims=True
        )
        broadcasted_weights = frequency_weights + array_ops.zeros_like(x)
        sum_of_weights = math_ops.reduce_sum(broadcasted_weights, axes, name="sum_of_weights", keepdims=True)
        divisor = math_ops.reciprocal(sum_of_weights, name="inv_weight_sum")
        mean = math_ops.multiply(weighted_input_sum, divisor)
        distance = math_ops.reduce_sum(
            frequency_weights * math_ops.squared_difference(x, mean),
            axes,
            name="weighted_distsq",
            keepdims=True,
        )
        variance = math_ops.multiply(distance, divisor)
        if not keep:
            mean = array_ops.squeeze(mean, axis=axes)
            variance = array_ops.squeeze(variance, axis=axes)
        if half:
            return math_ops.cast(mean, dtypes.float16), math_ops.cast(variance, dtypes.float16)
        return mean, variance


def weighted_moments_v2(
    x: Any, axes: Any, frequency_weights: Any, keepdims: Any = False, name: Optional[str] = None
) -> Any:
    """As `weighted_moments`, with the arguments of version 2."""
    return weighted_moments(
        x=x, axes=axes, frequency_weights=frequency_weights, name=name, keep_dims=keepdims
    )


def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    offset: Any,
    scale: Any,
    variance_epsilon: Any,
    name: Optional[str] = None,
) -> Any:
    """Returns (x - mean) / sqrt(variance + epsilon) * scale + offset; `scale` and `offset` may be None."""
    with ops.name_scope(name, "batchnorm", [x, mean, variance, scale, offset]):
        x = ops.convert_to_tensor(x)
        inv = math_ops.rsqrt(variance + variance_epsilon)
        if scale is not None:
            inv *= scale
        return x * math_ops.cast(inv, x.dtype) + math_ops.cast(
            offset - mean * inv if offset is not None else -mean * inv, x.dtype
        )


def fused_batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: Optional[str] = None,
) -> Tuple[Any, Any, Any]:
    """Normalises images by one op; returns (result, mean, variance). The least `epsilon` is 1.001e-5.

    Raises ValueError when `mean` or `variance` is given for training.
    """
    if is_training and (mean is not None or variance is not None):
        raise ValueError("Both 'mean' and 'variance' must be None if is_training is True.")
    x = ops.convert_to_tensor(x, name="input")
    scale = ops.convert_to_tensor(scale, name="scale")
    offset = ops.convert_to_tensor(offset, name="offset")
    if mean is None:
        mean = constant_op.constant([])
    if variance is None:
        variance = constant_op.constant([])
    epsilon = max(epsilon, 1.001e-5)
    y, batch_mean, batch_var, _, _, _ = gen_nn_ops.fused_batch_norm_v3(
        x,
        scale,
        offset,
        mean,
        variance,
        epsilon=epsilon,
        data_format=data_format,
        is_training=is_training,
        name=name,
    )
    return y, batch_mean, batch_var


def batch_norm_with_global_normalization(
    t: Any = None,
    m: Any = None,
    v: Any = None,
    beta: Any = None,
    gamma: Any = None,
    variance_epsilon: Any = None,
    scale_after_normalization: Any = None,
    name: Optional[str] = None,
    input: Any = None,
    mean: Any = None,
    variance: Any = None,
) -> Any:
    """As `batch_normalization`, scaled by `gamma` only when `scale_after_normalization`."""
    t = deprecation.deprecated_argument_lookup("input", input, "t", t)
    m = deprecation.deprecated_argument_lookup("mean", mean, "m", m)
    v = deprecation.deprecated_argument_lookup("variance", variance, "v", v)
    return batch_normalization(
        t, m, v, beta, gamma if scale_after_normalization else None, variance_epsilon, name
    )


def batch_norm_with_global_normalization_v2(
    input: Any,
    mean: Any,
    variance: Any,
    beta: Any,
    gamma: Any,
    variance_epsilon: Any,
    scale_after_normalization: Any,
    name: Optional[str] = None,
) -> Any:
    """As `batch_norm_with_global_normalization`, with the arguments of version 2."""
    return batch_norm_with_global_normalization(
        input, mean, variance, beta, gamma, variance_epsilon, scale_after_normalization, name
    )
