# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Reductions and cumulative sums, with the names of arguments of all 1.x versions.

`reduce_x(input_tensor, axis=None, keepdims=False, name=None)` reduces the axes in `axis` (None: all)
and keeps them with size 1 where `keepdims`. `reduce_x_v1` accepts `keep_dims` and
`reduction_indices`, the older names, too.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from millrace.python.framework import constant_op
from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework import sparse_tensor
from millrace.python.framework import tensor_util
from millrace.python.ops import array_ops
from millrace.python.ops import gen_math_ops
from millrace.python.ops._math_elementwise import cast
from millrace.python.ops._math_elementwise import conj
from millrace.python.ops._math_elementwise import range as range_op
from millrace.python.ops._math_elementwise import real
from millrace.python.util import deprecation


def _ReductionDims(x: Any, axis: Any, reduction_indices: Any = None) -> Any:
    """The axes to reduce: those given, else all, as a constant where the rank is known."""
    if reduction_indices is not None:
        if axis is not None:
            raise ValueError("Can't specify both axis' and 'reduction_indices'.")
        axis = reduction_indices
    if axis is not None:
        return axis
    if isinstance(x, ops.Tensor):
        ndims = x.shape.ndims
        if ndims is not None:
            return constant_op.constant(np.arange(ndims), dtype=dtypes.int32)
    if isinstance(x, sparse_tensor.SparseTensor) and x.dense_shape.get_shape().is_fully_defined():
        ndims = x.dense_shape.get_shape().dims[0].value
        return constant_op.constant(np.arange(ndims), dtype=dtypes.int32)
    return range_op(0, array_ops.rank(x))


def _may_reduce_to_scalar(keepdims: bool, axis: Any, output: Any) -> Any:
    """Sets the shape of a result that is a scalar whatever the input's shape."""
    if axis is None and not output.shape.is_fully_defined():
        if not keepdims:
            output.set_shape(())
        elif output.shape.ndims is not None:
            output.set_shape([1] * output.shape.ndims)
    return output


def _reduce(op: Callable[..., Any], input_tensor: Any, axis: Any, keepdims: Any, name: str | None) -> Any:
    keepdims = False if keepdims is None else bool(keepdims)
    return _may_reduce_to_scalar(
        keepdims, axis, op(input_tensor, _ReductionDims(input_tensor, axis), keepdims, name=name)
    )


def _v1_arguments(axis: Any, keepdims: Any, reduction_indices: Any, keep_dims: Any) -> tuple[Any, Any]:
    axis = deprecation.deprecated_argument_lookup("axis", axis, "reduction_indices", reduction_indices)
    keepdims = deprecation.deprecated_argument_lookup("keepdims", keepdims, "keep_dims", keep_dims)
    return axis, keepdims


def reduce_sum(input_tensor: Any, axis: Any = None, keepdims: Any = False, name: str | None = None) -> Any:
    """Returns the sum over axes."""
    return _reduce(gen_math_ops._sum, input_tensor, axis, keepdims, name)


def reduce_mean(input_tensor: Any, axis: Any = None, keepdims: Any = False, name: str | None = None) -> Any:
    """Returns the mean over axes; of integers it is an integer, as the op divides them."""
    return _reduce(gen_math_ops.mean, input_tensor, axis, keepdims, name)


def reduce_prod(input_tensor: Any, axis: Any = None, keepdims: Any = False, name: str | None = None) -> Any:
    """Returns the product over axes."""
    return _reduce(gen_math_ops.prod, input_tensor, axis, keepdims, name)


def reduce_min(input_tensor: Any, axis: Any = None, keepdims: Any = False, name: str | None = None) -> Any:
    """Returns the minimum over axes."""
    return _reduce(gen_math_ops._min, input_tensor, axis, keepdims, name)


def reduce_max(input_tensor: Any, axis: Any = None, keepdims: Any = False, name: str | None = None) -> Any:
    """Returns the maximum over axes."""
    return _reduce(gen_math_ops._max, input_tensor, axis, keepdims, name)


def reduce_all(input_tensor: Any, axis: Any = None, keepdims: Any = False, name: str | None = None) -> Any:
    """Returns the logical and over axes of a boolean tensor."""
    return _reduce(gen_math_ops._all, input_tensor, axis, keepdims, name)


def reduce_any(input_tensor: Any, axis: Any = None, keepdims: Any = False, name: str | None = None) -> Any:
    """Returns the logical or over axes of a boolean tensor."""
    return _reduce(gen_math_ops._any, input_tensor, axis, keepdims, name)


def reduce_euclidean_norm(
    input_tensor: Any, axis: Any = None, keepdims: Any = False, name: str | None = None
) -> Any:
    """Returns the square root of the sum of squares over axes."""
    return _reduce(gen_math_ops.euclidean_norm, input_tensor, axis, keepdims, name)


def reduce_variance(
    input_tensor: Any, axis: Any = None, keepdims: Any = False, name: str | None = None
) -> Any:
    """Returns the mean of squared distances from the mean over axes; TypeError for integers."""
    with ops.name_scope(name if name else "reduce_variance"):
        input_tensor = ops.convert_to_tensor(input_tensor)
        means = reduce_mean(input_tensor, axis=axis, keepdims=True)
        if means.dtype.is_integer:
            raise TypeError("Input must be either real or complex")
        diff = input_tensor - means
        if diff.dtype.is_complex:
            squared = real(conj(diff) * diff)
        else:
            squared = gen_math_ops.square(diff)
        return reduce_mean(squared, axis=axis, keepdims=keepdims)


def reduce_std(input_tensor: Any, axis: Any = None, keepdims: Any = False, name: str | None = None) -> Any:
    """Returns the standard deviation over axes; TypeError for integers."""
    with ops.name_scope(name if name else "reduce_std"):
        return gen_math_ops.sqrt(reduce_variance(input_tensor, axis=axis, keepdims=keepdims))


def reduce_logsumexp(
    input_tensor: Any, axis: Any = None, keepdims: Any = False, name: str | None = None
) -> Any:
    """Returns log(sum(exp(x))) over axes, computed without overflow."""
    keepdims = False if keepdims is None else keepdims
    input_tensor = ops.convert_to_tensor(input_tensor)
    with ops.name_scope(name, "ReduceLogSumExp", [input_tensor]) as name:
        raw_max = reduce_max(input_tensor, axis=axis, keepdims=True)
        my_max = array_ops.stop_gradient(
            gen_math_ops.select(gen_math_ops.is_finite(raw_max), raw_max, array_ops.zeros_like(raw_max))
        )
        result = gen_math_ops.log(
            reduce_sum(gen_math_ops.exp(gen_math_ops.sub(input_tensor, my_max)), axis, keepdims=keepdims)
        )
        if not keepdims:
            my_max = array_ops.reshape(my_max, _dynamic_shape(result))
        result = gen_math_ops.add(result, my_max)
        return _may_reduce_to_scalar(keepdims, axis, result)


def _dynamic_shape(x: Any) -> Any:
    """The dynamic shape of a tensor, never a constant of the static one."""
    return array_ops.shape_internal(x, optimize=False)


def reduce_sum_v1(
    input_tensor: Any,
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
) -> Any:
    """Returns the sum over axes."""
    axis, keepdims = _v1_arguments(axis, keepdims, reduction_indices, keep_dims)
    return reduce_sum(input_tensor, axis, keepdims, name)


def reduce_mean_v1(
    input_tensor: Any,
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
) -> Any:
    """Returns the mean over axes."""
    axis, keepdims = _v1_arguments(axis, keepdims, reduction_indices, keep_dims)
    return reduce_mean(input_tensor, axis, keepdims, name)


def reduce_prod_v1(
    input_tensor: Any,
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
) -> Any:
    """Returns the product over axes."""
    axis, keepdims = _v1_arguments(axis, keepdims, reduction_indices, keep_dims)
    return reduce_prod(input_tensor, axis, keepdims, name)


def reduce_min_v1(
    input_tensor: Any,
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
) -> Any:
    """Returns the minimum over axes."""
    axis, keepdims = _v1_arguments(axis, keepdims, reduction_indices, keep_dims)
    return reduce_min(input_tensor, axis, keepdims, name)


def reduce_max_v1(
    input_tensor: Any,
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
) -> Any:
    """Returns the maximum over axes."""
    axis, keepdims = _v1_arguments(axis, keepdims, reduction_indices, keep_dims)
    return reduce_max(input_tensor, axis, keepdims, name)


def reduce_all_v1(
    input_tensor: Any,
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
) -> Any:
    """Returns the logical and over axes of a boolean tensor."""
    axis, keepdims = _v1_arguments(axis, keepdims, reduction_indices, keep_dims)
    return reduce_all(input_tensor, axis, keepdims, name)


def reduce_any_v1(
    input_tensor: Any,
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
) -> Any:
    """Returns the logical or over axes of a boolean tensor."""
    axis, keepdims = _v1_arguments(axis, keepdims, reduction_indices, keep_dims)
    return reduce_any(input_tensor, axis, keepdims, name)


def reduce_logsumexp_v1(
    input_tensor: Any,
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
) -> Any:
    """Returns log(sum(exp(x))) over axes, computed without overflow."""
    axis, keepdims = _v1_arguments(axis, keepdims, reduction_indices, keep_dims)
    return reduce_logsumexp(input_tensor, axis, keepdims, name)


def count_nonzero(
    input_tensor: Any = None,
    axis: Any = None,
    keepdims: Any = None,
    dtype: Any = dtypes.int64,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
    input: Any = None,
) -> Any:
    """Returns the number of elements that are not zero (strings: not empty) over axes, of type `dtype`."""
    axis, keepdims = _v1_arguments(axis, keepdims, reduction_indices, keep_dims)
    input_tensor = deprecation.deprecated_argument_lookup("input", input, "input_tensor", input_tensor)
    return count_nonzero_v2(input_tensor, axis, keepdims, dtype, name)


def count_nonzero_v2(
    input: Any,
    axis: Any = None,
    keepdims: Any = None,
    dtype: Any = dtypes.int64,
    name: str | None = None,
) -> Any:
    """Returns the number of elements that are not zero over axes, of type `dtype`."""
    if keepdims is None:
        keepdims = False
    with ops.name_scope(name, "count_nonzero", [input]):
        input = ops.convert_to_tensor(input, name="input")
        zero = array_ops.zeros([], dtype=input.dtype)
        return cast(
            reduce_sum(
                gen_math_ops.cast(gen_math_ops.not_equal(input, zero), dtypes.int64),
                axis=axis,
                keepdims=keepdims,
            ),
            dtype=dtype,
        )


def cumsum(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Any:
    """Returns cumulative sums along `axis`; `exclusive` leaves out the element itself."""
    with ops.name_scope(name, "Cumsum", [x]) as name:
        x = ops.convert_to_tensor(x, name="x")
        return gen_math_ops.cumsum(x, axis, exclusive=exclusive, reverse=reverse, name=name)


def cumprod(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Any:
    """Returns cumulative products along `axis`; `exclusive` leaves out the element itself."""
    with ops.name_scope(name, "Cumprod", [x]) as name:
        x = ops.convert_to_tensor(x, name="x")
        return gen_math_ops.cumprod(x, axis, exclusive=exclusive, reverse=reverse, name=name)


def cumulative_logsumexp(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Any:
    """Returns log of the cumulative sums of exp(x) along `axis`, computed without overflow."""
    with ops.name_scope(name, "CumulativeLogsumexp", [x]) as name:
        x = ops.convert_to_tensor(x, name="x")
        return gen_math_ops.cumulative_logsumexp(x, axis, exclusive=exclusive, reverse=reverse, name=name)


def bincount(
    arr: Any, weights: Any = None, minlength: Any = None, maxlength: Any = None, dtype: Any = dtypes.int32
) -> Any:
    """Returns how often each value occurs in the int32 tensor `arr`, or the sum of its `weights`.

    Args:
      arr: non-negative integers.
      weights: numbers of the shape of `arr`; with them the result has their type.
      minlength: the smallest size of the result, which is padded with zeros.
      maxlength: values of at least this are left out; the largest size of the result.
      dtype: type of the result without weights.
    """
    with ops.name_scope(None, "bincount"):
        arr = ops.convert_to_tensor(arr, name="arr", dtype=dtypes.int32)
        not_empty = reduce_prod(array_ops.shape(arr)) > 0
        output_size = cast(not_empty, dtypes.int32) * (reduce_max(arr) + 1)
        if minlength is not None:
            minlength = ops.convert_to_tensor(minlength, name="minlength", dtype=dtypes.int32)
            output_size = gen_math_ops.maximum(minlength, output_size)
        if maxlength is not None:
            maxlength = ops.convert_to_tensor(maxlength, name="maxlength", dtype=dtypes.int32)
            output_size = gen_math_ops.minimum(maxlength, output_size)
        if weights is not None:
            weights = ops.convert_to_tensor(weights, name="weights")
            return gen_math_ops.unsorted_segment_sum(weights, arr, output_size)
        weights = constant_op.constant([], dtype)
        return gen_math_ops.bincount(arr, output_size, weights)


bincount_v1 = bincount


def reduced_shape(input_shape: Any, axes: Any) -> Any:
    """The shape of a reduction with kept dimensions: `input_shape` with 1 at the positions `axes`."""
    constant_shape = tensor_util.constant_value(input_shape)
    constant_axes = tensor_util.constant_value(axes)
    if constant_shape is not None and constant_axes is not None:
        sizes = np.array(constant_shape, dtype=np.int32).copy()
        sizes[np.array(constant_axes, dtype=np.int32)] = 1
        return sizes
    input_shape = cast(input_shape, dtypes.int32)
    axes = cast(axes, dtypes.int32)
    input_rank = array_ops.size(input_shape)
    axes = (axes + input_rank) % input_rank
    axes_shape = array_ops.shape(axes)
    return _dynamic_stitch([range_op(input_rank), axes], [input_shape, array_ops.fill(axes_shape, 1)])


def _dynamic_stitch(indices: Any, data: Any) -> Any:
    """DynamicStitch, imported when it is needed."""
    from millrace.python.ops import gen_data_flow_ops

    return gen_data_flow_ops.dynamic_stitch(indices, data)
