# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Sparse tensors joined, split, sliced, reshaped and filled."""
from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np

from millrace.python.framework import dtypes, ops, sparse_tensor, tensor_shape, tensor_util
from millrace.python.ops import array_ops, check_ops, control_flow_ops, gen_sparse_ops, math_ops
from millrace.python.util import deprecation

SparseTensor = sparse_tensor.SparseTensor


def _convert_to_sparse_tensor(sp_input: Any) -> Any:
    """Returns a SparseTensor for one or for a SparseTensorValue; TypeError for anything else."""
    if isinstance(sp_input, sparse_tensor.SparseTensorValue):
        return SparseTensor.from_value(sp_input)
    if not isinstance(sp_input, SparseTensor):
        raise TypeError("Input must be a SparseTensor.")
    return sp_input


def _convert_to_sparse_tensors(sp_inputs: Any) -> List[Any]:
    if isinstance(sp_inputs, (list, tuple)):
        return [_convert_to_sparse_tensor(sp_input) for sp_input in sp_inputs]
    raise TypeError("Inputs must be a list or tuple.")


def _make_int64_tensor(value: Any, name: str) -> Any:
    if isinstance(value, (int, np.integer)):
        return ops.convert_to_tensor(int(value), name=name, dtype=dtypes.int64)
    if not isinstance(value, ops.Tensor):
        raise TypeError("{} must be an integer value".format(name))
    return value if value.dtype == dtypes.int64 else math_ops.cast(value, dtypes.int64)


def from_dense(tensor: Any, name: Optional[str] = None) -> Any:
    """Returns the elements of a dense tensor that are not 0 as a sparse one."""
    with ops.name_scope(name, "dense_to_sparse"):
        tensor = ops.convert_to_tensor(tensor)
        indices = array_ops.where(math_ops.not_equal(tensor, array_ops.zeros_like(tensor)))
        values = array_ops.gather_nd(tensor, indices)
        return SparseTensor(indices, values, array_ops.shape(tensor, out_type=dtypes.int64))


def sparse_expand_dims(sp_input: Any, axis: Any = None, name: Optional[str] = None) -> Any:
    """Adds a dimension of 1 at `axis` (default: the last)."""
    sp_input = _convert_to_sparse_tensor(sp_input)
    rank = sp_input.dense_shape.get_shape().as_list()[0]
    axis = -1 if axis is None else axis
    with ops.name_scope(name, default_name="expand_dims", values=[sp_input]):
        if isinstance(axis, (int, np.integer)):
            axis = ops.convert_to_tensor(int(axis), name="axis", dtype=dtypes.int32)
        elif not isinstance(axis, ops.Tensor):
            raise TypeError("axis must be an integer value in range [-rank(sp_input) - 1, rank(sp_input)]")
        axis = array_ops.where(
            axis >= 0, axis, axis + (rank if rank is not None else array_ops.size(sp_input.dense_shape)) + 1
        )
        start = array_ops.reshape(axis, [1])
        shape = sp_input.dense_shape
        new_shape = array_ops.concat(
            [array_ops.slice(shape, [0], start), [1], array_ops.slice(shape, start, [-1])],
            axis=0,
            name="shape",
        )
        result = sparse_reshape(sp_input, new_shape)
        return result


def sparse_eye(
    num_rows: Any, num_columns: Any = None, dtype: Any = dtypes.float32, name: Optional[str] = None
) -> Any:
    """Returns a sparse matrix with ones on the diagonal."""
    with ops.name_scope(name, default_name="eye", values=[num_rows, num_columns]):
        num_rows = _make_int64_tensor(num_rows, "num_rows")
        num_columns = num_rows if num_columns is None else _make_int64_tensor(num_columns, "num_columns")
        diag_size = math_ops.minimum(num_rows, num_columns)
        diag_range = math_ops.range(diag_size, dtype=dtypes.int64)
        return SparseTensor(
            indices=array_ops.stack([diag_range, diag_range], axis=1),
            values=array_ops.ones(array_ops.reshape(diag_size, [1]), dtype=dtype),
            dense_shape=array_ops.stack([num_rows, num_columns]),
        )


def sparse_concat(
    axis: Any,
    sp_inputs: Any,
    name: Optional[str] = None,
    expand_nonconcat_dim: bool = False,
    concat_dim: Any = None,
    expand_nonconcat_dims: Any = None,
) -> Any:
    """Joins sparse tensors along `axis`; with `expand_nonconcat_dims`, other dimensions grow to the largest."""
    expand = deprecation.deprecated_argument_lookup(
        "expand_nonconcat_dims", expand_nonconcat_dims, "expand_nonconcat_dim", expand_nonconcat_dim or None
    )
    if concat_dim is not None:
        axis = deprecation.deprecated_argument_lookup("axis", axis, "concat_dim", concat_dim)
    return sparse_concat_v2(axis, sp_inputs, bool(expand), name)


def sparse_concat_v2(
    axis: Any, sp_inputs: Any, expand_nonconcat_dims: bool = False, name: Optional[str] = None
) -> Any:
    """As `sparse_concat`, with the arguments of version 2."""
    sp_inputs = _convert_to_sparse_tensors(sp_inputs)
    if len(sp_inputs) == 1:
        return sp_inputs[0]
    inds, vals = [s.indices for s in sp_inputs], [s.values for s in sp_inputs]
    shapes = [s.dense_shape for s in sp_inputs]
    if expand_nonconcat_dims:
        max_shape = math_ops.reduce_max(
            array_ops.concat([array_ops.reshape(shape, [1, -1]) for shape in shapes], 0), 0
        )
        rank = shapes[0].get_shape().as_list()[0]
        at = axis if axis >= 0 or rank is None else axis + rank
        after = max_shape[at + 1 :] if axis != -1 else max_shape[:0]
        before = max_shape[:at] if axis != -1 else max_shape[:-1]
        shapes = [
            array_ops.concat([before, shape[axis : axis + 1] if axis != -1 else shape[-1:], after], 0)
            for shape in shapes
        ]
    output_ind, output_val, output_shape = gen_sparse_ops.sparse_concat(inds, vals, shapes, axis, name=name)
    return SparseTensor(output_ind, output_val, output_shape)


class KeywordRequired:
    """Marks arguments that must be given by name."""

    def __repr__(self) -> str:
        return "KeywordRequired()"


def sparse_split(
    keyword_required: Any = KeywordRequired(),
    sp_input: Any = None,
    num_split: Any = None,
    axis: Any = None,
    name: Optional[str] = None,
    split_dim: Any = None,
) -> List[Any]:
    """Splits a sparse tensor in `num_split` parts along `axis`; all arguments must be named."""
    if not isinstance(keyword_required, KeywordRequired):
        raise ValueError("Keyword arguments are required for this function.")
    if sp_input is None:
        raise ValueError("sp_input is required")
    if num_split is None:
        raise ValueError("num_split is required")
    axis = deprecation.deprecated_argument_lookup("axis", axis, "split_dim", split_dim)
    if axis is None:
        raise ValueError("axis is required")
    return sparse_split_v2(sp_input, num_split, axis, name)


def sparse_split_v2(
    sp_input: Any = None, num_split: Any = None, axis: Any = None, name: Optional[str] = None
) -> List[Any]:
    """As `sparse_split`, with the arguments of version 2."""
    sp_input = _convert_to_sparse_tensor(sp_input)
    inds, vals, shapes = gen_sparse_ops.sparse_split(
        axis, sp_input.indices, sp_input.values, sp_input.dense_shape, num_split, name=name
    )
    return [SparseTensor(i, v, s) for i, v, s in zip(inds, vals, shapes)]


def sparse_slice(sp_input: Any, start: Any, size: Any, name: Optional[str] = None) -> Any:
    """Returns the part of a sparse tensor that begins at `start` and has the size `size`."""
    sp_input = _convert_to_sparse_tensor(sp_input)
    start = ops.convert_to_tensor(start, dtypes.int64)
    size = ops.convert_to_tensor(size, dtypes.int64)
    with ops.name_scope(name, "SparseSlice", [sp_input]) as name:
        indices, values, shape = gen_sparse_ops.sparse_slice(
            sp_input.indices, sp_input.values, sp_input.dense_shape, start, size, name=name
        )
        return SparseTensor(indices, values, shape)


def sparse_reorder(sp_input: Any, name: Optional[str] = None) -> Any:
    """Returns the same tensor with its elements in row-major order."""
    sp_input = _convert_to_sparse_tensor(sp_input)
    ind, val = gen_sparse_ops.sparse_reorder(
        sp_input.indices, sp_input.values, sp_input.dense_shape, name=name
    )
    shape = sp_input.get_shape()
    if shape.is_fully_defined():
        return SparseTensor(ind, val, ops.convert_to_tensor(shape.as_list(), dtypes.int64))
    return SparseTensor(ind, val, array_ops.identity(sp_input.dense_shape))


def sparse_reshape(sp_input: Any, shape: Any, name: Optional[str] = None) -> Any:
    """Returns a sparse tensor with the same elements and another shape, one dimension of which may be -1.

    Raises ValueError when the static numbers of elements differ, or there is more than one -1.
    """
    sp_input = _convert_to_sparse_tensor(sp_input)
    shape = math_ops.cast(shape, dtype=dtypes.int64)
    with ops.name_scope(name, "SparseReshape", [sp_input]) as name:
        known = tensor_util.constant_value(shape)
        old = tensor_util.constant_value_as_shape(sp_input.dense_shape)
        if known is not None:
            if sum(1 for d in known if d == -1) > 1:
                raise ValueError(
                    "At most one dimension can be inferred (-1). Found: %s"
                    % tensor_shape.TensorShape([None if d == -1 else int(d) for d in known])
                )
            if old.is_fully_defined():
                asked, elements = [int(d) for d in known], int(old.num_elements() or 0)
                if -1 in asked:
                    others = int(np.prod([d for d in asked if d != -1]))
                    known = np.array([elements // max(others, 1) if d == -1 else d for d in asked], np.int64)
                if int(np.prod(known)) != elements:
                    raise ValueError(
                        "Cannot reshape a tensor with %d elements to shape %s (%d elements)."
                        % (elements, asked, int(np.prod(known)))
                    )
        ind, new_shape = gen_sparse_ops.sparse_reshape(
            sp_input.indices, sp_input.dense_shape, shape, name=name
        )
        if known is not None and -1 not in known:
            new_shape = ops.convert_to_tensor(known, dtypes.int64)
        return SparseTensor(ind, array_ops.identity(sp_input.values), new_shape)


def sparse_reset_shape(sp_input: Any, new_shape: Any = None) -> Any:
    """Returns the elements under a larger shape, or (None) the smallest that holds them all."""
    sp_input = _convert_to_sparse_tensor(sp_input)
    in_indices, in_values = array_ops.identity(sp_input.indices), array_ops.identity(sp_input.values)
    in_shape = array_ops.identity(sp_input.dense_shape)
    if new_shape is None:
        dim_low_bound = math_ops.reduce_max(in_indices, axis=0)
        output_shape = math_ops.maximum(
            array_ops.zeros_like(in_shape),
            math_ops.add(dim_low_bound, array_ops.ones_like(in_shape)),
        )
    else:
        output_shape = math_ops.cast(ops.convert_to_tensor(new_shape), dtypes.int64)
        output_shape.get_shape().with_rank(1)
        output_shape_const = tensor_util.constant_value(output_shape)
        shape_const = tensor_util.constant_value(sp_input.dense_shape)
        if output_shape_const is not None and shape_const is not None:
            if len(shape_const) != len(output_shape_const):
                raise ValueError(
                    "Shapes %s and %s are incompatible" % (tuple(shape_const), tuple(output_shape_const))
                )
            if np.any(output_shape_const < shape_const):
                raise ValueError(
                    "Requested new_shape should have dimension sizes >= sp_input.shape.  Found new_shape (%s), sp_input.shape "
                    "(%s)." % (output_shape_const, shape_const)
                )
        else:
            check = check_ops.assert_less_equal(in_shape, output_shape)
            output_shape = control_flow_ops.with_dependencies([check], output_shape)
    return SparseTensor(in_indices, in_values, output_shape)


def sparse_retain(sp_input: Any, to_retain: Any) -> Any:
    """Returns the elements for which the bool vector `to_retain` is true."""
    sp_input = _convert_to_sparse_tensor(sp_input)
    to_retain = ops.convert_to_tensor(to_retain)
    retain_shape = to_retain.get_shape()
    retain_shape.assert_has_rank(1)
    sp_input.values.get_shape()[0:1].assert_is_compatible_with(retain_shape[0:1])
    where_true = array_ops.reshape(array_ops.where(to_retain), [-1])
    new_indices = array_ops.gather(sp_input.indices, where_true)
    new_values = array_ops.gather(sp_input.values, where_true)
    return SparseTensor(new_indices, new_values, array_ops.identity(sp_input.dense_shape))


def sparse_fill_empty_rows(sp_input: Any, default_value: Any, name: Optional[str] = None) -> Tuple[Any, Any]:
    """Returns (tensor with `default_value` at [row, 0] of each empty row, bool vector of empty rows)."""
    sp_input = _convert_to_sparse_tensor(sp_input)
    with ops.name_scope(name, "SparseFillEmptyRows", [sp_input]):
        default_value = ops.convert_to_tensor(default_value, dtype=sp_input.values.dtype)
        indices, values, empty_row_indicator, _ = gen_sparse_ops.sparse_fill_empty_rows(
            indices=sp_input.indices,
            values=sp_input.values,
            dense_shape=sp_input.dense_shape,
            default_value=default_value,
        )
        return SparseTensor(indices, values, sp_input.dense_shape), empty_row_indicator


def sparse_merge(
    sp_ids: Any, sp_values: Any, vocab_size: Any, name: Optional[str] = None, already_sorted: bool = False
) -> Any:
    """Returns a sparse tensor of the values, whose last index is the id (the last ones, for a list)."""
    return sparse_merge_impl(sp_ids, sp_values, vocab_size, name, already_sorted)


def sparse_merge_impl(
    sp_ids: Any, sp_values: Any, vocab_size: Any, name: Optional[str] = None, already_sorted: bool = False
) -> Any:
    """Implements `sparse_merge`."""
    if isinstance(sp_ids, (sparse_tensor.SparseTensorValue, SparseTensor)):
        sp_ids, vocab_size = [sp_ids], [vocab_size]
    else:
        if not isinstance(sp_ids, (list, tuple)):
            raise TypeError("sp_ids has to be a SparseTensor or list thereof. Found %s" % type(sp_ids))
        if not isinstance(vocab_size, (list, tuple)):
            raise TypeError(
                "vocab_size has to be a list of Tensors or Python ints. Found %s" % type(vocab_size)
            )
        if len(sp_ids) != len(vocab_size):
            raise ValueError("sp_ids and vocab_size have to have equal lengths.")
    with ops.name_scope(name, "SparseMerge", [sp_ids, sp_values]):
        sp_ids = [_convert_to_sparse_tensor(one) for one in sp_ids]
        sp_values = _convert_to_sparse_tensor(sp_values)
        ids = [math_ops.cast(one.values, dtypes.int64) for one in sp_ids]
        sizes = [math_ops.cast(ops.convert_to_tensor(size), dtypes.int64) for size in vocab_size]
        indices_columns_to_preserve = sp_ids[0].indices[:, :-1]
        new_indices = array_ops.concat(
            [indices_columns_to_preserve] + [array_ops.reshape(column, [-1, 1]) for column in ids], 1
        )
        new_shape = array_ops.concat([sp_ids[0].dense_shape[:-1], array_ops.stack(sizes)], 0)
        result = SparseTensor(new_indices, sp_values.values, new_shape)
        if already_sorted:
            return result
        sorted_result = sparse_reorder(result)
        return SparseTensor(sorted_result.indices, sorted_result.values, new_shape)


def sparse_transpose(sp_input: Any, perm: Any = None, name: Optional[str] = None) -> Any:
    """Permutes dimensions (default: reverses them)."""
    sp_input = _convert_to_sparse_tensor(sp_input)
    with ops.name_scope(name, "SparseTranspose", [sp_input]):
        if perm is None:
            rank = sp_input.dense_shape.get_shape().as_list()[0]
            if rank is None:
                rank = array_ops.size(sp_input.dense_shape)
                perm = (rank - 1) - math_ops.range(0, rank, 1)
            else:
                perm = list(range(rank - 1, -1, -1))
        indices = array_ops.gather(sp_input.indices, perm, axis=1)
        dense_shape = array_ops.gather(sp_input.dense_shape, perm)
        return sparse_reorder(SparseTensor(indices, sp_input.values, dense_shape))
