# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Default graphs and sessions of threads."""
from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Any, Iterator

from millrace.python import _engine
from millrace.python.framework._graph import Graph


class _DefaultStack(threading.local):
    """A stack of objects of a thread, the last of which is the default."""

    def __init__(self) -> None:
        super().__init__()
        self._enforce_nesting = True
        self.stack: list[Any] = []

    def get_default(self) -> Any:
        return self.stack[-1] if self.stack else None

    def reset(self) -> None:
        self.stack = []

    def is_cleared(self) -> bool:
        return not self.stack

    @property
    def enforce_nesting(self) -> bool:
        return self._enforce_nesting

    @enforce_nesting.setter
    def enforce_nesting(self, value: bool) -> None:
        self._enforce_nesting = value

    @contextmanager
    def get_controller(self, default: Any) -> Iterator[Any]:
        self.stack.append(default)
        try:
            yield default
        finally:
            if self.stack:
                if self._enforce_nesting:
                    if self.stack[-1] is not default:
                        raise AssertionError(
                            "Nesting violated for default stack of %s objects" % type(default)
                        )
                    self.stack.pop()
                else:
                    self.stack.remove(default)


class _DefaultGraphStack(_DefaultStack):
    """The default graphs of a thread, above one that all threads share."""

    _global: list[Any] = [None]

    def get_default(self) -> Graph:
        return self.stack[-1] if self.stack else self._global_default_graph

    @property
    def _global_default_graph(self) -> Graph:
        graph = self._global[0]
        if graph is None:
            graph = self._global[0] = Graph()
        return graph

    def _GetGlobalDefaultGraph(self) -> Graph:
        return self._global_default_graph

    def reset(self) -> None:
        super().reset()
        self._global[0] = None

    @contextmanager
    def get_controller(self, default: Any) -> Iterator[Any]:
        stack = self.stack
        stack.append(default)
        was_eager = _engine.set_eager(False)
        try:
            yield default
        finally:
            _engine.set_eager(was_eager)
            if stack is self.stack and stack:
                if stack[-1] is not default:
                    raise AssertionError("Nesting violated for default stack of %s objects" % type(default))
                stack.pop()


executing_eagerly = _engine.executing_eagerly
_default_session_stack = _DefaultStack()
_default_graph_stack = _DefaultGraphStack()


def default_session(session: Any) -> Any:
    """A context in which `session` is the default session."""
    return _default_session_stack.get_controller(session)


def get_default_session() -> Any:
    """The default session of this thread, or None."""
    return _default_session_stack.get_default()


def get_default_graph() -> Graph:
    """The graph that operations are added to."""
    stack = _default_graph_stack.stack
    return stack[-1] if stack else _default_graph_stack._global_default_graph


def has_default_graph() -> bool:
    return bool(_default_graph_stack.stack)


def reset_default_graph() -> None:
    """Makes a new graph the default; not within `graph.as_default()` or a session's context."""
    if not _default_graph_stack.is_cleared():
        raise AssertionError(
            "Do not use tf.reset_default_graph() to clear nested graphs. If you need a cleared graph, exit the nesting "
            "and create a new graph."
        )
    _default_graph_stack.reset()


def _use_default_session(graph: Graph, session: Any, what: str, method: str) -> Any:
    if session is None:
        session = get_default_session()
        if session is None:
            raise ValueError(
                "Cannot %s: No default session is registered. Use `with sess.as_default()%s or pass an explicit session to "
                "`%s(session=sess)`" % (what, "`" if method == "eval" else ":`", method)
            )
        if session.graph is not graph:
            raise ValueError(
                "Cannot use the default session to %s: the %s graph is different from the session's graph. Pass an "
                "explicit session to `%s(session=sess)`."
                % (
                    ("evaluate tensor", "tensor's", "eval")
                    if method == "eval"
                    else ("execute operation", "operation's", "run")
                )
            )
    elif session.graph is not graph:
        raise ValueError(
            "Cannot use the given session to %s: the %s graph is different from the session's graph."
            % (("evaluate tensor", "tensor's") if method == "eval" else ("execute operation", "operation's"))
        )
    return session


def _eval_using_default_session(tensors: Any, feed_dict: Any, graph: Graph, session: Any = None) -> Any:
    return _use_default_session(graph, session, "evaluate tensor using `eval()`", "eval").run(
        tensors, feed_dict
    )


def _run_using_default_session(operation: Any, feed_dict: Any, graph: Graph, session: Any = None) -> None:
    _use_default_session(graph, session, "execute operation using `run()`", "run").run(operation, feed_dict)


# --- Graphs of inputs
