# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Evaluates checkpoints: ops that count evaluations, hooks that stop after some, and the loop around them."""

from __future__ import annotations

import math
import time
from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import init_ops
from millrace.python.ops import state_ops
from millrace.python.ops import variable_scope
from millrace.python.platform import tf_logging as logging
from millrace.python.training import basic_session_run_hooks
from millrace.python.training import monitored_session
from millrace.python.training import session_run_hook


def _get_or_create_eval_step() -> Any:
    """The local int64 variable `eval_step` of the default graph, made if it is missing.

    Raises:
      ValueError: if the graph has more than one.
    """
    graph = ops.get_default_graph()
    eval_steps = graph.get_collection(ops.GraphKeys.EVAL_STEP)
    if len(eval_steps) == 1:
        return eval_steps[0]
    if len(eval_steps) > 1:
        raise ValueError("Multiple tensors added to tf.GraphKeys.EVAL_STEP")
    return variable_scope.get_variable(
        "eval_step",
        shape=[],
        dtype=dtypes.int64,
        initializer=init_ops.zeros_initializer(),
        trainable=False,
        collections=[ops.GraphKeys.LOCAL_VARIABLES, ops.GraphKeys.EVAL_STEP],
    )


def _get_latest_eval_step_value(update_ops: Any) -> Any:
    """The evaluation step after all of `update_ops` ran."""
    if isinstance(update_ops, dict):
        update_ops = list(update_ops.values())
    with ops.control_dependencies(update_ops):
        return ops.convert_to_tensor(_get_or_create_eval_step().read_value())


class _StopAfterNEvalsHook(session_run_hook.SessionRunHook):
    """Stops after a number of evaluations, counted by the evaluation step."""

    def __init__(self, num_evals: int | None, log_progress: bool = True) -> None:
        """Makes the hook.

        Args:
          num_evals: number of evaluations, None for no limit.
          log_progress: whether to log the progress, about ten times in all.
        """
        self._num_evals = num_evals
        self._evals_completed: Any = None
        self._log_progress = log_progress
        self._log_frequency = 1 if num_evals is None or num_evals < 20 else math.floor(num_evals / 10.0)

    def _set_evals_completed_tensor(self, updated_eval_step: Any) -> None:
        self._evals_completed = updated_eval_step

    def before_run(self, run_context: Any) -> Any:
        return session_run_hook.SessionRunArgs({"evals_completed": self._evals_completed})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        evals_completed = run_values.results["evals_completed"]
        if self._log_progress:
            if self._num_evals is None:
                logging.info("Evaluation [%d]", evals_completed)
            elif evals_completed % self._log_frequency == 0 or self._num_evals == evals_completed:
                logging.info("Evaluation [%d/%d]", evals_completed, self._num_evals)
        if self._num_evals is not None and evals_completed >= self._num_evals:
            run_context.request_stop()


def _evaluate_once(
    checkpoint_path: str | None,
    master: str = "",
    scaffold: Any = None,
    eval_ops: Any = None,
    feed_dict: Any = None,
    final_ops: Any = None,
    final_ops_feed_dict: Any = None,
    hooks: Any = None,
    config: Any = None,
) -> Any:
    """Evaluates one checkpoint.

    Args:
      checkpoint_path: its prefix.
      master: target of the session.
      scaffold: Scaffold with the ops that initialize.
      eval_ops: op, or list, or dict of ops, run until a hook stops.
      feed_dict: values fed in runs of `eval_ops`.
      final_ops: tensors fetched at the end.
      final_ops_feed_dict: values fed in the run of `final_ops`.
      hooks: further SessionRunHooks.
      config: ConfigProto.

    Returns:
      The values of `final_ops`, or None.
    """
    eval_step = _get_or_create_eval_step()
    hooks = list(hooks or [])
    if eval_ops is not None:
        # The step counts each run of the ops.
        if isinstance(eval_ops, dict):
            eval_ops["update_eval_step"] = state_ops.assign_add(eval_step, 1)
        elif isinstance(eval_ops, (tuple, list)):
            eval_ops = list(eval_ops) + [state_ops.assign_add(eval_step, 1)]
        else:
            eval_ops = [eval_ops, state_ops.assign_add(eval_step, 1)]
        eval_step_value = _get_latest_eval_step_value(eval_ops)
        for h in hooks:
            if isinstance(h, _StopAfterNEvalsHook):
                h._set_evals_completed_tensor(eval_step_value)
    logging.info("Starting evaluation at " + time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    session_creator = monitored_session.ChiefSessionCreator(
        scaffold=scaffold, checkpoint_filename_with_path=checkpoint_path, master=master, config=config
    )
    final_ops_hook = basic_session_run_hooks.FinalOpsHook(final_ops, final_ops_feed_dict)
    hooks.append(final_ops_hook)
    with monitored_session.MonitoredSession(session_creator=session_creator, hooks=hooks) as session:
        if eval_ops is not None:
            while not session.should_stop():
                session.run(eval_ops, feed_dict)
    logging.info("Finished evaluation at " + time.strftime("%Y-%m-%d-%H:%M:%S", time.localtime()))
    return final_ops_hook.final_ops_values
