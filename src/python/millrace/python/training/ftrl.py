# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""FTRL-Proximal: follow the regularised leader, for sparse linear models."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import constant_op
from millrace.python.framework import ops
from millrace.python.ops import math_ops
from millrace.python.training import optimizer
from millrace.python.training import training_ops


def _check(what: str, value: float, good: bool, wanted: str) -> None:
    if not good:
        raise ValueError("%s %f needs to be %s" % (what, value, wanted))


class FtrlOptimizer(optimizer.Optimizer):
    """FTRL with L1, L2 and optional L2 shrinkage. Slots: `accum` and `linear`.

    Reference: McMahan et al., "Ad Click Prediction: a View from the Trenches", KDD 2013.
    """

    def __init__(
        self,
        learning_rate: Any,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
    ) -> None:
        """Makes the optimizer.

        Args:
          learning_rate: float or scalar tensor.
          learning_rate_power: a number of at most 0.
          initial_accumulator_value, l1_regularization_strength, l2_regularization_strength: numbers of at
            least 0.
          use_locking, name: as in Optimizer.
          accum_name, linear_name: suffixes of the slots' names, `name` if None.
          l2_shrinkage_regularization_strength: an L2 penalty added to the gradient, at least 0; unlike
            `l2_regularization_strength` it acts only on rows with a gradient.

        Raises:
          ValueError: if an argument is out of range.
        """
        super().__init__(use_locking, name)
        nonnegative = "positive or zero"
        _check(
            "initial_accumulator_value",
            initial_accumulator_value,
            initial_accumulator_value >= 0.0,
            nonnegative,
        )
        _check("learning_rate_power", learning_rate_power, learning_rate_power <= 0.0, "negative or zero")
        for what, value in (
            ("l1_regularization_strength", l1_regularization_strength),
            ("l2_regularization_strength", l2_regularization_strength),
            ("l2_shrinkage_regularization_strength", l2_shrinkage_regularization_strength),
        ):
            _check(what, value, value >= 0.0, nonnegative)
        self._learning_rate = learning_rate
        self._learning_rate_power = learning_rate_power
        self._initial_accumulator_value = initial_accumulator_value
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength
        self._l2_shrinkage_regularization_strength = l2_shrinkage_regularization_strength
        self._learning_rate_tensor: Any = None
        self._learning_rate_power_tensor: Any = None
        self._l1_regularization_strength_tensor: Any = None
        self._l2_regularization_strength_tensor: Any = None
        self._l2_shrinkage_regularization_strength_tensor: Any = None
        self._accum_name = accum_name
        self._linear_name = linear_name

    def _create_slots(self, var_list: Any) -> None:
        for v in var_list:
            val = constant_op.constant(self._initial_accumulator_value, dtype=v.dtype, shape=v.get_shape())
            self._get_or_make_slot(v, val, "accum", self._accum_name or self._name)
            self._zeros_slot(v, "linear", self._linear_name or self._name)

    def _prepare(self) -> None:
        self._learning_rate_tensor = ops.convert_to_tensor(self._learning_rate, name="learning_rate")
        self._l1_regularization_strength_tensor = ops.convert_to_tensor(
            self._l1_regularization_strength, name="l1_regularization_strength"
        )
        self._l2_regularization_strength_tensor = ops.convert_to_tensor(
            self._l2_regularization_strength, name="l2_regularization_strength"
        )
        self._l2_shrinkage_regularization_strength_tensor = ops.convert_to_tensor(
            self._l2_shrinkage_regularization_strength, name="l2_shrinkage_regularization_strength"
        )
        self._learning_rate_power_tensor = ops.convert_to_tensor(
            self._learning_rate_power, name="learning_rate_power"
        )

    def _scalars(self, dtype: Any) -> Any:
        tensors = [
            self._learning_rate_tensor,
            self._l1_regularization_strength_tensor,
            self._l2_regularization_strength_tensor,
        ]
        if self._shrinks():
            tensors.append(self._l2_shrinkage_regularization_strength_tensor)
        tensors.append(self._learning_rate_power_tensor)
        return [math_ops.cast(t, dtype) for t in tensors]

    def _shrinks(self) -> bool:
        return not self._l2_shrinkage_regularization_strength <= 0.0

    def _slots_of(self, var: Any) -> tuple[Any, Any]:
        return self.get_slot(var, "accum"), self.get_slot(var, "linear")

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        accum, linear = self._slots_of(var)
        apply: Any = training_ops.apply_ftrl_v2 if self._shrinks() else training_ops.apply_ftrl
        return apply(
            var, accum, linear, grad, *self._scalars(var.dtype.base_dtype), use_locking=self._use_locking
        )

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        accum, linear = self._slots_of(handle)
        if self._shrinks():
            apply: Any = training_ops.resource_apply_ftrl_v2
        else:
            apply = training_ops.resource_apply_ftrl
        return apply(
            handle.handle,
            accum.handle,
            linear.handle,
            grad,
            *self._scalars(handle.dtype.base_dtype),
            use_locking=self._use_locking,
        )

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        accum, linear = self._slots_of(var)
        apply: Any = training_ops.sparse_apply_ftrl_v2 if self._shrinks() else training_ops.sparse_apply_ftrl
        return apply(
            var,
            accum,
            linear,
            grad.values,
            grad.indices,
            *self._scalars(var.dtype.base_dtype),
            use_locking=self._use_locking,
        )

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        accum, linear = self._slots_of(handle)
        if self._shrinks():
            apply: Any = training_ops.resource_sparse_apply_ftrl_v2
        else:
            apply = training_ops.resource_sparse_apply_ftrl
        return apply(
            handle.handle,
            accum.handle,
            linear.handle,
            grad,
            indices,
            *self._scalars(grad.dtype),
            use_locking=self._use_locking,
        )
