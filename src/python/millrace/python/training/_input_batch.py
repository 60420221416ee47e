# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Queues that gather single examples into batches: the common part of batch, batch_join, shuffle_batch, ..."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework import sparse_tensor
from millrace.python.framework import tensor_shape
from millrace.python.layers import utils
from millrace.python.ops import control_flow_ops
from millrace.python.ops import data_flow_ops
from millrace.python.ops import math_ops
from millrace.python.summary import summary
from millrace.python.training import queue_runner
from millrace.python.training._input_sparse import (
    restore_sparse_tensors as _restore_sparse_tensors,
    store_sparse_tensors as _store_sparse_tensors,
    store_sparse_tensors_join as _store_sparse_tensors_join,
)


def _flatten(tensor_list_list: Any) -> list[Any]:
    return [tensor for tensor_list in tensor_list_list for tensor in tensor_list]


def _as_tensor_list(tensors: Any) -> list[Any]:
    if isinstance(tensors, dict):
        return [tensors[k] for k in sorted(tensors)]
    return list(tensors)


def _as_tensor_list_list(tensors_list: Any) -> list[list[Any]]:
    if isinstance(tensors_list, dict) or not (
        hasattr(tensors_list, "__getitem__") and hasattr(tensors_list, "__len__")
    ):
        raise TypeError("tensors_list must be a list of lists or of dictionaries, got: %r" % (tensors_list,))
    if not tensors_list or len(tensors_list) == 0:
        raise ValueError("Expected at least one set of tensors")
    if isinstance(tensors_list[0], dict):
        expected_keys = set(tensors_list[0].keys())
        for tensors in tensors_list[1:]:
            if set(tensors.keys()) != expected_keys:
                raise ValueError("All dictionaries in tensors_list must have the same keys")
        return [_as_tensor_list(tensors) for tensors in tensors_list]
    return [list(tensors) for tensors in tensors_list]


def _as_original_type(original_tensors: Any, tensor_list: Any) -> Any:
    """`tensor_list` in the structure of `original_tensors`: a dict, a single tensor or a list."""
    if isinstance(original_tensors, dict):
        if len(original_tensors) == 1 and not isinstance(tensor_list, (list, tuple)):
            tensor_list = [tensor_list]
        return {k: tensor_list[i] for i, k in enumerate(sorted(original_tensors))}
    if isinstance(tensor_list, (list, tuple)) and len(tensor_list) == 1:
        return tensor_list[0]
    return list(tensor_list) if isinstance(tensor_list, (list, tuple)) else tensor_list


def _validate(tensor_list: Any) -> list[Any]:
    tensor_list = ops.convert_n_to_tensor_or_indexed_slices(tensor_list)
    if not tensor_list:
        raise ValueError("Expected at least one tensor in batch().")
    return list(tensor_list)


def _validate_join(tensor_list_list: Any) -> list[list[Any]]:
    tensor_list_list = [list(ops.convert_n_to_tensor_or_indexed_slices(tl)) for tl in tensor_list_list]
    if not tensor_list_list:
        raise ValueError("Expected at least one input in batch_join().")
    return tensor_list_list


def _validate_keep_input(keep_input: Any, enqueue_many: bool) -> Any:
    keep_input = ops.convert_to_tensor(keep_input)
    ndims = keep_input.get_shape().ndims
    if ndims is None:
        raise ValueError("`keep_input` dimensions must be known at graph construction.")
    if not enqueue_many and ndims == 1:
        raise ValueError("`keep_input` cannot be a vector when `enqueue_many=False`.")
    if ndims > 1:
        raise ValueError("`keep_input` must be 0 or 1 dimensions.")
    return keep_input


def _dtypes(tensor_list_list: Any) -> list[Any]:
    if any(t is None for tensors in tensor_list_list for t in tensors):
        raise ValueError("None values not supported.")
    all_types = [[t.dtype for t in tl] for tl in tensor_list_list]
    types = all_types[0]
    for other_types in all_types[1:]:
        if other_types != types:
            raise TypeError(
                "Expected types to be consistent: %s vs. %s."
                % (", ".join(x.name for x in types), ", ".join(x.name for x in other_types))
            )
    return types


def _merge_shapes(shape_list: Any, enqueue_many: bool) -> Any:
    shapes = [tensor_shape.as_shape(s) for s in shape_list]
    if enqueue_many:
        # Dimension 0 counts examples.
        shapes = [s.with_rank_at_least(1)[1:] for s in shapes]
    merged = shapes[0]
    for s in shapes[1:]:
        merged = merged.merge_with(s)
    return merged.as_list()


def _shapes(tensor_list_list: Any, shapes: Any, enqueue_many: bool) -> Any:
    """Shapes of single examples, as given or as common to the tensors."""
    if shapes is not None:
        return shapes
    count = len(tensor_list_list[0])
    for tl in tensor_list_list:
        for i in range(count):
            if tl[i].get_shape().ndims is None:
                raise ValueError("Cannot infer Tensor's rank: %s" % tl[i])
    return [_merge_shapes([tl[i].get_shape() for tl in tensor_list_list], enqueue_many) for i in range(count)]


def _select_which_to_enqueue(tensor_list: Any, keep_input: Any) -> list[Any]:
    """The examples, along dimension 0, for which `keep_input` is true."""
    select_i = math_ops.cast(keep_input, dtypes.int32)
    return [data_flow_ops.dynamic_partition(x, select_i, num_partitions=2)[1] for x in tensor_list]


def _enqueue_op(queue: Any, tensor_list: Any, enqueue_many: bool, keep_input: Any) -> Any:
    if enqueue_many:
        if keep_input.get_shape().ndims == 1:
            return queue.enqueue_many(_select_which_to_enqueue(tensor_list, keep_input))
        return utils.smart_cond(keep_input, lambda: queue.enqueue_many(tensor_list), control_flow_ops.no_op)
    return utils.smart_cond(keep_input, lambda: queue.enqueue(tensor_list), control_flow_ops.no_op)


def _enqueue(queue: Any, tensor_list: Any, threads: int, enqueue_many: bool, keep_input: Any) -> None:
    enqueue_ops = [_enqueue_op(queue, tensor_list, enqueue_many, keep_input)] * threads
    queue_runner.add_queue_runner(queue_runner.QueueRunner(queue, enqueue_ops))


def _enqueue_join(queue: Any, tensor_list_list: Any, enqueue_many: bool, keep_input: Any) -> None:
    enqueue_ops = [_enqueue_op(queue, tl, enqueue_many, keep_input) for tl in tensor_list_list]
    queue_runner.add_queue_runner(queue_runner.QueueRunner(queue, enqueue_ops))


def _which_queue(dynamic_pad: bool) -> Any:
    return data_flow_ops.PaddingFIFOQueue if dynamic_pad else data_flow_ops.FIFOQueue


def _dequeue(queue: Any, batch_size: Any, allow_smaller_final_batch: bool, name: str) -> Any:
    if allow_smaller_final_batch:
        return queue.dequeue_up_to(batch_size, name=name)
    return queue.dequeue_many(batch_size, name=name)


def _batch(
    tensors: Any,
    batch_size: Any,
    keep_input: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Common part of `batch` and `maybe_batch`."""
    tensor_list = _as_tensor_list(tensors)
    with ops.name_scope(name, "batch", list(tensor_list) + [keep_input]) as name:
        tensor_list = _validate(tensor_list)
        keep_input = _validate_keep_input(keep_input, enqueue_many)
        tensor_list, sparse_info = _store_sparse_tensors(tensor_list, enqueue_many, keep_input)
        types = _dtypes([tensor_list])
        shapes = _shapes([tensor_list], shapes, enqueue_many)
        queue = _which_queue(dynamic_pad)(
            capacity=capacity, dtypes=types, shapes=shapes, shared_name=shared_name
        )
        _enqueue(queue, tensor_list, num_threads, enqueue_many, keep_input)
        summary.scalar(
            "fraction_of_%d_full" % capacity,
            math_ops.cast(queue.size(), dtypes.float32) * (1.0 / capacity),
        )
        dequeued = _dequeue(queue, batch_size, allow_smaller_final_batch, str(name))
        dequeued = _restore_sparse_tensors(dequeued, sparse_info)
        return _as_original_type(tensors, dequeued)


def _batch_join(
    tensors_list: Any,
    batch_size: Any,
    keep_input: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Common part of `batch_join` and `maybe_batch_join`."""
    tensor_list_list = _as_tensor_list_list(tensors_list)
    with ops.name_scope(name, "batch_join", _flatten(tensor_list_list) + [keep_input]) as name:
        tensor_list_list = _validate_join(tensor_list_list)
        keep_input = _validate_keep_input(keep_input, enqueue_many)
        tensor_list_list, sparse_info = _store_sparse_tensors_join(tensor_list_list, enqueue_many, keep_input)
        types = _dtypes(tensor_list_list)
        shapes = _shapes(tensor_list_list, shapes, enqueue_many)
        queue = _which_queue(dynamic_pad)(
            capacity=capacity, dtypes=types, shapes=shapes, shared_name=shared_name
        )
        _enqueue_join(queue, tensor_list_list, enqueue_many, keep_input)
        summary.scalar(
            "fraction_of_%d_full" % capacity,
            math_ops.cast(queue.size(), dtypes.float32) * (1.0 / capacity),
        )
        dequeued = _dequeue(queue, batch_size, allow_smaller_final_batch, str(name))
        dequeued = _restore_sparse_tensors(dequeued, sparse_info)
        # All sets of tensors have the structure of the first.
        return _as_original_type(tensors_list[0], dequeued)


def _shuffle_summary(queue: Any, capacity: int, min_after_dequeue: int) -> None:
    full = math_ops.cast(math_ops.maximum(0, queue.size() - min_after_dequeue), dtypes.float32) * (
        1.0 / (capacity - min_after_dequeue)
    )
    # The name has the count above the minimum and its largest value.
    summary.scalar("fraction_over_%d_of_%d_full" % (min_after_dequeue, capacity - min_after_dequeue), full)


def _check_capacity(capacity: int, min_after_dequeue: int) -> None:
    if capacity <= min_after_dequeue:
        raise ValueError(
            "capacity %d must be bigger than min_after_dequeue %d." % (capacity, min_after_dequeue)
        )


def _shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Common part of `shuffle_batch` and `maybe_shuffle_batch`."""
    tensor_list = _as_tensor_list(tensors)
    with ops.name_scope(name, "shuffle_batch", list(tensor_list) + [keep_input]) as name:
        _check_capacity(capacity, min_after_dequeue)
        tensor_list = _validate(tensor_list)
        keep_input = _validate_keep_input(keep_input, enqueue_many)
        tensor_list, sparse_info = _store_sparse_tensors(tensor_list, enqueue_many, keep_input)
        types = _dtypes([tensor_list])
        shapes = _shapes([tensor_list], shapes, enqueue_many)
        queue = data_flow_ops.RandomShuffleQueue(
            capacity=capacity,
            min_after_dequeue=min_after_dequeue,
            seed=seed,
            dtypes=types,
            shapes=shapes,
            shared_name=shared_name,
        )
        _enqueue(queue, tensor_list, num_threads, enqueue_many, keep_input)
        _shuffle_summary(queue, capacity, min_after_dequeue)
        dequeued = _dequeue(queue, batch_size, allow_smaller_final_batch, str(name))
        dequeued = _restore_sparse_tensors(dequeued, sparse_info)
        return _as_original_type(tensors, dequeued)


def _shuffle_batch_join(
    tensors_list: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Common part of `shuffle_batch_join` and `maybe_shuffle_batch_join`."""
    tensor_list_list = _as_tensor_list_list(tensors_list)
    with ops.name_scope(name, "shuffle_batch_join", _flatten(tensor_list_list) + [keep_input]) as name:
        _check_capacity(capacity, min_after_dequeue)
        tensor_list_list = _validate_join(tensor_list_list)
        keep_input = _validate_keep_input(keep_input, enqueue_many)
        tensor_list_list, sparse_info = _store_sparse_tensors_join(tensor_list_list, enqueue_many, keep_input)
        types = _dtypes(tensor_list_list)
        shapes = _shapes(tensor_list_list, shapes, enqueue_many)
        queue = data_flow_ops.RandomShuffleQueue(
            capacity=capacity,
            min_after_dequeue=min_after_dequeue,
            seed=seed,
            dtypes=types,
            shapes=shapes,
            shared_name=shared_name,
        )
        _enqueue_join(queue, tensor_list_list, enqueue_many, keep_input)
        _shuffle_summary(queue, capacity, min_after_dequeue)
        dequeued = _dequeue(queue, batch_size, allow_smaller_final_batch, str(name))
        dequeued = _restore_sparse_tensors(dequeued, sparse_info)
        return _as_original_type(tensors_list[0], dequeued)
