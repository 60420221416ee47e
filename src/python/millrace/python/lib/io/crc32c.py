# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""CRC-32C checksums of records."""

from __future__ import annotations

import functools
from typing import Any, Callable


def _table() -> list[int]:
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ 0x82F63B78 if n & 1 else n >> 1
        table.append(n)
    return table


def crc32c_by_table(data: bytes, crc: int = 0) -> int:
    """The checksum computed in Python, which is slow."""
    table = _cached_table()
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


@functools.lru_cache(maxsize=None)
def _cached_table() -> list[int]:
    return _table()


@functools.lru_cache(maxsize=None)
def _extend() -> Callable[[int, bytes, int], int]:
    """The engine's function, or the one in Python if there is no library."""
    try:
        from millrace.python.lib.io import _native

        function: Any = _native.library().Millrace_ExtendCrc32c
        return lambda crc, data, size: function(crc, data, size)
    except (ImportError, OSError, AttributeError):
        return lambda crc, data, size: crc32c_by_table(data, crc)


def extend(crc: int, data: bytes) -> int:
    """The checksum of the data with checksum `crc` followed by `data`."""
    return _extend()(crc, data, len(data))


def masked(data: bytes) -> int:
    """The masked checksum of `data`, as files store it."""
    crc = _extend()(0, data, len(data))
    return ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF
