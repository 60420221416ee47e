# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Reductions of segments of a tensor."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import gen_math_ops
from millrace.python.ops._math_elementwise import cast


def _unsorted_segment_n(data: Any, segment_ids: Any, num_segments: Any) -> Any:
    """The number of elements of each segment, at least 1, in a shape that broadcasts with the sums."""
    segment_ids = ops.convert_to_tensor(segment_ids)
    segment_ids_shape = array_ops.shape_internal(segment_ids)
    ones = array_ops.ones(segment_ids_shape, dtype=data.dtype)
    n = gen_math_ops.unsorted_segment_sum(ones, segment_ids, num_segments)
    broadcastable = array_ops.concat(
        [
            array_ops.expand_dims(array_ops.size(n), 0)
            if n.get_shape().ndims is None
            else array_ops.shape(n),
            array_ops.ones(
                array_ops.expand_dims(array_ops.rank(data) - array_ops.rank(segment_ids), 0),
                dtype=segment_ids_shape.dtype,
            ),
        ],
        axis=0,
    )
    n = array_ops.reshape(n, broadcastable)
    return gen_math_ops.maximum(n, cast(1, n.dtype))


def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Returns the mean of the rows of each segment; 0 for segments without rows."""
    with ops.name_scope(name, "UnsortedSegmentMean"):
        data = ops.convert_to_tensor(data)
        segment_ids = ops.convert_to_tensor(segment_ids)
        n = _unsorted_segment_n(data, segment_ids, num_segments)
        return gen_math_ops.unsorted_segment_sum(data, segment_ids, num_segments) / n


def unsorted_segment_sqrt_n(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Returns the sum of the rows of each segment divided by the square root of their number."""
    with ops.name_scope(name, "UnsortedSegmentSqrtN"):
        data = ops.convert_to_tensor(data)
        segment_ids = ops.convert_to_tensor(segment_ids)
        n = _unsorted_segment_n(data, segment_ids, num_segments)
        return gen_math_ops.unsorted_segment_sum(data, segment_ids, num_segments) / gen_math_ops.sqrt(n)


def sparse_segment_sum(
    data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None
) -> Any:
    """Returns for each segment the sum of the rows `data[indices]`.

    Args:
      data: a tensor of rank at least 1, whose rows are summed.
      indices: a vector of row numbers, int32 or int64.
      segment_ids: an int32 vector of the size of `indices`, in ascending order.
      name: name of the op.
      num_segments: the number of segments; by default the last id + 1.
    """
    if num_segments is not None:
        return gen_math_ops.sparse_segment_sum_with_num_segments(
            data=data, indices=indices, segment_ids=segment_ids, num_segments=num_segments, name=name
        )
    return gen_math_ops.sparse_segment_sum(data=data, indices=indices, segment_ids=segment_ids, name=name)


def sparse_segment_sum_v2(
    data: Any, indices: Any, segment_ids: Any, num_segments: Any = None, name: str | None = None
) -> Any:
    """Returns for each segment the sum of the rows `data[indices]`."""
    return sparse_segment_sum(data, indices, segment_ids, name=name, num_segments=num_segments)


def sparse_segment_mean(
    data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None
) -> Any:
    """Returns for each segment the mean of the rows `data[indices]`."""
    if num_segments is not None:
        return gen_math_ops.sparse_segment_mean_with_num_segments(
            data=data, indices=indices, segment_ids=segment_ids, num_segments=num_segments, name=name
        )
    return gen_math_ops.sparse_segment_mean(data=data, indices=indices, segment_ids=segment_ids, name=name)


def sparse_segment_mean_v2(
    data: Any, indices: Any, segment_ids: Any, num_segments: Any = None, name: str | None = None
) -> Any:
    """Returns for each segment the mean of the rows `data[indices]`."""
    return sparse_segment_mean(data, indices, segment_ids, name=name, num_segments=num_segments)


def sparse_segment_sqrt_n(
    data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None
) -> Any:
    """Returns for each segment the sum of the rows `data[indices]` divided by the root of their number."""
    if num_segments is not None:
        return gen_math_ops.sparse_segment_sqrt_n_with_num_segments(
            data=data, indices=indices, segment_ids=segment_ids, num_segments=num_segments, name=name
        )
    return gen_math_ops.sparse_segment_sqrt_n(data=data, indices=indices, segment_ids=segment_ids, name=name)


def sparse_segment_sqrt_n_v2(
    data: Any, indices: Any, segment_ids: Any, num_segments: Any = None, name: str | None = None
) -> Any:
    """Returns for each segment the sum of the rows `data[indices]` divided by the root of their number."""
    return sparse_segment_sqrt_n(data, indices, segment_ids, name=name, num_segments=num_segments)
