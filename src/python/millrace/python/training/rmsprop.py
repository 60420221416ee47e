# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""RMSProp: gradient divided by the root of a running mean of its square."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import init_ops
from millrace.python.ops import math_ops
from millrace.python.training import optimizer
from millrace.python.training import training_ops


class RMSPropOptimizer(optimizer.Optimizer):
    """RMSProp. Slots: `rms` (ones at first), `momentum` and, if centered, `mg`.

        rms = decay * rms + (1 - decay) * g * g
        mom = momentum * mom + learning_rate * g / sqrt(rms - mg * mg + epsilon)    (mg = 0 if not centered)
        var -= mom

    References: Tieleman and Hinton, lecture 6.5 of "Neural Networks for Machine Learning", 2012; the centered
    form: Graves, arXiv:1308.0850.
    """

    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        """Makes the optimizer.

        Args:
          learning_rate, decay, momentum, epsilon: floats, scalar tensors or callables without arguments.
          use_locking, name: as in Optimizer.
          centered: whether to divide by the standard deviation of the gradient instead of the root of its
            mean square.
        """
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._decay = decay
        self._momentum = momentum
        self._epsilon = epsilon
        self._centered = centered
        self._learning_rate_tensor: Any = None
        self._decay_tensor: Any = None
        self._momentum_tensor: Any = None
        self._epsilon_tensor: Any = None

    def _create_slots(self, var_list: Any) -> None:
        for v in var_list:
            if v.get_shape().is_fully_defined():
                init_rms = init_ops.ones_initializer(dtype=v.dtype.base_dtype)
            else:
                init_rms = array_ops.ones_like(v)
            self._get_or_make_slot_with_initializer(
                v, init_rms, v.get_shape(), v.dtype.base_dtype, "rms", self._name
            )
            if self._centered:
                self._zeros_slot(v, "mg", self._name)
            self._zeros_slot(v, "momentum", self._name)

    def _prepare(self) -> None:
        lr = self._call_if_callable(self._learning_rate)
        decay = self._call_if_callable(self._decay)
        momentum = self._call_if_callable(self._momentum)
        epsilon = self._call_if_callable(self._epsilon)
        self._learning_rate_tensor = ops.convert_to_tensor(lr, name="learning_rate")
        self._decay_tensor = ops.convert_to_tensor(decay, name="decay")
        self._momentum_tensor = ops.convert_to_tensor(momentum, name="momentum")
        self._epsilon_tensor = ops.convert_to_tensor(epsilon, name="epsilon")

    def _slots_of(self, var: Any) -> list[Any]:
        """The slots in the order in which the ops take them: mg, if centered, then rms and momentum."""
        names = ["mg", "rms", "momentum"] if self._centered else ["rms", "momentum"]
        return [self.get_slot(var, name) for name in names]

    def _scalars(self, dtype: Any) -> Any:
        tensors = (
            self._learning_rate_tensor,
            self._decay_tensor,
            self._momentum_tensor,
            self._epsilon_tensor,
        )
        return [math_ops.cast(t, dtype) for t in tensors]

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        apply: Any = training_ops.apply_centered_rms_prop if self._centered else training_ops.apply_rms_prop
        return apply(
            var,
            *self._slots_of(var),
            *self._scalars(var.dtype.base_dtype),
            grad,
            use_locking=self._use_locking,
        ).op

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        if self._centered:
            apply: Any = training_ops.resource_apply_centered_rms_prop
        else:
            apply = training_ops.resource_apply_rms_prop
        return apply(
            handle.handle,
            *[slot.handle for slot in self._slots_of(handle)],
            *self._scalars(grad.dtype.base_dtype),
            grad,
            use_locking=self._use_locking,
        )

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        if self._centered:
            apply: Any = training_ops.sparse_apply_centered_rms_prop
        else:
            apply = training_ops.sparse_apply_rms_prop
        return apply(
            var,
            *self._slots_of(var),
            *self._scalars(var.dtype.base_dtype),
            grad.values,
            grad.indices,
            use_locking=self._use_locking,
        )

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        if self._centered:
            apply: Any = training_ops.resource_sparse_apply_centered_rms_prop
        else:
            apply = training_ops.resource_sparse_apply_rms_prop
        return apply(
            handle.handle,
            *[slot.handle for slot in self._slots_of(handle)],
            *self._scalars(grad.dtype),
            grad,
            indices,
            use_locking=self._use_locking,
        )
