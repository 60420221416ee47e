# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Makes operations of arguments of any kind: what the generated functions call, and apply_op for ops by name."""
from __future__ import annotations

import collections
import contextlib
import importlib
import re
from typing import Any

from millrace.python import _engine
from millrace.python.framework import _op_specs, dtypes

_NONE = object()  # in place of a default: there is none
_TensorBase = _engine.TensorBase
_EagerTensorBase = _engine.EagerTensorBase
_namedtuple: Any = collections.namedtuple
_valid_name = re.compile("[A-Za-z0-9.][A-Za-z0-9_.\\-/]*").fullmatch


def _default_graph() -> Any:
    """As ops.get_default_graph, which is put here when it is first called."""
    global _default_graph
    from millrace.python.framework import ops

    _default_graph = ops.get_default_graph
    return _default_graph()


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or type(value).__name__ == "_InputList"


class OpFunction:
    """What a generated function calls with all its arguments in order."""

    __slots__ = ("spec", "text", "result_type", "name", "plain")

    def __init__(
        self, name: str, inputs: str, outputs: str, attrs: Any, parameters: str, defaults: Any
    ) -> None:
        self.name = name
        self.text = (inputs, outputs, attrs, parameters, defaults)
        self.spec: Any = None
        self.result_type: Any = None
        self.plain: Any = (
            None  # for each input its type and attribute; None where lists or references are among them
        )

    def load(self) -> Any:
        """The OpSpec; read when the op is used for the first time."""
        inputs, outputs, attrs, _, _ = self.text
        spec = _op_specs.OpSpec(
            self.name,
            [_op_specs.Arg(text) for text in inputs.split()],
            [_op_specs.Arg(text) for text in outputs.split()],
            [_op_specs.AttrSpec(*attr) for attr in attrs],
        )
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
        """Makes the operation, whatever the arguments are."""
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
        op = apply(spec, inputs, attrs, args[-1])
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
                continue  # The op's own default.
            triples.append(_op_specs.attr_triple(spec, attr, value))
        return triples

    def slow_eager(self, *args: Any) -> Any:
        """Executes the op at once, whatever the arguments are."""
        from millrace.python.eager import execute

        spec = self.spec or self.load()
        for arg in spec.inputs + spec.outputs:
            if arg.is_ref:
                raise RuntimeError(
                    "%s op does not support eager execution. Arg '%s' is a ref."
                    % (execute.function_name(self.name), arg.name)
                )
        count = len(spec.inputs)
        inputs, known = convert_inputs(spec, args[:count])
        triples = self.attr_triples(args[count:-1])
        triples = [_unshared(self.name, triple) for triple in triples]
        values = {name: value for name, _, value in triples}
        for name, default in _type_defaults(spec).items():  # lists that are empty tell no type
            if name not in known:
                triples.append((name, "type", default))
        lengths = [_output_length(arg, known, values) for arg in spec.outputs]
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
        """The operation in a graph that is like one that was executed."""
        spec = self.spec or self.load()
        triples = self.attr_triples(values)
        given = [t for item in inputs for t in (item if isinstance(item, (list, tuple)) else (item,))]
        if not given or any(isinstance(item, (list, tuple)) and not item for item in inputs):
            triples += [(name, "type", kind) for name, kind in _type_defaults(spec).items()]
        return graph._make_operation(self.name, self.name, list(inputs), triples)

    __call__ = slow


def _unshared(op_name: str, triple: Any) -> Any:
    """An attribute, where a resource that has no name gets one of its own: its kernel lives on."""
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


def convert_inputs(spec: Any, values: Any) -> tuple[list[Any], dict[str, Any]]:
    """The inputs as tensors, and what they tell of the attributes."""
    known: dict[str, Any] = {}
    sources: dict[str, str] = {}
    converted: list[Any] = []
    defaults = _type_defaults(spec)
    if _engine.executing_eagerly():
        # What has a type says what numbers become, wherever it stands.
        for arg, value in zip(spec.inputs, values):
            if arg.type_attr and not arg.is_list and isinstance(value, _EagerTensorBase):
                defaults = {**defaults, arg.type_attr: value.dtype}
    for arg, value in zip(spec.inputs, values):
        if arg.is_list:
            value = _convert_list(spec, arg, value, known, defaults)
            _note_types(spec, arg, value, known, sources)
        else:
            value = _convert_single(spec, arg, value, known, defaults, sources)
            _note_types(spec, arg, [value], known, sources)
        converted.append(value)
    return converted, known


def make_op_function(name: str, inputs: str, outputs: str, attrs: Any, parameters: str, defaults: Any) -> Any:
    """The callable behind a generated function."""
    function = OpFunction(name, inputs, outputs, attrs, parameters, defaults)
    fast = getattr(_engine, "OpFunction", None)
    return fast(function, name, inputs, outputs, attrs, parameters, defaults, _NONE) if fast else function


def result_of(spec: Any, op: Any, result_type: Any = None) -> Any:
    """What a function gives for an operation: a tensor, a list, a named tuple, or the operation."""
    outputs = op.outputs
    if not spec.outputs:
        return op
    if len(spec.outputs) == 1:
        # An op whose only output is an empty list gives the operation.
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


# --- Conversion of inputs


def _list_dtype(arg: Any, values: Any, known: dict[str, Any]) -> Any:
    if arg.type:
        return dtypes.as_dtype(arg.type)
    if arg.number_attr:
        if arg.type_attr in known:
            return known[arg.type_attr]
        for t in values:
            if isinstance(t, _engine.TensorBase):
                return t.dtype.base_dtype
    return None


def _convert_list(spec: Any, arg: Any, values: Any, known: dict[str, Any], defaults: Any) -> list[Any]:
    from millrace.python.framework import ops

    if not _is_list(values):
        raise TypeError("Expected list for '%s' argument to '%s' Op, not %s." % (arg.name, spec.name, values))
    dtype = _list_dtype(arg, values, known)
    preferred = None if dtype is not None else defaults.get(arg.type_attr)
    try:
        converted = ops.internal_convert_n_to_tensor(
            values,
            name=arg.name,
            dtype=None if arg.is_ref else dtype,
            preferred_dtype=preferred,
            as_ref=arg.is_ref,
        )
        if arg.number_attr and len({v.dtype.base_dtype for v in converted}) > 1:
            raise TypeError()
        return converted
    except (TypeError, ValueError) as error:
        observed = []
        for value in values:
            try:
                observed.append(
                    ops.internal_convert_to_tensor(value, as_ref=arg.is_ref).dtype.base_dtype.name
                )
            except (TypeError, ValueError):
                observed.append("<NOT CONVERTIBLE TO TENSOR>")
        prefix = "Tensors in list passed to '%s' of '%s' Op have types [%s]" % (
            arg.name,
            spec.name,
            ", ".join(observed),
        )
        if arg.number_attr:
            if arg.type != 0:
                raise TypeError(
                    "%s that do not match expected type %s." % (prefix, dtypes.as_dtype(arg.type).name)
                ) from error
            if arg.type_attr in known:
                raise TypeError(
                    "%s that do not match type %s inferred from earlier arguments."
                    % (prefix, known[arg.type_attr].name)
                ) from error
            raise TypeError("%s that don't all match." % prefix) from error
        raise TypeError("%s that are invalid. Tensors: %s" % (prefix, values)) from error


def _convert_single(
    spec: Any, arg: Any, value: Any, known: dict[str, Any], defaults: Any, sources: dict[str, str]
) -> Any:
    from millrace.python.framework import ops

    dtype, preferred = None, None
    if arg.type:
        dtype = dtypes.as_dtype(arg.type)
    elif arg.type_attr in known:
        dtype = known[arg.type_attr]
    else:
        preferred = defaults.get(arg.type_attr)
    if _is_composite(value):
        raise TypeError(
            "Failed to convert object of type %s to Tensor. Contents: %s. Consider casting elements to a supported type."
            % (type(value), value)
        )
    try:
        converted = ops.internal_convert_to_tensor(
            value, name=arg.name, dtype=dtype, as_ref=arg.is_ref, preferred_dtype=preferred
        )
    except TypeError as err:
        if dtype is None:
            raise err
        raise TypeError(
            "Expected %s passed to parameter '%s' of op '%s', got %s of type '%s' instead. Error: %s"
            % (dtype.name, arg.name, spec.name, repr(value), type(value).__name__, err)
        ) from err
    except ValueError:
        try:
            observed = ops.internal_convert_to_tensor(value, as_ref=arg.is_ref).dtype.name
        except ValueError as err:
            raise ValueError(
                "Tried to convert '%s' to a tensor and failed. Error: %s" % (arg.name, err)
            ) from err
        prefix = "Input '%s' of '%s' Op has type %s that does not match" % (arg.name, spec.name, observed)
        if arg.type:
            raise TypeError("%s expected type of %s." % (prefix, dtypes.as_dtype(arg.type).name)) from None
        if arg.type_attr in sources:
            raise TypeError(
                "%s type %s of argument '%s'." % (prefix, known[arg.type_attr].name, sources[arg.type_attr])
            ) from None
        raise
    if arg.is_ref and not converted.dtype._is_ref_dtype:
        raise TypeError(
            "'%s' Op requires that input '%s' be a mutable tensor (e.g.: a tf.Variable)"
            % (spec.name, arg.name)
        )
    return converted


def _is_composite(value: Any) -> bool:
    return type(value).__name__ in ("SparseTensor", "RaggedTensor")


def _note_types(spec: Any, arg: Any, values: Any, known: dict[str, Any], sources: dict[str, str]) -> None:
    """Takes what an input tells of the attributes."""
    types = [v.dtype.base_dtype for v in values]
    if arg.number_attr:
        known_count = known.get(arg.number_attr)
        if known_count is not None and known_count != len(values):
            raise ValueError(
                "List argument '%s' to '%s' Op with length %d must match length %d of argument '%s'."
                % (arg.name, spec.name, len(values), known_count, sources[arg.number_attr])
            )
        attr = spec.attrs[arg.number_attr]
        if known_count is None and attr.minimum is not None and len(values) < attr.minimum:
            raise ValueError(
                "List argument '%s' to '%s' Op with length %d shorter than minimum length %d."
                % (arg.name, spec.name, len(values), attr.minimum)
            )
        known[arg.number_attr] = len(values)
        sources.setdefault(arg.number_attr, arg.name)
    if arg.type_attr:
        if not types:
            return
        if arg.type_attr not in known:
            _op_specs.satisfies_type(types[0], spec.attrs[arg.type_attr], arg.name)
            known[arg.type_attr] = types[0]
            sources[arg.type_attr] = arg.name
        elif known[arg.type_attr] != types[0]:
            raise TypeError(
                "Input '%s' of '%s' Op has type %s that does not match type %s of argument '%s'."
                % (
                    arg.name,
                    spec.name,
                    types[0].name,
                    known[arg.type_attr].name,
                    sources.get(arg.type_attr, arg.type_attr),
                )
            )
    elif arg.type_list_attr:
        attr = spec.attrs[arg.type_list_attr]
        if attr.minimum is not None and len(types) < attr.minimum:
            raise ValueError(
                "List argument '%s' to '%s' Op with length %d shorter than minimum length %d."
                % (arg.name, spec.name, len(types), attr.minimum)
            )
        if arg.type_list_attr in known and known[arg.type_list_attr] != types:
            raise TypeError(
                "Input '%s' of '%s' Op has type list of %s that does not match type list %s of argument '%s'."
                % (
                    arg.name, spec.name, ", ".join(t.name for t in types),
                    ", ".join(t.name for t in known[arg.type_list_attr]), sources[arg.type_list_attr],
                )
            )  # fmt: skip
        for t in types:
            _op_specs.satisfies_type(t, attr, arg.name)
        known[arg.type_list_attr] = types
        sources[arg.type_list_attr] = arg.name


def apply(spec: Any, inputs: dict[str, Any], attrs: dict[str, Any], name: Any) -> Any:
    """Makes an operation: converts the inputs, infers attributes, checks all of them."""
    from millrace.python.framework import ops

    flat = [inputs[arg.name] for arg in spec.inputs]
    g = ops._get_graph_from_inputs(flat)
    defaults = _type_defaults(spec)
    with g.as_default(), ops.name_scope(name, spec.name) as scope:
        grouped, known = convert_inputs(spec, flat)
        triples = []
        for attr in spec.attrs.values():
            if attr.name in spec.inferred:
                # Lists that are empty tell no type.
                if attr.name not in known and attr.name in defaults:
                    triples.append((attr.name, "type", defaults[attr.name]))
                continue
            if attr.name in attrs:
                if attr.type == "tensor" and attrs[attr.name] is None:
                    continue  # The op's own default.
                triples.append(_op_specs.attr_triple(spec, attr, attrs[attr.name]))
        # What changes a variable behind a reference must be where the variable is.
        with contextlib.ExitStack() as colocated:
            for arg, value in zip(spec.inputs, grouped):
                if arg.is_ref:
                    for tensor in value if arg.is_list else (value,):
                        colocated.enter_context(g.colocate_with(tensor.op))
            return g._make_operation(spec.name, scope, grouped, triples)


def _type_defaults(spec: Any) -> dict[str, Any]:
    """Types that inferred attributes have by default, from the op's definition."""
    found = spec.type_defaults
    if found is None:
        found = {
            a.name: dtypes.as_dtype(a.default)
            for a in spec.attrs.values()
            if a.default and a.name in spec.inferred
        }
        spec.type_defaults = found
    return found


def gen_module_getattr(module: str, aliases: dict[str, str], name: str) -> Any:
    """What a generated module gives for a name that it lacks: names without underscore, and ops of other families."""
    import sys

    if name in aliases:
        return getattr(sys.modules[module], aliases[name])
    if not name.startswith("__"):
        found = function_of_name(name)
        if found is not None and found[0] != module:
            return getattr(importlib.import_module(found[0]), found[1])
        result = result_class(name)
        if result is not None:
            return result
    raise AttributeError("module %r has no attribute %r" % (module, name))


_by_function: dict[str, tuple[str, str]] = {}


def function_of_name(name: str) -> Any:
    """(module, function) of a generated function; None when there is none."""
    if not _by_function:
        from millrace.python.ops import _op_index

        for module, function in _op_index.OPS.values():
            _by_function[function] = ("millrace.python.ops." + module, function)
            if function.startswith("_"):
                _by_function.setdefault(function[1:], ("millrace.python.ops." + module, function))
    return _by_function.get(name)


def result_class(op_name: str) -> Any:
    """The named tuple that the function of an op gives, or None."""
    from millrace.python.ops import _op_index

    entry = _op_index.OPS.get(op_name)
    if entry is None:
        return None
    module = importlib.import_module("millrace.python.ops." + entry[0])
    function = getattr(module, "_spec_" + op_name)
    function = getattr(function, "slow_function", function)
    if function.spec is None:
        function.load()
    return function.result_type


class OpDefLibrary:
    """Makes operations by the names of their ops."""

    def __init__(self) -> None:
        self._ops: dict[str, Any] = {}

    def add_op(self, op_def: Any) -> None:
        """Adds an op; the engine knows it already."""
        _op_specs.register(_op_specs.spec_of_op_def(op_def))

    def add_op_list(self, op_list: Any) -> None:
        for op_def in op_list.op:
            self.add_op(op_def)

    def apply_op(self, op_type_name: str, name: Any = None, **keywords: Any) -> Any:
        """Makes an operation; what its inputs and attributes are is told by keyword.

        Raises:
          RuntimeError: if there is no such op.
          TypeError: if an argument is missing, unknown or of the wrong type.
          ValueError: if an argument is wrong in another way.
        """
        from millrace.python.framework import ops

        spec = _op_specs.spec_of(op_type_name, ops.get_default_graph())
        inputs = {}
        for arg in spec.inputs:
            if arg.name in keywords:
                inputs[arg.name] = keywords.pop(arg.name)
            elif arg.name + "_" in keywords:
                inputs[arg.name] = keywords.pop(arg.name + "_")
            else:
                raise TypeError("No argument for input " + arg.name)
        attrs = {}
        for attr in list(spec.attrs):
            if attr in keywords:
                if attr in spec.inferred:
                    raise TypeError("Should not specify value for inferred attr '%s'." % attr)
                attrs[attr] = keywords.pop(attr)
                if (
                    attrs[attr] is None
                    and spec.attrs[attr].type != "shape"
                    and _has_default(op_type_name, attr)
                ):
                    del attrs[attr]
            elif attr + "_" in keywords:
                attrs[attr] = keywords.pop(attr + "_")
            elif attr not in spec.inferred and not _has_default(op_type_name, attr):
                raise TypeError("No argument for attr " + attr)
        if keywords:
            raise TypeError("apply_op() got unexpected keyword arguments: " + ", ".join(sorted(keywords)))
        op = apply(spec, inputs, attrs, name)
        return result_of(spec, op)


def _has_default(op_type: str, attr_name: str) -> bool:
    from millrace.python.framework import ops

    op_def = ops.get_default_graph()._get_op_def(op_type)
    return any(attr.name == attr_name and attr.HasField("default_value") for attr in op_def.attr)


_library = OpDefLibrary()
apply_op = _library.apply_op
