# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Zeros and ones of the shape and type that a tensor's gradient has."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.ops import array_ops
from millrace.python.ops import resource_variable_ops


def _handle_data(t: Any) -> Any:
    """What is known of a handle's value: a list with (shape, type) first, or an empty one."""
    if not isinstance(t, ops.EagerTensor):
        return t.graph._get_handle_data(t)
    data = t._handle_data_tuple()
    if data is None:
        return None
    number, sizes = data
    return [(None if sizes is None else [None if s < 0 else s for s in sizes], number)]


def get_zeros_dtype(t: Any) -> Any:
    """The type of a gradient: for a resource the type of its variable.

    Raises:
      ValueError: the variable of a resource is unknown.
    """
    return shape_and_dtype(t)[1] if t.dtype == dtypes.resource else t.dtype


def shape_and_dtype(t: Any) -> tuple[Any, Any]:
    """Shape and type of a gradient: for a resource those of its variable."""
    if t.dtype == dtypes.resource:
        data = _handle_data(t)
        if not data:
            raise ValueError(
                "Internal error: Tried to take gradients (or similar) of a variable without handle data:\n%s"
                % str(t)
            )
        shape, dtype = data[0]
        return tensor_shape.TensorShape(shape), dtypes.as_dtype(dtype)
    return t.shape, t.dtype


def zeros_like(t: Any) -> Any:
    """Zeros for the gradient of a tensor."""
    if t.dtype == dtypes.resource:
        return array_ops.zeros(*_dynamic(t))
    return array_ops.zeros_like(t)


def ones_like(t: Any) -> Any:
    """Ones for the gradient of a tensor."""
    if t.dtype == dtypes.resource:
        return array_ops.ones(*_dynamic(t))
    return array_ops.ones_like(t)


def _dynamic(t: Any) -> tuple[Any, Any]:
    shape, dtype = shape_and_dtype(t)
    if not shape.is_fully_defined():
        shape = resource_variable_ops.variable_shape(t)
    return shape, dtype


def supports_default_grad(t: Any) -> bool:
    """Whether enough is known of a tensor for `zeros_like` and `ones_like`."""
    if t.dtype == dtypes.resource:
        return bool(_handle_data(t))
    return True
