# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Convolutions, and transposed convolutions, of one, two and three dimensions."""
from __future__ import annotations

import collections.abc
from typing import Any, List, Optional, Sequence, Tuple

from millrace.python.framework import ops, tensor_util
from millrace.python.ops import array_ops, gen_nn_ops
from millrace.python.util import deprecation


def _starts_with_channels(data_format: Any) -> bool:
    """Whether channels come before spatial dimensions; ValueError if the format is not a string."""
    if not isinstance(data_format, (str, bytes)):
        raise ValueError("data_format must be a string, got: %r" % (data_format,))
    return data_format.startswith("NC") if isinstance(data_format, str) else data_format.startswith(b"NC")


def _get_sequence(value: Any, n: int, channel_index: int, name: str) -> List[Any]:
    """Returns `value` (None, a number, or a sequence of 1, `n` or `n + 2` numbers) as one of length `n + 2`."""
    if value is None:
        value = [1]
    elif not isinstance(value, collections.abc.Sized):
        value = [value]
    current_n = len(value)
    if current_n == n + 2:
        return list(value)
    if current_n == 1:
        value = list(value) * n
    elif current_n != n:
        raise ValueError("{} should be of length 1, {} or {} but was {}".format(name, n, n + 2, current_n))
    if channel_index == 1:
        return [1, 1] + list(value)
    return [1] + list(value) + [1]


def _convert_padding(padding: Any) -> Tuple[Any, List[int]]:
    """Returns the attributes (padding, explicit_paddings) for a name or a list of four pairs."""
    if isinstance(padding, str) and padding == "EXPLICIT":
        raise ValueError(
            '"EXPLICIT" is not a valid value for the padding parameter. To use explicit padding, the padding parameter '
            "must be a list."
        )
    if not isinstance(padding, (list, tuple)):
        return padding, []
    explicit: List[int] = []
    for i, pair in enumerate(padding):
        if not isinstance(pair, (list, tuple)):
            raise ValueError(
                "When padding is a list, each element of padding must be a list/tuple of size 2. Element with index %d of "
                "padding is not a list/tuple" % i
            )
        if len(pair) != 2:
            raise ValueError(
                "When padding is a list, each element of padding must be a list/tuple of size 2. Element with index %d of "
                "padding has size %d" % (i, len(pair))
            )
        explicit.extend(pair)
    if len(padding) != 4:
        raise ValueError(
            "When padding is a list, it must be of size 4. Got padding of size: %d" % len(padding)
        )
    return "EXPLICIT", explicit


def conv1d(
    value: Any = None,
    filters: Any = None,
    stride: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: Any = None,
    data_format: Optional[str] = None,
    name: Optional[str] = None,
    input: Any = None,
    dilations: Any = None,
) -> Any:
    """Convolves `value` ([batch, width, channels], or "NCW") with `filters` ([width, in, out]).

    Raises ValueError for another `data_format` than "NWC" and "NCW".
    """
    value = deprecation.deprecated_argument_lookup("input", input, "value", value)
    with ops.name_scope(name, "conv1d", [value, filters]) as name:
        if data_format in (None, "NHWC", "NWC"):
            data_format, spatial_start_dim, channel_index = "NHWC", 1, 2
        elif data_format in ("NCHW", "NCW"):
            data_format, spatial_start_dim, channel_index = "NCHW", 2, 1
        else:
            raise ValueError('data_format must be "NWC" or "NCW".')
        strides = [1] + _get_sequence(stride, 1, channel_index, "stride")
        rates = [1] + _get_sequence(dilations, 1, channel_index, "dilations")
        if channel_index == 1:
            strides, rates = _channels_second(strides), _channels_second(rates)
        image = array_ops.expand_dims(value, spatial_start_dim)
        kernel = array_ops.expand_dims(filters, 0)
        result = gen_nn_ops.conv2d(
            image,
            kernel,
            strides,
            padding,
            use_cudnn_on_gpu=True if use_cudnn_on_gpu is None else use_cudnn_on_gpu,
            data_format=data_format,
            dilations=rates,
            name=name,
        )
        return array_ops.squeeze(result, [spatial_start_dim])


def _channels_second(values: Sequence[Any]) -> List[Any]:
    # [1, batch, channels, width] -> [batch, channels, 1, width]
    return [values[1], values[2], 1, values[3]]


def conv1d_v2(
    input: Any,
    filters: Any,
    stride: Any,
    padding: Any,
    data_format: str = "NWC",
    dilations: Any = None,
    name: Optional[str] = None,
) -> Any:
    """As `conv1d`, with the arguments of version 2."""
    return conv1d(
        input,
        filters,
        stride,
        padding,
        use_cudnn_on_gpu=True,
        data_format=data_format,
        name=name,
        dilations=dilations,
    )


def conv1d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str = "NWC",
    dilations: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Returns the gradient of `conv1d` with respect to its input: [batch, width, out] of shape `output_shape`."""
    with ops.name_scope(name, "conv1d_transpose", [input, filters, output_shape]) as name:
        if data_format in ("NWC", "NHWC"):
            data_format, spatial_start_dim, channel_index = "NHWC", 1, 2
        elif data_format in ("NCW", "NCHW"):
            data_format, spatial_start_dim, channel_index = "NCHW", 2, 1
        else:
            raise ValueError('data_format must be "NWC" or "NCW".')
        steps = _get_sequence(strides, 1, channel_index, "stride")
        rates = _get_sequence(dilations, 1, channel_index, "dilations")
        at = spatial_start_dim
        steps, rates = steps[:at] + [1] + steps[at:], rates[:at] + [1] + rates[at:]
        image = array_ops.expand_dims(input, spatial_start_dim)
        kernel = array_ops.expand_dims(filters, 0)
        if isinstance(output_shape, (list, tuple)):
            shape: Any = list(output_shape)
        else:
            shape = array_ops.unstack(ops.convert_to_tensor(output_shape), num=3)
        shape = list(shape[:at]) + [1] + list(shape[at:])
        result = gen_nn_ops.conv2d_backprop_input(
            input_sizes=shape,
            filter=kernel,
            out_backprop=image,
            strides=steps,
            padding=padding,
            data_format=data_format,
            dilations=rates,
            name=name,
        )
        return array_ops.squeeze(result, spatial_start_dim)


def conv2d_v2(
    input: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: Any = "NHWC",
    dilations: Any = None,
    name: Optional[str] = None,
) -> Any:
    """As `conv2d`, with the arguments of version 2."""
    return conv2d(
        input,
        filters,
        strides,
        padding,
        use_cudnn_on_gpu=True,
        data_format=data_format,
        dilations=dilations,
        name=name,
    )


def conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: Any = True,
    data_format: Any = "NHWC",
    dilations: Any = [1, 1, 1, 1],
    name: Optional[str] = None,
    filters: Any = None,
) -> Any:
    """Convolves images [batch, height, width, in] (or "NCHW") with a filter [height, width, in, out].

    `strides` and `dilations` have 1, 2 or 4 numbers; `padding` is "SAME", "VALID" or a list of four pairs.
    """
    filter = deprecation.deprecated_argument_lookup("filters", filters, "filter", filter)
    padding, explicit_paddings = _convert_padding(padding)
    if data_format is None:
        data_format = "NHWC"
    channel_index = 1 if _starts_with_channels(data_format) else 3
    strides = _get_sequence(strides, 2, channel_index, "strides")
    dilations = _get_sequence(dilations, 2, channel_index, "dilations")
    return gen_nn_ops.conv2d(
        input,
        filter,
        strides=strides,
        padding=padding,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        explicit_paddings=explicit_paddings,
        data_format=data_format,
        dilations=dilations,
        name=name,
    )


def conv2d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    use_cudnn_on_gpu: Any = True,
    data_format: str = "NHWC",
    dilations: Any = [1, 1, 1, 1],
    name: Optional[str] = None,
) -> Any:
    """Returns the gradient of `conv2d` with respect to its filter, of shape `filter_sizes`."""
    padding, explicit_paddings = _convert_padding(padding)
    return gen_nn_ops.conv2d_backprop_filter(
        input,
        filter_sizes,
        out_backprop,
        strides=strides,
        padding=padding,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        explicit_paddings=explicit_paddings,
        data_format=data_format,
        dilations=dilations,
        name=name,
    )


def conv2d_backprop_input(
    input_sizes: Any,
    filter: Any = None,
    out_backprop: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: Any = True,
    data_format: str = "NHWC",
    dilations: Any = [1, 1, 1, 1],
    name: Optional[str] = None,
    filters: Any = None,
) -> Any:
    """Returns the gradient of `conv2d` with respect to its input, of shape `input_sizes`."""
    filter = deprecation.deprecated_argument_lookup("filters", filters, "filter", filter)
    padding, explicit_paddings = _convert_padding(padding)
    return gen_nn_ops.conv2d_backprop_input(
        input_sizes,
        filter,
        out_backprop,
        strides=strides,
        padding=padding,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        explicit_paddings=explicit_paddings,
        data_format=data_format,
        dilations=dilations,
        name=name,
    )


def conv2d_transpose(
    value: Any = None,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: Any = "SAME",
    data_format: Any = "NHWC",
    name: Optional[str] = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Any:
    """Returns the transposed convolution: images of shape `output_shape`; `filter` is [height, width, out, in]."""
    value = deprecation.deprecated_argument_lookup("input", input, "value", value)
    filter = deprecation.deprecated_argument_lookup("filters", filters, "filter", filter)
    with ops.name_scope(name, "conv2d_transpose", [value, filter, output_shape]) as name:
        return conv2d_transpose_v2(
            value,
            filter,
            output_shape,
            strides,
            padding=padding,
            data_format=data_format,
            dilations=dilations,
            name=name,
        )


def conv2d_transpose_v2(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: Any = "NHWC",
    dilations: Any = None,
    name: Optional[str] = None,
) -> Any:
    """As `conv2d_transpose`, with the arguments of version 2."""
    with ops.name_scope(name, "conv2d_transpose", [input, filters, output_shape]) as name:
        if data_format is None:
            data_format = "NHWC"
        channel_index = 1 if _starts_with_channels(data_format) else 3
        return gen_nn_ops.conv2d_backprop_input(
            input_sizes=output_shape,
            filter=filters,
            out_backprop=input,
            strides=_get_sequence(strides, 2, channel_index, "strides"),
            padding=padding,
            data_format=data_format,
            dilations=_get_sequence(dilations, 2, channel_index, "dilations"),
            name=name,
        )


def conv3d_v1(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NDHWC",
    dilations: Any = [1, 1, 1, 1, 1],
    name: Optional[str] = None,
    filters: Any = None,
) -> Any:
    """Convolves volumes [batch, depth, height, width, in] with a filter [depth, height, width, in, out]."""
    filter = deprecation.deprecated_argument_lookup("filters", filters, "filter", filter)
    return gen_nn_ops.conv3d(input, filter, strides, padding, data_format, dilations, name)


def conv3d_v2(
    input: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NDHWC",
    dilations: Any = None,
    name: Optional[str] = None,
) -> Any:
    """As `conv3d`, with the arguments of version 2."""
    if dilations is None:
        dilations = [1, 1, 1, 1, 1]
    return gen_nn_ops.conv3d(
        input,
        filters,
        strides=strides,
        padding=padding,
        data_format=data_format,
        dilations=dilations,
        name=name,
    )


def conv3d_transpose(
    value: Any,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: Any = "SAME",
    data_format: str = "NDHWC",
    name: Optional[str] = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Any:
    """Returns the transposed convolution of volumes; `filter` is [depth, height, width, out, in]."""
    filter = deprecation.deprecated_argument_lookup("filters", filters, "filter", filter)
    value = deprecation.deprecated_argument_lookup("input", input, "value", value)
    return conv3d_transpose_v2(
        value,
        filter,
        output_shape,
        strides,
        padding=padding,
        data_format=data_format,
        dilations=dilations,
        name=name,
    )


def conv3d_transpose_v2(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: Any = "NDHWC",
    dilations: Any = None,
    name: Optional[str] = None,
) -> Any:
    """As `conv3d_transpose`, with the arguments of version 2."""
    with ops.name_scope(name, "conv3d_transpose", [input, filters, output_shape]) as name:
        if data_format is None:
            data_format = "NDHWC"
        channel_index = 1 if _starts_with_channels(data_format) else 4
        return gen_nn_ops.conv3d_backprop_input_v2(
            input_sizes=output_shape,
            filter=filters,
            out_backprop=input,
            strides=_get_sequence(strides, 3, channel_index, "strides"),
            padding=padding,
            data_format=data_format,
            dilations=_get_sequence(dilations, 3, channel_index, "dilations"),
            name=name,
        )


CONV_TRANSPOSE_OPS = (conv1d_transpose, conv2d_transpose_v2, conv3d_transpose_v2)


def conv_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: Any = None,
    dilations: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Returns the transposed convolution of one, two or three dimensions: `output_shape` has 3, 4 or 5 numbers."""
    with ops.name_scope(name, "conv_transpose", [input, filters, output_shape]) as name:
        if tensor_util.is_tensor(output_shape):
            if output_shape.shape.ndims not in (None, 1):
                raise ValueError("output_shape must be a vector, got shape %s" % output_shape.shape)
            n = (
                output_shape.shape[0].value - 2
                if hasattr(output_shape.shape[0], "value")
                else output_shape.shape[0] - 2
            )
        elif isinstance(output_shape, collections.abc.Sized):
            n = len(output_shape) - 2
        else:
            raise ValueError("output_shape must be a tensor or sized collection.")
        if not 1 <= n <= 3:
            raise ValueError("output_shape must be of length 3, 4 or 5 but was {}.".format(n + 2))
        formats = ("NWC", "NHWC", "NDHWC")
        return CONV_TRANSPOSE_OPS[n - 1](
            input,
            filters,
            output_shape,
            strides,
            padding=padding,
            data_format=data_format or formats[n - 1],
            dilations=dilations,
            name=name,
        )
