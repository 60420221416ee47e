# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Hooks of monitored sessions, their arguments and requests."""

from __future__ import annotations

import collections
from typing import Any


class SessionRunHook:
    """Base of hooks, whose methods a monitored session calls at the points of its life that they name."""

    def begin(self) -> None:
        """Before the session is made: ops may still be added to the graph."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """After a session was made, the first time and after each recovery. The graph is final."""

    def before_run(self, run_context: Any) -> Any:
        """Before each run: may return SessionRunArgs with more to fetch and feed, or None."""
        return None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Called after each successful run, with the SessionRunValues of the requested fetches."""

    def end(self, session: Any) -> None:
        """At the end, unless an error ends the session."""


class SessionRunArgs(
    collections.namedtuple("SessionRunArgs", ["fetches", "feed_dict", "options"])  # type: ignore[misc]
):
    """Additions to a run: fetches of any structure, a feed_dict, RunOptions."""

    def __new__(cls, fetches: Any, feed_dict: Any = None, options: Any = None) -> Any:
        return super().__new__(cls, fetches, feed_dict, options)


class SessionRunContext:
    """A run as hooks see it: its original arguments, its session, and a way to stop."""

    def __init__(self, original_args: Any, session: Any) -> None:
        self._original_args = original_args
        self._session = session
        self._stop_requested = False

    @property
    def original_args(self) -> Any:
        """SessionRunArgs of the caller."""
        return self._original_args

    @property
    def session(self) -> Any:
        """The session, whose `run` calls no hooks."""
        return self._session

    @property
    def stop_requested(self) -> bool:
        return self._stop_requested

    def request_stop(self) -> None:
        """Makes `should_stop()` of the monitored session true after this run."""
        self._stop_requested = True


class SessionRunValues(
    collections.namedtuple("SessionRunValues", ["results", "options", "run_metadata"])  # type: ignore[misc]
):
    """The results of a run: the values of the hook's fetches, the RunOptions and the RunMetadata."""
