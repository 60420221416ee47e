# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The common part of the ops on signals."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import ops, tensor_util
from millrace.python.ops import array_ops, control_flow_ops, math_ops


def gcd(a: Any, b: Any, name: Optional[str] = None) -> Any:
    """Returns the greatest common divisor of two scalars of integers; ValueError for tensors of other shapes."""
    with ops.name_scope(name, "gcd", [a, b]):
        a = ops.convert_to_tensor(a)
        b = ops.convert_to_tensor(b)
        a.shape.assert_has_rank(0)
        b.shape.assert_has_rank(0)
        if not a.dtype.is_integer:
            raise ValueError("a must be an integer type. Got: %s" % a.dtype)
        if not b.dtype.is_integer:
            raise ValueError("b must be an integer type. Got: %s" % b.dtype)
        const_a = tensor_util.constant_value(a)
        const_b = tensor_util.constant_value(b)
        if const_a is not None and const_b is not None:
            import math

            return ops.convert_to_tensor(math.gcd(int(const_a), int(const_b)), dtype=a.dtype)
        a, _ = control_flow_ops.while_loop(
            lambda _, b: math_ops.greater(b, array_ops.zeros_like(b)),
            lambda a, b: [b, math_ops.mod(a, b)],
            [a, b],
            back_prop=False,
        )
        return a
