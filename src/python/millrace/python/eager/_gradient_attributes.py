# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Attributes of ops and properties of gradients, for gradient functions."""
from __future__ import annotations

from typing import Any

from millrace.python import pywrap_tensorflow
from millrace.python.framework import dtypes, indexed_slices, ops, tensor_shape

_KINDS = {
    "string": pywrap_tensorflow.TF_ATTR_STRING,
    "int": pywrap_tensorflow.TF_ATTR_INT,
    "float": pywrap_tensorflow.TF_ATTR_FLOAT,
    "bool": pywrap_tensorflow.TF_ATTR_BOOL,
    "type": pywrap_tensorflow.TF_ATTR_TYPE,
    "shape": pywrap_tensorflow.TF_ATTR_SHAPE,
    "tensor": pywrap_tensorflow.TF_ATTR_TENSOR,
    "func": pywrap_tensorflow.TF_ATTR_FUNC,
}


def op_attr_type(op_type: str, attr_name: str) -> Any:
    """The kind of an attribute of an op, TF_ATTR_...; in a list for a list of values.

    Raises:
      ValueError: the op or its attribute is not known.
    """
    from millrace.python.framework import op_def_registry

    op_def = op_def_registry.get_registered_ops().get(op_type)
    for attr in op_def.attr if op_def is not None else ():
        if attr.name == attr_name:
            is_list = attr.type.startswith("list(")
            kind = _KINDS[attr.type[5:-1] if is_list else attr.type]
            return [kind] if is_list else kind
    raise ValueError("Op %s has no attribute %s" % (op_type, attr_name))


def make_attr(attr_type: Any, value: Any) -> Any:
    """An attribute's value as `op.get_attr` returns it.

    Args:
      attr_type: TF_ATTR_..., in a list for a list of values.
      value: a type or shape, or a value convertible to one; other values are returned unchanged.
    """
    if isinstance(attr_type, list):
        if attr_type[0] in (pywrap_tensorflow.TF_ATTR_TYPE, pywrap_tensorflow.TF_ATTR_SHAPE):
            return [make_attr(attr_type[0], v) for v in value]
        return value
    if attr_type == pywrap_tensorflow.TF_ATTR_TYPE:
        return dtypes.as_dtype(value)
    if attr_type == pywrap_tensorflow.TF_ATTR_SHAPE:
        return tensor_shape.as_shape(value).as_proto()
    if isinstance(value, str):
        return value.encode()
    return value


def flatten_nested_indexed_slices(grad: Any) -> Any:
    """Converts nested IndexedSlices to IndexedSlices whose values are a tensor."""
    from millrace.python.ops import array_ops

    assert isinstance(grad, indexed_slices.IndexedSlices)
    if isinstance(grad.values, ops.Tensor):
        return grad
    assert isinstance(grad.values, indexed_slices.IndexedSlices)
    inner = flatten_nested_indexed_slices(grad.values)
    return indexed_slices.IndexedSlices(
        inner.values, array_ops.gather(grad.indices, inner.indices), inner.dense_shape
    )


def _num_elements(grad: Any) -> Any:
    """The number of elements of a gradient.

    Raises:
      ValueError: it is neither a tensor nor slices.
    """
    import numpy as np

    if isinstance(grad, indexed_slices.IndexedSlices):
        grad = grad.values
    if isinstance(grad, ops.Tensor):
        return int(np.prod(grad.shape.as_list()))
    raise ValueError("`grad` not a Tensor or IndexedSlices.")


def _zeros(shape: Any, dtype: Any) -> Any:
    """Zeros; None for a resource, which has no gradient of its own."""
    from millrace.python.ops import array_ops

    if dtypes.as_dtype(dtype) in (dtypes.resource, dtypes.string):
        return None
    return array_ops.zeros(shape, dtype)


def _ones(shape: Any, dtype: Any) -> Any:
    from millrace.python.ops import array_ops

    return None if dtypes.as_dtype(dtype) == dtypes.string else array_ops.ones(shape, dtype)
