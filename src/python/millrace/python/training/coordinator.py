# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Coordinator: any of several threads can request all to stop; `join` raises their first error."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Any, Callable, Iterator

from millrace.python.framework import errors
from millrace.python.platform import tf_logging as logging
from millrace.python.util import compat


def _reraise(exc_info: tuple[Any, Any, Any]) -> None:
    raise exc_info[1].with_traceback(exc_info[2])


class Coordinator:
    """Coordinates the end of a set of threads.

    Threads poll `should_stop()` and end when it is true; any thread calls `request_stop()`, with an exception
    if there was one; the main thread calls `join(threads)`, which waits and raises the first exception
    reported. All methods may be called from any thread.
    """

    def __init__(self, clean_stop_exception_types: Any = None) -> None:
        """Makes the coordinator.

        Args:
          clean_stop_exception_types: tuple of exception types that mean a normal end and are not raised by
            `join`; by default OutOfRangeError, the end of input.
        """
        if clean_stop_exception_types is None:
            clean_stop_exception_types = (errors.OutOfRangeError,)
        self._clean_stop_exception_types = tuple(clean_stop_exception_types)
        self._lock = threading.Lock()
        self._stop_event = threading.Event()
        self._exc_info_to_raise: Any = None
        self._joined = False
        self._registered_threads: set[threading.Thread] = set()

    def _filter_exception(self, ex: Any) -> Any:
        """None where `ex`, an exception or an exc_info triple, means a normal end."""
        exception = ex[1] if isinstance(ex, tuple) else ex
        return None if isinstance(exception, self._clean_stop_exception_types) else ex

    def request_stop(self, ex: Any = None) -> None:
        """Asks all threads to stop; afterwards `should_stop()` is true.

        Args:
          ex: exception, or triple of `sys.exc_info()`, for `join` to raise. Only the first one is kept.

        Raises:
          ex itself after `join` has returned, since it would be lost otherwise.
        """
        with self._lock:
            ex = self._filter_exception(ex)
            if self._joined:
                if isinstance(ex, tuple):
                    _reraise(ex)  # type: ignore[arg-type]
                elif ex is not None:
                    raise ex
            if self._stop_event.is_set():
                return
            if ex and self._exc_info_to_raise is None:
                exception = ex[1] if isinstance(ex, tuple) else ex
                logging.info(
                    "Error reported to Coordinator: %s, %s", type(exception), compat.as_str_any(exception)
                )
                self._exc_info_to_raise = ex if isinstance(ex, tuple) else sys.exc_info()
                if (
                    len(self._exc_info_to_raise) != 3
                    or not self._exc_info_to_raise[0]
                    or not self._exc_info_to_raise[1]
                ):
                    if not isinstance(ex, BaseException):
                        raise ValueError(
                            "ex must be a tuple or sys.exc_info must return the current exception: %s"
                            % self._exc_info_to_raise
                        )
                    # Reported outside of an exception handler: only the exception's own traceback is known.
                    self._exc_info_to_raise = (type(ex), ex, ex.__traceback__)
            self._stop_event.set()

    def clear_stop(self) -> None:
        """Withdraws the request to stop, so that the coordinator can be used again."""
        with self._lock:
            self._joined = False
            self._exc_info_to_raise = None
            if self._stop_event.is_set():
                self._stop_event.clear()

    def should_stop(self) -> bool:
        """Whether a stop was requested."""
        return self._stop_event.is_set()

    @contextlib.contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Context that turns an exception of its body into `request_stop`."""
        try:
            yield
        except Exception:
            self.request_stop(ex=sys.exc_info())

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Waits until a stop is requested, at most `timeout` seconds; returns whether it was."""
        return self._stop_event.wait(timeout)

    def register_thread(self, thread: threading.Thread) -> None:
        """Adds a thread that `join` is to wait for."""
        with self._lock:
            self._registered_threads.add(thread)

    def join(
        self, threads: Any = None, stop_grace_period_secs: float = 120, ignore_live_threads: bool = False
    ) -> None:
        """Waits until all threads have ended.

        Args:
          threads: threads to wait for in addition to the registered ones.
          stop_grace_period_secs: time that threads have to end after a stop was requested.
          ignore_live_threads: do not raise when threads are still alive after that.

        Raises:
          RuntimeError: if threads are alive after the grace period and `ignore_live_threads` is false.
          The exception that was given to `request_stop`, if any.
        """
        with self._lock:
            to_join = list(self._registered_threads.union(set(threads or ())))
        self._wait_for_end_or_stop(to_join)
        deadline = time.monotonic() + stop_grace_period_secs
        for thread in to_join:
            while thread.is_alive() and time.monotonic() < deadline:
                thread.join(min(0.1, max(0.0, deadline - time.monotonic())))
        stragglers = [thread.name for thread in to_join if thread.is_alive()]
        if stragglers:
            message = "Coordinator stopped with threads still running: %s" % " ".join(stragglers)
            if ignore_live_threads:
                logging.info("%s", message)
            else:
                # An error of a thread is more useful than the fact that others did not end.
                if self._exc_info_to_raise:
                    logging.info("%s", message)
                else:
                    raise RuntimeError(message)
        with self._lock:
            self._joined = True
            self._registered_threads = set()
            exc_info = self._exc_info_to_raise
        if exc_info:
            _reraise(exc_info)

    def _wait_for_end_or_stop(self, threads: list[threading.Thread]) -> None:
        for thread in threads:
            while thread.is_alive() and not self.should_stop():
                # Neither the stop nor the end of a thread signals the other: poll both.
                thread.join(0.01)

    @property
    def joined(self) -> bool:
        """Whether `join` has returned."""
        return self._joined

    def raise_requested_exception(self) -> None:
        """Raises the exception given to `request_stop`, if there was one."""
        with self._lock:
            exc_info = self._exc_info_to_raise
        if exc_info:
            _reraise(exc_info)


class LooperThread(threading.Thread):
    """A thread that calls a function repeatedly until its coordinator, with which it registers, stops."""

    def __init__(
        self,
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any] | None = None,
        args: Any = None,
        kwargs: Any = None,
    ) -> None:
        """Makes the thread; `start` starts it.

        Args:
          coord: coordinator.
          timer_interval_secs: seconds between starts of calls; None: no pause.
          target, args, kwargs: function and arguments of the call; without a target `run_loop` of a subclass
            is called.

        Raises:
          ValueError: if `coord` is no Coordinator, or there are arguments without a target.
        """
        if not isinstance(coord, Coordinator):
            raise ValueError("'coord' argument must be a Coordinator: %s" % coord)
        super().__init__()
        self.daemon = True
        self._coord = coord
        self._timer_interval_secs = timer_interval_secs
        self._target_function = target
        if self._target_function:
            self._call_args = args or ()
            self._call_kwargs = kwargs or {}
        elif args or kwargs:
            raise ValueError("'args' and 'kwargs' argument require that you also pass 'target'")
        self._coord.register_thread(self)

    def isAlive(self) -> bool:
        """Whether the thread runs, under the name that threads had before Python 3.9."""
        return self.is_alive()

    @staticmethod
    def loop(
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Any,
        args: Any = None,
        kwargs: Any = None,
    ) -> LooperThread:
        """Starts a LooperThread that calls `target`, and returns it."""
        looper = LooperThread(coord, timer_interval_secs, target=target, args=args, kwargs=kwargs)
        looper.start()
        return looper

    def run(self) -> None:
        with self._coord.stop_on_exception():
            self.start_loop()
            if self._timer_interval_secs is None:
                while not self._coord.should_stop():
                    self.run_loop()
            else:
                # Calls are timed at multiples of the interval from the start, so that delays do not add up.
                next_time = time.time()
                while not self._coord.wait_for_stop(next_time - time.time()):
                    next_time += self._timer_interval_secs
                    self.run_loop()
            self.stop_loop()

    def start_loop(self) -> None:
        """Called when the thread starts."""

    def stop_loop(self) -> None:
        """Called when the thread stops."""

    def run_loop(self) -> None:
        """Called repeatedly."""
        if self._target_function:
            self._target_function(*self._call_args, **self._call_kwargs)
