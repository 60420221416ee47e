# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The settings of TensorBoard's projector of embeddings."""
from __future__ import annotations

import os
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from millrace.python.lib.io import file_io

_PACKAGE = "tensorboard"
_FIELDS = {
    "SpriteMetadata": [("image_path", "string"), ("single_image_dim", "uint32*")],
    "EmbeddingInfo": [
        ("tensor_name", "string"), ("metadata_path", "string"), ("bookmarks_path", "string"),
        ("tensor_shape", "uint32*"), ("sprite", "SpriteMetadata"), ("tensor_path", "string"),
    ],
    "ProjectorConfig": [
        ("model_checkpoint_path", "string"), ("embeddings", "EmbeddingInfo*"), ("model_checkpoint_dir", "string"),
    ],
}  # fmt: skip


def _messages() -> dict[str, Any]:
    """The classes of the messages; fields are numbered in order, those with a star are repeated."""
    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="millrace/projector_config.proto", package=_PACKAGE, syntax="proto3"
    )
    for message_name, fields in _FIELDS.items():
        message = file.message_type.add(name=message_name)
        for number, (name, kind) in enumerate(fields, 1):
            repeated = kind.endswith("*")
            kind = kind.rstrip("*")
            field = message.field.add(name=name, number=number)
            field.label = field_type.LABEL_REPEATED if repeated else field_type.LABEL_OPTIONAL
            if kind in _FIELDS:
                field.type = field_type.TYPE_MESSAGE
                field.type_name = ".%s.%s" % (_PACKAGE, kind)
            else:
                field.type = {"string": field_type.TYPE_STRING, "uint32": field_type.TYPE_UINT32}[kind]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return {
        name: factory.GetPrototype(pool.FindMessageTypeByName("%s.%s" % (_PACKAGE, name))) for name in _FIELDS
    }


_CLASSES = _messages()
SpriteMetadata: Any = _CLASSES["SpriteMetadata"]
EmbeddingInfo: Any = _CLASSES["EmbeddingInfo"]
ProjectorConfig: Any = _CLASSES["ProjectorConfig"]


def visualize_embeddings(summary_writer: Any, config: Any) -> None:
    """Writes a ProjectorConfig to the file in the writer's folder that TensorBoard reads.

    Args:
      summary_writer: a FileWriter.
      config: the ProjectorConfig.

    Raises:
      ValueError: the writer has no folder.
    """
    logdir = summary_writer.get_logdir()
    if logdir is None:
        raise ValueError("Summary writer must have a logdir")
    file_io.write_string_to_file(
        os.path.join(logdir, "projector_config.pbtxt"), text_format.MessageToString(config)
    )
