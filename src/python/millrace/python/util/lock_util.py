# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Locks that are held by one of several groups of threads."""
from __future__ import annotations

import threading
from typing import Any


class GroupLock:
    """Any number of threads of one group hold the lock; threads of other groups wait."""

    def __init__(self, num_groups: int = 2) -> None:
        if num_groups < 1:
            raise ValueError("num_groups must be a positive integer, got %s" % num_groups)
        self._ready = threading.Condition(threading.Lock())
        self._num_groups = num_groups
        self._group_member_counts = [0] * num_groups

    def group(self, group_id: int) -> Any:
        """A context in which the lock is held for a group."""
        self._validate_group_id(group_id)
        return self._Context(self, group_id)

    def acquire(self, group_id: int) -> None:
        """Waits until no other group holds the lock."""
        self._validate_group_id(group_id)
        with self._ready:
            while any(count for other, count in enumerate(self._group_member_counts) if other != group_id):
                self._ready.wait()
            self._group_member_counts[group_id] += 1

    def release(self, group_id: int) -> None:
        """Releases the lock."""
        self._validate_group_id(group_id)
        with self._ready:
            self._group_member_counts[group_id] -= 1
            if self._group_member_counts[group_id] == 0:
                self._ready.notify_all()

    def _validate_group_id(self, group_id: int) -> None:
        if group_id < 0 or group_id >= self._num_groups:
            raise ValueError("Invalid group_id %d, must be in [0, %d)" % (group_id, self._num_groups - 1))

    class _Context:
        def __init__(self, lock: Any, group_id: int) -> None:
            self._lock, self._group_id = lock, group_id

        def __enter__(self) -> None:
            self._lock.acquire(self._group_id)

        def __exit__(self, type_arg: Any, value_arg: Any, traceback_arg: Any) -> None:
            self._lock.release(self._group_id)
