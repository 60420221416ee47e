# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Hooks without files: timers, logging, stopping, waiting, feeding."""

from __future__ import annotations

import time
from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import errors
from millrace.python.framework import ops
from millrace.python.ops import init_ops
from millrace.python.ops import variable_scope
from millrace.python.platform import tf_logging as logging
from millrace.python.training import training_util
from millrace.python.training.session_run_hook import SessionRunArgs
from millrace.python.training.session_run_hook import SessionRunHook


def _as_graph_element(obj: Any) -> Any:
    """The tensor or op of the default graph that `obj`, a name or element, represents.

    Raises:
      ValueError: if it is of another graph, or a name with no output number has several outputs.
    """
    graph = ops.get_default_graph()
    if not isinstance(obj, str):
        if not hasattr(obj, "graph") or obj.graph != graph:
            raise ValueError(
                "Passed %s should have graph attribute that is equal to current graph %s." % (obj, graph)
            )
        return obj
    if ":" in obj:
        return graph.as_graph_element(obj)
    element = graph.as_graph_element(obj + ":0")
    # A name without a number means the only output.
    try:
        graph.as_graph_element(obj + ":1")
    except (KeyError, ValueError):
        return element
    raise ValueError("Name %s is ambiguous, as this `Operation` has multiple outputs (at least 2)." % obj)


class _HookTimer:
    """Determines at which steps a hook acts."""

    def reset(self) -> None:
        """Forgets the last time."""

    def should_trigger_for_step(self, step: int) -> bool:
        raise NotImplementedError

    def update_last_triggered_step(self, step: int) -> Any:
        raise NotImplementedError

    def last_triggered_step(self) -> int | None:
        raise NotImplementedError


class SecondOrStepTimer(_HookTimer):
    """Triggers every N seconds or every N steps."""

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        """Raises ValueError unless exactly one of the two is given."""
        self.reset()
        self._every_secs = every_secs
        self._every_steps = every_steps
        if self._every_secs is None and self._every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if self._every_secs is not None and self._every_steps is not None:
            raise ValueError("Can not provide both every_secs and every_steps.")

    def reset(self) -> None:
        self._last_triggered_step: int | None = None
        self._last_triggered_time: float | None = None

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether enough time or steps have passed since the last trigger; true the first time."""
        if self._last_triggered_step is None:
            return True
        if self._last_triggered_step == step:
            return False
        if self._every_secs is not None:
            assert self._last_triggered_time is not None
            if time.time() >= self._last_triggered_time + self._every_secs:
                return True
        if self._every_steps is not None:
            return step >= self._last_triggered_step + self._every_steps
        return False

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Notes a trigger; returns the seconds and steps since the one before, or (None, None)."""
        now = time.time()
        elapsed_secs, elapsed_steps = None, None
        if self._last_triggered_time is not None and self._last_triggered_step is not None:
            elapsed_secs = now - self._last_triggered_time
            elapsed_steps = step - self._last_triggered_step
        self._last_triggered_time = now
        self._last_triggered_step = step
        return elapsed_secs, elapsed_steps

    def last_triggered_step(self) -> int | None:
        return self._last_triggered_step


class NeverTriggerTimer(_HookTimer):
    """Never triggers."""

    def should_trigger_for_step(self, step: int) -> bool:
        return False

    def update_last_triggered_step(self, step: int) -> tuple[None, None]:
        return None, None

    def last_triggered_step(self) -> None:
        return None


class LoggingTensorHook(SessionRunHook):
    """Logs values of tensors, every N steps or seconds, and at the end on request."""

    def __init__(
        self,
        tensors: Any,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Any = None,
    ) -> None:
        """Makes the hook.

        Args:
          tensors: list, or dict by tags, of tensors or their names.
          every_n_iter, every_n_secs: interval in runs or in seconds.
          at_end: whether to log at the end; then both intervals may be None.
          formatter: function from a dict of values by tags to a text.

        Raises:
          ValueError: if both intervals are given, or none and not `at_end`.
        """
        only_log_at_end = at_end and every_n_iter is None and every_n_secs is None
        if not only_log_at_end and (every_n_iter is None) == (every_n_secs is None):
            raise ValueError(
                "either at_end and/or exactly one of every_n_iter and every_n_secs must be provided."
            )
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError("invalid every_n_iter=%s." % every_n_iter)
        if not isinstance(tensors, dict):
            self._tag_order = tensors
            tensors = {item: item for item in tensors}
        else:
            self._tag_order = sorted(tensors.keys())
        self._tensors = tensors
        self._formatter = formatter
        self._timer: Any = (
            NeverTriggerTimer()
            if only_log_at_end
            else SecondOrStepTimer(every_secs=every_n_secs, every_steps=every_n_iter)
        )
        self._log_at_end = at_end

    def begin(self) -> None:
        self._timer.reset()
        self._iter_count = 0
        self._current_tensors = {tag: _as_graph_element(tensor) for tag, tensor in self._tensors.items()}

    def before_run(self, run_context: Any) -> Any:
        self._should_trigger = self._timer.should_trigger_for_step(self._iter_count)
        return SessionRunArgs(self._current_tensors) if self._should_trigger else None

    def _log_tensors(self, tensor_values: Any) -> None:
        elapsed_secs, _ = self._timer.update_last_triggered_step(self._iter_count)
        if self._formatter:
            logging.info(self._formatter(tensor_values))
            return
        text = ", ".join("%s = %s" % (tag, tensor_values[tag]) for tag in self._tag_order)
        if elapsed_secs is not None:
            logging.info("%s (%.3f sec)", text, elapsed_secs)
        else:
            logging.info("%s", text)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._should_trigger:
            self._log_tensors(run_values.results)
        self._iter_count += 1

    def end(self, session: Any) -> None:
        if self._log_at_end:
            self._log_tensors(session.run(self._current_tensors))


class StopAtStepHook(SessionRunHook):
    """Stops after a number of steps, or at a step."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        """Raises ValueError unless exactly one of the two is given."""
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError("Only one of num_steps or last_step can be specified.")
        self._num_steps = num_steps
        self._last_step = last_step

    def begin(self) -> None:
        self._global_step_tensor = training_util._get_or_create_global_step_read()
        if self._global_step_tensor is None:
            raise RuntimeError("Global step should be created to use StopAtStepHook.")

    def after_create_session(self, session: Any, coord: Any) -> None:
        # The last step is unchanged after a recovery.
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = int(session.run(self._global_step_tensor)) + self._num_steps

    def before_run(self, run_context: Any) -> Any:
        return SessionRunArgs(self._global_step_tensor)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        assert self._last_step is not None
        if run_values.results + 1 >= self._last_step:
            # The value may have been read before the update of the step: read it again.
            step = run_context.session.run(self._global_step_tensor)
            if step >= self._last_step:
                run_context.request_stop()


def get_or_create_steps_per_run_variable() -> Any:
    """The local int32 variable of the default graph with the number of steps of one run.

    Raises:
      RuntimeError: if the graph has more than one.
    """
    collection_name = "hooks_steps_per_run"
    found = ops.get_default_graph().get_collection(collection_name)
    if len(found) == 1:
        return found[0]
    if len(found) > 1:
        raise RuntimeError("Multiple steps_per_run_var in collection.")
    with variable_scope.variable_scope("hooks", reuse=variable_scope.AUTO_REUSE):
        return variable_scope.get_variable(
            "steps_per_run",
            initializer=init_ops.ones_initializer(),
            shape=[],
            dtype=dtypes.int32,
            trainable=False,
            collections=[collection_name, ops.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
        )


class _MultiStepStopAtStepHook(SessionRunHook):
    """StopAtStepHook for runs of several steps: the last run is limited to the remaining steps."""

    def __init__(
        self, num_steps: int | None = None, last_step: int | None = None, steps_per_run: int = 1
    ) -> None:
        """Raises ValueError unless exactly one of the first two is given, and `steps_per_run` is positive."""
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError("Only one of num_steps or last_step can be specified.")
        if steps_per_run is None or steps_per_run < 1:
            raise ValueError("steps_per_run should be greater than 0")
        self._num_steps = num_steps
        self._last_step = last_step
        self._steps_per_run_initial_value = steps_per_run

    def begin(self) -> None:
        self._global_step_tensor = training_util.get_global_step()
        if self._global_step_tensor is None:
            raise RuntimeError("Global step should be created to use StopAtStepHook.")
        self._steps_per_run_variable = get_or_create_steps_per_run_variable()

    def _update_steps_per_run_variable(self, global_step: Any, session: Any) -> None:
        assert self._last_step is not None
        steps = min(self._last_step - global_step, self._steps_per_run_initial_value)
        self._steps_per_run_variable.load(steps, session=session)

    def after_create_session(self, session: Any, coord: Any) -> None:
        global_step = int(session.run(self._global_step_tensor))
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = global_step + self._num_steps
        self._update_steps_per_run_variable(global_step, session)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        # The run may have done several steps: read the current one.
        global_step = int(run_context.session.run(self._global_step_tensor))
        assert self._last_step is not None
        if global_step >= self._last_step:
            run_context.request_stop()
        else:
            self._update_steps_per_run_variable(global_step, run_context.session)


class NanLossDuringTrainingError(RuntimeError):
    """Raised by NanTensorHook: the loss is NaN."""

    @property
    def message(self) -> str:
        """The text of the error."""
        return str(self)

    def __str__(self) -> str:
        return "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Stops, or raises an error, when the loss is NaN."""

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        """Makes the hook.

        Args:
          loss_tensor: scalar tensor of the loss.
          fail_on_nan_loss: whether to raise NanLossDuringTrainingError instead of requesting a stop.
        """
        self._loss_tensor = loss_tensor
        self._fail_on_nan_loss = fail_on_nan_loss

    def before_run(self, run_context: Any) -> Any:
        return SessionRunArgs(self._loss_tensor)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        import numpy as np

        if np.isnan(run_values.results):
            failure_message = "Model diverged with loss = NaN."
            if self._fail_on_nan_loss:
                logging.error(failure_message)
                raise NanLossDuringTrainingError
            logging.warning(failure_message)
            run_context.request_stop()


class GlobalStepWaiterHook(SessionRunHook):
    """Delays a worker until the global step reaches `wait_until_step`, so that workers start in turn."""

    def __init__(self, wait_until_step: int) -> None:
        self._wait_until_step = wait_until_step

    def begin(self) -> None:
        self._worker_is_started = False
        self._global_step_tensor = training_util._get_or_create_global_step_read()
        if self._global_step_tensor is None:
            raise RuntimeError("Global step should be created to use _GlobalStepWaiterHook.")

    def before_run(self, run_context: Any) -> Any:
        if self._worker_is_started:
            return None
        if self._wait_until_step <= 0:
            self._worker_is_started = True
            return None
        logging.info("Waiting for global step %d before starting training.", self._wait_until_step)
        last_logged_step = 0
        while True:
            current_step = run_context.session.run(self._global_step_tensor)
            if current_step >= self._wait_until_step:
                self._worker_is_started = True
                return None
            if current_step - last_logged_step > 1000:
                logging.info(
                    "Waiting for global step %d before starting training. Current step is %d.",
                    self._wait_until_step,
                    current_step,
                )
                last_logged_step = current_step
            time.sleep(0.5)


class FinalOpsHook(SessionRunHook):
    """Evaluates tensors at the end; their values are then `final_ops_values`."""

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None) -> None:
        """Makes the hook.

        Args:
          final_ops: tensors in any structure.
          final_ops_feed_dict: values fed when they are evaluated.
        """
        self._final_ops = final_ops
        self._final_ops_feed_dict = final_ops_feed_dict
        self._final_ops_values: Any = None

    @property
    def final_ops_values(self) -> Any:
        return self._final_ops_values

    def end(self, session: Any) -> None:
        if self._final_ops is not None:
            try:
                self._final_ops_values = session.run(self._final_ops, feed_dict=self._final_ops_feed_dict)
            except (errors.OutOfRangeError, StopIteration) as e:
                logging.warning(
                    "An OutOfRangeError or StopIteration exception is raised by the code in FinalOpsHook."
                    " This typically means the Ops running by the FinalOpsHook have a dependency back to some"
                    " input source, which should not happen. For example, for metrics in"
                    " tf.estimator.Estimator, all metrics functions return two Ops: `value_op` and"
                    " `update_op`. Estimator.evaluate calls the `update_op` for each batch of the data in"
                    " input source and, once it is exhausted, it call the `value_op` to get the metric"
                    " values. The `value_op` here should have dependency back to variables reading only,"
                    " rather than reading another batch from input. Otherwise, the `value_op`, executed by"
                    " `FinalOpsHook`, triggers another data reading, which ends OutOfRangeError/StopIteration."
                    " Please fix that."
                )
                raise e


class FeedFnHook(SessionRunHook):
    """Feeds what a function returns, called before each run."""

    def __init__(self, feed_fn: Any) -> None:
        """Makes the hook.

        Args:
          feed_fn: function without arguments that returns a feed_dict.
        """
        self.feed_fn = feed_fn

    def before_run(self, run_context: Any) -> Any:
        return SessionRunArgs(fetches=None, feed_dict=self.feed_fn())
