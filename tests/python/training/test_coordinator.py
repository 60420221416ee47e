# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Coordinators and their threads."""

import sys
import threading
import time

import pytest

from millrace.python.framework import errors
from millrace.python.training import coordinator


def started(function):
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def test_a_request_stops_all_threads():
    coord = coordinator.Coordinator()
    threads = [started(lambda: coord.wait_for_stop(30)) for _ in range(3)]
    assert not coord.should_stop()
    coord.request_stop()
    coord.join(threads)
    assert coord.should_stop() and coord.joined and not any(t.is_alive() for t in threads)


def test_join_raises_the_first_error_reported():
    coord = coordinator.Coordinator()

    def fail():
        try:
            raise RuntimeError("first")
        except RuntimeError:
            coord.request_stop(sys.exc_info())

    first = started(fail)
    first.join()
    coord.request_stop(ValueError("second"))
    with pytest.raises(RuntimeError, match="first"):
        coord.join([first])


def test_an_exception_reported_outside_of_a_handler_is_raised():
    coord = coordinator.Coordinator()
    coord.request_stop(ValueError("made here"))
    with pytest.raises(ValueError, match="made here"):
        coord.join()


def test_the_end_of_input_is_no_error():
    coord = coordinator.Coordinator()
    coord.request_stop(errors.OutOfRangeError(None, None, "end"))
    coord.join()
    with pytest.raises(errors.OutOfRangeError):
        other = coordinator.Coordinator(clean_stop_exception_types=())
        other.request_stop(errors.OutOfRangeError(None, None, "end"))
        other.join()


def test_threads_that_do_not_end_are_named():
    coord = coordinator.Coordinator()
    release = threading.Event()
    thread = threading.Thread(target=lambda: release.wait(30), name="stubborn")
    thread.start()
    coord.request_stop()
    with pytest.raises(RuntimeError, match="Coordinator stopped with threads still running: stubborn"):
        coord.join([thread], stop_grace_period_secs=0.05)
    coord.join([thread], stop_grace_period_secs=0.05, ignore_live_threads=True)
    release.set()
    thread.join()


def test_a_stopped_coordinator_can_be_used_again():
    coord = coordinator.Coordinator()
    coord.request_stop(ValueError("x"))
    coord.clear_stop()
    assert not coord.should_stop()
    coord.join()


def test_loopers_run_until_the_stop_and_report_errors():
    coord = coordinator.Coordinator()
    calls = []

    def count():
        calls.append(time.time())
        if len(calls) == 3:
            raise RuntimeError("third call")

    looper = coordinator.LooperThread.loop(coord, 0.001, count)
    with pytest.raises(RuntimeError, match="third call"):
        coord.join([looper])
    assert len(calls) == 3


def test_loopers_want_a_coordinator():
    with pytest.raises(ValueError, match="'coord' argument must be a Coordinator"):
        coordinator.LooperThread("no", 1.0)
