# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The functions of include/millrace/c/io.h, called by ctypes in the library that the extension has loaded."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

from millrace.python.framework import errors_impl


@functools.lru_cache(maxsize=None)
def library() -> Any:
    """The library as a ctypes.CDLL. Raises OSError where it cannot be found."""
    from millrace.python import _engine

    # The soname of a loaded library finds it again.
    candidates = ["libtensorflow.so.1"]
    path = getattr(_engine, "library_path", None)
    if isinstance(path, str):
        candidates.insert(0, path)
    folder = os.path.dirname(os.path.abspath(_engine.__file__))
    candidates += [
        os.path.join(folder, "libtensorflow.so.1"),
        os.path.join(os.path.dirname(folder), "libtensorflow.so.1"),
    ]
    failure: OSError | None = None
    for name in candidates:
        try:
            return _declare(ctypes.CDLL(name))
        except OSError as e:
            failure = e
    assert failure is not None
    raise failure


def _declare(lib: Any) -> Any:
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t

    def function(name: str, result: Any, *arguments: Any) -> None:
        f = getattr(lib, name)
        f.restype = result
        f.argtypes = list(arguments)

    function("TF_NewStatus", pointer)
    function("TF_DeleteStatus", None, pointer)
    function("TF_GetCode", ctypes.c_int, pointer)
    function("TF_Message", text, pointer)
    function("TF_TensorType", ctypes.c_int, pointer)
    function("TF_NumDims", ctypes.c_int, pointer)
    function("TF_Dim", ctypes.c_int64, pointer, ctypes.c_int)
    function("TF_TensorData", pointer, pointer)
    function("TF_TensorByteSize", size, pointer)
    function("TF_DeleteTensor", None, pointer)
    function("Millrace_ExtendCrc32c", ctypes.c_uint32, ctypes.c_uint32, text, size)
    function("Millrace_OpenCheckpoint", pointer, text, pointer)
    function("Millrace_CloseCheckpoint", None, pointer)
    function("Millrace_CheckpointCount", ctypes.c_int, pointer)
    function(
        "Millrace_CheckpointVariable",
        ctypes.c_int,
        pointer,
        ctypes.c_int,
        ctypes.POINTER(text),
        ctypes.POINTER(ctypes.c_int),
        ctypes.POINTER(ctypes.POINTER(ctypes.c_int64)),
        ctypes.POINTER(ctypes.c_int),
    )
    function("Millrace_CheckpointTensor", pointer, pointer, text, pointer)
    return lib


class Status:
    """A TF_Status for the body of a with statement; its error is raised at the end."""

    def __enter__(self) -> Any:
        self._status = library().TF_NewStatus()
        return self._status

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        lib = library()
        code = lib.TF_GetCode(self._status)
        message = lib.TF_Message(self._status).decode("utf-8", "replace")
        lib.TF_DeleteStatus(self._status)
        if code != 0 and kind is None:
            raise errors_impl.exception_type_from_error_code(code)(None, None, message)  # type: ignore[call-arg]


def _strings(data: bytes, count: int) -> list[bytes]:
    """Strings of a tensor in the form of the C API: offsets, then lengths as varints, each before its bytes."""
    offsets = [int.from_bytes(data[8 * i : 8 * i + 8], "little") for i in range(count)]
    result = []
    for offset in offsets:
        at, length, shift = 8 * count + offset, 0, 0
        while True:
            byte = data[at]
            at += 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        result.append(data[at : at + length])
    return result


def tensor_to_array(tensor: Any) -> Any:
    """A TF_Tensor as a NumPy array (of bytes objects for strings); deletes it."""
    import numpy as np

    from millrace.python.framework import dtypes

    lib = library()
    try:
        dtype = dtypes.as_dtype(lib.TF_TensorType(tensor))
        shape = tuple(lib.TF_Dim(tensor, i) for i in range(lib.TF_NumDims(tensor)))
        size = lib.TF_TensorByteSize(tensor)
        data = ctypes.string_at(lib.TF_TensorData(tensor), size) if size else b""
    finally:
        lib.TF_DeleteTensor(tensor)
    count = 1
    for dim in shape:
        count *= dim
    if dtype == dtypes.string:
        array = np.empty(count, dtype=object)
        array[:] = _strings(data, count)
        return array.reshape(shape) if shape else array[0]
    return np.frombuffer(bytearray(data), dtype=dtype.as_numpy_dtype, count=count).reshape(shape)
