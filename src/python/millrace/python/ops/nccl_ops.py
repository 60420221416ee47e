# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Sums and copies over several devices; since all devices are CPUs, plain ops compute them."""
from __future__ import annotations

from typing import Any, Callable

from millrace.python.framework import device, ops
from millrace.python.ops import array_ops, math_ops


def _check(tensors: Any) -> None:
    if not tensors:
        raise ValueError("Must pass >0 tensors to all reduce operations")


def _apply_all(combine: Callable[[Any, Any], Any], tensors: Any) -> list[Any]:
    _check(tensors)
    tensors = [ops.convert_to_tensor(t) for t in tensors]
    result = tensors[0]
    for t in tensors[1:]:
        result = combine(result, t)
    outputs = []
    for t in tensors:
        with ops.device(device.canonical_name(t.device)):
            outputs.append(array_ops.identity(result))
    return outputs


def all_sum(tensors: Any) -> list[Any]:
    """Returns the sum of all tensors on the device of each; ValueError without tensors."""
    return _apply_all(math_ops.add, tensors)


def all_prod(tensors: Any) -> list[Any]:
    """Returns the product of all tensors on the device of each; ValueError without tensors."""
    return _apply_all(math_ops.multiply, tensors)


def all_min(tensors: Any) -> list[Any]:
    """Returns the minimum of all tensors on the device of each; ValueError without tensors."""
    return _apply_all(math_ops.minimum, tensors)


def all_max(tensors: Any) -> list[Any]:
    """Returns the maximum of all tensors on the device of each; ValueError without tensors."""
    return _apply_all(math_ops.maximum, tensors)


def reduce_sum(tensors: Any) -> Any:
    """The sum of tensors; ValueError without tensors."""
    _check(tensors)
    return math_ops.add_n(tensors)


def broadcast(tensor: Any) -> Any:
    """The tensor, which every device can read."""
    return array_ops.identity(tensor)
