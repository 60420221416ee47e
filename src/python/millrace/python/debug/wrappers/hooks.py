# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Hooks that watch the runs of a MonitoredSession."""
from __future__ import annotations

from typing import Any

from millrace.core.protobuf import config_pb2
from millrace.python.debug.lib import debug_utils
from millrace.python.debug.wrappers import dumping_wrapper, framework, grpc_wrapper, local_cli_wrapper
from millrace.python.training import session_run_hook


def _options(start: Any, graph: Any) -> Any:
    """RunOptions of a run that is watched as `start`, the response of a wrapper, requests."""
    options = config_pb2.RunOptions(output_partition_graphs=True)
    debug_utils.watch_graph(
        options,
        graph,
        debug_urls=start.debug_urls,
        debug_ops=start.debug_ops,
        node_name_regex_whitelist=start.node_name_regex_whitelist,
        op_type_regex_whitelist=start.op_type_regex_whitelist,
        tensor_dtype_regex_whitelist=start.tensor_dtype_regex_whitelist,
        tolerate_debug_op_creation_failures=start.tolerate_debug_op_creation_failures,
    )
    return options


class LocalCLIDebugHook(session_run_hook.SessionRunHook):
    """Prompts for a command at each run, and shows its tensors; see LocalCLIDebugWrapperSession.

    Args:
      ui_type: "curses" and "readline" are the same here.
      dump_root: where tensors are written; None: a temporary folder.
      thread_name_filter: a pattern of names of threads; runs of others are not watched.
    """

    def __init__(
        self, ui_type: str = "curses", dump_root: Any = None, thread_name_filter: Any = None
    ) -> None:
        self._ui_type = ui_type
        self._dump_root = dump_root
        self._thread_name_filter = thread_name_filter
        self._session_wrapper: Any = None
        self._pending_tensor_filters: dict[str, Any] = {}
        self._performed_action: Any = None

    def add_tensor_filter(self, filter_name: str, tensor_filter: Any) -> None:
        """See LocalCLIDebugWrapperSession."""
        if self._session_wrapper is not None:
            self._session_wrapper.add_tensor_filter(filter_name, tensor_filter)
        else:
            self._pending_tensor_filters[filter_name] = tensor_filter

    def begin(self) -> None:
        pass

    def before_run(self, run_context: Any) -> Any:
        if self._session_wrapper is None:
            self._session_wrapper = local_cli_wrapper.LocalCLIDebugWrapperSession(
                run_context.session,
                ui_type=self._ui_type,
                dump_root=self._dump_root,
                thread_name_filter=self._thread_name_filter,
            )
            for name, tensor_filter in self._pending_tensor_filters.items():
                self._session_wrapper.add_tensor_filter(name, tensor_filter)
        wrapper = self._session_wrapper
        wrapper.increment_run_call_count()
        start = wrapper.on_run_start(
            framework.OnRunStartRequest(
                run_context.original_args.fetches,
                run_context.original_args.feed_dict,
                None,
                None,
                wrapper.run_call_count,
            )
        )
        self._performed_action = start.action
        args = session_run_hook.SessionRunArgs(None, feed_dict=None, options=config_pb2.RunOptions())
        if start.action == framework.OnRunStartAction.DEBUG_RUN:
            args = session_run_hook.SessionRunArgs(None, None, _options(start, run_context.session.graph))
        elif start.action == framework.OnRunStartAction.PROFILE_RUN:
            args.options.trace_level = config_pb2.RunOptions.FULL_TRACE
        return args

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._session_wrapper.on_run_end(
            framework.OnRunEndRequest(
                self._performed_action,
                run_metadata=run_values.run_metadata,
                client_graph_def=run_context.session.graph.as_graph_def(),
            )
        )


class DumpingDebugHook(session_run_hook.SessionRunHook):
    """Writes the tensors of each run to a new folder: see DumpingDebugWrapperSession.

    Args:
      session_root: the folder in which each run gets one.
      watch_fn: a function of fetches and feeds that returns WatchOptions.
      thread_name_filter: a pattern of names of threads; runs of others are not watched.
      log_usage: not used.
    """

    def __init__(
        self, session_root: str, watch_fn: Any = None, thread_name_filter: Any = None, log_usage: bool = True
    ) -> None:
        self._session_root = session_root
        self._watch_fn = watch_fn
        self._thread_name_filter = thread_name_filter
        self._session_wrapper: Any = None

    def begin(self) -> None:
        pass

    def before_run(self, run_context: Any) -> Any:
        if self._session_wrapper is None:
            self._session_wrapper = dumping_wrapper.DumpingDebugWrapperSession(
                run_context.session,
                self._session_root,
                watch_fn=self._watch_fn,
                thread_name_filter=self._thread_name_filter,
            )
        self._session_wrapper.increment_run_call_count()
        if self._session_wrapper._is_disabled_thread():
            return None
        start = self._session_wrapper.on_run_start(
            framework.OnRunStartRequest(
                run_context.original_args.fetches,
                run_context.original_args.feed_dict,
                None,
                None,
                self._session_wrapper.run_call_count,
            )
        )
        return session_run_hook.SessionRunArgs(None, None, _options(start, run_context.session.graph))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        pass


class GrpcDebugHook(session_run_hook.SessionRunHook):
    """Not supported: raises NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(grpc_wrapper._TEXT % "GrpcDebugHook")


class TensorBoardDebugHook(GrpcDebugHook):
    """Not supported: raises NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(grpc_wrapper._TEXT % "TensorBoardDebugHook")
