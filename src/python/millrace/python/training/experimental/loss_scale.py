# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Loss scales: factors that keep gradients of half-precision losses in range."""

from __future__ import annotations

import abc
from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import math_ops
from millrace.python.ops import variable_scope
from millrace.python.training.tracking import base as trackable
from millrace.python.util import nest


class LossScale(trackable.Trackable, metaclass=abc.ABCMeta):
    """A scalar float32 tensor with which losses are multiplied: call the object to get it.

    Subclasses return it in `__call__` and adjust it in `update`, depending on the gradients.
    """

    def __init__(self) -> None:
        self._weights: dict[Any, Any] = {}

    @abc.abstractmethod
    def __call__(self) -> Any:
        """The scale as a scalar float32 tensor."""

    @abc.abstractmethod
    def update(self, grads: Any) -> tuple[Any, Any]:
        """Changes the scale by gradients that are no longer scaled.

        Returns:
          The op that does it, and a scalar bool tensor (or True): whether the gradients may be applied.
        """

    def _add_weight(self, name: str, initial_value: Any, dtype: Any = None) -> Any:
        """A variable of the scale that checkpoints of objects keep under `name`."""
        variable = variable_scope.variable(
            initial_value, name=name, dtype=dtype, trainable=False, use_resource=True
        )
        self._weights[(name, ops.get_default_graph())] = variable
        return self._track_trackable(variable, name=name, overwrite=True)

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """A scale with the arguments that `get_config` returned."""
        return cls(**config)


class FixedLossScale(LossScale):
    """A constant scale."""

    def __init__(self, loss_scale_value: Any) -> None:
        """Makes the scale.

        Args:
          loss_scale_value: float or int of at least 1.

        Raises:
          ValueError: if it is not a number, or less than 1.
        """
        super().__init__()
        if not isinstance(loss_scale_value, (int, float)):
            raise ValueError("loss_scale_value must be a Python int or float.")
        if loss_scale_value < 1:
            raise ValueError("loss_scale_value must be at least 1.")
        self._loss_scale_value = float(loss_scale_value)

    def __call__(self) -> Any:
        return ops.convert_to_tensor(self._loss_scale_value, dtype=dtypes.float32)

    def update(self, grads: Any) -> tuple[Any, Any]:
        del grads
        return control_flow_ops.no_op(), True

    def get_config(self) -> dict[str, Any]:
        return {"loss_scale_value": self._loss_scale_value}


def _is_all_finite(grads: Any) -> Any:
    """A scalar bool tensor: whether all gradients are finite."""
    finite = []
    for g in grads:
        if g is not None:
            values = g.values if isinstance(g, ops.IndexedSlices) else g
            finite.append(math_ops.reduce_all(math_ops.is_finite(values)))
    return math_ops.reduce_all(finite)


class DynamicLossScale(LossScale):
    """A scale that grows after some steps with finite gradients, and shrinks when one is not finite."""

    def __init__(
        self, initial_loss_scale: float = 2**15, increment_period: int = 2000, multiplier: float = 2.0
    ) -> None:
        """Makes the scale.

        Args:
          initial_loss_scale: the scale at the start.
          increment_period: the number of consecutive steps with finite gradients after which it grows.
          multiplier: the factor by which it grows or shrinks; the scale is never below 1.
        """
        super().__init__()
        self._initial_loss_scale = float(initial_loss_scale)
        self._increment_period = int(increment_period)
        self._multiplier = float(multiplier)
        self._current_loss_scale = self._add_weight("loss_scale", self._initial_loss_scale, dtypes.float32)
        self._num_good_steps = self._add_weight("good_steps", 0, dtypes.int64)

    @property
    def initial_loss_scale(self) -> float:
        return self._initial_loss_scale

    @property
    def increment_period(self) -> int:
        return self._increment_period

    @property
    def multiplier(self) -> float:
        return self._multiplier

    def __call__(self) -> Any:
        return ops.convert_to_tensor(self._current_loss_scale)

    def update(self, grads: Any) -> tuple[Any, Any]:
        is_finite = _is_all_finite(nest.flatten(grads))

        def grow() -> Any:
            larger = self._current_loss_scale * self._multiplier
            new = control_flow_ops.cond(
                math_ops.is_finite(larger), lambda: larger, lambda: self._current_loss_scale.read_value()
            )
            return control_flow_ops.group(
                self._current_loss_scale.assign(new), self._num_good_steps.assign(0)
            )

        def good() -> Any:
            enough = self._num_good_steps + 1 >= self._increment_period
            return control_flow_ops.cond(
                enough, grow, lambda: control_flow_ops.group(self._num_good_steps.assign_add(1))
            )

        def bad() -> Any:
            smaller = math_ops.maximum(self._current_loss_scale / self._multiplier, 1.0)
            return control_flow_ops.group(
                self._num_good_steps.assign(0), self._current_loss_scale.assign(smaller)
            )

        update_op = control_flow_ops.cond(is_finite, good, bad)
        return update_op, is_finite

    def get_config(self) -> dict[str, Any]:
        return {
            "initial_loss_scale": self.initial_loss_scale,
            "increment_period": self.increment_period,
            "multiplier": self.multiplier,
        }


def get(identifier: Any) -> Any:
    """A scale for "dynamic", a number, a scale itself, or None.

    Raises:
      ValueError: for anything else.
    """
    if isinstance(identifier, (int, float)):
        return FixedLossScale(identifier)
    if identifier == "dynamic":
        return DynamicLossScale()
    if identifier is None or isinstance(identifier, LossScale):
        return identifier
    raise ValueError("Could not interpret loss scale identifier: %s" % identifier)
