# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The common part of the decorators of `deprecation`."""
from __future__ import annotations

import inspect
from typing import Any, Callable, List, Optional


def get_qualified_name(function: Any) -> str:
    """Returns `Class.name` of a method and the name of anything else."""
    if hasattr(function, "__qualname__"):
        return str(function.__qualname__)
    if hasattr(function, "im_class"):
        return str(function.im_class.__name__ + "." + function.__name__)
    return str(function.__name__)


def add_notice_to_docstring(
    doc: Optional[str], instructions: str, no_doc_str: str, suffix_str: str, notice: List[str]
) -> str:
    """Returns `doc` with `suffix_str` after its first line, and a warning of `notice` and `instructions` below."""
    lines = inspect.cleandoc(doc).splitlines() if doc else []
    if lines:
        lines[0] += " " + suffix_str
    else:
        lines = [no_doc_str]
    if not notice:
        raise ValueError("The `notice` arg must not be empty.")
    body = ["", "Warning: " + notice[0].rstrip()] + [line.rstrip() for line in notice[1:]]
    if instructions:
        body.append(instructions)
    if len(lines) > 1:
        if lines[1].strip():
            body.append("")
        lines[1:1] = body
    else:
        lines += body
    return "\n".join(lines)


def validate_callable(func: Any, decorator_name: str) -> None:
    """Raises ValueError when `func` cannot be called."""
    if not hasattr(func, "__call__"):
        raise ValueError(
            "%s is not a function. If this is a property, make sure @property appears before @%s in your source code:"
            "\n\n@property\n@%s\ndef method(...)" % (func, decorator_name, decorator_name)
        )


class classproperty:
    """A property of the class itself."""

    def __init__(self, func: Callable[[Any], Any]):
        self._func = func

    def __get__(self, owner_self: Any, owner_cls: Any) -> Any:
        return self._func(owner_cls)
