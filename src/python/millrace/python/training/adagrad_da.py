# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Adagrad with dual averaging: sums of gradients and of their squares, with L1 and L2 penalties."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import constant_op
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import math_ops
from millrace.python.training import optimizer
from millrace.python.training import training_ops


class AdagradDAOptimizer(optimizer.Optimizer):
    """Adagrad dual averaging, for sparse linear models.

    Sums of gradients are kept, so that rows without recent gradients are regularised as well. Slots:
    `gradient_accumulator` and `gradient_squared_accumulator`. Reference: as in AdagradOptimizer.
    """

    def __init__(
        self,
        learning_rate: Any,
        global_step: Any,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "AdagradDA",
    ) -> None:
        """Makes the optimizer.

        Args:
          learning_rate: float or scalar tensor.
          global_step: the step counter, an integer scalar tensor.
          initial_gradient_squared_accumulator_value: a positive number.
          l1_regularization_strength, l2_regularization_strength: numbers of at least 0.
          use_locking, name: as in Optimizer.

        Raises:
          ValueError: if `initial_gradient_squared_accumulator_value` is not positive.
        """
        if initial_gradient_squared_accumulator_value <= 0.0:
            raise ValueError(
                "initial_gradient_squared_accumulator_value must be positive: %s"
                % initial_gradient_squared_accumulator_value
            )
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial_gradient_squared_accumulator_value = initial_gradient_squared_accumulator_value
        self._learning_rate_tensor: Any = None
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength
        self._global_step = global_step
        self._global_step_on_worker: Any = None

    def _create_slots(self, var_list: Any) -> None:
        for v in var_list:
            with ops.colocate_with(v):
                g_val = constant_op.constant(0.0, shape=v.get_shape(), dtype=v.dtype.base_dtype)
                gg_val = constant_op.constant(
                    self._initial_gradient_squared_accumulator_value,
                    shape=v.get_shape(),
                    dtype=v.dtype.base_dtype,
                )
            self._get_or_make_slot(v, g_val, "gradient_accumulator", self._name)
            self._get_or_make_slot(v, gg_val, "gradient_squared_accumulator", self._name)

    def _prepare(self) -> None:
        self._learning_rate_tensor = ops.convert_to_tensor(self._learning_rate, name="learning_rate")
        # The rule uses the number of this update, counted from one, read on the worker.
        with ops.colocate_with(self._learning_rate_tensor):
            self._global_step_on_worker = array_ops.identity(self._global_step) + 1

    def _step(self, var: Any) -> Any:
        with ops.device(var.device):
            return array_ops.identity(self._global_step_on_worker)

    def _regularization(self, dtype: Any) -> tuple[Any, Any, Any]:
        return (
            math_ops.cast(self._learning_rate_tensor, dtype),
            math_ops.cast(self._l1_regularization_strength, dtype),
            math_ops.cast(self._l2_regularization_strength, dtype),
        )

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        g_acc = self.get_slot(var, "gradient_accumulator")
        gg_acc = self.get_slot(var, "gradient_squared_accumulator")
        step = self._step(var)
        return training_ops.apply_adagrad_da(
            var,
            g_acc,
            gg_acc,
            grad,
            *self._regularization(var.dtype.base_dtype),
            step,
            use_locking=self._use_locking,
        )

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        g_acc = self.get_slot(handle, "gradient_accumulator")
        gg_acc = self.get_slot(handle, "gradient_squared_accumulator")
        step = self._step(handle)
        return training_ops.resource_apply_adagrad_da(
            handle.handle,
            g_acc.handle,
            gg_acc.handle,
            grad,
            *self._regularization(grad.dtype.base_dtype),
            step,
            use_locking=self._use_locking,
        )

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        g_acc = self.get_slot(var, "gradient_accumulator")
        gg_acc = self.get_slot(var, "gradient_squared_accumulator")
        step = self._step(var)
        return training_ops.sparse_apply_adagrad_da(
            var,
            g_acc,
            gg_acc,
            grad.values,
            grad.indices,
            *self._regularization(var.dtype.base_dtype),
            step,
            use_locking=self._use_locking,
        )

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        g_acc = self.get_slot(handle, "gradient_accumulator")
        gg_acc = self.get_slot(handle, "gradient_squared_accumulator")
        step = self._step(handle)
        return training_ops.resource_sparse_apply_adagrad_da(
            handle.handle,
            g_acc.handle,
            gg_acc.handle,
            grad,
            indices,
            *self._regularization(grad.dtype),
            step,
            use_locking=self._use_locking,
        )
