# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""FileWriterCache: one FileWriter for each folder."""

from __future__ import annotations

import threading
from typing import Any

from millrace.python.framework import ops
from millrace.python.summary.writer.writer import FileWriter


class FileWriterCache:
    """Writers by folder, so that all parts of a program write to the same file."""

    _cache: dict[str, Any] = {}
    _lock = threading.RLock()

    @staticmethod
    def clear() -> None:
        """Closes and removes all writers."""
        with FileWriterCache._lock:
            for item in FileWriterCache._cache.values():
                item.close()
            FileWriterCache._cache = {}

    @staticmethod
    def get(logdir: str) -> Any:
        """The writer of a folder, made for the default graph if there is none."""
        with FileWriterCache._lock:
            if logdir not in FileWriterCache._cache:
                FileWriterCache._cache[logdir] = FileWriter(logdir, graph=ops.get_default_graph())
            return FileWriterCache._cache[logdir]
