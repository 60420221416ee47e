# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Stacks whose entries have the source position that pushed them."""
from __future__ import annotations

import inspect
from typing import Any


class TraceableObject:
    """An object and the source position that it comes from."""

    SUCCESS, HEURISTIC_USED, FAILURE = (0, 1, 2)

    def __init__(self, obj: Any, filename: Any = None, lineno: Any = None) -> None:
        self.obj = obj
        self.filename = filename
        self.lineno = lineno

    def set_filename_and_line_from_caller(self, offset: int = 0) -> int:
        """Records the source position of the caller, or of a caller of it; returns how reliable it is."""
        frames = inspect.stack(context=0)
        index = offset + 1
        if index >= len(frames):
            self.filename, self.lineno = frames[-1].filename, frames[-1].lineno
            return self.HEURISTIC_USED
        self.filename, self.lineno = frames[index].filename, frames[index].lineno
        return self.SUCCESS

    def copy_metadata(self) -> TraceableObject:
        """An object with the same source position, without `obj`."""
        return TraceableObject(None, filename=self.filename, lineno=self.lineno)


class TraceableStack:
    """A stack of TraceableObjects."""

    def __init__(self, existing_stack: Any = None) -> None:
        self._stack: list[TraceableObject] = existing_stack[:] if existing_stack else []

    def push_obj(self, obj: Any, offset: int = 0) -> int:
        """Pushes an object with the source position of the caller."""
        item = TraceableObject(obj)
        self._stack.append(item)
        # One more frame: this function.
        return item.set_filename_and_line_from_caller(offset + 1)

    def pop_obj(self) -> Any:
        """Pops and returns the last object; IndexError if there is none."""
        return self._stack.pop().obj

    def peek_top_obj(self) -> Any:
        """Returns the last object."""
        return self._stack[-1].obj

    def peek_objs(self) -> list[Any]:
        """Returns all objects, the last one first."""
        return [item.obj for item in reversed(self._stack)]

    def peek_traceable_objs(self) -> list[TraceableObject]:
        """All entries, the last one first."""
        return list(reversed(self._stack))

    def __len__(self) -> int:
        return len(self._stack)

    def copy(self) -> TraceableStack:
        """A stack of the same entries."""
        return TraceableStack(self._stack)
