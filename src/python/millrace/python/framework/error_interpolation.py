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


def _defined_at(op: Any) -> str:
    frame = _defining_frame(op)
    return "" if frame is None else " (defined at %s:%d) " % (frame[0], frame[1])


def _sources(op: Any) -> list[Any]:
    """The operations that hold or produce what `op` takes, without the steps that only hand values on."""
    found = []
    for tensor in op.inputs:
        source = tensor.op
        while source.type in ("Identity", "Enter", "RefEnter", "Switch", "RefSwitch") and source.inputs:
            source = source.inputs[0].op
        if source is not op and source not in found:
            found.append(source)
    return found


def interpolate(error_message: str, graph: Any) -> str:
    """The text with "node name (defined at file:line)" for each tag of a node of the graph.

    The operations where the inputs of such nodes come from follow at the end.
    """
    separators, tags = parse_message(error_message)
    result, sources = separators[0], []
    for tag, separator in zip(tags, separators[1:]):
        text = "{{%s %s}}" % (tag.type, tag.name)
        op = graph._nodes_by_name.get(tag.name) if tag.type == "node" else None
        if op is not None:
            text = "node %s%s" % (tag.name, _defined_at(op) or " ")
            lines = [" %s%s" % (source.name, _defined_at(source)) for source in _sources(op)]
            if lines:
                title = "\nInput Source operations connected to node %s:\n" % tag.name
                sources.append(title + "\n".join(lines))
        elif tag.type == "function_node":
            text = ""
        result += text + separator
    if sources:
        result += "\n\nErrors may have originated from an input operation." + "\n".join(sources)
    return result
