# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Shapes of broadcasts."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import tensor_shape


def is_broadcast_compatible(shape_x: Any, shape_y: Any) -> bool:
    """Whether two shapes may be broadcast to one."""
    shape_x, shape_y = tensor_shape.as_shape(shape_x), tensor_shape.as_shape(shape_y)
    if shape_x.ndims is None or shape_y.ndims is None:
        return False
    return _broadcast(shape_x, shape_y) is not None


def _broadcast(shape_x: Any, shape_y: Any) -> Any:
    x, y = list(reversed(shape_x.as_list())), list(reversed(shape_y.as_list()))
    result: list[Any] = []
    for i in range(max(len(x), len(y))):
        a = x[i] if i < len(x) else 1
        b = y[i] if i < len(y) else 1
        if a is None or b is None:
            # An unknown size broadcast with a known one above 1 becomes that; with 1 it stays unknown.
            known = b if a is None else a
            result.append(known if known is not None and known > 1 else None)
        elif a == 1 or b == 1 or a == b:
            result.append(b if a == 1 else a)
        else:
            return None
    return result[::-1]


def broadcast_shape(shape_x: Any, shape_y: Any) -> Any:
    """The shape that both are broadcast to; ValueError if there is none."""
    shape_x, shape_y = tensor_shape.as_shape(shape_x), tensor_shape.as_shape(shape_y)
    if shape_x.ndims is None or shape_y.ndims is None:
        return tensor_shape.unknown_shape()
    result = _broadcast(shape_x, shape_y)
    if result is None:
        raise ValueError("Incompatible shapes for broadcasting: %s and %s" % (shape_x, shape_y))
    return tensor_shape.TensorShape(result)


def has_fully_defined_shape(tensor: Any) -> bool:
    return tensor.shape.is_fully_defined()


def rank(tensor: Any) -> Any:
    return tensor.shape.ndims


def call_cpp_shape_fn(op: Any, require_shape_fn: bool = True) -> Any:
    """The shapes of an operation's outputs, which the engine has inferred."""
    return {"shapes": [t.shape.as_proto().SerializeToString() for t in op.outputs], "handle_data": []}


def unknown_shape(op: Any) -> list[Any]:
    """An unknown shape for each output."""
    return [tensor_shape.unknown_shape() for _ in op.outputs]


def scalar_shape(op: Any) -> list[Any]:
    """A scalar's shape for each output."""
    return [tensor_shape.scalar() for _ in op.outputs]


def unchanged_shape(op: Any) -> list[Any]:
    """The shape of the first input."""
    return [op.inputs[0].get_shape()]


def no_outputs(op: Any) -> list[Any]:
    """No shape."""
    return []
