# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Marks results that a caller ought to use.

A result that is not used is legal: nothing is printed and the result itself is handed through, so that its type and
identity are what the caller expects.
"""
from __future__ import annotations

from typing import Any, Callable


def should_use_result(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `fn`."""
    return fn


def must_use_result_or_fatal(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `fn`."""
    return fn


def _add_should_use_warning(x: Any, fatal_error: bool = False, warn_in_eager: bool = False) -> Any:
    return x
