# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The messages of benchmark results: BenchmarkEntries and their parts."""

from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf import descriptor_pool as _descriptor_pool
from google.protobuf import message as _message
from google.protobuf import reflection as _reflection
from google.protobuf import wrappers_pb2 as _wrappers_pb2  # the pool must know DoubleValue

_KINDS = {
    "double": _descriptor_pb2.FieldDescriptorProto.TYPE_DOUBLE,
    "string": _descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "int64": _descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
}
# Message, and its fields in the order of their numbers: label, type, name.
_MESSAGES = (
    ("EntryValue", ("oneof double double_value", "oneof string string_value")),
    (
        "MetricEntry",
        (
            "optional string name",
            "optional double value",
            "optional .google.protobuf.DoubleValue min_value",
            "optional .google.protobuf.DoubleValue max_value",
        ),
    ),
    (
        "BenchmarkEntry",
        (
            "optional string name",
            "optional int64 iters",
            "optional double cpu_time",
            "optional double wall_time",
            "optional double throughput",
            "repeated .tensorflow.BenchmarkEntry.ExtrasEntry extras",
            "repeated .tensorflow.MetricEntry metrics",
        ),
    ),
    ("BenchmarkEntries", ("repeated .tensorflow.BenchmarkEntry entry",)),
)


def _add_fields(message, fields):
    for number, (label, kind, name) in enumerate((field.split() for field in fields), 1):
        field = message.field.add(name=name, number=number)
        repeated = label == "repeated"
        field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
        if kind in _KINDS:
            field.type = _KINDS[kind]
        else:
            field.type, field.type_name = field.TYPE_MESSAGE, kind
        if label == "oneof":
            field.oneof_index = 0


def _file():
    file = _descriptor_pb2.FileDescriptorProto(
        name="tensorflow/core/util/test_log.proto", package="tensorflow", syntax="proto3"
    )
    file.dependency.append(_wrappers_pb2.DESCRIPTOR.name)
    for name, fields in _MESSAGES:
        message = file.message_type.add(name=name)
        if name == "EntryValue":
            message.oneof_decl.add(name="kind")
        if name == "BenchmarkEntry":
            entry = message.nested_type.add(name="ExtrasEntry")
            _add_fields(entry, ("optional string key", "optional .tensorflow.EntryValue value"))
            entry.options.map_entry = True
        _add_fields(message, fields)
    return file


DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile(_file().SerializeToString())


def _message_type(name):
    descriptor = _descriptor_pool.Default().FindMessageTypeByName("tensorflow." + name)
    members = {"DESCRIPTOR": descriptor, "__module__": __name__}
    for nested in descriptor.nested_types:
        members[nested.name] = _reflection.GeneratedProtocolMessageType(
            nested.name, (_message.Message,), {"DESCRIPTOR": nested, "__module__": __name__}
        )
    return _reflection.GeneratedProtocolMessageType(name, (_message.Message,), members)


EntryValue = _message_type("EntryValue")
MetricEntry = _message_type("MetricEntry")
BenchmarkEntry = _message_type("BenchmarkEntry")
BenchmarkEntries = _message_type("BenchmarkEntries")
