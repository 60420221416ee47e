# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""CheckpointReader: names, types, shapes and values of the tensors in a checkpoint."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from millrace.python.framework import dtypes
from millrace.python.lib.io import _native

__all__ = ["CheckpointReader", "NewCheckpointReader"]


class CheckpointReader:
    """Reads a checkpoint of either format. Not thread-safe."""

    def __init__(self, name: str) -> None:
        """Opens a checkpoint.

        Args:
          name: prefix of the checkpoint, or file or pattern of files of the first format.

        Raises:
          NotFoundError, DataLossError, ...: if it cannot be opened.
        """
        self._handle: Any = None
        self._lib = _native.library()
        with _native.Status() as status:
            self._handle = self._lib.Millrace_OpenCheckpoint(os.fsencode(name), status)
        self._variables: dict[str, tuple[Any, list[int]]] = {}
        for i in range(self._lib.Millrace_CheckpointCount(self._handle)):
            key, dtype, rank = ctypes.c_char_p(), ctypes.c_int(), ctypes.c_int()
            dims = ctypes.POINTER(ctypes.c_int64)()
            self._lib.Millrace_CheckpointVariable(
                self._handle,
                i,
                ctypes.byref(key),
                ctypes.byref(dtype),
                ctypes.byref(dims),
                ctypes.byref(rank),
            )
            shape = [int(dims[d]) for d in range(rank.value)]
            self._variables[(key.value or b"").decode("utf-8", "surrogateescape")] = (
                dtypes.as_dtype(dtype.value),
                shape,
            )

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._lib.Millrace_CloseCheckpoint(self._handle)
            self._handle = None

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Shapes, as lists, by names."""
        return {name: list(shape) for name, (_, shape) in self._variables.items()}

    def get_variable_to_dtype_map(self) -> dict[str, Any]:
        """Types by names."""
        return {name: dtype for name, (dtype, _) in self._variables.items()}

    def _GetVariableToDataTypeMap(self) -> dict[str, int]:  # noqa: N802
        return {name: dtype.as_datatype_enum for name, (dtype, _) in self._variables.items()}

    def has_tensor(self, tensor_str: Any) -> bool:
        """Whether there is a variable of that name."""
        return _text(tensor_str) in self._variables

    def get_tensor(self, tensor_str: Any) -> Any:
        """The value of a variable as a NumPy array; bytes for a string scalar. Raises NotFoundError."""
        with _native.Status() as status:
            tensor = self._lib.Millrace_CheckpointTensor(
                self._handle, _text(tensor_str).encode("utf-8", "surrogateescape"), status
            )
        return _native.tensor_to_array(tensor)

    def debug_string(self) -> bytes:
        """A line for each variable: its name, type and shape."""
        from millrace.core.framework import types_pb2

        lines = [
            "%s (%s) [%s]\n"
            % (name, types_pb2.DataType.Name(dtype.as_datatype_enum), ",".join(map(str, shape)))
            for name, (dtype, shape) in sorted(self._variables.items())
        ]
        return "".join(lines).encode("utf-8", "surrogateescape")


def _text(name: Any) -> str:
    return name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else str(name)


def NewCheckpointReader(filepattern: Any) -> CheckpointReader:  # noqa: N802
    """A CheckpointReader of a checkpoint. Errors: as in its constructor."""
    return CheckpointReader(os.fspath(filepattern))
