# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Convolutions of one to three dimensions, dilated ones by space-to-batch."""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

import numpy as np

from millrace.python.framework import dtypes, ops, tensor_shape, tensor_util
from millrace.python.ops import _nn_conv, array_ops, gen_nn_ops
from millrace.python.util import deprecation


def _value(dim: Any) -> Any:
    return dim.value if isinstance(dim, tensor_shape.Dimension) else dim


def _get_strides_and_dilation_rate(
    num_spatial_dims: int, strides: Any, dilation_rate: Any
) -> Tuple[Any, Any]:
    """Returns both as arrays of `num_spatial_dims` numbers.

    Raises:
      ValueError: numbers below 1, lists of another length, or strides and rates that are both above 1.
    """
    if dilation_rate is None:
        dilation_rate = [1] * num_spatial_dims
    elif len(dilation_rate) != num_spatial_dims:
        raise ValueError("len(dilation_rate)=%d but should be %d" % (len(dilation_rate), num_spatial_dims))
    dilation_rate = np.array(dilation_rate, dtype=np.int32)
    if np.any(dilation_rate < 1):
        raise ValueError("all values of dilation_rate must be positive")
    if strides is None:
        strides = [1] * num_spatial_dims
    elif len(strides) != num_spatial_dims:
        raise ValueError("len(strides)=%d but should be %d" % (len(strides), num_spatial_dims))
    strides = np.array(strides, dtype=np.int32)
    if np.any(strides < 1):
        raise ValueError("all values of strides must be positive")
    if np.any(strides > 1) and np.any(dilation_rate > 1):
        raise ValueError("strides > 1 not supported in conjunction with dilation_rate > 1")
    return strides, dilation_rate


class _NonAtrousConvolution:
    """A convolution without dilation of one to three dimensions, its shapes checked beforehand."""

    def __init__(
        self,
        input_shape: Any,
        filter_shape: Any,
        padding: Any,
        data_format: Any = None,
        strides: Any = None,
        name: Optional[str] = None,
    ):
        filter_shape = filter_shape.with_rank(input_shape.ndims)
        input_shape = input_shape.with_rank(filter_shape.ndims)
        if input_shape.ndims is None:
            raise ValueError("Rank of convolution must be known")
        if input_shape.ndims < 3 or input_shape.ndims > 5:
            raise ValueError(
                "`input` and `filter` must have rank at least 3 and at most 5. Received rank: %s"
                % input_shape.ndims
            )
        self.padding = padding
        self.name = name
        conv_dims = input_shape.ndims - 2
        if strides is None:
            strides = [1] * conv_dims
        elif len(strides) != conv_dims:
            raise ValueError("len(strides)=%d, but should be %d" % (len(strides), conv_dims))
        names = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}[conv_dims]
        if data_format is None or data_format == names[0]:
            self.data_format, self.strides = names[0], [1] + list(strides) + [1]
        elif data_format == names[1]:
            self.data_format, self.strides = names[1], [1, 1] + list(strides)
        else:
            raise ValueError('data_format must be "%s" or "%s". Have: %s' % (names[0], names[1], data_format))
        if conv_dims == 1:
            self.strides = list(strides)
        self.conv_op: Callable[[Any, Any], Any] = (self._conv1d, self._conv2d, self._conv3d)[conv_dims - 1]

    def _conv1d(self, inp: Any, filter: Any) -> Any:
        return _nn_conv.conv1d(
            value=inp,
            filters=filter,
            stride=self.strides[0],
            padding=self.padding,
            data_format=self.data_format,
            name=self.name,
        )

    def _conv2d(self, inp: Any, filter: Any) -> Any:
        return _nn_conv.conv2d(
            inp,
            filter,
            strides=self.strides,
            padding=self.padding,
            data_format=self.data_format,
            name=self.name,
        )

    def _conv3d(self, inp: Any, filter: Any) -> Any:
        return gen_nn_ops.conv3d(
            inp,
            filter,
            strides=self.strides,
            padding=self.padding,
            data_format=self.data_format,
            name=self.name,
        )

    def __call__(self, inp: Any, filter: Any) -> Any:
        return self.conv_op(inp, filter)


def _with_space_to_batch_base_paddings(
    filter_shape: Any, num_spatial_dims: int, rate_or_const_rate: Any
) -> Any:
    """Returns the [num_spatial_dims, 2] paddings of "SAME" for a filter dilated by the rate."""
    filter_spatial_shape = filter_shape[:num_spatial_dims]
    dilated = filter_spatial_shape + (filter_spatial_shape - 1) * (rate_or_const_rate - 1)
    pad_extra_shape = dilated - 1
    pad_extra_start = pad_extra_shape // 2
    pad_extra_end = pad_extra_shape - pad_extra_start
    return array_ops.stack([[pad_extra_start[i], pad_extra_end[i]] for i in range(num_spatial_dims)])


def _with_space_to_batch_adjust(orig: Any, fill_value: int, spatial_dims: Any) -> Any:
    """Puts the rows of `orig` at the indices `spatial_dims`; other rows are filled with `fill_value`."""
    fill_dims = orig.get_shape().as_list()[1:]
    dtype = orig.dtype.as_numpy_dtype
    parts: List[Any] = []
    const_orig = tensor_util.constant_value(orig)
    const_or_orig = const_orig if const_orig is not None else orig
    prev_spatial_dim = 0
    i = 0
    while i < len(spatial_dims):
        start_i, start_spatial_dim = i, spatial_dims[i]
        if start_spatial_dim > 1:
            parts.append(
                np.full([start_spatial_dim - 1 - prev_spatial_dim] + fill_dims, fill_value, dtype=dtype)
            )
        while i + 1 < len(spatial_dims) and spatial_dims[i + 1] == spatial_dims[i] + 1:
            i += 1
        parts.append(const_or_orig[start_i : i + 1])
        prev_spatial_dim = spatial_dims[i]
        i += 1
    if const_orig is not None:
        return np.concatenate(parts)
    return array_ops.concat(parts, 0)


def _same_paddings_of_constant_filter(filter_shape: Any, num_spatial_dims: int, rate: Any) -> Any:
    extent = (
        np.array(filter_shape[:num_spatial_dims])
        + (np.array(filter_shape[:num_spatial_dims]) - 1) * (rate - 1)
        - 1
    )
    return np.stack([extent // 2, extent - extent // 2], axis=1).astype(np.int32)


class _WithSpaceToBatch:
    """Runs the op that `build_op` makes after a space-to-batch of its input, which replaces dilation."""

    def __init__(
        self,
        input_shape: Any,
        dilation_rate: Any,
        padding: Any,
        build_op: Callable[[int, Any], Any],
        filter_shape: Any = None,
        spatial_dims: Any = None,
        data_format: Any = None,
    ):
        dilation_rate = ops.convert_to_tensor(dilation_rate, dtypes.int32, name="dilation_rate")
        try:
            rate_shape = dilation_rate.get_shape().with_rank(1)
        except ValueError:
            raise ValueError("rate must be rank 1") from None
        if not rate_shape.is_fully_defined():
            raise ValueError("rate must have known shape")
        num_spatial_dims = rate_shape.as_list()[0]
        if data_format is not None and not isinstance(data_format, str):
            raise ValueError("data_format must be a string, got: %r" % (data_format,))
        starts = 2 if data_format is not None and data_format.startswith("NC") else 1
        if spatial_dims is None:
            spatial_dims = range(starts, num_spatial_dims + starts)
        orig_spatial_dims = list(spatial_dims)
        spatial_dims = sorted(set(int(x) for x in orig_spatial_dims))
        if spatial_dims != orig_spatial_dims or any(x < 1 for x in spatial_dims):
            raise ValueError("spatial_dims must be a montonically increasing sequence of positive integers")
        if not spatial_dims:
            raise ValueError("rate must have at least one element")
        last_spatial_dim = spatial_dims[-1] if starts == 2 else spatial_dims[-1]
        expected_input_rank = last_spatial_dim + (1 if starts == 2 else 2)
        try:
            input_shape.with_rank_at_least(min(expected_input_rank, last_spatial_dim + 1))
        except ValueError:
            raise ValueError("input tensor must have rank %d at least" % expected_input_rank) from None
        self.data_format = data_format
        self.spatial_dims = spatial_dims
        self.base_paddings: Any = None
        self.build_op = build_op
        self.padding = padding
        self.op: Any = None
        const_rate = tensor_util.constant_value(dilation_rate)
        rate_or_const_rate: Any = dilation_rate
        if const_rate is not None:
            rate_or_const_rate = const_rate
            if np.any(const_rate < 1):
                raise ValueError("dilation_rate must be positive")
            if np.all(const_rate == 1):
                self.call: Callable[[Any, Any], Any] = build_op(num_spatial_dims, padding)
                return
        if padding == "SAME":
            if filter_shape is None:
                raise ValueError("filter_shape must be specified for SAME padding")
            static = (
                tensor_shape.as_shape(filter_shape)[:num_spatial_dims] if _is_static(filter_shape) else None
            )
            if static is not None and static.is_fully_defined() and const_rate is not None:
                self.base_paddings = _same_paddings_of_constant_filter(
                    static.as_list(), num_spatial_dims, const_rate
                )
            else:
                shape = ops.convert_to_tensor(filter_shape, name="filter_shape")
                self.num_spatial_dims = num_spatial_dims
                self.base_paddings = _with_space_to_batch_base_paddings(
                    shape, num_spatial_dims, rate_or_const_rate
                )
        elif padding == "VALID":
            self.base_paddings = np.zeros([num_spatial_dims, 2], np.int32)
        else:
            raise ValueError("Invalid padding method %r" % padding)
        self.input_shape = input_shape
        self.op = build_op(num_spatial_dims, "VALID")
        self.rate_or_const_rate = rate_or_const_rate
        self.call = self._with_space_to_batch_call

    def _with_space_to_batch_call(self, inp: Any, filter: Any) -> Any:
        input_spatial_shape = None
        spatial_dims = self.spatial_dims
        if self.input_shape.ndims is not None:
            values = self.input_shape.as_list()
            input_spatial_shape = [values[i] for i in spatial_dims]
        if input_spatial_shape is None or None in input_spatial_shape:
            input_shape_tensor = array_ops.shape(inp)
            input_spatial_shape = array_ops.stack([input_shape_tensor[i] for i in spatial_dims])
        paddings, crops = array_ops.required_space_to_batch_paddings(
            input_shape=input_spatial_shape,
            base_paddings=self.base_paddings,
            block_shape=self.rate_or_const_rate,
        )
        rate = ops.convert_to_tensor(self.rate_or_const_rate, dtypes.int32)
        dilation_rate = _with_space_to_batch_adjust(rate, 1, spatial_dims)
        paddings = _with_space_to_batch_adjust(ops.convert_to_tensor(paddings), 0, spatial_dims)
        crops = _with_space_to_batch_adjust(ops.convert_to_tensor(crops), 0, spatial_dims)
        moved = array_ops.space_to_batch_nd(input=inp, block_shape=dilation_rate, paddings=paddings)
        result = self.op(moved, filter)
        restored = array_ops.batch_to_space_nd(result, block_shape=dilation_rate, crops=crops)
        if self.data_format is not None and self.data_format.startswith("NC"):
            shape = inp.get_shape().as_list() if inp.get_shape().ndims is not None else None
            if shape is not None and restored.get_shape().ndims is not None:
                restored.set_shape([shape[0]] + restored.get_shape().as_list()[1:])
        return restored

    def __call__(self, inp: Any, filter: Any) -> Any:
        return self.call(inp, filter)


def _is_static(filter_shape: Any) -> bool:
    if isinstance(filter_shape, tensor_shape.TensorShape):
        return True
    return isinstance(filter_shape, (list, tuple)) and not any(tensor_util.is_tensor(d) for d in filter_shape)


def with_space_to_batch(
    input: Any,
    dilation_rate: Any,
    padding: Any,
    op: Callable[[Any, int, Any], Any],
    filter_shape: Any = None,
    spatial_dims: Any = None,
    data_format: Any = None,
) -> Any:
    """Runs `op(converted, num_spatial_dims, padding)` on the space-to-batch of `input`, and the inverse."""
    input = ops.convert_to_tensor(input, name="input")
    input_shape = input.get_shape()

    def build_op(num_spatial_dims: int, padding: Any) -> Callable[[Any, Any], Any]:
        return lambda inp, _: op(inp, num_spatial_dims, padding)

    new_op = _WithSpaceToBatch(
        input_shape,
        dilation_rate,
        padding,
        build_op,
        filter_shape=filter_shape,
        spatial_dims=spatial_dims,
        data_format=data_format,
    )
    return new_op(input, None)


class Convolution:
    """A convolution whose shapes are checked when it is made; called with (input, filter)."""

    def __init__(
        self,
        input_shape: Any,
        filter_shape: Any,
        padding: Any,
        strides: Any = None,
        dilation_rate: Any = None,
        name: Optional[str] = None,
        data_format: Any = None,
    ):
        num_total_dims = filter_shape.ndims
        if num_total_dims is None:
            num_total_dims = input_shape.ndims
        if num_total_dims is None:
            raise ValueError("rank of input or filter must be known")
        num_spatial_dims = num_total_dims - 2
        try:
            input_shape.with_rank(num_spatial_dims + 2)
        except ValueError:
            raise ValueError("input tensor must have rank %d" % (num_spatial_dims + 2)) from None
        try:
            filter_shape.with_rank(num_spatial_dims + 2)
        except ValueError:
            raise ValueError("filter tensor must have rank %d" % (num_spatial_dims + 2)) from None
        if data_format is not None and not isinstance(data_format, str):
            raise ValueError("data_format must be a string, got: %r" % (data_format,))
        if data_format is None or not data_format.startswith("NC"):
            input_channels_dim = tensor_shape.dimension_at_index(input_shape, num_spatial_dims + 1)
            spatial_dims = range(1, num_spatial_dims + 1)
        else:
            input_channels_dim = tensor_shape.dimension_at_index(input_shape, 1)
            spatial_dims = range(2, num_spatial_dims + 2)
        filter_channels_dim = tensor_shape.dimension_at_index(filter_shape, num_spatial_dims)
        if not input_channels_dim.is_compatible_with(filter_channels_dim):
            raise ValueError(
                "number of input channels does not match corresponding dimension of filter, {} != {}".format(
                    input_channels_dim, filter_channels_dim
                )
            )
        strides, dilation_rate = _get_strides_and_dilation_rate(num_spatial_dims, strides, dilation_rate)
        self.input_shape = input_shape
        self.filter_shape = filter_shape
        self.data_format = data_format
        self.strides = strides
        self.padding = padding
        self.name = name
        self.dilation_rate = dilation_rate
        self.conv_op = _WithSpaceToBatch(
            input_shape,
            dilation_rate=dilation_rate,
            padding=padding,
            build_op=self._build_op,
            filter_shape=filter_shape,
            spatial_dims=spatial_dims,
            data_format=data_format,
        )

    def _build_op(self, _: int, padding: Any) -> _NonAtrousConvolution:
        return _NonAtrousConvolution(
            self.input_shape,
            filter_shape=self.filter_shape,
            padding=padding,
            data_format=self.data_format,
            strides=[int(s) for s in self.strides],
            name=self.name,
        )

    def __call__(self, inp: Any, filter: Any) -> Any:
        return self.conv_op(inp, filter)


def convolution(
    input: Any,
    filter: Any,
    padding: Any,
    strides: Any = None,
    dilation_rate: Any = None,
    name: Optional[str] = None,
    data_format: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Any:
    """Convolves `input` ([batch] + spatial + [in], or "NC...") with `filter` (spatial + [in, out]) in 1 to 3 dimensions.

    Raises ValueError for ranks, channels, strides and rates that do not fit; strides above 1 exclude dilation.
    """
    filter = deprecation.deprecated_argument_lookup("filters", filters, "filter", filter)
    dilation_rate = deprecation.deprecated_argument_lookup(
        "dilations", dilations, "dilation_rate", dilation_rate
    )
    return convolution_internal(
        input,
        filter,
        strides=strides,
        padding=padding,
        data_format=data_format,
        dilations=dilation_rate,
        name=name,
    )


def convolution_v2(
    input: Any,
    filters: Any,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: Any = None,
    dilations: Any = None,
    name: Optional[str] = None,
) -> Any:
    """As `convolution`, with the arguments of version 2."""
    return convolution_internal(
        input,
        filters,
        strides=strides,
        padding=padding,
        data_format=data_format,
        dilations=dilations,
        name=name,
    )


def convolution_internal(
    input: Any,
    filters: Any,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: Any = None,
    dilations: Any = None,
    name: Optional[str] = None,
) -> Any:
    """The implementation of both versions of `convolution`."""
    with ops.name_scope(name, "convolution", [input, filters]) as name:
        input = ops.convert_to_tensor(input, name="input")
        filters = ops.convert_to_tensor(filters, name="filter")
        op = Convolution(
            input.get_shape(),
            filters.get_shape(),
            padding,
            strides=strides,
            dilation_rate=dilations,
            name=name,
            data_format=data_format,
        )
        return op(input, filters)
