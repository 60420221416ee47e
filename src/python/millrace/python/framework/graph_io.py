# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes graphs to files."""
from __future__ import annotations

import os
from typing import Any

from millrace.python.framework import ops


def write_graph(graph_or_graph_def: Any, logdir: Any, name: Any, as_text: bool = True) -> str:
    """Writes a graph, or a GraphDef, to a file in a folder, which is made; returns the file's path."""
    from google.protobuf import text_format

    from millrace.python.lib.io import file_io

    graph_def = (
        graph_or_graph_def.as_graph_def() if isinstance(graph_or_graph_def, ops.Graph) else graph_or_graph_def
    )
    # Object stores have no folders to create.
    if not logdir.startswith("gs:"):
        file_io.recursive_create_dir(logdir)
    path = os.path.join(logdir, name)
    if as_text:
        file_io.atomic_write_string_to_file(path, text_format.MessageToString(graph_def, float_format=""))
    else:
        file_io.atomic_write_string_to_file(path, graph_def.SerializeToString())
    return path
