# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Sorting along an axis, by top_k."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.framework import ops
from millrace.python.framework import tensor_util
from millrace.python.ops import array_ops
from millrace.python.ops import gen_nn_ops
from millrace.python.ops import math_ops

_DIRECTIONS = ("ASCENDING", "DESCENDING")


def sort(values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None) -> Any:
    """Returns the elements of `values` sorted along `axis`; ValueError for another direction."""
    with ops.name_scope(name, "sort"):
        return _sort_or_argsort(values, axis, direction, return_argsort=False)


def argsort(
    values: Any, axis: int = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None
) -> Any:
    """Returns the int32 indices that sort `values` along `axis`; equal elements keep their order."""
    del stable
    with ops.name_scope(name, "argsort"):
        return _sort_or_argsort(values, axis, direction, return_argsort=True)


def _sort_or_argsort(values: Any, axis: Any, direction: str, return_argsort: bool) -> Any:
    if direction not in _DIRECTIONS:
        raise ValueError("%s should be one of %s" % (direction, ", ".join(_DIRECTIONS)))
    axis_static = tensor_util.constant_value(ops.convert_to_tensor(axis, name="axis"))
    if axis_static is None:
        raise ValueError("axis must be a constant scalar")
    if np.ndim(axis_static) != 0 or axis_static.dtype.kind not in "iu":
        raise ValueError("axis must be a constant scalar")
    axis = int(axis_static)
    values = ops.convert_to_tensor(values, name="values")
    if direction == "ASCENDING":
        # The order of -x; of integers that of -x - 1, which has no overflow. NaN stays last.
        keys = math_ops.negative(values) - 1 if values.dtype.is_integer else math_ops.negative(values)
        if values.dtype.is_unsigned:
            keys = values.dtype.max - values
    else:
        keys = values
    rank = values.shape.ndims
    if rank == 0:
        raise ValueError("Shape must be at least rank 1 but is rank 0")
    move = axis not in (-1, None if rank is None else rank - 1)
    if move:
        if rank is None:
            raise ValueError("axis must be -1 for a tensor of unknown rank")
        axis %= rank
        perm = [i for i in range(rank) if i != axis] + [axis]
        keys = array_ops.transpose(keys, perm)
    k = array_ops.shape(keys)[-1]
    top, indices = gen_nn_ops.top_kv2(keys, k)
    result = indices if return_argsort else top
    if not return_argsort and direction == "ASCENDING":
        if values.dtype.is_unsigned:
            result = values.dtype.max - result
        else:
            result = math_ops.negative(result + 1) if values.dtype.is_integer else math_ops.negative(result)
    if move:
        back = [0] * rank
        for i, p in enumerate(perm):
            back[p] = i
        result = array_ops.transpose(result, back)
    result.set_shape(values.shape)
    return result
