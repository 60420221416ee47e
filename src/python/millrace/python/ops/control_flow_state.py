# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Zeros instead of gradients that are missing, where there is control flow.

The engine keeps the state of the gradients of loops.
"""
from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes, ops
from millrace.python.ops import array_ops, control_flow_ops, control_flow_util, gen_resource_variable_ops


class GradLoopState:
    """Unused, for compatibility: the engine makes the loops of gradients."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("GradLoopState is not implemented: use tf.gradients, which differentiates loops")


class ControlFlowState:
    """Holds nothing: the engine keeps the state of gradients of loops."""

    def GetGradState(self, op: Any, before: bool) -> Any:  # noqa: N802
        del op, before

    def EnterGradWhileContext(self, op: Any, before: bool) -> None:  # noqa: N802
        del op, before

    def ExitGradWhileContext(self, op: Any, before: bool) -> None:  # noqa: N802
        del op, before

    def ProcessUnusedLoopExits(self, pending_count: Any, to_ops_set: Any) -> list[Any]:  # noqa: N802
        del pending_count, to_ops_set
        return []

    def PostProcessing(self) -> None:  # noqa: N802
        pass


_GradLoopState = GradLoopState
_ControlFlowState = ControlFlowState


def MaybeCreateControlFlowState(  # noqa: N802
    between_op_list: Any, between_ops: Any, colocate_gradients_with_ops: bool
) -> Any:
    """A ControlFlowState when there are loops among the operations; else None."""
    del between_ops, colocate_gradients_with_ops
    return ControlFlowState() if any(control_flow_util.IsLoopExit(op) for op in between_op_list) else None


def ZerosLikeOutsideLoop(op: Any, index: int) -> Any:  # noqa: N802
    """Zeros of the shape of an output of an operation; of a Switch, in the branch that is not taken."""
    val = op.outputs[index]
    if val.dtype == dtypes.resource:
        return array_ops.zeros(gen_resource_variable_ops.variable_shape(val), dtype=_dtype_of_handle(val))
    context = op._get_control_flow_context() if control_flow_util.IsSwitch(op) else None
    if context is None or getattr(context, "pred", None) is None:
        return array_ops.zeros_like(val, optimize=False)
    switched = control_flow_ops.switch(op.inputs[0], context.pred)[1 - context.branch]
    pivot = array_ops.identity(switched)
    shape = array_ops.shape_internal(switched, optimize=False)
    with ops.control_dependencies([pivot]):
        return array_ops.zeros(shape, dtype=val.dtype)


def ZerosLike(op: Any, index: int) -> Any:  # noqa: N802
    """As ZerosLikeOutsideLoop."""
    return ZerosLikeOutsideLoop(op, index)


def ZerosLikeV1WhileLoop(grad_state: Any, op: Any, index: int) -> Any:  # noqa: N802
    """As ZerosLikeOutsideLoop; None for values that do not depend on data."""
    del grad_state
    if control_flow_util.IsLoopSwitch(op):
        return None
    return ZerosLikeOutsideLoop(op, index)


def _dtype_of_handle(handle: Any) -> Any:
    from millrace.python.ops import resource_variable_ops

    data = resource_variable_ops.get_eager_safe_handle_data(handle)
    known = data is not None and data.is_set and data.shape_and_type
    return dtypes.as_dtype(data.shape_and_type[0].dtype) if known else dtypes.float32
