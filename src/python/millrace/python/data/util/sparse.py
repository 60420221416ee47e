# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Sparse tensors in the structures of datasets."""
from __future__ import annotations

from typing import Any

from millrace.python.data.util import nest
from millrace.python.framework import dtypes, ops, sparse_tensor, tensor_shape
from millrace.python.ops import sparse_ops


def any_sparse(classes: Any) -> bool:
    """Whether a structure of classes contains SparseTensor."""
    return any(c is sparse_tensor.SparseTensor for c in nest.flatten(classes))


def as_dense_shapes(shapes: Any, classes: Any) -> Any:
    """Shapes; those of sparse tensors are unknown."""
    return nest.pack_sequence_as(
        shapes,
        [
            tensor_shape.unknown_shape() if c is sparse_tensor.SparseTensor else shape
            for shape, c in zip(nest.flatten(shapes), nest.flatten(classes))
        ],
    )


def as_dense_types(types: Any, classes: Any) -> Any:
    """Types; those of sparse tensors are variants."""
    return nest.pack_sequence_as(
        types,
        [
            dtypes.variant if c is sparse_tensor.SparseTensor else ty
            for ty, c in zip(nest.flatten(types), nest.flatten(classes))
        ],
    )


def deserialize_sparse_tensors(tensors: Any, types: Any, shapes: Any, classes: Any) -> Any:
    """The structure with SparseTensors made of variants."""
    return nest.pack_sequence_as(
        types,
        [
            sparse_ops.deserialize_sparse(tensor, dtype=ty, rank=shape.ndims)
            if c is sparse_tensor.SparseTensor
            else tensor
            for tensor, ty, shape, c in zip(
                nest.flatten(tensors), nest.flatten(types), nest.flatten(shapes), nest.flatten(classes)
            )
        ],
    )


def get_classes(tensors: Any) -> Any:
    """Tensor or SparseTensor for each part."""
    return nest.pack_sequence_as(
        tensors,
        [
            sparse_tensor.SparseTensor if isinstance(t, sparse_tensor.SparseTensor) else ops.Tensor
            for t in nest.flatten(tensors)
        ],
    )


def serialize_many_sparse_tensors(tensors: Any) -> Any:
    """The structure with variants, a row for each, made of SparseTensors."""
    return nest.pack_sequence_as(
        tensors,
        [
            sparse_ops.serialize_many_sparse(t, out_type=dtypes.variant) if sparse_tensor.is_sparse(t) else t
            for t in nest.flatten(tensors)
        ],
    )


def serialize_sparse_tensors(tensors: Any) -> Any:
    """The structure with variants made of SparseTensors."""
    return nest.pack_sequence_as(
        tensors,
        [
            sparse_ops.serialize_sparse(t, out_type=dtypes.variant)
            if isinstance(t, sparse_tensor.SparseTensor)
            else t
            for t in nest.flatten(tensors)
        ],
    )
