# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Traces of steps for chrome://tracing."""
from __future__ import annotations

import collections
import json
from typing import Any

AllocationMaximum = collections.namedtuple("AllocationMaximum", ("timestamp", "num_bytes", "tensors"))
StepStatsAnalysis = collections.namedtuple("StepStatsAnalysis", ("chrome_trace", "allocator_maximums"))


class _ChromeTraceFormatter:
    """Collects events of a trace."""

    def __init__(self, show_memory: bool = False) -> None:
        self._show_memory = show_memory
        self._events: list[dict[str, Any]] = []
        self._metadata: list[dict[str, Any]] = []

    def _event(self, ph: str, category: str, name: str, pid: int, tid: int, timestamp: int) -> dict[str, Any]:
        return {"ph": ph, "cat": category, "name": name, "pid": pid, "tid": tid, "ts": timestamp}

    def emit_pid(self, name: str, pid: int) -> None:
        """Sets the name of a process (a group of rows) of the trace."""
        self._metadata.append({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}})

    def emit_tid(self, name: str, pid: int, tid: int) -> None:
        """Sets the name of a thread (a row) of a process."""
        self._metadata.append(
            {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
        )

    def emit_region(
        self, timestamp: int, duration: int, pid: int, tid: int, category: str, name: str, args: Any
    ) -> None:
        """Adds a region, an event with a duration."""
        event = self._event("X", category, name, pid, tid, timestamp)
        event["dur"] = duration
        event["args"] = args
        self._events.append(event)

    def emit_obj_create(
        self, category: str, name: str, timestamp: int, pid: int, tid: int, object_id: int
    ) -> None:
        event = self._event("N", category, name, pid, tid, timestamp)
        event["id"] = object_id
        self._events.append(event)

    def emit_obj_delete(
        self, category: str, name: str, timestamp: int, pid: int, tid: int, object_id: int
    ) -> None:
        event = self._event("D", category, name, pid, tid, timestamp)
        event["id"] = object_id
        self._events.append(event)

    def emit_flow_start(self, name: str, timestamp: int, pid: int, tid: int, flow_id: int) -> None:
        event = self._event("s", "DataFlow", name, pid, tid, timestamp)
        event["id"] = flow_id
        self._events.append(event)

    def emit_flow_end(self, name: str, timestamp: int, pid: int, tid: int, flow_id: int) -> None:
        event = self._event("t", "DataFlow", name, pid, tid, timestamp)
        event["id"] = flow_id
        self._events.append(event)

    def emit_counter(
        self, category: str, name: str, pid: int, timestamp: int, counter: str, value: int
    ) -> None:
        event = self._event("C", category, name, pid, 0, timestamp)
        event["args"] = {counter: value}
        self._events.append(event)

    def format_to_string(self, pretty: bool = False) -> str:
        """The trace as JSON."""
        trace = {"traceEvents": self._metadata + self._events}
        return (
            json.dumps(trace, indent=4, separators=(",", ": "))
            if pretty
            else json.dumps(trace, separators=(",", ":"))
        )


class _TensorTracker:
    """The time of a tensor's creation, its allocator, and the times of its uses."""

    def __init__(self, name: str, object_id: int, timestamp: int, pid: int, allocator: str, num_bytes: int):
        self.name = name
        self.object_id = object_id
        self.create_time = timestamp
        self.pid = pid
        self.allocator = allocator
        self.num_bytes = num_bytes
        self._ref_times: list[int] = []
        self._unref_times: list[int] = []

    @property
    def last_unref(self) -> int:
        return max(self._unref_times)

    def add_ref(self, timestamp: int) -> None:
        self._ref_times.append(timestamp)

    def add_unref(self, timestamp: int) -> None:
        self._unref_times.append(timestamp)


class Timeline:
    """A trace of the StepStats of a step."""

    def __init__(self, step_stats: Any, graph: Any = None) -> None:
        self._step_stats = step_stats
        self._graph = graph
        self._allocator_maximums: dict[str, AllocationMaximum] = {}

    def _lanes(self, nodes: Any) -> dict[int, int]:
        """Assigns each node to a thread of its device; nodes of one thread do not overlap."""
        ends: list[int] = []
        lanes = {}
        for index, node in sorted(enumerate(nodes), key=lambda entry: entry[1].all_start_micros):
            end = node.all_start_micros + node.all_end_rel_micros
            for lane, busy in enumerate(ends):
                if busy <= node.all_start_micros:
                    ends[lane] = end
                    break
            else:
                lane = len(ends)
                ends.append(end)
            lanes[index] = lane
        return lanes

    def _trace(self, show_dataflow: bool, show_memory: bool) -> _ChromeTraceFormatter:
        trace = _ChromeTraceFormatter(show_memory)
        places: dict[str, tuple[int, int, int, int]] = {}  # node -> process, thread, start, end
        flow_id = 0
        for pid, device in enumerate(self._step_stats.dev_stats):
            trace.emit_pid(device.device + " Compute", pid)
            lanes = self._lanes(device.node_stats)
            self._memory(trace, device, pid, show_memory)
            for index, node in enumerate(device.node_stats):
                op, inputs = _parse_label(node.timeline_label, node.node_name)
                args: dict[str, Any] = {"name": node.node_name, "op": op}
                args.update(("input%d" % i, name) for i, name in enumerate(inputs))
                duration = node.op_end_rel_micros - node.op_start_rel_micros
                trace.emit_region(
                    node.all_start_micros,
                    max(duration, node.all_end_rel_micros),
                    pid,
                    lanes[index],
                    "Op",
                    op,
                    args,
                )
                places[node.node_name] = (
                    pid,
                    lanes[index],
                    node.all_start_micros,
                    node.all_start_micros + node.all_end_rel_micros,
                )
                for name in inputs if show_dataflow else ():
                    source = places.get(name)
                    if source is not None:
                        trace.emit_flow_start(name, source[3], source[0], source[1], flow_id)
                        trace.emit_flow_end(name, node.all_start_micros, pid, lanes[index], flow_id)
                        flow_id += 1
        return trace

    def _tensors_of(self, nodes: Any, pid: int) -> dict[str, _TensorTracker]:
        """The outputs of the nodes of a device, each used until its last consumer ends."""
        tensors: dict[str, _TensorTracker] = {}
        for node in nodes:
            start = node.all_start_micros
            for index, output in enumerate(node.output):
                name = "%s:%d" % (node.node_name, index) if index else node.node_name
                allocation = output.tensor_description.allocation_description
                tracker = _TensorTracker(
                    name, len(tensors), start, pid, allocation.allocator_name, allocation.requested_bytes
                )
                tracker.add_ref(start)
                tracker.add_unref(start + node.all_end_rel_micros)
                tensors[name] = tracker
        for node in nodes:
            for name in _parse_label(node.timeline_label, node.node_name)[1]:
                if name in tensors:
                    tensors[name].add_ref(node.all_start_micros)
                    tensors[name].add_unref(node.all_start_micros + node.all_end_rel_micros)
        return tensors

    def _memory(self, trace: _ChromeTraceFormatter, device: Any, pid: int, show: bool) -> None:
        changes: dict[str, list[tuple[int, int, str]]] = collections.defaultdict(list)
        for name, tensor in self._tensors_of(device.node_stats, pid).items():
            changes[tensor.allocator].append((tensor.create_time, tensor.num_bytes, name))
            changes[tensor.allocator].append((tensor.last_unref, -tensor.num_bytes, name))
            if show:
                trace.emit_obj_create("Tensor", name, tensor.create_time, pid, 0, tensor.object_id)
                trace.emit_obj_delete("Tensor", name, tensor.last_unref, pid, 0, tensor.object_id)
        for allocator, steps in changes.items():
            total, names = 0, set()
            known = self._allocator_maximums.setdefault(allocator, AllocationMaximum(0, 0, set()))
            for at, num_bytes, name in sorted(steps):
                total += num_bytes
                if num_bytes < 0:
                    names.discard(name)
                else:
                    names.add(name)
                if total > known.num_bytes:
                    known = self._allocator_maximums[allocator] = AllocationMaximum(at, total, set(names))
                if show:
                    trace.emit_counter("Memory", allocator, pid, at, allocator, total)

    def analyze_step_stats(self, show_dataflow: bool = True, show_memory: bool = True) -> Any:
        """The trace, and the peak memory of each allocator."""
        trace = self._trace(show_dataflow, show_memory)
        return StepStatsAnalysis(chrome_trace=trace, allocator_maximums=self._allocator_maximums)

    def generate_chrome_trace_format(self, show_dataflow: bool = True, show_memory: bool = False) -> str:
        """The trace as JSON."""
        return self._trace(show_dataflow, show_memory).format_to_string(pretty=True)


def _parse_label(label: str, node_name: str) -> tuple[str, list[str]]:
    """("MatMul", ["a", "b"]) of "c = MatMul(a, b)"."""
    _, equals, call = label.partition(" = ")
    if not equals:
        return label.partition(" ")[0] or node_name, []
    op, _, inputs = call.partition("(")
    return op, [name.strip() for name in inputs.rstrip(")").split(",") if name.strip()]
