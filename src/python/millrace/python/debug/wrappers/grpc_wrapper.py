# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions that send tensors to a debugger in another process, which are not supported."""
from __future__ import annotations

from typing import Any

_TEXT = (
    "%s is not implemented: Millrace sends no tensors to debuggers in other processes. Use "
    "tf_debug.DumpingDebugWrapperSession or tf_debug.LocalCLIDebugWrapperSession instead"
)


class GrpcDebugWrapperSession:
    """Not supported: raises NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(_TEXT % "GrpcDebugWrapperSession")


class TensorBoardDebugWrapperSession(GrpcDebugWrapperSession):
    """Not supported: raises NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(_TEXT % "TensorBoardDebugWrapperSession")
