# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Predicates and look-ups of the ops and contexts of conditions and loops."""

from __future__ import annotations

from typing import Any

ENABLE_CONTROL_FLOW_V2 = False


def EnableControlFlowV2(graph: Any) -> bool:
    """Whether conditions and loops become functional ops: after `tf.enable_control_flow_v2`."""
    return ENABLE_CONTROL_FLOW_V2 and graph._get_control_flow_context() is None


def IsInXLAContext(op: Any) -> bool:
    """Whether an op is compiled by XLA: never."""
    del op
    return False


def GraphOrParentsInXlaContext(graph: Any) -> bool:
    """Whether a graph is compiled by XLA: never."""
    del graph
    return False


def IsInWhileLoop(op: Any) -> bool:
    """Whether an op is in a loop."""
    ctxt = op._get_control_flow_context()
    return GetContainingWhileContext(ctxt) is not None


IsInWhileContext = IsInWhileLoop


def IsInCond(op: Any) -> bool:
    """Whether an op is in a branch of a condition."""
    ctxt = op._get_control_flow_context()
    return GetContainingCondContext(ctxt) is not None


def IsSwitch(op: Any) -> bool:
    """Whether an op is a Switch."""
    return op.type in ("Switch", "RefSwitch")


def IsMerge(op: Any) -> bool:
    """Whether an op is a Merge."""
    return op.type in ("Merge", "RefMerge")


def IsLoopEnter(op: Any) -> bool:
    """Whether an op is an Enter."""
    return op.type in ("Enter", "RefEnter")


def IsLoopExit(op: Any) -> bool:
    """Whether an op is an Exit."""
    return op.type in ("Exit", "RefExit")


def IsCondSwitch(op: Any) -> bool:
    """Whether an op is the Switch of a condition, not of a loop."""
    if not IsSwitch(op):
        return False
    if not op.outputs:
        return False
    # All consumers of a condition's Switch are in the context of the condition or deeper.
    is_cond_switch = True
    for o in op.outputs:
        for c in o.consumers():
            ctxt = c._get_control_flow_context()
            if IsLoopEnter(c):
                ctxt = ctxt.outer_context
            is_cond_switch = is_cond_switch and (ctxt is not None and ctxt.IsCondContext())
    return is_cond_switch


def IsCondMerge(op: Any) -> bool:
    """Whether an op is the Merge of a condition, not of a loop."""
    if not IsMerge(op):
        return False
    if not op.inputs:
        return False
    is_cond_merge = True
    for i in op.inputs:
        ctxt = GetOutputContext(i.op)
        is_cond_merge = is_cond_merge and ctxt is not None and ctxt.IsCondContext()
    return is_cond_merge


def IsLoopSwitch(op: Any) -> bool:
    """Whether an op is the Switch of a loop."""
    if IsSwitch(op):
        ctxt = op._get_control_flow_context()
        return ctxt is not None and ctxt.IsWhileContext() and not IsCondSwitch(op)
    return False


def IsLoopMerge(op: Any) -> bool:
    """Whether an op is the Merge of a loop."""
    if IsMerge(op):
        ctxt = op._get_control_flow_context()
        return ctxt is not None and ctxt.IsWhileContext() and not IsCondMerge(op)
    return False


def IsLoopConstantEnter(op: Any) -> bool:
    """Whether an op is an Enter of a value that does not change in the loop."""
    return IsLoopEnter(op) and op.get_attr("is_constant")


def GetLoopConstantEnter(value: Any) -> Any:
    """The constant Enter that a value comes from through identities and switches, or None."""
    id_ops = {"Switch", "RefSwitch", "Identity", "RefIdentity"}
    op = value.op
    while op.type in id_ops:
        op = op.inputs[0].op
    return op if IsLoopConstantEnter(op) else None


def GetOutputContext(op: Any) -> Any:
    """The context that the outputs of an op are in: for an Exit the one around the loop."""
    ctxt = op._get_control_flow_context()
    if ctxt is not None and IsLoopExit(op):
        ctxt = ctxt.outer_context
    return ctxt


def GetContainingWhileContext(ctxt: Any, stop_ctxt: Any = None) -> Any:
    """The innermost loop around a context, itself included; None at `stop_ctxt` or outside of loops."""
    while ctxt:
        if ctxt.IsWhileContext() or ctxt == stop_ctxt:
            return ctxt
        ctxt = ctxt.outer_context
    return None


def GetContainingXLAContext(ctxt: Any) -> Any:
    """The XLA context around a context: there is none."""
    del ctxt
    return None


def GetContainingCondContext(ctxt: Any) -> Any:
    """The innermost branch of a condition around a context, itself included, or None."""
    while ctxt:
        if ctxt.IsCondContext():
            return ctxt
        ctxt = ctxt.outer_context
    return None


def IsContainingContext(ctxt: Any, maybe_containing_ctxt: Any) -> bool:
    """Whether one context is the other or lies around it."""
    while ctxt is not maybe_containing_ctxt:
        if ctxt is None:
            return False
        ctxt = ctxt.outer_context
    return True


def OpInContext(op: Any, ctxt: Any) -> bool:
    """Whether an op is in a context or deeper."""
    return IsContainingContext(op._get_control_flow_context(), ctxt)


def TensorInContext(tensor: Any, ctxt: Any) -> bool:
    """Whether a tensor is in a context or deeper."""
    return OpInContext(tensor.op, ctxt)


def CheckInputFromValidContext(op: Any, input_op: Any) -> None:
    """Raises ValueError where `op` must not have `input_op` as input, being outside of its loop or branch."""
    op_ctxt = op._get_control_flow_context()
    input_ctxt = GetOutputContext(input_op)
    if input_ctxt is None or input_ctxt is op_ctxt or _UsesAnyTensor(op_ctxt):
        return
    valid = False
    if op_ctxt is not None and IsContainingContext(op_ctxt, input_ctxt):
        valid = True
    else:
        # A value that leaves a branch may be used outside of it, though it is not available if the branch is
        # not taken.
        input_while_ctxt = GetContainingWhileContext(input_ctxt)
        op_while_ctxt = GetContainingWhileContext(op_ctxt)
        if input_while_ctxt is None or IsContainingContext(op_while_ctxt, input_while_ctxt):
            valid = True
        elif op_while_ctxt is None and (IsLoopEnter(op) or IsSwitch(op)):
            valid = True  # contexts make these outside of themselves, for values from outside
        elif IsMerge(op) or IsSwitch(input_op) or _is_gradient_pair(op_while_ctxt, input_while_ctxt):
            valid = True
    if not valid:
        kind = "a while loop"
        if op_ctxt is None or GetContainingWhileContext(op_ctxt) is None:
            error_msg = "Cannot use '%s' as input to '%s' because '%s' is in %s." % (
                input_op.name,
                op.name,
                input_op.name,
                kind,
            )
        else:
            error_msg = "Cannot use '%s' as input to '%s' because they are in different while loops." % (
                input_op.name,
                op.name,
            )
        raise ValueError(error_msg + " See info log for more details.")


def _UsesAnyTensor(ctxt: Any) -> bool:
    """Whether a context is, or is in, that of a gradient function, for which the engine settles frames."""
    while ctxt is not None:
        if getattr(ctxt, "uses_any_tensor", False):
            return True
        ctxt = ctxt.outer_context
    return False


def _is_gradient_pair(op_ctxt: Any, input_ctxt: Any) -> bool:
    """Whether one loop computes gradients of the other."""
    grad_state = getattr(op_ctxt, "grad_state", None)
    return grad_state is not None and getattr(grad_state, "forward_context", None) is input_ctxt


def GetWhileContext(op: Any) -> Any:
    """The innermost loop that an op is in, or None."""
    ctxt = op._get_control_flow_context()
    return ctxt.GetWhileContext() if ctxt else None


def InXlaContext(graph: Any) -> bool:
    """Whether a graph is compiled by XLA: never."""
    del graph
    return False
