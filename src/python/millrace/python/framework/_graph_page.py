# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Graphs in notebooks: the page that `millrace graph html` writes, made of a graph in this process."""
from __future__ import annotations

import html
import json
import os
import re
from typing import Any

_FOLDER = os.path.join(os.path.dirname(__file__), "graph_page")
_SCRIPTS = ("data.js", "layout.js", "view.js", "details.js")
_MOST_NODES = 20000  # of a graph that is drawn
_MOST_TEXT = 160  # characters of an attribute
_MOST_CHILDREN = 40  # of a scope; more stand in groups


def notebook_text(graph: Any) -> str:
    """What a notebook shows for a graph: the page in a frame."""
    count = len(graph._operations())
    if not count or count > _MOST_NODES or not os.path.isdir(_FOLDER):
        return "<p>Graph of %d operations</p>" % count
    text = page(graph.as_graph_def(), "Graph of %d operations" % count)
    return '<iframe srcdoc="%s" style="width:100%%;height:600px;border:0"></iframe>' % html.escape(text)


def page(graph_def: Any, title: str) -> str:
    """The page of a GraphDef: it needs no network and no other file."""
    data = page_data(graph_def, title)
    fills = {
        "@TITLE@": html.escape(title),
        "@SUMMARY@": "%d nodes, %d edges" % (len(graph_def.node), len(data["edges"]) // 4),
        "@STYLE@": _part("page.css"),
        "@SCRIPT@": "".join(_part(name) for name in _SCRIPTS),
        "@DATA@": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    }
    return re.sub("@[A-Z]+@", lambda match: fills[match.group()], _part("page.html"))


def _part(name: str) -> str:
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
        return file.read()


class _Pool:
    """Texts that many nodes share, by number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def add(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


def page_data(graph_def: Any, title: str) -> dict[str, Any]:
    """What the page knows of a graph."""
    operations, devices, attributes = _Pool(), _Pool(), _Pool()
    nodes = graph_def.node
    labels, parents, numbers = _items(nodes)
    return {
        "title": title,
        "producer": graph_def.versions.producer,
        "items": {"label": labels, "parent": parents, "node": numbers},
        "nodes": {
            "op": [operations.add(node.op) for node in nodes],
            "device": [devices.add(node.device) for node in nodes],
            "name": [node.name for node in nodes],
            "attributes": [
                [attributes.add(_attribute(k, node.attr[k])) for k in sorted(node.attr)] for node in nodes
            ],
        },
        "ops": operations.texts,
        "devices": devices.texts,
        "attributes": attributes.texts,
        "edges": _edges(nodes),
        "functions": [function.signature.name for function in graph_def.library.function],
    }


def _attribute(name: str, value: Any) -> str:
    from millrace.python.framework import dtypes, tensor_shape, tensor_util

    kind = value.WhichOneof("value")
    if kind == "type":
        text = dtypes.as_dtype(value.type).name
    elif kind == "shape":
        text = str(tensor_shape.TensorShape(value.shape))
    elif kind == "tensor":
        shape = tensor_shape.TensorShape(value.tensor.tensor_shape)
        text = "%s %s" % (dtypes.as_dtype(value.tensor.dtype).name, shape)
        if shape.is_fully_defined() and (shape.num_elements() or 0) <= 32:
            text += " " + " ".join(str(tensor_util.MakeNdarray(value.tensor).tolist()).split())
    elif kind == "func":
        text = value.func.name
    elif kind == "list":
        text = " ".join(str(value.list).split())
    else:
        text = str(getattr(value, kind)) if kind else ""
    return "%s: %s" % (name, text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…")


def _edges(nodes: Any) -> list[int]:
    """Four numbers each: from, to, output (-1: control), input."""
    by_name = {node.name: number for number, node in enumerate(nodes)}
    edges = []
    for to, node in enumerate(nodes):
        for place, name in enumerate(node.input):
            control = name.startswith("^")
            source, _, output = name[control:].partition(":")
            if source in by_name:
                edges += [by_name[source], to, -1 if control else int(output or 0), place]
    return edges


class _Item:
    """A node (its number), a scope (-1) or a group (-2)."""

    def __init__(self, label: str, number: int) -> None:
        self.label = label
        self.number = number
        self.children: list[_Item] = []


def _items(nodes: Any) -> tuple[list[str], list[int], list[int]]:
    """Labels, parents and numbers of the items, the root first and parents before their children."""
    scopes = {"": _Item("", -1)}
    for node in nodes:
        parts = node.name.split("/")[:-1]
        for depth, part in enumerate(parts):
            path = "/".join(parts[: depth + 1])
            if path not in scopes:
                scopes[path] = _Item(part, -1)
                scopes["/".join(parts[:depth])].children.append(scopes[path])
    for number, node in enumerate(nodes):  # a node that has the name of a scope stands in that scope
        scope = node.name if node.name in scopes else node.name.rpartition("/")[0]
        scopes[scope].children.append(_Item(node.name.rpartition("/")[2], number))
    order = [(-1, scopes[""])]
    for place, (_, item) in enumerate(order):
        order += [(place, child) for child in _grouped(item.children)]
    return [i.label for _, i in order], [parent for parent, _ in order], [i.number for _, i in order]


def _grouped(items: list[_Item]) -> list[_Item]:
    """The items, neighbours in groups where there are many."""
    while len(items) > _MOST_CHILDREN:
        groups = []
        for begin in range(0, len(items), _MOST_CHILDREN):
            members = items[begin : begin + _MOST_CHILDREN]
            groups.append(_Item("%s … %s" % (members[0].label, members[-1].label), -2))
            groups[-1].children = members
        items = groups
    return items
