# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions of composite tensors and of their values."""
from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.framework import composite_tensor, sparse_tensor
from millrace.python.ops import array_ops, sparse_ops


def is_composite_or_composite_value(tensor: Any) -> bool:
    """Whether this is a SparseTensor, the value of one, or another composite tensor."""
    return isinstance(tensor, (composite_tensor.CompositeTensor, sparse_tensor.SparseTensorValue))


def get_shape(tensor: Any) -> Any:
    """The static shape; of the value of a SparseTensor: its dense shape."""
    if isinstance(tensor, sparse_tensor.SparseTensorValue):
        return tensor.dense_shape
    return tensor.shape


def append_composite_tensor(target: Any, to_append: Any) -> Any:
    """One after the other along the first axis: SparseTensors, or values of them.

    Raises:
      RuntimeError: if they are of different types, or of a type without concatenation.
    """
    if type(target) is not type(to_append):
        raise RuntimeError("Unable to concatenate %s and %s" % (type(target), type(to_append)))
    if isinstance(target, sparse_tensor.SparseTensor):
        return sparse_ops.sparse_concat(sp_inputs=[target, to_append], axis=0)
    if isinstance(target, sparse_tensor.SparseTensorValue):
        rows = target.dense_shape[0]
        offset = np.zeros_like(np.asarray(target.dense_shape))
        offset[0] = rows
        shape = list(np.maximum(target.dense_shape, to_append.dense_shape))
        shape[0] = rows + to_append.dense_shape[0]
        return sparse_tensor.SparseTensorValue(
            indices=np.concatenate([target.indices, np.asarray(to_append.indices) + offset]),
            values=np.concatenate([target.values, to_append.values]),
            dense_shape=np.asarray(shape),
        )
    if isinstance(target, composite_tensor.CompositeTensor):
        return array_ops.concat([target, to_append], axis=0)
    raise RuntimeError("Attempted to concatenate unsupported object %s." % type(target))
