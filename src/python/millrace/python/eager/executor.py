# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Executors of eager ops, all of which are synchronous."""
from __future__ import annotations


class Executor:
    """Where ops are executed; an asynchronous one behaves as a synchronous one."""

    def __init__(self, handle: object) -> None:
        self._handle = handle

    def is_async(self) -> bool:
        """Whether the executor is asynchronous."""
        return bool(self._handle)

    def handle(self) -> object:
        """What identifies the executor."""
        return self._handle

    def wait(self) -> None:
        """Returns immediately: no op is pending."""

    def clear_error(self) -> None:
        """Does nothing: errors are raised where they occur."""


def new_executor(enable_async: bool) -> Executor:
    """A new executor."""
    return Executor(enable_async)
