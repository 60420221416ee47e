# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Updates of rows of tensors, in place or of a copy."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import array_ops, gen_array_ops, math_ops


def _inplace_helper(x: Any, i: Any, v: Any, op: Any) -> Any:
    x, v = ops.convert_to_tensor(x), ops.convert_to_tensor(v)
    if i is None:
        # All of it.
        return array_ops.reshape(
            op(array_ops.reshape(x, [1, -1]), [0], array_ops.reshape(v, [1, -1])), array_ops.shape(x)
        )
    i = math_ops.cast(i, "int32")
    if i.get_shape().ndims == 0:
        return op(x, array_ops.reshape(i, [1]), array_ops.expand_dims(v, 0))
    return op(x, i, v)


def alias_inplace_update(x: Any, i: Any, v: Any) -> Any:
    """x[i] = v in the memory of `x`; i None: x = v."""
    return _inplace_helper(x, i, v, gen_array_ops.inplace_update)


def alias_inplace_add(x: Any, i: Any, v: Any) -> Any:
    """x[i] += v in the memory of `x`."""
    return _inplace_helper(x, i, v, gen_array_ops.inplace_add)


def alias_inplace_sub(x: Any, i: Any, v: Any) -> Any:
    """x[i] -= v in the memory of `x`."""
    return _inplace_helper(x, i, v, gen_array_ops.inplace_sub)


def empty_like(x: Any, init: Any = None) -> Any:
    """A tensor with the shape and type of `x`; zeros if `init`."""
    x = ops.convert_to_tensor(x)
    return gen_array_ops.empty(array_ops.shape(x), x.dtype, init=init)


def inplace_update(x: Any, i: Any, v: Any) -> Any:
    """A copy of `x` with x[i] = v."""
    return alias_inplace_update(gen_array_ops.deep_copy(x), i, v)


def inplace_add(x: Any, i: Any, v: Any) -> Any:
    """A copy of `x` with x[i] += v."""
    return alias_inplace_add(gen_array_ops.deep_copy(x), i, v)


def inplace_sub(x: Any, i: Any, v: Any) -> Any:
    """A copy of `x` with x[i] -= v."""
    return alias_inplace_sub(gen_array_ops.deep_copy(x), i, v)


empty = gen_array_ops.empty
