# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Adadelta: steps in the unit of the variable, by running means of squared gradients and squared updates."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import math_ops
from millrace.python.training import optimizer
from millrace.python.training import training_ops


class AdadeltaOptimizer(optimizer.Optimizer):
    """Adadelta. Slots: `accum` and `accum_update`.

    Reference: Zeiler, "ADADELTA: An Adaptive Learning Rate Method", arXiv:1212.5701.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        """Makes the optimizer.

        Args:
          learning_rate: a factor of the steps; a float, scalar tensor or callable without arguments, as are
            the next two.
          rho: the decay rate of the means.
          epsilon: a small number for numerical stability.
          use_locking, name: as in Optimizer.
        """
        super().__init__(use_locking, name)
        self._lr = learning_rate
        self._rho = rho
        self._epsilon = epsilon
        self._lr_t: Any = None
        self._rho_t: Any = None
        self._epsilon_t: Any = None

    def _create_slots(self, var_list: Any) -> None:
        for v in var_list:
            self._zeros_slot(v, "accum", self._name)
            self._zeros_slot(v, "accum_update", self._name)

    def _prepare(self) -> None:
        self._lr_t = ops.convert_to_tensor(self._call_if_callable(self._lr), name="lr")
        self._rho_t = ops.convert_to_tensor(self._call_if_callable(self._rho), name="rho")
        self._epsilon_t = ops.convert_to_tensor(self._call_if_callable(self._epsilon), name="epsilon")

    def _slots_of(self, var: Any) -> tuple[Any, Any]:
        return self.get_slot(var, "accum"), self.get_slot(var, "accum_update")

    def _scalars(self, dtype: Any) -> tuple[Any, Any, Any]:
        lr, rho, epsilon = [math_ops.cast(t, dtype) for t in (self._lr_t, self._rho_t, self._epsilon_t)]
        return lr, rho, epsilon

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        accum, accum_update = self._slots_of(var)
        return training_ops.apply_adadelta(
            var,
            accum,
            accum_update,
            *self._scalars(var.dtype.base_dtype),
            grad,
            use_locking=self._use_locking,
        )

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        accum, accum_update = self._slots_of(handle)
        return training_ops.resource_apply_adadelta(
            handle.handle,
            accum.handle,
            accum_update.handle,
            *self._scalars(grad.dtype.base_dtype),
            grad,
            use_locking=self._use_locking,
        )

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        accum, accum_update = self._slots_of(var)
        return training_ops.sparse_apply_adadelta(
            var,
            accum,
            accum_update,
            *self._scalars(var.dtype.base_dtype),
            grad.values,
            grad.indices,
            use_locking=self._use_locking,
        )

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        accum, accum_update = self._slots_of(handle)
        return training_ops.resource_sparse_apply_adadelta(
            handle.handle,
            accum.handle,
            accum_update.handle,
            *self._scalars(grad.dtype),
            grad,
            indices,
            use_locking=self._use_locking,
        )
