# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Proximal gradient descent: a step of gradient descent, then the proximal map of L1 and L2 penalties."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import math_ops
from millrace.python.training import optimizer
from millrace.python.training import training_ops


class ProximalGradientDescentOptimizer(optimizer.Optimizer):
    """Proximal gradient descent. Reference: Duchi and Singer, "Efficient Learning using Forward-Backward
    Splitting", NIPS 2009."""

    def __init__(
        self,
        learning_rate: Any,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ) -> None:
        """Makes the optimizer.

        Args:
          learning_rate: float or scalar tensor.
          l1_regularization_strength, l2_regularization_strength: numbers of at least 0.
          use_locking, name: as in Optimizer.
        """
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength
        self._l1_regularization_strength_tensor: Any = None
        self._l2_regularization_strength_tensor: Any = None
        self._learning_rate_tensor: Any = None

    def _scalars(self, dtype: Any) -> tuple[Any, Any, Any]:
        tensors = (
            self._learning_rate_tensor,
            self._l1_regularization_strength_tensor,
            self._l2_regularization_strength_tensor,
        )
        rate, l1, l2 = [math_ops.cast(t, dtype) for t in tensors]
        return rate, l1, l2

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return training_ops.apply_proximal_gradient_descent(
            var, *self._scalars(var.dtype.base_dtype), grad, use_locking=self._use_locking
        ).op

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return training_ops.resource_apply_proximal_gradient_descent(
            handle.handle, *self._scalars(grad.dtype.base_dtype), grad, use_locking=self._use_locking
        )

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return training_ops.sparse_apply_proximal_gradient_descent(
            var,
            *self._scalars(var.dtype.base_dtype),
            grad.values,
            grad.indices,
            use_locking=self._use_locking,
        ).op

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        return training_ops.resource_sparse_apply_proximal_gradient_descent(
            handle.handle, *self._scalars(grad.dtype), grad, indices, use_locking=self._use_locking
        )

    def _prepare(self) -> None:
        self._learning_rate_tensor = ops.convert_to_tensor(self._learning_rate, name="learning_rate")
        self._l1_regularization_strength_tensor = ops.convert_to_tensor(
            self._l1_regularization_strength, name="l1_regularization_strength"
        )
        self._l2_regularization_strength_tensor = ops.convert_to_tensor(
            self._l2_regularization_strength, name="l2_regularization_strength"
        )
