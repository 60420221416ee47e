# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Patterns of file names: * ? [...] and backslashes, which stop at slashes."""

from __future__ import annotations

import fnmatch
import os
import re

_WILDCARDS = re.compile(r"[*?\[\\]")


def _translate(pattern: str) -> re.Pattern[str]:
    """The regular expression of one part of a pattern."""
    pieces, i = [], 0
    while i < len(pattern):
        c = pattern[i]
        if c == "\\" and i + 1 < len(pattern):
            pieces.append(re.escape(pattern[i + 1]))
            i += 2
            continue
        if c == "[":
            end = pattern.find("]", i + 2)
            if end > 0:
                pieces.append(fnmatch.translate(pattern[i : end + 1])[4:-3])
                i = end + 1
                continue
        pieces.append(".*" if c == "*" else "." if c == "?" else re.escape(c))
        i += 1
    return re.compile("(?s:%s)" % "".join(pieces))


def matching_paths(pattern: str) -> list[str]:
    """Paths that match, sorted."""
    if not _WILDCARDS.search(pattern):
        return [pattern] if os.path.exists(pattern) else []
    parts = pattern.split("/")
    found = [""] if parts[0] else ["/"]
    for n, part in enumerate(parts):
        last = n == len(parts) - 1
        if not part:
            continue
        following: list[str] = []
        for base in found:
            if _WILDCARDS.search(part):
                expression = _translate(part)
                try:
                    names = sorted(os.listdir(base or "."))
                except OSError:
                    continue
                following.extend(os.path.join(base, name) for name in names if expression.fullmatch(name))
            elif os.path.exists(os.path.join(base, part)):
                following.append(os.path.join(base, part))
        found = following if last else [p for p in following if os.path.isdir(p)]
    return sorted(found)
