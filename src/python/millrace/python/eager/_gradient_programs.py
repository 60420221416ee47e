# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients of executed ops, compiled once for each kind of call from the engine's gradients of graphs.

The engine differentiates a graph of the one op, and the new operations become a list of ops to execute. Tapes
can record their execution, for gradients of higher order.
"""
from __future__ import annotations

import threading
from typing import Any

from millrace.python import _engine
from millrace.python.eager import execute, tape
from millrace.python.framework import constant_op, dtypes, indexed_slices, ops

_CONTROL_FLOW = frozenset(
    (
        "Switch",
        "Merge",
        "Enter",
        "Exit",
        "NextIteration",
        "LoopCond",
        "RefSwitch",
        "RefMerge",
        "RefEnter",
        "RefExit",
    )
)
# Arguments whose values are constants in the gradients of some ops; they rarely change between calls.
_STATIC = frozenset(
    ("axis", "axes", "concat_dim", "split_dim", "dim", "dimension", "reduction_indices", "perm")
)
_LIMIT = 4096  # the maximum number of programs in the cache
_SIZES = 16  # the number of programs for different sizes after which one for all sizes is made
_programs: dict[Any, Any] = {}
_variants: dict[Any, int] = {}
_lock = threading.RLock()


class Program:
    """Ops to execute, in order, on numbered values: first come the arguments, then constants, then results."""

    def __init__(self) -> None:
        self.constants: dict[int, Any] = {}
        self.steps: list[tuple[Any, Any, list[int]]] = []
        self.results: list[Any] = []
        self.size = 0

    def run(self, arguments: list[Any]) -> list[Any]:
        """The gradients: tensors, IndexedSlices or None."""
        env: list[Any] = arguments + [None] * (self.size - len(arguments))
        for slot, value in self.constants.items():
            env[slot] = value
        for op, places, targets in self.steps:
            outputs = op([[env[p] for p in x] if isinstance(x, list) else env[x] for x in places])
            for target, value in zip(targets, outputs):
                env[target] = value
        return [
            None
            if r is None
            else env[r]
            if isinstance(r, int)
            else indexed_slices.IndexedSlices(*[None if p is None else env[p] for p in r])
            for r in self.results
        ]


def _placeholder(tensor: Any, name: str, with_sizes: bool = True) -> Any:
    from millrace.python.ops import gen_array_ops

    shape = tensor.shape if with_sizes else [None] * tensor._rank()
    made = gen_array_ops.placeholder(tensor.dtype, shape=shape, name=name)
    data = tensor._handle_data_tuple()
    if data is not None:
        number, sizes = data
        made._set_handle_data_tuple(number, None if sizes is None else [None if s < 0 else s for s in sizes])
    return made


_static_places: dict[Any, Any] = {}


def _static(record: Any) -> Any:
    """The positions of the inputs whose values are constants in the gradient."""
    name = record.maker.name
    found = _static_places.get(name)
    if found is None:
        from millrace.python.framework import _op_specs

        spec = getattr(record.maker, "spec", None) or _op_specs.spec_of(name)
        args = spec.inputs
        places = [i for i, arg in enumerate(args) if arg.name in _STATIC and not arg.is_list]
        if any(arg.is_list for arg in args):
            # Counted from the end at which there is no list of inputs before them.
            lists = [i for i, arg in enumerate(args) if arg.is_list]
            places = [i if i < lists[0] else i - len(args) for i in places if i < lists[0] or i > lists[-1]]
        found = tuple(places)
        _static_places[name] = found
    return found


def _regrouped(inputs: Any, flat: list[Any]) -> list[Any]:
    """`flat` in lists where `inputs` has lists."""
    remaining = iter(flat)
    return [
        [next(remaining) for _ in item] if isinstance(item, (list, tuple)) else next(remaining)
        for item in inputs
    ]


class _Compiler:
    def __init__(self, arguments: list[Any]) -> None:
        self.program = Program()
        self.slots: dict[int, int] = {id(t): i for i, t in enumerate(arguments)}
        self.keep = list(arguments)
        self.program.size = len(arguments)

    def _new(self, tensor: Any) -> int:
        self.slots[id(tensor)] = self.program.size
        self.keep.append(tensor)
        self.program.size += 1
        return self.program.size - 1

    def _order(self, tensors: list[Any]) -> list[Any]:
        """The operations behind tensors, each after those that it needs."""
        ordered: list[Any] = []
        seen: set[int] = set()
        work = [(t.op, False) for t in tensors if id(t) not in self.slots]
        while work:
            op, done = work.pop()
            if done:
                ordered.append(op)
                continue
            if id(op) in seen:
                continue
            seen.add(id(op))
            self.keep.append(op)
            work.append((op, True))
            work.extend((t.op, False) for t in op.inputs if id(t) not in self.slots)
        return ordered

    def compile(self, tensors: list[Any]) -> list[int]:
        """Adds the ops that tensors need; returns the numbers of their values."""
        for op in self._order(tensors):
            if op.type in _CONTROL_FLOW:
                raise NotImplementedError(
                    "The gradient of an op that was executed at once has control flow: %s" % op.name
                )
            self._add(op)
        return [self.slots[id(t)] for t in tensors]

    def _add(self, op: Any) -> None:
        if op.type in ("Identity", "Snapshot"):
            self.slots[id(op.outputs[0])] = self.slots[id(op.inputs[0])]
            return
        if op.type in ("Shape", "ShapeN") and all(t.shape.is_fully_defined() for t in op.inputs):
            kind = op.outputs[0].dtype.as_numpy_dtype
            for tensor, source in zip(op.outputs, op.inputs):
                self._constant(tensor, source.shape.as_list(), kind)
            return
        triples = _triples(op)
        raw = execute.RawOp(op.type, triples, len(op.outputs))
        places = _grouped_slots(op, [self.slots[id(t)] for t in op.inputs])
        flat = [p for item in places for p in (item if isinstance(item, list) else [item])]
        constants = self.program.constants
        targets = [self._new(t) for t in op.outputs]
        if not op._is_stateful and all(p in constants for p in flat):
            with _Executing():
                outputs = raw(
                    [[constants[p] for p in x] if isinstance(x, list) else constants[x] for x in places]
                )
            constants.update(zip(targets, outputs))
            return
        self.program.steps.append((raw, places, targets))

    def _constant(self, tensor: Any, value: Any, kind: Any) -> None:
        import numpy as np

        self.program.constants[self._new(tensor)] = _engine.eager_tensor(
            np.array(value, kind), tensor.dtype.as_datatype_enum
        )


class _Executing:
    """A context in which ops are executed and not recorded."""

    def __enter__(self) -> None:
        self._old = _engine.set_eager(True)
        self._stop = tape.stop_recording()
        self._stop.__enter__()

    def __exit__(self, *args: Any) -> None:
        self._stop.__exit__(*args)
        _engine.set_eager(self._old)


def _triples(op: Any) -> list[Any]:
    """All attributes of an operation that the op declares."""
    from millrace.python.framework import _op_specs

    spec = _op_specs.spec_of(op.type, op.graph)
    return [(name, "proto", op._attr_proto(name)) for name in spec.attrs]


def _grouped_slots(op: Any, slots: list[int]) -> list[Any]:
    from millrace.python.framework import _op_specs

    spec = _op_specs.spec_of(op.type, op.graph)
    grouped: list[Any] = []
    at = 0
    for arg in spec.inputs:
        if not arg.is_list:
            grouped.append(slots[at])
            at += 1
            continue
        value = op._get_attr(arg.number_attr or arg.type_list_attr)
        count = len(value) if isinstance(value, list) else int(value)
        grouped.append(slots[at : at + count])
        at += count
    return grouped


def _make(record: Any, grads: list[Any], wanted: list[bool], with_sizes: bool = True) -> Program:
    from millrace.python.ops import gradients_impl

    graph = ops.Graph()
    with graph.as_default():
        inputs = [_placeholder(t, "input", with_sizes) for t in record.flat]
        for i in _static(record):
            inputs[i] = constant_op.constant(record.flat[i].numpy())
        op = record.maker.make(graph, record.values, _regrouped(record.inputs, inputs))
        arriving = [None if g is None else _placeholder(g, "grad", with_sizes) for g in grads]
        ys = [(o, g) for o, g in zip(op.outputs, arriving) if g is not None]
        xs = [t for t, w in zip(inputs, wanted) if w]
        found = gradients_impl.gradients([y for y, _ in ys], xs, grad_ys=[g for _, g in ys])
        if len(op.outputs) > len(record.outputs):
            raise NotImplementedError(
                "The gradient of %s needs values that were not kept when it was executed: call it in a tf.function"
                % op.type
            )
        outputs = []
        for tensor, value in zip(op.outputs, record.outputs):
            stand_in = _placeholder(value, "output", with_sizes)
            for consumer in tensor.consumers():
                for i, t in enumerate(consumer.inputs):
                    if t is tensor:
                        consumer._update_input_tensor(i, stand_in)
            outputs.append(stand_in)
    compiler = _Compiler(inputs + outputs + [g for g in arriving if g is not None])
    flat: list[Any] = []
    for g in found:
        if isinstance(g, indexed_slices.IndexedSlices):
            flat += [t for t in (g.values, g.indices, g.dense_shape) if t is not None]
        elif g is not None:
            flat.append(g)
    flat = [outputs[op.outputs.index(t)] if t.op is op else t for t in flat]
    places = iter(compiler.compile(flat))
    by_input: list[Any] = []
    for g in found:
        if isinstance(g, indexed_slices.IndexedSlices):
            by_input.append(
                [None if t is None else next(places) for t in (g.values, g.indices, g.dense_shape)]
            )
        else:
            by_input.append(None if g is None else next(places))
    remaining = iter(by_input)
    compiler.program.results = [next(remaining) if w else None for w in wanted]
    return compiler.program


def _signature(tensor: Any) -> Any:
    data = tensor._handle_data_tuple()
    if data is None:
        return tensor.dtype._type_enum, tensor._shape_tuple()
    return tensor.dtype._type_enum, data[0], None if data[1] is None else tuple(data[1])


def _key(record: Any, grads: list[Any], wanted: list[bool]) -> Any:
    values = record.values
    try:
        hash(values)
    except TypeError:
        values = repr(values)
    groups = tuple(len(x) if isinstance(x, (list, tuple)) else -1 for x in record.inputs)
    return (
        record.maker,
        values,
        groups,
        tuple(_signature(t) for t in record.flat),
        tuple(None if g is None else g._shape_tuple() for g in grads),
        tuple(wanted),
        tuple(record.flat[i]._numpy_array().tobytes() for i in _static(record)),
    )


def _without_sizes(key: Any) -> Any:
    """The key of the program for tensors of the same ranks."""
    inputs = tuple(s if len(s) > 2 else (s[0], len(s[1])) for s in key[3])
    return (*key[:3], inputs, tuple(None if s is None else len(s) for s in key[4]), *key[5:])


def _find_or_make(key: Any, record: Any, grads: list[Any], wanted: list[bool]) -> Program:
    """The program for all sizes if there is one, else one for these."""
    if len(_programs) >= _LIMIT:
        _programs.clear()
        _variants.clear()
    loose = _without_sizes(key)
    program = _programs.get(loose)
    if program is not None:
        return program
    count = _variants[loose] = _variants.get(loose, 0) + 1
    if count == _SIZES:
        try:
            program = _programs[loose] = _make(record, grads, wanted, with_sizes=False)
            return program
        except (ValueError, TypeError, NotImplementedError):
            pass  # a gradient that needs static sizes
    program = _programs[key] = _make(record, grads, wanted)
    return program


def gradients(record: Any, grads: list[Any], wanted: list[bool]) -> list[Any]:
    """The gradient of each input of an op that was executed; None for those that are not wanted.

    Args:
      record: the op.
      grads: the gradient of each output, or None.
      wanted: which inputs' gradients are needed.

    Raises:
      LookupError: the op has no gradient.
    """
    grads = [ops.convert_to_tensor(g) if isinstance(g, indexed_slices.IndexedSlices) else g for g in grads]
    key = _key(record, grads, wanted)
    program = _programs.get(key)
    if program is None:
        with _lock:
            program = _find_or_make(key, record, grads, wanted)
    return program.run(record.flat + record.outputs + [g for g in grads if g is not None])


def is_trainable(dtype: Any) -> bool:
    """Whether gradients flow through tensors of a type."""
    return dtypes.as_dtype(dtype).base_dtype._type_enum in tape._TRAINABLE
