# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Conversions between text and bytes, and the number types of Python and NumPy."""
from __future__ import annotations

import numbers
import os
from typing import Any, Union

import numpy as np


def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Returns `bytes_or_text` as bytes; raises TypeError when it is neither bytes nor text."""
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, bytearray):
        return bytes(bytes_or_text)
    raise TypeError("Expected binary or unicode string, got %r" % (bytes_or_text,))


def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Returns `bytes_or_text` as text; raises TypeError when it is neither bytes nor text."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    raise TypeError("Expected binary or unicode string, got %r" % (bytes_or_text,))


as_str = as_text


def as_str_any(value: Any) -> str:
    """Returns bytes decoded, and anything else through `str`."""
    if isinstance(value, bytes):
        return as_str(value)
    return str(value)


def path_to_str(path: Any) -> Any:
    """Returns the text of a path-like object; other objects unchanged."""
    if hasattr(path, "__fspath__"):
        path = as_str_any(path.__fspath__())
    return path


def path_to_bytes(path: Union[str, bytes, "os.PathLike[Any]"]) -> bytes:
    """Returns a path (text, bytes or path-like) as bytes."""
    if hasattr(path, "__fspath__"):
        return as_bytes(path.__fspath__())
    return as_bytes(path)


integral_types = (numbers.Integral, np.integer)
real_types = (numbers.Real, np.integer, np.floating)
complex_types = (numbers.Complex, np.number)
bytes_or_text_types = (bytes, str)
