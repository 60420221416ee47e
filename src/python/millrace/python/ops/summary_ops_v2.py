# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Summaries that are written by ops: tf.contrib.summary and tf.compat.v2.summary."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from typing import Any

from millrace.core.framework import graph_pb2
from millrace.python.eager import context
from millrace.python.framework import constant_op, dtypes, ops, smart_cond
from millrace.python.ops import array_ops, control_flow_ops, gen_summary_ops, math_ops, summary_op_util
from millrace.python.ops._summary_writers import (  # noqa: F401
    _SUMMARY_WRITER_INIT_COLLECTION_NAME,
    NoopSummaryWriter,
    ResourceSummaryWriter,
    SummaryWriter,
    _should_record_summaries_v2,
    always_record_summaries,
    create_db_writer,
    create_file_writer,
    create_file_writer_v2,
    create_noop_writer,
    create_summary_file_writer,
    flush,
    get_step,
    never_record_summaries,
    record_if,
    record_summaries_every_n_global_steps,
    set_step,
    should_record_summaries,
)
from millrace.python.platform import tf_logging as logging
from millrace.python.training import training_util
from millrace.python.util import compat

_SUMMARY_COLLECTION = "_SUMMARY_V2"


def initialize(graph: Any = None, session: Any = None) -> None:
    """Opens the files of all writers of the default graph, and writes a graph if one is given.

    Raises:
      RuntimeError: if there is no default writer.
      ValueError: if there is no session.
    """
    if context.executing_eagerly():
        return
    if context.context().summary_writer is None:
        raise RuntimeError("No default tf.contrib.summary.SummaryWriter found")
    if session is None:
        session = ops.get_default_session()
        if session is None:
            raise ValueError("session must be passed if no default session exists")
    session.run(summary_writer_initializer_op())
    if graph is not None:
        data = _serialize_graph(graph)
        x = array_ops.placeholder(dtypes.string)
        session.run(_graph(x, 0), feed_dict={x: data})


def _nothing() -> Any:
    return constant_op.constant(False)


def all_v2_summary_ops() -> Any:
    """The summary ops of the default graph; None in eager mode."""
    if context.executing_eagerly():
        return None
    return ops.get_collection(_SUMMARY_COLLECTION)


all_summary_ops = all_v2_summary_ops


def summary_writer_initializer_op() -> Any:
    """The ops that open the files of all writers of the graph; RuntimeError in eager mode."""
    if context.executing_eagerly():
        raise RuntimeError(
            "tf.contrib.summary.summary_writer_initializer_op is only supported in graph mode."
        )
    return ops.get_collection(_SUMMARY_WRITER_INIT_COLLECTION_NAME)


_INVALID_SCOPE_CHARACTERS = re.compile(r"[^-_/.A-Za-z0-9]")


@contextlib.contextmanager
def summary_scope(name: Any, default_name: str = "summary", values: Any = None) -> Iterator[tuple[str, str]]:
    """Enters the scope of a summary; returns its tag, which is not made unique, and the scope."""
    name = name or default_name
    current_scope = ops.get_name_scope()
    tag = current_scope + "/" + name if current_scope else name
    name = _INVALID_SCOPE_CHARACTERS.sub("", name) or None
    with ops.name_scope(name, default_name, values) as scope:
        yield tag, scope


def _collected(op: Any) -> Any:
    if not context.executing_eagerly():
        ops.add_to_collection(_SUMMARY_COLLECTION, op)
    return op


def write(tag: str, tensor: Any, step: Any = None, metadata: Any = None, name: Any = None) -> Any:
    """Writes a tensor, or the result of a function, to the default writer if summaries are recorded.

    Args:
      tag: the tag.
      tensor: the tensor, or a function that is called only if it is written.
      step: the step; None: the default one.
      metadata: a SummaryMetadata, or the bytes of one.
      name: of the op.

    Returns:
      A bool tensor: whether it was written.

    Raises:
      ValueError: if there is a writer but no step.
    """
    with ops.name_scope(name, "write_summary") as scope:
        writer = context.context().summary_writer
        if writer is None:
            return _nothing()
        step = get_step() if step is None else step
        if step is None:
            raise ValueError("No step set via 'step' argument or tf.summary.experimental.set_step()")
        serialized = _serialized_metadata(metadata)

        def record() -> Any:
            value = tensor() if callable(tensor) else array_ops.identity(tensor)
            with ops.device("cpu:0"):
                op = gen_summary_ops.write_summary(
                    writer._resource, _as_step(step), value, tag, serialized, name=scope
                )
                with ops.control_dependencies([] if op is None else [op]):
                    return constant_op.constant(True)

        return _collected(
            smart_cond.smart_cond(_should_record_summaries_v2(), record, _nothing, name="summary_cond")
        )


def _serialized_metadata(metadata: Any) -> bytes:
    if metadata is None:
        return b""
    if hasattr(metadata, "SerializeToString"):
        return bytes(metadata.SerializeToString())
    return metadata  # type: ignore[no-any-return]


def _as_step(step: Any) -> Any:
    step = ops.convert_to_tensor(step)
    return step if step.dtype == dtypes.int64 else math_ops.cast(step, dtypes.int64)


def summary_writer_function(name: str, tensor: Any, function: Any, family: Any = None) -> Any:
    """An op that runs `function(tag, scope)`, which writes a summary, if summaries are recorded."""
    name_scope = ops.get_name_scope()
    if name_scope:
        name_scope += "/"

    def record() -> Any:
        with ops.name_scope(name_scope), summary_op_util.summary_scope(name, family, values=[tensor]) as (
            tag,
            scope,
        ):
            op = function(tag, scope)
            with ops.control_dependencies([] if op is None else [op]):
                return constant_op.constant(True)

    if context.context().summary_writer is None:
        return control_flow_ops.no_op()
    with ops.device("cpu:0"):
        return _collected(smart_cond.smart_cond(should_record_summaries(), record, _nothing, name=""))


def _written(name: str, tensor: Any, family: Any, step: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
    """The op `op(writer, step, tag, tensor, ...)` under the conditions of summary_writer_function."""

    def function(tag: str, scope: str) -> Any:
        writer = context.context().summary_writer
        return op(
            writer._resource, _choose_step(step), tag, array_ops.identity(tensor), *args, name=scope, **kwargs
        )

    return summary_writer_function(name, tensor, function, family=family)


def generic(name: str, tensor: Any, metadata: Any = None, family: Any = None, step: Any = None) -> Any:
    """An op that records a tensor with the metadata for a plugin."""

    def function(tag: str, scope: str) -> Any:
        return gen_summary_ops.write_summary(
            context.context().summary_writer._resource, _choose_step(step), array_ops.identity(tensor), tag,
            _serialized_metadata(metadata), name=scope,
        )  # fmt: skip

    return summary_writer_function(name, tensor, function, family=family)


def scalar(name: str, tensor: Any, family: Any = None, step: Any = None) -> Any:
    """An op that records a number under `name`, at `step` or the global step."""
    return _written(name, tensor, family, step, gen_summary_ops.write_scalar_summary)


def histogram(name: str, tensor: Any, family: Any = None, step: Any = None) -> Any:
    """An op that records a histogram of the elements."""
    return _written(name, tensor, family, step, gen_summary_ops.write_histogram_summary)


def image(
    name: str, tensor: Any, bad_color: Any = None, max_images: int = 3, family: Any = None, step: Any = None
) -> Any:
    """An op that records images [batch, height, width, channels]; `bad_color`: for non-finite pixels."""
    color = constant_op.constant([255, 0, 0, 255], dtype=dtypes.uint8) if bad_color is None else bad_color
    return _written(
        name, tensor, family, step, gen_summary_ops.write_image_summary, color, max_images=max_images
    )


def audio(
    name: str, tensor: Any, sample_rate: Any, max_outputs: int, family: Any = None, step: Any = None
) -> Any:
    """An op that records sounds [batch, frames, channels]."""
    return _written(
        name,
        tensor,
        family,
        step,
        gen_summary_ops.write_audio_summary,
        sample_rate=sample_rate,
        max_outputs=max_outputs,
    )


def graph(param: Any, step: Any = None, name: Any = None) -> Any:
    """Writes a graph: a Graph, GraphDef, or a tensor of the bytes of one.

    Raises:
      TypeError: in eager mode, for anything but a graph.
    """
    if not context.executing_eagerly() and not isinstance(param, ops.Tensor):
        raise TypeError(
            "graph() needs a argument of type tf.Tensor (e.g. tf.placeholder) in graph mode, but received "
            "param=%s of type %s." % (param, type(param).__name__)
        )
    return _graph(param, step, name)


def _graph(param: Any, step: Any, name: Any = None) -> Any:
    writer = context.context().summary_writer
    if writer is None:
        return control_flow_ops.no_op()
    with ops.device("cpu:0"):
        if isinstance(param, (ops.Graph, graph_pb2.GraphDef)):
            tensor = ops.convert_to_tensor(_serialize_graph(param), dtypes.string)
        else:
            tensor = array_ops.identity(param)
        return gen_summary_ops.write_graph_summary(writer._resource, _choose_step(step), tensor, name=name)


def import_event(tensor: Any, name: Any = None) -> Any:
    """Writes the bytes of an Event; nothing without a writer."""
    writer = context.context().summary_writer
    if writer is None:
        return control_flow_ops.no_op()
    return gen_summary_ops.import_event(writer._resource, tensor, name=name)


def write_raw_pb(tensor: Any, step: Any = None, name: Any = None) -> Any:
    """Writes the bytes of a Summary if summaries are recorded; ValueError without a step."""
    with ops.name_scope(name, "write_raw_pb") as scope:
        writer = context.context().summary_writer
        if writer is None:
            return _nothing()
        step = get_step() if step is None else step
        if step is None:
            raise ValueError("No step set via 'step' argument or tf.summary.experimental.set_step()")

        def record() -> Any:
            with ops.device("cpu:0"):
                op = gen_summary_ops.write_raw_proto_summary(
                    writer._resource, _as_step(step), tensor, name=scope
                )
                with ops.control_dependencies([] if op is None else [op]):
                    return constant_op.constant(True)

        return _collected(
            smart_cond.smart_cond(_should_record_summaries_v2(), record, _nothing, name="summary_cond")
        )


def eval_dir(model_dir: str, name: Any = None) -> str:
    """The folder of the summaries of an evaluation."""
    return os.path.join(model_dir, "eval" if not name else "eval_" + name)


def _serialize_graph(arbitrary_graph: Any) -> bytes:
    if isinstance(arbitrary_graph, ops.Graph):
        return arbitrary_graph.as_graph_def(add_shapes=True).SerializeToString()  # type: ignore[no-any-return]
    return arbitrary_graph.SerializeToString()  # type: ignore[no-any-return]


def _choose_step(step: Any) -> Any:
    if step is None:
        return training_util.get_or_create_global_step()
    if not isinstance(step, ops.Tensor) and not hasattr(step, "dtype"):
        return ops.convert_to_tensor(step, dtypes.int64)
    return step


_trace: Any = None


def trace_on(graph: bool = True, profiler: bool = False) -> None:  # noqa: F811
    """Starts a trace of executed functions; with `profiler` a warning: there is no profiler."""
    global _trace
    if ops.inside_function():
        logging.warn("Cannot enable trace inside a tf.function.")
        return
    if profiler:
        logging.warn("Traces have no profile: see tf.RunMetadata and tf.train.ProfilerHook")
    if _trace is not None:
        logging.warn("Trace already enabled")
        return
    _trace = {"graph": graph, "time": time.time()}
    context.context().enable_run_metadata()


def trace_export(name: str, step: Any = None, profiler_outdir: Any = None) -> None:
    """Writes the trace and ends it; ValueError if no trace was started."""
    global _trace
    del profiler_outdir
    if _trace is None:
        raise ValueError("Must enable trace before export.")
    metadata = context.context().export_run_metadata()
    write(name, compat.as_bytes(metadata.SerializeToString()), step=step)
    trace_off()


def trace_off() -> None:
    """Ends a trace."""
    global _trace
    _trace = None
    context.context().disable_run_metadata()
