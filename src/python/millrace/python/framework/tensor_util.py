# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Conversion of values between Python, NumPy and TensorProto, and values of constant tensors."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from millrace.python import _engine
from millrace.python.framework import _numbers, dtypes, tensor_shape
from millrace.python.framework._tensor import is_dense_tensor_like

# Fields of a TensorProto by the number of the type.
_FIELDS = {
    1: "float_val", 2: "double_val", 3: "int_val", 4: "int_val", 5: "int_val", 6: "int_val", 7: "string_val",
    8: "scomplex_val", 9: "int64_val", 10: "bool_val", 11: "int_val", 12: "int_val", 13: "int_val", 14: "half_val",
    15: "int_val", 16: "int_val", 17: "int_val", 18: "dcomplex_val", 19: "half_val", 22: "uint32_val", 23: "uint64_val",
}  # fmt: skip


def _flatten(values: Any) -> list[Any]:
    flat: list[Any] = []
    stack = [values]
    while stack:
        item = stack.pop()
        if isinstance(item, (list, tuple)):
            stack.extend(reversed(item))
        elif isinstance(item, (tensor_shape.TensorShape, tensor_shape.Dimension)):
            flat.extend(np.atleast_1d(_plain(item)).tolist())
        elif isinstance(item, np.ndarray):
            flat.extend(item.ravel().tolist())
        else:
            flat.append(item)
    return flat


def _mismatch(values: Any, wanted: Any) -> Any:
    """The first value that a type cannot hold, or None."""
    for item in _flatten(values):
        if isinstance(item, np.generic):
            item = item.item()
        if wanted.is_integer or wanted.is_quantized:
            fits = (
                isinstance(item, int)
                and not isinstance(item, bool)
                or isinstance(item, tensor_shape.Dimension)
            )
        elif wanted.is_floating:
            fits = isinstance(item, (int, float)) and not isinstance(item, bool)
        elif wanted.is_complex:
            fits = isinstance(item, (int, float, complex)) and not isinstance(item, bool)
        elif wanted == dtypes.bool:
            fits = isinstance(item, bool)
        elif wanted == dtypes.string:
            fits = isinstance(item, (str, bytes, bytearray))
        else:
            fits = True
        if not fits:
            return item
    return None


def _check_list(values: Any, dtype: Any) -> None:
    items = _flatten(values)
    for item in items:
        if isinstance(item, _engine.TensorBase):
            raise TypeError("List of Tensors when single Tensor expected")
    if dtype is None:
        return
    bad = _mismatch(values, dtype.base_dtype)
    if bad is not None:
        raise TypeError(
            "Expected %s, got %s of type '%s' instead."
            % (dtype.base_dtype.name, _text(bad), type(bad).__name__)
        )


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, (str, bytes)) else str(value)


_KIND_OF_LIST = {"f": np.float32, "i": np.int32, "c": np.complex128}


def _list_to_array(values: Any, dtype: Any) -> np.ndarray[Any, Any]:
    wanted: Any = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
    _check_list(values, wanted)
    if wanted is not None and wanted.is_quantized:
        return np.array(values, dtype=wanted.as_numpy_dtype)
    numeric = wanted is not None and wanted.is_numpy_compatible
    kind: Any = (object if wanted == dtypes.string else wanted.as_numpy_dtype) if numeric else None
    if wanted == dtypes.bfloat16:
        return np.array(values, dtype=np.float32).astype(wanted.as_numpy_dtype)
    plain = _plain(values)
    if (
        kind is None
        and not isinstance(values, (str, bytes))
        and any(isinstance(v, (str, bytes)) for v in _flatten(values))
    ):
        kind = object
    try:
        array = np.array(plain, dtype=kind)
    except (OverflowError, ValueError) as error:
        if "inhomogeneous" in str(error) or "sequence" in str(error):
            raise ValueError(
                "Argument must be a dense tensor: %s - got shape %s, but wanted %s."
                % (values, _shape_of_list(values), _wanted_shape(values))
            ) from None
        raise ValueError(str(error)) from None
    if kind is object and array.ndim != _depth(plain):
        raise ValueError(
            "Argument must be a dense tensor: %s - got shape %s, but wanted %s."
            % (values, _shape_of_list(values), _wanted_shape(values))
        )
    return _narrow(array, values) if kind is None else array


def _depth(values: Any) -> int:
    depth = 0
    while isinstance(values, (list, tuple)):
        depth += 1
        if not values:
            break
        values = values[0]
    return depth + (values.ndim if isinstance(values, np.ndarray) else 0)


def _plain(values: Any) -> Any:
    if isinstance(values, (list, tuple)):
        return (
            [_plain(v) for v in values]
            if any(not isinstance(v, (int, float, bool, complex)) for v in values)
            else values
        )
    if isinstance(values, tensor_shape.TensorShape):
        return values.as_list()
    if isinstance(values, tensor_shape.Dimension):
        return values.value
    if isinstance(values, bytearray):
        return bytes(values)
    return values


def _shape_of_list(values: Any) -> list[int]:
    return [len(values)] if isinstance(values, (list, tuple)) else []


def _wanted_shape(values: Any) -> list[int]:
    shape = []
    while isinstance(values, (list, tuple)):
        shape.append(len(values))
        if not values:
            break
        values = values[0]
    return shape


def _narrow(array: np.ndarray[Any, Any], values: Any) -> np.ndarray[Any, Any]:
    """The array for Python numbers: with 32 bits if they fit; NumPy's own types are kept."""
    items = _flatten(values)
    numpy_types = [v for v in items if isinstance(v, np.generic)]
    has_arrays = isinstance(values, np.ndarray) or (
        isinstance(values, (list, tuple)) and any(isinstance(v, np.ndarray) for v in values)
    )
    if array.dtype.kind in "OSU" or numpy_types or has_arrays:
        return array
    if array.dtype == np.float64 or not items:
        return array.astype(np.float32)
    if array.dtype.kind == "i":
        narrow = array.astype(np.int32)
        if np.array_equal(narrow, array):
            return narrow
    return array


def _basic_array(values: Any, dtype: Any) -> tuple[np.ndarray[Any, Any], Any]:
    if (number := _numbers.array_of(values, dtype)) is not None:
        return number
    if isinstance(values, (np.ndarray, np.generic)):
        array = np.asarray(values)
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        if dtype is not None and dtype.is_numpy_compatible:
            if dtype != dtypes.string and array.dtype.fields is None:
                array = array.astype(dtype.as_numpy_dtype)
    elif callable(getattr(values, "__array__", None)) or hasattr(values, "__array_interface__"):
        array = np.asarray(values)
        if dtype is not None:
            array = array.astype(dtype.as_numpy_dtype)
    else:
        if values is None:
            raise ValueError("None values not supported.")
        array = _list_to_array(values, dtype)
        if array.dtype == object and dtype not in (None, dtypes.string):
            raise TypeError("Cannot convert %r to %s" % (values, dtype))
    if array.dtype.kind == "O" and (dtype is None or dtype == dtypes.string):
        for item in array.ravel():
            if not isinstance(item, (str, bytes, bytearray, np.str_, np.bytes_)):
                if _engine.executing_eagerly() and not isinstance(values, (list, tuple)):
                    text = "Attempt to convert a value (%r) with an unsupported type (%r) to a Tensor."
                    raise ValueError(text % (values, type(values)))
                text = "Failed to convert object of type %s to Tensor. Contents: %s. Consider casting elements to a"
                raise TypeError(text % (type(values), values) + " supported type.")
    try:
        found = dtypes.as_dtype(array.dtype)
    except TypeError:
        raise TypeError("Unrecognized data type: %s" % array.dtype) from None
    return array, found


def _is_empty(shape: Any) -> bool:
    """Whether a shape is given and has no elements."""
    if isinstance(shape, tensor_shape.TensorShape):
        return shape.num_elements() == 0
    return isinstance(shape, (list, tuple)) and any(
        isinstance(d, (int, np.integer)) and d == 0 for d in shape
    )


def _sized_array(
    values: Any, dtype: Any, shape: Any, verify_shape: bool, allow_broadcast: bool
) -> tuple[np.ndarray[Any, Any], Any, Any]:
    """An array with the elements, the DType, and the requested shape, which may have more elements."""
    if dtype is not None:
        dtype = dtypes.as_dtype(dtype)
    array, found = _basic_array(values, dtype)
    if dtype is not None and (not hasattr(dtype, "base_dtype") or dtype.base_dtype != found.base_dtype):
        raise TypeError("Incompatible types: %s vs. %s. Value is %s" % (dtype, array.dtype, values))
    if shape is None:
        return array, found, list(array.shape)
    known = shape.as_list() if isinstance(shape, tensor_shape.TensorShape) else shape
    sizes = [int(d) for d in np.atleast_1d(np.array(known, dtype=np.int64)).tolist()]
    count = int(np.prod(sizes, dtype=np.int64))
    if verify_shape and list(array.shape) != sizes:
        raise TypeError("Expected Tensor's shape: %s, got %s." % (tuple(sizes), tuple(array.shape)))
    if allow_broadcast and array.size != count and array.shape not in ((), (1,)):
        raise TypeError(
            "Eager execution of tf.constant with unsupported shape (value has %d elements, shape is %s with %d elements)."
            % (array.size, tuple(sizes), count)
        )
    if array.size > count:
        raise ValueError(
            "Too many elements provided. Needed at most %d, but received %d" % (count, array.size)
        )
    if array.size < count and array.size == 0:
        raise ValueError("Cannot fill a shape of %d elements from none" % count)
    return array, found, sizes


def make_tensor_proto(
    values: Any,
    dtype: Any = None,
    shape: Any = None,
    verify_shape: bool = False,
    allow_broadcast: bool = False,
) -> Any:
    """A TensorProto of numbers, strings, lists or an array.

    Args:
      values: the elements.
      dtype: their type; None: the values' own.
      shape: the shape; if there are fewer elements, the last one is repeated.
      verify_shape: whether the values must have exactly that shape.
      allow_broadcast: whether a single element may fill the shape.

    Raises:
      TypeError: if the values have another type.
      ValueError: if there are too many of them.
    """
    from millrace.core.framework import tensor_pb2

    if isinstance(values, tensor_pb2.TensorProto):
        return values
    array, found, sizes = _sized_array(values, dtype, shape, verify_shape, allow_broadcast)
    return _proto_of(array, found, sizes)


def _proto_of(array: Any, found: Any, sizes: Any) -> Any:
    """The TensorProto of elements; if the shape has more, the last one is repeated."""
    from millrace.core.framework import tensor_pb2

    proto = tensor_pb2.TensorProto(dtype=found.as_datatype_enum)
    proto.tensor_shape.SetInParent()
    count = 1
    for size in sizes:
        proto.tensor_shape.dim.add(size=size)
        count *= size
    if array.nbytes >= 1 << 31:
        raise ValueError("Cannot create a tensor proto whose content is larger than 2GB.")
    if found == dtypes.string:
        proto.string_val.extend(v.encode() if isinstance(v, str) else bytes(v) for v in array.ravel())
    elif count > 1 and array.size == count and found not in _NOT_AS_CONTENT:
        proto.tensor_content = np.ascontiguousarray(array).tobytes()
    else:
        _append(proto, found, array.ravel())
    return proto


_NOT_AS_CONTENT = (dtypes.float16, dtypes.bfloat16, dtypes.bool, dtypes.complex64, dtypes.complex128)


def _append(proto: Any, dtype: Any, flat: np.ndarray[Any, Any]) -> None:
    field = getattr(proto, _FIELDS[dtype.as_datatype_enum])
    if dtype == dtypes.float16:
        field.extend(int(v) for v in flat.view(np.uint16))
    elif dtype == dtypes.bfloat16:
        field.extend(int(v) for v in np.ascontiguousarray(flat).view(np.uint16))
    elif dtype.is_complex:
        for v in flat:
            field.extend([v.real, v.imag])
    elif flat.dtype.fields is not None:
        field.extend(int(v[0]) for v in flat)
    else:
        field.extend(flat.tolist())


def MakeNdarray(tensor: Any) -> np.ndarray[Any, Any]:  # noqa: N802
    """The array of a TensorProto."""
    if not hasattr(tensor, "tensor_shape"):
        raise TypeError("Expected a TensorProto, got %r." % (tensor,))
    sizes = [d.size for d in tensor.tensor_shape.dim]
    count = int(np.prod(sizes, dtype=np.int64))
    dtype = dtypes.as_dtype(tensor.dtype)
    kind = dtype.as_numpy_dtype
    if dtype == dtypes.string:
        values = list(tensor.string_val)
        values += values[-1:] * (count - len(values))
        result = np.empty(count, dtype=object)
        result[:] = values
        return result.reshape(sizes)
    if tensor.tensor_content:
        return np.frombuffer(tensor.tensor_content, dtype=kind).copy().reshape(sizes)
    values = list(getattr(tensor, _FIELDS[dtype.as_datatype_enum]))
    if dtype.is_complex:
        flat = np.array(values, dtype=np.float64 if dtype == dtypes.complex128 else np.float32)
        flat = (flat[::2] + 1j * flat[1::2]).astype(kind)
    elif dtype in (dtypes.float16, dtypes.bfloat16):
        flat = np.array(values, dtype=np.uint16).view(kind)
    elif np.dtype(kind).fields is not None:
        flat = np.array([(v,) for v in values], dtype=kind)
    else:
        flat = np.array(values, dtype=kind)
    if flat.size < count:
        last = flat[-1:] if flat.size else np.zeros(1, dtype=kind)
        flat = np.concatenate([flat, np.repeat(last, count - flat.size)])
    return flat.reshape(sizes)


make_ndarray = MakeNdarray


def ShapeEquals(tensor_proto: Any, shape: Any) -> bool:  # noqa: N802
    """Whether a TensorProto has a shape."""
    if not hasattr(tensor_proto, "tensor_shape"):
        raise TypeError("tensor_proto is not a tensor_pb2.TensorProto object")
    if hasattr(shape, "dim"):
        shape = [d.size for d in shape.dim]
    elif not isinstance(shape, (list, tuple)):
        raise TypeError("shape is not a list or tuple")
    return [d.size for d in tensor_proto.tensor_shape.dim] == list(shape)


def constant_value(tensor: Any, partial: bool = False) -> Optional[np.ndarray[Any, Any]]:
    """The value of a tensor that the graph alone determines, as an array, or None.

    Other objects are returned unchanged. With `partial` the value of a Pack may have None for elements that
    are not known.
    """
    if not isinstance(tensor, _engine.TensorBase):
        value = getattr(tensor, "_constant_value", None)
        if callable(value):
            return value()
        if not is_tensor(tensor):
            return tensor  # a value of Python or NumPy
        element = getattr(tensor, "_as_graph_element", None)
        if element is None:
            return None
        tensor = element()
        if not isinstance(tensor, _engine.TensorBase):
            return None
    if isinstance(tensor, _engine.EagerTensorBase):
        return np.array(tensor) if tensor.dtype.is_numpy_compatible else None
    value: Any = None  # type: ignore[no-redef]
    if tensor.dtype.is_numpy_compatible and not tensor.dtype._is_ref_dtype:
        value = _engine.try_evaluate_constant(tensor)
    if value is None and partial and tensor.op.type == "Pack" and tensor.op.inputs:
        return _partial_pack(tensor.op) if tensor.op.get_attr("axis") == 0 else None
    if value is not None:
        # Only values that cannot change between runs.
        tensor.graph.prevent_feeding(tensor)
    return value


def _partial_pack(op: Any) -> Any:
    """The known inputs of a Pack: None for unknown ones, rows for partially known ones."""
    values = [constant_value(x, partial=True) for x in op.inputs]
    if len({None if value is None else np.shape(value) for value in values}) == 1 and values[0] is not None:
        return np.array(values, dtype=object)
    rows = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        rows[i] = None if value is None else value[()]
    return rows


def constant_value_as_shape(tensor: Any) -> tensor_shape.TensorShape:
    """The TensorShape whose sizes a vector holds, as far as the graph determines them."""
    shape = tensor.shape.with_rank(1) if tensor.shape.ndims != 0 else tensor.shape
    if tensor.shape.ndims == 0:
        value = constant_value(tensor)
        if value is None:
            raise ValueError(
                "Received a scalar with unknown value as shape; require a statically known scalar with value '-1' to describe an unknown shape."
            )
        if value != -1:
            raise ValueError(
                "Received a scalar value '%s' as shape; require a statically known scalar with value '-1' to describe an unknown shape."
                % value
            )
        return tensor_shape.unknown_shape()
    if shape == [0]:
        return tensor_shape.scalar()
    if isinstance(tensor, _engine.EagerTensorBase):
        return tensor_shape.TensorShape([None if n == -1 else n for n in tensor.numpy().tolist()])
    op = tensor.op
    if op.type == "Cast":
        return constant_value_as_shape(op.inputs[0])
    if op.type == "Shape":
        return op.inputs[0].shape
    if op.type == "Pack" and op.get_attr("axis") == 0:
        sizes = []
        for item in op.inputs:
            value = constant_value(item)
            sizes.append(None if value is None or value < 0 else int(value))
        return tensor_shape.TensorShape(sizes)
    if op.type in ("Concat", "ConcatV2"):
        parts = op.inputs[1:] if op.type == "Concat" else op.inputs[:-1]
        result = tensor_shape.scalar()
        for part in parts:
            result = result.concatenate(constant_value_as_shape(part))
        return result
    if op.type == "StridedSlice":
        sliced = _sliced_shape(op)
        if sliced is not None:
            return sliced
    if op.type == "Placeholder" and op.graph.building_function:
        value = None
    else:
        value = constant_value(tensor)
    if value is None:
        return tensor_shape.unknown_shape(rank=shape.dims[0].value)
    return tensor_shape.TensorShape([None if d < 0 else int(d) for d in value])


def _sliced_shape(op: Any) -> Any:
    begin, end, strides = (constant_value(op.inputs[i]) for i in (1, 2, 3))
    if begin is None or end is None or strides is None or len(begin) != 1:
        return None
    if op.get_attr("ellipsis_mask") or op.get_attr("new_axis_mask") or op.get_attr("shrink_axis_mask"):
        return None
    first = None if op.get_attr("begin_mask") & 1 else int(begin[0])
    last = None if op.get_attr("end_mask") & 1 else int(end[0])
    whole = constant_value_as_shape(op.inputs[0])
    if whole.ndims is None:
        return None
    return tensor_shape.TensorShape(whole.as_list()[first : last : int(strides[0])])


def is_tensor(x: Any) -> bool:
    """Whether `x` is a Tensor, a variable, or something made of tensors."""
    return (
        is_dense_tensor_like(x) or hasattr(x, "_type_spec") or getattr(x, "_is_millrace_tensor_like", False)
    )


is_tf_type = is_tensor


def shape_tensor(shape: Any) -> Any:
    """A shape as a tensor of integers."""
    from millrace.python.framework import ops

    dtype = None
    if isinstance(shape, (tuple, list)):
        dtype = None if shape else dtypes.int32
        shape = tuple(tensor_shape.dimension_value(d) for d in shape)
    return ops.convert_to_tensor(shape, dtype=dtype, name="shape")


def maybe_set_static_shape(tensor: Any, shape: Any) -> None:
    """Sets the static shape of a tensor from a shape argument."""
    if isinstance(shape, _engine.TensorBase) and not tensor.shape.is_fully_defined():
        tensor.set_shape(constant_value_as_shape(shape))
