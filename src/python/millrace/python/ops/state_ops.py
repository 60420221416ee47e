# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Ops on reference and resource variables: assignments and scatter updates."""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.ops import gen_resource_variable_ops
from millrace.python.ops import gen_state_ops

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Names of gen_state_ops that this module does not define."""

else:
    from millrace.python.ops.gen_state_ops import *  # noqa: F401,F403


def variable_op(
    shape: Any,
    dtype: Any,
    name: str = "Variable",
    set_shape: bool = True,
    container: str = "",
    shared_name: str = "",
) -> Any:
    """Makes an op of the type Variable, the first version of VariableV2."""
    if not set_shape:
        shape = tensor_shape.unknown_shape()
    ret = gen_state_ops.variable(
        shape=shape, dtype=dtype, name=name, container=container, shared_name=shared_name
    )
    if set_shape:
        ret.set_shape(shape)
    return ret


def variable_op_v2(
    shape: Any, dtype: Any, name: str = "Variable", container: str = "", shared_name: str = ""
) -> Any:
    """Makes the op that holds a variable of `shape` and `dtype`; its output is a reference."""
    return gen_state_ops.variable_v2(
        shape=shape, dtype=dtype, name=name, container=container, shared_name=shared_name
    )


def init_variable(v: Any, init: Any, name: str = "init") -> Any:
    """Returns an op that assigns the first value `init`, a tensor or a function (shape, dtype) of it."""
    with ops.name_scope(None, v.op.name + "/", [v, init]):
        with ops.name_scope(name) as scope:
            with ops.colocate_with(v):
                if callable(init):
                    assert v.get_shape().is_fully_defined(), "Variable shape unknown."
                    return gen_state_ops.assign(
                        v, init(v.get_shape().as_list(), v.dtype.base_dtype), name=scope
                    )
                return gen_state_ops.assign(v, ops.convert_to_tensor(init, name="init"), name=scope)


def _is_reference(ref: Any) -> bool:
    """Whether a variable is a reference, not a resource; TypeError for other objects."""
    is_ref = getattr(getattr(ref, "dtype", None), "_is_ref_dtype", False)
    if not is_ref and not (hasattr(ref, "handle") and hasattr(ref, "assign")):
        raise TypeError("Expected a variable, got %r of type %s." % (ref, type(ref)))
    return bool(is_ref)


def is_variable_initialized(ref: Any, name: str | None = None) -> Any:
    """Returns a boolean scalar that is true if a variable has a value."""
    if _is_reference(ref):
        return gen_state_ops.is_variable_initialized(ref=ref, name=name)
    return ref.is_initialized(name=name)


def assign(
    ref: Any,
    value: Any,
    validate_shape: bool | None = None,
    use_locking: bool | None = None,
    name: str | None = None,
) -> Any:
    """Sets a variable to `value`; returns a tensor that holds the new value.

    Args:
      ref: a variable or a reference.
      value: a tensor of its type, and of its shape unless `validate_shape` is false.
      validate_shape: whether the shapes must agree (the default).
      use_locking: whether the assignment takes the variable's lock (the default).
      name: name of the op.
    """
    if _is_reference(ref):
        return gen_state_ops.assign(
            ref,
            value,
            use_locking=True if use_locking is None else use_locking,
            name=name,
            validate_shape=True if validate_shape is None else validate_shape,
        )
    return ref.assign(value, name=name)


def assign_add(ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None) -> Any:
    """Adds `value` to a variable; returns a tensor that holds the new value."""
    if _is_reference(ref):
        return gen_state_ops.assign_add(ref, value, use_locking=bool(use_locking), name=name)
    return ref.assign_add(value)


def assign_sub(ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None) -> Any:
    """Subtracts `value` from a variable; returns a tensor that holds the new value."""
    if _is_reference(ref):
        return gen_state_ops.assign_sub(ref, value, use_locking=bool(use_locking), name=name)
    return ref.assign_sub(value)


def count_up_to(ref: Any, limit: int, name: str | None = None) -> Any:
    """Adds 1 to a scalar variable, returns the value before; OutOfRangeError once that is `limit`."""
    if _is_reference(ref):
        return gen_state_ops.count_up_to(ref, limit=limit, name=name)
    return gen_state_ops.resource_count_up_to(ref.handle, limit, T=ref.dtype, name=name)


def _scatter(kind: str, ref: Any, indices: Any, updates: Any, use_locking: bool, name: str | None) -> Any:
    """An update of rows of a variable, or of elements where `kind` starts with nd_."""
    if _is_reference(ref):
        fn = getattr(gen_state_ops, "scatter_" + kind)
        return fn(ref, indices, updates, use_locking=use_locking, name=name)
    fn = getattr(gen_resource_variable_ops, "resource_scatter_" + kind, None)
    if fn is None:
        fn = getattr(gen_state_ops, "resource_scatter_" + kind)
    return ref._lazy_read(fn(ref.handle, indices, ops.convert_to_tensor(updates, ref.dtype), name=name))


def scatter_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Any:
    """Sets the rows `indices` of a variable to `updates`."""
    return _scatter("update", ref, indices, updates, use_locking, name)


def scatter_add(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """Adds `updates` to the rows `indices` of a variable; an index may repeat."""
    return _scatter("add", ref, indices, updates, use_locking, name)


def scatter_sub(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """Subtracts `updates` from the rows `indices` of a variable."""
    return _scatter("sub", ref, indices, updates, use_locking, name)


def scatter_mul(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """Multiplies the rows `indices` of a variable by `updates`."""
    return _scatter("mul", ref, indices, updates, use_locking, name)


def scatter_div(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """Divides the rows `indices` of a variable by `updates`."""
    return _scatter("div", ref, indices, updates, use_locking, name)


def scatter_max(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """Sets the rows `indices` of a variable to the element-wise maximum of themselves and `updates`."""
    return _scatter("max", ref, indices, updates, use_locking, name)


def scatter_min(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """Sets the rows `indices` of a variable to the element-wise minimum of themselves and `updates`."""
    return _scatter("min", ref, indices, updates, use_locking, name)


def scatter_nd_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Any:
    """Sets elements or slices of a variable, whose coordinates are in the last axis of `indices`."""
    return _scatter("nd_update", ref, indices, updates, use_locking, name)


def scatter_nd_add(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """Adds to elements or slices of a variable, whose coordinates are in the last axis of `indices`."""
    return _scatter("nd_add", ref, indices, updates, use_locking, name)


def scatter_nd_sub(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """Subtracts from elements or slices of a variable, whose coordinates are in the last axis of `indices`."""
    return _scatter("nd_sub", ref, indices, updates, use_locking, name)


def batch_scatter_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Any:
    """Sets rows of a variable; all axes of `indices` but the last are batch axes of the variable, too."""
    from millrace.python.ops import array_ops
    from millrace.python.ops import math_ops

    with ops.name_scope(name):
        indices = ops.convert_to_tensor(indices, name="indices")
        indices_shape = array_ops.shape(indices)
        indices_dimensions = indices.get_shape().ndims
        if indices_dimensions is None:
            raise ValueError("batch_gather does not allow indices with unknown shape.")
        nd_indices = array_ops.expand_dims(indices, axis=-1)
        parts = []
        for dimension in range(indices_dimensions - 1):
            # The coordinates of the batch, in the shape of the indices.
            dim_size = indices_shape[dimension]
            line = array_ops.reshape(
                math_ops.cast(math_ops.range(dim_size), indices.dtype),
                [-1 if i == dimension else 1 for i in range(indices_dimensions + 1)],
            )
            parts.append(line + array_ops.zeros_like(nd_indices))
        nd_indices = array_ops.concat(parts + [nd_indices], axis=-1)
        return scatter_nd_update(ref, nd_indices, updates, use_locking=use_locking)
