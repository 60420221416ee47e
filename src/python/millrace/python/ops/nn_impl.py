# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Neural-network functions that are made of several ops."""
from __future__ import annotations

import math
from typing import Any, Optional, Tuple

from millrace.python.framework import constant_op, dtypes, ops
from millrace.python.ops import (
    array_ops,
    control_flow_ops,
    gen_array_ops,
    gen_nn_ops,
    math_ops,
    nn_ops,
)  # noqa: F401
from millrace.python.ops._nn_norm import (  # noqa: F401
    batch_norm_with_global_normalization,
    batch_norm_with_global_normalization_v2,
    batch_normalization,
    fused_batch_norm,
    moments,
    moments_v2,
    normalize_moments,
    sufficient_statistics,
    sufficient_statistics_v2,
    weighted_moments,
    weighted_moments_v2,
)
from millrace.python.ops._nn_sampled import (  # noqa: F401
    _compute_sampled_logits,
    _sum_rows,
    nce_loss,
    nce_loss_v2,
    sampled_softmax_loss,
    sampled_softmax_loss_v2,
)
from millrace.python.util import deprecation


def log_poisson_loss(
    targets: Any, log_input: Any, compute_full_loss: bool = False, name: Optional[str] = None
) -> Any:
    """Returns exp(log_input) - log_input * targets, with Stirling's term for targets above 1 when `compute_full_loss`."""
    with ops.name_scope(name, "log_poisson_loss", [log_input, targets]) as name:
        log_input = ops.convert_to_tensor(log_input, name="log_input")
        targets = ops.convert_to_tensor(targets, name="targets")
        _check_same_shape("log_input", log_input, "targets", targets)
        result = math_ops.exp(log_input) - log_input * targets
        if compute_full_loss:
            point_five = constant_op.constant(0.5, dtype=targets.dtype)
            two_pi = constant_op.constant(2 * math.pi, dtype=targets.dtype)
            stirling = (
                (targets * math_ops.log(targets)) - targets + (point_five * math_ops.log(two_pi * targets))
            )
            zeros = array_ops.zeros_like(targets, dtype=targets.dtype)
            ones = array_ops.ones_like(targets, dtype=targets.dtype)
            inside = math_ops.logical_and(targets >= zeros, targets <= ones)
            result += array_ops.where(inside, zeros, stirling)
        return result


def _check_same_shape(name1: str, tensor1: Any, name2: str, tensor2: Any) -> None:
    try:
        tensor2.get_shape().merge_with(tensor1.get_shape())
    except ValueError:
        raise ValueError(
            "%s and %s must have the same shape (%s vs %s)"
            % (name1, name2, tensor1.get_shape(), tensor2.get_shape())
        ) from None


def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: Optional[str] = None
) -> Any:
    """Returns the cross entropies of `labels` in [0, 1] and sigmoid(`logits`), computed without overflow."""
    nn_ops._ensure_xent_args("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    with ops.name_scope(name, "logistic_loss", [logits, labels]) as name:
        logits = ops.convert_to_tensor(logits, name="logits")
        labels = ops.convert_to_tensor(labels, name="labels")
        _check_same_shape("logits", logits, "labels", labels)
        zeros = array_ops.zeros_like(logits, dtype=logits.dtype)
        positive = logits >= zeros
        relu_logits = array_ops.where(positive, logits, zeros)
        neg_abs_logits = array_ops.where(positive, -logits, logits)
        return math_ops.add(
            relu_logits - logits * labels, math_ops.log1p(math_ops.exp(neg_abs_logits)), name=name
        )


def sigmoid_cross_entropy_with_logits_v2(
    labels: Any = None, logits: Any = None, name: Optional[str] = None
) -> Any:
    """As `sigmoid_cross_entropy_with_logits`, with the arguments of version 2."""
    return sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, name=name)


def weighted_cross_entropy_with_logits_v2(
    labels: Any, logits: Any, pos_weight: Any, name: Optional[str] = None
) -> Any:
    """As `sigmoid_cross_entropy_with_logits`, the positive term times `pos_weight`."""
    with ops.name_scope(name, "logistic_loss", [logits, labels]) as name:
        logits = ops.convert_to_tensor(logits, name="logits")
        labels = ops.convert_to_tensor(labels, name="labels")
        _check_same_shape("logits", logits, "labels", labels)
        log_weight = 1 + (pos_weight - 1) * labels
        return math_ops.add(
            (1 - labels) * logits,
            log_weight * (math_ops.log1p(math_ops.exp(-math_ops.abs(logits))) + gen_nn_ops.relu(-logits)),
            name=name,
        )


def weighted_cross_entropy_with_logits(
    labels: Any = None,
    logits: Any = None,
    pos_weight: Any = None,
    name: Optional[str] = None,
    targets: Any = None,
) -> Any:
    """As `weighted_cross_entropy_with_logits_v2`, with the older name `targets` of `labels`."""
    labels = deprecation.deprecated_argument_lookup("labels", labels, "targets", targets)
    return weighted_cross_entropy_with_logits_v2(labels, logits, pos_weight, name)


def compute_average_loss(
    per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None
) -> Any:
    """Returns the sum of the (weighted) losses divided by the size of the batch (default: the size of this one)."""
    from millrace.python.ops.losses import util as losses_util

    per_example_loss = ops.convert_to_tensor(per_example_loss)
    input_dtype = per_example_loss.dtype
    if sample_weight is not None:
        sample_weight = math_ops.cast(ops.convert_to_tensor(sample_weight), input_dtype)
        per_example_loss, _, sample_weight = losses_util.squeeze_or_expand_dimensions(
            per_example_loss, None, sample_weight
        )
        per_example_loss = math_ops.multiply(per_example_loss, sample_weight)
    if global_batch_size is None:
        global_batch_size = array_ops.shape_internal(per_example_loss, optimize=False)[0]
    return math_ops.reduce_sum(per_example_loss) / math_ops.cast(global_batch_size, input_dtype)


def scale_regularization_loss(regularization_loss: Any) -> Any:
    """Returns the sum of the regularization losses, for one replica."""
    return math_ops.reduce_sum(regularization_loss)


def relu_layer(x: Any, weights: Any, biases: Any, name: Optional[str] = None) -> Any:
    """Returns relu(matmul(x, weights) + biases)."""
    with ops.name_scope(name, "relu_layer", [x, weights, biases]) as name:
        x = ops.convert_to_tensor(x, name="x")
        weights = ops.convert_to_tensor(weights, name="weights")
        biases = ops.convert_to_tensor(biases, name="biases")
        return gen_nn_ops.relu(nn_ops.bias_add(math_ops.matmul(x, weights), biases), name=name)


def swish(features: Any) -> Any:
    """Returns features * sigmoid(features)."""
    features = ops.convert_to_tensor(features, name="features")
    return features * math_ops.sigmoid(features)


def normalize(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, name: Optional[str] = None
) -> Tuple[Any, Any]:
    """Returns (`tensor` divided by its norm along `axis`, the norm with that axis kept)."""
    from millrace.python.ops import linalg_ops

    with ops.name_scope(name, "normalize", [tensor]) as name:
        tensor = ops.convert_to_tensor(tensor)
        norm = linalg_ops.norm(tensor, ord, axis, keepdims=True, name=name)
        norm = math_ops.cast(norm, tensor.dtype)
        return tensor / norm, norm


def l2_normalize(
    x: Any, axis: Any = None, epsilon: float = 1e-12, name: Optional[str] = None, dim: Any = None
) -> Any:
    """Returns x / sqrt(max(sum(x^2), epsilon)), the sum along `axis`."""
    axis = deprecation.deprecated_argument_lookup("axis", axis, "dim", dim)
    return l2_normalize_v2(x, axis, epsilon, name)


def l2_normalize_v2(x: Any, axis: Any = None, epsilon: float = 1e-12, name: Optional[str] = None) -> Any:
    """As `l2_normalize`, with the arguments of version 2."""
    with ops.name_scope(name, "l2_normalize", [x]) as name:
        x = ops.convert_to_tensor(x, name="x")
        square_sum = math_ops.reduce_sum(math_ops.square(x), axis, keepdims=True)
        x_inv_norm = math_ops.rsqrt(math_ops.maximum(square_sum, epsilon))
        return math_ops.multiply(x, x_inv_norm, name=name)


def _count_nonzero(input_tensor: Any, dtype: Any = dtypes.int64) -> Any:
    with ops.name_scope("count_nonzero", values=[input_tensor]):
        zero = array_ops.zeros([], dtype=input_tensor.dtype)
        nonzero_count = math_ops.reduce_sum(
            math_ops.cast(math_ops.not_equal(input_tensor, zero), dtype), name="nonzero_count"
        )
        return nonzero_count


def zero_fraction(value: Any, name: Optional[str] = None) -> Any:
    """Returns the share of zeros in `value` as a float32 scalar; NaN when it is empty."""
    with ops.name_scope(name, "zero_fraction", [value]):
        value = ops.convert_to_tensor(value, name="value")
        size = array_ops.size(value, out_type=dtypes.int64)
        num_nonzero = control_flow_ops.cond(
            size <= dtypes.int32.max,
            true_fn=lambda: math_ops.cast(_count_nonzero(value, dtype=dtypes.int32), dtype=dtypes.int64),
            false_fn=lambda: _count_nonzero(value, dtype=dtypes.int64),
        )
        with ops.name_scope("counts_to_fraction"):
            num_zero = math_ops.cast(size - num_nonzero, dtype=dtypes.float32)
            fraction = num_zero / math_ops.cast(size, dtype=dtypes.float32)
        return array_ops.identity(fraction, "fraction")


def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    rate: Any = None,
    name: Optional[str] = None,
    data_format: Any = None,
    dilations: Any = None,
) -> Any:
    """Convolves each channel with its own filters ([height, width, in, multiplier]); out channels: in * multiplier."""
    rate = deprecation.deprecated_argument_lookup("dilations", dilations, "rate", rate)
    with ops.name_scope(name, "depthwise", [input, filter]) as name:
        input = ops.convert_to_tensor(input, name="tensor_in")
        filter = ops.convert_to_tensor(filter, name="filter_in")
        if rate is None:
            rate = [1, 1]

        def op(input_converted: Any, _: Any, padding: Any) -> Any:
            return gen_nn_ops.depthwise_conv2d_native(
                input=input_converted,
                filter=filter,
                strides=strides,
                padding=padding,
                data_format=data_format or "NHWC",
                name=name,
            )

        return nn_ops.with_space_to_batch(
            input=input,
            filter_shape=_spatial_shape(filter),
            dilation_rate=rate,
            padding=padding,
            data_format=data_format,
            op=op,
        )


def _spatial_shape(filter: Any) -> Any:
    shape = filter.get_shape()
    return shape if shape.is_fully_defined() else array_ops.shape(filter)


def depthwise_conv2d_v2(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    data_format: Any = None,
    dilations: Any = None,
    name: Optional[str] = None,
) -> Any:
    """As `depthwise_conv2d`, with the arguments of version 2."""
    return depthwise_conv2d(
        input, filter, strides, padding, rate=dilations, name=name, data_format=data_format
    )


def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    rate: Any = None,
    name: Optional[str] = None,
    data_format: Any = None,
    dilations: Any = None,
) -> Any:
    """A depthwise convolution followed by a pointwise one ([1, 1, in * multiplier, out]).

    Raises ValueError when the filters do not fit.
    """
    rate = deprecation.deprecated_argument_lookup("dilations", dilations, "rate", rate)
    with ops.name_scope(name, "separable_conv2d", [input, depthwise_filter, pointwise_filter]) as name:
        input = ops.convert_to_tensor(input, name="tensor_in")
        depthwise_filter = ops.convert_to_tensor(depthwise_filter, name="depthwise_filter")
        pointwise_filter = ops.convert_to_tensor(pointwise_filter, name="pointwise_filter")
        pointwise_shape = pointwise_filter.get_shape().with_rank(4)
        if pointwise_shape.ndims is not None:
            pointwise_shape.dims[0].assert_is_compatible_with(1)
            pointwise_shape.dims[1].assert_is_compatible_with(1)
        if rate is None:
            rate = [1, 1]

        def op(input_converted: Any, _: Any, padding: Any) -> Any:
            return gen_nn_ops.depthwise_conv2d_native(
                input=input_converted,
                filter=depthwise_filter,
                strides=strides,
                padding=padding,
                data_format=data_format or "NHWC",
                name="depthwise",
            )

        depthwise = nn_ops.with_space_to_batch(
            input=input,
            filter_shape=_spatial_shape(depthwise_filter),
            dilation_rate=rate,
            padding=padding,
            data_format=data_format,
            op=op,
        )
        return nn_ops.conv2d(
            depthwise,
            pointwise_filter,
            [1, 1, 1, 1],
            padding="VALID",
            data_format=data_format or "NHWC",
            name=name,
        )


def separable_conv2d_v2(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    data_format: Any = None,
    dilations: Any = None,
    name: Optional[str] = None,
) -> Any:
    """As `separable_conv2d`, with the arguments of version 2."""
    return separable_conv2d(
        input,
        depthwise_filter,
        pointwise_filter,
        strides,
        padding,
        rate=dilations,
        name=name,
        data_format=data_format,
    )
