# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Structures of values, such as arguments of functions, as StructuredValue messages and back."""
from __future__ import annotations

import collections
from typing import Any

from millrace.python.framework import dtypes, tensor_shape, tensor_spec


class NotEncodableError(Exception):
    """The value cannot be encoded as a message."""


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


class StructureCoder:
    """Encodes None, numbers, strings, types, shapes, TensorSpecs, and lists, tuples and dicts of them."""

    def can_encode(self, nested: Any) -> bool:
        """Whether `encode_structure` takes the value."""
        try:
            self.encode_structure(nested)
        except NotEncodableError:
            return False
        return True

    def encode_structure(self, nested: Any) -> Any:
        """The StructuredValue of a structure.

        Raises:
          NotEncodableError: it contains a value of another kind.
        """
        from millrace.core.protobuf import struct_pb2

        value = struct_pb2.StructuredValue()
        self._encode(nested, value)
        return value

    def _encode(self, nested: Any, value: Any) -> None:
        if nested is None:
            value.none_value.SetInParent()
        elif isinstance(nested, bool):
            value.bool_value = nested
        elif isinstance(nested, int):
            value.int64_value = nested
        elif isinstance(nested, float):
            value.float64_value = nested
        elif isinstance(nested, (str, bytes)):
            value.string_value = nested.decode() if isinstance(nested, bytes) else nested
        elif isinstance(nested, tensor_shape.TensorShape):
            value.tensor_shape_value.CopyFrom(nested.as_proto())
        elif isinstance(nested, dtypes.DType):
            value.tensor_dtype_value = nested.as_datatype_enum
        elif isinstance(nested, tensor_spec.TensorSpec):
            spec = value.tensor_spec_value
            spec.name = nested.name or ""
            spec.shape.CopyFrom(nested.shape.as_proto())
            spec.dtype = nested.dtype.as_datatype_enum
        else:
            self._encode_container(nested, value)

    def _encode_container(self, nested: Any, value: Any) -> None:
        if isinstance(nested, list):
            value.list_value.SetInParent()
            for item in nested:
                self._encode(item, value.list_value.values.add())
        elif _is_named_tuple(nested):
            value.named_tuple_value.name = type(nested).__name__
            for key in nested._fields:
                pair = value.named_tuple_value.values.add(key=key)
                self._encode(getattr(nested, key), pair.value)
        elif isinstance(nested, tuple):
            value.tuple_value.SetInParent()
            for item in nested:
                self._encode(item, value.tuple_value.values.add())
        elif isinstance(nested, collections.abc.Mapping) and all(isinstance(k, str) for k in nested):
            value.dict_value.SetInParent()
            for key in nested:
                self._encode(nested[key], value.dict_value.fields[key])
        else:
            raise NotEncodableError("No encoder for object [%s] of type [%s]." % (nested, type(nested)))

    def decode_proto(self, proto: Any) -> Any:
        """The structure of a StructuredValue.

        Raises:
          ValueError: it contains an unknown kind of value.
        """
        kind = proto.WhichOneof("kind")
        if kind in ("bool_value", "int64_value", "float64_value", "string_value"):
            return getattr(proto, kind)
        if kind == "none_value":
            return None
        if kind == "tensor_shape_value":
            return tensor_shape.TensorShape(proto.tensor_shape_value)
        if kind == "tensor_dtype_value":
            return dtypes.DType(proto.tensor_dtype_value)
        if kind == "tensor_spec_value":
            spec = proto.tensor_spec_value
            return tensor_spec.TensorSpec(
                tensor_shape.TensorShape(spec.shape), dtypes.DType(spec.dtype), spec.name or None
            )
        if kind == "list_value":
            return [self.decode_proto(v) for v in proto.list_value.values]
        if kind == "tuple_value":
            return tuple([self.decode_proto(v) for v in proto.tuple_value.values])
        if kind == "dict_value":
            return {key: self.decode_proto(v) for key, v in proto.dict_value.fields.items()}
        if kind == "named_tuple_value":
            pairs = [(pair.key, self.decode_proto(pair.value)) for pair in proto.named_tuple_value.values]
            made = collections.namedtuple(proto.named_tuple_value.name, [key for key, _ in pairs])  # type: ignore[misc]
            return made(*[value for _, value in pairs])
        raise ValueError("Cannot decode a StructuredValue of kind %s." % kind)
