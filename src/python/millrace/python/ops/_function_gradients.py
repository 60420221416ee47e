# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients of functions whose bodies have gradients of Python.

The engine derives the gradient of a function from its body, perhaps in another thread, where no Python function can
be called. Such a gradient is therefore made when it is first needed, in the graph that the body was made in, and is
registered in the library as the gradient of the function.
"""
from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

from millrace.python import _engine
from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import array_ops

_RECOMPUTES, _GRADIENT_OF = "_recomputes", "_gradient_of"  # as in op/function_attrs.h
_CALLS = frozenset(
    "If StatelessIf Case While StatelessWhile PartitionedCall StatefulPartitionedCall SymbolicGradient".split()
)


class MadeGradient:
    """A function of the parameters of another one and of the gradients of its results.

    It recomputes the values of that function that it needs, and has the attributes of other functions of a
    graph.
    """

    def __init__(self, graph: Any, definition: Any, inputs: Any, outputs: Any) -> None:
        self._graph = graph
        self.definition = definition
        self.name = definition.signature.name
        self._body_inputs, self._body_outputs = inputs, outputs
        self.stateful_ops: list[Any] = []
        self.captured_inputs: list[Any] = []
        self.declared_input_types = [t.dtype for t in inputs]
        self._grad_func: Any = None
        self._python_grad_func = None

    def add_to_graph(self, g: Any) -> None:
        """Adds the function, and those that it calls, to a graph's library."""
        if g._get_function(self.name) is None:
            for function in list(self._graph._functions.values()):
                ensure(g, function)
            g._add_function(self)


def ensure(g: Any, function: Any) -> None:
    """Adds a missing function to a graph, with the gradients of it and of functions that it calls."""
    if g._get_function(function.name) is None:
        function.add_to_graph(g)
    gradient = getattr(function, "_grad_func", None)
    known = getattr(g, "_made_gradients", None)
    if known is None:
        known = g._made_gradients = set()
    if isinstance(gradient, MadeGradient) and function.name not in known:
        known.add(function.name)
        gradient.add_to_graph(g)
        ensure(g, gradient)


def is_needed(graph: Any, function: Any) -> bool:
    """Whether a function has operations, also in the functions that it calls, whose gradients are those of Python."""
    registry = ops._gradient_registry._registry
    known = function.__dict__.get("_has_python_gradients")
    if known is None or known[0] != len(registry):
        function._has_python_gradients = (len(registry), False)  # for functions that call themselves
        known = function._has_python_gradients = (len(registry), _look(graph, function, registry))
    return bool(known[1])


def _look(graph: Any, function: Any, registry: Any) -> bool:
    from millrace.python.ops import _python_gradients

    own = getattr(function, "_graph", None)
    libraries = [g._functions for g in (own, graph) if g is not None]

    def find(name: str) -> Any:
        return next((library[name] for library in libraries if name in library), None)

    for node in function.definition.node_def:
        if "_gradient_op_type" in node.attr:
            name = node.attr["_gradient_op_type"].s.decode()
            if not _engine.has_gradient(name):
                return True
        elif node.op in registry or _python_gradients.find(node.op)[0]:
            return True
        callee = find(node.op)
        called = [] if callee is None else [callee]
        if callee is not None and getattr(callee, "_python_grad_func", None) is not None:
            return True
        called += [f for f in map(find, _names(node.attr)) if f is not None]
        if any(f is not function and is_needed(graph, f) for f in called):
            return True
    return False


def _names(attrs: Any) -> Iterator[str]:
    """The functions that attributes name."""
    for value in attrs.values():
        for f in [value.func] if value.HasField("func") else value.list.func:
            yield f.name
            yield from _names(f.attr)


def entries(graph: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Names and functions with which the engine requests gradients."""
    for name, function in list(graph._functions.items()):
        if getattr(function, "_python_grad_func", None) is None and is_needed(graph, function):
            yield "SymbolicGradient:" + name, _call_gradient


def _call_gradient(op: Any, *grads: Any) -> Any:
    """The gradient of an operation that calls functions, after their gradients were made."""
    from millrace.python.ops import _gradient_calls

    graph = op.graph
    found = [graph._get_function(op.type)]
    for value in op.node_def.attr.values():
        found += [_resolved(graph, f) for f in ([value.func] if value.HasField("func") else value.list.func)]
    for function in found:
        if function is None or not is_needed(graph, function):
            continue
        if getattr(function, "_grad_func", None) is None:
            function._grad_func = _make(graph, function)
        ensure(graph, function)
    kind = op.type if op.type in _CALLS else "PartitionedCall"
    return _gradient_calls.call_engine_gradient(op, kind, grads)


def _resolved(graph: Any, f: Any) -> Any:
    """The function that an attribute names; for the gradient of one the function that was made."""
    if f.name != "SymbolicGradient":
        return graph._get_function(f.name)
    inner = _resolved(graph, f.attr["f"].func)
    return None if inner is None else getattr(inner, "_grad_func", None)


def _body(graph: Any, function: Any) -> tuple[Any, list[Any], list[Any]]:
    """The graph, parameters and results of a function."""
    made = function.__dict__.get("_imported_body")
    if made is not None:
        return made  # type: ignore[no-any-return]
    body = getattr(function, "_graph", None)
    if body is not None and hasattr(function, "_body_inputs"):
        return body, list(function._body_inputs), list(function._body_outputs)
    if body is not None:
        return body, list(body.inputs) + list(body.extra_args), list(body.outputs)
    from millrace.python.framework import function_def_to_graph

    with graph.as_default():
        body = function_def_to_graph.function_def_to_graph(function.definition)
    function._imported_body = body, list(body.inputs), list(body.outputs)
    return function._imported_body  # type: ignore[no-any-return]


def _gradient_type(tensor: Any) -> Any:
    """The type of a tensor's gradient: for a resource that of its value, or resource where it is not known."""
    if tensor.dtype != dtypes.resource:
        return tensor.dtype.base_dtype
    data = tensor._handle_data_tuple()
    return dtypes.resource if data is None or _is_array(tensor) else dtypes.as_dtype(data[0])


def _is_array(handle: Any, seen: Any = None) -> bool:
    """Whether a handle is that of an array, according to its uses: the gradient of an array follows its flow.

    `seen` holds the handles that were visited: a function may be called many times, also by itself.
    """
    seen = set() if seen is None else seen
    if id(handle) in seen:
        return False
    seen.add(id(handle))
    for op in handle.consumers():
        if op.type.startswith("TensorArray"):
            return True
        if op.type not in _CALLS and handle.graph._get_function(op.type) is None:
            continue
        for name in list(_names(op.node_def.attr)) + [op.type]:
            function = handle.graph._get_function(name)
            body = getattr(function, "_graph", None)
            if body is None:
                continue
            inputs = _body(handle.graph, function)[1]
            first = len(op.inputs) - len(inputs)  # the condition
            places = [i - first for i, t in enumerate(op.inputs) if t is handle]
            if any(_is_array(inputs[i], seen) for i in places if 0 <= i < len(inputs)):
                return True
    return False


@contextlib.contextmanager
def _captures_values(graph: Any) -> Iterator[None]:
    """Within it tensors of outer graphs that the function does not take yet are computed in its body."""
    old, graph._capture_by_value = graph._capture_by_value, True
    try:
        yield
    finally:
        graph._capture_by_value = old


def _make(graph: Any, function: Any) -> MadeGradient:
    from millrace.core.framework import function_pb2
    from millrace.python.ops import gradients_util

    body, inputs, outputs = _body(graph, function)
    with body.as_default(), _captures_values(body):
        arriving = [
            array_ops.placeholder(
                _gradient_type(t), shape=t.shape if t.dtype != dtypes.resource else None, name="arriving"
            )
            for t in outputs
        ]
        ys = [
            (t, grad)
            for t, grad in zip(outputs, arriving)
            if gradients_util.IsTrainable(t) and grad.dtype != dtypes.resource
        ]
        targets = [
            i
            for i, t in enumerate(inputs)
            if gradients_util.IsTrainable(t) and _gradient_type(t) != dtypes.resource
        ]
        scope = body.unique_name("gradients", mark_as_used=False)
        found = gradients_util._GradientsHelper(
            [t for t, _ in ys], [inputs[i] for i in targets], [grad for _, grad in ys], src_graph=body
        )
        results: list[Any] = [None] * len(inputs)
        for i, grad in zip(targets, found):
            results[i] = None if grad is None else ops.convert_to_tensor(grad)
        results = [_zeros(t) if grad is None else grad for t, grad in zip(inputs, results)]
    parameters = inputs + arriving
    data = body._to_function(
        "%s_grad" % function.name,
        True,
        _between(results, parameters),
        parameters,
        results,
        None,
        [],
        [],
        None,
    )
    definition = function_pb2.FunctionDef.FromString(data)
    definition.attr[_RECOMPUTES].s = scope.encode()
    definition.attr[_GRADIENT_OF].s = function.name.encode()
    return MadeGradient(body, definition, parameters, results)


def _zeros(tensor: Any) -> Any:
    """What represents the gradient of a parameter that the results do not depend on."""
    from millrace.python.ops import resource_variable_ops

    if tensor.dtype == dtypes.string:
        return tensor
    if tensor.dtype == dtypes.resource:
        dtype = _gradient_type(tensor)
        if dtype == dtypes.resource:
            return tensor
        tensor = resource_variable_ops.read_variable_op(tensor, dtype)
    return array_ops.zeros_like(tensor)


def _between(results: list[Any], parameters: list[Any]) -> list[Any]:
    """The operations that tensors need, without those of the parameters, in the order in which they were made."""
    seen = {t.op for t in parameters}
    found: list[Any] = []
    work = [t.op for t in results]
    while work:
        op = work.pop()
        if op not in seen:
            seen.add(op)
            found.append(op)
            work.extend(t.op for t in op.inputs)
            work.extend(op.control_inputs)
    return sorted(found, key=lambda op: op._id_value)  # type: ignore[no-any-return]
