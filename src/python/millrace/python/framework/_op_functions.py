# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions that the generated op functions call."""
from __future__ import annotations

import collections
import re
from typing import Any

from millrace.python import _engine
from millrace.python.framework import _op_specs

_NONE = object()  # marks arguments without a default
_TensorBase = _engine.TensorBase
_EagerTensorBase = _engine.EagerTensorBase
_namedtuple: Any = collections.namedtuple
_valid_name = re.compile("[A-Za-z0-9.][A-Za-z0-9_.\\-/]*").fullmatch


def _default_graph() -> Any:
    """As ops.get_default_graph, which replaces this function at the first call."""
    global _default_graph
    from millrace.python.framework import ops

    _default_graph = ops.get_default_graph
    return _default_graph()


# Ops that call functions.
_CALLS = frozenset("If StatelessIf Case While StatelessWhile PartitionedCall StatefulPartitionedCall".split())


class OpFunction:
    """The implementation of a generated function, which calls it with all its arguments in order."""

    __slots__ = ("spec", "text", "result_type", "name", "plain")

    def __init__(
        self, name: str, inputs: str, outputs: str, attrs: Any, parameters: str, defaults: Any
    ) -> None:
        self.name = name
        self.text = (inputs, outputs, attrs, parameters, defaults)
        self.spec: Any = None
        self.result_type: Any = None
        self.plain: Any = (
            None  # type and type attribute of each input; None if inputs are lists or references
        )

    def load(self) -> Any:
        """The OpSpec; read when the op is used for the first time."""
        inputs, outputs, attrs, _, _ = self.text
        return self._adopt(
            _op_specs.OpSpec(
                self.name,
                [_op_specs.Arg(text) for text in inputs.split()],
                [_op_specs.Arg(text) for text in outputs.split()],
                [_op_specs.AttrSpec(*attr) for attr in attrs],
            )
        )

    @classmethod
    def of_spec(cls, spec: Any, parameters: list[str]) -> OpFunction:
        """Makes one of an OpSpec; `parameters`: the inputs, attributes and `name`, in order."""
        function = cls(spec.name, "", "", (), " ".join(parameters), (_NONE,) * len(parameters))
        function._adopt(spec)
        return function

    def _adopt(self, spec: Any) -> Any:
        if len(spec.outputs) > 1:
            names: Any = [a.name for a in spec.outputs]
            self.result_type = _namedtuple(self.name, names, rename=True)
        self.spec = spec
        if spec.inputs and not any(a.is_list or a.is_ref for a in spec.inputs):
            allowed = {a.name: frozenset(a.allowed) for a in spec.attrs.values()}
            self.plain = [(a.type, a.type_attr, allowed.get(a.type_attr)) for a in spec.inputs]
        return spec

    def _of_tensors(self, spec: Any, args: tuple[Any, ...]) -> Any:
        """The operation, if all inputs are tensors of the default graph with the right types; else None."""
        graph = _default_graph()
        known: dict[str, Any] = {}
        inputs = []
        for (number, attr, allowed), value in zip(self.plain, args):
            if (
                not isinstance(value, _TensorBase)
                or isinstance(value, _EagerTensorBase)
                or value.graph is not graph
            ):
                return None
            dtype = value.dtype
            if number:
                if dtype._type_enum != number:
                    return None
            else:
                other = known.get(attr)
                if other is None:
                    if dtype._type_enum > 100 or allowed and dtype._type_enum not in allowed:
                        return None
                    known[attr] = dtype
                elif other is not dtype:
                    return None
            inputs.append(value)
        name = args[-1]
        if name is None:
            name = spec.name
        elif type(name) is not str or not _valid_name(name):
            return None
        triples = []
        for attr_name, default, value in zip(self.text[3].split(), self.text[4], args[len(inputs) : -1]):
            if value is None and default is not _NONE:
                value = default
            triples.append(_op_specs.attr_triple(spec, spec.attrs[attr_name], value))
        return graph._make_operation(spec.name, name, inputs, triples)

    def slow(self, *args: Any) -> Any:
        """Makes the operation, for arguments of any kind."""
        spec = self.spec or self.load()
        if self.plain is not None:
            op = self._of_tensors(spec, args)
            if op is not None:
                if len(spec.outputs) == 1 and not spec.outputs[0].is_list:
                    return op.outputs[0]
                return result_of(spec, op, self.result_type)
        count = len(spec.inputs)
        inputs = dict(zip([a.name for a in spec.inputs], args[:count]))
        attrs = {}
        for name, default, value in zip(self.text[3].split(), self.text[4], args[count:-1]):
            if value is None and default is not _NONE:
                value = default
            attrs[name] = value
        from millrace.python.framework import op_def_library

        op = op_def_library.apply(spec, inputs, attrs, args[-1])
        return result_of(spec, op, self.result_type)

    def attr_triples(self, values: Any) -> list[Any]:
        """(name, kind, value) of attributes in the order of the function's arguments."""
        spec = self.spec or self.load()
        triples = []
        for name, default, value in zip(self.text[3].split(), self.text[4], values):
            if value is None and default is not _NONE:
                value = default
            attr = spec.attrs[name]
            if attr.type == "tensor" and value is None:
                continue  # None means the op's default.
            triples.append(_op_specs.attr_triple(spec, attr, value))
        return triples

    def slow_eager(self, *args: Any) -> Any:
        """Executes the op eagerly, for arguments of any kind."""
        from millrace.python.eager import execute
        from millrace.python.framework import op_def_library

        spec = self.spec or self.load()
        for arg in spec.inputs + spec.outputs:
            if arg.is_ref:
                raise RuntimeError(
                    "%s op does not support eager execution. Arg '%s' is a ref."
                    % (execute.function_name(self.name), arg.name)
                )
        count = len(spec.inputs)
        inputs, known = op_def_library.convert_inputs(spec, args[:count])
        triples = self.attr_triples(args[count:-1])
        triples = [_unshared(self.name, triple) for triple in triples]
        values = {name: value for name, _, value in triples}
        for name, default in op_def_library._type_defaults(spec).items():  # types of empty lists
            if name not in known:
                triples.append((name, "type", default))
        lengths = [_output_length(arg, known, values) for arg in spec.outputs]
        outputs = None
        if self.name in _CALLS:
            from millrace.python.eager import _eager_calls

            outputs = _eager_calls.call_op(self.name, inputs, triples)
        if outputs is None:
            outputs = execute.run(self.name, inputs, triples, sum(lengths), args[-1])
            execute.record(self, args[count:-1], inputs, outputs)
        if not spec.outputs:
            return None
        parts: list[Any] = []
        at = 0
        for arg, length in zip(spec.outputs, lengths):
            parts.append(outputs[at : at + length] if arg.is_list else outputs[at])
            at += length
        return parts[0] if len(parts) == 1 else self.result_type._make(parts)

    def _named(self, values: Any) -> Any:
        """The results of an op with several outputs."""
        if self.spec is None:
            self.load()
        return self.result_type._make(values)

    def make(self, graph: Any, values: Any, inputs: Any) -> Any:
        """Makes the graph operation for an executed one."""
        from millrace.python.framework import op_def_library

        spec = self.spec or self.load()
        triples = self.attr_triples(values)
        given = [t for item in inputs for t in (item if isinstance(item, (list, tuple)) else (item,))]
        if not given or any(isinstance(item, (list, tuple)) and not item for item in inputs):
            triples += [(name, "type", kind) for name, kind in op_def_library._type_defaults(spec).items()]
        return graph._make_operation(self.name, self.name, list(inputs), triples)

    __call__ = slow


def _unshared(op_name: str, triple: Any) -> Any:
    """An attribute triple; a resource without a name gets a unique one, since kernels are reused."""
    if triple[0] != "shared_name" or triple[2] or op_name == "VarHandleOp":
        return triple
    from millrace.python.framework import ops

    return "shared_name", "string", "eager_%d" % ops.uid()


def _output_length(arg: Any, known: dict[str, Any], values: dict[str, Any]) -> int:
    if not arg.is_list:
        return 1
    name = arg.number_attr or arg.type_list_attr
    value = known[name] if name in known else values[name]
    return value if isinstance(value, int) else len(value)


def make_op_function(name: str, inputs: str, outputs: str, attrs: Any, parameters: str, defaults: Any) -> Any:
    """The callable behind a generated function."""
    function = OpFunction(name, inputs, outputs, attrs, parameters, defaults)
    fast = getattr(_engine, "OpFunction", None)
    return fast(function, name, inputs, outputs, attrs, parameters, defaults, _NONE) if fast else function


def result_of(spec: Any, op: Any, result_type: Any = None) -> Any:
    """The result of an op function: a tensor, a list, a named tuple, or the operation."""
    outputs = op.outputs
    if not spec.outputs:
        return op
    if len(spec.outputs) == 1:
        # For an op whose only output is an empty list the result is the operation.
        return (list(outputs) or op) if spec.outputs[0].is_list else outputs[0]
    values, at = [], 0
    for arg in spec.outputs:
        if not arg.is_list:
            values.append(outputs[at])
            at += 1
            continue
        if arg.number_attr:
            count = int(op._get_attr(arg.number_attr))
        else:
            count = len(op._get_attr(arg.type_list_attr))
        values.append(list(outputs[at : at + count]))
        at += count
    return result_type._make(values) if result_type is not None else values
