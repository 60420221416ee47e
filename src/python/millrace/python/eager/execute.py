# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""What generated code of other programs calls."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import _op_specs, dtypes, ops


def record_gradient(
    unused_op_name: Any, unused_inputs: Any, unused_attrs: Any, unused_results: Any, unused_name: Any = None
) -> None:
    """Nothing is recorded in graphs."""


def make_float(v: Any, arg_name: str) -> float:
    return _op_specs._make_float(v, arg_name)


def make_int(v: Any, arg_name: str) -> int:
    return _op_specs._make_int(v, arg_name)


def make_str(v: Any, arg_name: str) -> Any:
    return _op_specs._make_str(v, arg_name)


def make_bool(v: Any, arg_name: str) -> bool:
    return _op_specs._make_bool(v, arg_name)


def make_type(v: Any, arg_name: str) -> Any:
    return _op_specs._make_type(v, arg_name)


def make_shape(v: Any, arg_name: str) -> Any:
    return _op_specs._make_shape(v, arg_name)


def args_to_matching_eager(args: Any, ctx: Any, default_dtype: Any = None) -> tuple[Any, list[Any]]:
    """Tensors of one type: that of the first tensor among them, or the default one."""
    found = next((a.dtype.base_dtype for a in args if isinstance(a, ops.Tensor)), None)
    tensors = []
    for arg in args:
        tensor = ops.internal_convert_to_tensor(arg, found, preferred_dtype=default_dtype)
        found = found or tensor.dtype.base_dtype
        tensors.append(tensor)
    return (found or dtypes.as_dtype(default_dtype)).as_datatype_enum, tensors
