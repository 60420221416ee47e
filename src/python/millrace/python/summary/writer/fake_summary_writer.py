# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A writer that keeps summaries in memory, for tests."""
from __future__ import annotations

from typing import Any

from millrace.core.framework import summary_pb2
from millrace.python.summary.writer import writer
from millrace.python.summary.writer import writer_cache


class FakeSummaryWriter:
    """Replaces FileWriter between `install` and `uninstall`."""

    _replaced_summary_writer: Any = None

    @classmethod
    def install(cls) -> None:
        """Replaces FileWriter by this class; ValueError if it is replaced already."""
        if cls._replaced_summary_writer:
            raise ValueError("FakeSummaryWriter already installed.")
        cls._replaced_summary_writer = writer.FileWriter
        writer.FileWriter = FakeSummaryWriter  # type: ignore[assignment, misc]
        writer_cache.FileWriter = FakeSummaryWriter  # type: ignore[assignment, misc]

    @classmethod
    def uninstall(cls) -> None:
        """Restores FileWriter; ValueError if it is not replaced."""
        if not cls._replaced_summary_writer:
            raise ValueError("FakeSummaryWriter not installed.")
        writer.FileWriter = cls._replaced_summary_writer  # type: ignore[misc]
        writer_cache.FileWriter = cls._replaced_summary_writer  # type: ignore[misc]
        cls._replaced_summary_writer = None

    def __init__(self, logdir: Any, graph: Any = None) -> None:
        self._logdir = logdir
        self._graph = graph
        self._summaries: dict[Any, list[Any]] = {}
        self._added_graphs: list[Any] = []
        self._added_meta_graphs: list[Any] = []
        self._added_session_logs: list[Any] = []
        self._added_run_metadata: dict[str, Any] = {}

    @property
    def summaries(self) -> dict[Any, list[Any]]:
        """The summaries by steps."""
        return self._summaries

    def assert_summaries(
        self, test_case: Any, expected_logdir: Any = None, expected_graph: Any = None, expected_summaries: Any = None,
        expected_added_graphs: Any = None, expected_added_meta_graphs: Any = None, expected_session_logs: Any = None,
    ) -> None:  # fmt: skip
        """Compares what was written; arguments that are None are not compared.

        Args:
          test_case: has `assertEqual` and the like.
          expected_summaries: by steps, dicts of values by tags.
        """
        for expected, found in (
            (expected_logdir, self._logdir),
            (expected_graph, self._graph),
            (expected_added_graphs, self._added_graphs),
            (expected_added_meta_graphs, self._added_meta_graphs),
            (expected_session_logs, self._added_session_logs),
        ):
            if expected is not None:
                test_case.assertEqual(expected, found)
        for step, values in (expected_summaries or {}).items():
            test_case.assertIn(step, self._summaries)
            written = {v.tag: v for summary in self._summaries[step] for v in summary.value}
            for tag, value in values.items():
                test_case.assertIn(tag, written)
                test_case.assertEqual(value, written[tag].simple_value)

    def add_summary(self, summ: Any, current_global_step: Any) -> None:
        if isinstance(summ, bytes):
            summ = summary_pb2.Summary.FromString(summ)
        self._summaries.setdefault(current_global_step, []).append(summ)

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: Any = None) -> None:
        """Records a graph; steps and GraphDefs are not supported.

        Raises:
          ValueError: one of those is given.
        """
        if global_step is not None and global_step >= 0 or graph_def is not None:
            raise ValueError("Unexpected arguments of add_graph: %s, %s" % (global_step, graph_def))
        self._added_graphs.append(graph)

    def add_meta_graph(self, meta_graph_def: Any, global_step: Any = None) -> None:
        if global_step is not None and global_step >= 0:
            raise ValueError("Unexpected argument of add_meta_graph: %s" % global_step)
        self._added_meta_graphs.append(meta_graph_def)

    def add_session_log(self, session_log: Any, global_step: Any = None) -> None:
        del global_step
        self._added_session_logs.append(session_log)

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        if global_step is not None and global_step >= 0:
            raise ValueError("Unexpected argument of add_run_metadata: %s" % global_step)
        self._added_run_metadata[tag] = run_metadata

    def flush(self) -> None:
        """Nothing is to be written."""

    def reopen(self) -> None:
        """Nothing is closed."""

    def close(self) -> None:
        """Nothing is open."""
