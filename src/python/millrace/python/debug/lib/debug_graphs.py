# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Graphs that were run with debug nodes: names, and how nodes depend on each other."""
from __future__ import annotations

import collections
from typing import Any

from millrace.core.framework import graph_pb2
from millrace.python.framework import op_def_registry

_DEBUG, _COPY = "__dbg_", "__copy_"


def parse_node_or_tensor_name(name: str) -> tuple[str, Any]:
    """ "node:1" as ("node", 1), "node" as ("node", None)."""
    if ":" in name and not name.endswith(":"):
        node_name, slot = name[: name.rfind(":")], name[name.rfind(":") + 1 :]
        return node_name, int(slot)
    return (name[:-1] if name.endswith(":") else name), None


def get_node_name(element_name: str) -> str:
    """The name of a tensor's node."""
    return parse_node_or_tensor_name(element_name)[0]


def get_output_slot(element_name: str) -> int:
    """Which output of its node a tensor is."""
    return parse_node_or_tensor_name(element_name)[1] or 0


def is_copy_node(node_name: str) -> bool:
    """Whether a node makes a copy for debug nodes."""
    return node_name.startswith(_COPY)


def is_debug_node(node_name: str) -> bool:
    """Whether a debugger has added a node."""
    return node_name.startswith(_DEBUG)


def parse_debug_node_name(node_name: str) -> tuple[str, int, int, str]:
    """Node, output, number of the debug op and the op's name of "__dbg_node:0_0_DebugIdentity"."""
    prefix = _DEBUG
    name = node_name
    if not name.startswith(prefix):
        raise ValueError("Invalid prefix in debug node name: '%s'" % node_name)
    name = name[len(prefix) :]
    if name.count("_") < 2:
        raise ValueError("Invalid debug node name: '%s'" % node_name)
    debug_op = name[name.rindex("_") + 1 :]
    name = name[: name.rindex("_")]
    debug_op_index = int(name[name.rindex("_") + 1 :])
    name = name[: name.rindex("_")]
    if name.count(":") != 1:
        raise ValueError("Invalid tensor name in debug node name: '%s'" % node_name)
    watched, slot = name.split(":")
    return watched, int(slot), debug_op_index, debug_op


class DebugGraph:
    """The graph of one device.

    Args:
      debug_graph_def: the GraphDef, which may have debug nodes.
      device_name: the device, if the nodes have none.
    """

    def __init__(self, debug_graph_def: Any, device_name: Any = None) -> None:
        self._debug_graph_def = debug_graph_def
        self._non_debug_graph_def: Any = None
        self._nodes: dict[str, Any] = {}
        self._inputs: dict[str, list[str]] = {}
        self._ctrl_inputs: dict[str, list[str]] = {}
        self._recipients: dict[str, list[str]] = collections.defaultdict(list)
        self._ctrl_recipients: dict[str, list[str]] = collections.defaultdict(list)
        self._ref_args: dict[str, list[str]] = {}
        self._device_name = device_name
        for node in debug_graph_def.node:
            if is_debug_node(node.name) or is_copy_node(node.name):
                continue
            if self._device_name is None and node.device:
                self._device_name = node.device
            self._nodes[node.name] = node
            data, control = [], []
            for text in node.input:
                if text.startswith("^"):
                    if not is_debug_node(text[1:]):
                        control.append(text[1:])
                else:
                    data.append(text)
            self._inputs[node.name], self._ctrl_inputs[node.name] = data, control
            op_def = op_def_registry.get(node.op)
            args = zip(data, op_def.input_arg) if op_def is not None else ()
            self._ref_args[node.name] = [get_node_name(text) for text, arg in args if arg.is_ref]
        for name, inputs in self._inputs.items():
            for text in inputs:
                self._recipients[get_node_name(text)].append(name)
            for text in self._ctrl_inputs[name]:
                self._ctrl_recipients[text].append(name)

    @property
    def device_name(self) -> Any:
        """The device."""
        return self._device_name

    @property
    def debug_graph_def(self) -> Any:
        """The GraphDef with debug nodes."""
        return self._debug_graph_def

    @property
    def non_debug_graph_def(self) -> Any:
        """The GraphDef without debug nodes."""
        if self._non_debug_graph_def is None:
            self._non_debug_graph_def = reconstruct_non_debug_graph_def(self._debug_graph_def)
        return self._non_debug_graph_def

    @property
    def node_devices(self) -> dict[str, set[str]]:
        return {name: {node.device or self._device_name} for name, node in self._nodes.items()}

    @property
    def node_op_types(self) -> dict[str, str]:
        return {name: node.op for name, node in self._nodes.items()}

    @property
    def node_attributes(self) -> dict[str, Any]:
        return {name: node.attr for name, node in self._nodes.items()}

    @property
    def node_inputs(self) -> dict[str, list[str]]:
        return self._inputs

    @property
    def node_ctrl_inputs(self) -> dict[str, list[str]]:
        return self._ctrl_inputs

    @property
    def node_recipients(self) -> dict[str, list[str]]:
        return {name: self._recipients[name] for name in self._nodes}

    @property
    def node_ctrl_recipients(self) -> dict[str, list[str]]:
        return {name: self._ctrl_recipients[name] for name in self._nodes}

    @property
    def node_reversed_ref_inputs(self) -> dict[str, list[str]]:
        """A dict from nodes with reference outputs to the nodes that change these."""
        found: dict[str, list[str]] = collections.defaultdict(list)
        for name, changed in self._ref_args.items():
            for node in changed:
                found[node].append(name)
        return found


def reconstruct_non_debug_graph_def(debug_graph_def: Any) -> Any:
    """A copy of a GraphDef without the nodes that a debugger added."""
    copies = {}
    for node in debug_graph_def.node:
        if is_copy_node(node.name):
            copies[node.name] = node.input[0]
    out = graph_pb2.GraphDef()
    out.versions.CopyFrom(debug_graph_def.versions)
    out.library.CopyFrom(debug_graph_def.library)
    for node in debug_graph_def.node:
        if is_debug_node(node.name) or is_copy_node(node.name):
            continue
        added = out.node.add()
        added.CopyFrom(node)
        del added.input[:]
        for text in node.input:
            if is_debug_node(text.lstrip("^")):
                continue
            added.input.append(copies.get(get_node_name(text), text))
    return out
