# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Proximal Adagrad: a step of Adagrad, then the proximal map of L1 and L2 penalties."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import constant_op
from millrace.python.framework import ops
from millrace.python.ops import math_ops
from millrace.python.training import optimizer
from millrace.python.training import training_ops


class ProximalAdagradOptimizer(optimizer.Optimizer):
    """Proximal Adagrad. Slot: `accumulator`. Reference: as in ProximalGradientDescentOptimizer."""

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ) -> None:
        """Makes the optimizer.

        Args:
          learning_rate: float or scalar tensor.
          initial_accumulator_value: a positive number.
          l1_regularization_strength, l2_regularization_strength: numbers of at least 0.
          use_locking, name: as in Optimizer.

        Raises:
          ValueError: if `initial_accumulator_value` is not positive.
        """
        if initial_accumulator_value <= 0.0:
            raise ValueError("initial_accumulator_value must be positive: %s" % initial_accumulator_value)
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial_accumulator_value = initial_accumulator_value
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength
        self._l1_regularization_strength_tensor: Any = None
        self._l2_regularization_strength_tensor: Any = None
        self._learning_rate_tensor: Any = None

    def _create_slots(self, var_list: Any) -> None:
        for v in var_list:
            with ops.colocate_with(v):
                val = constant_op.constant(
                    self._initial_accumulator_value, shape=v.get_shape(), dtype=v.dtype.base_dtype
                )
            self._get_or_make_slot(v, val, "accumulator", self._name)

    def _prepare(self) -> None:
        self._learning_rate_tensor = ops.convert_to_tensor(self._learning_rate, name="learning_rate")
        self._l1_regularization_strength_tensor = ops.convert_to_tensor(
            self._l1_regularization_strength, name="l1_regularization_strength"
        )
        self._l2_regularization_strength_tensor = ops.convert_to_tensor(
            self._l2_regularization_strength, name="l2_regularization_strength"
        )

    def _penalties(self) -> tuple[Any, Any]:
        return self._l1_regularization_strength_tensor, self._l2_regularization_strength_tensor

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        l1, l2 = self._penalties()
        return training_ops.apply_proximal_adagrad(
            var,
            self.get_slot(var, "accumulator"),
            math_ops.cast(self._learning_rate_tensor, var.dtype.base_dtype),
            math_ops.cast(l1, var.dtype.base_dtype),
            math_ops.cast(l2, var.dtype.base_dtype),
            grad,
            use_locking=self._use_locking,
        )

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        l1, l2 = self._penalties()
        return training_ops.resource_apply_proximal_adagrad(
            handle.handle,
            self.get_slot(handle, "accumulator").handle,
            math_ops.cast(self._learning_rate_tensor, grad.dtype.base_dtype),
            math_ops.cast(l1, grad.dtype.base_dtype),
            math_ops.cast(l2, grad.dtype.base_dtype),
            grad,
            use_locking=self._use_locking,
        )

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        l1, l2 = self._penalties()
        return training_ops.sparse_apply_proximal_adagrad(
            var,
            self.get_slot(var, "accumulator"),
            math_ops.cast(self._learning_rate_tensor, var.dtype.base_dtype),
            math_ops.cast(l1, var.dtype.base_dtype),
            math_ops.cast(l2, var.dtype.base_dtype),
            grad.values,
            grad.indices,
            use_locking=self._use_locking,
        )

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        l1, l2 = self._penalties()
        return training_ops.resource_sparse_apply_proximal_adagrad(
            handle.handle,
            self.get_slot(handle, "accumulator").handle,
            math_ops.cast(self._learning_rate_tensor, grad.dtype),
            math_ops.cast(l1, grad.dtype),
            math_ops.cast(l2, grad.dtype),
            grad,
            indices,
            use_locking=self._use_locking,
        )
