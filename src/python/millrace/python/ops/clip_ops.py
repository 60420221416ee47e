# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Clipping of values and norms."""

from __future__ import annotations

import collections.abc
from typing import Any

from millrace.python.framework import constant_op
from millrace.python.framework import dtypes
from millrace.python.framework import indexed_slices
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import gen_nn_ops
from millrace.python.ops import math_ops

_Slices = indexed_slices.IndexedSlices


def _values(t: Any, name: str) -> Any:
    return ops.convert_to_tensor(t.values if isinstance(t, _Slices) else t, name=name)


def _like(t: Any, values: Any) -> Any:
    return _Slices(values, t.indices, t.dense_shape) if isinstance(t, _Slices) else values


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """Returns `t` (a tensor or IndexedSlices) with values outside of the bounds replaced by the nearer bound.

    Args:
      t: a tensor or IndexedSlices.
      clip_value_min, clip_value_max: scalars, or tensors that broadcast to the shape of `t`.
      name: name scope.

    Raises:
      ValueError: the bounds do not broadcast to the shape of `t`.
    """
    with ops.name_scope(name, "clip_by_value", [t, clip_value_min, clip_value_max]) as name:
        values = _values(t, "t")
        t_min = math_ops.minimum(values, clip_value_max)
        values.shape.merge_with(t_min.shape)
        t_max = math_ops.maximum(t_min, clip_value_min, name=name)
        values.shape.merge_with(t_max.shape)
        return _like(t, t_max)


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """Returns `t` scaled so that its L2 norm over `axes` (None: all) is at most `clip_norm`."""
    with ops.name_scope(name, "clip_by_norm", [t, clip_norm]) as name:
        values = _values(t, "t")
        l2sum = math_ops.reduce_sum(values * values, axes, keepdims=True)
        pred = l2sum > 0
        # The root of zero has no finite gradient.
        l2sum_safe = array_ops.where(pred, l2sum, array_ops.ones_like(l2sum))
        l2norm = array_ops.where(pred, math_ops.sqrt(l2sum_safe), l2sum)
        intermediate = values * clip_norm
        values.shape.merge_with(intermediate.shape)
        values_clip = array_ops.identity(intermediate / math_ops.maximum(l2norm, clip_norm), name=name)
        return _like(t, values_clip)


def _check_list(t_list: Any) -> list[Any]:
    if not isinstance(t_list, collections.abc.Sequence) or isinstance(t_list, str):
        raise TypeError("t_list should be a sequence")
    return list(t_list)


def global_norm(t_list: Any, name: str | None = None) -> Any:
    """Returns the square root of the sum of squares of all elements of a list; None entries are ignored.

    Raises:
      TypeError: `t_list` is no sequence.
    """
    t_list = _check_list(t_list)
    with ops.name_scope(name, "global_norm", t_list) as name:
        values = [
            None
            if t is None
            else ops.convert_to_tensor(t.values if isinstance(t, _Slices) else t, name="t_%d" % i)
            for i, t in enumerate(t_list)
        ]
        half_squared_norms = []
        for v in values:
            if v is not None:
                with ops.colocate_with(v):
                    half_squared_norms.append(gen_nn_ops.l2_loss(v))
        half_squared_norm = math_ops.reduce_sum(array_ops.stack(half_squared_norms))
        return math_ops.sqrt(
            half_squared_norm * constant_op.constant(2.0, dtype=half_squared_norm.dtype), name="global_norm"
        )


def clip_by_global_norm(t_list: Any, clip_norm: Any, use_norm: Any = None, name: str | None = None) -> Any:
    """Returns (list scaled so that its global norm is at most `clip_norm`, the norm before).

    Where the norm is infinite or not a number, so are all results.

    Args:
      t_list: tensors, IndexedSlices and None.
      clip_norm: a scalar.
      use_norm: the global norm, where it is known.
      name: name scope.

    Raises:
      TypeError: `t_list` is no sequence.
    """
    t_list = _check_list(t_list)
    if use_norm is None:
        use_norm = global_norm(t_list, name)
    with ops.name_scope(name, "clip_by_global_norm", t_list + [clip_norm]) as name:
        use_norm = ops.convert_to_tensor(use_norm)
        scale_for_finite = clip_norm * math_ops.minimum(
            1.0 / use_norm, constant_op.constant(1.0, dtype=use_norm.dtype) / clip_norm
        )
        scale = array_ops.where(
            math_ops.is_finite(use_norm),
            scale_for_finite,
            constant_op.constant(float("nan"), dtype=use_norm.dtype),
        )
        values = [
            None
            if t is None
            else ops.convert_to_tensor(t.values if isinstance(t, _Slices) else t, name="t_%d" % i)
            for i, t in enumerate(t_list)
        ]
        clipped: list[Any] = []
        for i, v in enumerate(values):
            if v is None:
                clipped.append(None)
                continue
            with ops.colocate_with(v):
                clipped.append(array_ops.identity(v * scale, name="%s_%d" % (name, i)))
        return [None if c is None else _like(t, c) for c, t in zip(clipped, t_list)], use_norm


def clip_by_average_norm(t: Any, clip_norm: Any, name: str | None = None) -> Any:
    """Returns `t` scaled so that its L2 norm divided by its number of elements is at most `clip_norm`."""
    with ops.name_scope(name, "clip_by_average_norm", [t, clip_norm]) as name:
        t = ops.convert_to_tensor(t, name="t")
        n_element = math_ops.cast(array_ops.size(t), dtypes.float32)
        l2norm_inv = math_ops.rsqrt(math_ops.reduce_sum(t * t, math_ops.range(array_ops.rank(t))))
        return array_ops.identity(
            t * clip_norm * math_ops.minimum(l2norm_inv * n_element, constant_op.constant(1.0) / clip_norm),
            name=name,
        )
