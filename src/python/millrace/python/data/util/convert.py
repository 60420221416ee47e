# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Arguments of datasets as tensors."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import constant_op, dtypes, ops, tensor_shape


def optional_param_to_tensor(
    argument_name: str, argument_value: Any, argument_default: Any = 0, argument_dtype: Any = dtypes.int64
) -> Any:
    """A tensor of a value, or of the default where it is None."""
    if argument_value is None:
        return constant_op.constant(argument_default, dtype=argument_dtype, name=argument_name)
    return ops.convert_to_tensor(argument_value, dtype=argument_dtype, name=argument_name)


def partial_shape_to_tensor(shape_like: Any) -> Any:
    """A vector, int64, of a TensorShape or a compatible value: -1 represents an unknown size.

    Raises:
      ValueError: the rank is not known or the tensor is no vector.
      TypeError: it is a tensor of another type.
    """
    try:
        shape = tensor_shape.as_shape(shape_like)
        return ops.convert_to_tensor(
            [dim if dim is not None else -1 for dim in shape.as_list()], dtype=dtypes.int64, name="shape"
        )
    except (TypeError, ValueError):
        result = (
            ops.convert_to_tensor(shape_like, dtype=dtypes.int64)
            if not isinstance(shape_like, ops.Tensor)
            else shape_like
        )
        if result.shape.ndims is not None and result.shape.ndims != 1:
            raise ValueError(
                "The given shape %s must be a 1-D tensor of tf.int64 values, but the shape was %s."
                % (shape_like, result.shape)
            ) from None
        if result.dtype != dtypes.int64:
            raise TypeError(
                "The given shape %s must be a 1-D tensor of tf.int64 values, but the element type was %s."
                % (shape_like, result.dtype.name)
            ) from None
        return result
