# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Errors that name nodes get the Python lines where those were made."""
from __future__ import annotations

import collections
import re
from typing import Any

_ParseTag = collections.namedtuple("_ParseTag", ["type", "name"])
_TAG = re.compile(r"\{\{([^\s{}]+) ([^\s{}]+)\}\}")


def parse_message(message: str) -> tuple[list[str], list[Any]]:
    """Splits a text at its tags "{{node name}}": the texts between them, and the tags."""
    separators, tags, at = [], [], 0
    for found in _TAG.finditer(message):
        separators.append(message[at : found.start()])
        tags.append(_ParseTag(found.group(1), found.group(2)))
        at = found.end()
    return separators + [message[at:]], tags


def _defining_frame(op: Any) -> Any:
    frames = op.traceback
    for frame in reversed(frames):
        if "/millrace/python/" not in frame[0]:
            return frame
    return frames[-1] if frames else None


def interpolate(error_message: str, graph: Any) -> str:
    """The text with "node name (defined at file:line)" for each tag of a node of the graph."""
    separators, tags = parse_message(error_message)
    parts = []
    for tag in tags:
        text = "{{%s %s}}" % (tag.type, tag.name)
        op = graph._nodes_by_name.get(tag.name) if tag.type in ("node", "function_node") else None
        frame = None if op is None else _defining_frame(op)
        if frame is not None:
            text = "node %s (defined at %s:%d) " % (tag.name, frame[0], frame[1])
        parts.append(text)
    result = separators[0]
    for part, separator in zip(parts, separators[1:]):
        result += part + separator
    return result
