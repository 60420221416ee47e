# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Says that nothing is executed eagerly."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

GRAPH_MODE = 0
EAGER_MODE = 1
DEVICE_PLACEMENT_EXPLICIT = 0
DEVICE_PLACEMENT_WARN = 1
DEVICE_PLACEMENT_SILENT = 2
DEVICE_PLACEMENT_SILENT_FOR_INT32 = 3
SYNC = 0
ASYNC = 1


def executing_eagerly() -> bool:
    """False: operations are added to graphs."""
    return False


def in_eager_mode() -> bool:
    return False


def in_graph_mode() -> bool:
    return True


@contextmanager
def graph_mode() -> Iterator[None]:
    """Does nothing."""
    yield


def eager_mode() -> Any:
    """Not there.

    Raises:
      NotImplementedError: always.
    """
    raise NotImplementedError("Eager execution is not there: build a graph and run it in a Session")


class _Context:
    """The context of programs that ask for one."""

    summary_writer = None
    summary_recording = None
    summary_recording_distribution_strategy = True
    summary_step = None
    config = None

    def executing_eagerly(self) -> bool:
        return False

    def num_gpus(self) -> int:
        return 0

    def ensure_initialized(self) -> None:
        """Nothing is left to do."""


_context = _Context()


def context() -> _Context:
    return _context


def context_safe() -> _Context:
    return _context


def ensure_initialized() -> None:
    """Nothing is left to do."""


def shared_name(name: Any = None) -> Any:
    """The name that resources are shared under."""
    return name


def num_gpus() -> int:
    return 0


def add_function(fdef: Any) -> None:
    raise NotImplementedError("Functions belong to graphs")


@contextmanager
def function_executor_type(executor_type: Any) -> Iterator[None]:
    """A context whose calls of functions ask for an executor; the engine has one."""
    yield
