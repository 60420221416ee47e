# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Finds the gradients of tensors."""
from __future__ import annotations

import re
import uuid
from typing import Any

from millrace.python.debug.lib import debug_graphs
from millrace.python.framework import ops
from millrace.python.ops import gen_array_ops, variables

_GRADIENT_DEBUG_TAG = "gradient_debug_"
_gradient_debuggers: dict[str, Any] = {}


def clear_gradient_debuggers() -> None:
    """Removes all GradientsDebuggers."""
    _gradient_debuggers.clear()


def _tensor_to_grad_debug_op_name(tensor: Any, grad_debugger_uuid: str) -> str:
    op_name, slot = debug_graphs.parse_node_or_tensor_name(tensor.name)
    return "%s_%d/%s%s" % (op_name, slot, _GRADIENT_DEBUG_TAG, grad_debugger_uuid)


def _parse_grad_debug_op_name(op_name: str) -> tuple[str, str]:
    """The debugger's id, and the name of the tensor that is watched."""
    name_items = op_name.split("/")
    assert len(name_items) > 1 and name_items[-1].startswith(_GRADIENT_DEBUG_TAG)
    found = name_items[-1][len(_GRADIENT_DEBUG_TAG) :]
    if "_" in found:
        found = found[: found.index("_")]
    slot = int(name_items[-2][name_items[-2].rindex("_") + 1 :])
    base = name_items[-2][: name_items[-2].rindex("_")]
    return found, "/".join(name_items[:-2] + [base]) + ":%d" % slot


class GradientsDebugger:
    """Finds the gradients of tensors.

    Args:
      y_tensor: the differentiated tensor; only its gradients are recorded.
    """

    def __init__(self, y_tensor: Any = None) -> None:
        self._uuid = uuid.uuid4().hex
        _gradient_debuggers[self._uuid] = self
        self._gradient_tensors: dict[str, Any] = {}
        self._y_tensor = y_tensor
        self._graph: Any = None
        self._is_active_context = False
        if y_tensor is not None:
            self._graph = y_tensor.graph

    @property
    def y_tensor(self) -> Any:
        return self._y_tensor

    @property
    def graph(self) -> Any:
        return self._graph

    def __enter__(self) -> GradientsDebugger:
        self._is_active_context = True
        return self

    def __exit__(self, unused_type: Any, unused_value: Any, unused_traceback: Any) -> None:
        self._is_active_context = False

    def identify_gradient(self, input_tensor: Any) -> Any:
        """Returns an identity of `input_tensor`, whose gradient is recorded as that of `input_tensor`."""
        name = _tensor_to_grad_debug_op_name(input_tensor, self._uuid)
        if self._graph is None:
            self._graph = input_tensor.graph
        if input_tensor.dtype._is_ref_dtype:
            return gen_array_ops.debug_gradient_ref_identity(input_tensor, name=name)
        debug_op = gen_array_ops.debug_gradient_identity(input_tensor, name=name)
        # The op's gradient function, below, registers the gradient.
        return debug_op

    def watch_gradients_by_tensors(self, graph: Any, tensors: Any) -> GradientsDebugger:
        """Watches the gradients of tensors: replaces their uses by uses of `identify_gradient`'s results."""
        tensor_list = tensors if isinstance(tensors, list) else [tensors]
        pattern = "|".join("^%s$" % re.escape(tensor.name) for tensor in tensor_list)
        return self.watch_gradients_by_tensor_names(graph, pattern)

    def watch_gradients_by_tensor_names(self, graph: Any, tensor_name_regex: str) -> GradientsDebugger:
        """Watches the gradients of the tensors whose names match from their start."""
        pattern = re.compile(tensor_name_regex)
        with graph.as_default():
            for op in list(graph.get_operations()):
                for output in op.outputs:
                    if not pattern.match(output.name):
                        continue
                    consumers = [c for c in output.consumers() if not _is_gradient_op(c)]
                    with graph.control_dependencies(None):
                        debug_tensor = self.identify_gradient(output)
                    for consumer in consumers:
                        if consumer is debug_tensor.op:
                            continue
                        for i, inp in enumerate(consumer.inputs):
                            if inp is output:
                                consumer._update_input(i, debug_tensor)
        return self

    def _check_same_graph(self, tensor: Any) -> None:
        if self._graph is None:
            self._graph = tensor.graph
        elif self._graph is not tensor.graph:
            raise ValueError(
                "The graph of the value (%s) is not the same as the graph %s" % (tensor.graph, self._graph)
            )

    def register_gradient_tensor(self, x_tensor_name: str, gradient_tensor: Any) -> None:
        """Registers the gradient of a tensor."""
        if len(_gradient_debuggers) == 1 or self._is_active_context:
            self._check_same_graph(gradient_tensor)
            self._gradient_tensors[x_tensor_name] = gradient_tensor

    def gradient_tensor(self, x_tensor: Any) -> Any:
        """The gradient of a tensor, given as it is or by its name.

        Raises:
          TypeError: if `x_tensor` is of another type.
          LookupError: if no gradient of it is known.
        """
        name = self._get_tensor_name(x_tensor)
        if name not in self._gradient_tensors:
            raise LookupError(
                "This GradientsDebugger has not received any gradient tensor for x-tensor %s" % name
            )
        return self._gradient_tensors[name]

    def gradient_tensors(self) -> dict[str, Any]:
        """All gradients that are known, by the names of their tensors."""
        return self._gradient_tensors

    def _get_tensor_name(self, tensor: Any) -> str:
        if isinstance(tensor, (ops.Tensor, variables.Variable)):
            return str(tensor.name)
        if isinstance(tensor, str):
            return tensor
        raise TypeError(
            "x_tensor must be a str or tf.Tensor or tf.Variable, but instead has type %s" % type(tensor)
        )


def _is_gradient_op(op: Any) -> bool:
    return op.type in ("DebugGradientIdentity", "DebugGradientRefIdentity")


@ops.RegisterGradient("DebugGradientIdentity")
def _identify_gradient_grad(op: Any, dy: Any) -> Any:
    debugger_uuid, original_tensor_name = _parse_grad_debug_op_name(op.name)
    debugger = _gradient_debuggers[debugger_uuid]
    debugger.register_gradient_tensor(original_tensor_name, dy)
    return dy


@ops.RegisterGradient("DebugGradientRefIdentity")
def _identify_gradient_grad_ref(op: Any, dy: Any) -> Any:
    """As `_identify_gradient_grad`, for references."""
    return _identify_gradient_grad(op, dy)


def gradient_values_from_dump(grad_debugger: GradientsDebugger, x_tensor: Any, dump: Any) -> Any:
    """The values that the gradient of a tensor had in a run.

    Raises:
      LookupError: if no gradient of `x_tensor` is known.
      ValueError: if the dump is of another graph.
    """
    if dump.python_graph and grad_debugger.graph and dump.python_graph != grad_debugger.graph:
        raise ValueError(
            "This GradientsDebugger instance has a graph (%s) that differs from the graph of the DebugDumpDir "
            "object (%s)." % (grad_debugger.graph, dump.python_graph)
        )
    gradient_tensor = grad_debugger.gradient_tensor(x_tensor)
    node_name, output_slot = debug_graphs.parse_node_or_tensor_name(gradient_tensor.name)
    try:
        return dump.get_tensors(node_name, output_slot, "DebugIdentity")
    except ValueError:
        return []
