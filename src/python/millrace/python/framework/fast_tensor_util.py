# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Fills TensorProtos from arrays."""
from __future__ import annotations

from typing import Any

import numpy as np


def _appender(field: str, convert: Any = None) -> Any:
    def append(tensor_proto: Any, nparray: Any) -> None:
        flat = np.asarray(nparray).ravel()
        getattr(tensor_proto, field).extend((flat if convert is None else convert(flat)).tolist())

    append.__doc__ = "Adds the elements of an array to `%s`." % field
    return append


def _halves(flat: Any) -> Any:
    return np.asarray(flat).view(np.uint16)


def _pairs(kind: Any) -> Any:
    return lambda flat: np.asarray(flat).view(kind)


AppendFloat16ArrayToTensorProto = _appender("half_val", _halves)
AppendBFloat16ArrayToTensorProto = _appender("half_val", _halves)
AppendFloat32ArrayToTensorProto = _appender("float_val")
AppendFloat64ArrayToTensorProto = _appender("double_val")
AppendInt32ArrayToTensorProto = _appender("int_val")
AppendUInt32ArrayToTensorProto = _appender("uint32_val")
AppendInt64ArrayToTensorProto = _appender("int64_val")
AppendUInt64ArrayToTensorProto = _appender("uint64_val")
AppendUInt8ArrayToTensorProto = _appender("int_val")
AppendUInt16ArrayToTensorProto = _appender("int_val")
AppendInt16ArrayToTensorProto = _appender("int_val")
AppendInt8ArrayToTensorProto = _appender("int_val")
AppendComplex64ArrayToTensorProto = _appender("scomplex_val", _pairs(np.float32))
AppendComplex128ArrayToTensorProto = _appender("dcomplex_val", _pairs(np.float64))
AppendBoolArrayToTensorProto = _appender("bool_val")


def AppendObjectArrayToTensorProto(tensor_proto: Any, nparray: Any) -> None:  # noqa: N802
    """Adds strings."""
    tensor_proto.string_val.extend(
        v.encode() if isinstance(v, str) else v for v in np.asarray(nparray).ravel()
    )
