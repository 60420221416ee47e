# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Assertions about the types of tensors, all of them checked while the graph is made."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework import sparse_tensor
from millrace.python.framework import tensor_util
from millrace.python.ops import control_flow_ops

__all__ = [
    "assert_integer",
    "assert_proper_iterable",
    "assert_same_float_dtype",
    "assert_type",
    "is_numeric_tensor",
]

NUMERIC_TYPES = frozenset(
    [
        dtypes.float16,
        dtypes.float32,
        dtypes.float64,
        dtypes.int8,
        dtypes.int16,
        dtypes.int32,
        dtypes.int64,
        dtypes.uint8,
        dtypes.uint16,
        dtypes.uint32,
        dtypes.uint64,
        dtypes.qint8,
        dtypes.qint16,
        dtypes.qint32,
        dtypes.quint8,
        dtypes.quint16,
        dtypes.complex64,
        dtypes.complex128,
        dtypes.bfloat16,
    ]
)


def assert_proper_iterable(values: Any) -> None:
    """Raises TypeError for values that should not be iterated over: tensors, arrays, strings."""
    unintentional = (ops.Tensor, sparse_tensor.SparseTensor, bytes, str)
    import numpy as np

    if isinstance(values, unintentional + (np.ndarray,)):
        raise TypeError("Expected argument 'values' to be a 'proper' iterable.  Found: %s" % type(values))
    if not hasattr(values, "__iter__"):
        raise TypeError("Expected argument 'values' to be iterable.  Found: %s" % type(values))


def assert_integer(x: Any, message: str | None = None, name: str | None = None) -> Any:
    """Returns a NoOp; TypeError unless `x` is a tensor of integers."""
    message = message or ""
    with ops.name_scope(name, "assert_integer", [x]):
        x = ops.convert_to_tensor(x, name="x")
        if not x.dtype.is_integer:
            raise TypeError(
                '%s  Expected "x" to be integer type.  Found: %s of dtype %s'
                % (message, "" if isinstance(x, ops.EagerTensor) else x.name, x.dtype)
            )
        return control_flow_ops.no_op("statically_determined_was_integer")


def assert_type(tensor: Any, tf_type: Any, message: str | None = None, name: str | None = None) -> Any:
    """Returns a NoOp; TypeError unless `tensor` has the type `tf_type`."""
    message = message or ""
    with ops.name_scope(name, "assert_type", [tensor]):
        if not isinstance(tensor, sparse_tensor.SparseTensor):
            tensor = ops.convert_to_tensor(tensor, name="tensor")
        if tensor.dtype != tf_type:
            raise TypeError(
                "%s  %s must be of type %s" % (message, getattr(tensor, "name", "tensor"), tf_type)
            )
        return control_flow_ops.no_op("statically_determined_correct_type")


def is_numeric_tensor(tensor: Any) -> bool:
    """Whether a value is a tensor of numbers."""
    return tensor_util.is_tensor(tensor) and tensor.dtype in NUMERIC_TYPES


def _assert_same_base_type(items: Any, expected_type: Any = None) -> Any:
    """The common base type of a list of tensors; ValueError if there is none."""
    original_expected_type = expected_type
    mismatch = False
    for item in items:
        if item is not None:
            if not hasattr(getattr(item, "dtype", None), "base_dtype"):
                raise TypeError("Expected a tensor, got %r." % (item,))
            item_type = item.dtype.base_dtype
            if not expected_type:
                expected_type = item_type
            elif expected_type != item_type:
                mismatch = True
                break
    if not mismatch:
        return expected_type
    expected_type = original_expected_type
    original_item_str = None
    for item in items:
        if item is None:
            continue
        item_type = item.dtype.base_dtype
        item_name = item.name if hasattr(item, "name") else str(item)
        if not expected_type:
            expected_type = item_type
            original_item_str = item_name
        elif expected_type != item_type:
            raise ValueError(
                "%s, type=%s, must be of the same type (%s)%s."
                % (
                    item_name,
                    item_type,
                    expected_type,
                    (" as %s" % original_item_str) if original_item_str else "",
                )
            )
    return expected_type


def assert_same_float_dtype(tensors: Any = None, dtype: Any = None) -> Any:
    """Returns the floating point type of the tensors and of `dtype` (float32 for none); ValueError otherwise."""
    if tensors:
        dtype = _assert_same_base_type(tensors, dtype)
    dtype = dtypes.as_dtype(dtype) if dtype else dtypes.float32
    if not dtype.is_floating:
        raise ValueError("Expected floating point type, got %s." % dtype)
    return dtype
