# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""TF_Server of the C API."""

from __future__ import annotations

import ctypes
from typing import Any

from millrace.python.lib.io import _native


class NativeServer:
    """A server of the engine. Errors are those of tf.errors."""

    def __init__(self, server_def: bytes) -> None:
        lib = _native.library()
        pointer = ctypes.c_void_p
        lib.TF_NewServer.restype = pointer
        lib.TF_NewServer.argtypes = [ctypes.c_char_p, ctypes.c_size_t, pointer]
        for name in ("TF_ServerStart", "TF_ServerStop", "TF_ServerJoin"):
            getattr(lib, name).restype = None
            getattr(lib, name).argtypes = [pointer, pointer]
        lib.TF_ServerTarget.restype = ctypes.c_char_p
        lib.TF_ServerTarget.argtypes = [pointer]
        lib.TF_DeleteServer.restype = None
        lib.TF_DeleteServer.argtypes = [pointer]
        self._lib = lib
        self._handle: Any = None
        with _native.Status() as status:
            self._handle = lib.TF_NewServer(server_def, len(server_def), status)

    def start(self) -> None:
        with _native.Status() as status:
            self._lib.TF_ServerStart(self._handle, status)

    def join(self) -> None:
        with _native.Status() as status:
            self._lib.TF_ServerJoin(self._handle, status)

    @property
    def target(self) -> str:
        text: bytes = self._lib.TF_ServerTarget(self._handle) or b""
        return text.decode()
