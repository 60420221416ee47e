# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The files of a run: one for each tensor, and those that describe the run."""
from __future__ import annotations

import collections
import json
import os
import time
from typing import Any

import numpy as np

from millrace.core.framework import graph_pb2, types_pb2
from millrace.core.util import event_pb2
from millrace.python.debug.lib import debug_graphs
from millrace.python.framework import tensor_util
from millrace.python.lib.io import file_io

METADATA_FILE_PREFIX = "_tfdbg_"
CORE_METADATA_TAG = "core_metadata_"
GRAPH_FILE_TAG = "graph_"
DEVICE_TAG = "device_"
HASH_TAG = "hash"
FETCHES_INFO_FILE_TAG = "fetches_info_"
FEED_KEYS_INFO_FILE_TAG = "feed_keys_info_"

CoreMetadata = collections.namedtuple(
    "CoreMetadata",
    [
        "global_step",
        "session_run_index",
        "executor_step_index",
        "input_names",
        "output_names",
        "target_nodes",
    ],
)
_FILE = "file://"


class InconvertibleTensorProto:
    """A tensor that has no array: one that was not initialised, or of a type that NumPy lacks."""

    def __init__(self, tensor_proto: Any, initialized: bool = True) -> None:
        self._tensor_proto = tensor_proto
        self._initialized = initialized

    def __str__(self) -> str:
        output = "" if self._initialized else "Uninitialized tensor:\n"
        return output + str(self._tensor_proto)

    @property
    def initialized(self) -> bool:
        """Whether the tensor had a value."""
        return self._initialized


def load_tensor_from_event(event: Any) -> Any:
    """The array in an Event; an InconvertibleTensorProto if there is none."""
    proto = event.summary.value[0].tensor
    is_string = proto.dtype == types_pb2.DT_STRING
    if proto.dtype in (types_pb2.DT_RESOURCE, types_pb2.DT_VARIANT):
        return InconvertibleTensorProto(proto)
    known = proto.HasField("tensor_shape")
    if not known or not (proto.tensor_content or proto.string_val or _is_empty(proto)):
        return InconvertibleTensorProto(proto, False)
    if is_string:
        values = np.array(list(proto.string_val), dtype=object)
        return values.reshape([dim.size for dim in proto.tensor_shape.dim])
    try:
        return tensor_util.MakeNdarray(proto)
    except (KeyError, TypeError, ValueError):
        return InconvertibleTensorProto(proto)


def _is_empty(proto: Any) -> bool:
    return any(dim.size == 0 for dim in proto.tensor_shape.dim)


def read_event(path: str) -> Any:
    """The Event that a file holds."""
    event = event_pb2.Event()
    with open(path, "rb") as file:
        event.ParseFromString(file.read())
    return event


def device_name_to_device_path(device_name: str) -> str:
    """The name of a device's folder, after its prefix."""
    return (
        METADATA_FILE_PREFIX
        + DEVICE_TAG
        + ",".join(item.replace(":", "_") for item in device_name.split("/"))
    )


def device_path_to_device_name(device_dir: str) -> str:
    """The device whose folder this is."""
    path = os.path.basename(device_dir)
    path = path.replace(METADATA_FILE_PREFIX + DEVICE_TAG, "")
    items = path.split(",")
    for i, item in enumerate(items):
        # "replica_0" and "device_CPU_0"; a job's name may have underscores.
        if item.startswith("device_"):
            kind, number = item[len("device_") :].rsplit("_", 1)
            items[i] = "device:%s:%s" % (kind, number)
        elif "_" in item:
            key, value = item.split("_", 1)
            items[i] = key + ":" + value
    return "/".join(items)


def extract_core_metadata(event: Any) -> Any:
    """The CoreMetadata in an Event."""
    known = json.loads(event.log_message.message)
    return CoreMetadata(
        known["global_step"],
        known["session_run_index"],
        known["executor_step_index"],
        known["input_names"],
        known["output_names"],
        known["target_nodes"],
    )


def _write(folder: str, name: str, event: Any) -> None:
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, METADATA_FILE_PREFIX + name)
    file_io.atomic_write_string_to_file(path, event.SerializeToString())


def write_message(folder: str, tag: str, message: str) -> None:
    """Writes a text as the Event of one kind."""
    event = event_pb2.Event(wall_time=time.time() * 1e6)
    event.log_message.message = message
    _write(folder, tag + "%d" % (time.time() * 1e6), event)


def folders_of(options: Any) -> list[str]:
    """The folders that the watches of RunOptions write to."""
    urls = [url for watch in options.debug_options.debug_tensor_watch_opts for url in watch.debug_urls]
    return list(dict.fromkeys(url[len(_FILE) :] for url in urls if url.startswith(_FILE)))


def write_run(
    options: Any, run_index: int, step_index: int, feeds: Any, fetches: Any, targets: Any, graphs: Any
) -> None:
    """Writes the description of the run, and the graph of each device, to the folders of the options."""
    metadata = {
        "global_step": options.debug_options.global_step,
        "session_run_index": run_index,
        "executor_step_index": step_index,
        "input_names": sorted(feeds),
        "output_names": sorted(fetches),
        "target_nodes": sorted(targets),
    }
    now = time.time() * 1e6
    for folder in folders_of(options):
        write_message(folder, CORE_METADATA_TAG + "sessionrun%.14d_" % run_index, json.dumps(metadata))
        for i, (device, graph) in enumerate(sorted(by_device(graphs).items())):
            event = event_pb2.Event(wall_time=now, graph_def=graph.SerializeToString())
            _write(
                os.path.join(folder, device_name_to_device_path(device)),
                GRAPH_FILE_TAG + HASH_TAG + "%d_%d" % (i, now),
                event,
            )


def by_device(graphs: Any) -> dict[str, Any]:
    """One graph for each device, of the nodes there."""
    found: dict[str, Any] = {}
    for graph in graphs:
        for node in graph.node:
            if node.device not in found:
                found[node.device] = graph_pb2.GraphDef(versions=graph.versions, library=graph.library)
            found[node.device].node.add().CopyFrom(node)
    return found


def is_graph_file(name: str) -> bool:
    """Whether a file of a device's folder holds its graph."""
    return name.startswith(METADATA_FILE_PREFIX + GRAPH_FILE_TAG)


def debug_graphs_of(graphs: Any, devices: Any = None) -> dict[str, Any]:
    """DebugGraphs by device."""
    found = {}
    for i, graph in enumerate(graphs):
        debug_graph = debug_graphs.DebugGraph(graph, devices[i] if devices else None)
        found[debug_graph.device_name] = debug_graph
    return found
