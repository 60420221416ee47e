# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Set operations along the last dimension of dense and sparse tensors."""
from __future__ import annotations

from typing import Any, Tuple

from millrace.python.framework import dtypes, sparse_tensor
from millrace.python.ops import gen_set_ops

_VALID_DTYPES = frozenset(
    [dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.uint16, dtypes.string]
)


def set_size(a: Any, validate_indices: bool = True) -> Any:
    """Returns the numbers of unique elements along the last dimension of a sparse tensor, as int32.

    Raises TypeError when `a` is not sparse or has another type of elements than integers and strings.
    """
    a = sparse_tensor.convert_to_tensor_or_sparse_tensor(a, name="a")
    if not isinstance(a, sparse_tensor.SparseTensor):
        raise TypeError("Expected `SparseTensor`, got %s." % a)
    if a.values.dtype.base_dtype not in _VALID_DTYPES:
        raise TypeError("Invalid dtype %s." % a.values.dtype)
    return gen_set_ops.set_size(a.indices, a.values, a.dense_shape, validate_indices)


def _convert_to_tensors_or_sparse_tensors(a: Any, b: Any) -> Tuple[Any, Any, bool]:
    """Returns (a, b, whether they were swapped): a dense one comes first."""
    a = sparse_tensor.convert_to_tensor_or_sparse_tensor(a, name="a")
    if a.dtype.base_dtype not in _VALID_DTYPES:
        raise TypeError("'a' invalid dtype %s." % a.dtype)
    b = sparse_tensor.convert_to_tensor_or_sparse_tensor(b, name="b")
    if b.dtype.base_dtype != a.dtype.base_dtype:
        raise TypeError("Types don't match, %s vs %s." % (a.dtype, b.dtype))
    if isinstance(a, sparse_tensor.SparseTensor) and not isinstance(b, sparse_tensor.SparseTensor):
        return b, a, True
    return a, b, False


def _set_operation(a: Any, b: Any, set_operation: str, validate_indices: bool = True) -> Any:
    if isinstance(a, sparse_tensor.SparseTensor):
        if isinstance(b, sparse_tensor.SparseTensor):
            indices, values, shape = gen_set_ops.sparse_to_sparse_set_operation(
                a.indices,
                a.values,
                a.dense_shape,
                b.indices,
                b.values,
                b.dense_shape,
                set_operation,
                validate_indices,
            )
        else:
            raise ValueError(
                "Sparse,Dense is not supported, but Dense,Sparse is. Please flip the order of your inputs."
            )
    elif isinstance(b, sparse_tensor.SparseTensor):
        indices, values, shape = gen_set_ops.dense_to_sparse_set_operation(
            a, b.indices, b.values, b.dense_shape, set_operation, validate_indices
        )
    else:
        indices, values, shape = gen_set_ops.dense_to_dense_set_operation(
            a, b, set_operation, validate_indices
        )
    return sparse_tensor.SparseTensor(indices, values, shape)


def set_intersection(a: Any, b: Any, validate_indices: bool = True) -> Any:
    """Returns the elements of both `a` and `b` along the last dimension, as a sparse tensor."""
    a, b, _ = _convert_to_tensors_or_sparse_tensors(a, b)
    return _set_operation(a, b, "intersection", validate_indices)


def set_difference(a: Any, b: Any, aminusb: bool = True, validate_indices: bool = True) -> Any:
    """Returns the elements of `a` that are not in `b` (or the other way round), as a sparse tensor."""
    a, b, flipped = _convert_to_tensors_or_sparse_tensors(a, b)
    if flipped:
        aminusb = not aminusb
    return _set_operation(a, b, "a-b" if aminusb else "b-a", validate_indices)


def set_union(a: Any, b: Any, validate_indices: bool = True) -> Any:
    """Returns the elements of `a` or `b` along the last dimension, as a sparse tensor."""
    a, b, _ = _convert_to_tensors_or_sparse_tensors(a, b)
    return _set_operation(a, b, "union", validate_indices)
