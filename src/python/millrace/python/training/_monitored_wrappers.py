# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Wrappers of sessions, each of which adds one thing to `run`: recovery, coordination, hooks."""

from __future__ import annotations

import sys
from typing import Any

from millrace.python.framework import errors
from millrace.python.platform import tf_logging as logging
from millrace.python.training import session_run_hook

# Errors after which a new session may succeed.
_PREEMPTION_ERRORS = (errors.AbortedError, errors.UnavailableError)


class _WrappedSession:
    """Base of wrappers: calls the methods of the wrapped session."""

    def __init__(self, sess: Any) -> None:
        self._sess = sess
        self._wrapped_is_stoppable = isinstance(self._sess, _WrappedSession)

    @property
    def graph(self) -> Any:
        return self._sess.graph

    @property
    def sess_str(self) -> Any:
        return self._sess.sess_str

    def should_stop(self) -> bool:
        """True after `close`, or if it is true of a wrapped session or of `_check_stop`."""
        if self._check_stop():
            return True
        if self._sess:
            return bool(self._wrapped_is_stoppable and self._sess.should_stop())
        return True

    def _check_stop(self) -> bool:
        return False

    def close(self) -> None:
        if self._sess:
            try:
                self._sess.close()
            except _PREEMPTION_ERRORS as e:
                logging.error(
                    "An error occurred when attempting to close the session. This may be due to a preemption"
                    " in a connected worker or parameter server. Error: %s",
                    e,
                )
            finally:
                self._sess = None

    def run(self, *args: Any, **kwargs: Any) -> Any:
        return self._sess.run(*args, **kwargs)

    def run_step_fn(self, step_fn: Any, raw_session: Any, run_with_hooks: Any) -> Any:
        from millrace.python.training._monitored_sessions import StepContext

        run_with_hooks = run_with_hooks or self.run
        return step_fn(StepContext(raw_session, run_with_hooks))


class _RecoverableSession(_WrappedSession):
    """Makes a new session and runs again when the wrapped one was aborted or is unavailable."""

    def __init__(self, sess_creator: Any) -> None:
        """Makes the session.

        Args:
          sess_creator: the SessionCreator of the wrapped sessions.
        """
        self._sess_creator = sess_creator
        super().__init__(self._create_session())

    def _create_session(self) -> Any:
        while True:
            try:
                return self._sess_creator.create_session()
            except _PREEMPTION_ERRORS as e:
                logging.info(
                    "An error was raised while a session was being created. This may be due to a preemption of"
                    " a connected worker or parameter server. A new session will be created. This error may"
                    " also occur due to a gRPC failure caused by high memory or network bandwidth usage in the"
                    " parameter servers. If this error occurs repeatedly, try increasing the number of"
                    " parameter servers assigned to the job. Error: %s",
                    e,
                )

    def _check_stop(self) -> bool:
        try:
            if self._sess:
                return bool(self._sess._check_stop())
            return True
        except _PREEMPTION_ERRORS as e:
            logging.info(
                "An error was raised while considering whether the session is complete. This may be due to a"
                " preemption in a connected worker or parameter server. The current session will be closed and"
                " a new session will be created. Error: %s",
                e,
            )
            self.close()
            self._sess = self._create_session()
            # The new session has not asked to stop.
            return False
        except Exception:
            # The caller of the session will see the error there.
            return True

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        return self._retry(
            lambda: self._sess.run(fetches, feed_dict=feed_dict, options=options, run_metadata=run_metadata)
        )

    def run_step_fn(self, step_fn: Any, raw_session: Any, run_with_hooks: Any) -> Any:
        return self._retry(lambda: self._sess.run_step_fn(step_fn, self._sess.raw_session(), run_with_hooks))

    def _retry(self, call: Any) -> Any:
        while True:
            try:
                if not self._sess:
                    self._sess = self._create_session()
                return call()
            except _PREEMPTION_ERRORS as e:
                logging.info(
                    "An error was raised. This may be due to a preemption in a connected worker or parameter"
                    " server. The current session will be closed and a new session will be created. This error"
                    " may also occur due to a gRPC failure caused by high memory or network bandwidth usage in"
                    " the parameter servers. If this error occurs repeatedly, try increasing the number of"
                    " parameter servers assigned to the job. Error: %s",
                    e,
                )
                self.close()
                self._sess = None

    def raw_session(self) -> Any:
        return self._sess.raw_session() if self._sess else None


class _CoordinatedSession(_WrappedSession):
    """Stops its coordinator's threads when it is closed, and raises the error that a thread reported first."""

    def __init__(self, sess: Any, coord: Any, stop_grace_period_secs: float = 120) -> None:
        super().__init__(sess)
        self._coord = coord
        self._stop_grace_period_secs = stop_grace_period_secs

    def _check_stop(self) -> bool:
        # Raises an error that a thread reported, which would be lost otherwise.
        self._coord.raise_requested_exception()
        return bool(self._coord.should_stop())

    def close(self) -> None:
        self._coord.request_stop()
        try:
            self._coord.join(stop_grace_period_secs=self._stop_grace_period_secs, ignore_live_threads=True)
        finally:
            try:
                super().close()
            except Exception:
                # An error of a thread is raised in preference to this one.
                pass

    def run(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._sess.run(*args, **kwargs)
        except _PREEMPTION_ERRORS:
            raise
        except Exception:
            # An error of a queue's thread is the cause of the error of this run.
            original = sys.exc_info()
            try:
                self._coord.raise_requested_exception()
            except _PREEMPTION_ERRORS:
                raise
            except Exception as cause:
                raise cause from None
            assert original[1] is not None
            raise original[1].with_traceback(original[2])

    def raw_session(self) -> Any:
        return self._sess.raw_session() if hasattr(self._sess, "raw_session") else self._sess


class _HookedSession(_WrappedSession):
    """Calls hooks before and after each run, and adds their fetches and feeds to it."""

    def __init__(self, sess: Any, hooks: Any) -> None:
        super().__init__(sess)
        self._hooks = hooks
        self._should_stop = False

    def raw_session(self) -> Any:
        return self._sess

    def _check_stop(self) -> bool:
        return self._should_stop

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        from millrace.core.protobuf import config_pb2

        if self.should_stop():
            raise RuntimeError("Run called even after should_stop requested.")
        actual_fetches = {"caller": fetches}
        run_context = session_run_hook.SessionRunContext(
            original_args=session_run_hook.SessionRunArgs(fetches, feed_dict), session=self._sess
        )
        options = options or config_pb2.RunOptions()
        feed_dict = self._call_hook_before_run(run_context, actual_fetches, feed_dict, options)
        run_metadata = run_metadata or config_pb2.RunMetadata()
        outputs = _WrappedSession.run(
            self, fetches=actual_fetches, feed_dict=feed_dict, options=options, run_metadata=run_metadata
        )
        for hook in self._hooks:
            hook.after_run(
                run_context,
                session_run_hook.SessionRunValues(
                    results=outputs[hook] if hook in outputs else None,
                    options=options,
                    run_metadata=run_metadata,
                ),
            )
        self._should_stop = self._should_stop or run_context.stop_requested
        return outputs["caller"]

    def _call_hook_before_run(
        self, run_context: Any, fetch_dict: Any, user_feed_dict: Any, options: Any
    ) -> dict[Any, Any]:
        """The feeds of caller and hooks; adds the hooks' fetches and options to those given."""
        hook_feeds: dict[Any, Any] = {}
        for hook in self._hooks:
            request = hook.before_run(run_context)
            if request is not None:
                if request.fetches is not None:
                    fetch_dict[hook] = request.fetches
                if request.feed_dict:
                    self._raise_if_feeds_intersects(
                        hook_feeds, request.feed_dict, "Same tensor is fed by two hooks."
                    )
                    hook_feeds.update(request.feed_dict)
                if request.options:
                    self._merge_run_options(options, request.options)
        if not hook_feeds:
            return user_feed_dict or {}
        if not user_feed_dict:
            return hook_feeds
        self._raise_if_feeds_intersects(
            user_feed_dict, hook_feeds, "Same tensor is fed by a SessionRunHook and user."
        )
        hook_feeds.update(user_feed_dict)
        return hook_feeds

    @staticmethod
    def _raise_if_feeds_intersects(feeds1: Any, feeds2: Any, message: str) -> None:
        intersection = set(feeds1.keys()) & set(feeds2.keys())
        if intersection:
            raise RuntimeError(message + " Conflict(s): " + str(list(intersection)))

    @staticmethod
    def _merge_run_options(options: Any, incoming_options: Any) -> None:
        """Adds the options of a hook: the higher trace level, the longer timeout, partition graphs, watched tensors."""
        options.trace_level = max(options.trace_level, incoming_options.trace_level)
        options.timeout_in_ms = max(options.timeout_in_ms, incoming_options.timeout_in_ms)
        options.inter_op_thread_pool = max(
            options.inter_op_thread_pool, incoming_options.inter_op_thread_pool
        )
        options.output_partition_graphs = max(
            options.output_partition_graphs, incoming_options.output_partition_graphs
        )
        options.debug_options.debug_tensor_watch_opts.extend(
            incoming_options.debug_options.debug_tensor_watch_opts
        )
        options.debug_options.reset_disk_byte_usage = (
            options.debug_options.reset_disk_byte_usage
            or incoming_options.debug_options.reset_disk_byte_usage
        )
        options.report_tensor_allocations_upon_oom = (
            options.report_tensor_allocations_upon_oom or incoming_options.report_tensor_allocations_upon_oom
        )
