# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Errors and exceptions of eager execution."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import errors_impl


def _status_to_exception(code: int, message: str) -> Any:
    """The exception of a code."""
    return errors_impl._make_specific_exception(None, None, message, code)


class _NotOkStatusException(Exception):
    """A code and its text."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__()
        self.message = message
        self.code = code

    def __str__(self) -> str:
        return "%s: %s" % (type(_status_to_exception(self.code, self.message)).__name__, self.message)


class _SymbolicException(Exception):
    """Raised when a tensor of a graph is used where a value is needed."""


class _FallbackException(Exception):
    """Raised when the fast path of an op is not possible."""
