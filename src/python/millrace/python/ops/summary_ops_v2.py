# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Summaries that ops write themselves, as tf.contrib.summary does, instead of giving them to a FileWriter.

The ops call Python (py_func), so a graph with them runs in the process that made it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import gen_logging_ops
from millrace.python.ops import math_ops
from millrace.python.ops import script_ops
from millrace.python.training import training_util

_SUMMARY_WRITER_INIT_COLLECTION_NAME = "_SUMMARY_WRITER_V2"
_SUMMARY_COLLECTION = "_SUMMARY_V2"


class _State(threading.local):
    writer: Any = None
    should_record: Any = False


_state = _State()


def should_record_summaries() -> Any:
    """Whether summaries are recorded here: a bool or a bool tensor."""
    return _state.should_record() if callable(_state.should_record) else _state.should_record


@contextlib.contextmanager
def _recording(condition: Any) -> Iterator[None]:
    previous, _state.should_record = _state.should_record, condition
    try:
        yield
    finally:
        _state.should_record = previous


def record_summaries_every_n_global_steps(n: int, global_step: Any = None) -> Any:
    """A context in which summaries are recorded when the global step is a multiple of `n`."""
    if global_step is None:
        global_step = training_util.get_or_create_global_step()
    with ops.device("cpu:0"):
        return _recording(lambda: math_ops.equal(global_step % n, 0))


def always_record_summaries() -> Any:
    """A context in which all summaries are recorded."""
    return _recording(True)


def never_record_summaries() -> Any:
    """A context in which no summary is recorded."""
    return _recording(False)


class ResourceSummaryWriter:
    """A writer for summary ops; it opens its file when the op `init()` runs for the first time."""

    def __init__(self, logdir: str, max_queue: int, flush_millis: int, filename_suffix: str) -> None:
        self._arguments = (logdir, max_queue, flush_millis / 1000.0, filename_suffix)
        self._lock = threading.Lock()
        self._file: Any = None
        self._init_op: Any = None

    def set_as_default(self) -> None:
        """Makes this the writer of summaries from here on in this thread."""
        _state.writer = self

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Any]:
        """A context in which this is the writer of summaries."""
        previous, _state.writer = _state.writer, self
        try:
            yield self
        finally:
            _state.writer = previous

    def _open(self) -> None:
        from millrace.python.summary.writer import event_file_writer

        with self._lock:
            if self._file is None:
                logdir, max_queue, flush_secs, suffix = self._arguments
                self._file = event_file_writer.EventFileWriter(logdir, max_queue, flush_secs, suffix)

    def _add(self, event: Any) -> None:
        self._open()
        self._file.add_event(event)

    def _call(self, function: Any, name: str) -> Any:
        def call() -> np.bool_:
            function()
            return np.bool_(True)

        if ops.executing_eagerly():
            function()
            return None
        return script_ops.py_func(call, [], dtypes.bool, stateful=True, name=name).op

    def init(self) -> Any:
        """The op that opens the file."""
        if self._init_op is None:
            self._init_op = self._call(self._open, "create_file_writer")
        return self._init_op

    def flush(self) -> Any:
        """An op that writes to the disk what was recorded."""

        def write() -> None:
            if self._file is not None:
                self._file.flush()

        return self._call(write, "flush")

    def close(self) -> Any:
        """An op that closes the file; later summaries open a new one."""

        def end() -> None:
            with self._lock:
                if self._file is not None:
                    self._file.close()
                    self._file = None

        return self._call(end, "close")


SummaryWriter = ResourceSummaryWriter


def create_file_writer(
    logdir: Any,
    max_queue: Any = None,
    flush_millis: Any = None,
    filename_suffix: Any = None,
    name: Any = None,
) -> ResourceSummaryWriter:
    """A writer of events files in the folder `logdir`.

    Args:
      max_queue: events that wait in memory, 10 by default.
      flush_millis: longest time between writes, 2 minutes by default.
      filename_suffix: of the files' names, ".v2" by default.
      name: accepted.
    """
    del name
    writer = ResourceSummaryWriter(
        str(logdir),
        10 if max_queue is None else int(max_queue),
        2 * 60 * 1000 if flush_millis is None else int(flush_millis),
        ".v2" if filename_suffix is None else str(filename_suffix),
    )
    if ops.executing_eagerly():
        writer.init()
    else:
        ops.add_to_collection(_SUMMARY_WRITER_INIT_COLLECTION_NAME, writer.init())
    return writer


create_summary_file_writer = create_file_writer


def create_db_writer(*args: Any, **kwargs: Any) -> Any:
    """Raises NotImplementedError: there are no databases of summaries."""
    raise NotImplementedError("There are no databases of summaries: use create_file_writer")


def summary_writer_initializer_op() -> Any:
    """The ops that open the files of all writers of the graph."""
    return ops.get_collection(_SUMMARY_WRITER_INIT_COLLECTION_NAME)


def initialize(graph: Any = None, session: Any = None) -> None:
    """Opens the files of all writers of the default graph, and writes a graph if one is given.

    Raises:
      RuntimeError: if there is no default writer.
      ValueError: if there is no session.
    """
    if _state.writer is None:
        raise RuntimeError("No default tf.contrib.summary.SummaryWriter found")
    if ops.executing_eagerly():
        return
    if session is None:
        session = ops.get_default_session()
        if session is None:
            raise ValueError("session must be passed if no default session exists")
    session.run(summary_writer_initializer_op())
    if graph is not None:
        from millrace.core.util import event_pb2

        definition = graph.as_graph_def(add_shapes=True) if isinstance(graph, ops.Graph) else graph
        _state.writer._add(event_pb2.Event(wall_time=time.time(), graph_def=definition.SerializeToString()))


def all_summary_ops() -> Any:
    """The summary ops of the default graph."""
    return ops.get_collection(_SUMMARY_COLLECTION)


all_v2_summary_ops = all_summary_ops


def flush(writer: Any = None, name: Any = None) -> Any:
    """An op that writes to the disk what was recorded by `writer`, the default one if None."""
    del name
    writer = _state.writer if writer is None else writer
    return control_flow_ops.no_op() if writer is None else writer.flush()


def _record(name: str, family: Any, tensor: Any, step: Any, make: Any) -> Any:
    """An op that writes the summary `make(tag)`, if summaries are recorded."""
    writer = _state.writer
    if writer is None:
        return control_flow_ops.no_op()
    scope = ops.get_name_scope()
    tag = "/".join(part for part in (scope, name) if part)
    if family is not None:
        tag = "%s/%s" % (family, tag)
    step = training_util.get_or_create_global_step() if step is None else step

    def write(serialized: Any, at: Any) -> np.bool_:
        from millrace.core.framework import summary_pb2
        from millrace.core.util import event_pb2

        summary = summary_pb2.Summary.FromString(bytes(serialized))
        writer._add(event_pb2.Event(wall_time=time.time(), step=int(at), summary=summary))
        return np.bool_(True)

    def record() -> Any:
        with ops.name_scope(name, values=[tensor]):
            at = math_ops.cast(ops.convert_to_tensor(step), dtypes.int64)
            return script_ops.py_func(
                write, [make(tag), at], dtypes.bool, stateful=True, name="write_summary"
            )

    condition = should_record_summaries()
    if ops.executing_eagerly():
        if condition:
            write(make(tag).numpy(), step)
        return None
    with ops.device("cpu:0"):
        if condition is True:
            op = record().op
        elif condition is False:
            op = control_flow_ops.no_op()
        else:
            op = control_flow_ops.cond(condition, record, lambda: ops.convert_to_tensor(False), name="").op
    ops.add_to_collection(_SUMMARY_COLLECTION, op)
    return op


def scalar(name: str, tensor: Any, family: Any = None, step: Any = None) -> Any:
    """An op that records a number under `name`, at `step` or the global step."""
    return _record(name, family, tensor, step, lambda tag: gen_logging_ops.scalar_summary(tag, tensor))


def histogram(name: str, tensor: Any, family: Any = None, step: Any = None) -> Any:
    """An op that records a histogram of the elements."""
    return _record(name, family, tensor, step, lambda tag: gen_logging_ops.histogram_summary(tag, tensor))


def image(
    name: str, tensor: Any, bad_color: Any = None, max_images: int = 3, family: Any = None, step: Any = None
) -> Any:
    """An op that records images [batch, height, width, channels]."""
    del bad_color
    return _record(
        name,
        family,
        tensor,
        step,
        lambda tag: gen_logging_ops.image_summary(tag, tensor, max_images=max_images),
    )


def audio(
    name: str, tensor: Any, sample_rate: Any, max_outputs: int, family: Any = None, step: Any = None
) -> Any:
    """An op that records sounds [batch, frames, channels]."""
    return _record(
        name,
        family,
        tensor,
        step,
        lambda tag: gen_logging_ops.audio_summary_v2(
            tag, tensor, sample_rate=sample_rate, max_outputs=max_outputs
        ),
    )


def generic(name: str, tensor: Any, metadata: Any = None, family: Any = None, step: Any = None) -> Any:
    """An op that records a tensor with the metadata that a plugin wants."""
    serialized = (
        b"" if metadata is None else metadata if isinstance(metadata, bytes) else metadata.SerializeToString()
    )
    return _record(
        name,
        family,
        tensor,
        step,
        lambda tag: gen_logging_ops.tensor_summary_v2(
            tag=tag, tensor=tensor, serialized_summary_metadata=serialized
        ),
    )
