# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The nodes of a watched run, as described by its graphs."""
from __future__ import annotations

import collections
from typing import Any

from millrace.python.debug.lib import _dump_files, debug_graphs


class WatchKeyDoesNotExistInDebugDumpDirError(ValueError):
    """A tensor was not watched."""


class DumpGraphs:
    """The nodes of the devices that ran, and which of them are watched."""

    def __init__(self) -> None:
        self._device_names: list[str] = []
        self._debug_graphs: dict[str, debug_graphs.DebugGraph] = {}
        self._dump_tensor_data: dict[str, list[Any]] = {}
        self._watch_key_to_datum: dict[str, dict[str, list[Any]]] = {}
        self._debug_watches: dict[str, dict[str, dict[int, set[str]]]] = {}
        self._node_devices: dict[str, set[str]] = collections.defaultdict(set)
        self._node_traceback: dict[str, Any] = {}

    def _load_partition_graphs(self, graphs: Any, validate: bool) -> None:
        del validate
        for device, graph in _dump_files.by_device(graphs).items():
            self._debug_graphs[device] = debug_graphs.DebugGraph(graph, device)
            if device not in self._device_names:
                self._device_names.append(device)
        for device, debug_graph in self._debug_graphs.items():
            for name in debug_graph.node_inputs:
                self._node_devices[name].add(device)

    def loaded_partition_graphs(self) -> bool:
        """Whether there are graphs."""
        return bool(self._debug_graphs)

    def partition_graphs(self) -> list[Any]:
        """The GraphDefs of the devices, without debug nodes.

        Raises:
          LookupError: if there are none.
        """
        self._check_graphs("No partition graphs have been loaded.")
        return [graph.debug_graph_def for graph in self._debug_graphs.values()]

    def reconstructed_non_debug_partition_graphs(self) -> dict[str, Any]:
        """By device: its GraphDef without debug nodes."""
        self._check_graphs("No partition graphs have been loaded.")
        return {device: graph.non_debug_graph_def for device, graph in self._debug_graphs.items()}

    def _check_graphs(self, text: str) -> None:
        if not self._debug_graphs:
            raise LookupError(text)

    def devices(self) -> list[str]:
        """The devices."""
        return self._device_names

    def _infer_device_name(self, device_name: Any, node_name: str) -> Any:
        """The device of a node, when there is only one."""
        if device_name is not None:
            if device_name not in self._device_names:
                raise ValueError("There are no devices named '%s'" % device_name)
            if self._debug_graphs and device_name not in self._node_devices.get(node_name, ()):
                raise ValueError("Node '%s' does not exist on device %s" % (node_name, device_name))
            return device_name
        if not self._debug_graphs:
            for name, watched in self._debug_watches.items():
                if node_name in watched:
                    return name
            return self._device_names[0] if self._device_names else None
        devices = self._node_devices.get(node_name, set())
        if not devices:
            raise ValueError(
                "None of the %d device(s) has a node named '%s'." % (len(self._device_names), node_name)
            )
        if len(devices) > 1:
            raise ValueError(
                "There are multiple (%d) devices with nodes named '%s' but device_name is not specified."
                % (len(devices), node_name)
            )
        return next(iter(devices))

    def nodes(self, device_name: Any = None) -> list[str]:
        """The names of all nodes, or of those of one device."""
        self._check_graphs("No partition graphs have been loaded.")
        if device_name is not None:
            if device_name not in self._debug_graphs:
                raise ValueError("Invalid device name: %s" % device_name)
            return list(self._debug_graphs[device_name].node_inputs)
        return [name for graph in self._debug_graphs.values() for name in graph.node_inputs]

    def _graph_of(self, node_name: str, device_name: Any, what: str) -> Any:
        self._check_graphs("%s are not loaded from partition graphs yet." % what)
        return self._debug_graphs[self._infer_device_name(device_name, node_name)]

    def node_attributes(self, node_name: str, device_name: Any = None) -> Any:
        """The attributes of a node, by name."""
        return self._graph_of(node_name, device_name, "Node attributes").node_attributes[node_name]

    def node_inputs(self, node_name: str, is_control: bool = False, device_name: Any = None) -> list[str]:
        """The names of the inputs of a node; with `is_control`, of the nodes that it waits for."""
        graph = self._graph_of(node_name, device_name, "Node inputs")
        return list(graph.node_ctrl_inputs[node_name] if is_control else graph.node_inputs[node_name])

    def transitive_inputs(
        self,
        node_name: str,
        include_control: bool = True,
        include_reversed_ref: bool = False,
        device_name: Any = None,
    ) -> list[str]:
        """The names of all nodes that a node depends on."""
        graph = self._graph_of(node_name, device_name, "Node inputs")
        reversed_refs = graph.node_reversed_ref_inputs if include_reversed_ref else {}
        found: list[str] = []
        seen = {node_name}
        stack = [node_name]
        while stack:
            name = stack.pop()
            before = [debug_graphs.get_node_name(text) for text in graph.node_inputs.get(name, ())]
            if include_control:
                before += graph.node_ctrl_inputs.get(name, [])
            before += reversed_refs.get(name, [])
            for other in before:
                if other not in seen:
                    seen.add(other)
                    found.append(other)
                    stack.append(other)
        return found

    def find_some_path(
        self,
        src_node_name: str,
        dst_node_name: str,
        include_control: bool = True,
        include_reversed_ref: bool = False,
        device_name: Any = None,
    ) -> Any:
        """The names of nodes on a path from a node to another that depends on it; None if there is none."""
        graph = self._graph_of(src_node_name, device_name, "Node inputs")
        self._infer_device_name(device_name, dst_node_name)
        reversed_refs = graph.node_reversed_ref_inputs if include_reversed_ref else {}
        after: dict[str, str] = {dst_node_name: ""}
        queue = collections.deque([dst_node_name])
        while queue:
            name = queue.popleft()
            if name == src_node_name:
                path = []
                while name:
                    path.append(name)
                    name = after[name]
                return path
            before = [debug_graphs.get_node_name(text) for text in graph.node_inputs.get(name, ())]
            if include_control:
                before += graph.node_ctrl_inputs.get(name, [])
            for other in before + list(reversed_refs.get(name, ())):
                if other not in after:
                    after[other] = name
                    queue.append(other)
        return None

    def node_recipients(self, node_name: str, is_control: bool = False, device_name: Any = None) -> list[str]:
        """The names of the nodes that use a node; with `is_control`, that wait for it."""
        graph = self._graph_of(node_name, device_name, "Node recipients")
        return list(graph.node_ctrl_recipients[node_name] if is_control else graph.node_recipients[node_name])

    def node_exists(self, node_name: str, device_name: Any = None) -> bool:
        """Whether there is a node of that name."""
        self._check_graphs("Nodes have not been loaded from partition graphs yet.")
        if device_name is not None and device_name not in self._debug_graphs:
            raise ValueError("The specified device_name '%s' cannot be found." % device_name)
        return any(
            node_name in graph.node_inputs
            for device, graph in self._debug_graphs.items()
            if device_name is None or device == device_name
        )

    def node_device(self, node_name: str) -> Any:
        """The device of a node, or a list if several have one of that name."""
        self._check_graphs("Node devices are not loaded from partition graphs yet.")
        if node_name not in self._node_devices:
            raise ValueError("Node '%s' does not exist in partition graphs." % node_name)
        devices = list(self._node_devices[node_name])
        return devices if len(devices) > 1 else devices[0]

    def node_op_type(self, node_name: str, device_name: Any = None) -> str:
        """The type of a node."""
        return str(self._graph_of(node_name, device_name, "Node op types").node_op_types[node_name])

    def debug_watch_keys(self, node_name: str, device_name: Any = None) -> list[str]:
        """ "node:0:DebugIdentity" and so on, for the watched outputs of a node."""
        try:
            device = self._infer_device_name(device_name, node_name)
        except ValueError:
            return []
        watched = self._debug_watches.get(device, {}).get(node_name, {})
        return ["%s:%d:%s" % (node_name, slot, op) for slot in watched for op in sorted(watched[slot])]

    def _known(self, device_name: Any, watch_key: str) -> list[Any]:
        data = self._watch_key_to_datum.get(device_name, {})
        if watch_key not in data:
            raise WatchKeyDoesNotExistInDebugDumpDirError(
                'Watch key "%s" does not exist in the debug dump of device %s' % (watch_key, device_name)
            )
        return data[watch_key]

    def watch_key_to_data(self, debug_watch_key: str, device_name: Any = None) -> list[Any]:
        """The DebugTensorData of "node:0:DebugIdentity"; none if it is not watched."""
        if device_name is None:
            found = [name for name, data in self._watch_key_to_datum.items() if debug_watch_key in data]
            if len(found) > 1:
                raise ValueError(
                    "There are multiple (%d) devices, but device_name is not specified." % len(found)
                )
            device_name = found[0] if found else None
        elif device_name not in self._device_names:
            raise ValueError("There are no devices named '%s'" % device_name)
        return self._watch_key_to_datum.get(device_name, {}).get(debug_watch_key, [])
