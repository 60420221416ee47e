# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Dropout, biases, rectifiers, morphology, atrous convolutions and other ops of `nn_ops`."""
from __future__ import annotations

import numbers
from typing import Any, Optional

from millrace.python.framework import dtypes, ops, tensor_shape, tensor_util
from millrace.python.ops import array_ops, gen_nn_ops, math_ops, random_ops
from millrace.python.ops import _nn_conv, _nn_dilated
from millrace.python.util import deprecation


def bias_add(value: Any, bias: Any, data_format: Any = None, name: Optional[str] = None) -> Any:
    """Adds the vector `bias` to the channels of `value`; ValueError unless the format is N...C or NC...."""
    with ops.name_scope(name, "BiasAdd", [value, bias]) as name:
        if data_format is not None:
            if not isinstance(data_format, str):
                raise ValueError("data_format must be a string, got: %r" % (data_format,))
            if data_format.startswith("NC"):
                data_format = "NCHW"
            elif data_format.startswith("N") and data_format.endswith("C"):
                data_format = "NHWC"
            else:
                raise ValueError("data_format must be of the form `N...C` or `NC...`")
        value = ops.convert_to_tensor(value, name="input")
        bias = ops.convert_to_tensor(bias, dtype=value.dtype, name="bias")
        return gen_nn_ops.bias_add(
            value, bias, data_format="NHWC" if data_format is None else data_format, name=name
        )


def bias_add_v1(value: Any, bias: Any, name: Optional[str] = None) -> Any:
    """Adds the vector `bias` to the last dimension of `value` by the older op BiasAddV1."""
    with ops.name_scope(name, "BiasAddV1", [value, bias]) as name:
        value = ops.convert_to_tensor(value, name="input")
        bias = ops.convert_to_tensor(bias, dtype=value.dtype, name="bias")
        return gen_nn_ops.bias_add_v1(value, bias, name=name)


def crelu(features: Any, name: Optional[str] = None, axis: Any = -1) -> Any:
    """Returns relu of `features` and of -`features`, joined along `axis`."""
    with ops.name_scope(name, "CRelu", [features]) as name:
        features = ops.convert_to_tensor(features, name="features")
        return gen_nn_ops.relu(array_ops.concat([features, -features], axis, name=name))


def crelu_v2(features: Any, axis: Any = -1, name: Optional[str] = None) -> Any:
    """As `crelu`, with the arguments of version 2."""
    return crelu(features, name=name, axis=axis)


def relu6(features: Any, name: Optional[str] = None) -> Any:
    """Returns min(max(features, 0), 6)."""
    with ops.name_scope(name, "Relu6", [features]) as name:
        features = ops.convert_to_tensor(features, name="features")
        return gen_nn_ops.relu6(features, name=name)


def leaky_relu(features: Any, alpha: Any = 0.2, name: Optional[str] = None) -> Any:
    """Returns max(features, alpha * features); integers are taken as floats."""
    with ops.name_scope(name, "LeakyRelu", [features, alpha]) as name:
        features = ops.convert_to_tensor(features, name="features")
        if features.dtype.is_integer:
            features = math_ops.cast(features, dtypes.float32)
        if isinstance(alpha, numbers.Real):
            return gen_nn_ops.leaky_relu(features, alpha=float(alpha), name=name)
        alpha = ops.convert_to_tensor(alpha, dtype=features.dtype, name="alpha")
        return math_ops.maximum(alpha * features, features, name=name)


def xw_plus_b(x: Any, weights: Any, biases: Any, name: Optional[str] = None) -> Any:
    """Returns matmul(x, weights) + biases."""
    with ops.name_scope(name, "xw_plus_b", [x, weights, biases]) as name:
        x = ops.convert_to_tensor(x, name="x")
        weights = ops.convert_to_tensor(weights, name="weights")
        biases = ops.convert_to_tensor(biases, name="biases")
        return bias_add(math_ops.matmul(x, weights), biases, name=name)


def xw_plus_b_v1(x: Any, weights: Any, biases: Any, name: Optional[str] = None) -> Any:
    """As `xw_plus_b`, with the op BiasAddV1 of old graphs."""
    with ops.name_scope(name, "xw_plus_b_v1", [x, weights, biases]) as name:
        x = ops.convert_to_tensor(x, name="x")
        weights = ops.convert_to_tensor(weights, name="weights")
        biases = ops.convert_to_tensor(biases, name="biases")
        return bias_add_v1(math_ops.matmul(x, weights), biases, name=name)


def _get_noise_shape(x: Any, noise_shape: Any) -> Any:
    if noise_shape is None:
        return array_ops.shape(x)
    try:
        noise = tensor_shape.as_shape(noise_shape)
    except (TypeError, ValueError):
        return noise_shape
    dims = x.shape.dims
    if dims is not None and noise.dims is not None and len(dims) == len(noise.dims):
        given = noise.as_list()
        return tensor_shape.TensorShape(
            [
                static if one is None and static is not None else one
                for one, static in zip(given, x.shape.as_list())
            ]
        )
    return noise_shape


def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: Any = None,
    name: Optional[str] = None,
    rate: Any = None,
) -> Any:
    """Sets each element to 0 with probability `rate` (1 - `keep_prob`), scales others by 1 / (1 - rate).

    Raises ValueError when no rate or a rate outside [0, 1) is given, or `x` is not of floating point.
    """
    try:
        keep = 1.0 - keep_prob if keep_prob is not None else None
    except TypeError:
        raise ValueError("keep_prob must be a floating point number or Tensor (got %r)" % keep_prob) from None
    rate = deprecation.deprecated_argument_lookup("rate", rate, "keep_prob", keep)
    if rate is None:
        raise ValueError("You must provide a rate to dropout.")
    return dropout_v2(x, rate, noise_shape=noise_shape, seed=seed, name=name)


def dropout_v2(
    x: Any, rate: Any, noise_shape: Any = None, seed: Any = None, name: Optional[str] = None
) -> Any:
    """As `dropout`, with the arguments of version 2."""
    with ops.name_scope(name, "dropout", [x]):
        x = ops.convert_to_tensor(x, name="x")
        if not x.dtype.is_floating:
            raise ValueError(
                "x has to be a floating point tensor since it's going to be scaled. Got a %s tensor instead."
                % x.dtype
            )
        if isinstance(rate, numbers.Real):
            if not 0 <= rate < 1:  # type: ignore[operator]
                raise ValueError("rate must be a scalar tensor or a float in the range [0, 1), got %g" % rate)
            if rate == 0:
                return x
        rate = ops.convert_to_tensor(rate, dtype=x.dtype, name="rate")
        rate.get_shape().assert_has_rank(0)
        value = tensor_util.constant_value(rate)
        if value is not None and value == 0:
            return x
        noise_shape = _get_noise_shape(x, noise_shape)
        random_tensor = random_ops.random_uniform(noise_shape, seed=seed, dtype=x.dtype)
        keep_prob = 1 - rate
        scale = 1 / keep_prob
        keep_mask = random_tensor >= rate
        ret = x * scale * math_ops.cast(keep_mask, x.dtype)
        ret.set_shape(x.get_shape())
        return ret


def top_k(input: Any, k: Any = 1, sorted: bool = True, name: Optional[str] = None) -> Any:
    """Returns (values, indices) of the `k` largest elements of the last dimension."""
    return gen_nn_ops.top_kv2(input, k=k, sorted=sorted, name=name)


def nth_element(input: Any, n: Any, reverse: bool = False, name: Optional[str] = None) -> Any:
    """Returns the `n`-th smallest (or largest) element of the last dimension."""
    return gen_nn_ops.nth_element(input, n, reverse=reverse, name=name)


def in_top_k(predictions: Any, targets: Any, k: Any, name: Optional[str] = None) -> Any:
    """Returns for each row whether the class `targets` is among the `k` largest predictions."""
    with ops.name_scope(name, "in_top_k"):
        return gen_nn_ops.in_top_kv2(predictions, targets, k, name=name)


def in_top_k_v2(targets: Any, predictions: Any, k: Any, name: Optional[str] = None) -> Any:
    """As `in_top_k`, with the arguments of version 2."""
    return in_top_k(predictions, targets, k, name)


def conv3d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NDHWC",
    dilations: Any = [1, 1, 1, 1, 1],
    name: Optional[str] = None,
) -> Any:
    """Returns the gradient of `conv3d` with respect to its filter."""
    return gen_nn_ops.conv3d_backprop_filter_v2(
        input, filter_sizes, out_backprop, strides, padding, data_format, dilations, name
    )


def atrous_conv2d(value: Any, filters: Any, rate: Any, padding: Any, name: Optional[str] = None) -> Any:
    """Convolves images with a filter whose elements are `rate` pixels apart."""
    return _nn_dilated.convolution(
        input=value,
        filter=filters,
        padding=padding,
        dilation_rate=[rate, rate] if not hasattr(rate, "__len__") else rate,
        name=name,
    )


def atrous_conv2d_transpose(
    value: Any, filters: Any, output_shape: Any, rate: Any, padding: Any, name: Optional[str] = None
) -> Any:
    """Returns the transposed convolution for a filter whose elements are `rate` pixels apart.

    Raises ValueError for a negative rate, channels or sizes that do not fit and for another padding than "SAME"/"VALID".
    """
    with ops.name_scope(name, "atrous_conv2d_transpose", [value, filters, output_shape]) as name:
        value = ops.convert_to_tensor(value, name="value")
        filters = ops.convert_to_tensor(filters, name="filters")
        value_channels = value.get_shape().with_rank(4).dims[3]
        filter_channels = filters.get_shape().with_rank(4).dims[3]
        if not value_channels.is_compatible_with(filter_channels):
            raise ValueError(
                "value's input channels does not match filters' input channels, {} != {}".format(
                    value_channels, filter_channels
                )
            )
        if rate < 1:
            raise ValueError("rate {} cannot be less than one".format(rate))
        if rate == 1:
            return _nn_conv.conv2d_transpose(
                value, filters, output_shape, strides=[1, 1, 1, 1], padding=padding, data_format="NHWC"
            )
        output_shape_ = ops.convert_to_tensor(output_shape, name="output_shape")
        if not output_shape_.get_shape().is_compatible_with(tensor_shape.TensorShape([4])):
            raise ValueError("output_shape must have shape (4,), got {}".format(output_shape_.get_shape()))
        if isinstance(output_shape, tuple):
            output_shape = list(output_shape)
        if isinstance(output_shape, list) and not filters.get_shape().dims[2].is_compatible_with(
            output_shape[3]
        ):
            raise ValueError(
                "output_shape does not match filter's output channels, {} != {}".format(
                    output_shape[3], filters.get_shape().dims[2]
                )
            )
        if padding == "SAME":
            if filters.get_shape().is_fully_defined():
                filter_shape: Any = filters.get_shape().as_list()
            else:
                filter_shape = array_ops.shape(filters)
            height = filter_shape[0] + (filter_shape[0] - 1) * (rate - 1)
            width = filter_shape[1] + (filter_shape[1] - 1) * (rate - 1)
            top, left = (height - 1) // 2, (width - 1) // 2
            bottom, right = height - 1 - top, width - 1 - left
        elif padding == "VALID":
            top = bottom = left = right = 0
        else:
            raise ValueError("padding must be either VALID or SAME: {} was passed. ".format(padding))
        in_height = output_shape[1] + top + bottom
        in_width = output_shape[2] + left + right
        crop_h, crop_w = (rate - in_height % rate) % rate, (rate - in_width % rate) % rate
        in_shape = [
            output_shape[0] * rate * rate,
            (in_height + crop_h) // rate,
            (in_width + crop_w) // rate,
            output_shape[3],
        ]
        pads = [[0, (rate - value_dim % rate) % rate] for value_dim in _spatial(value)]
        moved = array_ops.space_to_batch(input=value, paddings=pads, block_size=rate)
        result = gen_nn_ops.conv2d_backprop_input(
            input_sizes=in_shape,
            filter=filters,
            out_backprop=moved,
            strides=[1, 1, 1, 1],
            padding="VALID",
            data_format="NHWC",
        )
        crops = [[top, bottom + crop_h], [left, right + crop_w]]
        return array_ops.batch_to_space(input=result, crops=crops, block_size=rate)


def _spatial(value: Any) -> Any:
    dims = value.get_shape().as_list()[1:3]
    if None in dims:
        shape = array_ops.shape(value)
        return [shape[1], shape[2]]
    return dims


def dilation2d_v1(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: Any = None,
    name: Optional[str] = None,
    filters: Any = None,
    dilations: Any = None,
) -> Any:
    """Returns the grey-scale dilation: maxima of image plus filter over windows."""
    filter = deprecation.deprecated_argument_lookup("filters", filters, "filter", filter)
    rates = deprecation.deprecated_argument_lookup("dilations", dilations, "rates", rates)
    return gen_nn_ops.dilation2d(input, filter, strides, rates, padding, name)


def dilation2d_v2(
    input: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str,
    dilations: Any,
    name: Optional[str] = None,
) -> Any:
    """As `dilation2d`, with the arguments of version 2."""
    if data_format != "NHWC":
        raise ValueError("Data formats other than NHWC are not yet supported")
    return gen_nn_ops.dilation2d(
        input=input, filter=filters, strides=strides, rates=dilations, padding=padding, name=name
    )


def erosion2d(
    value: Any, kernel: Any, strides: Any, rates: Any, padding: Any, name: Optional[str] = None
) -> Any:
    """Returns the grey-scale erosion: minima of image minus kernel over windows."""
    with ops.name_scope(name, "erosion2d", [value, kernel]) as name:
        return math_ops.negative(
            gen_nn_ops.dilation2d(
                input=math_ops.negative(value),
                filter=array_ops.reverse_v2(kernel, [0, 1]),
                strides=strides,
                rates=rates,
                padding=padding,
                name=name,
            )
        )


def erosion2d_v2(
    value: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str,
    dilations: Any,
    name: Optional[str] = None,
) -> Any:
    """As `erosion2d`, with the arguments of version 2."""
    if data_format != "NHWC":
        raise ValueError("Data formats other than NHWC are not yet supported")
    return erosion2d(value, filters, strides, dilations, padding, name)
