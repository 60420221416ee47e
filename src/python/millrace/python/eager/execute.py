# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Executes ops eagerly, for generated code."""
from __future__ import annotations

import re
from typing import Any

from millrace.python import _engine
from millrace.python.eager import context, tape
from millrace.python.framework import _op_specs, dtypes, errors_impl, ops


def function_name(op_name: str) -> str:
    """ "MatMul" -> "mat_mul"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", op_name).lower()


def eager_triples(triples: Any) -> list[Any]:
    """Attributes as the extension takes them for eager ops: messages are replaced by the values in them."""
    found = []
    for name, kind, value in triples:
        if kind != "proto":
            found.append((name, kind, value))
            continue
        from millrace.core.framework import attr_value_pb2

        found.append(_of_message(name, attr_value_pb2.AttrValue.FromString(value)))
    return found


def _of_message(name: str, message: Any) -> tuple[str, str, Any]:
    from millrace.python.framework import tensor_util

    kind = message.WhichOneof("value")
    if kind == "func":
        return name, "func", _executable(message.func.name)
    if kind == "tensor":
        return name, "array", tensor_util.MakeNdarray(message.tensor)
    if kind == "list":
        if message.list.func:
            return name, "list(func)", [_executable(f.name) for f in message.list.func]
        for field, text in (("i", "int"), ("f", "float"), ("b", "bool"), ("s", "string"), ("type", "type")):
            values = list(getattr(message.list, field))
            if values:
                return name, "list(%s)" % text, values
        sizes = [None if s.unknown_rank else [d.size for d in s.dim] for s in message.list.shape]
        return name, "list(shape)" if sizes else "list(int)", sizes
    if kind == "shape":
        shape = message.shape
        return name, "shape", None if shape.unknown_rank else [d.size for d in shape.dim]
    field, text = {
        "i": ("i", "int"), "f": ("f", "float"), "b": ("b", "bool"), "s": ("s", "string"), "type": ("type", "type"),
    }[str(kind)]  # fmt: skip
    return name, text, getattr(message, field)


def _executable(name: str) -> str:
    """The name of a function in the context, to which it is added from the default graph if necessary."""
    if not _engine.eager_has_function(name):
        function = ops.get_default_graph()._get_function(name)
        if function is not None:
            add_function(function)
    return name


def add_function(function: Any) -> None:
    """Lets the context execute a function and those that it calls."""
    if _engine.eager_has_function(function.name):
        return
    graph = getattr(function, "graph", None) or getattr(function, "_graph", None)
    for inner in getattr(graph, "_functions", {}).values():
        if inner is not function:
            add_function(inner)
    definition = getattr(function, "definition", None)
    _engine.eager_add_function(definition.SerializeToString())  # type: ignore[union-attr]


def run(op_name: str, inputs: Any, triples: Any, num_outputs: int, name: Any = None) -> list[Any]:
    """Executes an op without recording it on tapes."""
    if not context._context or not context._context._started:
        context.ensure_initialized()
    try:
        return _engine.eager_execute(op_name, None, inputs, eager_triples(triples), num_outputs)  # type: ignore[no-any-return]
    except errors_impl.OpError as error:
        if name is None:
            raise
        raise type(error)(None, None, "%s name: %s" % (error.message, name)) from None  # type: ignore[call-arg]


def record(maker: Any, values: Any, inputs: Any, outputs: Any) -> None:
    """Records an executed op on the tapes."""
    if tape._state.active or tape._callbacks:
        tape._record(maker, values, inputs, outputs)


class RawOp:
    """An op by name with its attributes."""

    def __init__(self, name: str, triples: Any, num_outputs: int) -> None:
        self.name = name
        self.triples = triples
        self.num_outputs = num_outputs
        self._eager: Any = None

    def __call__(self, inputs: Any) -> list[Any]:
        """Executes it."""
        if self._eager is None:
            self._eager = eager_triples(self.triples)
        outputs = _engine.eager_execute(self.name, None, inputs, self._eager, self.num_outputs)
        if tape._state.active or tape._callbacks:
            tape._record(self, (), inputs, outputs)
        return outputs  # type: ignore[no-any-return]

    def make(self, graph: Any, values: Any, inputs: Any) -> Any:
        """The operation in a graph."""
        del values
        return graph._make_operation(self.name, self.name, list(inputs), list(self.triples))


def execute(
    op_name: Any, num_outputs: int, inputs: Any, attrs: Any, ctx: Any = None, name: Any = None
) -> list[Any]:
    """Executes an op, or a function in the context.

    Args:
      op_name: its name.
      num_outputs: the number of outputs.
      inputs: tensors in order, those of lists one by one.
      attrs: name, value, name, value, ...
      ctx: ignored.
      name: for errors.
    """
    op_name = op_name.decode() if isinstance(op_name, bytes) else op_name
    pairs = dict(zip(attrs[::2], attrs[1::2])) if attrs else {}
    if _engine.eager_has_function(op_name):
        return run(op_name, inputs, [], num_outputs, name)
    grouped, triples = _op_specs.group_inputs(ops.get_default_graph(), op_name, list(inputs), pairs)
    outputs = run(op_name, grouped, triples, num_outputs, name)
    record(RawOp(op_name, triples, num_outputs), (), grouped, outputs)
    return outputs


quick_execute = execute_with_callbacks = execute


def record_gradient(
    unused_op_name: Any, unused_inputs: Any, unused_attrs: Any, unused_results: Any, unused_name: Any = None
) -> None:
    """Does nothing: `execute` records on the tapes."""


def make_float(v: Any, arg_name: str) -> float:
    return _op_specs._make_float(v, arg_name)


def make_int(v: Any, arg_name: str) -> int:
    return _op_specs._make_int(v, arg_name)


def make_str(v: Any, arg_name: str) -> Any:
    return _op_specs._make_str(v, arg_name)


def make_bool(v: Any, arg_name: str) -> bool:
    return _op_specs._make_bool(v, arg_name)


def make_type(v: Any, arg_name: str) -> Any:
    return _op_specs._make_type(v, arg_name).as_datatype_enum


def make_shape(v: Any, arg_name: str) -> Any:
    return _op_specs._make_shape(v, arg_name)


def make_tensor(v: Any, arg_name: str) -> Any:
    return _op_specs._make_tensor(v, arg_name)


def args_to_matching_eager(args: Any, ctx: Any, default_dtype: Any = None) -> tuple[Any, list[Any]]:
    """Converts `args` to tensors of one type: that of the first tensor among them, else the default."""
    found = next((a.dtype.base_dtype for a in args if isinstance(a, ops.Tensor)), None)
    tensors = []
    for arg in args:
        tensor = ops.internal_convert_to_tensor(arg, found, preferred_dtype=default_dtype)
        found = found or tensor.dtype.base_dtype
        tensors.append(tensor)
    return (found or dtypes.as_dtype(default_dtype)).as_datatype_enum, tensors


def convert_to_mixed_eager_tensors(values: Any, ctx: Any = None) -> tuple[list[Any], list[Any]]:
    """Tensors of whatever types, and their types."""
    made = [ops.internal_convert_to_tensor(v) for v in values]
    return [t.dtype for t in made], made
