# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The messages with the results of shape functions and the inputs that they need."""

from typing import Any

from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf import descriptor_pool as _descriptor_pool
from google.protobuf import reflection as _reflection
from google.protobuf.message import Message as _Message

from millrace.core.framework import tensor_shape_pb2 as _tensor_shape_pb2  # noqa: F401  registers its file
from millrace.core.framework import types_pb2 as _types_pb2  # noqa: F401

_FIELD = _descriptor_pb2.FieldDescriptorProto
_RESULT = ".tensorflow.CppShapeInferenceResult"


def _file() -> _descriptor_pb2.FileDescriptorProto:
    file = _descriptor_pb2.FileDescriptorProto(
        name="tensorflow/python/framework/cpp_shape_inference.proto", package="tensorflow", syntax="proto3",
        dependency=["tensorflow/core/framework/types.proto", "tensorflow/core/framework/tensor_shape.proto"],
    )  # fmt: skip
    one, many = _FIELD.LABEL_OPTIONAL, _FIELD.LABEL_REPEATED
    shape = {"type": _FIELD.TYPE_MESSAGE, "type_name": ".tensorflow.TensorShapeProto", "label": one}
    result = file.message_type.add(name="CppShapeInferenceResult")
    pair = result.nested_type.add(name="HandleShapeAndType")
    pair.field.add(name="shape", number=1, **shape)
    pair.field.add(name="dtype", number=2, label=one, type=_FIELD.TYPE_ENUM, type_name=".tensorflow.DataType")
    handle = result.nested_type.add(name="HandleData")
    handle.field.add(name="is_set", number=1, label=one, type=_FIELD.TYPE_BOOL)
    handle.field.add(
        name="shape_and_type",
        number=2,
        label=many,
        type=_FIELD.TYPE_MESSAGE,
        type_name=_RESULT + ".HandleShapeAndType",
    )
    result.field.add(name="shape", number=1, **shape)
    result.field.add(
        name="handle_data", number=4, label=one, type=_FIELD.TYPE_MESSAGE, type_name=_RESULT + ".HandleData"
    )
    needed = file.message_type.add(name="CppShapeInferenceInputsNeeded")
    for number, name in enumerate(("input_tensors_needed", "input_tensors_as_shapes_needed"), 1):
        needed.field.add(name=name, number=number, label=many, type=_FIELD.TYPE_INT32)
    return file


DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile(_file().SerializeToString())


def _class(name: str, **inner: type) -> type:
    descriptor = _descriptor_pool.Default().FindMessageTypeByName("tensorflow." + name)
    return _reflection.GeneratedProtocolMessageType(
        name.rpartition(".")[2], (_Message,), {"DESCRIPTOR": descriptor, "__module__": __name__, **inner}
    )


HandleData: Any = _class("CppShapeInferenceResult.HandleData")
CppShapeInferenceResult = _class(
    "CppShapeInferenceResult",
    HandleShapeAndType=_class("CppShapeInferenceResult.HandleShapeAndType"),
    HandleData=HandleData,
)
CppShapeInferenceInputsNeeded = _class("CppShapeInferenceInputsNeeded")
