# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Eager calls of functions, and their gradients.

The gradient of a function is another function. Both are parts of one graph, the body with the engine's
gradients added: the part that does not depend on incoming gradients is the forward function, whose
intermediate results are inputs of the backward function. So side effects and random numbers of the body are
computed once. If gradients of gradients may be requested, these intermediate results count as results, and
the backward function computes their gradients too.
"""
from __future__ import annotations

from typing import Any

from millrace.python.eager import execute, tape
from millrace.python.framework import indexed_slices, ops

# Operations of loops and conditions, which must stay in one graph: the body cannot be split between them.
_FRAMES = frozenset(("Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"))


def call(concrete: Any, inputs: list[Any]) -> list[Any]:
    """Calls a ConcreteFunction; the call is recorded on tapes that watch an input."""
    graph = concrete.graph
    if tape.could_possibly_record():
        tape.variables_accessed(v for v in graph.variables if v.trainable)
        if tape.should_record(inputs):
            differentiable = concrete._differentiable
            if differentiable is None:
                differentiable = concrete._differentiable = Differentiable(concrete)
            return differentiable(inputs)
    execute.add_function(concrete._defined)
    return execute.run(concrete.name, inputs, [], len(graph.outputs))


_of_ops: dict[Any, Any] = {}  # functions of one operation each
_MOST = 256


def call_op(op_type: str, inputs: Any, triples: Any) -> Any:
    """Executes an op that calls functions if a tape watches an input; returns None otherwise.

    Args:
      op_type: the op.
      inputs: tensors, and lists of them.
      triples: its attributes.
    """
    from millrace.python.eager import function as function_module
    from millrace.python.framework import func_graph

    flat = [t for item in inputs for t in (item if isinstance(item, (list, tuple)) else [item])]
    if not tape.could_possibly_record() or not tape.should_record(flat):
        return None
    key = (
        op_type,
        repr(triples),
        tuple((t.dtype, t._shape_tuple(), str(t._handle_data_tuple())) for t in flat),
    )
    concrete = _of_ops.get(key)
    if concrete is None:
        if len(_of_ops) >= _MOST:
            _of_ops.clear()
        graph = func_graph.FuncGraph(op_type)
        with graph.as_default():
            graph.inputs.extend(func_graph._placeholder(t, "input") for t in flat)
            own = iter(graph.inputs)
            grouped = [
                [next(own) for _ in item] if isinstance(item, (list, tuple)) else next(own) for item in inputs
            ]
            op = graph._make_operation(op_type, op_type, grouped, list(triples))
            graph.outputs.extend(op.outputs)
            graph.structured_outputs = list(op.outputs)
        concrete = _of_ops[key] = function_module.ConcreteFunction(graph)
    return call(concrete, flat)


class _Part:
    """A function made of a part of a graph."""

    def __init__(self, graph: Any, definition: Any) -> None:
        self._graph = graph
        self.definition = definition
        self.name = definition.signature.name


def _placeholder_like(tensor: Any, name: str) -> Any:
    from millrace.python.ops import array_ops

    return array_ops.placeholder(tensor.dtype.base_dtype, shape=tensor.shape, name=name)


def _copy_of(concrete: Any) -> Any:
    """A copy of the body, as a graph that can be extended."""
    from millrace.python.framework import function_def_to_graph, func_graph

    source = concrete.graph
    own = concrete._ordered_inputs()
    with source._outer_graph.as_default():
        outer = ops.get_default_graph()
        for function in source._functions.values():
            if outer._get_function(function.name) is None:
                function.add_to_graph(outer)
        copy = function_def_to_graph.function_def_to_graph(concrete.function_def, [t.shape for t in own])
    assert isinstance(copy, func_graph.FuncGraph)
    for mine, theirs in zip(copy.inputs, own):
        data = theirs._handle_data_tuple()
        if data is not None:
            number, sizes = data
            mine._set_handle_data_tuple(
                number, None if sizes is None else [None if s is None or s < 0 else s for s in sizes]
            )
    return copy


class Differentiable:
    """The forward and the backward functions of a ConcreteFunction."""

    def __init__(self, concrete: Any) -> None:
        if getattr(concrete.graph, "_gradient_functions", None):
            # Functions of custom gradients refer to tensors of this graph.
            graph, inputs = concrete.graph, concrete._ordered_inputs()
        else:
            graph = _copy_of(concrete)
            inputs = list(graph.inputs)
        before = {op._id_value for op in graph._operations()}
        self._of_outputs = _Pair(concrete, graph, inputs, list(graph.outputs), before)
        self._of_all: Any = None  # for gradients of gradients

    def __call__(self, inputs: list[Any]) -> list[Any]:
        pair = self._of_outputs
        if pair.kept and tape.may_go_on():
            if self._of_all is None:
                self._of_all = pair.with_kept_as_results()
            pair = self._of_all
        return pair(inputs)


class _Pair:
    """A forward function and the backward function of some of its results."""

    def __init__(
        self, concrete: Any, graph: Any, inputs: list[Any], results: list[Any], before: set[int],
        plain: Any = None,
    ) -> None:  # fmt: skip
        from millrace.python.eager._gradient_programs import is_trainable
        from millrace.python.ops import gradients_impl

        self._concrete, self._graph = concrete, graph
        self._inputs, self._results = inputs, results
        self._before = before  # the operations of the body
        self._plain = plain  # the pair whose results are those of the body alone
        first = graph._num_ids
        self._targets = [i for i, t in enumerate(results) if is_trainable(t.dtype)]
        self._sources = [i for i, t in enumerate(inputs) if is_trainable(t.dtype)]
        self._kinds: list[Any] = []
        with graph.as_default():
            arriving = [_placeholder_like(results[i], "arriving") for i in self._targets]
            found = gradients_impl.gradients(
                [results[i] for i in self._targets], [inputs[i] for i in self._sources], grad_ys=arriving
            )
        flat: list[Any] = []
        for g in found:
            if isinstance(g, indexed_slices.IndexedSlices):
                parts = [g.values, g.indices] + ([g.dense_shape] if g.dense_shape is not None else [])
                self._kinds.append(len(parts))
                flat += parts
            else:
                self._kinds.append(0 if g is None else 1)
                flat += [] if g is None else [g]
        self._cut(
            [op for op in graph._operations() if op._id_value in before or op._id_value > first],
            arriving,
            flat,
        )

    def _behind(self, everything: list[Any], starts: set[int]) -> set[int]:
        """The operations of `everything` that belong to the backward function."""
        if self._plain is not None:
            # Outputs of the forward function are tensors of the body, which is not changed any more.
            return {id(op) for op in everything if op._id_value not in self._before} | starts
        behind = set(starts)
        changed = True
        while changed:
            changed = False
            for op in everything:
                if id(op) in behind or op._id_value in self._before:
                    continue
                if any(id(t.op) in behind for t in op.inputs) or any(
                    id(c) in behind for c in op.control_inputs
                ):
                    behind.add(id(op))
                    changed = True
        return behind

    def _cut(self, everything: list[Any], arriving: list[Any], flat: list[Any]) -> None:
        """Makes the two functions."""
        graph = self._graph
        whole = any(op.type in _FRAMES for op in everything)
        starts = {id(t.op) for t in arriving}
        inputs = {id(t.op) for t in self._inputs}
        if whole:
            needed = _needed(flat)
            behind = set(starts)
            taken = [op for op in everything if id(op) in needed and id(op) not in starts | inputs]
        else:
            behind = self._behind(everything, starts)
            taken = [op for op in everything if id(op) in behind and id(op) not in starts]
        own = {id(op) for op in taken} | starts
        for op in taken:
            # The forward function ends before the backward function begins.
            kept = [c for c in op.control_inputs if id(c) in own]
            if len(kept) < len(op.control_inputs):
                op._remove_control_ops()
                for c in kept:
                    op._add_control_op(c)
        between: dict[int, Any] = {}
        for t in [t for op in taken for t in op.inputs] + flat:
            if id(t.op) not in own:
                between[id(t)] = t
        self._between = list(between.values())
        name = graph.name.replace("__inference_", "") or "function"
        known = {id(t) for t in self._inputs + self._results}
        # Further results of the forward function: those that are not among its inputs and results.
        self.kept = [t for t in self._between if id(t) not in known]
        if whole:
            self._forward = self._concrete._defined
        else:
            body = [op for op in everything if id(op) not in behind and id(op) not in inputs]
            self._forward = _part(
                graph,
                "__forward_%s_" % name,
                body,
                self._inputs,
                self._results + self.kept,
                graph.control_outputs,
            )
        back = _part(graph, "__backward_%s_" % name, taken, arriving + self._between, flat, [])
        self._places = [self._place(t) for t in self._between]
        self._backward = _concrete_of(back, arriving + self._between)
        self._count = len(graph.outputs)

    def _place(self, tensor: Any) -> tuple[bool, int]:
        """The position of a tensor's value: (whether among the inputs, number)."""
        for i, t in enumerate(self._inputs):
            if t is tensor:
                return True, i
        for i, t in enumerate(self._results + self.kept):
            if t is tensor:
                return False, i
        raise AssertionError("A tensor of the backward function is in neither list")

    def with_kept_as_results(self) -> _Pair:
        """The pair whose results include all intermediate results that its backward function takes."""
        plain = self
        pair = _Pair(self._concrete, self._graph, self._inputs, self._results, self._before, plain)
        while pair.kept:
            results = pair._results + pair.kept
            pair = _Pair(self._concrete, self._graph, self._inputs, results, self._before, plain)
        return pair

    def __call__(self, inputs: list[Any]) -> list[Any]:
        execute.add_function(self._forward)
        count = len(self._forward.definition.signature.output_arg)
        results = execute.run(self._forward.name, inputs, [], count)

        def backward(*grads: Any) -> list[Any]:
            given = [ops.convert_to_tensor(grads[i]) for i in self._targets]
            kept = [(inputs if is_input else results)[i] for is_input, i in self._places]
            found = iter(call(self._backward, given + kept))
            gradients: list[Any] = [None] * len(inputs)
            for i, kind in zip(self._sources, self._kinds):
                if kind == 1:
                    gradients[i] = next(found)
                elif kind > 1:
                    gradients[i] = indexed_slices.IndexedSlices(*[next(found) for _ in range(kind)])
            return gradients

        # The arguments of the backward function are needed for gradients of higher order.
        seen = results if self._plain is not None else results[: self._count]
        tape.record_operation(self._forward.name, seen, inputs, backward)
        return results[: self._count]


def _needed(tensors: list[Any]) -> set[int]:
    seen: set[int] = set()
    work = [t.op for t in tensors]
    while work:
        op = work.pop()
        if id(op) in seen:
            continue
        seen.add(id(op))
        work.extend(t.op for t in op.inputs)
        work.extend(op.control_inputs)
    return seen


def _part(graph: Any, name: str, body: Any, inputs: Any, outputs: Any, controls: Any) -> _Part:
    from millrace.core.framework import function_pb2

    # The same tensor may be a result twice, and an argument a result.
    data = graph._to_function(
        "%s%d" % (name, ops.uid()), False, body, list(inputs), list(outputs), None, list(controls),
        [op.name for op in controls], None,
    )  # fmt: skip
    return _Part(graph, function_pb2.FunctionDef.FromString(data))


def _concrete_of(part: _Part, inputs: list[Any]) -> Any:
    """A ConcreteFunction of a function made of a part of a graph."""
    from millrace.python.eager import function as function_module
    from millrace.python.framework import function_def_to_graph

    with part._graph.as_default():
        graph = function_def_to_graph.function_def_to_graph(part.definition, [t.shape for t in inputs])
    for mine, theirs in zip(graph.inputs, inputs):
        data = theirs._handle_data_tuple()
        if data is not None:
            number, sizes = data
            mine._set_handle_data_tuple(
                number, None if sizes is None else [None if s is None or s < 0 else s for s in sizes]
            )
    graph.structured_outputs = list(graph.outputs)
    return function_module.ConcreteFunction(graph)
