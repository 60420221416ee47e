# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Array ops about whole tensors: identity, shapes, sizes, filled tensors and placeholders."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.framework import common_shapes
from millrace.python.framework import composite_tensor
from millrace.python.framework import constant_op
from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework import sparse_tensor
from millrace.python.framework import tensor_shape
from millrace.python.framework import tensor_util
from millrace.python.ops import gen_array_ops
from millrace.python.ops import gen_math_ops
from millrace.python.util import deprecation
from millrace.python.util import nest

_SPARSE = (sparse_tensor.SparseTensor, sparse_tensor.SparseTensorValue)


def identity(input: Any, name: str | None = None) -> Any:
    """Returns a tensor (or composite tensor) with the shape, type and contents of `input`."""
    if isinstance(input, composite_tensor.CompositeTensor):
        return nest.map_structure(identity, input, expand_composites=True)
    return gen_array_ops.identity(input, name=name)


def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Any:
    """Inserts a dimension of 1 at `axis` of the shape of `input`; negative axes count from the end.

    Raises:
      ValueError: neither or both of `axis` and `dim` (its old name) are given.
    """
    axis = deprecation.deprecated_argument_lookup("axis", axis, "dim", dim)
    if axis is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims()")
    return expand_dims_v2(input, axis, name)


def expand_dims_v2(input: Any, axis: Any, name: str | None = None) -> Any:
    """Inserts a dimension of 1 at `axis` of the shape of `input`."""
    return gen_array_ops.expand_dims(input, axis, name)


def listdiff(x: Any, y: Any, out_idx: Any = None, name: str | None = None) -> Any:
    """Returns (values of the vector `x` that are not in `y`, their positions in `x`)."""
    return gen_array_ops.list_diff(x, y, dtypes.int32 if out_idx is None else out_idx, name)


def setdiff1d(x: Any, y: Any, index_dtype: Any = dtypes.int32, name: str | None = None) -> Any:
    """Returns (values of the vector `x` that are not in `y`, their positions in `x`)."""
    return gen_array_ops.list_diff(x, y, index_dtype, name)


def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Any:
    """Returns the shape, a vector, that two tensors of the given shape vectors broadcast to."""
    return gen_array_ops.broadcast_args(shape_x, shape_y)


def broadcast_static_shape(shape_x: Any, shape_y: Any) -> Any:
    """Returns the TensorShape that two static shapes broadcast to.

    Raises:
      ValueError: the shapes do not broadcast.
    """
    return common_shapes.broadcast_shape(shape_x, shape_y)


def shape(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Any:
    """Returns the shape of `input` (a tensor or sparse tensor) as a vector of `out_type`."""
    return shape_internal(input, name, optimize=True, out_type=out_type)


def shape_v2(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> Any:
    """Returns the shape of `input` as a vector of `out_type`."""
    return shape(input, name, out_type)


def shape_internal(
    input: Any, name: str | None = None, optimize: bool = True, out_type: Any = dtypes.int32
) -> Any:
    """Returns the shape of `input`, as a constant if `optimize` and the static shape is known."""
    with ops.name_scope(name, "Shape", [input]) as name:
        if isinstance(input, _SPARSE):
            return gen_math_ops.cast(input.dense_shape, out_type)
        input = ops.convert_to_tensor(input)
        input_shape = input.get_shape()
        if optimize and input_shape.is_fully_defined():
            return constant_op.constant(input_shape.as_list(), out_type, name=name)
        return gen_array_ops.shape(input, name=name, out_type=out_type)


def shape_n(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> Any:
    """Returns a list with the shape, a vector of `out_type`, of each tensor of the list `input`."""
    return gen_array_ops.shape_n(input, out_type=out_type, name=name)


def size(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Any:
    """Returns the number of elements of `input` as a scalar of `out_type`."""
    return size_internal(input, name, optimize=True, out_type=out_type)


def size_v2(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> Any:
    """Returns the number of elements of `input` as a scalar of `out_type`."""
    return size(input, name, out_type)


def size_internal(
    input: Any, name: str | None = None, optimize: bool = True, out_type: Any = dtypes.int32
) -> Any:
    """Returns the number of elements of `input`, as a constant if it is known and `optimize`."""
    with ops.name_scope(name, "Size", [input]) as name:
        if isinstance(input, _SPARSE):
            return gen_math_ops.prod(gen_math_ops.cast(input.dense_shape, out_type), 0, name=name)
        input = ops.convert_to_tensor(input)
        input_shape = input.get_shape()
        if optimize:
            if input_shape.is_fully_defined():
                return constant_op.constant(input_shape.num_elements(), out_type, name=name)
            if input_shape.dims and any(dim.value == 0 for dim in input_shape.dims):
                return constant_op.constant(0, out_type, name=name)
        return gen_array_ops.size(input, name=name, out_type=out_type)


def rank(input: Any, name: str | None = None) -> Any:
    """Returns the number of dimensions of `input` as an int32 scalar."""
    return rank_internal(input, name, optimize=True)


def rank_internal(input: Any, name: str | None = None, optimize: bool = True) -> Any:
    """Returns the rank of `input`, as a constant if it is known and `optimize`."""
    with ops.name_scope(name, "Rank", [input]) as name:
        if isinstance(input, _SPARSE):
            return gen_array_ops.size(input.dense_shape, name=name)
        input_shape = ops.convert_to_tensor(input).get_shape()
        if optimize and input_shape.ndims is not None:
            return constant_op.constant(input_shape.ndims, dtypes.int32, name=name)
        return gen_array_ops.rank(input, name=name)


def fill(dims: Any, value: Any, name: str | None = None) -> Any:
    """Returns a tensor of shape `dims` (an integer vector), each element `value` (a scalar)."""
    return gen_array_ops.fill(dims, value, name=name)


def _zero_of(dtype: Any) -> Any:
    """The zero of an element type as a Python value: False, '' or 0."""
    if dtype == dtypes.bool:
        return False
    return "" if dtype == dtypes.string else 0


def _filled(shape: Any, value: Any, dtype: Any, name: str) -> Any:
    """A tensor of `shape` full of `value`: a constant where it is small, else a Fill."""
    if not isinstance(shape, ops.Tensor):
        try:
            small = _constant_if_small(value, shape, dtype, name)
            if small is not None:
                return small
            # Shapes go through TensorShape, so that lists of Dimensions and of tensors may mix.
            shape = constant_op._tensor_shape_tensor_conversion_function(tensor_shape.TensorShape(shape))
        except (TypeError, ValueError):
            shape = ops.convert_to_tensor(shape, dtype=dtypes.int32)
    if not shape._shape_tuple():
        # A scalar is treated as a vector of one element.
        shape = gen_array_ops.reshape(shape, [-1])
    return fill(shape, constant_op.constant(value, dtype=dtype), name=name)


def _constant_if_small(value: Any, shape: Any, dtype: Any, name: str | None) -> Any:
    """A constant for fewer than 1000 elements; None if there are more or the shape is no constant."""
    try:
        if np.prod(shape) < 1000:
            return constant_op.constant(value, shape=shape, dtype=dtype, name=name)
    except (TypeError, NotImplementedError):  # tensors among the sizes
        pass
    return None


def zeros(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Any:
    """Returns a tensor of `shape` and `dtype` whose elements are zero (False, empty strings)."""
    dtype = dtypes.as_dtype(dtype).base_dtype
    with ops.name_scope(name, "zeros", [shape]) as name:
        output = _filled(shape, _zero_of(dtype), dtype, name)
    assert output.dtype.base_dtype == dtype
    return output


def ones(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Any:
    """Returns a tensor of `shape` and `dtype` whose elements are one (True)."""
    dtype = dtypes.as_dtype(dtype).base_dtype
    with ops.name_scope(name, "ones", [shape]) as name:
        output = _filled(shape, True if dtype == dtypes.bool else 1, dtype, name)
    assert output.dtype.base_dtype == dtype
    return output


def zeros_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Any:
    """Returns zeros of the shape of `tensor`, of its type or of `dtype`."""
    return zeros_like_impl(tensor, dtype, name, optimize)


def zeros_like_v2(input: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Returns zeros of the shape of `input`, of its type or of `dtype`."""
    return zeros_like_impl(input, dtype, name, optimize=True)


def zeros_like_impl(tensor: Any, dtype: Any, name: str | None, optimize: bool = True) -> Any:
    """Zeros like a tensor; constants where `optimize` and the shape is known."""
    with ops.name_scope(name, "zeros_like", [tensor]) as name:
        tensor = ops.convert_to_tensor(tensor, name="tensor")
        tensor_dtype = tensor.dtype
        # A handle or variant has no elements that a constant could hold.
        if (
            optimize
            and tensor.shape.is_fully_defined()
            and tensor_dtype not in (dtypes.variant, dtypes.resource)
        ):
            return zeros(tensor.shape, dtype=dtype or tensor_dtype, name=name)
        if dtype is not None and dtypes.as_dtype(dtype) != tensor_dtype and dtype != dtypes.variant:
            return zeros(shape_internal(tensor, optimize=optimize), dtype=dtype, name=name)
        return gen_array_ops.zeros_like(tensor, name=name)


def ones_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Any:
    """Returns ones of the shape of `tensor`, of its type or of `dtype`."""
    return ones_like_impl(tensor, dtype, name, optimize)


def ones_like_v2(input: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Returns ones of the shape of `input`, of its type or of `dtype`."""
    return ones_like_impl(input, dtype, name, optimize=True)


def ones_like_impl(tensor: Any, dtype: Any, name: str | None, optimize: bool = True) -> Any:
    """Ones like a tensor, with its static shape."""
    with ops.name_scope(name, "ones_like", [tensor]) as name:
        tensor = ops.convert_to_tensor(tensor, name="tensor")
        ones_shape = shape_internal(tensor, optimize=optimize)
        result = ones(ones_shape, dtype=tensor.dtype if dtype is None else dtype, name=name)
        result.set_shape(tensor.get_shape())
        return result


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Any:
    """Returns a tensor of `dtype` and static `shape` (None: any) that must be fed.

    Raises:
      RuntimeError: eager execution is enabled.
    """
    if ops.executing_eagerly():
        raise RuntimeError("tf.placeholder() is not compatible with eager execution.")
    return gen_array_ops.placeholder(dtype=dtype, shape=shape, name=name)


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Any:
    """Returns a tensor of static `shape` that has the value `input` unless it is fed."""
    return gen_array_ops.placeholder_with_default(input, shape, name)


def _normalize_sparse_shape(shape: Any, name: str | None) -> tuple[Any, int | None]:
    """Converts a shape to an int64 vector or tensor; returns it and its rank (None if unknown)."""
    if shape is None:
        return None, None
    rank = shape.get_shape()[0] if isinstance(shape, ops.Tensor) else len(shape)
    if not isinstance(shape, ops.Tensor) and None in shape:
        return None, rank
    return ops.convert_to_tensor(shape, dtype=dtypes.int64, name=name), rank


def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Any:
    """Returns a SparseTensor of `dtype` that must be fed; `shape` None: of any dense shape."""
    shape_name = (name + "/shape") if name is not None else None
    default_shape_name = (name + "/shape_default") if name is not None else None
    if shape is None:
        rank = None
        dense_shape = placeholder(dtypes.int64, shape=[rank], name=shape_name)
    else:
        if isinstance(shape, ops.Tensor):
            rank = shape.get_shape().with_rank(1)[0]
            dense_shape = ops.convert_to_tensor(shape, dtype=dtypes.int64, name=shape_name)
        else:
            sizes = tensor_shape.TensorShape(shape).as_list()
            rank = len(sizes)
            # Unknown sizes are -1 in the default shape, which is used unless a shape is fed.
            known = tuple(-1 if dim is None else dim for dim in sizes)
            default = ops.convert_to_tensor(known, dtype=dtypes.int64, name=default_shape_name)
            dense_shape = placeholder_with_default(default, shape=default.shape, name=shape_name)
    return sparse_tensor.SparseTensor(
        values=placeholder(dtype, shape=[None], name=(name + "/values") if name is not None else None),
        indices=placeholder(
            dtypes.int64, shape=[None, rank], name=(name + "/indices") if name is not None else None
        ),
        dense_shape=dense_shape,
    )


def convert_to_int_tensor(tensor: Any, name: str, dtype: Any = dtypes.int32) -> Any:
    """Converts a value to a tensor of an integer type; other types raise TypeError."""
    tensor = ops.convert_to_tensor(tensor, name=name, preferred_dtype=dtype)
    if not tensor.dtype.is_integer:
        raise TypeError("%s must be an integer tensor; dtype=%s" % (name, tensor.dtype))
    return gen_math_ops.cast(tensor, dtype)


def get_positive_axis(axis: int, ndims: int | None) -> int:
    """Returns `axis` counted from the start; ValueError where it is out of range or cannot be counted."""
    if not isinstance(axis, (int, np.integer)):
        raise TypeError("axis must be an int; got %s" % type(axis).__name__)
    if ndims is not None:
        if 0 <= axis < ndims:
            return axis
        if -ndims <= axis < 0:
            return axis + ndims
        raise ValueError("axis=%s out of bounds: expected %s<=axis<%s" % (axis, -ndims, ndims))
    if axis < 0:
        raise ValueError("axis may only be negative if ndims is statically known.")
    return axis


def _all_dimensions(x: Any) -> Any:
    """The vector of all axes of a tensor: a constant where its rank is known."""
    if isinstance(x, ops.Tensor) and x.get_shape().ndims is not None:
        return constant_op.constant(np.arange(x.get_shape().ndims), dtype=dtypes.int32)
    if isinstance(x, sparse_tensor.SparseTensor) and x.dense_shape.get_shape().is_fully_defined():
        return constant_op.constant(np.arange(x.dense_shape.get_shape().dims[0].value), dtype=dtypes.int32)
    return gen_math_ops._range(0, rank(x), 1)


def constant_value(tensor: Any) -> Any:
    """The value of a tensor that is known while the graph is made, as an array; otherwise None."""
    return tensor_util.constant_value(tensor)
