# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Tapes: records of executed ops, for gradients."""
from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Any, Iterator

from millrace.python import _engine


class _State(threading.local):
    """The tapes of a thread that are recording, outermost first."""

    def __init__(self) -> None:
        self.tapes: list[Tape] = []
        self.active = False


_state = _State()
_eager = _engine.executing_eagerly
# Numbers of the types that gradients flow through.
_TRAINABLE = frozenset((1, 2, 8, 14, 18, 19, 20, 21))


# Callbacks for every executed op; see execution_callbacks.
_callbacks: list[Any] = []


def _listen(callbacks: list[Any]) -> None:
    """Calls `callback(op name, inputs, attributes, outputs, name)` after each op that is executed."""
    _callbacks[:] = callbacks
    _engine.set_record_everything(bool(callbacks))


def _tell(maker: Any, values: Any, flat: list[Any], outputs: Any) -> None:
    attrs: list[Any] = []
    triples = getattr(maker, "triples", None)
    for name, _, value in maker.attr_triples(values) if triples is None else triples:
        attrs += [name, value]
    for callback in list(_callbacks):
        callback(maker.name, list(flat), tuple(attrs), list(outputs), None)


def _update() -> None:
    _state.active = bool(_state.tapes)
    _engine.set_recording(_state.active)


class Record:
    """An executed op, with its inputs and outputs, or a function that computes its gradient."""

    __slots__ = ("maker", "values", "inputs", "flat", "outputs", "backward")

    def __init__(
        self, maker: Any, values: Any, inputs: Any, flat: Any, outputs: Any, backward: Any = None
    ) -> None:
        self.maker, self.values, self.inputs, self.flat = maker, values, inputs, flat
        self.outputs, self.backward = outputs, backward


class Tape:
    """Records the ops that depend on watched tensors."""

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self.persistent = persistent
        self.watch_accessed_variables = watch_accessed_variables
        self.ids: set[int] = set()
        self.records: list[Record] = []
        self.variables: dict[int, Any] = {}
        self.graph_tensors: dict[int, Any] = {}  # watched tensors of graphs

    def watch(self, tensor: Any) -> None:
        """Watches a tensor."""
        if isinstance(tensor, _engine.EagerTensorBase):
            if tensor.dtype._type_enum in _TRAINABLE:
                self.ids.add(tensor._id)
        else:
            self.graph_tensors[id(tensor)] = tensor

    def watch_variable(self, variable: Any) -> None:
        """Watches a variable."""
        if id(variable) not in self.variables:
            self.variables[id(variable)] = variable
            self.watch(variable.handle)

    def watched_variables(self) -> tuple[Any, ...]:
        """The variables that are watched."""
        return tuple(self.variables.values())

    def note(self, record: Record) -> None:
        """Keeps a record if one of its inputs is watched or depends on a watched tensor."""
        fresh = [t._id for t in record.outputs if t.dtype._type_enum in _TRAINABLE]
        if fresh:
            self.ids.update(fresh)
            self.records.append(record)


def _record(maker: Any, values: Any, inputs: Any, outputs: Any) -> None:
    """Records an op on the tapes. `inputs` has lists where the op has."""
    flat: list[Any] = []
    for item in inputs:
        if isinstance(item, (list, tuple)):
            flat.extend(item)
        else:
            flat.append(item)
    if _callbacks:
        _tell(maker, values, flat, outputs)
    ids = [t._id for t in flat]
    record = None
    for tape in _state.tapes:
        if not tape.ids.isdisjoint(ids):
            if record is None:
                # A copy: the function returns the list to its caller.
                record = Record(maker, values, inputs, flat, list(outputs))
            tape.note(record)


_engine.register("record", _record)


def record_operation(
    op_type: Any,
    output_tensors: Any,
    input_tensors: Any,
    backward_function: Any,
    forward_function: Any = None,
) -> None:
    """Records on the tapes tensors whose gradients `backward_function(*output_gradients)` computes."""
    del op_type, forward_function
    if not _state.active or not _eager():
        return
    flat = list(input_tensors)
    ids = [t._id for t in flat if isinstance(t, _engine.EagerTensorBase)]
    record = None
    for tape in _state.tapes:
        if not tape.ids.isdisjoint(ids):
            if record is None:
                record = Record(None, (), flat, flat, list(output_tensors), backward_function)
            tape.note(record)


def push_new_tape(persistent: bool = False, watch_accessed_variables: bool = True) -> Tape:
    """Begins a tape."""
    tape = Tape(persistent, watch_accessed_variables)
    push_tape(tape)
    return tape


def push_tape(tape: Tape) -> None:
    """Resumes a tape."""
    _state.tapes.append(tape)
    _update()


def pop_tape(tape: Tape) -> None:
    """Stops or pauses a tape."""
    _state.tapes.remove(tape)
    _update()


def watch(tape: Tape, tensor: Any) -> None:
    """Watches a tensor."""
    tape.watch(tensor)


def watch_variable(tape: Tape, variable: Any) -> None:
    """Watches a variable."""
    tape.watch_variable(variable)


def variable_accessed(variable: Any) -> None:
    """Called for each variable that is read."""
    if _state.active and getattr(variable, "trainable", True):
        for tape in _state.tapes:
            if tape.watch_accessed_variables:
                tape.watch_variable(variable)


def variables_accessed(variables: Any) -> None:
    """`variable_accessed` of each."""
    for variable in variables:
        variable_accessed(variable)


def could_possibly_record() -> bool:
    """Whether a tape is recording."""
    return _state.active


def should_record(tensors: Any) -> bool:
    """Whether a tape watches one of the tensors."""
    ids = [t._id for t in tensors if isinstance(t, _engine.EagerTensorBase)]
    return any(not tape.ids.isdisjoint(ids) for tape in _state.tapes)


def may_go_on() -> bool:
    """Whether gradients may themselves be recorded, by another or by a persistent tape that is recording."""
    return len(_state.tapes) > 1 or any(tape.persistent for tape in _state.tapes)


def delete_trace(tensor_id: Any) -> None:
    """Does nothing: a tape holds references to all that it needs."""


@contextmanager
def stop_recording() -> Iterator[None]:
    """A context in which nothing is recorded."""
    old, _state.tapes = _state.tapes, []
    _update()
    try:
        yield
    finally:
        _state.tapes = old
        _update()


class VariableWatcher:
    """A context that notes the variables that are read in it."""

    def __init__(self) -> None:
        self._tape = Tape()

    def __enter__(self) -> VariableWatcher:
        push_tape(self._tape)
        return self

    def __exit__(self, typ: Any, value: Any, traceback: Any) -> None:
        pop_tape(self._tape)

    def watched_variables(self) -> tuple[Any, ...]:
        """The trainable variables that were read."""
        return self._tape.watched_variables()
