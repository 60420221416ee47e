# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Slots: non-trainable variables that belong to a primary variable, as optimizers and averages need them."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import init_ops
from millrace.python.ops import resource_variable_ops
from millrace.python.ops import variable_scope
from millrace.python.ops import variables


def _uses_resource(primary: Any) -> bool | None:
    if resource_variable_ops.is_resource_variable(primary):
        return True
    if isinstance(primary, variables.RefVariable):
        return False
    return None


def _create_slot_var(primary: Any, val: Any, scope: str, validate_shape: bool, shape: Any, dtype: Any) -> Any:
    """Makes the slot variable `scope` in the current variable scope; `val` is a tensor or an initializer."""
    current = variable_scope.get_variable_scope()
    partitioner = current.partitioner
    # A slot of a part of a partitioned variable has the part's shape and is not divided again.
    current.set_partitioner(None)
    try:
        slot = variable_scope.get_variable(
            scope,
            initializer=val,
            trainable=False,
            use_resource=_uses_resource(primary),
            shape=shape if callable(val) else None,
            dtype=dtype,
            validate_shape=validate_shape,
        )
    finally:
        current.set_partitioner(partitioner)
    info = primary._save_slice_info if isinstance(primary, variables.Variable) else None
    if info and getattr(slot, "_in_graph_mode", True):
        # In checkpoints the slot is a part of a whole slot, as its primary is a part of a whole variable.
        name = slot.op.name[len(primary.op.name + "/") :]
        rank = slot.get_shape().ndims
        if rank is None or rank > 0:
            slot._set_save_slice_info(
                variables.Variable.SaveSliceInfo(
                    info.full_name + "/" + name,
                    info.full_shape[:rank],
                    info.var_offset[:rank],
                    info.var_shape[:rank],
                )
            )
    return slot


def _slot_prefix(primary: Any) -> str:
    name: str = primary._shared_name if isinstance(primary, variables.Variable) else primary.op.name
    return name


def create_slot(primary: Any, val: Any, name: str, colocate_with_primary: bool = True) -> Any:
    """Makes the variable `PRIMARY/name` that begins as the tensor `val`, on the primary's device by default."""
    validate_shape = val.get_shape().is_fully_defined()
    with variable_scope.variable_scope(None, _slot_prefix(primary) + "/" + name):
        if colocate_with_primary:
            with ops.colocate_with(primary):
                return _create_slot_var(primary, val, "", validate_shape, None, None)
        return _create_slot_var(primary, val, "", validate_shape, None, None)


def create_slot_with_initializer(
    primary: Any, initializer: Any, shape: Any, dtype: Any, name: str, colocate_with_primary: bool = True
) -> Any:
    """Makes the variable `PRIMARY/name` of the given shape and type, begun by `initializer`."""
    validate_shape = shape.is_fully_defined()
    with variable_scope.variable_scope(None, _slot_prefix(primary) + "/" + name):
        if colocate_with_primary:
            with ops.colocate_with(primary):
                return _create_slot_var(primary, initializer, "", validate_shape, shape, dtype)
        return _create_slot_var(primary, initializer, "", validate_shape, shape, dtype)


def create_zeros_slot(primary: Any, name: str, dtype: Any = None, colocate_with_primary: bool = True) -> Any:
    """Makes the variable `PRIMARY/name` of the primary's shape, filled with zeros of `dtype` (the primary's)."""
    if dtype is None:
        dtype = primary.dtype
    shape = primary.get_shape()
    if shape.is_fully_defined():
        initializer = init_ops.zeros_initializer()
        return create_slot_with_initializer(
            primary, initializer, shape, dtype, name, colocate_with_primary=colocate_with_primary
        )
    if isinstance(primary, variables.Variable):
        dynamic_shape = array_ops.shape(primary.initialized_value())
    else:
        dynamic_shape = array_ops.shape(primary)
    val = array_ops.zeros(dynamic_shape, dtype=dtype)
    return create_slot(primary, val, name, colocate_with_primary=colocate_with_primary)
