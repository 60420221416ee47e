# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""QueueRunner: one thread per enqueue op, which fills a queue until its input ends."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from millrace.python.client import session
from millrace.python.framework import errors
from millrace.python.framework import ops
from millrace.python.platform import tf_logging as logging

_DEFAULT_CLOSED_TYPES = (errors.OutOfRangeError,)


class QueueRunner:
    """Holds the enqueue ops of one queue, and makes threads that run them.

    When an enqueue op fails with one of the types that mean the end of input, its thread ends, and the last one
    closes the queue. When the coordinator stops, the queue is cancelled so that threads that wait end.
    """

    def __init__(
        self,
        queue: Any = None,
        enqueue_ops: Any = None,
        close_op: Any = None,
        cancel_op: Any = None,
        queue_closed_exception_types: Any = None,
        queue_runner_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        """Makes the queue runner.

        Args:
          queue: a QueueBase.
          enqueue_ops: list of ops, each of which is run in a thread of its own.
          close_op, cancel_op: ops that close the queue, without and with cancellation of pending enqueues;
            made if None.
          queue_closed_exception_types: tuple of error classes that mean the end of input, (OutOfRangeError,)
            if None.
          queue_runner_def: a QueueRunnerDef that replaces the arguments above.
          import_scope: prefix of the names in it.

        Raises:
          ValueError: if both or neither of queue and queue_runner_def are given.
          TypeError: if `queue_closed_exception_types` is not a tuple of error classes.
        """
        if queue_runner_def:
            if queue or enqueue_ops:
                raise ValueError("queue_runner_def and queue are mutually exclusive.")
            self._init_from_proto(queue_runner_def, import_scope=import_scope)
        else:
            self._init_from_args(
                queue=queue,
                enqueue_ops=enqueue_ops,
                close_op=close_op,
                cancel_op=cancel_op,
                queue_closed_exception_types=queue_closed_exception_types,
            )
        self._lock = threading.Lock()
        # Session -> number of enqueue threads that run in it.
        self._runs_per_session: Any = weakref.WeakKeyDictionary()
        self._exceptions_raised: list[BaseException] = []

    def _init_from_args(
        self, queue: Any, enqueue_ops: Any, close_op: Any, cancel_op: Any, queue_closed_exception_types: Any
    ) -> None:
        if not queue or not enqueue_ops:
            raise ValueError("Must provide queue and enqueue_ops.")
        if (close_op is None or cancel_op is None) and not hasattr(queue, "close"):
            raise TypeError("queue must be a Queue, got: %r" % (queue,))
        self._queue = queue
        self._enqueue_ops = enqueue_ops
        self._close_op = close_op
        self._cancel_op = cancel_op
        types = queue_closed_exception_types
        if types is not None:
            if (
                not isinstance(types, tuple)
                or not types
                or not all(isinstance(t, type) and issubclass(t, errors.OpError) for t in types)
            ):
                raise TypeError(
                    "queue_closed_exception_types, when provided, "
                    "must be a tuple of tf.error types, but saw: %s" % (types,)
                )
        self._queue_closed_exception_types = types
        if self._close_op is None:
            self._close_op = self._queue.close()
        if self._cancel_op is None:
            self._cancel_op = self._queue.close(cancel_pending_enqueues=True)
        if not self._queue_closed_exception_types:
            self._queue_closed_exception_types = _DEFAULT_CLOSED_TYPES
        else:
            self._queue_closed_exception_types = tuple(self._queue_closed_exception_types)

    def _init_from_proto(self, queue_runner_def: Any, import_scope: str | None = None) -> None:
        from millrace.core.protobuf import queue_runner_pb2

        assert isinstance(queue_runner_def, queue_runner_pb2.QueueRunnerDef)
        graph = ops.get_default_graph()

        def element(name: str) -> Any:
            return graph.as_graph_element(ops.prepend_name_scope(name, import_scope))

        self._queue = element(queue_runner_def.queue_name)
        self._enqueue_ops = [element(name) for name in queue_runner_def.enqueue_op_name]
        self._close_op = element(queue_runner_def.close_op_name)
        self._cancel_op = element(queue_runner_def.cancel_op_name)
        self._queue_closed_exception_types = tuple(
            errors.exception_type_from_error_code(code)
            for code in queue_runner_def.queue_closed_exception_types
        )
        if not self._queue_closed_exception_types:
            # Messages of old versions lack the exception types.
            self._queue_closed_exception_types = _DEFAULT_CLOSED_TYPES

    @property
    def queue(self) -> Any:
        return self._queue

    @property
    def enqueue_ops(self) -> Any:
        return self._enqueue_ops

    @property
    def close_op(self) -> Any:
        return self._close_op

    @property
    def cancel_op(self) -> Any:
        return self._cancel_op

    @property
    def queue_closed_exception_types(self) -> Any:
        return self._queue_closed_exception_types

    @property
    def exceptions_raised(self) -> list[BaseException]:
        """Errors of threads that had no coordinator to report to; cleared when threads are made."""
        return self._exceptions_raised

    @property
    def name(self) -> str:
        """Name of the queue."""
        name: str = self._queue.name
        return name

    def _run(self, sess: Any, enqueue_op: Any, coord: Any = None) -> None:
        """Body of a thread: runs `enqueue_op` until the end of input, a stop or an error."""
        counted = True
        try:
            enqueue_callable = sess.make_callable(enqueue_op)
            while True:
                if coord and coord.should_stop():
                    break
                try:
                    enqueue_callable()
                except self._queue_closed_exception_types:
                    with self._lock:
                        self._runs_per_session[sess] -= 1
                        counted = False
                        if self._runs_per_session[sess] == 0:
                            try:
                                sess.run(self._close_op)
                            except Exception as e:
                                # The session may be closed already, and the queue with it.
                                logging.vlog(1, "Ignored exception: %s", str(e))
                        return
        except Exception as e:
            if coord:
                coord.request_stop(e)
            else:
                logging.error("Exception in QueueRunner: %s", str(e))
                with self._lock:
                    self._exceptions_raised.append(e)
                raise
        finally:
            if counted:
                with self._lock:
                    self._runs_per_session[sess] -= 1

    def _close_on_stop(self, sess: Any, cancel_op: Any, coord: Any) -> None:
        """Body of the thread that cancels the queue once the coordinator stops."""
        coord.wait_for_stop()
        try:
            sess.run(cancel_op)
        except Exception as e:
            logging.vlog(1, "Ignored exception: %s", str(e))

    def create_threads(
        self, sess: Any, coord: Any = None, daemon: bool = False, start: bool = False
    ) -> list[threading.Thread]:
        """Makes the threads that fill the queue in `sess`.

        Args:
          sess: session.
          coord: coordinator to stop with and to report errors to, or None.
          daemon: whether they are daemon threads.
          start: whether to start them; else call `start()` of each.

        Returns:
          The threads; none where those of an earlier call are still running in this session.
        """
        with self._lock:
            if self._runs_per_session.get(sess, 0) > 0:
                return []
            self._runs_per_session[sess] = len(self._enqueue_ops)
            self._exceptions_raised = []
        threads = [
            threading.Thread(
                target=self._run,
                args=(sess, op, coord),
                name="QueueRunnerThread-{}-{}".format(self.name, op.name),
            )
            for op in self._enqueue_ops
        ]
        if coord:
            threads.append(
                threading.Thread(
                    target=self._close_on_stop,
                    args=(sess, self._cancel_op, coord),
                    name="QueueRunnerThread-{}-close_on_stop".format(self.name),
                )
            )
        for thread in threads:
            if coord:
                coord.register_thread(thread)
            if daemon:
                thread.daemon = True
            if start:
                thread.start()
        return threads

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The runner as a QueueRunnerDef, names without `export_scope`; None if the queue is not in that."""
        from millrace.core.protobuf import queue_runner_pb2

        if export_scope is not None and not self.queue.name.startswith(export_scope):
            return None
        result = queue_runner_pb2.QueueRunnerDef()
        result.queue_name = ops.strip_name_scope(self.queue.name, export_scope)
        for enqueue_op in self.enqueue_ops:
            result.enqueue_op_name.append(ops.strip_name_scope(enqueue_op.name, export_scope))
        result.close_op_name = ops.strip_name_scope(self.close_op.name, export_scope)
        result.cancel_op_name = ops.strip_name_scope(self.cancel_op.name, export_scope)
        result.queue_closed_exception_types.extend(
            errors.error_code_from_exception_type(cls) for cls in self._queue_closed_exception_types
        )
        return result

    @staticmethod
    def from_proto(queue_runner_def: Any, import_scope: str | None = None) -> QueueRunner:
        """The runner that a QueueRunnerDef describes, of ops in the default graph."""
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)


def add_queue_runner(qr: QueueRunner, collection: str = ops.GraphKeys.QUEUE_RUNNERS) -> None:
    """Adds a runner to a collection of the graph, from which `start_queue_runners` takes it."""
    ops.add_to_collection(collection, qr)


def start_queue_runners(
    sess: Any = None,
    coord: Any = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = ops.GraphKeys.QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Starts the threads of all queue runners of the session's graph.

    Args:
      sess: session; the default session if None.
      coord: coordinator of the threads, or None.
      daemon, start: as in `QueueRunner.create_threads`.
      collection: where the runners are.

    Returns:
      The threads.

    Raises:
      ValueError: if there is no default session.
      TypeError: if `sess` is not a session.
    """
    if sess is None:
        sess = ops.get_default_session()
        if not sess:
            raise ValueError(
                "Cannot start queue runners: No default session is registered. Use `with sess.as_default()`"
                " or pass an explicit session to tf.start_queue_runners(sess=sess)"
            )
    if not isinstance(sess, session.SessionInterface):
        # Monitored sessions start them by themselves.
        if sess.__class__.__name__ in ["MonitoredSession", "SingularMonitoredSession"]:
            return []
        raise TypeError("sess must be a `tf.Session` object. Given class: {}".format(sess.__class__))
    queue_runners = ops.get_collection(collection)
    if not queue_runners:
        logging.warning(
            "`tf.train.start_queue_runners()` was called when no queue runners were defined. You can safely"
            " remove the call to this deprecated function."
        )
    threads = []
    with sess.graph.as_default():
        for runner in ops.get_collection(collection):
            threads.extend(runner.create_threads(sess, coord=coord, daemon=daemon, start=start))
    return threads


def _to_proto(queue_runner: QueueRunner, export_scope: str | None = None) -> Any:
    return queue_runner.to_proto(export_scope=export_scope)


def _from_proto(queue_runner_def: Any, import_scope: str | None = None) -> QueueRunner:
    return QueueRunner.from_proto(queue_runner_def, import_scope=import_scope)


def _queue_runner_def() -> Any:
    from millrace.core.protobuf import queue_runner_pb2

    return queue_runner_pb2.QueueRunnerDef


ops.register_proto_function(
    ops.GraphKeys.QUEUE_RUNNERS, proto_type=_queue_runner_def, to_proto=_to_proto, from_proto=_from_proto
)
