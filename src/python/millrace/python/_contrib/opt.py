# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Optimizers of tf.contrib.opt."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import array_ops, control_flow_ops, math_ops, resource_variable_ops, state_ops
from millrace.python.ops import variables
from millrace.python.training import adam, momentum, moving_averages, optimizer, saver, training_ops
from millrace.python.training.saving import saveable_object_util

_kernels: Any = training_ops


def _scatter(kind: str, var: Any, indices: Any, values: Any, use_locking: bool) -> Any:
    """Changes rows of a variable or slot; returns a tensor or variable with its new value."""
    if resource_variable_ops.is_resource_variable(var):
        change = getattr(resource_variable_ops, "resource_scatter_" + kind)(var.handle, indices, values)
        with ops.control_dependencies([change]):
            return var.read_value()
    return getattr(state_ops, "scatter_" + kind)(var, indices, values, use_locking=use_locking)


class LazyAdamOptimizer(adam.AdamOptimizer):
    """Adam that updates the means only of the rows in a sparse gradient."""

    def _apply_sparse_shared(self, grad: Any, var: Any, indices: Any, scatter_add: Any) -> Any:
        dtype = var.dtype.base_dtype
        beta1_power, beta2_power = (math_ops.cast(p, dtype) for p in self._get_beta_accumulators())
        beta1, beta2 = math_ops.cast(self._beta1_t, dtype), math_ops.cast(self._beta2_t, dtype)
        rate = math_ops.cast(self._lr_t, dtype) * math_ops.sqrt(1 - beta2_power) / (1 - beta1_power)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        m_rows = beta1 * array_ops.gather(m, indices) + (1 - beta1) * grad
        v_rows = beta2 * array_ops.gather(v, indices) + (1 - beta2) * math_ops.square(grad)
        step = rate * m_rows / (math_ops.sqrt(v_rows) + math_ops.cast(self._epsilon_t, dtype))
        m_t = _scatter("update", m, indices, m_rows, self._use_locking)
        v_t = _scatter("update", v, indices, v_rows, self._use_locking)
        return control_flow_ops.group(_scatter("sub", var, indices, step, self._use_locking), m_t, v_t)


class NadamOptimizer(adam.AdamOptimizer):
    """Adam with Nesterov's momentum.

    Reference: Dozat, "Incorporating Nesterov Momentum into Adam", ICLR workshop 2016.
    """

    def _numbers(self, dtype: Any) -> list[Any]:
        powers = self._get_beta_accumulators()
        numbers = [*powers, self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t]
        return [math_ops.cast(number, dtype) for number in numbers]

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        slots = [self.get_slot(var, name) for name in ("m", "v")]
        inputs: Any = [var, *slots, *self._numbers(var.dtype.base_dtype), grad]
        return _kernels.apply_adam(*inputs, use_locking=self._use_locking, use_nesterov=True).op

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        slots = [self.get_slot(handle, name).handle for name in ("m", "v")]
        inputs: Any = [handle.handle, *slots, *self._numbers(grad.dtype.base_dtype), grad]
        return _kernels.resource_apply_adam(*inputs, use_locking=self._use_locking, use_nesterov=True)

    def _apply_sparse_shared(self, grad: Any, var: Any, indices: Any, scatter_add: Any) -> Any:
        beta1_power, beta2_power, rate, beta1, beta2, epsilon = self._numbers(var.dtype.base_dtype)
        rate = rate * math_ops.sqrt(1 - beta2_power) / (1 - beta1_power)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        scaled = grad * (1 - beta1)
        with ops.control_dependencies([state_ops.assign(m, m * beta1, use_locking=self._use_locking)]):
            m_t = scatter_add(m, indices, scaled)
        m_bar = scaled + beta1 * array_ops.gather(m_t, indices)
        with ops.control_dependencies([state_ops.assign(v, v * beta2, use_locking=self._use_locking)]):
            v_t = scatter_add(v, indices, grad * grad * (1 - beta2))
        root = math_ops.sqrt(array_ops.gather(v_t, indices))
        return control_flow_ops.group(scatter_add(var, indices, -rate * m_bar / (root + epsilon)), m_bar, v_t)


class AdaMaxOptimizer(adam.AdamOptimizer):
    """Adam with the largest decayed gradient instead of the mean of squares.

    Reference: Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, chapter 7.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "AdaMax",
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)

    def _power(self) -> Any:
        return self._get_non_slot_variable("beta1_power", graph=ops.get_default_graph())

    def _create_slots(self, var_list: Any) -> None:
        first_var = min(var_list, key=lambda x: str(x.name))
        self._create_non_slot_variable(initial_value=self._beta1, name="beta1_power", colocate_with=first_var)
        for v in var_list:
            self._zeros_slot(v, "m", self._name)
            self._zeros_slot(v, "v", self._name)

    def _numbers(self, dtype: Any) -> list[Any]:
        numbers = [self._power(), self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t]
        return [math_ops.cast(number, dtype) for number in numbers]

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        slots = [self.get_slot(var, name) for name in ("m", "v")]
        inputs: Any = [var, *slots, *self._numbers(var.dtype.base_dtype), grad]
        return _kernels.apply_ada_max(*inputs, use_locking=self._use_locking).op

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        slots = [self.get_slot(handle, name).handle for name in ("m", "v")]
        inputs: Any = [handle.handle, *slots, *self._numbers(grad.dtype.base_dtype), grad]
        return _kernels.resource_apply_ada_max(*inputs, use_locking=self._use_locking)

    def _apply_sparse_shared(self, grad: Any, var: Any, indices: Any, scatter_add: Any) -> Any:
        power, rate, beta1, beta2, epsilon = self._numbers(var.dtype.base_dtype)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        m_rows = array_ops.gather(m, indices) * beta1 + grad * (1 - beta1)
        v_rows = math_ops.maximum(array_ops.gather(v, indices) * beta2, math_ops.abs(grad))
        m_t = _scatter("update", m, indices, m_rows, self._use_locking)
        v_t = _scatter("update", v, indices, v_rows, self._use_locking)
        step = -rate / (1 - power) * (m_rows / (v_rows + epsilon))
        return control_flow_ops.group(scatter_add(var, indices, step), m_t, v_t)

    def _finish(self, update_ops: Any, name_scope: str) -> Any:
        with ops.control_dependencies(update_ops):
            power = self._power()
            with ops.colocate_with(power):
                update = power.assign(power * self._beta1_t, use_locking=self._use_locking)
        return control_flow_ops.group(*update_ops + [update], name=name_scope)


class DecoupledWeightDecayExtension:
    """Mixin for optimizers: subtracts `weight_decay` times each variable before the optimizer's step.

    Reference: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019.
    """

    def __init__(self, weight_decay: Any, **kwargs: Any) -> None:
        """Keeps the arguments.

        Args:
          weight_decay: a number, tensor or callable without arguments.
          **kwargs: further arguments of the optimizer.
        """
        self._decay_var_list: Any = None
        self._weight_decay = weight_decay
        self._weight_decay_tensor: Any = None
        super().__init__(**kwargs)

    def minimize(self, loss: Any, *args: Any, decay_var_list: Any = None, **kwargs: Any) -> Any:
        """As the optimizer's; only variables of `decay_var_list` decay, if it is given."""
        self._decay_var_list = list(decay_var_list) if decay_var_list else None
        return super().minimize(loss, *args, **kwargs)  # type: ignore[misc]

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Any = None, decay_var_list: Any = None
    ) -> Any:
        """As the optimizer's; only variables of `decay_var_list` decay, if it is given."""
        if decay_var_list:
            self._decay_var_list = list(decay_var_list)
        return super().apply_gradients(grads_and_vars, global_step=global_step, name=name)  # type: ignore[misc]

    def _prepare(self) -> None:
        decay = self._weight_decay() if callable(self._weight_decay) else self._weight_decay
        self._weight_decay_tensor = ops.convert_to_tensor(decay, name="weight_decay")
        super()._prepare()  # type: ignore[misc]

    def _decays(self, var: Any) -> bool:
        return self._decay_var_list is None or any(v is var for v in self._decay_var_list)

    def _decay(self, var: Any, indices: Any = None) -> Any:
        locking = self._use_locking  # type: ignore[attr-defined]
        share = math_ops.cast(self._weight_decay_tensor, var.dtype.base_dtype)
        if not self._decays(var):
            return control_flow_ops.no_op()
        if indices is None:
            return var.assign_sub(share * var, locking)
        return _scatter("sub", var, indices, share * array_ops.gather(var, indices), locking)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        with ops.control_dependencies([self._decay(var)]):
            return super()._apply_dense(grad, var)  # type: ignore[misc]

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        with ops.control_dependencies([self._decay(handle)]):
            return super()._resource_apply_dense(grad, handle)  # type: ignore[misc]

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        with ops.control_dependencies([self._decay(var, grad.indices)]):
            return super()._apply_sparse(grad, var)  # type: ignore[misc]

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        with ops.control_dependencies([self._decay(handle, indices)]):
            return super()._resource_apply_sparse(grad, handle, indices)  # type: ignore[misc]


def extend_with_decoupled_weight_decay(base_optimizer: Any) -> Any:
    """Returns a subclass of `base_optimizer` with `weight_decay` as additional first argument."""

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):  # type: ignore[misc]
        """The optimizer with decoupled weight decay."""

        def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any) -> None:
            self._decay_var_list = None
            self._weight_decay = weight_decay
            self._weight_decay_tensor = None
            base_optimizer.__init__(self, *args, **kwargs)

    return OptimizerWithDecoupledWeightDecay


class AdamWOptimizer(DecoupledWeightDecayExtension, adam.AdamOptimizer):
    """Adam with decoupled weight decay."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "AdamW",
    ) -> None:
        super().__init__(
            weight_decay, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon,
            use_locking=use_locking, name=name,
        )  # fmt: skip


class MomentumWOptimizer(DecoupledWeightDecayExtension, momentum.MomentumOptimizer):
    """Momentum with decoupled weight decay."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "MomentumW",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(
            weight_decay, learning_rate=learning_rate, momentum=momentum, use_locking=use_locking, name=name,
            use_nesterov=use_nesterov,
        )  # fmt: skip


class MovingAverageOptimizer(optimizer.Optimizer):
    """Keeps moving averages of the variables that another optimizer trains."""

    def __init__(
        self,
        opt: Any,
        average_decay: float = 0.9999,
        num_updates: Any = None,
        sequential_update: bool = True,
    ) -> None:
        """Makes the optimizer.

        Args:
          opt: the optimizer to wrap.
          average_decay, num_updates: arguments of ExponentialMovingAverage.
          sequential_update: whether averages are updated after the step, from the new values.
        """
        super().__init__(False, "MovingAverageOptimizer")
        self._optimizer = opt
        self._ema = moving_averages.ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._swapped_variable_name_map: dict[str, str] | None = None
        self._sequential_update = sequential_update

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: Any = None) -> Any:
        grads_and_vars = list(grads_and_vars)
        train_op = self._optimizer.apply_gradients(grads_and_vars, global_step=global_step, name=name)
        var_list = [var for grad, var in grads_and_vars if grad is not None]
        with ops.control_dependencies([train_op] if self._sequential_update else []):
            average_op = self._ema.apply(var_list)
        self._swapped_variable_name_map = {}
        for v in var_list:
            average = self._ema.average(v)
            self._swapped_variable_name_map[v.op.name] = average.op.name
            self._swapped_variable_name_map[average.op.name] = v.op.name
        return control_flow_ops.group(train_op, average_op, name="train_with_avg")

    def variables(self) -> list[Any]:
        return list(self._optimizer.variables())

    def get_slot(self, var: Any, name: str) -> Any:
        return self._optimizer.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        return list(self._optimizer.get_slot_names())

    def swapping_saver(self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any) -> Any:
        """Returns a Saver that saves averages under the names of their variables, and the other way round.

        Raises:
          RuntimeError: before `apply_gradients`.
          ValueError: only one of a variable and its average is saved.
        """
        if self._swapped_variable_name_map is None:
            raise RuntimeError("Must call apply_gradients or minimize before creating the swapping_saver")
        if var_list is None:
            var_list = variables.global_variables()
        if not isinstance(var_list, dict):
            var_list = saveable_object_util.op_list_to_dict(var_list, convert_variable_to_tensor=False)
        by_name = {v.op.name: v for vs in var_list.values() for v in (vs if isinstance(vs, list) else [vs])}

        def swapped(v: Any) -> Any:
            other = (self._swapped_variable_name_map or {}).get(v.op.name, v.op.name)
            if other not in by_name:
                raise ValueError("Variable to swap %s is not part of variables to save." % other)
            return by_name[other]

        swapped_list = {
            key: [swapped(v) for v in vs] if isinstance(vs, list) else swapped(vs)
            for key, vs in var_list.items()
        }
        return saver.Saver(swapped_list, name=name, **kwargs)
