# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""TensorInfos and their tensors, and paths in a SavedModel."""

from __future__ import annotations

import os
from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework import sparse_tensor
from millrace.python.lib.io import file_io
from millrace.python.saved_model import constants
from millrace.python.util import compat


def build_tensor_info(tensor: Any) -> Any:
    """The TensorInfo of a Tensor or SparseTensor: name (or names of the parts), type and shape."""
    from millrace.core.protobuf import meta_graph_pb2

    if not hasattr(tensor, "dtype") or not hasattr(tensor, "get_shape") or isinstance(tensor, type):
        raise TypeError("Expected a Tensor or SparseTensor, got: %r" % (tensor,))
    tensor_info = meta_graph_pb2.TensorInfo(
        dtype=dtypes.as_dtype(tensor.dtype).as_datatype_enum, tensor_shape=tensor.get_shape().as_proto()
    )
    if isinstance(tensor, sparse_tensor.SparseTensor):
        tensor_info.coo_sparse.values_tensor_name = tensor.values.name
        tensor_info.coo_sparse.indices_tensor_name = tensor.indices.name
        tensor_info.coo_sparse.dense_shape_tensor_name = tensor.dense_shape.name
    else:
        tensor_info.name = tensor.name
    return tensor_info


def build_tensor_info_from_op(op: Any) -> Any:
    """A TensorInfo that names an op, such as the initialisation op."""
    from millrace.core.framework import tensor_shape_pb2
    from millrace.core.protobuf import meta_graph_pb2

    return meta_graph_pb2.TensorInfo(
        dtype=0, tensor_shape=tensor_shape_pb2.TensorShapeProto(unknown_rank=True), name=op.name
    )


def get_tensor_from_tensor_info(tensor_info: Any, graph: Any = None, import_scope: str | None = None) -> Any:
    """The Tensor or SparseTensor that a TensorInfo names.

    Raises:
      KeyError: if the graph has no such tensor.
      ValueError: if the message has no name.
    """
    if not hasattr(tensor_info, "WhichOneof"):
        raise TypeError("Expected a TensorInfo, got: %r" % (tensor_info,))
    graph = graph or ops.get_default_graph()

    def tensor_of(name: str) -> Any:
        return graph.get_tensor_by_name(ops.prepend_name_scope(name, import_scope=import_scope))

    encoding = tensor_info.WhichOneof("encoding")
    if encoding == "name":
        return tensor_of(tensor_info.name)
    if encoding == "coo_sparse":
        return sparse_tensor.SparseTensor(
            tensor_of(tensor_info.coo_sparse.indices_tensor_name),
            tensor_of(tensor_info.coo_sparse.values_tensor_name),
            tensor_of(tensor_info.coo_sparse.dense_shape_tensor_name),
        )
    if encoding == "composite_tensor":
        raise ValueError("TensorInfo with composite tensors are not supported.")
    raise ValueError("Invalid TensorInfo.encoding: %s" % encoding)


def get_element_from_tensor_info(tensor_info: Any, graph: Any = None, import_scope: str | None = None) -> Any:
    """The op or tensor of a name in a TensorInfo."""
    graph = graph or ops.get_default_graph()
    return graph.as_graph_element(ops.prepend_name_scope(tensor_info.name, import_scope=import_scope))


def get_or_create_variables_dir(export_dir: Any) -> str:
    """The folder of variables, made if it is missing."""
    variables_dir = get_variables_dir(export_dir)
    if not file_io.file_exists(variables_dir):
        file_io.recursive_create_dir(variables_dir)
    return variables_dir


def get_variables_dir(export_dir: Any) -> str:
    return os.path.join(compat.as_text(export_dir), compat.as_text(constants.VARIABLES_DIRECTORY))


def get_variables_path(export_dir: Any) -> str:
    """Prefix of the checkpoint with the variables."""
    return os.path.join(get_variables_dir(export_dir), compat.as_text(constants.VARIABLES_FILENAME))


def get_or_create_assets_dir(export_dir: Any) -> str:
    """The folder of assets, made if it is missing."""
    assets_destination_dir = get_assets_dir(export_dir)
    if not file_io.file_exists(assets_destination_dir):
        file_io.recursive_create_dir(assets_destination_dir)
    return assets_destination_dir


def get_assets_dir(export_dir: Any) -> str:
    return os.path.join(compat.as_text(export_dir), compat.as_text(constants.ASSETS_DIRECTORY))


def get_debug_dir(export_dir: Any) -> str:
    return os.path.join(compat.as_text(export_dir), compat.as_text(constants.DEBUG_DIRECTORY))


def get_or_create_debug_dir(export_dir: Any) -> str:
    """The folder of debug information, made if it is missing."""
    debug_dir = get_debug_dir(export_dir)
    if not file_io.file_exists(debug_dir):
        file_io.recursive_create_dir(debug_dir)
    return debug_dir
