# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""ClusterSpec: the tasks of a cluster; Server: makes this process one of them."""

from __future__ import annotations

from typing import Any

from millrace.python.util import compat


class ClusterSpec:
    """The jobs of a cluster, and the addresses of their tasks."""

    def __init__(self, cluster: Any) -> None:
        """Makes the specification of a cluster.

        Args:
          cluster: dict from a job's name to a list of addresses ("host:port"), or to a dict from task numbers
            to addresses; or a ClusterDef, or another ClusterSpec.

        Raises:
          TypeError: if it is none of these.
        """
        from millrace.core.protobuf import cluster_pb2

        if isinstance(cluster, dict):
            self._cluster_spec: dict[str, dict[int, str]] = {}
            for job_name, tasks in cluster.items():
                if isinstance(tasks, (list, tuple)):
                    job_tasks = {i: task for i, task in enumerate(tasks)}
                elif isinstance(tasks, dict):
                    job_tasks = {int(i): task for i, task in tasks.items()}
                else:
                    raise TypeError(
                        "The tasks for job %r must be a list or a dictionary from integers to strings."
                        % job_name
                    )
                self._cluster_spec[job_name] = job_tasks
        elif isinstance(cluster, cluster_pb2.ClusterDef):
            self._cluster_spec = {job.name: dict(job.tasks) for job in cluster.job}
        elif isinstance(cluster, ClusterSpec):
            self._cluster_spec = {name: dict(tasks) for name, tasks in cluster._cluster_spec.items()}
        else:
            raise TypeError(
                "`cluster` must be a dictionary mapping one or more job names to lists of network addresses,"
                " or a `ClusterDef` protocol buffer"
            )
        self._cluster_def = self._make_cluster_def()

    def _make_cluster_def(self) -> Any:
        from millrace.core.protobuf import cluster_pb2

        cluster_def = cluster_pb2.ClusterDef()
        # Sorted, so that equal clusters have equal messages.
        for job_name, tasks in sorted(self._cluster_spec.items()):
            try:
                job_name = compat.as_str(job_name)
            except TypeError:
                raise TypeError("Job name %r must be bytes or unicode" % job_name)
            job_def = cluster_def.job.add()
            job_def.name = job_name
            for i, task_address in sorted(tasks.items()):
                try:
                    task_address = compat.as_str(task_address)
                except TypeError:
                    raise TypeError("Task address %r must be bytes or unicode" % task_address)
                job_def.tasks[i] = task_address
        return cluster_def

    def __bool__(self) -> bool:
        return bool(self._cluster_spec)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, ClusterSpec) and self._cluster_spec == other._cluster_spec

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __repr__(self) -> str:
        key_values = self.as_dict()
        string_items = [repr(k) + ": " + repr(key_values[k]) for k in sorted(key_values)]
        return "ClusterSpec({" + ", ".join(string_items) + "})"

    __hash__ = None  # type: ignore[assignment]

    def as_dict(self) -> dict[str, Any]:
        """Lists of addresses by names of jobs; dicts by task numbers where numbers are missing."""
        ret: dict[str, Any] = {}
        for job in self.jobs:
            task_indices = self.task_indices(job)
            if not task_indices:
                ret[job] = {}
                continue
            if max(task_indices) + 1 == len(task_indices):
                ret[job] = self.job_tasks(job)
            else:
                ret[job] = {i: self.task_address(job, i) for i in task_indices}
        return ret

    def as_cluster_def(self) -> Any:
        """The ClusterDef."""
        return self._cluster_def

    @property
    def jobs(self) -> list[str]:
        """Names of the jobs."""
        return list(self._cluster_spec.keys())

    def _job(self, job_name: str) -> dict[int, str]:
        try:
            return self._cluster_spec[job_name]
        except KeyError:
            raise ValueError("No such job in cluster: %r" % job_name) from None

    def num_tasks(self, job_name: str) -> int:
        """The number of tasks of a job. Raises ValueError for an unknown job."""
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """Numbers of a job's tasks, sorted. Raises ValueError for no job."""
        return sorted(self._job(job_name).keys())

    def task_address(self, job_name: str, task_index: int) -> str:
        """Address of a task. Raises ValueError for no job or task."""
        job = self._job(job_name)
        try:
            return job[task_index]
        except KeyError:
            raise ValueError("No task with index %r in job %r" % (task_index, job_name)) from None

    def job_tasks(self, job_name: str) -> list[str | None]:
        """Addresses by task numbers, None where a number is missing. Raises ValueError for no job."""
        job = self._job(job_name)
        ret: list[str | None] = [None for _ in range(max(job.keys()) + 1)] if job else []
        for i, task in job.items():
            ret[i] = task
        return ret


def _make_server_def(
    server_or_cluster_def: Any, job_name: Any, task_index: Any, protocol: Any, config: Any
) -> Any:
    """The ServerDef for the arguments of Server.

    Raises:
      TypeError: if an argument is of a wrong type.
      ValueError: if the arguments do not identify a task.
    """
    from millrace.core.protobuf import tensorflow_server_pb2

    server_def = tensorflow_server_pb2.ServerDef()
    if isinstance(server_or_cluster_def, tensorflow_server_pb2.ServerDef):
        server_def.MergeFrom(server_or_cluster_def)
        if job_name is not None:
            server_def.job_name = job_name
        if task_index is not None:
            server_def.task_index = task_index
        if protocol is not None:
            server_def.protocol = protocol
        if config is not None:
            server_def.default_session_config.MergeFrom(config)
        return server_def
    try:
        cluster_spec = ClusterSpec(server_or_cluster_def)
    except TypeError:
        raise TypeError(
            "Could not convert `server_or_cluster_def` to a `tf.train.ServerDef` or `tf.train.ClusterSpec`."
        )
    if job_name is None:
        if len(cluster_spec.jobs) != 1:
            raise ValueError("Must specify an explicit `job_name`.")
        job_name = cluster_spec.jobs[0]
    if task_index is None:
        if len(cluster_spec.task_indices(job_name)) != 1:
            raise ValueError("Must specify an explicit `task_index`.")
        task_index = cluster_spec.task_indices(job_name)[0]
    server_def = tensorflow_server_pb2.ServerDef(
        cluster=cluster_spec.as_cluster_def(),
        job_name=job_name,
        task_index=task_index,
        protocol="grpc" if protocol is None else protocol,
    )
    if config is not None:
        server_def.default_session_config.MergeFrom(config)
    return server_def


class Server:
    """Makes this process a task of a cluster, whose devices other processes and sessions can use."""

    def __init__(
        self,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: Any = None,
        start: bool = True,
    ) -> None:
        """Makes the server.

        Args:
          server_or_cluster_def: ServerDef, ClusterSpec, ClusterDef or dict.
          job_name, task_index: the job and number of this task.
          protocol: "grpc".
          config: ConfigProto of sessions.
          start: whether to start the server now.

        Raises:
          TypeError, ValueError: for invalid arguments.
          tf.errors.OpError: if the server cannot be made.
        """
        from millrace.python.training import _server_native

        self._server_def = _make_server_def(server_or_cluster_def, job_name, task_index, protocol, config)
        self._server = _server_native.NativeServer(self._server_def.SerializeToString())
        if start:
            self.start()

    def start(self) -> None:
        """Starts the server."""
        self._server.start()

    def join(self) -> None:
        """Waits until the server ends, which it does not by itself."""
        self._server.join()

    @property
    def server_def(self) -> Any:
        """The ServerDef."""
        return self._server_def

    @property
    def target(self) -> str:
        """The target for `tf.Session` to reach this server: grpc://HOST:PORT."""
        return self._server.target

    @staticmethod
    def create_local_server(config: Any = None, start: bool = True) -> Server:
        """A server of its own cluster, at a free port of this machine."""
        return Server({"localhost": ["localhost:0"]}, protocol="grpc", config=config, start=start)
