# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the files of a watched run."""
from __future__ import annotations

import glob
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.core.framework import graph_pb2
from millrace.python.debug.lib import _dump_files, debug_graphs
from millrace.python.debug.lib._dump_files import (  # noqa: F401
    CORE_METADATA_TAG,
    DEVICE_TAG,
    FEED_KEYS_INFO_FILE_TAG,
    FETCHES_INFO_FILE_TAG,
    GRAPH_FILE_TAG,
    HASH_TAG,
    METADATA_FILE_PREFIX,
    CoreMetadata,
    InconvertibleTensorProto,
    device_name_to_device_path,
    device_path_to_device_name,
    load_tensor_from_event,
)
from millrace.python.debug.lib._dump_graphs import (  # noqa: F401
    DumpGraphs,
    WatchKeyDoesNotExistInDebugDumpDirError,
)

extract_core_metadata_from_event_proto = _dump_files.extract_core_metadata


def load_tensor_from_event_file(event_file_path: str) -> Any:
    """The array in the file of a tensor."""
    return load_tensor_from_event(_dump_files.read_event(event_file_path))


def _load_graph_def_from_event_file(event_file_path: str) -> Any:
    return graph_pb2.GraphDef.FromString(_dump_files.read_event(event_file_path).graph_def)


def has_inf_or_nan(datum: Any, tensor: Any) -> bool:
    """Whether an array has a NaN or an infinity. A filter of tensors: `datum` says which tensor it is."""
    del datum
    if isinstance(tensor, InconvertibleTensorProto) or not isinstance(tensor, (np.ndarray, np.generic)):
        return False
    if np.issubdtype(tensor.dtype, np.floating) or np.issubdtype(tensor.dtype, np.complexfloating):
        return bool(np.any(np.isnan(tensor)) or np.any(np.isinf(tensor)))
    return False


def _get_tensor_name(node_name: str, output_slot: int) -> str:
    return "%s:%d" % (node_name, output_slot)


def _get_tensor_watch_key(node_name: str, output_slot: int, debug_op: str) -> str:
    return "%s:%s" % (_get_tensor_name(node_name, output_slot), debug_op)


def _is_graph_file(file_name: str) -> bool:
    return _dump_files.is_graph_file(file_name)


class DebugTensorDatum:
    """One value of a tensor: its file and the fields of the file's name.

    Args:
      dump_root: the folder of the run.
      debug_dump_rel_path: the file below it, "_tfdbg_device_…/node_0_DebugIdentity_1234".
    """

    def __init__(self, dump_root: str, debug_dump_rel_path: str) -> None:
        path = os.path.normpath(debug_dump_rel_path)
        base = os.path.basename(path)
        if base.count("_") < 3:
            raise ValueError("Dump file path does not conform to the naming pattern: %s" % base)
        self._extended_timestamp = base.split("_")[-1]
        # "-" and a number after the time make the name of a file unique.
        self._timestamp = int(self._extended_timestamp.split("-")[0])
        self._debug_op = base.split("_")[-2]
        self._output_slot = int(base.split("_")[-3])
        parts = path.split(os.sep)
        self._device_name = device_path_to_device_name(parts[0])
        node_base = "_".join(base.split("_")[:-3])
        self._node_name = "/".join(parts[1:-1] + [node_base])
        self._file_path = os.path.join(dump_root, path)
        self._dump_size_bytes = os.path.getsize(self._file_path) if os.path.exists(self._file_path) else None

    def __str__(self) -> str:
        return "{DebugTensorDatum (%s) %s:%d @ %s @ %d}" % (
            self.device_name, self.node_name, self.output_slot, self.debug_op, self.timestamp,
        )  # fmt: skip

    __repr__ = __str__

    def get_tensor(self) -> Any:
        """The value: an array, or an InconvertibleTensorProto."""
        return load_tensor_from_event_file(self.file_path)

    @property
    def timestamp(self) -> int:
        """When it was written, in microseconds since 1970."""
        return self._timestamp

    @property
    def extended_timestamp(self) -> str:
        return self._extended_timestamp

    @property
    def debug_op(self) -> str:
        return self._debug_op

    @property
    def device_name(self) -> str:
        return self._device_name

    @property
    def node_name(self) -> str:
        return self._node_name

    @property
    def output_slot(self) -> int:
        return self._output_slot

    @property
    def tensor_name(self) -> str:
        return _get_tensor_name(self.node_name, self.output_slot)

    @property
    def watch_key(self) -> str:
        """ "node:0:DebugIdentity"."""
        return _get_tensor_watch_key(self.node_name, self.output_slot, self.debug_op)

    @property
    def file_path(self) -> str:
        return self._file_path

    @property
    def dump_size_bytes(self) -> Any:
        return self._dump_size_bytes


class DebugDumpDir(DumpGraphs):
    """The files that one run wrote.

    Args:
      dump_root: the folder.
      partition_graphs: the GraphDefs of the devices; None: those in the folder.
      validate: whether values are checked against the graphs.

    Raises:
      IOError: if there is no such folder, or nothing of a device in it.
      ValueError: if values and graphs contradict each other.
    """

    def __init__(self, dump_root: str, partition_graphs: Any = None, validate: bool = True) -> None:
        if not os.path.isdir(dump_root):
            raise IOError("Dump root directory %s does not exist" % dump_root)
        super().__init__()
        self._dump_root = dump_root
        self._load_core_metadata()
        self._load_fetches_info()
        self._load_feeds_info()
        self._load_all_device_dumps(partition_graphs, validate)
        self._python_graph: Any = None

    def _load_all_device_dumps(self, partition_graphs: Any, validate: bool) -> None:
        device_dirs = sorted(
            glob.glob(os.path.join(glob.escape(self._dump_root), METADATA_FILE_PREFIX + DEVICE_TAG + "*"))
        )
        loaded = []
        for device_dir in device_dirs:
            name = device_path_to_device_name(device_dir)
            self._device_names.append(name)
            loaded += self._load_device_dumps(name, device_dir)
        self._load_partition_graphs(partition_graphs if partition_graphs else loaded, validate)
        every = [datum for data in self._dump_tensor_data.values() for datum in data]
        self._t0 = min((datum.timestamp for datum in every), default=None)
        if validate and every:
            self._check_data()

    def _load_device_dumps(self, device_name: str, device_root: str) -> list[Any]:
        graphs, data = [], []
        for root, _, files in os.walk(device_root):
            for name in files:
                if name.startswith(METADATA_FILE_PREFIX):
                    if _dump_files.is_graph_file(name):
                        graphs.append(_load_graph_def_from_event_file(os.path.join(root, name)))
                    continue
                if ".tempstate" in name:  # a temporary file of a process that ended while writing
                    continue
                path = os.path.relpath(os.path.join(root, name), self._dump_root)
                data.append(DebugTensorDatum(self._dump_root, path))
        # Values of the same time are ordered by the dependencies of their nodes.
        data.sort(key=lambda datum: (datum.timestamp, datum.extended_timestamp))
        self._dump_tensor_data[device_name] = data
        for datum in data:
            self._watch_key_to_datum.setdefault(device_name, {}).setdefault(datum.watch_key, []).append(datum)
            keys = self._debug_watches.setdefault(device_name, {}).setdefault(datum.node_name, {})
            keys.setdefault(datum.output_slot, set()).add(datum.debug_op)
        return graphs

    def _check_data(self) -> None:
        for device_name, data in self._dump_tensor_data.items():
            graph: Any = self._debug_graphs.get(device_name)
            for datum in data if graph is not None else ():
                if datum.node_name not in graph.node_inputs:
                    raise ValueError(
                        "Node name '%s' is not found in partition graphs of device %s."
                        % (datum.node_name, device_name)
                    )

    def _metadata_files(self, tag: str) -> list[str]:
        return sorted(glob.glob(os.path.join(glob.escape(self._dump_root), METADATA_FILE_PREFIX + tag + "*")))

    def _load_core_metadata(self) -> None:
        self._core_metadata = [
            _dump_files.extract_core_metadata(_dump_files.read_event(path))
            for path in self._metadata_files(CORE_METADATA_TAG)
        ]

    def _load_fetches_info(self) -> None:
        self._run_fetches_info = [
            _dump_files.read_event(path).log_message.message
            for path in self._metadata_files(FETCHES_INFO_FILE_TAG)
        ]

    def _load_feeds_info(self) -> None:
        self._run_feed_keys_info = [
            _dump_files.read_event(path).log_message.message
            for path in self._metadata_files(FEED_KEYS_INFO_FILE_TAG)
        ]

    @property
    def core_metadata(self) -> Any:
        """The metadata of the run: a CoreMetadata, or a list if there are several."""
        return self._core_metadata[0] if len(self._core_metadata) == 1 else self._core_metadata

    @property
    def dumped_tensor_data(self) -> list[DebugTensorDatum]:
        """All values, in the order of time."""
        if len(self._dump_tensor_data) == 1:
            return next(iter(self._dump_tensor_data.values()))
        every = [datum for data in self._dump_tensor_data.values() for datum in data]
        return sorted(every, key=lambda datum: (datum.timestamp, datum.extended_timestamp))

    @property
    def t0(self) -> Any:
        """The time of the first value, in microseconds."""
        return self._t0

    @property
    def size(self) -> int:
        """The number of values."""
        return sum(len(data) for data in self._dump_tensor_data.values())

    @property
    def run_fetches_info(self) -> Any:
        """The fetches as text, or a list of texts."""
        return self._run_fetches_info[0] if len(self._run_fetches_info) == 1 else self._run_fetches_info

    @property
    def run_feed_keys_info(self) -> Any:
        """The names of the feeds as text, or a list of texts."""
        return self._run_feed_keys_info[0] if len(self._run_feed_keys_info) == 1 else self._run_feed_keys_info

    def find(
        self,
        predicate: Callable[[Any, Any], Any],
        first_n: int = 0,
        device_name: Any = None,
        exclude_node_names: Any = None,
    ) -> list[DebugTensorDatum]:
        """The values that a filter accepts.

        Args:
          predicate: a function of a DebugTensorDatum and its array that returns a bool.
          first_n: the maximum number of results; 0 or less: no limit.
          device_name: only those of this device.
          exclude_node_names: a pattern of names of nodes that are left out.
        """
        import re

        excluded = re.compile(exclude_node_names) if exclude_node_names else None
        matched: list[DebugTensorDatum] = []
        for device in self._dump_tensor_data:
            if device_name and device != device_name:
                continue
            for datum in self._dump_tensor_data[device]:
                if excluded is not None and excluded.match(datum.node_name):
                    continue
                if predicate(datum, datum.get_tensor()):
                    matched.append(datum)
                    if first_n > 0 and len(matched) >= first_n:
                        return matched
        return matched

    def _data_of(self, node_name: str, output_slot: int, debug_op: str, device_name: Any) -> list[Any]:
        device_name = self._infer_device_name(device_name, node_name)
        watch_key = _get_tensor_watch_key(node_name, output_slot, debug_op)
        return self._known(device_name, watch_key)

    def get_tensor_file_paths(
        self, node_name: str, output_slot: int, debug_op: str, device_name: Any = None
    ) -> list[str]:
        """The files of a tensor, one for each time that it was computed."""
        return [datum.file_path for datum in self._data_of(node_name, output_slot, debug_op, device_name)]

    def get_tensors(
        self, node_name: str, output_slot: int, debug_op: str, device_name: Any = None
    ) -> list[Any]:
        """The values of a tensor, one for each time that it was computed.

        Raises:
          WatchKeyDoesNotExistInDebugDumpDirError: if it was not watched.
        """
        return [datum.get_tensor() for datum in self._data_of(node_name, output_slot, debug_op, device_name)]

    def get_rel_timestamps(
        self, node_name: str, output_slot: int, debug_op: str, device_name: Any = None
    ) -> list[int]:
        """When the values were written, in microseconds after the first of the run."""
        data = self._data_of(node_name, output_slot, debug_op, device_name)
        return [datum.timestamp - self._t0 for datum in data]

    def get_dump_sizes_bytes(
        self, node_name: str, output_slot: int, debug_op: str, device_name: Any = None
    ) -> list[int]:
        """The sizes of the files."""
        data = self._data_of(node_name, output_slot, debug_op, device_name)
        return [datum.dump_size_bytes for datum in data]

    @property
    def python_graph(self) -> Any:
        """The graph of the program, if it was set."""
        return self._python_graph

    def set_python_graph(self, python_graph: Any) -> None:
        """Sets the graph of the program, for the source lines that created the nodes."""
        self._python_graph = python_graph
        self._node_traceback = {op.name: op.traceback for op in python_graph.get_operations()}

    def node_traceback(self, element_name: str) -> Any:
        """The stack when a node was made.

        Raises:
          LookupError: if no graph is set.
          KeyError: if the graph has no such node.
        """
        if self._python_graph is None:
            raise LookupError("Python graph is not available for traceback lookup")
        node_name = debug_graphs.get_node_name(element_name)
        if node_name not in self._node_traceback:
            raise KeyError('Cannot find node "%s" in Python graph' % node_name)
        return self._node_traceback[node_name]
