# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Partitioners: functions that return into how many parts each axis of a variable is split."""

from __future__ import annotations

import math
from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import tensor_shape
from millrace.python.ops import variable_scope


def _bytes_per_slice(shape: Any, dtype: Any, axis: int, bytes_per_string_element: int) -> tuple[int, int]:
    """(the size of the axis, the bytes of one slice along it)."""
    if axis < -shape.ndims or axis >= shape.ndims:
        raise ValueError("Axis %d is out of range for the shape %s" % (axis, shape))
    element_size = bytes_per_string_element if dtype.base_dtype == dtypes.string else dtype.size
    sizes = shape.as_list()
    size = sizes[axis]
    return size, (shape.num_elements() // size if size else 0) * element_size


def _partitions(shape: Any, axis: int, count: int) -> list[int]:
    result = [1] * shape.ndims
    result[axis] = count
    return result


def variable_axis_size_partitioner(
    max_shard_bytes: int, axis: int = 0, bytes_per_string_element: int = 16, max_shards: int | None = None
) -> Any:
    """Returns a partitioner that keeps parts below `max_shard_bytes`; ValueError for numbers below 1."""
    if max_shard_bytes < 1 or bytes_per_string_element < 1:
        raise ValueError("Both max_shard_bytes and bytes_per_string_element must be positive.")
    if max_shards and max_shards < 1:
        raise ValueError("max_shards must be positive.")

    def _partitioner(shape: Any, dtype: Any) -> list[int]:
        if not isinstance(shape, tensor_shape.TensorShape):
            raise ValueError("shape is not a TensorShape: %s" % shape)
        if not shape.is_fully_defined():
            raise ValueError("shape is not fully defined: %s" % shape)
        size, slice_bytes = _bytes_per_slice(shape, dtypes.as_dtype(dtype), axis, bytes_per_string_element)
        slices_per_shard = max(1, math.floor(max_shard_bytes / max(1, slice_bytes)))
        axis_shards = max(1, int(math.ceil(1.0 * size / slices_per_shard)))
        if max_shards:
            axis_shards = min(max_shards, axis_shards)
        return _partitions(shape, axis, axis_shards)

    return _partitioner


def min_max_variable_partitioner(
    max_partitions: int = 1,
    axis: int = 0,
    min_slice_size: int = 256 << 10,
    bytes_per_string_element: int = 16,
) -> Any:
    """Returns a partitioner with up to `max_partitions` parts of at least `min_slice_size` bytes."""

    def _partitioner(shape: Any, dtype: Any) -> list[int]:
        if axis >= len(shape):
            raise ValueError("Can not partition variable along axis %d when shape is only %s" % (axis, shape))
        dtype = dtypes.as_dtype(dtype)
        element_size = bytes_per_string_element if dtype.base_dtype == dtypes.string else dtype.size
        count = int(math.ceil(shape.num_elements() * element_size / min_slice_size))
        return _partitions(shape, axis, max(1, min(count, max_partitions, shape.as_list()[axis])))

    return _partitioner


def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Any:
    """Returns a partitioner that cuts `axis` into `num_shards` parts, or as many as it has slices."""

    def _partitioner(shape: Any, **unused_args: Any) -> list[int]:
        return _partitions(shape, axis, min(num_shards, shape.as_list()[axis]))

    return _partitioner


def create_partitioned_variables(
    shape: Any,
    slicing: Any,
    initializer: Any,
    dtype: Any = dtypes.float32,
    trainable: bool = True,
    collections: Any = None,
    name: str | None = None,
    reuse: Any = None,
) -> list[Any]:
    """Makes the parts of a variable of `shape`, cut as `slicing` says along at most one axis; returns them.

    Raises:
      ValueError: `shape` and `slicing` do not fit.
    """
    if len(shape) != len(slicing):
        raise ValueError(
            "The 'shape' and 'slicing' of a partitioned Variable must have the length: shape: %s, slicing: %s"
            % (shape, slicing)
        )
    if len(shape) < 1:
        raise ValueError("A partitioned Variable must have rank at least 1: shape: %s" % shape)
    partitioner = lambda **unused_kwargs: slicing  # noqa: E731
    with variable_scope.variable_scope(name, "PartitionedVariable", reuse=reuse):
        partitioned_var = variable_scope._get_default_variable_store().get_variable(
            variable_scope.get_variable_scope().name,
            shape=shape,
            initializer=initializer,
            dtype=dtype,
            trainable=trainable,
            partitioner=partitioner,
            collections=collections,
            reuse=variable_scope.get_variable_scope().reuse,
        )
        return list(partitioned_var)
