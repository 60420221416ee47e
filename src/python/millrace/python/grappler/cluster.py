# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The devices that graphs are optimised for."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from millrace.core.framework import step_stats_pb2
from millrace.core.protobuf import config_pb2, device_properties_pb2
from millrace.python.framework import errors_impl, importer, kernels, op_def_registry, ops


class Cluster:
    """The devices of this process.

    Args:
      allow_soft_placement: whether an op may be placed on another device than that set in the graph.
      disable_detailed_stats: whether a measurement leaves statistics out.
      disable_timeline: whether a measurement leaves the times of operations out.
      devices: NamedDevices; None: those of this process.
    """

    def __init__(
        self, allow_soft_placement: bool = True, disable_detailed_stats: bool = True, disable_timeline: bool = True,
        devices: Any = None,
    ) -> None:  # fmt: skip
        self._config = config_pb2.ConfigProto(allow_soft_placement=allow_soft_placement)
        self._detailed, self._timeline = not disable_detailed_stats, not disable_timeline
        self._devices = devices

    def Shutdown(self) -> None:  # noqa: N802
        """Releases the devices."""
        self._devices = []

    def ListDevices(self) -> list[Any]:  # noqa: N802
        """The NamedDevices."""
        from millrace.python.client import device_lib

        if self._devices is not None:
            return list(self._devices)
        found = []
        for device in device_lib.list_local_devices():
            named = device_properties_pb2.NamedDevice(name="/job:localhost/replica:0/task:0" + device.name)
            named.properties.type = device.device_type
            named.properties.memory_size = device.memory_limit
            found.append(named)
        return found

    def ListAvailableOps(self) -> list[str]:  # noqa: N802
        """The names of all ops, sorted."""
        return sorted(op_def_registry.get_registered_ops())

    def GetSupportedDevices(self, item: Any) -> dict[str, list[str]]:  # noqa: N802
        """The names of the devices that have a kernel for each operation of an item, by its name."""
        here = {device.name: device.properties.type for device in self.ListDevices()}
        found = {}
        for op in item._imported().get_operations():
            types = {k.device_type for k in kernels.get_registered_kernels_for_op(op.type).kernel}
            found[op.name] = sorted(name for name, kind in here.items() if kind in types)
        return found

    def MeasureCosts(self, item: Any) -> tuple[Any, float, Any]:  # noqa: N802
        """Runs an item once: costs of its operations, seconds of the step, and StepStats."""
        import time

        from millrace.python.client import session
        from millrace.python.grappler import tf_optimizer

        graph = ops.Graph()
        with graph.as_default():
            importer.import_graph_def(item.metagraph.graph_def, name="")
        fetches = [
            graph.get_operation_by_name(name) for name in sorted(tf_optimizer.fetches_of(item.metagraph))
        ]
        metadata = config_pb2.RunMetadata()
        traced = self._detailed or self._timeline
        level = config_pb2.RunOptions.FULL_TRACE if traced else config_pb2.RunOptions.NO_TRACE
        with session.Session(graph=graph, config=self._config) as sess:
            if "init_op" in item.metagraph.collection_def:
                sess.run(list(item.metagraph.collection_def["init_op"].node_list.value))
            begin = time.perf_counter()
            sess.run(fetches, options=config_pb2.RunOptions(trace_level=level), run_metadata=metadata)
            seconds = time.perf_counter() - begin
        stats = metadata.step_stats
        costs = [node for device in stats.dev_stats for node in device.node_stats] if self._detailed else []
        return costs, seconds, stats if self._timeline else step_stats_pb2.StepStats()

    def DeterminePeakMemoryUsage(self, item: Any) -> Any:  # noqa: N802
        """Not supported: the engine does not simulate memory. Raises NotImplementedError."""
        raise errors_impl.UnimplementedError(None, None, "Peak memory is not estimated")


@contextlib.contextmanager
def Provision(  # noqa: N802
    allow_soft_placement: bool = True,
    disable_detailed_stats: bool = True,
    disable_timeline: bool = True,
    devices: Any = None,
) -> Iterator[Cluster]:
    """A cluster that is shut down at the end of the block."""
    cluster = Cluster(allow_soft_placement, disable_detailed_stats, disable_timeline, devices)
    try:
        yield cluster
    finally:
        cluster.Shutdown()
