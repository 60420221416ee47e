# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""ChiefLease: workers elect another chief when the current one fails. An extension of TensorFlow's API."""

from __future__ import annotations

import threading
import time
from typing import Any

from millrace.python.client import session as session_lib
from millrace.python.framework import dtypes
from millrace.python.framework import errors
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import gen_resource_variable_ops
from millrace.python.platform import tf_logging as logging
from millrace.python.training import session_run_hook
from millrace.python.training._monitored_creators import ChiefSessionCreator
from millrace.python.training._monitored_creators import SessionCreator
from millrace.python.training._monitored_creators import WorkerSessionCreator
from millrace.python.training._save_guard import SaveGuard

_NOBODY = -1
_LOOK_SECS = 0.1
_LONGEST_PAUSE_SECS = 1.0


class ChiefLease:
    """Decides whether this worker is the chief; an argument `is_chief` of MonitoredTrainingSession.

    The chief renews a lease, a variable at a parameter server. After `lease_secs` without a renewal the next
    worker takes it; each higher task waits half a lease longer. A former chief that comes back is an ordinary
    worker. The lease is that of the C++ API (millrace/replicas.h), so workers of both may share one.
    """

    def __init__(
        self,
        master: str,
        task: int,
        config: Any = None,
        device: str = "/job:ps/task:0",
        lease_secs: float = 5.0,
    ) -> None:
        """Starts the thread that takes and renews the lease.

        Args:
          master: target of the worker's sessions.
          task: the worker's number, which decides the order of succession.
          config: ConfigProto, for example with device_filters.
          device: the device of the variable that holds the lease.
          lease_secs: seconds without a renewal after which it is free.

        Raises:
          ValueError: `lease_secs` is not positive or `task` is negative.
        """
        if not lease_secs > 0 or task < 0:
            raise ValueError("There is no lease of %s s for worker %s" % (lease_secs, task))
        self._master, self._task, self._config, self._lease_secs = master, task, config, lease_secs
        self._graph = ops.Graph()
        with self._graph.as_default(), ops.device(device):
            handle = gen_resource_variable_ops.var_handle_op(
                dtype=dtypes.int64, shape=[2], shared_name="millrace_chief_lease"
            )
            self._written = array_ops.placeholder(dtypes.int64, [2])
            self._write = gen_resource_variable_ops.assign_variable_op(handle, self._written)
            self._value = gen_resource_variable_ops.read_variable_op(handle, dtype=dtypes.int64)
        self._session: Any = None
        self._last: tuple[int, int] | None = None
        self._last_change = 0.0
        self._had_owner = False
        self._was_chief = False
        self._is_chief = False
        self._renewed = -float("inf")
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="ChiefLease", daemon=True)
        self._thread.start()

    def is_chief(self) -> bool:
        """Whether this worker has the lease; not while its parameter server is out of reach for too long."""
        return self._is_chief and time.monotonic() - self._renewed < self._lease_secs

    def __bool__(self) -> bool:
        return self.is_chief()

    def close(self) -> None:
        """Gives up the lease: it is free after `lease_secs`."""
        self._ending.set()
        self._thread.join()

    def _loop(self) -> None:
        while not self._ending.is_set():
            try:
                self._look()
            except errors.OpError as e:
                logging.info("The chief's lease cannot be reached: %s", e)
                self._drop_session()
            self._ending.wait(0.2 * self._lease_secs)
        self._is_chief = False
        self._drop_session()

    def _drop_session(self) -> None:
        if self._session is not None:
            try:
                self._session.close()
            except errors.OpError as e:
                logging.vlog(1, "Ignored exception: %s", str(e))
        self._session = None

    def _look(self) -> None:
        """Renews the lease, or claims a free one. A claim is valid if the next read still finds it."""
        if self._session is None:
            self._session = session_lib.Session(self._master, graph=self._graph, config=self._config)
        now = time.monotonic()
        seen = self._read()
        if seen != self._last:
            self._last, self._last_change = seen, now
        mine = seen[0] == self._task
        if mine != self._is_chief:
            logging.info("Worker %d is %s", self._task, "the chief" if mine else "not the chief any more")
        self._is_chief = mine
        if seen[0] != _NOBODY:
            self._had_owner, self._was_chief = True, mine
        if not mine and now - self._last_change < self._patience(seen[0]):
            return
        self._session.run(self._write, {self._written: [self._task, seen[1] + 1]})
        self._renewed = now

    def _patience(self, owner: int) -> float:
        place = 0.5 * self._task
        if owner != _NOBODY:
            return self._lease_secs * (1 + place)
        # The parameter server was restarted: the chief claims its lease again immediately.
        if self._was_chief:
            return 0.0
        return self._lease_secs * (0.5 + place if self._had_owner else place)

    def _read(self) -> tuple[int, int]:
        try:
            owner, renewals = self._session.run(self._value)
        except (errors.FailedPreconditionError, errors.NotFoundError):
            return _NOBODY, 0
        return int(owner), int(renewals)


class LeasedSessionCreator(SessionCreator):
    """Makes sessions of a worker that is the chief while it holds its lease."""

    def __init__(
        self,
        lease: ChiefLease,
        scaffold: Any,
        master: str,
        config: Any,
        checkpoint_dir: str | None,
        max_wait_secs: float,
    ) -> None:
        """Makes the session creator. Arguments: as in ChiefSessionCreator and WorkerSessionCreator."""
        self.lease = lease
        self.is_chief = False  # the role in the session that was made last
        self._max_wait_secs = max_wait_secs
        self.save_guard = SaveGuard(checkpoint_dir) if checkpoint_dir else None
        self._chief = ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
        self._one_look = WorkerSessionCreator(scaffold, master, config, max_wait_secs=0)

    def create_session(self) -> Any:
        """As chief keeps existing variables or restores a checkpoint; as other worker waits for it."""
        deadline = time.monotonic() + self._max_wait_secs
        while True:
            self.is_chief = self.lease.is_chief()
            if self.is_chief and self.save_guard is not None:
                self.save_guard.take()
            try:
                return self._one_look.create_session()
            except errors.DeadlineExceededError:
                if self.is_chief:
                    return self._chief.create_session()
                if time.monotonic() > deadline:
                    raise
            time.sleep(_LONGEST_PAUSE_SECS)


class RoleHook(session_run_hook.SessionRunHook):
    """Ends the session when the role has changed, with an error that makes a new one."""

    def __init__(self, creator: LeasedSessionCreator) -> None:
        self._creator = creator

    def _changed(self) -> errors.AbortedError | None:
        was_chief = self._creator.is_chief
        if self._creator.lease.is_chief() == was_chief:
            return None
        return errors.AbortedError(
            None, None, "This worker is %s" % ("not the chief any more" if was_chief else "the chief now")
        )

    def after_create_session(self, session: Any, coord: Any) -> None:
        thread = threading.Thread(target=self._watch, args=(session, coord), name="ChiefLease-role")
        thread.daemon = True
        coord.register_thread(thread)
        thread.start()

    def _watch(self, session: Any, coord: Any) -> None:
        while not coord.wait_for_stop(_LOOK_SECS):
            changed = self._changed()
            if changed is None:
                continue
            coord.request_stop(changed)
            # A running or coming step may wait for the failed chief.
            for _ in range(10):
                session._cancel_steps()
                time.sleep(0.01)

    def before_run(self, run_context: Any) -> None:
        changed = self._changed()
        if changed is not None:
            raise changed


class ChiefHook(session_run_hook.SessionRunHook):
    """Calls another hook while this worker is the chief."""

    def __init__(self, hook: Any, creator: LeasedSessionCreator) -> None:
        self._hook = hook
        self._creator = creator

    def begin(self) -> None:
        self._hook.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        if self._creator.is_chief:
            self._hook.after_create_session(session, coord)

    def before_run(self, run_context: Any) -> Any:
        return self._hook.before_run(run_context) if self._creator.is_chief else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._creator.is_chief:
            self._hook.after_run(run_context, run_values)

    def end(self, session: Any) -> None:
        if self._creator.is_chief:
            self._hook.end(session)
