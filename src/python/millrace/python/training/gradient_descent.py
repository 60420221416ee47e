# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradient descent: var -= learning_rate * gradient."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import math_ops
from millrace.python.ops import resource_variable_ops
from millrace.python.training import optimizer
from millrace.python.training import training_ops


class GradientDescentOptimizer(optimizer.Optimizer):
    """Plain gradient descent."""

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent") -> None:
        """Makes the optimizer.

        Args:
          learning_rate: float, scalar tensor or callable without arguments.
          use_locking, name: as in Optimizer.
        """
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._learning_rate_tensor: Any = None

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return training_ops.apply_gradient_descent(
            var,
            math_ops.cast(self._learning_rate_tensor, var.dtype.base_dtype),
            grad,
            use_locking=self._use_locking,
        ).op

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return training_ops.resource_apply_gradient_descent(
            handle.handle,
            math_ops.cast(self._learning_rate_tensor, grad.dtype.base_dtype),
            grad,
            use_locking=self._use_locking,
        )

    def _resource_apply_sparse_duplicate_indices(self, grad: Any, handle: Any, indices: Any) -> Any:
        # Subtracting slices one by one equals subtracting their sum, so duplicates need no merging.
        return resource_variable_ops.resource_scatter_add(
            handle.handle, indices, -grad * math_ops.cast(self._learning_rate_tensor, grad.dtype.base_dtype)
        )

    def _apply_sparse_duplicate_indices(self, grad: Any, var: Any) -> Any:
        delta = ops.IndexedSlices(
            grad.values * math_ops.cast(self._learning_rate_tensor, var.dtype.base_dtype),
            grad.indices,
            grad.dense_shape,
        )
        return var.scatter_sub(delta, use_locking=self._use_locking)

    def _prepare(self) -> None:
        learning_rate = self._call_if_callable(self._learning_rate)
        self._learning_rate_tensor = ops.convert_to_tensor(learning_rate, name="learning_rate")
