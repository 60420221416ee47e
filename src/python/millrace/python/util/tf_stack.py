# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Stacks of calls."""
from __future__ import annotations

import linecache
import sys
from typing import Any

TB_FILENAME, TB_LINENO, TB_FUNCNAME, TB_CODEDICT = range(4)


class CurrentModuleFilter:
    """A context: stacks leave out the functions of the caller's module."""

    def __enter__(self) -> CurrentModuleFilter:
        return self

    def __exit__(self, *args: Any) -> None:
        """Does nothing."""


StackTraceFilter = StackTraceMapper = StackTraceTransform = CurrentModuleFilter


def extract_stack(limit: Any = -1) -> list[tuple[str, int, str, Any]]:
    """The calls that lead here: (file, line, function, text), outermost first."""
    frames: list[Any] = []
    frame: Any = sys._getframe(1)
    while frame is not None and (limit is None or limit < 0 or len(frames) < limit):
        code = frame.f_code
        text = linecache.getline(code.co_filename, frame.f_lineno).strip() or None
        frames.append((code.co_filename, frame.f_lineno, code.co_name, text))
        frame = frame.f_back
    return frames[::-1]


def convert_stack(stack: Any, include_func_start_lineno: bool = False) -> tuple[Any, ...]:
    """The stack as a tuple."""
    return tuple(tuple(frame) + ((None,) if include_func_start_lineno else ()) for frame in stack)
