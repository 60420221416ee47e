# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Array ops that choose elements: slices, gathers, masks, where."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from millrace.python.framework import constant_op, dtypes, ops, tensor_shape, tensor_util
from millrace.python.ops import gen_array_ops, gen_math_ops
from millrace.python.ops._array_basic import expand_dims, identity, ones_like, rank
from millrace.python.ops._array_basic import shape as shape_of
from millrace.python.ops._array_joining import concat, reshape, squeeze, stack, transpose

_BaseSlice = slice

_SLICE_TYPE_ERROR = (
    "Only integers, slices (`:`), ellipsis (`...`), "
    "tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors are valid "
    "indices"
)

_SUPPORTED_SLICE_DTYPES = (dtypes.int32, dtypes.int32_ref, dtypes.int64, dtypes.int64_ref)


def _check_index(idx: Any) -> None:
    """Raises TypeError unless `idx` is an integer or a scalar integer tensor."""
    if isinstance(idx, (int, np.integer, tensor_shape.Dimension)):
        return
    dtype = getattr(idx, "dtype", None)
    if (
        dtype is None
        or dtypes.as_dtype(dtype) not in _SUPPORTED_SLICE_DTYPES
        or (idx.shape and len(idx.shape) == 1)
    ):
        raise TypeError(_SLICE_TYPE_ERROR + ", got {!r}".format(idx))


class _SliceSpec:
    """The arguments of a StridedSlice, collected from the parts of an index expression."""

    def __init__(self, parts: Any) -> None:
        self.begin: list[Any] = []
        self.end: list[Any] = []
        self.strides: list[Any] = []
        self.masks = dict.fromkeys(
            ("begin_mask", "end_mask", "shrink_axis_mask", "new_axis_mask", "ellipsis_mask"), 0
        )
        for index, part in enumerate(parts):
            self._add(1 << index, part)

    def _append(self, begin: Any, end: Any, stride: Any) -> None:
        self.begin.append(begin)
        self.end.append(end)
        self.strides.append(stride)

    def _add(self, bit: int, part: Any) -> None:
        if isinstance(part, _BaseSlice):
            begin: Any = 0
            end: Any = 0
            if part.start is not None and (isinstance(part.start, ops.Tensor) or part.start != sys.maxsize):
                _check_index(part.start)
                begin = part.start
            else:
                self.masks["begin_mask"] |= bit
            if part.stop is not None and (isinstance(part.stop, ops.Tensor) or part.stop != sys.maxsize):
                _check_index(part.stop)
                end = part.stop
            else:
                self.masks["end_mask"] |= bit
            if part.step is not None:
                _check_index(part.step)
            self._append(begin, end, 1 if part.step is None else part.step)
        elif part is Ellipsis:
            self._append(0, 0, 1)
            self.masks["ellipsis_mask"] |= bit
        elif part is None:
            self._append(0, 0, 1)
            self.masks["new_axis_mask"] |= bit
        else:
            _check_index(part)
            self._append(part, part + 1, 1)
            self.masks["shrink_axis_mask"] |= bit


def _is_bool_mask(spec: Any) -> bool:
    if isinstance(spec, bool):
        return True
    if isinstance(spec, ops.Tensor):
        return bool(spec.dtype == dtypes.bool)
    return isinstance(spec, np.ndarray) and spec.dtype == bool


def _slice_helper(tensor: Any, slice_spec: Any, var: Any = None) -> Any:
    """Tensor[slice_spec]: integers, slices, `...`, None (a new axis), scalar tensors, or a mask.

    Args:
      tensor: the tensor that is indexed.
      slice_spec: the index, or a tuple or list of indices, one for each axis.
      var: the variable that `tensor` was read from, so that the result can be assigned to.

    Raises:
      TypeError: an index of another type.
      ValueError: the shapes of the tensor and the indices do not fit.
    """
    if _is_bool_mask(slice_spec):
        return boolean_mask(tensor=tensor, mask=slice_spec)
    if not isinstance(slice_spec, (list, tuple)):
        slice_spec = [slice_spec]
    spec = _SliceSpec(slice_spec)
    values = [tensor] + spec.begin + spec.end + spec.strides
    with ops.name_scope(None, "strided_slice", values) as name:
        if spec.begin:
            packed = [stack(spec.begin), stack(spec.end), stack(spec.strides)]
            if any(part.dtype == dtypes.int64 for part in packed):
                packed = [
                    part if part.dtype == dtypes.int64 else gen_math_ops.cast(part, dtypes.int64)
                    for part in packed
                ]
        else:
            packed = [constant_op.constant([], dtype=dtypes.int32)] * 3
        return strided_slice(tensor, packed[0], packed[1], packed[2], var=var, name=name, **spec.masks)


def _slice_helper_var(var: Any, slice_spec: Any) -> Any:
    """Variable[slice_spec]; the result has a method `assign`."""
    return _slice_helper(var.value(), slice_spec, var)


def slice(input_: Any, begin: Any, size: Any, name: str | None = None) -> Any:
    """Returns the part of `input_` that starts at `begin` and has the shape `size` (-1: to the end)."""
    return gen_array_ops._slice(input_, begin, size, name=name)


def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Any:
    """Returns `input_[begin:end:strides]`; bit i of a mask says how axis i of the index is read.

    The result has a method `assign(value, name=None)`, which works where `var` is the variable that
    `input_` was read from, and raises ValueError otherwise.
    """
    if strides is None:
        strides = ones_like(begin)
    masks = {
        "begin_mask": begin_mask,
        "end_mask": end_mask,
        "ellipsis_mask": ellipsis_mask,
        "new_axis_mask": new_axis_mask,
        "shrink_axis_mask": shrink_axis_mask,
    }
    op = gen_array_ops.strided_slice(input=input_, begin=begin, end=end, strides=strides, name=name, **masks)
    parent_name = name

    def assign(val: Any, name: str | None = None) -> Any:
        """Assigns `val` to the part of the variable; returns the op or the variable's value."""
        if var is None:
            raise ValueError("Sliced assignment is only supported for variables")
        if name is None:
            name = (parent_name or "strided_slice").rstrip("/") + "_assign"
        return var._strided_slice_assign(begin=begin, end=end, strides=strides, value=val, name=name, **masks)

    op.assign = assign  # type: ignore[attr-defined]
    return op


def boolean_mask(tensor: Any, mask: Any, name: str | None = "boolean_mask", axis: Any = None) -> Any:
    """Returns the elements of `tensor` where `mask` is true.

    Args:
      tensor: a tensor of rank at least K.
      mask: a boolean tensor of rank K >= 1, whose rank is known; its shape is that of `tensor` from `axis`.
      name: name of the op.
      axis: the first axis that the mask represents, 0 by default.

    Returns:
      a tensor of rank `rank(tensor) - K + 1`.

    Raises:
      ValueError: the mask is a scalar or of unknown rank, or the shapes do not fit.
    """

    def _apply_mask_1d(reshaped_tensor: Any, mask: Any, axis: Any = None) -> Any:
        indices = squeeze(where(mask), axis=[1])
        return gather(reshaped_tensor, indices, axis=axis)

    with ops.name_scope(name, values=[tensor, mask]):
        tensor = ops.convert_to_tensor(tensor, name="tensor")
        mask = ops.convert_to_tensor(mask, name="mask")
        shape_mask = mask.get_shape()
        ndims_mask = shape_mask.ndims
        shape_tensor = tensor.get_shape()
        if ndims_mask == 0:
            raise ValueError("mask cannot be scalar.")
        if ndims_mask is None:
            raise ValueError(
                "Number of mask dimensions must be specified, even if some dimensions"
                " are None.  E.g. shape=[None] is ok, but shape=None is not."
            )
        if axis is None:
            axis = 0
        elif not isinstance(axis, int):
            value = tensor_util.constant_value(ops.convert_to_tensor(axis))
            if value is None:
                raise ValueError("axis must be a constant")
            axis = int(value)
        if axis < 0 and shape_tensor.ndims is not None:
            axis += shape_tensor.ndims
        shape_tensor[axis : axis + ndims_mask].assert_is_compatible_with(shape_mask)

        leading_size = gen_math_ops.prod(shape_of(tensor)[axis : axis + ndims_mask], [0])
        tensor = reshape(
            tensor,
            concat([shape_of(tensor)[:axis], [leading_size], shape_of(tensor)[axis + ndims_mask :]], 0),
        )
        first_dim = shape_tensor[axis : axis + ndims_mask].num_elements()
        tensor.set_shape(
            tensor_shape.as_shape(shape_tensor[:axis])
            .concatenate([first_dim])
            .concatenate(shape_tensor[axis + ndims_mask :])
        )
        return _apply_mask_1d(tensor, reshape(mask, [-1]), axis)


def boolean_mask_v2(tensor: Any, mask: Any, axis: Any = None, name: str | None = "boolean_mask") -> Any:
    """Returns the elements of `tensor` where `mask` is true."""
    return boolean_mask(tensor, mask, name, axis)


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Returns the coordinates of the true elements of `condition`, or elements of `x` or `y` by it.

    Args:
      condition: a boolean tensor.
      x, y: two tensors of one shape and type, both or none. `condition` has their shape, or is a vector
        that chooses rows.
      name: name of the op.

    Returns:
      an int64 matrix with a row for each true element, or a tensor like `x`.

    Raises:
      ValueError: just one of `x` and `y` is given.
    """
    if x is None and y is None:
        with ops.name_scope(name, "Where", [condition]) as name:
            condition = ops.convert_to_tensor(condition, preferred_dtype=dtypes.bool, name="condition")
            return gen_array_ops.where(condition=condition, name=name)
    if x is not None and y is not None:
        return gen_math_ops.select(condition=condition, x=x, y=y, name=name)
    raise ValueError("x and y must both be non-None or both be None.")


def where_v2(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Returns what `where` returns; `condition`, `x` and `y` broadcast together."""
    if x is None and y is None:
        return where(condition, name=name)
    if x is not None and y is not None:
        return gen_math_ops.select_v2(condition=condition, t=x, e=y, name=name)
    raise ValueError("x and y must both be non-None or both be None.")


def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    name: str | None = None,
    axis: Any = None,
    batch_dims: int = 0,
) -> Any:
    """Returns slices of `params` along `axis` by `indices`.

    Args:
      params: a tensor of rank at least `axis + 1`, or a resource variable.
      indices: an int32 or int64 tensor of positions in `params.shape[axis]`.
      validate_indices: ignored.
      name: name of the op.
      axis: the axis to gather from; by default the first one after the batch dimensions.
      batch_dims: the number of leading dimensions that `params` and `indices` share.

    Returns:
      a tensor of shape `params.shape[:axis] + indices.shape[batch_dims:] + params.shape[axis + 1:]`.
    """
    del validate_indices
    if batch_dims != 0:
        with ops.name_scope(name, "Gather", [params, indices, axis]):
            return _batch_gather(params, indices, batch_dims, axis)
    if axis is None:
        axis = batch_dims
    if tensor_util.constant_value(axis) != 0:
        return gen_array_ops.gather_v2(params, indices, axis, name=name)
    try:
        # Resource variables gather without a read of the whole variable.
        return params.sparse_read(indices, name=name)
    except AttributeError:
        return gen_array_ops.gather_v2(params, indices, axis, name=name)


def gather_v2(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    axis: Any = None,
    batch_dims: int = 0,
    name: str | None = None,
) -> Any:
    """Returns slices of `params` along `axis` by `indices`; see `gather`."""
    return gather(params, indices, validate_indices, name, axis, batch_dims)


def batch_gather(params: Any, indices: Any, name: str | None = None) -> Any:
    """Gathers along the last axis of `indices`, whose other axes are batch axes of `params`, too."""
    with ops.name_scope(name, "BatchGather", [params, indices]):
        indices = ops.convert_to_tensor(indices, name="indices")
        params = ops.convert_to_tensor(params, name="params")
        if indices.shape.ndims is None:
            raise ValueError("batch_gather does not allow indices with unknown shape.")
        return _batch_gather(params, indices, batch_dims=indices.shape.ndims - 1)


def _batch_gather(params: Any, indices: Any, batch_dims: Any, axis: Any = None) -> Any:
    """A gather in which the first `batch_dims` axes of both tensors go together."""
    if batch_dims is not None and not isinstance(batch_dims, int):
        raise TypeError("batch_dims must be an int; got %r" % (batch_dims,))
    indices = ops.convert_to_tensor(indices, name="indices")
    params = ops.convert_to_tensor(params, name="params")
    indices_ndims = indices.shape.ndims
    if indices_ndims is None:
        raise ValueError("tf.gather does not allow indices with unknown rank when batch_dims is specified.")
    if batch_dims is None:
        batch_dims = indices_ndims - 1
    if batch_dims < 0:
        batch_dims += indices_ndims
    if batch_dims < 0 or batch_dims >= indices_ndims:
        raise ValueError("batch_dims = %d must be less than rank(indices) = %d" % (batch_dims, indices_ndims))
    if params.shape.ndims is not None and batch_dims >= params.shape.ndims:
        raise ValueError(
            "batch_dims = %d must be less than rank(params) = %d" % (batch_dims, params.shape.ndims)
        )
    # The gathered axis moves to the place right after the batch axes, and its slices back.
    if axis is not None:
        if not isinstance(axis, (int, np.integer)):
            axis = tensor_util.constant_value(ops.convert_to_tensor(axis))
            if axis is None:
                raise ValueError("axis must be a constant where batch_dims is given")
            axis = int(axis)
        if axis < 0:
            axis = axis + params.shape.ndims
        if axis < batch_dims:
            raise ValueError("batch_dims = %d must be less than or equal to axis = %d" % (batch_dims, axis))
        if axis != batch_dims:
            return _batch_gather_moved(params, indices, batch_dims, axis)
    params_shape = shape_of(params)
    casted_indices = gen_math_ops.cast(indices, params_shape.dtype)
    accum = ones_like(params_shape[0])
    for dim in range(batch_dims, 0, -1):
        dim_value = params_shape[dim - 1]
        accum *= params_shape[dim]
        dim_indices = gen_math_ops._range(0, dim_value, 1)
        dim_indices *= accum
        dim_shape = stack([1] * (dim - 1) + [dim_value] + [1] * (indices_ndims - dim), axis=0)
        casted_indices += reshape(dim_indices, dim_shape)
    flat_indices = reshape(casted_indices, [-1])
    outer_shape = params_shape[: batch_dims + 1]
    flat_params = reshape(
        params, concat([[gen_math_ops.prod(outer_shape, [0])], params_shape[batch_dims + 1 :]], 0)
    )
    flat_result = gather(flat_params, flat_indices)
    result = reshape(flat_result, concat([shape_of(casted_indices), params_shape[batch_dims + 1 :]], axis=0))
    final_shape = indices.get_shape()[:batch_dims].merge_with(params.get_shape()[:batch_dims])
    final_shape = final_shape.concatenate(indices.get_shape().dims[batch_dims:])
    final_shape = final_shape.concatenate(params.get_shape()[batch_dims + 1 :])
    result.set_shape(final_shape)
    return result


def _batch_gather_moved(params: Any, indices: Any, batch_dims: int, axis: int) -> Any:
    """A batched gather from an axis that does not follow the batch axes directly."""
    gathered_dims = indices.shape.ndims - batch_dims
    axes = list(range(batch_dims)) + [axis] + list(range(batch_dims, axis))
    rest = rank(params)
    perm = (
        concat([axes, gen_math_ops._range(axis + 1, rest, 1)], 0)
        if params.shape.ndims is None
        else (axes + list(range(axis + 1, params.shape.ndims)))
    )
    result = _batch_gather(transpose(params, perm=perm), indices, batch_dims)
    moved = list(range(batch_dims)) + list(range(batch_dims + gathered_dims, axis + gathered_dims))
    moved += list(range(batch_dims, batch_dims + gathered_dims))
    back: Any = moved
    if result.shape.ndims is None:
        back = concat([moved, gen_math_ops._range(axis + gathered_dims, rank(result), 1)], 0)
    else:
        back = moved + list(range(axis + gathered_dims, result.shape.ndims))
    return transpose(result, perm=back)


def gather_nd(params: Any, indices: Any, name: str | None = None, batch_dims: int = 0) -> Any:
    """Returns elements or slices of `params` at the coordinates in the last axis of `indices`.

    The result has the shape `indices.shape[:-1] + params.shape[batch_dims + indices.shape[-1]:]`.
    """
    batch_dims_value = tensor_util.constant_value(batch_dims)
    if batch_dims_value is None:
        raise ValueError("tf.gather_nd does not allow unknown batch_dims")
    if batch_dims_value == 0:
        try:
            return params.gather_nd(indices, name=name)
        except AttributeError:
            return gen_array_ops.gather_nd(params, indices, name=name)
    try:
        batch_dims = int(batch_dims_value)
    except OverflowError as error:
        raise ValueError(str(error)) from None
    return batch_gather_nd(params, indices, batch_dims=batch_dims, name=name)


def gather_nd_v2(params: Any, indices: Any, batch_dims: int = 0, name: str | None = None) -> Any:
    """Returns elements or slices of `params` at coordinates; see `gather_nd`."""
    return gather_nd(params, indices, name=name, batch_dims=batch_dims)


def batch_gather_nd(params: Any, indices: Any, batch_dims: int, name: str | None = None) -> Any:
    """A `gather_nd` in which the first `batch_dims` axes of both tensors go together."""
    with ops.name_scope(name, "BatchGatherND", [params, indices]):
        indices = ops.convert_to_tensor(indices, name="indices")
        params = ops.convert_to_tensor(params, name="params")
        if not isinstance(batch_dims, int):
            raise TypeError("batch_dims must be an int; got %r" % (batch_dims,))
        if batch_dims < 0:
            raise ValueError("tf.gather_nd does not allow negative batch_dims.")
        params_ndims = params.shape.ndims
        indices_ndims = indices.shape.ndims
        if indices_ndims is not None and batch_dims >= indices_ndims:
            raise ValueError(
                "batch_dims = %d must be less than rank(indices) = %d" % (batch_dims, indices_ndims)
            )
        if params_ndims is not None and batch_dims >= params_ndims:
            raise ValueError(
                "batch_dims = %d must be less than rank(params) = %d" % (batch_dims, params_ndims)
            )
        if batch_dims == 0:
            return gen_array_ops.gather_nd(params, indices)
        # Coordinates of the batch are put before the given ones.
        indices_shape = shape_of(indices)
        dim_list = [indices_shape[i] for i in range(batch_dims)]
        middle = indices_shape[batch_dims:-1]
        column_shape = concat([indices_shape[:-1], [1]], axis=0)
        ones = gen_array_ops.fill(column_shape, constant_op.constant(1, indices.dtype))
        columns = []
        for i, dim in enumerate(dim_list):
            line = gen_math_ops.cast(gen_math_ops._range(0, dim, 1), indices.dtype)
            line_shape = [1] * i + [dim] + [1] * (batch_dims - i - 1)
            tail = gen_array_ops.fill([rank(middle) * 0 + gen_array_ops.size(middle) + 1], 1)
            columns.append(ones * reshape(line, concat([stack(line_shape), tail], 0)))
        full = concat(columns + [indices], axis=-1)
        result = gen_array_ops.gather_nd(params, full)
        if indices_ndims is not None and params_ndims is not None and indices.shape[-1].value is not None:
            result.set_shape(
                indices.shape[:-1].concatenate(params.shape[batch_dims + indices.shape[-1].value :])
            )
        return result


__all__ = [
    "_BaseSlice",
    "_SLICE_TYPE_ERROR",
    "_batch_gather",
    "_check_index",
    "_slice_helper",
    "_slice_helper_var",
    "batch_gather",
    "batch_gather_nd",
    "boolean_mask",
    "boolean_mask_v2",
    "expand_dims",
    "gather",
    "gather_nd",
    "gather_nd_v2",
    "gather_v2",
    "identity",
    "slice",
    "strided_slice",
    "where",
    "where_v2",
]
