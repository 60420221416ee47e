# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The message CheckpointState, which the state file of checkpoints holds as text."""

from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf import descriptor_pool as _descriptor_pool
from google.protobuf import reflection as _reflection

_FIELD = _descriptor_pb2.FieldDescriptorProto
_FIELDS = (
    ("model_checkpoint_path", _FIELD.LABEL_OPTIONAL, _FIELD.TYPE_STRING),
    ("all_model_checkpoint_paths", _FIELD.LABEL_REPEATED, _FIELD.TYPE_STRING),
    ("all_model_checkpoint_timestamps", _FIELD.LABEL_REPEATED, _FIELD.TYPE_DOUBLE),
    ("last_preserved_timestamp", _FIELD.LABEL_OPTIONAL, _FIELD.TYPE_DOUBLE),
)


def _file() -> _descriptor_pb2.FileDescriptorProto:
    file = _descriptor_pb2.FileDescriptorProto(
        name="tensorflow/python/training/checkpoint_state.proto", package="tensorflow", syntax="proto3"
    )
    message = file.message_type.add(name="CheckpointState")
    for number, (name, label, kind) in enumerate(_FIELDS, 1):
        message.field.add(name=name, number=number, label=label, type=kind)
    return file


DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile(_file().SerializeToString())
_TYPE = _descriptor_pool.Default().FindMessageTypeByName("tensorflow.CheckpointState")
CheckpointState = _reflection.GeneratedProtocolMessageType(
    "CheckpointState",
    (__import__("google.protobuf.message", fromlist=["Message"]).Message,),
    {"DESCRIPTOR": _TYPE, "__module__": __name__},
)
