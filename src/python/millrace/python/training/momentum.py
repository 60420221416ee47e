# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Momentum: accumulation = momentum * accumulation + gradient; var -= learning_rate * accumulation."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import math_ops
from millrace.python.training import optimizer
from millrace.python.training import training_ops


class MomentumOptimizer(optimizer.Optimizer):
    """Gradient descent with momentum, Nesterov's on request. Slot: `momentum`.

    Reference: Sutskever et al., "On the importance of initialization and momentum in deep learning", ICML 2013.
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        """Makes the optimizer.

        Args:
          learning_rate, momentum: floats, scalar tensors or callables without arguments.
          use_locking, name: as in Optimizer.
          use_nesterov: whether to use Nesterov momentum: var -= learning_rate * (gradient + momentum *
            accumulation).
        """
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._momentum = momentum
        self._use_nesterov = use_nesterov
        self._learning_rate_tensor: Any = None
        self._momentum_tensor: Any = None

    def _create_slots(self, var_list: Any) -> None:
        for v in var_list:
            self._zeros_slot(v, "momentum", self._name)

    def _prepare(self) -> None:
        learning_rate = self._call_if_callable(self._learning_rate)
        self._learning_rate_tensor = ops.convert_to_tensor(learning_rate, name="learning_rate")
        momentum = self._call_if_callable(self._momentum)
        self._momentum_tensor = ops.convert_to_tensor(momentum, name="momentum")

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return training_ops.apply_momentum(
            var,
            self.get_slot(var, "momentum"),
            math_ops.cast(self._learning_rate_tensor, var.dtype.base_dtype),
            grad,
            math_ops.cast(self._momentum_tensor, var.dtype.base_dtype),
            use_locking=self._use_locking,
            use_nesterov=self._use_nesterov,
        ).op

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return training_ops.resource_apply_momentum(
            handle.handle,
            self.get_slot(handle, "momentum").handle,
            math_ops.cast(self._learning_rate_tensor, grad.dtype.base_dtype),
            grad,
            math_ops.cast(self._momentum_tensor, grad.dtype.base_dtype),
            use_locking=self._use_locking,
            use_nesterov=self._use_nesterov,
        )

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return training_ops.sparse_apply_momentum(
            var,
            self.get_slot(var, "momentum"),
            math_ops.cast(self._learning_rate_tensor, var.dtype.base_dtype),
            grad.values,
            grad.indices,
            math_ops.cast(self._momentum_tensor, var.dtype.base_dtype),
            use_locking=self._use_locking,
            use_nesterov=self._use_nesterov,
        ).op

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        return training_ops.resource_sparse_apply_momentum(
            handle.handle,
            self.get_slot(handle, "momentum").handle,
            math_ops.cast(self._learning_rate_tensor, grad.dtype),
            grad,
            indices,
            math_ops.cast(self._momentum_tensor, grad.dtype),
            use_locking=self._use_locking,
            use_nesterov=self._use_nesterov,
        )
