# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The inputs and attributes of an op, and the conversion of arguments to them."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from millrace.python.framework import dtypes, tensor_shape


class Arg:
    """An input or output of an op."""

    __slots__ = ("name", "is_ref", "type", "type_attr", "number_attr", "type_list_attr")

    def __init__(self, text: str) -> None:
        self.name, _, kind = text.partition(":")
        self.is_ref = kind.startswith("&")
        kind = kind.lstrip("&")
        self.type, self.type_attr, self.number_attr, self.type_list_attr = 0, "", "", ""
        if kind.startswith("*"):
            self.type_list_attr = kind[1:]
            return
        if "*" in kind:
            self.number_attr, kind = kind.split("*")
        if kind.startswith("#"):
            self.type = int(kind[1:])
        else:
            self.type_attr = kind

    @property
    def is_list(self) -> bool:
        return bool(self.number_attr or self.type_list_attr)


class AttrSpec:
    """An attribute of an op: its type, the values it may have."""

    __slots__ = ("name", "type", "allowed", "minimum", "default")

    def __init__(self, name: str, kind: str, allowed: Any, minimum: Optional[int], default: int = 0) -> None:
        self.name, self.type, self.allowed, self.minimum = name, kind, allowed, minimum
        self.default = default  # allowed types


class OpSpec:
    """The inputs, outputs and attributes of an op, without the messages of the wire format."""

    def __init__(self, name: str, inputs: list[Arg], outputs: list[Arg], attrs: list[AttrSpec]) -> None:
        self.name, self.inputs, self.outputs = name, inputs, outputs
        self.attrs = {attr.name: attr for attr in attrs}
        self.type_defaults: Any = None  # names of inferred attributes
        self.inferred = {n for a in inputs for n in (a.type_attr, a.number_attr, a.type_list_attr) if n}


_ALL: dict[str, OpSpec] = {}


def _arg_text(arg: Any) -> str:
    kind = "*" + arg.type_list_attr if arg.type_list_attr else (arg.type_attr or "#%d" % arg.type)
    if arg.number_attr:
        kind = arg.number_attr + "*" + kind
    return "%s:%s%s" % (arg.name, "&" if arg.is_ref else "", kind)


def spec_of_op_def(op_def: Any) -> OpSpec:
    """The OpSpec of an OpDef message."""
    attrs = []
    for attr in op_def.attr:
        values = attr.allowed_values.list
        allowed = tuple(values.type) or tuple(s.decode() for s in values.s)
        attrs.append(
            AttrSpec(
                attr.name,
                attr.type,
                allowed,
                attr.minimum if attr.has_minimum else None,
                attr.default_value.type,
            )
        )
    return OpSpec(
        op_def.name,
        [Arg(_arg_text(a)) for a in op_def.input_arg],
        [Arg(_arg_text(a)) for a in op_def.output_arg],
        attrs,
    )


def spec_of(op_type: str, graph: Any = None) -> OpSpec:
    """The OpSpec of an op or of a function of the graph; RuntimeError if there is none."""
    found = _ALL.get(op_type)
    if found is not None:
        return found
    from millrace.python.framework import errors_impl, ops

    try:
        op_def = (graph or ops.get_default_graph())._get_op_def(op_type)
    except errors_impl.OpError:
        raise RuntimeError("Unrecognized Op name " + op_type) from None
    found = spec_of_op_def(op_def)
    if graph is None or op_type not in graph._functions:
        _ALL[op_type] = found
    return found


def register(spec: OpSpec) -> None:
    _ALL[spec.name] = spec


# --- Checks of values, with TensorFlow's texts


def _type_names(numbers: Any) -> str:
    return ", ".join(dtypes.as_dtype(number).name for number in numbers)


def satisfies_type(dtype: Any, attr: AttrSpec, argument: str) -> None:
    """Raises TypeError if an attribute cannot be this type."""
    if attr.allowed and dtype.as_datatype_enum not in attr.allowed:
        raise TypeError(
            "Value passed to parameter '%s' has DataType %s not in list of allowed values: %s"
            % (argument, dtype.name, _type_names(attr.allowed))
        )


def _make_bool(value: Any, name: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError("Expected bool for argument '%s' not %s." % (name, repr(value)))
    return bool(value)


def _make_int(value: Any, name: str) -> int:
    if isinstance(value, (str, bytes)):
        raise TypeError("Expected int for argument '%s' not %s." % (name, repr(value)))
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError("Expected int for argument '%s' not %s." % (name, repr(value))) from None
    if not -(2**63) <= number < 2**63:
        raise ValueError("Value out of range: %d" % number)
    return number


def _make_float(value: Any, name: str) -> float:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError("Expected float for argument '%s' not %s." % (name, repr(value)))
    return float(value)


def _make_str(value: Any, name: str) -> Any:
    if not isinstance(value, (str, bytes)):
        raise TypeError("Expected string for argument '%s' not %s." % (name, repr(value)))
    return value


def _make_type(value: Any, name: str) -> Any:
    try:
        return dtypes.as_dtype(value).base_dtype
    except TypeError:
        raise TypeError("Expected DataType for argument '%s' not %s." % (name, repr(value))) from None


def _make_shape(value: Any, name: str) -> Any:
    if isinstance(value, tensor_shape.TensorShape):
        return value._sizes
    try:
        if (
            value is not None
            and hasattr(value, "__iter__")
            and not isinstance(value, str)
            and not hasattr(value, "unknown_rank")
        ):
            value = [None if isinstance(v, int) and v == -1 else v for v in value]
        return tensor_shape.as_shape(value)._sizes
    except TypeError as e:
        raise TypeError(
            "Error converting %s (arg name = %s) to a TensorShape: %s" % (repr(value), name, e)
        ) from None
    except ValueError as e:
        raise ValueError(
            "Error converting %s (arg name = %s) to a TensorShape: %s" % (repr(value), name, e)
        ) from None


def _make_tensor(value: Any, name: str) -> bytes:
    from millrace.core.framework import attr_value_pb2, tensor_pb2

    if isinstance(value, str):
        from google.protobuf import text_format

        try:
            value = text_format.Parse(value, tensor_pb2.TensorProto())
        except text_format.ParseError as error:
            raise ValueError("%r is not a TensorProto (argument '%s'): %s" % (value, name, error)) from None
    if not isinstance(value, tensor_pb2.TensorProto):
        raise TypeError(
            "Don't know how to convert %s to a TensorProto for argument '%s'" % (repr(value), name)
        )
    return attr_value_pb2.AttrValue(tensor=value).SerializeToString()


def _function_message(value: Any, name: str) -> Any:
    from millrace.core.framework import attr_value_pb2

    if isinstance(value, attr_value_pb2.NameAttrList):
        return value
    if isinstance(value, (str, bytes)):
        return attr_value_pb2.NameAttrList(name=value)
    if hasattr(value, "add_to_graph"):
        from millrace.python.framework import ops

        value.add_to_graph(ops.get_default_graph())
        return attr_value_pb2.NameAttrList(name=value.name)
    raise TypeError("Don't know how to convert %s to a func for argument %s" % (repr(value), name))


def _make_func(value: Any, name: str) -> bytes:
    from millrace.core.framework import attr_value_pb2

    return attr_value_pb2.AttrValue(func=_function_message(value, name)).SerializeToString()


def _make_protos(kind: str, value: Any, name: str) -> bytes:
    from millrace.core.framework import attr_value_pb2

    message = attr_value_pb2.AttrValue()
    message.list.SetInParent()
    for item in value:
        if kind == "func":
            message.list.func.add().CopyFrom(_function_message(item, name))
        else:
            message.list.tensor.add().CopyFrom(item)
    return message.SerializeToString()


_MAKERS = {
    "bool": _make_bool,
    "int": _make_int,
    "float": _make_float,
    "string": _make_str,
    "type": _make_type,
    "shape": _make_shape,
}


def _check(attr: AttrSpec, value: Any, op_name: str) -> None:
    if attr.type == "type":
        satisfies_type(value, attr, attr.name)
    elif attr.type == "string" and attr.allowed:
        text = value.decode() if isinstance(value, bytes) else value
        if text not in attr.allowed:
            raise ValueError(
                "Attr '%s' of '%s' Op passed string '%s' not in: \"%s\"."
                % (attr.name, op_name, text, '", "'.join(attr.allowed))
            )
    elif attr.type == "int" and attr.minimum is not None and value < attr.minimum:
        raise ValueError(
            "Attr '%s' of '%s' Op passed %d less than minimum %d." % (attr.name, op_name, value, attr.minimum)
        )


def attr_triple(spec: OpSpec, attr: AttrSpec, value: Any) -> tuple[str, str, Any]:
    """(name, kind, value) for the extension. TypeError or ValueError for an invalid value."""
    name = attr.name
    if attr.type.startswith("list("):
        inner = attr.type[5:-1]
        if not isinstance(value, (list, tuple)):
            if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
                raise TypeError("Expected list for attr " + name)
            value = list(value)
        if attr.minimum is not None and len(value) < attr.minimum:
            raise ValueError(
                "Attr '%s' of '%s' Op passed list of length %d less than minimum %d."
                % (name, spec.name, len(value), attr.minimum)
            )
        if inner in ("func", "tensor"):
            return name, "proto", _make_protos(inner, value, name)
        made = [_MAKERS[inner](item, name) for item in value]
        if inner == "type":
            for item in made:
                satisfies_type(item, attr, name)
        elif inner == "string" and attr.allowed:
            for item in made:
                _check(AttrSpec(name, "string", attr.allowed, None), item, spec.name)
        return name, attr.type, made
    if attr.type == "func":
        return name, "proto", _make_func(value, name)
    if attr.type == "tensor":
        return name, "proto", _make_tensor(value, name)
    made = _MAKERS[attr.type](value, name)
    _check(attr, made, spec.name)
    return name, attr.type, made


# --- Flat inputs, as create_op has them


def _count(attr: Any, name: str, op_type: str) -> int:
    value = attr.get(name)
    if value is None:
        raise ValueError("Attr '%s' of op '%s' is missing" % (name, op_type))
    if hasattr(value, "WhichOneof"):
        return int(value.i) if value.WhichOneof("value") == "i" else len(value.list.type)
    return len(value) if isinstance(value, (list, tuple)) else int(value)


def group_inputs(
    graph: Any, op_type: str, inputs: list[Any], attrs: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    """Inputs with lists where the op has lists, and attributes for the extension."""
    if op_type not in _ALL:
        graph._get_op_def(op_type)  # raises NotFoundError with the engine's text for an unknown op
    spec = spec_of(op_type, graph)
    grouped: list[Any] = []
    at = 0
    for arg in spec.inputs:
        if arg.is_list:
            count = _count(attrs, arg.number_attr or arg.type_list_attr, op_type)
            grouped.append(inputs[at : at + count])
            at += count
        else:
            grouped.extend(inputs[at : at + 1])
            at += 1
    grouped.extend(inputs[at:])
    triples = []
    for name, value in attrs.items():
        if hasattr(value, "SerializeToString") and type(value).__name__ == "AttrValue":
            triples.append((name, "proto", value.SerializeToString()))
        elif name in spec.attrs:
            triples.append(attr_triple(spec, spec.attrs[name], value))
        else:
            from millrace.python.framework import _attributes

            triples.append((name, "proto", _attributes.proto_bytes_of_any(value)))
    return grouped, triples
