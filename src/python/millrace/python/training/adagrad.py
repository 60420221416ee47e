# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Adagrad: each element's rate falls with the sum of the squares of its gradients."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import init_ops
from millrace.python.ops import math_ops
from millrace.python.training import optimizer
from millrace.python.training import training_ops


class AdagradOptimizer(optimizer.Optimizer):
    """Adagrad: accumulator += g * g; var -= learning_rate * g / sqrt(accumulator). Slot: `accumulator`.

    Reference: Duchi, Hazan, Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic
    Optimization", JMLR 12, 2011.
    """

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        """Makes the optimizer.

        Args:
          learning_rate: float, scalar tensor or callable without arguments.
          initial_accumulator_value: positive float.
          use_locking, name: as in Optimizer.

        Raises:
          ValueError: if `initial_accumulator_value` is not positive.
        """
        if initial_accumulator_value <= 0.0:
            raise ValueError("initial_accumulator_value must be positive: %s" % initial_accumulator_value)
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial_accumulator_value = initial_accumulator_value
        self._learning_rate_tensor: Any = None

    def _create_slots(self, var_list: Any) -> None:
        for v in var_list:
            dtype = v.dtype.base_dtype
            if v.get_shape().is_fully_defined():
                init = init_ops.constant_initializer(self._initial_accumulator_value, dtype=dtype)
            else:
                init = self._init_constant_op(v, dtype)
            self._get_or_make_slot_with_initializer(v, init, v.get_shape(), dtype, "accumulator", self._name)

    def _init_constant_op(self, v: Any, dtype: Any) -> Any:
        # A callable, so that in a loop the value is made in the variable's context.
        def init() -> Any:
            init_constant = array_ops.fill(array_ops.shape(v), self._initial_accumulator_value)
            return math_ops.cast(init_constant, dtype)

        return init

    def _prepare(self) -> None:
        learning_rate = self._call_if_callable(self._learning_rate)
        self._learning_rate_tensor = ops.convert_to_tensor(learning_rate, name="learning_rate")

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return training_ops.apply_adagrad(
            var,
            self.get_slot(var, "accumulator"),
            math_ops.cast(self._learning_rate_tensor, var.dtype.base_dtype),
            grad,
            use_locking=self._use_locking,
        )

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return training_ops.resource_apply_adagrad(
            handle.handle,
            self.get_slot(handle, "accumulator").handle,
            math_ops.cast(self._learning_rate_tensor, grad.dtype.base_dtype),
            grad,
            use_locking=self._use_locking,
        )

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return training_ops.sparse_apply_adagrad(
            var,
            self.get_slot(var, "accumulator"),
            math_ops.cast(self._learning_rate_tensor, var.dtype.base_dtype),
            grad.values,
            grad.indices,
            use_locking=self._use_locking,
        )

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        return training_ops.resource_sparse_apply_adagrad(
            handle.handle,
            self.get_slot(handle, "accumulator").handle,
            math_ops.cast(self._learning_rate_tensor, grad.dtype),
            grad,
            indices,
            use_locking=self._use_locking,
        )
