# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Training and evaluation of tf.contrib.training and tf.contrib.slim."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import constant_op, ops
from millrace.python.ops import array_ops, clip_ops, control_flow_ops, variables
from millrace.python.summary import summary
from millrace.python.training import (
    basic_session_run_hooks,
    checkpoint_utils,
    evaluation,
    monitored_session,
    optimizer as tf_optimizer,
    session_run_hook,
    training_util,
)

_USE_GLOBAL_STEP = 0


def add_gradients_summaries(grads_and_vars: Any) -> list[Any]:
    """Histograms and norms of gradients."""
    summaries = []
    for grad, var in grads_and_vars:
        if grad is None:
            continue
        values = grad.values if isinstance(grad, ops.IndexedSlices) else grad
        summaries.append(summary.histogram(var.op.name + "_gradient", values))
        summaries.append(summary.scalar(var.op.name + "_gradient_norm", clip_ops.global_norm([values])))
    return summaries


def clip_gradient_norms(gradients_to_variables: Any, max_norm: float) -> list[Any]:
    """The pairs, with each gradient's norm at most `max_norm`."""
    clipped = []
    for grad, var in gradients_to_variables:
        if grad is not None:
            if isinstance(grad, ops.IndexedSlices):
                grad = ops.IndexedSlices(
                    clip_ops.clip_by_norm(grad.values, max_norm), grad.indices, grad.dense_shape
                )
            else:
                grad = clip_ops.clip_by_norm(grad, max_norm)
        clipped.append((grad, var))
    return clipped


def clip_gradient_norms_fn(max_norm: float) -> Any:
    """A function for `transform_grads_fn`."""
    return lambda gradients: clip_gradient_norms(gradients, max_norm)


def multiply_gradients(grads_and_vars: Any, gradient_multipliers: Any) -> list[Any]:
    """The pairs, with gradients times factors by variables or their names.

    Raises:
      ValueError: for invalid arguments, or a variable without a gradient.
    """
    if not isinstance(grads_and_vars, list):
        raise ValueError("`grads_and_vars` must be a list.")
    if not gradient_multipliers:
        raise ValueError("`gradient_multipliers` is empty.")
    if not isinstance(gradient_multipliers, dict):
        raise ValueError("`gradient_multipliers` must be a dict.")
    by_ref = {(key if isinstance(key, str) else id(key)): f for key, f in gradient_multipliers.items()}
    result = []
    for grad, var in grads_and_vars:
        key = id(var) if id(var) in by_ref else var.op.name
        if key in by_ref:
            if grad is None:
                raise ValueError("Requested multiple of `None` gradient.")
            factor = by_ref[key]
            if not isinstance(factor, ops.Tensor):
                factor = constant_op.constant(factor, dtype=grad.dtype)
            if isinstance(grad, ops.IndexedSlices):
                grad = ops.IndexedSlices(grad.values * factor, grad.indices, grad.dense_shape)
            else:
                grad *= factor
        result.append((grad, var))
    return result


def create_train_op(
    total_loss: Any, optimizer: Any, global_step: Any = _USE_GLOBAL_STEP, update_ops: Any = None,
    variables_to_train: Any = None, transform_grads_fn: Any = None, summarize_gradients: bool = False,
    gate_gradients: int = tf_optimizer.Optimizer.GATE_OP, aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False, check_numerics: bool = True,
) -> Any:  # fmt: skip
    """Returns a training op whose value is the loss.

    Args:
      total_loss: a tensor.
      optimizer: an Optimizer.
      global_step: the variable; if not given, that of the graph, made if missing; None: none.
      update_ops: ops that run before; None: the collection UPDATE_OPS.
      variables_to_train: None: TRAINABLE_VARIABLES.
      transform_grads_fn: a function of the pairs of gradients and variables.
      summarize_gradients: whether there are summaries of gradients.
      gate_gradients, aggregation_method, colocate_gradients_with_ops: of compute_gradients.
      check_numerics: whether a loss that is Inf or NaN is an error.
    """
    if global_step is _USE_GLOBAL_STEP:
        global_step = training_util.get_or_create_global_step()
    global_update_ops = set(ops.get_collection(ops.GraphKeys.UPDATE_OPS))
    update_ops = global_update_ops if update_ops is None else set(update_ops)
    if not global_update_ops.issubset(update_ops):
        from millrace.python.platform import tf_logging as logging

        logging.warning(
            "update_ops in create_train_op does not contain all the update_ops in GraphKeys.UPDATE_OPS"
        )
    if update_ops:
        with ops.control_dependencies(update_ops):
            barrier = control_flow_ops.no_op(name="update_barrier")
        total_loss = control_flow_ops.with_dependencies([barrier], total_loss)
    if variables_to_train is None:
        variables_to_train = variables.trainable_variables()
    else:
        for v in variables_to_train:
            assert v.trainable or v in variables.trainable_variables()
    assert variables_to_train
    grads = optimizer.compute_gradients(
        total_loss, variables_to_train, gate_gradients=gate_gradients, aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
    )  # fmt: skip
    if transform_grads_fn:
        grads = transform_grads_fn(grads)
    if summarize_gradients:
        with ops.name_scope("summarize_grads"):
            add_gradients_summaries(grads)
    grad_updates = optimizer.apply_gradients(grads, global_step=global_step)
    with ops.name_scope("train_op"):
        if check_numerics:
            total_loss = array_ops.check_numerics(total_loss, "LossTensor is inf or nan")
        train_op = control_flow_ops.with_dependencies([grad_updates], total_loss)
    train_ops = ops.get_collection_ref(ops.GraphKeys.TRAIN_OP)
    if train_op not in train_ops:
        train_ops.append(train_op)
    return train_op


def train(
    train_op: Any, logdir: Any, master: str = "", is_chief: bool = True, scaffold: Any = None,
    hooks: Any = None,
    chief_only_hooks: Any = None, save_checkpoint_secs: Any = 600, save_summaries_steps: Any = 100,
    config: Any = None,
    max_wait_secs: int = 7200, run_metadata: Any = None,
) -> Any:  # fmt: skip
    """Runs a training op until a hook stops it; returns the last loss.

    Raises:
      ValueError: if `logdir` is None although checkpoints or summaries are to be written.
    """
    if logdir is None and is_chief:
        if save_summaries_steps:
            raise ValueError("logdir cannot be None when save_summaries_steps is not None")
        if save_checkpoint_secs:
            raise ValueError("logdir cannot be None when save_checkpoint_secs is not None")
    with monitored_session.MonitoredTrainingSession(
        master=master, is_chief=is_chief, checkpoint_dir=logdir, scaffold=scaffold, hooks=hooks,
        chief_only_hooks=chief_only_hooks, save_checkpoint_secs=save_checkpoint_secs,
        save_summaries_steps=save_summaries_steps, config=config, max_wait_secs=max_wait_secs,
    ) as session:  # fmt: skip
        loss = None
        while not session.should_stop():
            loss = session.run(train_op, run_metadata=run_metadata)
    return loss


StopAfterNEvalsHook = evaluation._StopAfterNEvalsHook
get_or_create_eval_step = evaluation._get_or_create_eval_step
evaluate_once = evaluation._evaluate_once
wait_for_new_checkpoint = checkpoint_utils.wait_for_new_checkpoint
checkpoints_iterator = checkpoint_utils.checkpoints_iterator


class SummaryAtEndHook(session_run_hook.SessionRunHook):
    """Writes summaries at the end of a session.

    Args:
      log_dir: the folder, or `summary_writer`.
      summary_writer: a writer.
      summary_op: the summaries; None: those of the graph.
      feed_dict: values fed when they are evaluated.
    """

    def __init__(
        self, log_dir: Any = None, summary_writer: Any = None, summary_op: Any = None, feed_dict: Any = None
    ) -> None:
        self._summary_op = summary_op
        self._replace_summary_op = summary_op is None
        self._feed_dict = feed_dict
        self._summary_writer = summary_writer
        self._log_dir = log_dir
        if self._log_dir is None and self._summary_writer is None:
            raise ValueError("One of log_dir or summary_writer should be used.")
        self._global_step: Any = None

    def begin(self) -> None:
        from millrace.python.summary.writer import writer_cache

        if self._replace_summary_op:
            self._summary_op = summary.merge_all()
        self._global_step = training_util.get_or_create_global_step()
        if self._summary_writer is None:
            self._summary_writer = writer_cache.FileWriterCache.get(self._log_dir)

    def end(self, session: Any) -> None:
        global_step = training_util.global_step(session, self._global_step)
        if self._summary_op is not None:
            self._summary_writer.add_summary(session.run(self._summary_op, self._feed_dict), global_step)
        if self._log_dir:
            self._summary_writer.flush()


def evaluate_repeatedly(
    checkpoint_dir: str, master: str = "", scaffold: Any = None, eval_ops: Any = None, feed_dict: Any = None,
    final_ops: Any = None, final_ops_feed_dict: Any = None, eval_interval_secs: float = 60, hooks: Any = None,
    config: Any = None, max_number_of_evaluations: Any = None, timeout: Any = None, timeout_fn: Any = None,
) -> Any:  # fmt: skip
    """Evaluates each new checkpoint of a folder; returns the last values of `final_ops`."""
    eval_step = evaluation._get_or_create_eval_step()
    hooks = list(hooks or [])
    if eval_ops is not None:
        update = _counted(eval_step)
        for hook in hooks:
            if isinstance(hook, evaluation._StopAfterNEvalsHook):
                hook._set_evals_completed_tensor(update)
        if isinstance(eval_ops, dict):
            eval_ops = dict(eval_ops, update_eval_step=update)
        elif isinstance(eval_ops, (tuple, list)):
            eval_ops = list(eval_ops) + [update]
        else:
            eval_ops = [eval_ops, update]
    final_ops_hook = basic_session_run_hooks.FinalOpsHook(final_ops, final_ops_feed_dict)
    hooks.append(final_ops_hook)
    count = 0
    for path in checkpoint_utils.checkpoints_iterator(
        checkpoint_dir, eval_interval_secs, timeout, timeout_fn
    ):
        creator = monitored_session.ChiefSessionCreator(
            scaffold=scaffold, checkpoint_filename_with_path=path, master=master, config=config
        )
        with monitored_session.MonitoredSession(session_creator=creator, hooks=hooks) as session:
            if eval_ops is not None:
                while not session.should_stop():
                    session.run(eval_ops, feed_dict)
        count += 1
        if max_number_of_evaluations is not None and count >= max_number_of_evaluations:
            break
    return final_ops_hook.final_ops_values


def _counted(eval_step: Any) -> Any:
    """The op that counts an evaluation."""
    from millrace.python.ops import state_ops

    return state_ops.assign_add(eval_step, constant_op.constant(1, dtype=eval_step.dtype.base_dtype))
