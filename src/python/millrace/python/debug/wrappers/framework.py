# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Wrappers of sessions, whose runs are watched."""
from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

from millrace.core.protobuf import config_pb2
from millrace.python.client import session
from millrace.python.debug.lib import debug_utils
from millrace.python.framework import errors_impl, ops
from millrace.python.platform import tf_logging


class OnSessionInitRequest:
    """The argument of `on_session_init`, which is called when a session is wrapped."""

    def __init__(self, sess: Any) -> None:
        if not isinstance(sess, (session.BaseSession, _monitored_session())):
            raise TypeError("Expected type %s; got type %s" % (session.BaseSession, type(sess)))
        self.session = sess


class OnSessionInitAction:
    PROCEED = "proceed"
    REMOTE_INSTR_LOOP = "remote_instr_loop"


class OnSessionInitResponse:
    def __init__(self, action: str) -> None:
        if action not in (OnSessionInitAction.PROCEED, OnSessionInitAction.REMOTE_INSTR_LOOP):
            raise ValueError("Invalid OnSessionInitAction: %s" % action)
        self.action = action


class OnRunStartRequest:
    """The argument of `on_run_start`, which is called before each run."""

    def __init__(
        self,
        fetches: Any,
        feed_dict: Any,
        run_options: Any,
        run_metadata: Any,
        run_call_count: int,
        is_callable_runner: bool = False,
    ) -> None:
        self.fetches = fetches
        self.feed_dict = feed_dict
        self.run_options = run_options
        self.run_metadata = run_metadata
        self.run_call_count = run_call_count
        self.is_callable_runner = is_callable_runner


class OnRunStartAction:
    DEBUG_RUN = "debug_run"
    PROFILE_RUN = "profile_run"
    NON_DEBUG_RUN = "non_debug_run"


class OnRunStartResponse:
    """The result of `on_run_start`: the requested kind of the run."""

    def __init__(
        self,
        action: str,
        debug_urls: Any,
        debug_ops: Any = "DebugIdentity",
        node_name_regex_whitelist: Any = None,
        op_type_regex_whitelist: Any = None,
        tensor_dtype_regex_whitelist: Any = None,
        tolerate_debug_op_creation_failures: bool = False,
    ) -> None:
        if action not in (
            OnRunStartAction.DEBUG_RUN, OnRunStartAction.PROFILE_RUN, OnRunStartAction.NON_DEBUG_RUN,
        ):  # fmt: skip
            raise ValueError("Invalid OnRunStartAction: %s" % action)
        if not isinstance(debug_urls, list):
            raise TypeError("Expected type list; got type %s" % type(debug_urls))
        self.action = action
        self.debug_urls = debug_urls
        self.debug_ops = debug_ops
        self.node_name_regex_whitelist = node_name_regex_whitelist
        self.op_type_regex_whitelist = op_type_regex_whitelist
        self.tensor_dtype_regex_whitelist = tensor_dtype_regex_whitelist
        self.tolerate_debug_op_creation_failures = tolerate_debug_op_creation_failures


class OnRunEndRequest:
    """The argument of `on_run_end`, which is called after each run."""

    def __init__(
        self,
        performed_action: str,
        run_metadata: Any = None,
        client_graph_def: Any = None,
        tf_error: Any = None,
    ) -> None:
        if run_metadata is not None and not isinstance(run_metadata, config_pb2.RunMetadata):
            raise TypeError("Expected type %s; got type %s" % (config_pb2.RunMetadata, type(run_metadata)))
        self.performed_action = performed_action
        self.run_metadata = run_metadata
        self.client_graph_def = client_graph_def
        self.tf_error = tf_error


class OnRunEndResponse:
    """The result of `on_run_end`, which has no content."""


class WatchOptions:
    """The tensors of a run that are watched; see debug_utils.watch_graph."""

    def __init__(
        self,
        debug_ops: Any = None,
        node_name_regex_whitelist: Any = None,
        op_type_regex_whitelist: Any = None,
        tensor_dtype_regex_whitelist: Any = None,
        tolerate_debug_op_creation_failures: bool = False,
    ) -> None:
        self.debug_ops = debug_ops if debug_ops else ["DebugIdentity"]
        self.node_name_regex_whitelist = node_name_regex_whitelist
        self.op_type_regex_whitelist = op_type_regex_whitelist
        self.tensor_dtype_regex_whitelist = tensor_dtype_regex_whitelist
        self.tolerate_debug_op_creation_failures = tolerate_debug_op_creation_failures

    def __repr__(self) -> str:
        return (
            "WatchOptions(debug_ops=%r, node_name_regex_whitelist=%r, op_type_regex_whitelist=%r, "
            "tensor_dtype_regex_whitelist=%r, tolerate_debug_op_creation_failures=%r)"
            % (
                self.debug_ops,
                self.node_name_regex_whitelist,
                self.op_type_regex_whitelist,
                self.tensor_dtype_regex_whitelist,
                self.tolerate_debug_op_creation_failures,
            )
        )


def _monitored_session() -> Any:
    from millrace.python.training import monitored_session

    return monitored_session.MonitoredSession


def _check_type(obj: Any, expected: Any) -> None:
    if not isinstance(obj, expected):
        raise TypeError("Expected type %s; got type %s" % (expected, type(obj)))


class BaseDebugWrapperSession(session.SessionInterface):
    """Base of wrappers of sessions, whose subclasses decide how runs are watched.

    Args:
      sess: the session.
      thread_name_filter: a pattern of names of threads; runs of others are not watched. None: all are.
      pass_through_operrors: whether errors of a run are raised instead of being handed to on_run_end.
    """

    def __init__(self, sess: Any, thread_name_filter: Any = None, pass_through_operrors: Any = False) -> None:
        _check_type(sess, (session.BaseSession, _monitored_session()))
        self._sess = sess
        self._thread_name_filter_pattern = re.compile(thread_name_filter) if thread_name_filter else None
        self._pass_through_operrors = pass_through_operrors
        self._run_call_count = 0
        response = self.on_session_init(OnSessionInitRequest(sess))
        _check_type(response, OnSessionInitResponse)
        if response.action != OnSessionInitAction.PROCEED:
            raise NotImplementedError("OnSessionInitAction REMOTE_INSTR_LOOP has not been implemented.")
        self._default_session_context_manager: Any = None

    @property
    def graph(self) -> Any:
        return self._sess.graph

    @property
    def graph_def(self) -> Any:
        return self._sess.graph_def

    @property
    def sess_str(self) -> Any:
        return self._sess.sess_str

    @property
    def session(self) -> Any:
        """The session that is wrapped."""
        return self._sess

    @property
    def run_call_count(self) -> int:
        """The number of runs."""
        return self._run_call_count

    def increment_run_call_count(self) -> int:
        self._run_call_count += 1
        return self._run_call_count

    def _is_disabled_thread(self) -> bool:
        name = threading.current_thread().name or ""
        return bool(self._thread_name_filter_pattern and not self._thread_name_filter_pattern.match(name))

    def run(
        self,
        fetches: Any,
        feed_dict: Any = None,
        options: Any = None,
        run_metadata: Any = None,
        callable_runner: Any = None,
        callable_runner_args: Any = None,
        callable_options: Any = None,
    ) -> Any:
        """As the session's run, watched."""
        if callable_runner and (fetches or feed_dict):
            raise ValueError(
                "callable_runner and fetches/feed_dict are mutually exclusive, but are used simultaneously."
            )
        del callable_options
        if self._is_disabled_thread() or _is_empty(fetches) and callable_runner is None:
            if callable_runner:
                return callable_runner(*callable_runner_args)
            return self._sess.run(fetches, feed_dict=feed_dict, options=options, run_metadata=run_metadata)
        count = self.increment_run_call_count()
        start = self.on_run_start(
            OnRunStartRequest(
                fetches, feed_dict, options, run_metadata, count, is_callable_runner=bool(callable_runner)
            )
        )
        _check_type(start, OnRunStartResponse)
        error = None
        retvals = None
        if start.action == OnRunStartAction.DEBUG_RUN:
            if callable_runner:
                raise NotImplementedError(
                    "Stepping or debugging of runners from make_callable() is not supported"
                )
            run_metadata = run_metadata or config_pb2.RunMetadata()
            decorated = config_pb2.RunOptions()
            if options:
                decorated.CopyFrom(options)
            self._decorate_run_options_for_debug(
                decorated,
                start.debug_urls,
                debug_ops=start.debug_ops,
                node_name_regex_whitelist=start.node_name_regex_whitelist,
                op_type_regex_whitelist=start.op_type_regex_whitelist,
                tensor_dtype_regex_whitelist=start.tensor_dtype_regex_whitelist,
                tolerate_debug_op_creation_failures=start.tolerate_debug_op_creation_failures,
            )
            try:
                retvals = self._sess.run(
                    fetches, feed_dict=feed_dict, options=decorated, run_metadata=run_metadata
                )
            except errors_impl.OpError as op_error:
                if self._pass_through_operrors:
                    raise
                error = retvals = op_error
        elif callable_runner:
            retvals = callable_runner(*callable_runner_args)
        else:
            if start.action == OnRunStartAction.PROFILE_RUN:
                options = options or config_pb2.RunOptions()
                run_metadata = run_metadata or config_pb2.RunMetadata()
                options.trace_level = config_pb2.RunOptions.FULL_TRACE
            retvals = self._sess.run(fetches, feed_dict=feed_dict, options=options, run_metadata=run_metadata)
        end = OnRunEndRequest(
            start.action,
            run_metadata=run_metadata,
            client_graph_def=self._sess.graph.as_graph_def() if run_metadata is not None else None,
            tf_error=error,
        )
        _check_type(self.on_run_end(end), OnRunEndResponse)
        return retvals

    def run_step_fn(self, step_fn: Any) -> Any:
        """As that of a MonitoredSession, whose runs are watched."""
        from millrace.python.training import monitored_session

        return step_fn(
            monitored_session.MonitoredSession.StepContext(session=self, run_with_hooks_fn=self.run)
        )

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> Any:
        raise NotImplementedError("partial_run_setup is not implemented for debug-wrapper sessions.")

    def partial_run(self, handle: Any, fetches: Any, feed_dict: Any = None) -> Any:
        raise NotImplementedError("partial_run is not implemented for debug-wrapper sessions.")

    def list_devices(self, *args: Any, **kwargs: Any) -> Any:
        return self._sess.list_devices(*args, **kwargs)

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        return self._sess.reset(*args, **kwargs)

    def make_callable(self, *args: Any, **kwargs: Any) -> Any:
        """As the session's make_callable; calls of the function are treated as runs."""
        runner = self._sess.make_callable(*args, **kwargs)

        def wrapped_runner(*runner_args: Any, **runner_kwargs: Any) -> Any:
            return self.run(
                None,
                feed_dict=None,
                options=runner_kwargs.get("options"),
                run_metadata=runner_kwargs.get("run_metadata"),
                callable_runner=lambda *values: runner(*values, **runner_kwargs),
                callable_runner_args=runner_args,
            )

        return wrapped_runner

    def _decorate_run_options_for_debug(
        self, run_options: Any, debug_urls: Any, debug_ops: Any = "DebugIdentity", **filters: Any
    ) -> None:
        run_options.output_partition_graphs = True
        debug_utils.watch_graph(
            run_options, self._sess.graph, debug_urls=debug_urls, debug_ops=debug_ops, **filters
        )

    def on_session_init(self, request: Any) -> Any:
        """Called with an OnSessionInitRequest; returns an OnSessionInitResponse."""
        raise NotImplementedError("on_session_init")

    def on_run_start(self, request: Any) -> Any:
        """Called with an OnRunStartRequest; returns an OnRunStartResponse."""
        raise NotImplementedError("on_run_start")

    def on_run_end(self, request: Any) -> Any:
        """Called with an OnRunEndRequest; returns an OnRunEndResponse."""
        raise NotImplementedError("on_run_end")

    def as_default(self) -> Any:
        return ops.default_session(self)

    def __enter__(self) -> Any:
        if self._default_session_context_manager is None:
            self._default_session_context_manager = self.as_default()
        return self._default_session_context_manager.__enter__()

    def __exit__(self, exec_type: Any, exec_value: Any, exec_tb: Any) -> None:
        manager, self._default_session_context_manager = self._default_session_context_manager, None
        manager.__exit__(exec_type, exec_value, exec_tb)
        self.close()

    def close(self) -> None:
        self._sess.close()

    def should_stop(self) -> Any:
        """Whether a MonitoredSession shall stop."""
        if hasattr(self._sess, "should_stop"):
            return self._sess.should_stop()
        raise ValueError("The wrapped session %r does not have a method called 'should_stop'. "
                         "Do you intend to wrap a tf.MonitoredSession instead?" % self._sess)  # fmt: skip


def _is_empty(value: Any) -> bool:
    """Whether a structure of fetches has none."""
    if isinstance(value, dict):
        return all(_is_empty(v) for v in value.values())
    if isinstance(value, (list, tuple)):
        return all(_is_empty(v) for v in value)
    return False


class NonInteractiveDebugWrapperSession(BaseDebugWrapperSession):
    """Watches every run, without interaction.

    Args:
      sess: the session.
      watch_fn: a function of fetches and feeds that returns WatchOptions.
      thread_name_filter: see BaseDebugWrapperSession.
      pass_through_operrors: see BaseDebugWrapperSession.
    """

    def __init__(
        self,
        sess: Any,
        watch_fn: Callable[..., Any] | None = None,
        thread_name_filter: Any = None,
        pass_through_operrors: Any = False,
    ) -> None:
        super().__init__(sess, thread_name_filter, pass_through_operrors)
        self._watch_fn: Any = None
        if watch_fn is not None:
            if not callable(watch_fn):
                raise TypeError("watch_fn is not callable")
            self._watch_fn = watch_fn

    def on_session_init(self, request: Any) -> Any:
        return OnSessionInitResponse(OnSessionInitAction.PROCEED)

    def prepare_run_debug_urls(self, fetches: Any, feed_dict: Any) -> Any:
        """Returns the URLs that the run is written to; subclasses define it."""
        raise NotImplementedError("prepare_run_debug_urls")

    def on_run_start(self, request: Any) -> Any:
        urls, watch = self._prepare_run_watch_config(request.fetches, request.feed_dict)
        action = OnRunStartAction.NON_DEBUG_RUN if request.is_callable_runner else OnRunStartAction.DEBUG_RUN
        if request.is_callable_runner:
            tf_logging.warn("A callable is not watched: use Session.run")
        return OnRunStartResponse(
            action,
            urls,
            debug_ops=watch.debug_ops,
            node_name_regex_whitelist=watch.node_name_regex_whitelist,
            op_type_regex_whitelist=watch.op_type_regex_whitelist,
            tensor_dtype_regex_whitelist=watch.tensor_dtype_regex_whitelist,
            tolerate_debug_op_creation_failures=watch.tolerate_debug_op_creation_failures,
        )

    def _prepare_run_watch_config(self, fetches: Any, feed_dict: Any) -> tuple[list[str], WatchOptions]:
        urls = self.prepare_run_debug_urls(fetches, feed_dict)
        urls = [urls] if isinstance(urls, str) else urls
        watch = WatchOptions()
        if self._watch_fn is not None:
            watch = self._watch_fn(fetches, feed_dict)
            if isinstance(watch, tuple):
                watch = WatchOptions(*watch)
        return urls, watch

    def on_run_end(self, request: Any) -> Any:
        return OnRunEndResponse()
