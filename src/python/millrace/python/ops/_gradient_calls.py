# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Calls between the engine's computation of gradients and the gradient functions of Python."""
from __future__ import annotations

import contextlib
import re
import threading
from typing import Any, Iterator

from millrace.python import _engine
from millrace.python.framework import _gradient_registry
from millrace.python.framework import indexed_slices
from millrace.python.framework import ops
from millrace.python.ops import _gradient_frames


class _Running(threading.local):
    """The computations of gradients of a thread, innermost last: whether they colocate."""

    def __init__(self) -> None:
        self.colocate: list[bool] = []


_running = _Running()


def to_engine(gradient: Any) -> Any:
    """A gradient as the extension takes it: None, a tensor, or a tuple of the parts of slices."""
    if gradient is None or isinstance(gradient, ops.Tensor):
        return gradient
    if isinstance(gradient, indexed_slices.IndexedSlices):
        return gradient.values, gradient.indices, gradient.dense_shape
    return ops.convert_to_tensor(gradient)


def from_engine(gradient: Any) -> Any:
    """The opposite of `to_engine`."""
    return indexed_slices.IndexedSlices(*gradient) if isinstance(gradient, tuple) else gradient


def _as_list(x: Any) -> list[Any]:
    return list(x) if isinstance(x, (list, tuple)) else [x]


def _verify(grads: list[Any], op: Any, wanted: bytes) -> None:
    """Raises ValueError where the gradients that a function returned do not fit the inputs of its operation."""
    if len(grads) != len(wanted):  # gradients may have given the operation more inputs
        raise ValueError(
            "Num gradients %d generated for op %s do not match num inputs %d"
            % (len(grads), op.node_def, len(wanted))
        )
    for i, (grad, tensor) in enumerate(zip(grads, op.inputs)):
        if isinstance(grad, ops.Tensor) and wanted[i] and tensor.dtype.base_dtype.name != "resource":
            try:
                grad.set_shape(tensor.get_shape())
            except ValueError:
                raise ValueError(
                    "Incompatible shapes between op input and calculated input gradient.  Forward operation: %s.  "
                    "Input index: %d. Original input shape: %s.  Calculated input gradient shape: %s"
                    % (op.name, i, tensor.shape, grad.shape)
                ) from None


def _call_function(graph: Any, name: str, op: Any, grads: list[Any], wanted: bytes, scope: str) -> list[Any]:
    """Called by the engine for the gradient of `op`: runs the Python function that is registered as `name`."""
    function = _gradient_registry.function_in_graph(graph, name)
    if function is None:
        return [None] * len(wanted)
    with contextlib.ExitStack() as stack:
        stack.enter_context(graph.as_default())
        stack.enter_context(graph.name_scope(scope + "/"))
        stack.enter_context(graph._original_op(op))
        if _running.colocate and _running.colocate[-1]:
            stack.enter_context(ops.colocate_with(op, ignore_existing=True))
        results = _as_list(function(op, *[from_engine(grad) for grad in grads]))
        if len(results) < len(wanted) and all(r is None for r in results):
            results = [None] * len(wanted)
        results = [
            r if isinstance(r, indexed_slices.IndexedSlices) or r is None else ops.convert_to_tensor(r)
            for r in results
        ]
        _verify(results, op, wanted)
    return [to_engine(result) if wanted[i] else None for i, result in enumerate(results)]


_engine.register("gradient_function", _call_function)


def declare_missing(graph: Any, message: str) -> bool:
    """Declares to the engine the Python gradient of the op that an error names; returns whether it exists."""
    match = re.search(r"\(op type: (\w+)\)", message)
    if match is None or match.group(1) in getattr(graph, "_declared_gradients", ()):
        return False
    from millrace.python.ops import _python_gradients

    name = match.group(1)
    known, function = _python_gradients.find(name)
    if known:
        _gradient_registry.register_in_graph(graph, name, function)
    return known


@contextlib.contextmanager
def computation(graph: Any, colocate: bool) -> Iterator[Any]:
    """Within it the engine may call Python functions; yields the context in which they make operations, or None."""
    has_functions = _gradient_registry.declare_all(graph, ops._gradient_registry)
    old = graph._control_flow_context
    context = _gradient_frames.FunctionContext() if has_functions else None
    graph._control_flow_context = context
    _running.colocate.append(colocate)
    try:
        yield context
    finally:
        _running.colocate.pop()
        graph._control_flow_context = old


def call_engine_gradient(op: Any, op_type: str, grads: Any) -> list[Any]:
    """The gradients of the inputs of `op` by the engine's gradient function of an op type."""
    graph = op.graph
    if len(grads) != len(op.outputs):
        raise TypeError(
            "The gradient of '%s' takes %d gradients, not %d" % (op.name, len(op.outputs), len(grads))
        )
    given = [to_engine(grad) for grad in grads]
    outer = graph._control_flow_context
    within_function = isinstance(outer, _gradient_frames.FunctionContext)
    scope = graph._name_stack
    prefix = "%s/%s_grad" % (scope, op_type) if scope else "%s_grad" % op_type
    with computation(graph, False) as context:
        results, fresh = graph._call_gradient(op, op_type, given, prefix, "")
    if within_function:
        for new in fresh:
            new._control_flow_context = outer
            outer.made.add(new)
    else:
        _gradient_frames.settle(graph, fresh, context, apply_scopes=True, colocate=False)
    return [from_engine(result) for result in results]
