# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of sparse tensors."""
from __future__ import annotations

from typing import Any, List, Optional

import numpy as np

from millrace.python.framework import dtypes, ops, sparse_tensor
from millrace.python.ops import array_ops, gen_sparse_ops, math_ops
from millrace.python.ops._sparse_shapes import SparseTensor, _convert_to_sparse_tensor
from millrace.python.util import deprecation

_SPARSE = (sparse_tensor.SparseTensor, sparse_tensor.SparseTensorValue)


def sparse_add(a: Any, b: Any, threshold: Any = None, thresh: Any = None) -> Any:
    """Adds two tensors, at least one of them sparse.

    Args:
      a, b: a SparseTensor and a SparseTensor or tensor of the same type and shape.
      threshold: sums of two sparse tensors whose absolute value is below it are left out.
      thresh: old name of `threshold`.

    Returns:
      a SparseTensor if both are, else a tensor.

    Raises:
      TypeError: neither is a SparseTensor.
    """
    threshold = deprecation.deprecated_argument_lookup("threshold", threshold, "thresh", thresh)
    return sparse_add_v2(a, b, 0 if threshold is None else threshold)


def sparse_add_v2(a: Any, b: Any, threshold: Any = 0) -> Any:
    """As `sparse_add`, with the arguments of version 2."""
    if not any(isinstance(x, _SPARSE) for x in (a, b)):
        raise TypeError("At least one input should be SparseTensor; do you mean to use tf.add()?")
    if all(isinstance(x, _SPARSE) for x in (a, b)):
        a, b = _convert_to_sparse_tensor(a), _convert_to_sparse_tensor(b)
        threshold = ops.convert_to_tensor(
            threshold, dtype=a.values.dtype.real_dtype.base_dtype, name="threshold"
        )
        ind, val, shape = gen_sparse_ops.sparse_add(
            a.indices, a.values, a.dense_shape, b.indices, b.values, b.dense_shape, threshold
        )
        a.get_shape().assert_is_compatible_with(b.get_shape())
        return SparseTensor(ind, val, shape)
    if isinstance(b, _SPARSE):
        a, b = b, a
    a = _convert_to_sparse_tensor(a)
    return gen_sparse_ops.sparse_tensor_dense_add(a.indices, a.values, a.dense_shape, b)


def sparse_dense_cwise_add(sp_t: Any, dense_t: Any) -> Any:
    """Adds a dense tensor, broadcast, to the elements of a sparse one."""
    result = gen_sparse_ops.sparse_dense_cwise_add(sp_t.indices, sp_t.values, sp_t.dense_shape, dense_t)
    return SparseTensor(sp_t.indices, result, sp_t.dense_shape)


def sparse_to_dense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: Optional[str] = None,
) -> Any:
    """Returns a dense tensor with `sparse_values` at `sparse_indices` and `default_value` elsewhere."""
    return gen_sparse_ops.sparse_to_dense(
        sparse_indices,
        output_shape,
        sparse_values,
        default_value=default_value,
        validate_indices=validate_indices,
        name=name,
    )


def sparse_tensor_to_dense(
    sp_input: Any, default_value: Any = None, validate_indices: bool = True, name: Optional[str] = None
) -> Any:
    """Returns a sparse tensor as a dense one, `default_value` (default: 0 or "") elsewhere."""
    sp_input = _convert_to_sparse_tensor(sp_input)
    if default_value is None:
        default_value = array_ops.zeros([], dtype=sp_input.dtype)
    return gen_sparse_ops.sparse_to_dense(
        sp_input.indices,
        sp_input.dense_shape,
        sp_input.values,
        default_value=default_value,
        validate_indices=validate_indices,
        name=name,
    )


def sparse_to_indicator(sp_input: Any, vocab_size: Any, name: Optional[str] = None) -> Any:
    """Returns a bool tensor [..., vocab_size], true at each id among the values of `sp_input` [..., n]."""
    from millrace.python.ops._sparse_shapes import sparse_merge_impl

    sp_input = _convert_to_sparse_tensor(sp_input)
    with ops.name_scope(name, "SparseToIndicator", [sp_input]) as name:
        num_entries = array_ops.shape(sp_input.indices)[0]
        new_values = array_ops.fill(array_ops.expand_dims(num_entries, 0), True)
        sp_values = SparseTensor(sp_input.indices, new_values, sp_input.dense_shape)
        sp_new = sparse_merge_impl(sp_input, sp_values, vocab_size, name)
        return sparse_tensor_to_dense(sp_new, default_value=False, validate_indices=False, name=name)


def _axis_of(axis: Any, reduction_axes: Any) -> Any:
    axis = deprecation.deprecated_argument_lookup("axis", axis, "reduction_axes", reduction_axes)
    return axis


def _reduce(
    op: Any, sp_input: Any, axis: Any, keepdims: Any, reduction_axes: Any, keep_dims: Any, sparse: bool
) -> Any:
    keepdims = deprecation.deprecated_argument_lookup("keepdims", keepdims, "keep_dims", keep_dims)
    sp_input = _convert_to_sparse_tensor(sp_input)
    axis = math_ops._ReductionDims(sp_input, _axis_of(axis, reduction_axes))
    output = op(sp_input.indices, sp_input.values, sp_input.dense_shape, axis, bool(keepdims))
    return SparseTensor(*output) if sparse else output


def sparse_reduce_max(
    sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None, keep_dims: Any = None
) -> Any:
    """Returns the maxima of the elements over `axis` (default: all) as a dense tensor."""
    return _reduce(
        gen_sparse_ops.sparse_reduce_max, sp_input, axis, keepdims, reduction_axes, keep_dims, False
    )


def sparse_reduce_max_sparse(
    sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None, keep_dims: Any = None
) -> Any:
    """As `sparse_reduce_max`, as a sparse tensor."""
    return _reduce(
        gen_sparse_ops.sparse_reduce_max_sparse, sp_input, axis, keepdims, reduction_axes, keep_dims, True
    )


def sparse_reduce_sum(
    sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None, keep_dims: Any = None
) -> Any:
    """Returns the sums of the elements over `axis` (default: all) as a dense tensor."""
    return _reduce(
        gen_sparse_ops.sparse_reduce_sum, sp_input, axis, keepdims, reduction_axes, keep_dims, False
    )


def sparse_reduce_sum_sparse(
    sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None, keep_dims: Any = None
) -> Any:
    """As `sparse_reduce_sum`, as a sparse tensor."""
    return _reduce(
        gen_sparse_ops.sparse_reduce_sum_sparse, sp_input, axis, keepdims, reduction_axes, keep_dims, True
    )


def sparse_reduce_max_v2(
    sp_input: Any, axis: Any = None, keepdims: Any = None, output_is_sparse: bool = False, name: Any = None
) -> Any:
    """Returns the maxima of the elements over `axis` (default: all), dense or, as `output_is_sparse` says, sparse."""
    with ops.name_scope(name, "SparseReduceMax"):
        function = sparse_reduce_max_sparse if output_is_sparse else sparse_reduce_max
        return function(sp_input, axis, keepdims)


def sparse_reduce_sum_v2(
    sp_input: Any, axis: Any = None, keepdims: Any = None, output_is_sparse: bool = False, name: Any = None
) -> Any:
    """Returns the sums of the elements over `axis` (default: all), dense or, as `output_is_sparse` says, sparse."""
    with ops.name_scope(name, "SparseReduceSum"):
        function = sparse_reduce_sum_sparse if output_is_sparse else sparse_reduce_sum
        return function(sp_input, axis, keepdims)


def sparse_tensor_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: Optional[str] = None
) -> Any:
    """Multiplies a sparse matrix by a dense one (or a dense one by a sparse one)."""
    if isinstance(b, _SPARSE):
        b = _convert_to_sparse_tensor(b)
        if isinstance(sp_a, _SPARSE):
            raise TypeError("One of the two matrices must be dense.")
        return array_ops.transpose(
            sparse_tensor_dense_matmul(b, sp_a, adjoint_a=not adjoint_b, adjoint_b=not adjoint_a)
        )
    sp_a = _convert_to_sparse_tensor(sp_a)
    with ops.name_scope(name, "SparseTensorDenseMatMul", [sp_a.indices, sp_a.values, b]) as name:
        b = ops.convert_to_tensor(b, name="b")
        return gen_sparse_ops.sparse_tensor_dense_mat_mul(
            a_indices=sp_a.indices,
            a_values=sp_a.values,
            a_shape=sp_a.dense_shape,
            b=b,
            adjoint_a=adjoint_a,
            adjoint_b=adjoint_b,
            name=name,
        )


sparse_dense_matmul = sparse_tensor_dense_matmul


def sparse_softmax(sp_input: Any, name: Optional[str] = None) -> Any:
    """Returns the softmax of the explicit elements, along the last dimension."""
    sp_input = _convert_to_sparse_tensor(sp_input)
    with ops.name_scope(name, "SparseSoftmax", [sp_input.indices, sp_input.values]) as name:
        out_vals = gen_sparse_ops.sparse_softmax(sp_input.indices, sp_input.values, sp_input.dense_shape)
        return SparseTensor(sp_input.indices, out_vals, sp_input.dense_shape)


def _cwise(op: Any, default: str, sp_a: Any, sp_b: Any, name: Optional[str]) -> Any:
    sp_a, sp_b = _convert_to_sparse_tensor(sp_a), _convert_to_sparse_tensor(sp_b)
    with ops.name_scope(name, default, [sp_a.indices, sp_a.values, sp_b.indices, sp_b.values]) as name:
        out_indices, out_values = op(
            sp_a.indices,
            sp_a.values,
            sp_a.dense_shape,
            sp_b.indices,
            sp_b.values,
            sp_b.dense_shape,
            name=name,
        )
    return SparseTensor(out_indices, out_values, sp_a.dense_shape)


def sparse_maximum(sp_a: Any, sp_b: Any, name: Optional[str] = None) -> Any:
    """Returns the element-wise maximum of two sparse tensors; missing elements are 0."""
    return _cwise(gen_sparse_ops.sparse_sparse_maximum, "SparseSparseMaximum", sp_a, sp_b, name)


def sparse_minimum(sp_a: Any, sp_b: Any, name: Optional[str] = None) -> Any:
    """Returns the element-wise minimum of two sparse tensors; missing elements are 0."""
    return _cwise(gen_sparse_ops.sparse_sparse_minimum, "SparseSparseMinimum", sp_a, sp_b, name)


def serialize_sparse(sp_input: Any, name: Optional[str] = None, out_type: Any = dtypes.string) -> Any:
    """Returns a vector of 3 serialized tensors."""
    sp_input = _convert_to_sparse_tensor(sp_input)
    return gen_sparse_ops.serialize_sparse(
        sp_input.indices, sp_input.values, sp_input.dense_shape, name=name, out_type=out_type
    )


def serialize_many_sparse(sp_input: Any, name: Optional[str] = None, out_type: Any = dtypes.string) -> Any:
    """Returns a matrix [N, 3] of serialized tensors, one row for each element of the first dimension."""
    sp_input = _convert_to_sparse_tensor(sp_input)
    return gen_sparse_ops.serialize_many_sparse(
        sp_input.indices, sp_input.values, sp_input.dense_shape, name=name, out_type=out_type
    )


def serialize_sparse_v2(sp_input: Any, out_type: Any = dtypes.string, name: Optional[str] = None) -> Any:
    """As `serialize_sparse`, with the arguments in another order."""
    return serialize_sparse(sp_input, name=name, out_type=out_type)


def serialize_many_sparse_v2(sp_input: Any, out_type: Any = dtypes.string, name: Optional[str] = None) -> Any:
    """As `serialize_many_sparse`, with the arguments in another order."""
    return serialize_many_sparse(sp_input, name=name, out_type=out_type)


def _set_rank(output: Any, rank: Any, extra: int) -> Any:
    if rank is not None:
        output[0].set_shape([None, rank + extra])
        output[2].set_shape([rank + extra])
    return SparseTensor(*output)


def deserialize_sparse(
    serialized_sparse: Any, dtype: Any, rank: Any = None, name: Optional[str] = None
) -> Any:
    """Returns a sparse tensor from its serialized form [..., 3]."""
    return _set_rank(gen_sparse_ops.deserialize_sparse(serialized_sparse, dtype, name=name), rank, 0)


def deserialize_many_sparse(
    serialized_sparse: Any, dtype: Any, rank: Any = None, name: Optional[str] = None
) -> Any:
    """Joins serialized sparse tensors [N, 3] along a new first dimension."""
    return _set_rank(gen_sparse_ops.deserialize_many_sparse(serialized_sparse, dtype, name=name), rank, 1)


def sparse_mask(a: Any, mask_indices: Any, name: Optional[str] = None) -> Any:
    """Returns IndexedSlices without the rows `mask_indices`; TypeError for anything else."""
    if not isinstance(a, ops.IndexedSlices):
        raise TypeError("Expected IndexedSlices, got %r." % (a,))
    with ops.name_scope(name, "sparse_mask", [a, mask_indices]) as name:
        indices = a.indices
        out_indices, to_gather = array_ops.setdiff1d(indices, mask_indices)
        out_values = array_ops.gather(a.values, to_gather, name=name)
        return ops.IndexedSlices(out_values, out_indices, a.dense_shape)


def map_values(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Applies `op` to the values of sparse tensors, which must have the same indices."""
    sparse_list: List[Any] = []

    def inner(value: Any) -> Any:
        if isinstance(value, _SPARSE):
            value = _convert_to_sparse_tensor(value)
            sparse_list.append(value)
            return value.values
        return value

    inner_args = [inner(a) for a in args]
    inner_kwargs = {k: inner(v) for k, v in kwargs.items()}
    if not sparse_list:
        raise ValueError("No SparseTensor in argument list of map_values")
    return SparseTensor(sparse_list[0].indices, op(*inner_args, **inner_kwargs), sparse_list[0].dense_shape)


def sparse_cross(inputs: Any, name: Optional[str] = None) -> Any:
    """Returns crosses of features (strings joined by "_X_"), row by row, as a sparse tensor of strings."""
    return _sparse_cross_internal(inputs=inputs, hashed_output=False, name=name)


def sparse_cross_hashed(
    inputs: Any, num_buckets: int = 0, hash_key: Any = None, name: Optional[str] = None
) -> Any:
    """As `sparse_cross`, hashed to int64."""
    return _sparse_cross_internal(
        inputs=inputs, hashed_output=True, num_buckets=num_buckets, hash_key=hash_key, name=name
    )


_DEFAULT_HASH_KEY = 0xDECAFCAFFE


def _sparse_cross_internal(
    inputs: Any,
    hashed_output: bool = False,
    num_buckets: int = 0,
    hash_key: Any = None,
    name: Optional[str] = None,
) -> Any:
    if not isinstance(inputs, (tuple, list)):
        raise TypeError("Expected inputs to be a list")
    if not all(
        isinstance(i, (SparseTensor, ops.Tensor, sparse_tensor.SparseTensorValue, np.ndarray, list))
        for i in inputs
    ):
        raise TypeError("All inputs must be SparseTensors")
    sparse_inputs = [_convert_to_sparse_tensor(i) for i in inputs if isinstance(i, _SPARSE)]
    dense_inputs = [ops.convert_to_tensor(i) for i in inputs if not isinstance(i, _SPARSE)]
    values = [
        math_ops.cast(i.values, dtypes.int64) if i.values.dtype != dtypes.string else i.values
        for i in sparse_inputs
    ]
    dense_inputs = [math_ops.cast(i, dtypes.int64) if i.dtype != dtypes.string else i for i in dense_inputs]
    internal_type = dtypes.string
    if hashed_output:
        internal_type = dtypes.int64
    indices_out, values_out, shape_out = gen_sparse_ops.sparse_cross(
        indices=[i.indices for i in sparse_inputs],
        values=values,
        shapes=[i.dense_shape for i in sparse_inputs],
        dense_inputs=dense_inputs,
        hashed_output=hashed_output,
        num_buckets=num_buckets,
        hash_key=hash_key or _DEFAULT_HASH_KEY,
        out_type=internal_type,
        internal_type=internal_type if hashed_output else dtypes.string,
        name=name,
    )
    return SparseTensor(indices_out, values_out, shape_out)
