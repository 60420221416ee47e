# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Training loops of tf.contrib.slim.learning and tf.contrib.slim.evaluation."""
from __future__ import annotations

import os
import sys
import time
from typing import Any

from millrace.core.protobuf import config_pb2
from millrace.python._contrib import training as training_lib
from millrace.python._contrib.training import (  # noqa: F401
    add_gradients_summaries,
    clip_gradient_norms,
    multiply_gradients,
)
from millrace.python.client import timeline
from millrace.python.framework import constant_op, errors, ops
from millrace.python.lib.io import file_io
from millrace.python.ops import control_flow_ops, lookup_ops, math_ops, variables
from millrace.python.platform import tf_logging as logging
from millrace.python.summary import summary
from millrace.python.training import (
    monitored_session,
    optimizer as tf_optimizer,
    saver as tf_saver,
    supervisor,
    sync_replicas_optimizer,
    training_util,
)

_USE_DEFAULT: Any = 0


def create_train_op(
    total_loss: Any, optimizer: Any, global_step: Any = training_lib._USE_GLOBAL_STEP, update_ops: Any = None,
    variables_to_train: Any = None, clip_gradient_norm: float = 0, summarize_gradients: bool = False,
    gate_gradients: int = tf_optimizer.Optimizer.GATE_OP, aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False, gradient_multipliers: Any = None, check_numerics: bool = True,
) -> Any:  # fmt: skip
    """Returns a training op whose value is the loss; see tf.contrib.training.create_train_op.

    Args:
      clip_gradient_norm: the maximum norm of each gradient; 0: no limit.
      gradient_multipliers: factors by variables or their names.
    """

    def transform_grads_fn(grads: Any) -> Any:
        if gradient_multipliers:
            with ops.name_scope("multiply_grads"):
                grads = multiply_gradients(grads, gradient_multipliers)
        if clip_gradient_norm > 0:
            with ops.name_scope("clip_grads"):
                grads = clip_gradient_norms(grads, clip_gradient_norm)
        return grads

    return training_lib.create_train_op(
        total_loss=total_loss, optimizer=optimizer, global_step=global_step, update_ops=update_ops,
        variables_to_train=variables_to_train, transform_grads_fn=transform_grads_fn,
        summarize_gradients=summarize_gradients, gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops, check_numerics=check_numerics,
    )  # fmt: skip


def _wait_for_step(sess: Any, global_step: Any, step: int) -> None:
    """Returns when the global step has been reached."""
    while training_util.global_step(sess, global_step) < step:
        time.sleep(1.0)


def train_step(sess: Any, train_op: Any, global_step: Any, train_step_kwargs: Any) -> tuple[Any, bool]:
    """One step: the loss, and whether training ends.

    Args:
      train_step_kwargs: a dict with any of "should_log", "should_trace", "logdir", "summary_writer",
        "should_stop".
    """
    start_time = time.time()
    options = metadata = None
    if "should_trace" in train_step_kwargs:
        if "logdir" not in train_step_kwargs:
            raise ValueError("logdir must be present in train_step_kwargs when should_trace is present")
        if sess.run(train_step_kwargs["should_trace"]):
            options = config_pb2.RunOptions(trace_level=config_pb2.RunOptions.FULL_TRACE)
            metadata = config_pb2.RunMetadata()
    total_loss, np_global_step = sess.run([train_op, global_step], options=options, run_metadata=metadata)
    time_elapsed = time.time() - start_time
    if metadata is not None:
        trace = timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()
        path = os.path.join(train_step_kwargs["logdir"], "tf_trace-%d.json" % np_global_step)
        file_io.write_string_to_file(path, trace)
        if "summary_writer" in train_step_kwargs:
            train_step_kwargs["summary_writer"].add_run_metadata(metadata, "run_metadata-%d" % np_global_step)
    if "should_log" in train_step_kwargs and sess.run(train_step_kwargs["should_log"]):
        logging.info("global step %d: loss = %.4f (%.3f sec/step)", np_global_step, total_loss, time_elapsed)
    if "should_stop" in train_step_kwargs:
        return total_loss, bool(sess.run(train_step_kwargs["should_stop"]))
    return total_loss, False


def _step_arguments(
    global_step: Any, number_of_steps: Any, log_every_n_steps: int, trace_every_n_steps: Any, logdir: Any
) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    with ops.name_scope("train_step"):
        if number_of_steps:
            arguments["should_stop"] = math_ops.greater_equal(global_step, number_of_steps)
        else:
            arguments["should_stop"] = constant_op.constant(False)
        if log_every_n_steps > 0:
            arguments["should_log"] = math_ops.equal(math_ops.mod(global_step, log_every_n_steps), 0)
        if trace_every_n_steps is not None:
            arguments["should_trace"] = math_ops.equal(math_ops.mod(global_step, trace_every_n_steps), 0)
            arguments["logdir"] = logdir
    return arguments


def _check_arguments(
    train_op: Any, logdir: Any, summary_op: Any, saver: Any, trace_every_n_steps: Any, sync_optimizer: Any,
    startup_delay_steps: int,
) -> None:  # fmt: skip
    if train_op is None:
        raise ValueError("train_op cannot be None.")
    if logdir is None:
        if summary_op != _USE_DEFAULT:
            raise ValueError("Cannot provide summary_op because logdir=None")
        if saver is not None:
            raise ValueError("Cannot provide saver because logdir=None")
        if trace_every_n_steps is not None:
            raise ValueError("Cannot provide trace_every_n_steps because logdir=None")
    if sync_optimizer is not None and startup_delay_steps > 0:
        raise ValueError("startup_delay_steps must be zero when sync_optimizer is supplied.")
    for opt in sync_optimizer or ():
        if not isinstance(opt, sync_replicas_optimizer.SyncReplicasOptimizer):
            raise ValueError("`sync_optimizer` must be a tf.train.SyncReplicasOptimizer.")


def _local_init(local_init_op: Any, sync_optimizer: Any, is_chief: bool) -> tuple[Any, Any]:
    """The op that initializes local variables and tables, and the op that returns whether it can run."""
    if local_init_op == _USE_DEFAULT:
        local_init_op = control_flow_ops.group(
            variables.local_variables_initializer(), lookup_ops.tables_initializer()
        )
    if sync_optimizer is None:
        return local_init_op, None
    first = sync_optimizer[0]
    with ops.control_dependencies([local_init_op] if local_init_op is not None else []):
        local_init_op = first.chief_init_op if is_chief else first.local_step_init_op
    return local_init_op, first.ready_for_local_init_op


def train(
    train_op: Any, logdir: Any, train_step_fn: Any = train_step, train_step_kwargs: Any = _USE_DEFAULT,
    log_every_n_steps: int = 1, graph: Any = None, master: str = "", is_chief: bool = True,
    global_step: Any = None,
    number_of_steps: Any = None, init_op: Any = _USE_DEFAULT, init_feed_dict: Any = None,
    local_init_op: Any = _USE_DEFAULT,
    init_fn: Any = None, ready_op: Any = _USE_DEFAULT, summary_op: Any = _USE_DEFAULT,
    save_summaries_secs: int = 600,
    summary_writer: Any = _USE_DEFAULT, startup_delay_steps: int = 0, saver: Any = None,
    save_interval_secs: int = 600,
    sync_optimizer: Any = None, session_config: Any = None, session_wrapper: Any = None,
    trace_every_n_steps: Any = None,
    ignore_live_threads: bool = False,
) -> Any:  # fmt: skip
    """Runs a training loop under a Supervisor; returns the last loss.

    Args:
      train_op: the op to run, whose value is the loss.
      logdir: folder of checkpoints and summaries; None: none are written.
      train_step_fn, train_step_kwargs: a step (see `train_step`) and its arguments.
      number_of_steps: the global step at which training ends; None: no limit.
      startup_delay_steps: the global step that workers other than the chief wait for.
      The others are those of Supervisor and its managed_session.

    Raises:
      ValueError: if an argument is missing or invalid.
    """
    if isinstance(sync_optimizer, sync_replicas_optimizer.SyncReplicasOptimizer):
        sync_optimizer = [sync_optimizer]
    _check_arguments(
        train_op, logdir, summary_op, saver, trace_every_n_steps, sync_optimizer, startup_delay_steps
    )
    if number_of_steps is not None and number_of_steps <= 0:
        raise ValueError("`number_of_steps` must be either None or a positive number.")
    graph = graph or ops.get_default_graph()
    with graph.as_default():
        if global_step is None:
            global_step = training_util.get_or_create_global_step()
        saver = saver or tf_saver.Saver()
        with ops.name_scope("init_ops"):
            if init_op == _USE_DEFAULT:
                init_op = variables.global_variables_initializer()
            if ready_op == _USE_DEFAULT:
                ready_op = variables.report_uninitialized_variables()
            local_init_op, ready_for_local_init_op = _local_init(local_init_op, sync_optimizer, is_chief)
        if summary_op == _USE_DEFAULT:
            summary_op = summary.merge_all()
        if summary_writer == _USE_DEFAULT:
            summary_writer = supervisor.Supervisor.USE_DEFAULT
        if is_chief and sync_optimizer is not None:
            runners = [opt.get_chief_queue_runner() for opt in sync_optimizer]
            tokens = [opt.get_init_tokens_op() for opt in sync_optimizer]
        else:
            runners, tokens = [], []
        if train_step_kwargs == _USE_DEFAULT:
            train_step_kwargs = _step_arguments(
                global_step, number_of_steps, log_every_n_steps, trace_every_n_steps, logdir
            )
    sv = supervisor.Supervisor(
        graph=graph, is_chief=is_chief, logdir=logdir, init_op=init_op, init_feed_dict=init_feed_dict,
        local_init_op=local_init_op, ready_for_local_init_op=ready_for_local_init_op, ready_op=ready_op,
        summary_op=summary_op, summary_writer=summary_writer, global_step=global_step, saver=saver,
        save_summaries_secs=save_summaries_secs, save_model_secs=save_interval_secs, init_fn=init_fn,
    )  # fmt: skip
    if summary_writer is not None:
        train_step_kwargs["summary_writer"] = sv.summary_writer
    total_loss = None
    should_retry = True
    while should_retry:
        should_retry = False
        try:
            with sv.managed_session(master, start_standard_services=False, config=session_config) as sess:
                logging.info("Starting Session.")
                if session_wrapper is not None:
                    sess = session_wrapper(sess)
                if is_chief:
                    if logdir:
                        sv.start_standard_services(sess)
                elif startup_delay_steps > 0:
                    limit = sys.maxsize if number_of_steps is None else number_of_steps
                    _wait_for_step(sess, global_step, min(startup_delay_steps, limit))
                sv.start_queue_runners(sess)
                if is_chief and sync_optimizer is not None:
                    sv.start_queue_runners(sess, runners)
                    sess.run(tokens)
                total_loss = _loop(
                    sv, sess, train_op, global_step, train_step_fn, train_step_kwargs, number_of_steps
                )
                if logdir and sv.is_chief:
                    logging.info("Finished training! Saving model to disk.")
                    sv.saver.save(sess, sv.save_path, global_step=sv.global_step)
                    sv.stop(close_summary_writer=True, ignore_live_threads=ignore_live_threads)
        except errors.AbortedError:
            # A task of the cluster was restarted: make a new session.
            logging.info("Retrying training!")
            should_retry = True
    return total_loss


def _loop(
    sv: Any, sess: Any, train_op: Any, global_step: Any, step_fn: Any, arguments: Any, number_of_steps: Any
) -> Any:
    total_loss = None
    try:
        while not sv.should_stop():
            total_loss, should_stop = step_fn(sess, train_op, global_step, arguments)
            if should_stop:
                logging.info("Stopping Training.")
                sv.request_stop()
                break
    except errors.OutOfRangeError as e:
        logging.info("Caught OutOfRangeError. Stopping Training. %s", e)
    return total_loss


def evaluate_once(
    master: str, checkpoint_path: str, logdir: Any, num_evals: int = 1, initial_op: Any = None,
    initial_op_feed_dict: Any = None, eval_op: Any = None, eval_op_feed_dict: Any = None,
    final_op: Any = None,
    final_op_feed_dict: Any = None, summary_op: Any = _USE_DEFAULT, summary_op_feed_dict: Any = None,
    variables_to_restore: Any = None, session_config: Any = None, hooks: Any = None,
) -> Any:  # fmt: skip
    """Evaluates a checkpoint: runs `eval_op` `num_evals` times; returns the value of `final_op`."""
    if summary_op == _USE_DEFAULT:
        summary_op = summary.merge_all()
    all_hooks: list[Any] = [training_lib.StopAfterNEvalsHook(num_evals)]
    if summary_op is not None:
        all_hooks.append(
            training_lib.SummaryAtEndHook(
                log_dir=logdir, summary_op=summary_op, feed_dict=summary_op_feed_dict
            )
        )
    saver = tf_saver.Saver(variables_to_restore) if variables_to_restore is not None else None
    return training_lib.evaluate_once(
        checkpoint_path, master=master,
        scaffold=monitored_session.Scaffold(init_op=initial_op, init_feed_dict=initial_op_feed_dict, saver=saver),
        eval_ops=eval_op, feed_dict=eval_op_feed_dict, final_ops=final_op,
        final_ops_feed_dict=final_op_feed_dict,
        hooks=all_hooks + list(hooks or []), config=session_config,
    )  # fmt: skip


def evaluation_loop(
    master: str, checkpoint_dir: str, logdir: Any, num_evals: int = 1, initial_op: Any = None,
    initial_op_feed_dict: Any = None, init_fn: Any = None, eval_op: Any = None, eval_op_feed_dict: Any = None,
    final_op: Any = None, final_op_feed_dict: Any = None, summary_op: Any = _USE_DEFAULT,
    summary_op_feed_dict: Any = None,
    variables_to_restore: Any = None, eval_interval_secs: float = 60, max_number_of_evaluations: Any = None,
    session_config: Any = None, timeout: Any = None, timeout_fn: Any = None, hooks: Any = None,
) -> Any:  # fmt: skip
    """Evaluates each new checkpoint of a folder; returns the last value of `final_op`."""
    if summary_op == _USE_DEFAULT:
        summary_op = summary.merge_all()
    all_hooks: list[Any] = [training_lib.StopAfterNEvalsHook(num_evals)]
    if summary_op is not None:
        all_hooks.append(
            training_lib.SummaryAtEndHook(
                log_dir=logdir, summary_op=summary_op, feed_dict=summary_op_feed_dict
            )
        )
    saver = tf_saver.Saver(variables_to_restore) if variables_to_restore is not None else None
    return training_lib.evaluate_repeatedly(
        checkpoint_dir, master=master,
        scaffold=monitored_session.Scaffold(
            init_op=initial_op, init_feed_dict=initial_op_feed_dict, init_fn=init_fn, saver=saver
        ),
        eval_ops=eval_op, feed_dict=eval_op_feed_dict, final_ops=final_op,
        final_ops_feed_dict=final_op_feed_dict,
        eval_interval_secs=eval_interval_secs, hooks=all_hooks + list(hooks or []), config=session_config,
        max_number_of_evaluations=max_number_of_evaluations, timeout=timeout, timeout_fn=timeout_fn,
    )  # fmt: skip


wait_for_new_checkpoint = training_lib.wait_for_new_checkpoint
checkpoints_iterator = training_lib.checkpoints_iterator
