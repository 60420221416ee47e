# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Adds the Python lines that created the nodes named in error messages."""
from __future__ import annotations

import collections
import os
import re
from typing import Any, Iterable

_ParseTag = collections.namedtuple("_ParseTag", ["type", "name"])
_TAG = re.compile(r"\{\{([^\s{}]+) ([^\s{}]+)\}\}")


# Path prefixes of the package's files.
_FRAMEWORK_PATH_PREFIXES = [os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep]
_FRAMEWORK_FILENAME_PATTERNS = [re.compile(r"<embedded")]


def _is_framework_filename(filename: str) -> bool:
    """Whether a file is the package's own."""
    return (
        "/millrace/python/" in filename
        or any(filename.startswith(prefix) for prefix in _FRAMEWORK_PATH_PREFIXES)
        or any(pattern.search(filename) for pattern in _FRAMEWORK_FILENAME_PATTERNS)
    )


def parse_message(message: str) -> tuple[list[str], list[Any]]:
    """Splits a text at its tags "{{node name}}": the texts between them, and the tags."""
    separators, tags, at = [], [], 0
    for found in _TAG.finditer(message):
        separators.append(message[at : found.start()])
        tags.append(_ParseTag(found.group(1), found.group(2)))
        at = found.end()
    return separators + [message[at:]], tags


def _defining_frame(op: Any) -> Any:
    frames = op._traceback
    if not any(not _is_framework_filename(frame[0]) for frame in frames):
        return frames[-1] if frames else None
    return frames[_find_index_of_defining_frame_for_op(op)]


def _find_index_of_defining_frame_for_op(op: Any) -> int:
    """The index in the operation's traceback of the last frame outside of the package; 0 if there is none."""
    frames = op._traceback
    for index in range(len(frames) - 1, -1, -1):
        if not _is_framework_filename(frames[index][0]):
            return index
    return 0


def _get_defining_frame_from_op(op: Any) -> Any:
    """The frame of the operation's traceback where the program made it."""
    return op._traceback[_find_index_of_defining_frame_for_op(op)]


def _compute_device_summary_from_list(
    name: str, device_assignment_list: Iterable[Any], prefix: str = ""
) -> str:
    """The devices requested by contexts when a node was made, a line with the source position for each."""
    lines = [
        "%s  with tf.device(%s): <%s:%d>" % (prefix, item.obj, item.filename, item.lineno)
        for item in device_assignment_list
    ]
    if not lines:
        return "%sNo device assignments were active during op '%s' creation." % (prefix, name)
    title = "%sDevice assignments active during op '%s' creation:" % (prefix, name)
    return "\n".join([title] + lines)


def _compute_colocation_summary_from_dict(name: str, colocation_dict: Any, prefix: str = "") -> str:
    """The nodes that contexts colocated a node with, a line with the source position for each."""
    lines = [
        "%s  with tf.colocate_with(%s): <%s:%d>" % (prefix, other, item.filename, item.lineno)
        for other, item in colocation_dict.items()
    ]
    if not lines:
        return "%sNo node-device colocations were active during op '%s' creation." % (prefix, name)
    title = "%sNode-device colocations active during op '%s' creation:" % (prefix, name)
    return "\n".join([title] + lines)


def create_graph_debug_info_def(operations: Iterable[tuple[str, Any]]) -> Any:
    """A GraphDebugInfo with the traces of (name of a function or "", operation), under "operation@function"."""
    from millrace.core.protobuf import graph_debug_info_pb2

    info, places = graph_debug_info_pb2.GraphDebugInfo(), dict[str, int]()
    for function, op in operations:
        frames = getattr(op, "_traceback", None)
        if frames is None:
            continue
        trace = info.traces["%s@%s" % (op.name, function)]
        for frame in frames:
            filename, line, name, code = frame[:4]
            if filename not in places:
                places[filename] = len(info.files)
                info.files.append(filename)
            trace.file_line_cols.add(
                file_index=places[filename], line=line or 0, func=name or "", code=code or ""
            )
    return info


def _defined_at(op: Any) -> str:
    frame = _defining_frame(op)
    return "" if frame is None else " (defined at %s:%d) " % (frame[0], frame[1])


def _sources(op: Any) -> list[Any]:
    """The operations that produce the inputs of `op`, or hold them, without identities in between."""
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

    The operations that produce the inputs of these nodes are listed at the end.
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
