# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Values of attributes between Python and AttrValue messages."""
from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.framework import dtypes, tensor_shape


def python_value(value: Any) -> Any:
    """The result of get_attr for a value that the extension has read."""
    if isinstance(value, tuple):  # ("proto", bytes)
        return value_of_proto(_attr_value(value[1]))
    if isinstance(value, tensor_shape.TensorShape):
        return value.as_proto()
    if isinstance(value, list) and value and isinstance(value[0], tensor_shape.TensorShape):
        return [shape.as_proto() for shape in value]
    return value


def _attr_value(data: bytes) -> Any:
    from millrace.core.framework import attr_value_pb2

    return attr_value_pb2.AttrValue.FromString(data)


def value_of_proto(message: Any) -> Any:
    """The value that an AttrValue holds: a message for tensors, functions and shapes."""
    kind = message.WhichOneof("value")
    if kind is None:
        return []
    if kind == "list":
        for field in ("s", "i", "f", "b", "shape", "tensor", "func"):
            found = getattr(message.list, field)
            if found:
                return list(found)
        return [dtypes.as_dtype(number) for number in message.list.type]
    if kind == "type":
        return dtypes.as_dtype(message.type)
    return getattr(message, kind)


def _fill(target: Any, value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)):
        target.b = bool(value)
    elif isinstance(value, (int, np.integer)):
        target.i = int(value)
    elif isinstance(value, (float, np.floating)):
        target.f = float(value)
    elif isinstance(value, bytes):
        target.s = value
    elif isinstance(value, str):
        target.s = value.encode()
    elif isinstance(value, dtypes.DType):
        target.type = value.as_datatype_enum
    elif isinstance(value, tensor_shape.TensorShape):
        target.shape.CopyFrom(value.as_proto())
    elif isinstance(value, np.ndarray):
        from millrace.python.framework import tensor_util

        target.tensor.CopyFrom(tensor_util.make_tensor_proto(value))
    else:
        return _fill_message(target, value)
    return True


def _fill_message(target: Any, value: Any) -> bool:
    from google.protobuf import message

    if not isinstance(value, message.Message):
        return False
    name = type(value).__name__
    if name == "AttrValue":
        target.CopyFrom(value)
    elif name == "TensorProto":
        target.tensor.CopyFrom(value)
    elif name == "TensorShapeProto":
        target.shape.CopyFrom(value)
    elif name == "NameAttrList":
        target.func.CopyFrom(value)
    else:
        return False
    return True


def attr_value_of_any(value: Any) -> Any:
    """An AttrValue for a value, by its type. TypeError for values that attributes cannot have."""
    from millrace.core.framework import attr_value_pb2

    message = attr_value_pb2.AttrValue()
    if isinstance(value, (list, tuple)):
        message.list.SetInParent()
        for item in value:
            one = attr_value_of_any(item)
            kind = one.WhichOneof("value")
            field = getattr(message.list, kind)
            if kind in ("shape", "tensor", "func"):
                field.add().CopyFrom(getattr(one, kind))
            else:
                field.append(getattr(one, kind))
    elif not _fill(message, value):
        raise TypeError("%r is not the value of an attribute" % (value,))
    return message


def proto_bytes_of_any(value: Any) -> bytes:
    return attr_value_of_any(value).SerializeToString()
