# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Adds side effects to the computation of tensors of an existing graph."""
from __future__ import annotations

import contextlib
import re
from typing import Any, Iterator

from millrace.python.framework import ops
from millrace.python.ops import array_ops, variables
from millrace.python.platform import tf_logging as logging


def _recursive_apply(tensors: Any, apply_fn: Any) -> Any:
    """The structure of lists, tuples and dicts with a function of each tensor."""
    if isinstance(tensors, ops.Tensor):
        return apply_fn(tensors)
    if isinstance(tensors, variables.VariableV1):
        return apply_fn(tensors.value())
    if hasattr(tensors, "_as_graph_element") and isinstance(tensors._as_graph_element(), ops.Tensor):
        return apply_fn(tensors._as_graph_element())
    if isinstance(tensors, tuple):
        made = [_recursive_apply(t, apply_fn) for t in tensors]
        return type(tensors)(*made) if hasattr(tensors, "_fields") else tuple(made)
    if isinstance(tensors, list):
        return [_recursive_apply(t, apply_fn) for t in tensors]
    if isinstance(tensors, dict):
        return {k: _recursive_apply(v, apply_fn) for k, v in tensors.items()}
    raise TypeError("_recursive_apply argument %r has invalid type %r" % (tensors, type(tensors)))


class _ControlOutputCache:
    """The control outputs of operations."""

    def __init__(self) -> None:
        self.cache: dict[Any, Any] = {}

    def calc_control_outputs(self, graph: Any) -> dict[Any, set[Any]]:
        found: dict[Any, set[Any]] = {}
        for op in graph.get_operations():
            for control_input in op.control_inputs:
                found.setdefault(control_input, set()).add(op)
        return found

    def get_control_outputs(self, op: Any) -> set[Any]:
        """The operations that have `op` as a control input."""
        if op.graph not in self.cache:
            self.cache[op.graph] = self.calc_control_outputs(op.graph)
        return self.cache[op.graph].get(op, set())


def _made_by(side_effects: Any, tensor: Any) -> list[Any]:
    """The operations and tensors that the functions make."""
    outs: list[Any] = []
    for s in side_effects:
        made = s(tensor)
        outs += list(made) if isinstance(made, (list, tuple)) else [made]
    return [out for out in outs if out is not None]


def _subscribe_new(tensor: Any, side_effects: Any, control_cache: Any) -> Any:
    """Makes an identity of the tensor that depends on the side effects and replaces it in all consumers."""
    consumers = []
    for consumer in list(tensor.consumers()):
        consumers.append((consumer, [i for i, t in enumerate(consumer.inputs) if t is tensor]))
    waiting = list(control_cache.get_control_outputs(tensor.op))
    name_scope = tensor.op.name + "/subscription/"
    with ops.name_scope(name_scope):
        outs = _made_by(side_effects, tensor)
        with ops.control_dependencies(outs):
            out = array_ops.identity(tensor)
    for consumer, indices in consumers:
        for index in indices:
            consumer._update_input(index, out)
    for consumer in waiting:
        # Only operations with a control edge from it: consumers of the tensor depend on the identity anyway.
        others = [c for c in consumer.control_inputs if c is not tensor.op]
        consumer._remove_all_control_inputs()
        consumer._add_control_inputs(others + [out.op])
    return out


def _subscribe_extend(tensor: Any, side_effects: Any) -> Any:
    """Adds side effects to an identity that `_subscribe_new` made."""
    assert len(tensor.op.inputs) == 1, "Op {} must only have one input".format(tensor.op.name)
    source = tensor.op.inputs[0]
    with ops.name_scope(source.op.name + "/subscription/"):
        outs = _made_by(side_effects, source)
    tensor.op._add_control_inputs([getattr(o, "op", o) for o in outs])
    return tensor


def _is_subscribed_identity(tensor: Any) -> bool:
    """Whether a tensor is an identity that `_subscribe_new` made."""
    if tensor.op.type != "Identity":
        return False
    match = re.match(r"(?P<prefix_name>^.*?)/subscription/Identity[^/]+", tensor.name)
    if match is None or not match.group("prefix_name"):
        return False
    return tensor.op.inputs[0].op.name == match.group("prefix_name")


def _subscribe(tensor: Any, side_effects: Any, control_cache: Any) -> Any:
    if not tensor.dtype.is_numpy_compatible:
        logging.debug(
            "Tensor {} has an un-supported {} type and cannot be subscribed.".format(
                tensor.name, tensor.dtype
            )
        )
        return tensor
    if _is_subscribed_identity(tensor):
        return _subscribe_extend(tensor, side_effects)
    for consumer in tensor.consumers():
        if consumer.type == "Identity" and _is_subscribed_identity(consumer.outputs[0]):
            return _subscribe_extend(consumer.outputs[0], side_effects)
    return _subscribe_new(tensor, side_effects, control_cache)


@contextlib.contextmanager
def _preserve_control_flow_context(tensor: Any) -> Iterator[None]:
    """Operations made in the context are in the loop or branch of a tensor."""
    graph = tensor.op.graph
    context = tensor.op._get_control_flow_context()
    old = graph._get_control_flow_context()
    graph._set_control_flow_context(context)
    try:
        yield
    finally:
        graph._set_control_flow_context(old)


def _scoped_subscribe(tensor: Any, side_effects: Any, control_cache: Any) -> Any:
    with ops.device(tensor.device):
        with _preserve_control_flow_context(tensor):
            return _subscribe(tensor, side_effects, control_cache)


def subscribe(tensors: Any, side_effects: Any) -> Any:
    """Makes side effects run whenever tensors are computed.

    Args:
      tensors: tensors, or lists, tuples and dicts of them.
      side_effects: a function of a tensor that makes operations, or a list of such.

    Returns:
      The structure with the tensors that replace the given ones in all their consumers.

    Raises:
      TypeError: an element is no tensor.
    """
    if not hasattr(side_effects, "__iter__"):
        side_effects = [side_effects]
    cache = _ControlOutputCache()
    return _recursive_apply(tensors, lambda t: _scoped_subscribe(t, side_effects, cache))
