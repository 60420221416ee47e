# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""SyncReplicasOptimizer: gradients of several workers are averaged before they are applied."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import data_flow_ops
from millrace.python.ops import state_ops
from millrace.python.ops import variable_scope
from millrace.python.ops import variables
from millrace.python.platform import tf_logging as logging
from millrace.python.training import optimizer
from millrace.python.training import queue_runner
from millrace.python.training import session_manager
from millrace.python.training import session_run_hook
from millrace.python.training.chief_lease import ChiefLease

# How long a running step may continue after a stop, and the interval at which the chief's thread is polled.
_GRACE_SECS = 5.0
_PAUSE_SECS = 0.01


class SyncReplicasOptimizer(optimizer.Optimizer):
    """Wraps an optimizer: the chief applies the mean of `replicas_to_aggregate` gradients of each variable.

    Gradients that were computed from variables of an earlier step are dropped. After each update the chief puts
    tokens with the new step into a queue, and each worker takes one before its next step.
    """

    def __init__(
        self,
        opt: Any,
        replicas_to_aggregate: int,
        total_num_replicas: int | None = None,
        variable_averages: Any = None,
        variables_to_average: Any = None,
        use_locking: bool = False,
        name: str = "sync_replicas",
    ) -> None:
        """Makes the optimizer.

        Args:
          opt: the optimizer that applies the means.
          replicas_to_aggregate: the number of gradients in a mean.
          total_num_replicas: the number of workers, `replicas_to_aggregate` if None.
          variable_averages: ExponentialMovingAverage that is updated after each step, or None.
          variables_to_average: the variables of `variable_averages`.
          use_locking, name: as in Optimizer.
        """
        if total_num_replicas is None:
            total_num_replicas = replicas_to_aggregate
        super().__init__(use_locking, name)
        logging.info(
            "SyncReplicasV2: replicas_to_aggregate=%s; total_num_replicas=%s",
            replicas_to_aggregate,
            total_num_replicas,
        )
        self._opt = opt
        self._replicas_to_aggregate = replicas_to_aggregate
        self._gradients_applied = False
        self._variable_averages = variable_averages
        self._variables_to_average = variables_to_average
        self._total_num_replicas = total_num_replicas
        self._tokens_per_step = max(total_num_replicas, replicas_to_aggregate)
        self._global_step: Any = None
        self._sync_token_queue: Any = None
        self._chief_queue_runner: Any = None
        # Pairs (accumulator, device of its variable).
        self._accumulator_list: list[tuple[Any, Any]] = []

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Gradients, as the wrapped optimizer computes them."""
        return self._opt.compute_gradients(*args, **kwargs)

    def _aggregate(self, grads_and_vars: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """Makes accumulators; returns ops that add gradients to them, their means, the variables."""
        train_ops: list[Any] = []
        aggregated_grad: list[Any] = []
        var_list: list[Any] = []
        for grad, var in grads_and_vars:
            var_list.append(var)
            with ops.device(var.device):
                if grad is None:
                    aggregated_grad.append(None)
                    continue
                shape = var.get_shape()
                if isinstance(grad, ops.Tensor):
                    grad_accum: Any = data_flow_ops.ConditionalAccumulator(
                        grad.dtype, shape=shape, shared_name=var.name + "/grad_accum"
                    )
                    train_ops.append(grad_accum.apply_grad(grad, local_step=self._local_step))
                    aggregated_grad.append(grad_accum.take_grad(self._replicas_to_aggregate))
                else:
                    if not isinstance(grad, ops.IndexedSlices):
                        raise ValueError("Unknown grad type!")
                    grad_accum = data_flow_ops.SparseConditionalAccumulator(
                        grad.dtype, shape=(), shared_name=var.name + "/grad_accum"
                    )
                    train_ops.append(grad_accum.apply_indexed_slices_grad(grad, local_step=self._local_step))
                    aggregated_grad.append(grad_accum.take_indexed_slices_grad(self._replicas_to_aggregate))
                self._accumulator_list.append((grad_accum, var.device))
        return train_ops, aggregated_grad, var_list

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Adds the ops with which this worker submits gradients, and those with which the chief applies them.

        Args:
          grads_and_vars: as `compute_gradients` returns them.
          global_step: step counter; required.
          name: of the ops.

        Returns:
          The training op of a worker: it waits for the update.

        Raises:
          ValueError: if there are no gradients or no step.
        """
        if not grads_and_vars:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required to check staleness")
        self._global_step = global_step
        # On the worker's device: a variable on a parameter server would be shared by all workers.
        local_anchor = control_flow_ops.no_op()
        with ops.colocate_with(local_anchor):
            self._local_step = variable_scope.variable(
                initial_value=0,
                trainable=False,
                collections=[ops.GraphKeys.LOCAL_VARIABLES],
                dtype=global_step.dtype.base_dtype,
                name="sync_rep_local_step",
            )
        self.local_step_init_op = state_ops.assign(self._local_step, global_step)
        chief_init_ops = [self.local_step_init_op]
        self.ready_for_local_init_op = variables.report_uninitialized_variables(variables.global_variables())
        with ops.name_scope(None, self._name):
            train_ops, aggregated_grad, var_list = self._aggregate(grads_and_vars)
            aggregated_grads_and_vars = zip(aggregated_grad, var_list)
            # Tokens and their queue are on the device of the global step.
            with ops.device(global_step.device), ops.name_scope(""):
                update_op = self._opt.apply_gradients(aggregated_grads_and_vars, global_step)
            with ops.device(global_step.device), ops.name_scope(""):
                sync_token_queue = data_flow_ops.FIFOQueue(
                    -1,
                    global_step.dtype.base_dtype,
                    shapes=(),
                    name="sync_token_q",
                    shared_name="sync_token_q",
                )
                self._sync_token_queue = sync_token_queue
            with ops.device(global_step.device), ops.name_scope(""):
                # A worker's step: submit gradients, then take a token.
                with ops.control_dependencies(train_ops):
                    token = sync_token_queue.dequeue()
                train_op = state_ops.assign(self._local_step, token)
                with ops.control_dependencies([update_op]):
                    tokens = array_ops.fill([self._tokens_per_step], global_step.read_value())
                    sync_op = sync_token_queue.enqueue_many((tokens,))
                if self._variable_averages is not None:
                    with ops.control_dependencies([sync_op]), ops.name_scope(""):
                        sync_op = self._variable_averages.apply(self._variables_to_average)
            # The runner needs a queue for its close ops; it is not used otherwise.
            dummy_queue = data_flow_ops.FIFOQueue(
                1, [dtypes.int32], shapes=(), name="dummy_queue", shared_name="dummy_queue"
            )
            self._chief_queue_runner = queue_runner.QueueRunner(dummy_queue, [sync_op])
            for accum, dev in self._accumulator_list:
                with ops.device(dev):
                    chief_init_ops.append(accum.set_global_step(global_step, name="SetGlobalStep"))
            self.chief_init_op = control_flow_ops.group(*chief_init_ops)
            self._gradients_applied = True
            return train_op

    def get_chief_queue_runner(self) -> Any:
        """The runner that applies gradients, for the chief to start. Raises ValueError before apply_gradients."""
        if self._gradients_applied is False:
            raise ValueError("Should be called after apply_gradients().")
        return self._chief_queue_runner

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        return self._opt.get_slot(*args, **kwargs)

    def variables(self) -> Any:
        return self._opt.variables()

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        return self._opt.get_slot_names(*args, **kwargs)

    def get_init_tokens_op(self, num_tokens: int = -1) -> Any:
        """An op that puts the first tokens into the queue: enough for the first step of each worker if -1.

        Raises:
          ValueError: before apply_gradients, or if there are too few.
        """
        if self._gradients_applied is False:
            raise ValueError("get_init_tokens_op() should be called after apply_gradients().")
        tokens_needed = self._replicas_to_aggregate - self._total_num_replicas
        if num_tokens == -1:
            num_tokens = self._replicas_to_aggregate
        elif num_tokens < tokens_needed:
            raise ValueError(
                "Too few tokens to finish the first step: %d (given) vs %d (needed)"
                % (num_tokens, tokens_needed)
            )
        if num_tokens > 0:
            with ops.device(self._global_step.device), ops.name_scope(""):
                tokens = array_ops.fill([num_tokens], self._global_step)
                return self._sync_token_queue.enqueue_many((tokens,))
        return control_flow_ops.no_op(name="no_init_tokens")

    def make_session_run_hook(self, is_chief: bool, num_tokens: int = -1) -> Any:
        """The hook that a monitored session needs with this optimizer. `is_chief` may be a ChiefLease."""
        return _SyncReplicasOptimizerHook(self, is_chief, num_tokens)


class _SyncReplicasOptimizerHook(session_run_hook.SessionRunHook):
    """Initialises the step of a worker, and on the chief starts the runner and puts in the first tokens."""

    def __init__(self, sync_optimizer: Any, is_chief: bool, num_tokens: int) -> None:
        self._sync_optimizer = sync_optimizer
        self._is_chief = is_chief
        self._num_tokens = num_tokens
        self._in_run = False

    def begin(self) -> None:
        if self._sync_optimizer._gradients_applied is False:
            raise ValueError("SyncReplicasOptimizer.apply_gradient should be called before using the hook.")
        self._ready_for_local_init_op = self._sync_optimizer.ready_for_local_init_op
        self._tokens_op = None
        if self._is_chief or isinstance(self._is_chief, ChiefLease):
            self._tokens_op = self._sync_optimizer.get_init_tokens_op(self._num_tokens)
        self._choose_role()

    def _choose_role(self) -> None:
        if self._is_chief:
            self._local_init_op = self._sync_optimizer.chief_init_op
            self._q_runner = self._sync_optimizer.get_chief_queue_runner()
            self._init_tokens_op = self._tokens_op
        else:
            self._local_init_op = self._sync_optimizer.local_step_init_op
            self._q_runner = None
            self._init_tokens_op = None

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._choose_role()
        local_init_success, msg = session_manager._ready(
            self._ready_for_local_init_op, session, "Model is not ready for SyncReplicasOptimizer local init."
        )
        if not local_init_success:
            raise RuntimeError(
                "Init operations did not make model ready for SyncReplicasOptimizer local_init. Init op: %s,"
                " error: %s" % (self._local_init_op.name, msg)
            )
        session.run(self._local_init_op)
        if self._init_tokens_op is not None:
            session.run(self._init_tokens_op)
        self._in_run = False
        if self._q_runner is not None:
            updating = self._q_runner.create_threads(session, coord=coord, daemon=True, start=True)
            stopper = threading.Thread(
                target=self._cancel_on_stop, args=(session, coord, updating), name="SyncReplicas-cancel"
            )
            stopper.daemon = True
            coord.register_thread(stopper)
            stopper.start()

    def before_run(self, run_context: Any) -> None:
        self._in_run = True

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._in_run = False

    def _cancel_on_stop(self, session: Any, coord: Any, updating: Sequence[threading.Thread]) -> None:
        """Ends an update that waits for gradients and so does not see that the coordinator stops."""
        coord.wait_for_stop()
        stopped = time.monotonic()
        while any(thread.is_alive() for thread in updating):
            if not self._in_run or time.monotonic() - stopped > _GRACE_SECS:
                session._cancel_steps()
            time.sleep(_PAUSE_SECS)
