# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Pools of one to three dimensions."""
from __future__ import annotations

from typing import Any, Callable, Optional

import numpy as np

from millrace.python.framework import dtypes, ops, random_seed, tensor_shape
from millrace.python.ops import array_ops, gen_nn_ops
from millrace.python.ops._nn_conv import _get_sequence, _starts_with_channels
from millrace.python.ops._nn_dilated import _get_strides_and_dilation_rate, with_space_to_batch
from millrace.python.util import deprecation


def pool(
    input: Any,
    window_shape: Any,
    pooling_type: Any,
    padding: Any,
    dilation_rate: Any = None,
    strides: Any = None,
    name: Optional[str] = None,
    data_format: Any = None,
    dilations: Any = None,
) -> Any:
    """Pools ("AVG" or "MAX") windows of one to three dimensions, which may be dilated.

    Raises ValueError for another type of pool, and for ranks, strides and rates that do not fit.
    """
    dilation_rate = deprecation.deprecated_argument_lookup(
        "dilations", dilations, "dilation_rate", dilation_rate
    )
    if not isinstance(pooling_type, str):
        raise ValueError("pooling_type must be a string, got: %r" % (pooling_type,))
    with ops.name_scope(name, "%s_pool" % (pooling_type.lower()), [input]) as scope:
        input = ops.convert_to_tensor(input, name="input")
        num_spatial_dims = len(window_shape)
        if num_spatial_dims < 1 or num_spatial_dims > 3:
            raise ValueError("It is required that 1 <= num_spatial_dims <= 3.")
        input.get_shape().with_rank(num_spatial_dims + 2)
        strides, dilation_rate = _get_strides_and_dilation_rate(num_spatial_dims, strides, dilation_rate)
        if padding == "SAME" and np.any(dilation_rate > 1):
            raise ValueError("pooling with SAME padding is not implemented for dilation_rate > 1")
        if np.any(strides > window_shape):
            raise ValueError(
                "strides > window_shape not supported due to inconsistency between CPU and GPU implementations"
            )
        pooling_ops = {
            ("MAX", 1): max_pool,
            ("MAX", 2): max_pool,
            ("MAX", 3): max_pool3d,
            ("AVG", 1): avg_pool,
            ("AVG", 2): avg_pool,
            ("AVG", 3): avg_pool3d,
        }
        op_key = (pooling_type, num_spatial_dims)
        if op_key not in pooling_ops:
            raise ValueError("%d-D %s pooling is not supported." % (op_key[1], op_key[0]))
        op: Callable[..., Any] = pooling_ops[op_key]  # type: ignore[assignment]
        second = data_format is not None and _starts_with_channels(data_format)
        if data_format not in (None, "NWC", "NCW", "NHWC", "NCHW", "NDHWC", "NCDHW"):
            raise ValueError('data_format must be either "NHWC" or "NCHW".')
        window, steps = [int(w) for w in window_shape], [int(s) for s in strides]
        if num_spatial_dims == 1:
            window, steps = [1] + window, [1] + steps
        if second:
            window, steps = [1, 1] + window, [1, 1] + steps
            adjusted = {1: "NCHW", 2: "NCHW", 3: "NCDHW"}[num_spatial_dims]
        else:
            window, steps = [1] + window + [1], [1] + steps + [1]
            adjusted = {1: "NHWC", 2: "NHWC", 3: "NDHWC"}[num_spatial_dims]
        width_axis = 2 if second else 1

        def run(converted_input: Any, _: Any, converted_padding: Any) -> Any:
            if num_spatial_dims == 1:
                converted_input = array_ops.expand_dims(converted_input, width_axis)
            result = op(converted_input, window, steps, converted_padding, name=scope, data_format=adjusted)
            return array_ops.squeeze(result, [width_axis]) if num_spatial_dims == 1 else result

        starts = 2 if second else 1
        return with_space_to_batch(
            input=input,
            filter_shape=tensor_shape.TensorShape(list(window_shape)),
            spatial_dims=range(starts, starts + num_spatial_dims),
            dilation_rate=dilation_rate,
            padding=padding,
            data_format=data_format,
            op=run,
        )


def pool_v2(
    input: Any,
    window_shape: Any,
    pooling_type: Any,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: Any = None,
    dilations: Any = None,
    name: Optional[str] = None,
) -> Any:
    """As `pool`, with the arguments of version 2."""
    return pool(input, window_shape, pooling_type, padding, dilations, strides, name, data_format)


def avg_pool_v2(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: Any = None, name: Optional[str] = None
) -> Any:
    """Averages windows of one to three dimensions, as the rank of `input` or `data_format` says."""
    n, channel_index, data_format = _dims_of_pool(input, data_format)
    pooling_ops = {1: avg_pool1d, 2: gen_nn_ops.avg_pool, 3: gen_nn_ops.avg_pool3d}
    return (
        pooling_ops[n](
            input, ksize=ksize, strides=strides, padding=padding, data_format=data_format, name=name
        )
        if n == 1
        else pooling_ops[n](
            input,
            ksize=_get_sequence(ksize, n, channel_index, "ksize"),
            strides=_get_sequence(strides, n, channel_index, "strides"),
            padding=padding,
            data_format=data_format,
            name=name,
        )
    )


def max_pool_v2(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: Any = None, name: Optional[str] = None
) -> Any:
    """Takes the maxima of windows of one to three dimensions, as the rank of `input` or `data_format` says."""
    n, channel_index, data_format = _dims_of_pool(input, data_format)
    if n == 1:
        return max_pool1d(
            input, ksize=ksize, strides=strides, padding=padding, data_format=data_format, name=name
        )
    op = {2: gen_nn_ops.max_pool, 3: gen_nn_ops.max_pool3d}[n]
    return op(
        input,
        ksize=_get_sequence(ksize, n, channel_index, "ksize"),
        strides=_get_sequence(strides, n, channel_index, "strides"),
        padding=padding,
        data_format=data_format,
        name=name,
    )


def _dims_of_pool(input: Any, data_format: Any) -> Any:
    if data_format is not None:
        n = len(data_format) - 2
    else:
        shape = (
            ops.convert_to_tensor(input).get_shape() if not hasattr(input, "get_shape") else input.get_shape()
        )
        if shape.ndims is None:
            raise ValueError("The rank of input must be known when data_format is not given.")
        n = shape.ndims - 2
        data_format = {1: "NWC", 2: "NHWC", 3: "NDHWC"}.get(n)
    if not 1 <= n <= 3:
        raise ValueError("Input tensor must be of rank 3, 4 or 5 but was {}.".format(n + 2))
    return n, 1 if _starts_with_channels(data_format) else n + 1, data_format


def _pool2d(
    op: Callable[..., Any],
    default: str,
    value: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: Any,
    name: Any,
) -> Any:
    with ops.name_scope(name, default, [value]) as name:
        if data_format is None:
            data_format = "NHWC"
        channel_index = 1 if _starts_with_channels(data_format) else 3
        ksize = _get_sequence(ksize, 2, channel_index, "ksize")
        strides = _get_sequence(strides, 2, channel_index, "strides")
        return op(value, ksize=ksize, strides=strides, padding=padding, data_format=data_format, name=name)


def avg_pool(
    value: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: Any = "NHWC",
    name: Optional[str] = None,
    input: Any = None,
) -> Any:
    """Averages windows of images [batch, height, width, channels] (or "NCHW")."""
    value = deprecation.deprecated_argument_lookup("input", input, "value", value)
    return _pool2d(gen_nn_ops.avg_pool, "AvgPool", value, ksize, strides, padding, data_format, name)


def avg_pool2d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: Any = "NHWC", name: Optional[str] = None
) -> Any:
    """As `avg_pool`, with the arguments of version 2."""
    return _pool2d(gen_nn_ops.avg_pool, "AvgPool2D", input, ksize, strides, padding, data_format, name)


def _pool1d(
    op: Callable[..., Any],
    default: str,
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: Any,
    name: Any,
) -> Any:
    with ops.name_scope(name, default, [input]) as name:
        if data_format is None:
            data_format = "NWC"
        channel_index = 1 if _starts_with_channels(data_format) else 2
        ksize = [1] + _get_sequence(ksize, 1, channel_index, "ksize")
        strides = [1] + _get_sequence(strides, 1, channel_index, "strides")
        axis = 2 if _starts_with_channels(data_format) else 1
        image = array_ops.expand_dims_v2(input, axis)
        layout = "NCHW" if data_format == "NCW" else "NHWC"
        result = op(image, ksize=ksize, strides=strides, padding=padding, data_format=layout, name=name)
        return array_ops.squeeze(result, axis)


def avg_pool1d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: Any = "NWC", name: Optional[str] = None
) -> Any:
    """Averages windows of sequences [batch, width, channels] (or "NCW")."""
    return _pool1d(gen_nn_ops.avg_pool, "AvgPool1D", input, ksize, strides, padding, data_format, name)


def max_pool1d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: Any = "NWC", name: Optional[str] = None
) -> Any:
    """Takes the maxima of windows of sequences [batch, width, channels] (or "NCW")."""
    return _pool1d(gen_nn_ops.max_pool, "MaxPool1d", input, ksize, strides, padding, data_format, name)


def _pool3d(
    op: Callable[..., Any],
    default: str,
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: Any,
    name: Any,
) -> Any:
    with ops.name_scope(name, default, [input]) as name:
        if data_format is None:
            data_format = "NDHWC"
        channel_index = 1 if _starts_with_channels(data_format) else 4
        ksize = _get_sequence(ksize, 3, channel_index, "ksize")
        strides = _get_sequence(strides, 3, channel_index, "strides")
        return op(input, ksize=ksize, strides=strides, padding=padding, data_format=data_format, name=name)


def avg_pool3d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: Any = "NDHWC", name: Optional[str] = None
) -> Any:
    """Averages windows of volumes [batch, depth, height, width, channels] (or "NCDHW")."""
    return _pool3d(gen_nn_ops.avg_pool3d, "AvgPool3D", input, ksize, strides, padding, data_format, name)


def max_pool3d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: Any = "NDHWC", name: Optional[str] = None
) -> Any:
    """Takes the maxima of windows of volumes [batch, depth, height, width, channels] (or "NCDHW")."""
    return _pool3d(gen_nn_ops.max_pool3d, "MaxPool3D", input, ksize, strides, padding, data_format, name)


def max_pool(
    value: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: Any = "NHWC",
    name: Optional[str] = None,
    input: Any = None,
) -> Any:
    """Takes the maxima of windows of images [batch, height, width, channels] (or "NCHW")."""
    value = deprecation.deprecated_argument_lookup("input", input, "value", value)
    if data_format is not None and data_format not in ("NHWC", "NCHW", "NCHW_VECT_C"):
        raise ValueError(
            "Attr 'data_format' of 'MaxPool' Op passed string '%s' not in: \"NHWC\", \"NCHW\", \"NCHW_VECT_C\"."
            % data_format
        )
    return _pool2d(gen_nn_ops.max_pool, "MaxPool", value, ksize, strides, padding, data_format, name)


def max_pool2d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: Any = "NHWC", name: Optional[str] = None
) -> Any:
    """As `max_pool`, with the arguments of version 2."""
    return _pool2d(gen_nn_ops.max_pool, "MaxPool2d", input, ksize, strides, padding, data_format, name)


def max_pool_with_argmax_v2(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    output_dtype: Any = dtypes.int64,
    include_batch_in_index: bool = False,
    name: Optional[str] = None,
) -> Any:
    """Returns (maxima, their flat indices); raises ValueError for another format than "NHWC"."""
    if data_format != "NHWC":
        raise ValueError("Data formats other than 'NHWC' are not yet supported")
    return gen_nn_ops.max_pool_with_argmax(
        input=input,
        ksize=_get_sequence(ksize, 2, 3, "ksize"),
        strides=_get_sequence(strides, 2, 3, "strides"),
        padding=padding,
        Targmax=output_dtype,
        include_batch_in_index=include_batch_in_index,
        name=name,
    )


def max_pool_with_argmax_v1(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    Targmax: Any = None,
    name: Optional[str] = None,
    output_dtype: Any = None,
    include_batch_in_index: bool = False,
) -> Any:
    """Returns (maxima, their flat indices); raises ValueError for another format than "NHWC"."""
    if data_format != "NHWC":
        raise ValueError("Data formats other than 'NHWC' are not yet supported")
    Targmax = deprecation.deprecated_argument_lookup("output_dtype", output_dtype, "Targmax", Targmax)
    return gen_nn_ops.max_pool_with_argmax(
        input=input,
        ksize=ksize,
        strides=strides,
        padding=padding,
        Targmax=dtypes.int64 if Targmax is None else Targmax,
        include_batch_in_index=include_batch_in_index,
        name=name,
    )


def _fractional(
    op: Callable[..., Any],
    value: Any,
    ratio: Any,
    pseudo_random: bool,
    overlapping: bool,
    seed: Any,
    name: Any,
) -> Any:
    ratio = _get_sequence(ratio, 2, 3, "pooling_ratio")
    if seed == 0:
        return op(value, ratio, pseudo_random, overlapping, deterministic=False, seed=0, seed2=0, name=name)
    seed1, seed2 = random_seed.get_seed(seed)
    return op(
        value, ratio, pseudo_random, overlapping, deterministic=True, seed=seed1, seed2=seed2, name=name
    )


def fractional_max_pool(
    value: Any,
    pooling_ratio: Any,
    pseudo_random: bool = False,
    overlapping: bool = False,
    deterministic: bool = False,
    seed: int = 0,
    seed2: int = 0,
    name: Optional[str] = None,
) -> Any:
    """Returns (output, row_pooling_sequence, col_pooling_sequence) of maxima over regions of random sizes."""
    return gen_nn_ops.fractional_max_pool(
        value, pooling_ratio, pseudo_random, overlapping, deterministic, seed, seed2, name
    )


def fractional_max_pool_v2(
    value: Any,
    pooling_ratio: Any,
    pseudo_random: bool = False,
    overlapping: bool = False,
    seed: int = 0,
    name: Optional[str] = None,
) -> Any:
    """As `fractional_max_pool`; deterministic when there is a seed."""
    return _fractional(
        gen_nn_ops.fractional_max_pool, value, pooling_ratio, pseudo_random, overlapping, seed, name
    )


def fractional_avg_pool(
    value: Any,
    pooling_ratio: Any,
    pseudo_random: bool = False,
    overlapping: bool = False,
    deterministic: bool = False,
    seed: int = 0,
    seed2: int = 0,
    name: Optional[str] = None,
) -> Any:
    """Returns (output, row_pooling_sequence, col_pooling_sequence) of means over regions of random sizes."""
    return gen_nn_ops.fractional_avg_pool(
        value, pooling_ratio, pseudo_random, overlapping, deterministic, seed, seed2, name=name
    )


def fractional_avg_pool_v2(
    value: Any,
    pooling_ratio: Any,
    pseudo_random: bool = False,
    overlapping: bool = False,
    seed: int = 0,
    name: Optional[str] = None,
) -> Any:
    """As `fractional_avg_pool`; deterministic when there is a seed."""
    return _fractional(
        gen_nn_ops.fractional_avg_pool, value, pooling_ratio, pseudo_random, overlapping, seed, name
    )
