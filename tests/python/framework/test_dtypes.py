# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""DType: numbers, names, NumPy types, limits and errors."""
from __future__ import annotations

import numpy as np
import pytest

from millrace.core.framework import types_pb2
from millrace.python.framework import dtypes


def test_every_type_of_the_messages_has_a_dtype() -> None:
    for number in types_pb2.DataType.values():
        if number == types_pb2.DT_INVALID:
            continue
        dtype = dtypes.DType(number)
        assert dtype.as_datatype_enum == number and dtypes.as_dtype(number) == dtype
        assert dtypes.as_dtype(dtype.name) == dtype and dtypes.as_dtype(dtype) is dtype
        assert dtype._is_ref_dtype == (number > 100)
    with pytest.raises(TypeError, match="types_pb2.DT_INVALID|is not a valid|type_enum is not a valid"):
        dtypes.DType(0)
    with pytest.raises(TypeError, match="type_enum is not a valid types_pb2.DataType"):
        dtypes.DType(types_pb2.DataType.values()[-1] + 77)


@pytest.mark.parametrize(
    "dtype, kind",
    [
        (dtypes.float16, np.float16), (dtypes.float32, np.float32), (dtypes.float64, np.float64), (dtypes.int8, np.int8),
        (dtypes.int16, np.int16), (dtypes.int32, np.int32), (dtypes.int64, np.int64), (dtypes.uint8, np.uint8),
        (dtypes.uint16, np.uint16), (dtypes.uint32, np.uint32), (dtypes.uint64, np.uint64), (dtypes.bool, np.bool_),
        (dtypes.complex64, np.complex64), (dtypes.complex128, np.complex128), (dtypes.string, object),
    ],
)  # fmt: skip
def test_numpy_types(dtype: dtypes.DType, kind: type) -> None:
    assert dtypes.as_dtype(kind) is dtype and dtypes.as_dtype(np.dtype(kind)) is dtype
    assert dtype.as_numpy_dtype == kind and dtype.is_numpy_compatible
    if dtype is not dtypes.string:
        assert dtype.size == np.dtype(kind).itemsize


def test_python_types_and_strings_of_bytes() -> None:
    assert dtypes.as_dtype(float) is dtypes.float32 and dtypes.as_dtype(bool) is dtypes.bool
    assert dtypes.as_dtype(np.array(["foo", "bar"]).dtype) is dtypes.string
    assert dtypes.as_dtype(np.array([b"foo"]).dtype) is dtypes.string
    assert dtypes.as_dtype("float") is dtypes.float32 and dtypes.as_dtype("half") is dtypes.float16
    assert (
        dtypes.as_dtype("double") is dtypes.float64
        and dtypes.as_dtype("float32_ref") is dtypes.float32._as_ref
    )
    for wrong in ("fish", None, object()):
        with pytest.raises(TypeError, match="Cannot convert value .* to a TensorFlow DType"):
            dtypes.as_dtype(wrong)


def test_properties() -> None:
    assert dtypes.float32.is_floating and dtypes.bfloat16.is_floating and not dtypes.int32.is_floating
    assert dtypes.int32.is_integer and dtypes.uint64.is_integer and not dtypes.qint8.is_integer
    assert dtypes.complex64.is_complex and not dtypes.float64.is_complex and dtypes.bool.is_bool
    assert dtypes.uint8.is_unsigned and not dtypes.int8.is_unsigned and not dtypes.float32.is_unsigned
    assert dtypes.qint8.is_quantized and dtypes.quint16.is_quantized and not dtypes.int8.is_quantized
    assert dtypes.complex64.real_dtype is dtypes.float32 and dtypes.complex128.real_dtype is dtypes.float64
    assert dtypes.float32.real_dtype is dtypes.float32
    assert dtypes.QUANTIZED_DTYPES >= {dtypes.qint8, dtypes.quint8, dtypes.qint32}
    assert dtypes.float32._is_ref_dtype is False and dtypes.float32._as_ref._is_ref_dtype
    assert (
        dtypes.float32._as_ref.base_dtype is dtypes.float32 and dtypes.float32._as_ref.name == "float32_ref"
    )
    assert dtypes.float32.is_compatible_with(
        dtypes.float32._as_ref
    ) and not dtypes.float32.is_compatible_with(dtypes.int32)


def test_limits() -> None:
    assert dtypes.int8.min == -128 and dtypes.int8.max == 127 and dtypes.uint16.max == 65535
    assert dtypes.float32.max == np.finfo(np.float32).max and dtypes.float16.min == np.finfo(np.float16).min
    assert dtypes.int64.max == 2**63 - 1 and dtypes.int32.min == -(2**31)
    assert dtypes.bfloat16.max > 3e38 and dtypes.uint8.limits == (0, 255)
    for dtype in (dtypes.complex64, dtypes.string, dtypes.bool):
        with pytest.raises(TypeError, match="Cannot find (min|max)imum value"):
            dtype.min
        with pytest.raises(TypeError):
            dtype.max


def test_texts_equality_and_hash() -> None:
    assert repr(dtypes.float32) == "tf.float32" and str(dtypes.float32) == "<dtype: 'float32'>"
    assert str(dtypes.int64._as_ref) == "<dtype: 'int64_ref'>"
    assert (
        dtypes.int32 == "int32"
        and dtypes.int32 == np.int32
        and dtypes.int32 != dtypes.int64
        and dtypes.int32 != None
    )  # noqa: E711
    assert dtypes.int32 != "fish" and not dtypes.int32 == 12.5
    assert len({dtypes.int32, dtypes.as_dtype("int32"), dtypes.DType(types_pb2.DT_INT32)}) == 1
    import copy
    import pickle

    assert (
        pickle.loads(pickle.dumps(dtypes.int32)) == dtypes.int32 and copy.deepcopy(dtypes.bool) == dtypes.bool
    )
