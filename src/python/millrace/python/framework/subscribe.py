# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Lets operations see tensors of a finished graph."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import array_ops, variables
from millrace.python.platform import tf_logging as logging


def _recursive_apply(tensors: Any, apply_fn: Any) -> Any:
    """Applies a function to the tensors of lists, tuples and dicts.

    Raises:
      TypeError: for other things.
    """
    kind = type(tensors)
    if kind is ops.Tensor:
        return apply_fn(tensors)
    if isinstance(tensors, variables.Variable):
        return apply_fn(tensors.value())
    if isinstance(tensors, (list, tuple)):
        made = [_recursive_apply(t, apply_fn) for t in tensors]
        if kind is list:
            return list(made)
        return tuple(made) if kind is tuple else kind(*made)
    if kind is dict:
        return {k: _recursive_apply(v, apply_fn) for k, v in tensors.items()}
    raise TypeError("_recursive_apply argument %r has invalid type %r" % (tensors, kind))


def _subscribe_new(tensor: Any, side_effects: Any, control_cache: Any) -> Any:
    consumers = [(op, i) for op in tensor.consumers() for i, t in enumerate(op.inputs) if t is tensor]
    name = tensor.op.name + "/subscription"
    context = tensor.op._get_control_flow_context()
    with tensor.graph.as_default(), ops.name_scope(name + "/"), ops.control_dependencies(None):
        old = tensor.graph._get_control_flow_context()
        tensor.graph._set_control_flow_context(context)
        try:
            outs = _effects(side_effects, tensor)
            with ops.control_dependencies(outs):
                out = array_ops.identity(tensor)
        finally:
            tensor.graph._set_control_flow_context(old)
    for op, index in consumers:
        if op.inputs[index] is tensor:
            op._update_input(index, out)
    return out


def _effects(side_effects: Any, tensor: Any) -> list[Any]:
    outs = []
    for effect in side_effects:
        result = effect(tensor)
        outs += [o.op if isinstance(o, ops.Tensor) else o for o in (result if isinstance(result, (list, tuple)) else [result])]
    return outs


def _is_subscribed_identity(tensor: Any) -> bool:
    """Whether a tensor is the copy that subscribe made."""
    op = tensor.op
    return op.type == "Identity" and op.name == op.inputs[0].op.name + "/subscription/Identity"


def _subscribe(tensor: Any, side_effects: Any, control_cache: Any = None) -> Any:
    if not tensor.dtype.is_numpy_compatible:
        logging.debug("Tensor %s has an un-supported %s type and cannot be subscribed.", tensor.name, tensor.dtype)
        return tensor
    if _is_subscribed_identity(tensor):
        return _extend(tensor, side_effects)
    for consumer in tensor.consumers():
        if consumer.outputs and _is_subscribed_identity(consumer.outputs[0]):
            return _extend(consumer.outputs[0], side_effects)
    return _subscribe_new(tensor, side_effects, control_cache)


def _extend(identity: Any, side_effects: Any) -> Any:
    source = identity.op.inputs[0]
    name = source.op.name + "/subscription/"
    with identity.graph.as_default(), ops.name_scope(name), ops.control_dependencies(None):
        outs = _effects(side_effects, source)
    identity.op._add_control_inputs(outs)
    return identity


def subscribe(tensors: Any, side_effects: Any) -> Any:
    """Runs operations whenever tensors are computed.

    Args:
      tensors: a tensor, or a structure of them.
      side_effects: a function, or a list of them, that makes an operation out of a tensor.

    Returns:
      Tensors in the same structure that have waited for the operations; what used the old ones uses these.
    """
    if not hasattr(side_effects, "__iter__"):
        side_effects = [side_effects]
    return _recursive_apply(tensors, lambda t: _subscribe(t, side_effects))
