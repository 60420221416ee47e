# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Writers of summaries, and whether and at which step summaries are recorded."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import time
from collections.abc import Iterator
from typing import Any

from millrace.python.eager import context
from millrace.python.framework import constant_op, dtypes, ops
from millrace.python.ops import control_flow_ops, gen_summary_ops, math_ops, resource_variable_ops
from millrace.python.training import training_util

_SUMMARY_WRITER_INIT_COLLECTION_NAME = "_SUMMARY_WRITER_V2"


def _resolve(value: Any) -> Any:
    return value() if callable(value) else value


def _recorded(default: bool) -> Any:
    """Whether summaries are recorded here; `default` holds if the program did not set a condition."""
    state = context.context()
    if state.summary_writer is None:
        return constant_op.constant(False)
    condition = _resolve(state.summary_recording)
    condition = default if condition is None else condition
    distributed = _resolve(state.summary_recording_distribution_strategy)
    if condition is False or distributed is False:
        return constant_op.constant(False) if isinstance(condition, ops.Tensor) else False
    return condition


def should_record_summaries() -> Any:
    """Whether summaries are recorded here: a bool or a bool tensor. The default is False."""
    return _recorded(False)


def _should_record_summaries_v2() -> Any:
    """Whether summaries are recorded here: a bool or a bool tensor. The default is True."""
    return _recorded(True)


@contextlib.contextmanager
def record_if(condition: Any) -> Iterator[None]:
    """A context in which summaries are recorded on a condition: a bool (tensor), or a function of it."""
    state = context.context()
    old = state.summary_recording
    try:
        state.summary_recording = condition
        yield
    finally:
        state.summary_recording = old


def record_summaries_every_n_global_steps(n: int, global_step: Any = None) -> Any:
    """A context in which summaries are recorded when the global step is a multiple of `n`."""
    if global_step is None:
        global_step = training_util.get_or_create_global_step()
    with ops.device("cpu:0"):
        if context.executing_eagerly():
            return record_if(lambda: math_ops.equal(global_step % n, 0))
        return record_if(math_ops.equal(global_step % n, 0))


def always_record_summaries() -> Any:
    """A context in which all summaries are recorded."""
    return record_if(True)


def never_record_summaries() -> Any:
    """A context in which no summary is recorded."""
    return record_if(False)


def get_step() -> Any:
    """The default step of `write`, or None."""
    return context.context().summary_step


def set_step(step: Any) -> None:
    """Sets the default step of `write`: a number, a tensor or variable, or None."""
    context.context().summary_step = step


class SummaryWriter:
    """The interface of writers."""

    def set_as_default(self) -> None:
        """Makes this the writer of summaries from here on in this thread."""
        raise NotImplementedError

    def as_default(self) -> Any:
        """A context in which this is the writer of summaries."""
        raise NotImplementedError

    def init(self) -> Any:
        """The op that opens the file."""
        raise NotImplementedError

    def flush(self) -> Any:
        """An op that flushes recorded summaries to disk."""
        raise NotImplementedError

    def close(self) -> Any:
        """An op that writes recorded summaries, and closes the file."""
        raise NotImplementedError


class ResourceSummaryWriter(SummaryWriter):
    """A writer that is a resource of the engine."""

    def __init__(
        self, shared_name: Any, init_op_fn: Any, name: Any = None, v2: bool = False, metadata: Any = None
    ) -> None:
        """Makes the writer.

        Args:
          init_op_fn: a function of the resource that makes the op that opens the file.
          v2: whether a closed writer is refused.
        """
        self._resource = gen_summary_ops.summary_writer(shared_name=shared_name, name=name)
        self._init_op_fn = init_op_fn
        self._init_op = init_op_fn(self._resource)
        self._v2 = v2
        self._metadata = {} if metadata is None else metadata
        self._closed = False
        if context.executing_eagerly():
            self._deleter = resource_variable_ops.EagerResourceDeleter(
                handle=self._resource, handle_device="cpu:0"
            )
        else:
            ops.add_to_collection(_SUMMARY_WRITER_INIT_COLLECTION_NAME, self._init_op)

    def _refuse_closed(self) -> None:
        if self._v2 and context.executing_eagerly() and self._closed:
            raise RuntimeError("SummaryWriter is already closed")

    def set_as_default(self) -> None:
        self._refuse_closed()
        context.context().summary_writer = self

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Any]:
        self._refuse_closed()
        state = context.context()
        old = state.summary_writer
        try:
            state.summary_writer = self
            yield self
            # In a graph the program flushes.
            if context.executing_eagerly() or ops.inside_function():
                self.flush()
        finally:
            state.summary_writer = old

    def init(self) -> Any:
        if self._v2:
            self._refuse_closed()
            return self._init_op
        if context.executing_eagerly() and self._closed:
            self._init_op = self._init_op_fn(self._resource)
            self._closed = False
        return self._init_op

    def flush(self) -> Any:
        if self._v2 and context.executing_eagerly() and self._closed:
            return None
        return _flush_fn(writer=self)

    def close(self) -> Any:
        if self._v2 and context.executing_eagerly() and self._closed:
            return None
        try:
            with ops.control_dependencies([] if context.executing_eagerly() else [self.flush()]):
                if context.executing_eagerly():
                    self.flush()
                with ops.device("cpu:0"):
                    return gen_summary_ops.close_summary_writer(self._resource)
        finally:
            if self._v2 and context.executing_eagerly():
                self._closed = True


class NoopSummaryWriter(SummaryWriter):
    """A writer that writes nothing."""

    def set_as_default(self) -> None:
        pass

    @contextlib.contextmanager
    def as_default(self) -> Iterator[None]:
        yield

    def init(self) -> Any:
        pass

    def flush(self) -> Any:
        pass

    def close(self) -> Any:
        pass


def flush(writer: Any = None, name: Any = None) -> Any:
    """An op that flushes the summaries recorded by `writer` (None: the default one) to disk."""
    if writer is None:
        writer = context.context().summary_writer
        if writer is None:
            return control_flow_ops.no_op()
    if isinstance(writer, ResourceSummaryWriter):
        resource = writer._resource
    else:
        resource = writer
    with ops.device("cpu:0"):
        return gen_summary_ops.flush_summary_writer(resource, name=name)


_flush_fn = flush  # for writers, whose methods are called flush


def create_file_writer_v2(
    logdir: Any,
    max_queue: Any = None,
    flush_millis: Any = None,
    filename_suffix: Any = None,
    name: Any = None,
) -> SummaryWriter:
    """A writer of events files in the folder `logdir`.

    Args:
      max_queue: events that wait in memory, 10 by default.
      flush_millis: longest time between writes, 2 minutes by default.
      filename_suffix: of the files' names, ".v2" by default.
      name: of the op.

    Raises:
      ValueError: if `logdir` is None, or a tensor within a function.
    """
    if logdir is None:
        raise ValueError("logdir cannot be None")
    inside_function = ops.inside_function()
    with ops.name_scope(name, "create_file_writer") as scope, ops.device("cpu:0"):
        with ops.init_scope():
            if context.executing_eagerly():
                _check_create_file_writer_args(
                    inside_function, logdir=logdir, max_queue=max_queue, flush_millis=flush_millis,
                    filename_suffix=filename_suffix,
                )  # fmt: skip
            path = ops.convert_to_tensor(_path(logdir), dtype=dtypes.string)
            queue = ops.convert_to_tensor(10 if max_queue is None else max_queue)
            millis = ops.convert_to_tensor(2 * 60 * 1000 if flush_millis is None else flush_millis)
            suffix = ops.convert_to_tensor(".v2" if filename_suffix is None else filename_suffix)

            def init_op_fn(resource: Any) -> Any:
                return gen_summary_ops.create_summary_file_writer(resource, path, queue, millis, suffix)

            # A graph may make several writers of one folder: each is a resource of its own.
            shared = context.shared_name() if context.executing_eagerly() else "cd2c89b7-%s" % ops.uid()
            return ResourceSummaryWriter(
                shared_name=shared, init_op_fn=init_op_fn, name=scope, v2=True, metadata={"logdir": path}
            )


def _path(logdir: Any) -> Any:
    return os.fspath(logdir) if hasattr(logdir, "__fspath__") else logdir


def create_file_writer(
    logdir: Any,
    max_queue: Any = None,
    flush_millis: Any = None,
    filename_suffix: Any = None,
    name: Any = None,
) -> SummaryWriter:
    """As `create_file_writer_v2`; writers of one folder share a resource. If `logdir` is None, nothing is
    written."""
    if logdir is None:
        return NoopSummaryWriter()
    logdir = str(_path(logdir)) if not isinstance(logdir, ops.Tensor) else logdir
    with ops.device("cpu:0"):
        max_queue = constant_op.constant(10) if max_queue is None else max_queue
        flush_millis = constant_op.constant(2 * 60 * 1000) if flush_millis is None else flush_millis
        filename_suffix = constant_op.constant(".v2") if filename_suffix is None else filename_suffix
        shared = "logdir:%s" % logdir if name is None else name

        def init_op_fn(resource: Any) -> Any:
            return gen_summary_ops.create_summary_file_writer(
                resource, logdir, max_queue, flush_millis, filename_suffix
            )

        return ResourceSummaryWriter(shared_name=shared, init_op_fn=init_op_fn)


create_summary_file_writer = create_file_writer


def create_noop_writer() -> SummaryWriter:
    """A writer that writes nothing."""
    return NoopSummaryWriter()


_EXPERIMENT_NAME_PATTERNS = re.compile(r"^[^\x00-\x1F<>]{0,256}$")
_RUN_NAME_PATTERNS = re.compile(r"^[^\x00-\x1F<>]{0,512}$")
_USER_NAME_PATTERNS = re.compile(r"^[a-z]([-a-z0-9]{0,29}[a-z0-9])?$", re.I)


def create_db_writer(
    db_uri: Any, experiment_name: Any = None, run_name: Any = None, user_name: Any = None, name: Any = None
) -> SummaryWriter:
    """A writer of a run to an SQLite database, which is created with its tables if it does not exist.

    Args:
      db_uri: a path, or "file:" and a path.
      experiment_name: today's date, YYYY-MM-DD, if None; "": the run is of no experiment.
      run_name: the time, HH:MM:SS, if None; "": tags are of no run.
      user_name: the login name if None; letters, digits and hyphens.
      name: under which nodes share the writer.

    Raises:
      ValueError: for a name that does not match its pattern. Names in tensors are checked when they are used.
    """
    with ops.device("cpu:0"):
        if experiment_name is None:
            experiment_name = time.strftime("%Y-%m-%d")
        if run_name is None:
            run_name = time.strftime("%H:%M:%S")
        if user_name is None:
            user_name = getpass.getuser()
        experiment = _cleanse_string("experiment_name", _EXPERIMENT_NAME_PATTERNS, experiment_name)
        run = _cleanse_string("run_name", _RUN_NAME_PATTERNS, run_name)
        user = _cleanse_string("user_name", _USER_NAME_PATTERNS, user_name)
        path = _path(db_uri)

        def init_op_fn(resource: Any) -> Any:
            return gen_summary_ops.create_summary_db_writer(resource, path, experiment, run, user)

        return ResourceSummaryWriter(shared_name=name, init_op_fn=init_op_fn)


def _cleanse_string(name: str, pattern: re.Pattern[str], value: Any) -> Any:
    if isinstance(value, str) and pattern.search(value) is None:
        raise ValueError("%s (%s) must match %s" % (name, value, pattern.pattern))
    return ops.convert_to_tensor(value, dtypes.string)


def _check_create_file_writer_args(inside_function: bool, **kwargs: Any) -> None:
    """Raises ValueError for tensors of a function that would be used outside of it."""
    for arg_name, arg in kwargs.items():
        if isinstance(arg, ops.Tensor) and not isinstance(arg, ops.EagerTensor):
            if inside_function:
                raise ValueError(
                    'Invalid graph Tensor argument "%s=%s" to create_file_writer() inside an '
                    "@tf.function. The create call will be lifted into the outer eager execution context, so "
                    "it cannot consume graph tensors defined inside the function body." % (arg_name, arg)
                )
            raise ValueError(
                'Invalid graph Tensor argument "%s=%s" to eagerly executed create_file_writer().'
                % (arg_name, arg)
            )
