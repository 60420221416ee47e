# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Sparse tensors in batching queues: the queues hold handles of tensors kept in maps of the engine."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import constant_op
from millrace.python.framework import dtypes
from millrace.python.framework import sparse_tensor
from millrace.python.layers import utils
from millrace.python.ops import array_ops
from millrace.python.ops import sparse_ops

_STORING_OPS = ("AddSparseToTensorsMap", "AddManySparseToTensorsMap")


class SparseMetaData:
    """The data needed to take a component out of its map: whether it is sparse, the map's op, the rank.

    `rank` is that of the stored tensors, without the dimension of the batch; a Dimension, or None.
    """

    def __init__(self, sparse: bool, map_op: Any, rank: Any) -> None:
        self._sparse = sparse
        self._map_op = map_op
        self._rank = rank

    def __eq__(self, other: Any) -> bool:
        if self.sparse != other.sparse:
            return False
        if not self.sparse:
            return True
        # The map's op is chosen by the first of several inputs, so it does not take part.
        if (self.rank is not None) != (other.rank is not None):
            return False
        return self.rank is None or self.rank == other.rank

    def __ne__(self, other: Any) -> bool:
        return not self.__eq__(other)

    def __str__(self) -> str:
        return "[SparseMetaData(%s, %s, %s)]" % (self.sparse, self.map_op.name, self.rank)

    def merge_with(self, other: SparseMetaData) -> SparseMetaData:
        """This, with the rank merged with that of `other`; ValueError where the two are incompatible."""
        if self != other:
            raise ValueError("SparseMetaData objects are incompatible: %s vs. %s" % (self, other))
        if self.sparse:
            self.rank.merge_with(other.rank)
        return self

    @property
    def map_op(self) -> Any:
        return self._map_op

    @property
    def sparse(self) -> bool:
        return self._sparse

    @property
    def rank(self) -> Any:
        return self._rank


def _storing_op(stored: Any) -> Any:
    """The op that stored a tensor, possibly behind a Merge."""
    if stored.op.type in _STORING_OPS:
        return stored.op
    for t in stored.op.inputs:
        if t.op.type in _STORING_OPS:
            return t.op
        if t.op.type in ("Merge", "Identity", "Switch"):
            return _storing_op(t)
    return stored.op


def _store_kept(t: Any, name: str | None, keep_input: Any, enqueue_many: bool) -> Any:
    """Handles of `t` in its map; -1 for what `keep_input` refuses."""
    if keep_input.get_shape().ndims == 1:
        # Rows that are not kept are dropped from the tensor; their handles are never used.
        keep_values = array_ops.reshape(array_ops.gather(keep_input, t.indices[:, 0]), [-1])
        return sparse_ops._add_many_sparse_to_tensors_map(
            sparse_ops.sparse_retain(t, keep_values), shared_name=name
        )
    if enqueue_many:
        out = utils.smart_cond(
            keep_input,
            lambda: sparse_ops._add_many_sparse_to_tensors_map(t, shared_name=name),
            lambda: -1 * array_ops.ones(array_ops.shape(t)[0:1], dtypes.int64),
        )
        out.set_shape([None])
        return out
    return utils.smart_cond(
        keep_input,
        lambda: sparse_ops._add_sparse_to_tensors_map(t, shared_name=name),
        lambda: constant_op.constant(-1, dtypes.int64),
    )


def store_sparse_tensors(
    tensor_list: Any, enqueue_many: bool, keep_input: Any, shared_map_ops: Any = None
) -> tuple[list[Any], list[SparseMetaData]]:
    """Puts sparse tensors of a list into maps.

    Args:
      tensor_list: tensors and SparseTensors.
      enqueue_many: whether dimension 0 counts examples.
      keep_input: bool tensor.
      shared_map_ops: op of the map to share, or None, for each.

    Returns:
      The list with handles instead of sparse tensors, and how to get them back.
    """
    shared_map_ops = shared_map_ops or [None] * len(tensor_list)
    stored_list, meta = [], []
    for t, map_op in zip(tensor_list, shared_map_ops):
        if not isinstance(t, sparse_tensor.SparseTensor):
            stored_list.append(t)
            meta.append(SparseMetaData(False, None, None))
            continue
        stored = _store_kept(t, map_op.name if map_op else None, keep_input, enqueue_many)
        rank = t.dense_shape.get_shape().with_rank(1).dims[0]
        if enqueue_many:
            rank = rank - 1
        stored_list.append(stored)
        meta.append(SparseMetaData(True, map_op or _storing_op(stored), rank))
    return stored_list, meta


def store_sparse_tensors_join(
    tensor_list_list: Any, enqueue_many: bool, keep_input: Any
) -> tuple[list[list[Any]], list[SparseMetaData]]:
    """`store_sparse_tensors` of several lists that share the maps of the first."""
    first, meta = store_sparse_tensors(tensor_list_list[0], enqueue_many, keep_input)
    stored = [first]
    for tensor_list in tensor_list_list[1:]:
        if len(tensor_list) != len(tensor_list_list[0]):
            raise ValueError(
                "Inconsistent SparseTensors list: %s vs. %s" % (tensor_list_list[0], tensor_list)
            )
        others, other_meta = store_sparse_tensors(
            tensor_list, enqueue_many, keep_input, [info.map_op for info in meta]
        )
        if other_meta != meta:
            raise ValueError(
                "Inconsistent SparseTensors list: %s vs. %s"
                % ([str(m) for m in meta if m.sparse], [str(m) for m in other_meta if m.sparse])
            )
        meta = [m.merge_with(o) for m, o in zip(meta, other_meta)]
        stored.append(others)
    return stored, meta


def restore_sparse_tensors(stored_list: Any, sparse_info_list: list[SparseMetaData]) -> list[Any]:
    """Takes the tensors that `store_sparse_tensors` put into maps out of them, by a batch of handles."""
    stored = stored_list if isinstance(stored_list, (list, tuple)) else [stored_list]
    return [
        sparse_ops._take_many_sparse_from_tensors_map(
            sparse_map_op=info.map_op, sparse_handles=s, rank=(info.rank + 1).value
        )
        if info.sparse
        else s
        for s, info in zip(stored, sparse_info_list)
    ]
