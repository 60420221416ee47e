# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Sparse tensors kept in maps of the session and identified by handles, for batching queues."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import ops, sparse_tensor
from millrace.python.ops import gen_sparse_ops
from millrace.python.ops._sparse_shapes import _convert_to_sparse_tensor


def _add_sparse_to_tensors_map(
    sp_input: Any,
    container: Optional[str] = None,
    shared_name: Optional[str] = None,
    name: Optional[str] = None,
) -> Any:
    """Puts a sparse tensor into a map; returns its handle, a scalar int64."""
    sp_input = _convert_to_sparse_tensor(sp_input)
    return gen_sparse_ops.add_sparse_to_tensors_map(
        sp_input.indices,
        sp_input.values,
        sp_input.dense_shape,
        container=container,
        shared_name=shared_name,
        name=name,
    )


def _add_many_sparse_to_tensors_map(
    sp_input: Any,
    container: Optional[str] = None,
    shared_name: Optional[str] = None,
    name: Optional[str] = None,
) -> Any:
    """Puts each row of a sparse tensor of rank above 1 into a map; returns the handles, an int64 vector."""
    sp_input = _convert_to_sparse_tensor(sp_input)
    return gen_sparse_ops.add_many_sparse_to_tensors_map(
        sp_input.indices,
        sp_input.values,
        sp_input.dense_shape,
        container=container,
        shared_name=shared_name,
        name=name,
    )


def _take_many_sparse_from_tensors_map(
    sparse_map_op: Any, sparse_handles: Any, rank: Optional[int] = None, name: Optional[str] = None
) -> Any:
    """Takes sparse tensors out of the map of `sparse_map_op`, stacked along a new first dimension.

    Args:
      sparse_map_op: the Operation that put them there.
      sparse_handles: int64 vector.
      rank: of the result, if it is known.

    Raises:
      TypeError: if `sparse_map_op` is not such an Operation.
    """
    if not isinstance(sparse_map_op, ops.Operation):
        raise TypeError("sparse_map_op be an Operation")
    if sparse_map_op.type not in ("AddSparseToTensorsMap", "AddManySparseToTensorsMap"):
        raise TypeError(
            "sparse_map_op must be one of AddSparseToTensorsMap or AddSparseToTensorsMap. Instead, found `%s`."
            % sparse_map_op.type
        )
    with ops.colocate_with(sparse_map_op):
        shared_name = sparse_map_op.get_attr("shared_name") or sparse_map_op.name
        indices, values, shape = gen_sparse_ops.take_many_sparse_from_tensors_map(
            sparse_handles,
            dtype=sparse_map_op.get_attr("T"),
            container=sparse_map_op.get_attr("container"),
            shared_name=shared_name,
            name=name,
        )
    indices.set_shape([None, rank])
    shape.set_shape([rank])
    return sparse_tensor.SparseTensor(indices, values, shape)
