# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""MonitoredSession and SingularMonitoredSession."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import errors
from millrace.python.framework import ops
from millrace.python.training import coordinator
from millrace.python.training._monitored_creators import ChiefSessionCreator
from millrace.python.training._monitored_creators import SessionCreator
from millrace.python.training._monitored_creators import start_runners
from millrace.python.training._monitored_wrappers import _CoordinatedSession
from millrace.python.training._monitored_wrappers import _HookedSession
from millrace.python.training._monitored_wrappers import _RecoverableSession
from millrace.python.util import tf_inspect


class StepContext:
    """The argument of `run_step_fn`'s function: the session without hooks, a run with hooks, and a stop."""

    def __init__(self, session: Any, run_with_hooks_fn: Any) -> None:
        self._session = session
        self._run_with_hooks_fn = run_with_hooks_fn

    @property
    def session(self) -> Any:
        return self._session

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        """`run` of the monitored session, with hooks; direct runs of `session` have none."""
        return self._run_with_hooks_fn(*args, **kwargs)

    def request_stop(self) -> None:
        """Ends the loop: raises StopIteration, which the monitored session takes as a normal end."""
        raise StopIteration("step_fn has requested the iterations to stop.")


class _MonitoredSession:
    """Common part of the two: life cycle of hooks, session and coordinator."""

    StepContext = StepContext

    def __init__(
        self,
        session_creator: Any,
        hooks: Any,
        should_recover: bool,
        stop_grace_period_secs: float = 120,
    ) -> None:
        self._graph_was_finalized = ops.get_default_graph().finalized
        self._hooks = hooks or []
        for h in self._hooks:
            h.begin()
        self._coordinated_creator = self._CoordinatedSessionCreator(
            session_creator=session_creator or ChiefSessionCreator(),
            hooks=self._hooks,
            stop_grace_period_secs=stop_grace_period_secs,
        )
        if should_recover:
            self._sess: Any = _RecoverableSession(self._coordinated_creator)
        else:
            self._sess = self._coordinated_creator.create_session()

    @property
    def graph(self) -> Any:
        """The graph, or None after `close`."""
        if self._tf_sess() is None:
            return None
        return self._tf_sess().graph

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Runs as a Session does, with the hooks. Arguments: as in `Session.run`.

        Raises:
          RuntimeError: after `close`, or when a stop was requested.
        """
        if self._sess is None:
            raise RuntimeError("Session is already closed.")
        return self._sess.run(fetches, feed_dict=feed_dict, options=options, run_metadata=run_metadata)

    def run_step_fn(self, step_fn: Any) -> Any:
        """Calls `step_fn(step_context)`, a function or method, which may run the session without hooks.

        Raises:
          ValueError: if the function takes other arguments.
          StopIteration: if it requests a stop; normal at the end of a with statement.
        """
        arguments = [a for a in tf_inspect.getfullargspec(step_fn).args]
        if arguments not in (["step_context"], ["self", "step_context"]):
            raise ValueError(
                "`step_fn` may either have one `step_context` argument, or `self` and"
                " `step_context` arguments if it's an instance method. Got {} instead.".format(arguments)
            )
        if self._sess is None:
            raise RuntimeError("Session is already closed.")
        # The creator's session is the raw one; wrappers above it are passed as they are needed.
        return self._sess.run_step_fn(step_fn, self._tf_sess(), run_with_hooks=None)

    def should_stop(self) -> bool:
        return self._sess is None or bool(self._sess.should_stop())

    def close(self) -> None:
        self._close_internal()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, exception_type: Any, exception_value: Any, traceback: Any) -> bool:
        if exception_type in [errors.OutOfRangeError, StopIteration]:
            exception_type = None
        self._close_internal(exception_type)
        # True where the exception was the normal end.
        return exception_type is None

    class _CoordinatedSessionCreator(SessionCreator):
        """Wraps the session of another creator in one with hooks and a coordinator."""

        def __init__(self, session_creator: Any, hooks: Any, stop_grace_period_secs: float) -> None:
            self._session_creator = session_creator
            self._hooks = hooks
            self.coord: Any = None
            self.tf_sess: Any = None
            self._stop_grace_period_secs = stop_grace_period_secs

        def create_session(self) -> Any:
            self.tf_sess = self._session_creator.create_session()
            # Threads that start right away must find the session initialised.
            self.coord = coordinator.Coordinator(clean_stop_exception_types=[])
            start_runners(self.tf_sess, self.coord)
            for hook in self._hooks:
                hook.after_create_session(self.tf_sess, self.coord)
            return _CoordinatedSession(
                _HookedSession(self.tf_sess, self._hooks), self.coord, self._stop_grace_period_secs
            )

    def _close_internal(self, exception_type: Any = None) -> None:
        try:
            if not exception_type:
                for h in self._hooks:
                    h.end(self._coordinated_creator.tf_sess)
        finally:
            try:
                if self._sess is None:
                    raise RuntimeError("Session is already closed.")
                self._sess.close()
            finally:
                self._sess = None
                self._coordinated_creator.tf_sess = None
                self._coordinated_creator.coord = None
                # The graph is no longer finalized if it was not before.
                if not self._graph_was_finalized:
                    ops.get_default_graph()._unsafe_unfinalize()

    def _is_closed(self) -> bool:
        return self._coordinated_creator.tf_sess is None

    def _tf_sess(self) -> Any:
        """The session inside all wrappers."""
        return self._coordinated_creator.tf_sess


class MonitoredSession(_MonitoredSession):
    """A session that calls hooks, starts queue runners, and makes a new session when the old one was aborted.

    Use it in a with statement: OutOfRangeError and StopIteration end that in the normal way.
    """

    def __init__(
        self, session_creator: Any = None, hooks: Any = None, stop_grace_period_secs: float = 120
    ) -> None:
        """Makes the session.

        Args:
          session_creator: SessionCreator; ChiefSessionCreator() if None.
          hooks: list of SessionRunHook.
          stop_grace_period_secs: seconds that threads have to end after `close`.
        """
        super().__init__(
            session_creator, hooks, should_recover=True, stop_grace_period_secs=stop_grace_period_secs
        )


class SingularMonitoredSession(_MonitoredSession):
    """MonitoredSession without recovery, whose plain session is available as `raw_session()`."""

    def __init__(
        self,
        hooks: Any = None,
        scaffold: Any = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: str | None = None,
        stop_grace_period_secs: float = 120,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:
        """Makes the session. Arguments: as in ChiefSessionCreator and MonitoredSession."""
        session_creator = ChiefSessionCreator(
            scaffold=scaffold,
            master=master,
            config=config,
            checkpoint_dir=checkpoint_dir,
            checkpoint_filename_with_path=checkpoint_filename_with_path,
        )
        super().__init__(
            session_creator, hooks, should_recover=False, stop_grace_period_secs=stop_grace_period_secs
        )

    def raw_session(self) -> Any:
        """The plain session."""
        return self._tf_sess()
