# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Makes operations from arguments of any kind, for generated functions; apply_op for ops by name."""
from __future__ import annotations

import contextlib
import importlib
from typing import Any

from millrace.python import _engine
from millrace.python.framework import _op_specs, dtypes
from millrace.python.framework._op_functions import (  # noqa: F401
    _NONE,
    OpFunction,
    make_op_function,
    result_of,
)

_EagerTensorBase = _engine.EagerTensorBase


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or type(value).__name__ == "_InputList"


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
            wanted = known[arg.type_attr].name
            if isinstance(value, _EagerTensorBase):
                raise _mixed_types(spec, arg, wanted, observed) from None
            raise TypeError(
                "%s type %s of argument '%s'." % (prefix, wanted, sources[arg.type_attr])
            ) from None
        raise
    if arg.is_ref and not converted.dtype._is_ref_dtype:
        raise TypeError(
            "'%s' Op requires that input '%s' be a mutable tensor (e.g.: a tf.Variable)"
            % (spec.name, arg.name)
        )
    return converted


def _mixed_types(spec: Any, arg: Any, wanted: str, observed: str) -> Exception:
    """The error of an eagerly executed op with tensors of two types."""
    from millrace.python.framework import errors_impl

    short = {"float32": "float", "float64": "double"}
    text = (
        "cannot compute %s as input #%d(zero-based) was expected to be a %s tensor but is a %s tensor [Op:%s]"
        % (
            spec.name,
            spec.inputs.index(arg),
            short.get(wanted, wanted),
            short.get(observed, observed),
            spec.name,
        )
    )
    return errors_impl.InvalidArgumentError(None, None, text)


def _is_composite(value: Any) -> bool:
    return type(value).__name__ in ("SparseTensor", "RaggedTensor")


def _note_types(spec: Any, arg: Any, values: Any, known: dict[str, Any], sources: dict[str, str]) -> None:
    """Infers attributes from an input."""
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
                # Empty lists do not determine a type.
                if attr.name not in known and attr.name in defaults:
                    triples.append((attr.name, "type", defaults[attr.name]))
                continue
            if attr.name in attrs:
                if attr.type == "tensor" and attrs[attr.name] is None:
                    continue  # None means the op's default.
                triples.append(_op_specs.attr_triple(spec, attr, attrs[attr.name]))
        # An op that changes a variable through a reference must be on the variable's device.
        with contextlib.ExitStack() as colocated:
            for arg, value in zip(spec.inputs, grouped):
                if arg.is_ref:
                    for tensor in value if arg.is_list else (value,):
                        colocated.enter_context(g.colocate_with(tensor.op))
            return g._make_operation(spec.name, scope, grouped, triples)


def convert_inputs(spec: Any, values: Any) -> tuple[list[Any], dict[str, Any]]:
    """The inputs as tensors, and the attributes that are inferred from them."""
    known: dict[str, Any] = {}
    sources: dict[str, str] = {}
    converted: list[Any] = []
    defaults = _type_defaults(spec)
    if _engine.executing_eagerly():
        # Arguments with a type determine the type of numbers, also of earlier ones.
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
    """Looks up a name that a generated module lacks: without underscore, or an op of another family."""
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
    """(module, function) of a generated function; None if there is none."""
    if not _by_function:
        from millrace.python.ops import _op_index

        for module, function in _op_index.OPS.values():
            _by_function[function] = ("millrace.python.ops." + module, function)
            if function.startswith("_"):
                _by_function.setdefault(function[1:], ("millrace.python.ops." + module, function))
    return _by_function.get(name)


def result_class(op_name: str) -> Any:
    """The named tuple that the function of an op returns, or None."""
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
        """Adds an op, which is already registered with the engine."""
        _op_specs.register(_op_specs.spec_of_op_def(op_def))

    def add_op_list(self, op_list: Any) -> None:
        for op_def in op_list.op:
            self.add_op(op_def)

    def apply_op(self, op_type_name: str, name: Any = None, **keywords: Any) -> Any:
        """Makes an operation; its inputs and attributes are keyword arguments.

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
