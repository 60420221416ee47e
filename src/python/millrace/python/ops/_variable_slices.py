# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The slices of a partitioned variable."""

from __future__ import annotations

import collections.abc
from typing import Any, Iterator


def _iter_slices(
    full_shape: list[int], num_slices: int, slice_dim: int
) -> Iterator[tuple[list[int], list[int]]]:
    """Yields offset and shape of each part; the first ones are larger by one if sizes differ."""
    excess = full_shape[slice_dim] % num_slices
    offset = [0] * len(full_shape)
    min_slice_len = full_shape[slice_dim] // num_slices
    for i in range(num_slices):
        shape = list(full_shape)
        shape[slice_dim] = min_slice_len + (1 if i < excess else 0)
        yield list(offset), shape
        offset[slice_dim] += shape[slice_dim]


def _call_partitioner(partitioner: Any, shape: Any, dtype: Any) -> Any:
    """The number of parts along each axis, from a partitioner."""
    if not shape.is_fully_defined():
        raise ValueError(
            "Shape of a new partitioned variable must be fully defined, but instead was %s." % (shape,)
        )
    if shape.ndims < 1:
        raise ValueError("A partitioned Variable must have rank at least 1, shape: %s" % shape)
    slicing = partitioner(shape=shape, dtype=dtype)
    if not isinstance(slicing, collections.abc.Sequence):
        raise ValueError("Partitioner must return a sequence, but saw: %s" % slicing)
    if len(slicing) != shape.ndims:
        raise ValueError(
            "Partitioner returned a partition list that does not match the Variable's rank: %s vs. %s"
            % (slicing, shape)
        )
    for p in slicing:
        if p < 1:
            raise ValueError("Partitioner returned zero partitions for some axes: %s" % slicing)
    if sum(p > 1 for p in slicing) > 1:
        raise ValueError(
            "Can only slice a variable along one dimension: shape: %s, partitioning: %s" % (shape, slicing)
        )
    return slicing


def _get_slice_dim_and_num_slices(slicing: Any) -> tuple[int, int]:
    for slice_dim, num_slices in enumerate(slicing):
        if num_slices > 1:
            return slice_dim, num_slices
    return 0, 1
