# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Constants."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from millrace.python import _engine
from millrace.python.eager import _context_settings
from millrace.python.framework import dtypes, ops, tensor_shape, tensor_util


def constant_v1(
    value: Any, dtype: Any = None, shape: Any = None, name: Any = "Const", verify_shape: bool = False
) -> Any:
    """A tensor whose value never changes.

    Args:
      value: a number, string, list or array.
      dtype: the type of the elements; None: the value's.
      shape: the shape; if the value has fewer elements, the last one is repeated.
      name: of the operation.
      verify_shape: whether the value must have exactly this shape.

    Raises:
      TypeError: if the value has another type, or `verify_shape` and another shape.
    """
    return _constant(value, dtype, shape, name, verify_shape, allow_broadcast=False)


def constant_v2(value: Any, dtype: Any = None, shape: Any = None, name: Any = "Const") -> Any:
    """As constant, but a single number fills the shape and other values must have it."""
    return _constant(value, dtype, shape, name, verify_shape=False, allow_broadcast=True)


constant = constant_v1


def _constant(
    value: Any, dtype: Any, shape: Any, name: Any, verify_shape: bool, allow_broadcast: bool
) -> Any:
    if _engine.executing_eagerly():
        return _eager_constant(value, dtype, shape, verify_shape)
    array, kind, sizes = tensor_util._sized_array(value, dtype, shape, verify_shape, allow_broadcast)
    if shape is not None and array.size == math.prod(sizes):
        array = array.reshape(sizes)
    graph = ops.get_default_graph()
    if kind in _BY_MESSAGE or array.shape != tuple(sizes):
        from millrace.core.framework import attr_value_pb2

        proto = tensor_util._proto_of(array, kind, sizes)
        attr: Any = ("value", "proto", attr_value_pb2.AttrValue(tensor=proto).SerializeToString())
    else:
        attr = ("value", "array", array)
    return graph._make_operation("Const", name, [], [attr, ("dtype", "type", kind)]).outputs[0]


_NUMBERS = {int: dtypes.int32, float: dtypes.float32}


def convert_to_eager_tensor(value: Any, ctx: Any = None, dtype: Any = None) -> Any:
    """A tensor that has a value, on the device of the context.

    Raises:
      TypeError: `value` is a tensor of another type.
      RuntimeError: there is no such device.
    """
    del ctx
    if isinstance(value, _engine.EagerTensorBase):
        if dtype is not None and value.dtype != dtypes.as_dtype(dtype):
            raise TypeError("Expected tensor with type %r not %r" % (dtypes.as_dtype(dtype), value.dtype))
        return value
    made = _eager_tensor_of(value, dtype)
    device = _context_settings.placement.device
    return made._copy_to_device(None, device) if device else made


def _eager_tensor_of(value: Any, dtype: Any) -> Any:
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    example = value[0] if type(value) in (list, tuple) and value else value
    if type(example) in _NUMBERS:
        # Common cases need no NumPy array.
        number = _engine.eager_number(value, (kind or _NUMBERS[type(example)])._type_enum)
        if number is not None:
            return number
    if type(value) is int and kind is not None and kind.is_integer and not kind.min <= value <= kind.max:
        raise TypeError("Cannot convert %s to EagerTensor of dtype %s" % (value, kind.name))
    array, found = tensor_util._basic_array(value, kind)
    if kind is not None and kind.base_dtype != found.base_dtype:
        raise TypeError("Incompatible types: %s vs. %s. Value is %s" % (kind, array.dtype, value))
    return _engine.eager_tensor(array, found.as_datatype_enum)


def _eager_constant(value: Any, dtype: Any, shape: Any, verify_shape: bool) -> Any:
    t = convert_to_eager_tensor(value, None, dtype)
    if shape is None:
        return t
    shape = tensor_shape.as_shape(shape)
    if shape == t.shape:
        return t
    if verify_shape:
        raise TypeError("Expected Tensor's shape: %s, got %s." % (tuple(shape.as_list()), t._shape_tuple()))
    count = t.shape.num_elements()
    if count == shape.num_elements():
        from millrace.python.ops import gen_array_ops

        return gen_array_ops.reshape(t, shape.as_list())
    if count == 1:
        from millrace.python.ops import gen_array_ops

        return gen_array_ops.fill(shape.as_list(), gen_array_ops.reshape(t, []))
    raise TypeError(
        "Eager execution of tf.constant with unsupported shape (value has %d elements, shape is %s with %d elements)."
        % (count, shape, shape.num_elements())
    )


_BY_MESSAGE = (dtypes.bfloat16, dtypes.qint8, dtypes.quint8, dtypes.qint16, dtypes.quint16, dtypes.qint32)


def is_constant(tensor_or_op: Any) -> bool:
    """Whether the op (of the tensor) is a Const."""
    if isinstance(tensor_or_op, _engine.EagerTensorBase):
        return True
    op = getattr(tensor_or_op, "op", tensor_or_op)
    return op.type == "Const"


def _constant_tensor_conversion_function(
    v: Any, dtype: Any = None, name: Any = None, as_ref: bool = False
) -> Any:
    return constant(v, dtype=dtype, name=name)


def _tensor_shape_tensor_conversion_function(
    s: Any, dtype: Any = None, name: Any = None, as_ref: bool = False
) -> Any:
    if not s.is_fully_defined():
        raise ValueError("Cannot convert a partially known TensorShape to a Tensor: %s" % s)
    sizes = s.as_list()
    if dtype is not None:
        if dtype not in (dtypes.int32, dtypes.int64):
            raise TypeError("Cannot convert a TensorShape to dtype: %s" % dtype)
    else:
        dtype = dtypes.int64 if any(size >= 2**31 for size in sizes) else dtypes.int32
    return constant(sizes, dtype=dtype, name=name or "shape_as_tensor")


def _dimension_tensor_conversion_function(
    d: Any, dtype: Any = None, name: Any = None, as_ref: bool = False
) -> Any:
    if d.value is None:
        raise ValueError("Cannot convert an unknown Dimension to a Tensor: %s" % d)
    if dtype is not None and dtype not in (dtypes.int32, dtypes.int64):
        raise TypeError("Cannot convert a Dimension to dtype: %s" % dtype)
    return constant(d.value, dtype=dtype or dtypes.int32, name=name or "shape_as_tensor")


ops.register_builtin_conversion((list, tuple), _constant_tensor_conversion_function, 100)
ops.register_builtin_conversion(np.ndarray, _constant_tensor_conversion_function, 100)
ops.register_builtin_conversion(np.generic, _constant_tensor_conversion_function, 100)
ops.register_builtin_conversion(object, _constant_tensor_conversion_function, 200)
ops.register_builtin_conversion(tensor_shape.TensorShape, _tensor_shape_tensor_conversion_function, 100)
ops.register_builtin_conversion(tensor_shape.Dimension, _dimension_tensor_conversion_function, 100)
