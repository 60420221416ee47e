# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Graphs in notebooks: the page that `millrace graph html` writes, by the same code."""
from __future__ import annotations

import html
from typing import Any

from millrace.python import _engine

_MOST_NODES = 20000  # the maximum number of nodes that are drawn


def notebook_text(graph: Any) -> str:
    """The HTML of a graph for notebooks: the page in a frame."""
    count = len(graph._operations())
    title = "Graph of %d operation%s" % (count, "" if count == 1 else "s")
    if not count or count > _MOST_NODES:
        return "<p>%s</p>" % title
    page = _engine.graph_page(graph.as_graph_def().SerializeToString(), title).decode("utf-8")
    return '<iframe srcdoc="%s" style="width:100%%;height:600px;border:0"></iframe>' % html.escape(page)
