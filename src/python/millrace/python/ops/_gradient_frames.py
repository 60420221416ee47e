# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Puts the operations that the engine makes for gradients into the loops, branches and scopes of the Python graph."""
from __future__ import annotations

from typing import Any

from millrace.python.ops import control_flow_util as util
from millrace.python.ops._control_flow_base import ControlFlowContext

_ENTER = ("Enter", "RefEnter")


class FunctionContext(ControlFlowContext):
    """The context of operations that gradient functions of Python make: they may use any tensor of the graph.

    The engine then replaces tensors of a loop by their values in the iteration.
    """

    def __init__(self) -> None:
        self._nested_contexts: list[Any] = []
        self._outer_context = None
        self._context_stack: list[Any] = []
        self._values: set[str] = set()
        self._external_values: dict[str, Any] = {}
        self._name = "gradient_function"
        self.made: set[Any] = set()

    uses_any_tensor = True

    def AddValue(self, val: Any) -> Any:
        """The value itself."""
        return val

    def AddOp(self, op: Any) -> None:
        """Remembers that Python made the operation."""
        self.made.add(op)

    def AddInnerOp(self, op: Any) -> None:
        """As AddOp."""
        self.made.add(op)

    def ExitResult(self, result: Any) -> None:
        """Does nothing."""


class GradientLoop(ControlFlowContext):
    """A loop that the engine made: the gradient of one of the graph's loops, or a part of it."""

    def __init__(self, name: str, outer: Any) -> None:
        self._nested_contexts: list[Any] = []
        self._outer_context = outer
        self._context_stack: list[Any] = []
        self._values: set[str] = set()
        self._external_values: dict[str, Any] = {}
        self._name = name

    @property
    def back_prop(self) -> bool:
        """True: gradients are of any order."""
        return True

    def IsWhileContext(self) -> bool:
        """True."""
        return True

    def GetWhileContext(self) -> Any:
        """The loop itself."""
        return self

    def AddOp(self, op: Any) -> None:
        """Nothing is left to do: the engine made the operation in its place."""

    def AddValue(self, val: Any) -> Any:
        """The value itself."""
        return val


def _depth(context: Any) -> int:
    depth = 0
    while context is not None:
        depth += context.IsWhileContext()
        context = context.outer_context
    return depth


def _loop(context: Any) -> Any:
    return None if context is None else context.GetWhileContext()


def _frame(graph: Any, enter: Any, outer: Any) -> Any:
    """The loop that an Enter leads into."""
    frames = graph._frames
    name = enter.get_attr("frame_name").decode()
    found = frames.get(name)
    if found is None:
        found = frames[name] = GradientLoop(name, outer)
    return found


def _sources(op: Any) -> list[Any]:
    return [t.op for t in op._input_tensors] or list(op.control_inputs)


def _inputs_first(fresh: list[Any], new: set[Any]) -> list[Any]:
    """The new operations, each after those that it uses; the engine adds the inputs of some later."""
    order: list[Any] = []
    seen: set[Any] = set()
    for first in fresh:
        waiting = [] if first in seen else [(first, iter(_sources(first)))]
        seen.add(first)
        while waiting:
            op, sources = waiting[-1]
            for source in sources:
                # A value that arrives over the back edge of a loop needs the target of the edge.
                if source in new and source not in seen and source.type != "NextIteration":
                    seen.add(source)
                    waiting.append((source, iter(_sources(source))))
                    break
            else:
                order.append(op)
                waiting.pop()
    return order


def assign_loops(graph: Any, fresh: list[Any]) -> dict[Any, Any]:
    """The innermost loop of each new operation, None outside of loops (an Exit is in its loop)."""
    loops: dict[Any, Any] = {}
    new = set(fresh)
    for op in _inputs_first(fresh, new):
        found = None
        deepest = 0
        for source in _sources(op):
            if source in loops:
                loop = loops[source]
                if loop is not None and util.IsLoopExit(source):
                    loop = _loop(loop.outer_context)
            else:
                loop = _loop(util.GetOutputContext(source))
            depth = _depth(loop)
            if depth > deepest:
                found, deepest = loop, depth
        if op.type in _ENTER:
            found = _frame(graph, op, found)
        loops[op] = found
    return loops


def _has_loops(fresh: list[Any]) -> bool:
    return any(op.type in _ENTER for op in fresh)


def settle(graph: Any, fresh: list[Any], context: Any, apply_scopes: bool, colocate: bool) -> None:
    """Sets the current context of new operations, and applies the scopes.

    Args:
      graph: their graph.
      fresh: all operations that were made for gradients, in order.
      context: the FunctionContext in which Python functions made some of them, or None.
      apply_scopes: whether device functions and control dependencies of the current scopes count.
      colocate: whether their devices are those of the operations they belong to.
    """
    made = context.made if context is not None else ()
    if context is not None:
        for op in fresh:
            if op._control_flow_context is context:
                op._control_flow_context = None
    base = graph._control_flow_context
    slow = bool(graph._slow_reasons) and apply_scopes
    if base is None and not slow and not _has_loops(fresh):
        return
    loops = assign_loops(graph, fresh)
    base_loop = _loop(base)
    for op in loops:  # each after those that it uses
        loop = loops[op]
        if loop is not base_loop:
            if op._control_flow_context is None:
                op._control_flow_context = loop
                _note_exit(op, loop, base)
            if (
                loop is not None
                and base is not None
                and op.type in _ENTER
                and _loop(loop.outer_context) is base_loop
            ):
                _let_inputs_in(op, base)
            continue
        if base is not None:
            _add_to(op, base, op in made)
        if slow and op not in made:
            _apply_scopes(graph, op, colocate)


def _note_exit(op: Any, loop: Any, base: Any) -> None:
    """A value that leaves an inner loop belongs to the current context."""
    if (
        base is not None
        and util.IsLoopExit(op)
        and loop is not None
        and _loop(loop.outer_context) is _loop(base)
    ):
        _see(op, base)


def _see(op: Any, base: Any) -> None:
    names = [t.name for t in op.outputs]
    while base is not None:
        base._values.update(names)
        base = base.outer_context


def _let_inputs_in(op: Any, base: Any) -> None:
    for index, x in enumerate(list(op._input_tensors)):
        real = base.AddValue(x)
        if real is not x:
            op._update_input_tensor(index, real)


def _add_to(op: Any, base: Any, made_by_python: bool) -> None:
    """Makes a new operation one of the current branch or body."""
    if op._control_flow_context is not None:
        _see(op, base)  # Python's own branches in gradient functions
        return
    op._control_flow_context = base
    if isinstance(base, FunctionContext):
        if not made_by_python:
            base.made.add(op)
        return
    loop = _loop(base)
    if loop is not None:
        # Values in branches of the body are in the frame already, both outputs of their Switches.
        loop._values.update(t.name for t in op._input_tensors if _loop(util.GetOutputContext(t.op)) is loop)
    base.AddOp(op)


def _apply_scopes(graph: Any, op: Any, colocate: bool) -> None:
    controls = graph._control_dependencies_for_inputs({t.op for t in op._input_tensors})
    if controls:
        op._add_control_inputs([c for c in controls if c is not op])
    graph._apply_attr_scopes(op)
    graph._record_op_seen_by_control_dependencies(op)
    if not colocate:
        graph._apply_device_functions(op)
        graph._apply_colocation(op)
    graph._apply_container(op)


def move_into(graph: Any, fresh: list[Any], seeds: dict[Any, Any], context: Any) -> None:
    """Moves operations into a branch or body: those that depend on `seeds`, tensors that represent others there.

    Args:
      graph: the graph, whose current context is `context`.
      fresh: operations that were made outside, in order.
      seeds: tensor outside -> tensor in the context that replaces it.
      context: the context.
    """
    moved: set[Any] = set()
    entered: set[Any] = set()  # loops
    loops = assign_loops(graph, fresh)
    outer_loop = _loop(context.outer_context) if context is not None else None
    for op in fresh:
        inputs = op._input_tensors
        touched = any(t in seeds or t.op in moved for t in inputs)
        if not touched and not any(c in moved for c in op.control_inputs):
            continue
        moved.add(op)
        for index, t in enumerate(list(inputs)):
            if t in seeds:
                op._update_input_tensor(index, seeds[t])
        loop = loops[op]
        if loop is outer_loop:
            op._control_flow_context = context
            context.AddOp(op)
        elif loop is not None and _loop(loop.outer_context) is outer_loop or loop in entered:
            # Its neighbours in the loop are moved with it.
            if op.type in _ENTER:
                entered.add(loop)
                loop._outer_context = context
                _let_inputs_in(op, context)
            elif util.IsLoopExit(op):
                _see(op, context)
