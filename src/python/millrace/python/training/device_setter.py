# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Device functions of programs with parameter servers."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import device as pydev
from millrace.python.platform import tf_logging as logging
from millrace.python.training import server_lib

# Ops that hold variables.
STANDARD_PS_OPS = (
    "Variable",
    "VariableV2",
    "AutoReloadVariable",
    "MutableHashTable",
    "MutableHashTableV2",
    "MutableHashTableOfTensors",
    "MutableHashTableOfTensorsV2",
    "MutableDenseHashTable",
    "MutableDenseHashTableV2",
    "VarHandleOp",
    "BoostedTreesEnsembleResourceHandleOp",
    "BoostedTreesQuantileStreamResourceHandleOp",
)


class _RoundRobinStrategy:
    """Returns tasks 0, 1, ..., n - 1, 0, ... in turn."""

    def __init__(self, num_tasks: int) -> None:
        self._num_tasks = num_tasks
        self._next_task = 0

    def __call__(self, unused_op: Any) -> int:
        task = self._next_task
        self._next_task = (self._next_task + 1) % self._num_tasks
        return task


class _ReplicaDeviceChooser:
    """Device of an op: a parameter server for variables, the worker for everything else."""

    def __init__(
        self,
        ps_tasks: int,
        ps_device: str,
        worker_device: str,
        merge_devices: bool,
        ps_ops: Any,
        ps_strategy: Any,
    ) -> None:
        self._ps_tasks = ps_tasks
        self._ps_device = ps_device
        self._worker_device = worker_device
        self._merge_devices = merge_devices
        self._ps_ops = ps_ops
        self._ps_strategy = ps_strategy

    def device_function(self, op: Any) -> str:
        """The device for `op`, merged with the requested one."""
        if not self._merge_devices and op.device:
            requested: str = op.device
            return requested
        current_device = pydev.DeviceSpec.from_string(op.device or "")
        node_def = op if not hasattr(op, "type") else None
        op_type = op.type if node_def is None else node_def.op
        if self._ps_tasks and self._ps_device and op_type in self._ps_ops:
            ps_device = pydev.DeviceSpec.from_string(self._ps_device)
            current_job, ps_job = current_device.job, ps_device.job
            if ps_job and (not current_job or current_job == ps_job):
                ps_device = ps_device.replace(task=self._ps_strategy(op))
            result: str = ps_device.make_merged_spec(current_device).to_string()
            return result
        worker_device = pydev.DeviceSpec.from_string(self._worker_device or "")
        merged: str = worker_device.make_merged_spec(current_device).to_string()
        return merged


def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: str = "/job:ps",
    worker_device: str = "/job:worker",
    merge_devices: bool = True,
    cluster: Any = None,
    ps_ops: Any = None,
    ps_strategy: Any = None,
) -> Any:
    """A device function that places variables on parameter servers, in turn, and other ops on the worker.

    Args:
      ps_tasks: number of parameter servers; 0: none.
      ps_device, worker_device: devices of the two jobs.
      merge_devices: whether to complete devices that ops request, instead of leaving them unchanged.
      cluster: ClusterSpec, ClusterDef or dict from which `ps_tasks` is taken.
      ps_ops: types of ops that hold variables; STANDARD_PS_OPS if None.
      ps_strategy: function from an op to the number of a parameter server; None: round robin.

    Returns:
      A function for `tf.device`, or None without parameter servers.

    Raises:
      TypeError: if `cluster` is no cluster, or `ps_strategy` cannot be called.
    """
    if cluster is not None:
        if isinstance(cluster, server_lib.ClusterSpec):
            cluster_spec = cluster.as_dict()
        else:
            cluster_spec = server_lib.ClusterSpec(cluster).as_dict()
        ps_job_name = pydev.DeviceSpec.from_string(ps_device).job
        if ps_job_name not in cluster_spec or cluster_spec[ps_job_name] is None:
            return None
        ps_tasks = len(cluster_spec[ps_job_name])
    if ps_tasks == 0:
        return None
    if ps_ops is None:
        ps_ops = list(STANDARD_PS_OPS)
    if not merge_devices:
        logging.warning("DEPRECATION: It is recommended to set merge_devices=true in replica_device_setter")
    if ps_strategy is None:
        ps_strategy = _RoundRobinStrategy(ps_tasks)
    if not callable(ps_strategy):
        raise TypeError("ps_strategy must be callable")
    chooser = _ReplicaDeviceChooser(ps_tasks, ps_device, worker_device, merge_devices, ps_ops, ps_strategy)
    return chooser.device_function
