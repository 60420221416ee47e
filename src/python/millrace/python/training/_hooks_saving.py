# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Hooks that write files: checkpoints, summaries, counts of steps, traces."""

from __future__ import annotations

import os
from typing import Any

from millrace.python.framework import meta_graph
from millrace.python.framework import ops
from millrace.python.lib.io import file_io
from millrace.python.platform import tf_logging as logging
from millrace.python.training import training_util
from millrace.python.training._hooks_simple import SecondOrStepTimer
from millrace.python.training.session_run_hook import SessionRunArgs
from millrace.python.training.session_run_hook import SessionRunHook
from millrace.python.training.summary_io import SummaryWriterCache


def _session_log(**fields: Any) -> Any:
    from millrace.core.util import event_pb2

    return event_pb2.SessionLog(**fields)


class CheckpointSaverListener:
    """Base of listeners that are called before and after a CheckpointSaverHook saves."""

    def begin(self) -> None:
        """At the start."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Before each save."""

    def after_save(self, session: Any, global_step_value: int) -> Any:
        """After each save; a true result stops the training."""

    def end(self, session: Any, global_step_value: int) -> None:
        """At the end, after the last save."""


class CheckpointSaverHook(SessionRunHook):
    """Saves checkpoints at the start, every N steps or seconds, and at the end."""

    def __init__(
        self,
        checkpoint_dir: str,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Any = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Any = None,
        listeners: Any = None,
    ) -> None:
        """Makes the hook.

        Args:
          checkpoint_dir: folder of the checkpoints.
          save_secs, save_steps: interval in seconds or in steps; exactly one is given.
          saver: Saver to use; by default that of `scaffold`, else that of the collection SAVERS.
          checkpoint_basename: prefix of the checkpoints' file names.
          scaffold: Scaffold whose saver is used.
          listeners: list of CheckpointSaverListener.

        Raises:
          ValueError: if both or none of the intervals, or both saver and scaffold, are given.
        """
        logging.info("Create CheckpointSaverHook.")
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._saver = saver
        self._checkpoint_dir = checkpoint_dir
        self._save_path = os.path.join(checkpoint_dir, checkpoint_basename)
        self._scaffold = scaffold
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._listeners = listeners or []
        self._steps_per_run = 1
        self._save_guard: Any = None  # from `chief_lease`: set if another worker may become the chief

    def _set_steps_per_run(self, steps_per_run: int) -> None:
        self._steps_per_run = steps_per_run

    def begin(self) -> None:
        self._summary_writer = SummaryWriterCache.get(self._checkpoint_dir)
        self._global_step_tensor = training_util._get_or_create_global_step_read()
        if self._global_step_tensor is None:
            raise RuntimeError("Global step should be created to use CheckpointSaverHook.")
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        global_step = session.run(self._global_step_tensor)
        # The graph is finalized now, so the whole graph is written.
        graph = ops.get_default_graph()
        training_util.write_graph(graph.as_graph_def(add_shapes=True), self._checkpoint_dir, "graph.pbtxt")
        saver_def = self._get_saver().saver_def if self._get_saver() else None
        meta_graph_def = meta_graph.create_meta_graph_def(
            graph_def=graph.as_graph_def(add_shapes=True), saver_def=saver_def
        )
        self._summary_writer.add_graph(graph)
        self._summary_writer.add_meta_graph(meta_graph_def)
        self._save(session, global_step)
        self._timer.update_last_triggered_step(global_step)

    def before_run(self, run_context: Any) -> Any:
        return SessionRunArgs(self._global_step_tensor)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        stale_global_step = run_values.results
        if self._timer.should_trigger_for_step(stale_global_step + self._steps_per_run):
            # The value that was read may or may not include the step's own update.
            global_step = run_context.session.run(self._global_step_tensor)
            if self._timer.should_trigger_for_step(global_step):
                self._timer.update_last_triggered_step(global_step)
                if self._save(run_context.session, global_step):
                    run_context.request_stop()

    def end(self, session: Any) -> None:
        last_step = session.run(self._global_step_tensor)
        if last_step != self._timer.last_triggered_step():
            self._save(session, last_step)
        for listener in self._listeners:
            listener.end(session, last_step)

    def _save(self, session: Any, step: int) -> bool:
        """Saves; returns whether a listener requests a stop."""
        logging.info("Saving checkpoints for %d into %s.", step, self._save_path)
        for listener in self._listeners:
            listener.before_save(session, step)
        saver = self._get_saver()
        if self._save_guard is not None:
            saver._save_guard = self._save_guard
        saver.save(session, self._save_path, global_step=int(step))
        self._summary_writer.add_session_log(
            _session_log(status=_session_log().CHECKPOINT, checkpoint_path=self._save_path), step
        )
        should_stop = False
        for listener in self._listeners:
            if listener.after_save(session, step):
                logging.info(
                    "A CheckpointSaverListener requested that training be stopped. listener: %s", listener
                )
                should_stop = True
        return should_stop

    def _get_saver(self) -> Any:
        if self._saver is not None:
            return self._saver
        if self._scaffold is not None:
            return self._scaffold.saver
        collection_key = ops.GraphKeys.SAVERS
        savers = ops.get_collection(collection_key)
        if not savers:
            raise RuntimeError(
                "No items in collection {}. Please add a saver to the collection "
                "or provide a saver or scaffold.".format(collection_key)
            )
        if len(savers) > 1:
            raise RuntimeError(
                "More than one item in collection {}. "
                "Please indicate which one to use by passing it to the constructor.".format(collection_key)
            )
        self._saver = savers[0]
        return savers[0]


class StepCounterHook(SessionRunHook):
    """Writes the number of steps per second as summary `global_step/sec`, and logs it."""

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
    ) -> None:
        """Makes the hook.

        Args:
          every_n_steps, every_n_secs: interval in steps or in seconds; exactly one is given.
          output_dir: folder of the summaries.
          summary_writer: writer to use instead of one for `output_dir`.

        Raises:
          ValueError: if both or none of the intervals are given.
        """
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError("exactly one of every_n_steps and every_n_secs should be provided.")
        self._timer = SecondOrStepTimer(every_steps=every_n_steps, every_secs=every_n_secs)
        self._summary_writer = summary_writer
        self._output_dir = output_dir
        self._last_global_step: int | None = None
        self._global_step_check_count = 0
        self._steps_per_run = 1

    def _set_steps_per_run(self, steps_per_run: int) -> None:
        self._steps_per_run = steps_per_run

    def begin(self) -> None:
        if self._summary_writer is None and self._output_dir:
            self._summary_writer = SummaryWriterCache.get(self._output_dir)
        self._global_step_tensor = training_util._get_or_create_global_step_read()
        if self._global_step_tensor is None:
            raise RuntimeError("Global step should be created to use StepCounterHook.")
        self._summary_tag = training_util.get_global_step().op.name + "/sec"

    def before_run(self, run_context: Any) -> Any:
        return SessionRunArgs(self._global_step_tensor)

    def _log_and_record(self, elapsed_steps: int, elapsed_time: float, global_step: int) -> None:
        from millrace.core.framework import summary_pb2

        steps_per_sec = elapsed_steps / elapsed_time
        if self._summary_writer is not None:
            summary = summary_pb2.Summary(
                value=[summary_pb2.Summary.Value(tag=self._summary_tag, simple_value=steps_per_sec)]
            )
            self._summary_writer.add_summary(summary, global_step)
        logging.info("%s: %g", self._summary_tag, steps_per_sec)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        stale_global_step = run_values.results
        if self._timer.should_trigger_for_step(stale_global_step + self._steps_per_run):
            global_step = run_context.session.run(self._global_step_tensor)
            if self._timer.should_trigger_for_step(global_step):
                elapsed_time, elapsed_steps = self._timer.update_last_triggered_step(global_step)
                if elapsed_time and elapsed_steps is not None:
                    self._log_and_record(elapsed_steps, elapsed_time, global_step)
        if stale_global_step == self._last_global_step:
            # The step may not advance once: workers overlap, and some optimizers do not count each step.
            self._global_step_check_count += 1
            if self._global_step_check_count % 20 == 0:
                self._global_step_check_count = 0
                logging.warning(
                    "It seems that global step (tf.train.get_global_step) has not been increased. Current value"
                    " (could be stable): %s vs previous value: %s. You could increase the global step by passing"
                    " tf.train.get_global_step() to Optimizer.apply_gradients or Optimizer.minimize.",
                    stale_global_step,
                    self._last_global_step,
                )
        else:
            self._global_step_check_count = 0
        self._last_global_step = stale_global_step


class SummarySaverHook(SessionRunHook):
    """Writes summaries every N steps or seconds."""

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
        scaffold: Any = None,
        summary_op: Any = None,
    ) -> None:
        """Makes the hook.

        Args:
          save_steps, save_secs: interval in steps or in seconds; exactly one is given.
          output_dir: folder of the summaries.
          summary_writer: writer to use instead of one for `output_dir`.
          scaffold: Scaffold whose summary op is used; exactly one of `scaffold` and `summary_op` is given.
          summary_op: string tensor with a serialized Summary, or a list of them.

        Raises:
          ValueError: if both or none of scaffold and summary_op are given.
        """
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        self._summary_op = summary_op
        self._summary_writer = summary_writer
        self._output_dir = output_dir
        self._scaffold = scaffold
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    def begin(self) -> None:
        if self._summary_writer is None and self._output_dir:
            self._summary_writer = SummaryWriterCache.get(self._output_dir)
        self._next_step: int | None = None
        self._global_step_tensor = training_util._get_or_create_global_step_read()
        if self._global_step_tensor is None:
            raise RuntimeError("Global step should be created to use SummarySaverHook.")

    def before_run(self, run_context: Any) -> Any:
        self._request_summary = self._next_step is None or self._timer.should_trigger_for_step(
            self._next_step
        )
        requests = {"global_step": self._global_step_tensor}
        if self._request_summary:
            summary_op = self._get_summary_op()
            if summary_op is not None:
                requests["summary"] = summary_op
        return SessionRunArgs(requests)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if not self._summary_writer:
            return
        stale_global_step = run_values.results["global_step"]
        global_step = stale_global_step + 1
        if self._next_step is None or self._request_summary:
            global_step = run_context.session.run(self._global_step_tensor)
        if self._next_step is None:
            self._summary_writer.add_session_log(_session_log(status=_session_log().START), global_step)
        if self._request_summary:
            self._timer.update_last_triggered_step(global_step)
            if "summary" in run_values.results:
                for summary in run_values.results["summary"]:
                    self._summary_writer.add_summary(summary, global_step)
        self._next_step = global_step + 1

    def end(self, session: Any = None) -> None:
        if self._summary_writer:
            self._summary_writer.flush()

    def _get_summary_op(self) -> Any:
        """The summaries to fetch as a list, or None."""
        summary_op = self._summary_op
        if summary_op is None and self._scaffold.summary_op is not None:
            summary_op = self._scaffold.summary_op
        if summary_op is None:
            return None
        return summary_op if isinstance(summary_op, list) else [summary_op]


class ProfilerHook(SessionRunHook):
    """Traces a step every N steps or seconds, and writes it as timeline-N.json for chrome://tracing."""

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
    ) -> None:
        """Makes the hook.

        Args:
          save_steps, save_secs: interval in steps or in seconds; exactly one is given.
          output_dir: folder of the files.
          show_dataflow: whether to show edges between ops.
          show_memory: whether to show allocations of memory.
        """
        self._output_file = os.path.join(output_dir, "timeline-{}.json")
        self._file_writer = SummaryWriterCache.get(output_dir)
        self._show_dataflow = show_dataflow
        self._show_memory = show_memory
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    def begin(self) -> None:
        self._next_step: int | None = None
        self._global_step_tensor = training_util._get_or_create_global_step_read()
        if self._global_step_tensor is None:
            raise RuntimeError("Global step should be created to use ProfilerHook.")

    def before_run(self, run_context: Any) -> Any:
        from millrace.core.protobuf import config_pb2

        self._request_summary = self._next_step is not None and self._timer.should_trigger_for_step(
            self._next_step
        )
        opts = (
            config_pb2.RunOptions(trace_level=config_pb2.RunOptions.FULL_TRACE)
            if self._request_summary
            else None
        )
        return SessionRunArgs({"global_step": self._global_step_tensor}, options=opts)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        stale_global_step = run_values.results["global_step"]
        if self._next_step is None:
            # The first step includes one-time preparations, so it is not traced.
            self._timer.update_last_triggered_step(stale_global_step)
        global_step = stale_global_step + 1
        if self._request_summary:
            global_step = run_context.session.run(self._global_step_tensor)
            self._timer.update_last_triggered_step(global_step)
            self._save(global_step, self._output_file.format(global_step), run_values.run_metadata.step_stats)
            self._file_writer.add_run_metadata(run_values.run_metadata, "step_%d" % global_step)
        self._next_step = global_step + 1

    def _save(self, step: int, save_path: str, step_stats: Any) -> None:
        from millrace.python.client import timeline

        logging.info("Saving timeline for %d into '%s'.", step, save_path)
        with file_io.FileIO(save_path, "w") as f:
            trace = timeline.Timeline(step_stats)
            f.write(
                trace.generate_chrome_trace_format(
                    show_dataflow=self._show_dataflow, show_memory=self._show_memory
                )
            )
