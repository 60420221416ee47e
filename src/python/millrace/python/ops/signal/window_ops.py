# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Windows for frames of signals."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from millrace.python.framework import constant_op, dtypes, ops, tensor_util
from millrace.python.ops import array_ops, control_flow_ops, math_ops


def hann_window(
    window_length: Any, periodic: bool = True, dtype: Any = dtypes.float32, name: Optional[str] = None
) -> Any:
    """Returns a Hann window [window_length]: periodic with that period, or symmetric."""
    return _raised_cosine_window(name, "hann_window", window_length, periodic, dtype, 0.5, 0.5)


def hamming_window(
    window_length: Any, periodic: bool = True, dtype: Any = dtypes.float32, name: Optional[str] = None
) -> Any:
    """Returns a Hamming window [window_length]: periodic with that period, or symmetric."""
    return _raised_cosine_window(name, "hamming_window", window_length, periodic, dtype, 0.54, 0.46)


def _raised_cosine_window(
    name: Optional[str], default_name: str, window_length: Any, periodic: Any, dtype: Any, a: float, b: float
) -> Any:
    """Returns a - b cos(2 pi n / N); ValueError for a type that is not a floating-point type."""
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_floating:
        raise ValueError("dtype must be a floating point type. Found %s" % dtype)
    with ops.name_scope(name, default_name, [window_length, periodic]):
        window_length = ops.convert_to_tensor(window_length, dtype=dtypes.int32, name="window_length")
        window_length.shape.assert_has_rank(0)
        window_length_const = tensor_util.constant_value(window_length)
        if window_length_const == 1:
            return array_ops.ones([1], dtype=dtype)
        periodic = math_ops.cast(
            ops.convert_to_tensor(periodic, dtype=dtypes.bool, name="periodic"), dtypes.int32
        )
        periodic.shape.assert_has_rank(0)
        even = 1 - math_ops.mod(window_length, 2)
        n = math_ops.cast(window_length + periodic * even - 1, dtype=dtype)
        count = math_ops.cast(math_ops.range(window_length), dtype)
        cos_arg = constant_op.constant(2 * np.pi, dtype=dtype) * count / n
        if window_length_const is not None:
            return math_ops.cast(a - b * math_ops.cos(cos_arg), dtype=dtype)
        return control_flow_ops.cond(
            math_ops.equal(window_length, 1),
            lambda: array_ops.ones([window_length], dtype=dtype),
            lambda: math_ops.cast(a - b * math_ops.cos(cos_arg), dtype=dtype),
        )
