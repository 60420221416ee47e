# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""EventFileWriter: a thread that appends events to a file which TensorBoard reads."""

from __future__ import annotations

import os
import queue
import socket
import threading
import time
from typing import Any

from millrace.python.lib.io import file_io
from millrace.python.lib.io import tf_record
from millrace.python.platform import tf_logging as logging


class EventsWriter:
    """Writes events to PREFIX.out.tfevents.SECONDS.HOST[SUFFIX][.COUNT]. Not thread-safe."""

    def __init__(self, file_prefix: Any) -> None:
        prefix = file_prefix.decode() if isinstance(file_prefix, bytes) else file_prefix
        # An absolute path, so that a change of the working directory has no effect.
        self._prefix = prefix if "://" in prefix else os.path.abspath(prefix)
        self._suffix = ""
        self._writer: Any = None
        self._path = ""

    def InitWithSuffix(self, suffix: Any) -> None:  # noqa: N802
        self._suffix = suffix.decode() if isinstance(suffix, bytes) else suffix
        self._open()

    def FileName(self) -> bytes:  # noqa: N802
        self._open()
        return self._path.encode()

    def _open(self) -> None:
        from millrace.core.util import event_pb2

        if self._writer is not None and os.path.exists(self._path):
            return
        self.Close()
        now = time.time()
        name = "%s.out.tfevents.%010d.%s%s" % (self._prefix, int(now), socket.gethostname(), self._suffix)
        self._path, count = name, 0
        while os.path.exists(self._path):
            # Another writer started within the same second: use another file name.
            count += 1
            self._path = "%s.%d" % (name, count)
        self._writer = tf_record.TFRecordWriter(self._path)
        self._writer.write(event_pb2.Event(wall_time=now, file_version="brain.Event:2").SerializeToString())
        self._writer.flush()

    def WriteEvent(self, event: Any) -> None:  # noqa: N802
        self._WriteSerializedEvent(event.SerializeToString())

    def _WriteSerializedEvent(self, data: bytes) -> None:  # noqa: N802
        if self._writer is None:
            self._open()
        self._writer.write(data)  # type: ignore[union-attr]

    def Flush(self) -> None:  # noqa: N802
        # A deleted file is created again.
        self._open()
        self._writer.flush()

    def Close(self) -> None:  # noqa: N802
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class EventFileWriter:
    """Accepts events from any thread, and writes them in its own thread."""

    def __init__(
        self, logdir: Any, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str | None = None
    ) -> None:
        """Makes the writer.

        Args:
          logdir: folder, made if missing.
          max_queue: the number of queued events from which on callers wait.
          flush_secs: seconds between flushes of the file.
          filename_suffix: suffix of the file's name.
        """
        self._logdir = os.fspath(logdir)
        if not file_io.is_directory(self._logdir):
            file_io.recursive_create_dir(self._logdir)
        self._event_queue: queue.Queue[Any] = queue.Queue(max_queue)
        self._ev_writer = EventsWriter(os.path.join(self._logdir, "events"))
        self._flush_secs = flush_secs
        self._sentinel_event = object()
        self._flush_event = object()
        self._closed = False
        self._ev_writer.InitWithSuffix(filename_suffix or "")
        self._worker: Any = None
        self._start()

    def _start(self) -> None:
        self._worker = _EventLoggerThread(
            self._event_queue, self._ev_writer, self._flush_secs, self._flush_event, self._sentinel_event
        )
        self._worker.start()

    def get_logdir(self) -> str:
        return self._logdir

    def reopen(self) -> None:
        """Makes the writer usable again after `close`, with a new file."""
        if self._closed:
            self._closed = False
            self._start()

    def add_event(self, event: Any) -> None:
        """Appends an Event; does nothing after `close`."""
        if not self._closed:
            self._event_queue.put(event)

    def flush(self) -> None:
        """Returns when everything added before is in the file."""
        if self._closed or not self._worker.is_alive():
            return
        done = threading.Event()
        self._event_queue.put((self._flush_event, done))
        while not done.wait(0.05):
            if not self._worker.is_alive():
                return

    def close(self) -> None:
        """Writes the queued events, and closes the file."""
        if self._closed:
            return
        self.flush()
        self._event_queue.put(self._sentinel_event)
        self._worker.join()
        self._ev_writer.Close()
        self._closed = True


class _EventLoggerThread(threading.Thread):
    """Writes the events from a queue."""

    def __init__(
        self, event_queue: Any, ev_writer: Any, flush_secs: float, flush_event: Any, sentinel_event: Any
    ) -> None:
        super().__init__(name="EventLoggerThread")
        self.daemon = True
        self._queue = event_queue
        self._ev_writer = ev_writer
        self._flush_secs = flush_secs
        self._flush_event = flush_event
        self._sentinel_event = sentinel_event

    def run(self) -> None:
        next_flush = time.time()
        while True:
            event = self._queue.get()
            if event is self._sentinel_event:
                return
            try:
                if isinstance(event, tuple) and event[0] is self._flush_event:
                    self._ev_writer.Flush()
                    event[1].set()
                    continue
                self._ev_writer.WriteEvent(event)
                if time.time() >= next_flush:
                    self._ev_writer.Flush()
                    next_flush = time.time() + self._flush_secs
            except Exception as e:  # The disk may be full temporarily.
                logging.error("Error writing events: %s", e)
                if isinstance(event, tuple):
                    event[1].set()
