# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Element types of tensors, and how they relate to NumPy's."""
from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python import _engine

_Bool = bool  # `bool` is a DType below

_REF_OFFSET = 100


class DType:
    """The type of the elements of a tensor; types with `_ref` are those of reference variables."""

    __slots__ = ["_type_enum", "_hash"]

    def __init__(self, type_enum: int) -> None:
        try:
            type_enum = int(type_enum)
        except OverflowError:
            type_enum = 0
        if type_enum not in _NAMES or type_enum == 0:
            raise TypeError("type_enum is not a valid types_pb2.DataType: %s" % type_enum)
        self._type_enum = type_enum

    @property
    def _is_ref_dtype(self) -> _Bool:
        return self._type_enum > _REF_OFFSET

    @property
    def _as_ref(self) -> DType:
        return self if self._is_ref_dtype else _ALL[self._type_enum + _REF_OFFSET]

    @property
    def base_dtype(self) -> DType:
        """This type without `_ref`."""
        return _ALL[self._type_enum - _REF_OFFSET] if self._is_ref_dtype else self

    @property
    def real_dtype(self) -> DType:
        """The type of the real part of this type; itself if it is real."""
        base = self.base_dtype
        if base == complex64:
            return float32
        if base == complex128:
            return float64
        return self

    @property
    def is_numpy_compatible(self) -> _Bool:
        return self._type_enum not in (20, 21, 120, 121)

    @property
    def as_numpy_dtype(self) -> Any:
        """The NumPy type: `np.float32` for `tf.float32`."""
        return _TF_TO_NP[self._type_enum]

    @property
    def as_datatype_enum(self) -> int:
        """The number of the type in the wire format."""
        return self._type_enum

    @property
    def is_bool(self) -> _Bool:
        return self.base_dtype == bool

    @property
    def is_integer(self) -> _Bool:
        """Whether this is an integer type that is not quantised."""
        return (
            self.is_numpy_compatible
            and not self.is_quantized
            and self.base_dtype != bfloat16
            and np.issubdtype(self.as_numpy_dtype, np.integer)
        )

    @property
    def is_floating(self) -> _Bool:
        """Whether this is a real floating point type."""
        return self.base_dtype == bfloat16 or (
            self.is_numpy_compatible and np.issubdtype(self.as_numpy_dtype, np.floating)
        )

    @property
    def is_complex(self) -> _Bool:
        return self.base_dtype in (complex64, complex128)

    @property
    def is_quantized(self) -> _Bool:
        return self.base_dtype in _QUANTIZED

    @property
    def is_unsigned(self) -> _Bool:
        try:
            return self.min == 0
        except TypeError:
            return False

    @property
    def min(self) -> Any:
        """The smallest value; TypeError for types that have no order."""
        return self._limit("min", "minimum")

    @property
    def max(self) -> Any:
        """The largest value; TypeError for types that have no order."""
        return self._limit("max", "maximum")

    def _limit(self, which: str, word: str) -> Any:
        base = self.base_dtype
        if self.is_quantized or base in (bool, string, complex64, complex128, resource, variant):
            raise TypeError("Cannot find %s value of %s." % (word, self))
        if base == bfloat16:
            return -float.fromhex("0x1.FEp127") if which == "min" else float.fromhex("0x1.FEp127")
        kind = self.as_numpy_dtype
        info = np.finfo(kind) if np.issubdtype(kind, np.floating) else np.iinfo(kind)
        return getattr(info, which)

    @property
    def limits(self) -> Any:
        return self._limits()

    def _limits(self, clip_negative: Any = True) -> Any:
        low, high = dtype_range[self.as_numpy_dtype]
        return (0 if clip_negative else low), high

    def is_compatible_with(self, other: Any) -> Any:
        """Whether a value of type `other` may represent one of this type: a `_ref` type takes its base type."""
        other = as_dtype(other)
        return self._type_enum in (other.as_datatype_enum, other.base_dtype.as_datatype_enum)

    def __eq__(self, other: object) -> Any:
        if other is self:
            return True
        if other is None:
            return False
        if not isinstance(other, DType):
            try:
                other = as_dtype(other)
            except TypeError:
                return False
        return self._type_enum == other._type_enum

    def __ne__(self, other: object) -> Any:
        return not self.__eq__(other)

    def __hash__(self) -> int:
        return self._type_enum

    @property
    def name(self) -> str:
        """The name: "float32", "string_ref"."""
        return _NAMES[self._type_enum]

    def __str__(self) -> str:
        return "<dtype: %r>" % self.name

    def __repr__(self) -> str:
        return "tf." + self.name

    def __int__(self) -> int:
        return self._type_enum

    def __reduce__(self) -> Any:
        return as_dtype, (self.name,)

    @property
    def size(self) -> int:
        """Bytes of one element; 1 for strings and handles."""
        if self._type_enum in (20, 21, 120, 121):
            return 1
        return (
            np.dtype(self.as_numpy_dtype).itemsize if self.base_dtype != string else np.dtype(object).itemsize
        )


_BASE_NAMES = [
    "invalid", "float32", "float64", "int32", "uint8", "int16", "int8", "string", "complex64", "int64", "bool",
    "qint8", "quint8", "qint32", "bfloat16", "qint16", "quint16", "uint16", "complex128", "float16", "resource",
    "variant", "uint32", "uint64",
]  # fmt: skip
_NAMES = dict(enumerate(_BASE_NAMES))
_NAMES.update({number + _REF_OFFSET: name + "_ref" for number, name in enumerate(_BASE_NAMES) if number})
_TYPE_TO_STRING = {number: name for number, name in _NAMES.items() if number}
_ALL = {number: DType(number) for number in _NAMES if number}

float32 = _ALL[1]
float64 = double = _ALL[2]
int32 = _ALL[3]
uint8 = _ALL[4]
int16 = _ALL[5]
int8 = _ALL[6]
string = _ALL[7]
complex64 = _ALL[8]
int64 = _ALL[9]
bool = _ALL[10]
qint8 = _ALL[11]
quint8 = _ALL[12]
qint32 = _ALL[13]
bfloat16 = _ALL[14]
qint16 = _ALL[15]
quint16 = _ALL[16]
uint16 = _ALL[17]
complex128 = _ALL[18]
float16 = half = _ALL[19]
resource = _ALL[20]
variant = _ALL[21]
uint32 = _ALL[22]
uint64 = _ALL[23]
float32_ref = _ALL[101]
float64_ref = double_ref = _ALL[102]
int32_ref = _ALL[103]
uint8_ref = _ALL[104]
int16_ref = _ALL[105]
int8_ref = _ALL[106]
string_ref = _ALL[107]
complex64_ref = _ALL[108]
int64_ref = _ALL[109]
bool_ref = _ALL[110]
qint8_ref = _ALL[111]
quint8_ref = _ALL[112]
qint32_ref = _ALL[113]
bfloat16_ref = _ALL[114]
qint16_ref = _ALL[115]
quint16_ref = _ALL[116]
uint16_ref = _ALL[117]
complex128_ref = _ALL[118]
float16_ref = half_ref = _ALL[119]
resource_ref = _ALL[120]
variant_ref = _ALL[121]
uint32_ref = _ALL[122]
uint64_ref = _ALL[123]

_INTERN_TABLE = _ALL
TF_VALUE_DTYPES = set(_ALL)
_QUANTIZED = frozenset([qint8, quint8, qint16, quint16, qint32])
QUANTIZED_DTYPES_NO_REF = _QUANTIZED
QUANTIZED_DTYPES_REF = frozenset(t._as_ref for t in _QUANTIZED)
QUANTIZED_DTYPES = QUANTIZED_DTYPES_REF.union(_QUANTIZED)

_np_qint8 = np.dtype([("qint8", np.int8)])
_np_quint8 = np.dtype([("quint8", np.uint8)])
_np_qint16 = np.dtype([("qint16", np.int16)])
_np_quint16 = np.dtype([("quint16", np.uint16)])
_np_qint32 = np.dtype([("qint32", np.int32)])
np_resource = np.dtype([("resource", np.ubyte)])
_np_bfloat16 = _engine.bfloat16  # registered by the extension: NumPy has none
np.sctypeDict["bfloat16"] = _np_bfloat16

_TF_TO_NP: dict[int, Any] = {
    1: np.float32, 2: np.float64, 3: np.int32, 4: np.uint8, 5: np.int16, 6: np.int8, 7: object, 8: np.complex64,
    9: np.int64, 10: np.bool_, 11: _np_qint8, 12: _np_quint8, 13: _np_qint32, 14: _np_bfloat16, 15: _np_qint16,
    16: _np_quint16, 17: np.uint16, 18: np.complex128, 19: np.float16, 22: np.uint32, 23: np.uint64,
}  # fmt: skip
_TF_TO_NP.update({number + _REF_OFFSET: kind for number, kind in list(_TF_TO_NP.items())})
_NP_TO_TF = {
    np.dtype(kind): _ALL[number] for number, kind in _TF_TO_NP.items() if number < _REF_OFFSET and number != 7
}
_NP_TO_TF[np.dtype(object)] = string
_NP_TO_TF[np_resource] = resource
_NP_TO_TF[np.dtype(np.longlong)] = int64
_NP_TO_TF[np.dtype(np.ulonglong)] = uint64

_STRING_TO_TF = {name: _ALL[number] for number, name in _NAMES.items() if number}
_STRING_TO_TF.update(half=float16, float=float32, double=float64, half_ref=float16_ref, float_ref=float32_ref)
_STRING_TO_TF["double_ref"] = float64_ref
_PYTHON_TO_TF: dict[Any, DType] = {float: float32, type(True): bool, object: string, np.object_: string}
_ANY_TO_TF: dict[Any, DType] = {}
_ANY_TO_TF.update(_ALL)
_ANY_TO_TF.update(_STRING_TO_TF)
_ANY_TO_TF.update(_PYTHON_TO_TF)
_ANY_TO_TF.update({kind: _ALL[number] for number, kind in _TF_TO_NP.items() if number < _REF_OFFSET})

dtype_range = {
    np.bool_: (False, True), np.uint8: (0, 255), np.uint16: (0, 65535), np.int8: (-128, 127),
    np.int16: (-32768, 32767), np.int64: (-(2**63), 2**63 - 1), np.uint64: (0, 2**64 - 1),
    np.int32: (-(2**31), 2**31 - 1), np.uint32: (0, 2**32 - 1), np.float32: (-1, 1), np.float64: (-1, 1),
}  # fmt: skip


def as_dtype(type_value: Any) -> DType:
    """The DType that `type_value` names: a DType, a number or name of one, or a NumPy or Python type.

    Raises:
      TypeError: if it names none.
    """
    if isinstance(type_value, DType):
        return type_value
    try:
        found = _ANY_TO_TF.get(type_value)
        if found is not None:
            return found
    except TypeError:  # not hashable
        pass
    if type_value is None or isinstance(type_value, (str, bytes, int)):
        if not isinstance(type_value, str):
            raise TypeError("Cannot convert value %r to a TensorFlow DType." % (type_value,))
    try:
        kind = np.dtype(getattr(type_value, "dtype", type_value))
    except TypeError:
        kind = None
    if kind is not None:
        if kind.kind in "SU":
            return string
        found = _NP_TO_TF.get(kind if kind.isnative else kind.newbyteorder("="))
        if found is not None and not (
            kind.kind == "O" and type_value is not object and isinstance(type_value, type)
        ):
            return found
    raise TypeError("Cannot convert value %r to a TensorFlow DType." % (type_value,))


for _number, _dtype in _ALL.items():
    _engine.register_dtype(_number, _dtype)
_engine.register("dtype_enum", lambda value: as_dtype(value).as_datatype_enum)
