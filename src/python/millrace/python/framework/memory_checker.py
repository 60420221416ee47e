# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Checks for leaks of Python objects."""
from __future__ import annotations

import gc
from typing import Any


class MemoryChecker:
    """A context after which `assert_no_leak_if_all_possible_except_python` and similar methods can be called."""

    def __enter__(self) -> MemoryChecker:
        gc.collect()
        self._before = len(gc.get_objects())
        self._snapshots: list[int] = []
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        gc.collect()
        self._after = len(gc.get_objects())

    def record_snapshot(self) -> None:
        """Counts the objects now."""
        gc.collect()
        self._snapshots.append(len(gc.get_objects()))

    def report(self) -> None:
        """Prints nothing: the checks report leaks."""

    def assert_no_leak_if_all_possible_except_list(self, whitelist: Any) -> None:
        """AssertionError if each snapshot has more objects than the one before."""
        counts = self._snapshots
        if len(counts) > 2 and all(b > a + 50 for a, b in zip(counts[1:], counts[2:])):
            raise AssertionError("The number of objects grows: %s" % counts)

    assert_no_new_python_objects = assert_no_leak_if_all_possible_except_list
    assert_no_leak_if_all_possible_except_python = assert_no_leak_if_all_possible_except_list
