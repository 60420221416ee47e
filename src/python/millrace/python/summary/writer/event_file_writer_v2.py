# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""EventFileWriterV2: events that go through the ops of a summary writer."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import constant_op, dtypes, ops
from millrace.python.lib.io import file_io
from millrace.python.ops import array_ops, summary_ops_v2


class EventFileWriterV2:
    """Writes events by ops that it puts into the graph of its session when it is made."""

    def __init__(
        self,
        session: Any,
        logdir: str,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str | None = "",
    ) -> None:
        self._session = session
        self._logdir = logdir
        self._closed = False
        if not file_io.is_directory(logdir):
            file_io.recursive_create_dir(logdir)
        with self._session.graph.as_default():
            with ops.name_scope("filewriter"):
                writer = summary_ops_v2.create_file_writer(
                    logdir=logdir,
                    max_queue=constant_op.constant(max_queue),
                    flush_millis=constant_op.constant(int(flush_secs * 1000), dtype=dtypes.int32),
                    filename_suffix=filename_suffix,
                )
                with summary_ops_v2.always_record_summaries(), writer.as_default():
                    self._event_placeholder = array_ops.placeholder_with_default(
                        constant_op.constant("unused", dtypes.string), shape=[]
                    )
                    self._add_event_op = summary_ops_v2.import_event(self._event_placeholder)
                self._init_op = writer.init()
                self._flush_op = writer.flush()
                self._close_op = writer.close()
            self._session.run(self._init_op)

    def get_logdir(self) -> str:
        """The folder."""
        return self._logdir

    def reopen(self) -> None:
        """Makes the writer usable again after `close`, with a new file."""
        if self._closed:
            self._closed = False
            self._session.run(self._init_op)

    def add_event(self, event: Any) -> None:
        """Appends an Event; does nothing after `close`."""
        if not self._closed:
            self._session.run(
                self._add_event_op, feed_dict={self._event_placeholder: event.SerializeToString()}
            )

    def flush(self) -> None:
        """Returns when everything added before is in the file."""
        self._session.run(self._flush_op)

    def close(self) -> None:
        """Writes the queued events, and closes the file."""
        if not self._closed:
            self.flush()
            self._session.run(self._close_op)
            self._closed = True
