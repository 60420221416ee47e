# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.contrib.eager.metrics: objects that are called with values and return a result."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes, ops
from millrace.python.ops import array_ops, math_ops, variable_scope
from millrace.python.training.tracking import tracking


class Metric(tracking.AutoTrackable):
    """Base of metrics: `build` makes variables, `call` changes them, `result` reads them.

    Args:
      name: of the metric and the scope of its variables.
      use_global_variables: accepted, but ignored.
    """

    def __init__(self, name: Any = None, use_global_variables: bool = False) -> None:
        del use_global_variables
        self._name = name or self.__class__.__name__
        self._built = False
        self._initial: dict[str, Any] = {}

    @property
    def name(self) -> str:
        return self._name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Adds values; returns what `call` returns."""
        if not self._built:
            with variable_scope.variable_scope(self._name):
                self.build(*args, **kwargs)
            self._built = True
        return self.call(*args, **kwargs)

    def add_variable(self, name: str, shape: Any = None, dtype: Any = None, initializer: Any = None) -> Any:
        """Makes a variable of the metric; called in `build`."""
        if self._built:
            raise RuntimeError("Can't call add_variable() except in build().")
        made = variable_scope.get_variable(
            name, shape=shape, dtype=dtype, initializer=initializer, trainable=False, use_resource=True
        )
        self._initial[name] = made
        setattr(self, name, made)
        return made

    @property
    def variables(self) -> list[Any]:
        return list(self._initial.values())

    def init_variables(self) -> Any:
        """Sets all variables to zero."""
        for v in self._initial.values():
            v.assign(array_ops.zeros_like(v))

    def build(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("Metrics must define a build() member function")

    def call(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("Metrics must define a call() member function")

    def result(self) -> Any:
        raise NotImplementedError("Metrics must define a result() member function")


class Mean(Metric):
    """The mean of values with weights."""

    numer: Any
    denom: Any

    def __init__(
        self, name: Any = None, dtype: Any = dtypes.float64, use_global_variables: bool = False
    ) -> None:
        super().__init__(name, use_global_variables)
        self.dtype = dtype

    def build(self, *args: Any, **kwargs: Any) -> None:
        zeros = array_ops.zeros
        self.add_variable("numer", initializer=lambda: zeros([], self.dtype))
        self.add_variable("denom", initializer=lambda: zeros([], self.dtype))

    def call(self, values: Any, weights: Any = None) -> Any:
        """Adds values; returns them and their weights."""
        values = ops.convert_to_tensor(values)
        if weights is None:
            count = math_ops.cast(array_ops.size(values), self.dtype)
            self.denom.assign_add(count)
            self.numer.assign_add(math_ops.reduce_sum(math_ops.cast(values, self.dtype)))
            return values
        weights = math_ops.cast(weights, self.dtype)
        weighted = math_ops.cast(values, self.dtype) * weights
        self.denom.assign_add(math_ops.reduce_sum(weights * array_ops.ones_like(weighted)))
        self.numer.assign_add(math_ops.reduce_sum(weighted))
        return values, weights

    def result(self) -> Any:
        """The mean."""
        return self.numer / self.denom


class Accuracy(Mean):
    """The fraction of predictions that equal labels."""

    def __init__(self, name: Any = None, dtype: Any = dtypes.float64) -> None:
        super().__init__(name, dtype)

    def _matches(self, labels: Any, predictions: Any) -> Any:
        return math_ops.equal(labels, predictions)

    def call(self, labels: Any, predictions: Any, weights: Any = None) -> Any:  # type: ignore[override]
        matches = math_ops.cast(self._matches(labels, predictions), self.dtype)
        super().call(matches, weights)
        return (labels, predictions) if weights is None else (labels, predictions, weights)


class CategoricalAccuracy(Accuracy):
    """The fraction of rows in which predictions and labels have the largest element at the same position."""

    def _matches(self, labels: Any, predictions: Any) -> Any:
        return math_ops.equal(math_ops.argmax(labels, axis=-1), math_ops.argmax(predictions, axis=-1))


class BinaryAccuracy(Accuracy):
    """The fraction of predictions that are on the same side of a threshold as their labels."""

    def __init__(self, threshold: float, name: Any = None, dtype: Any = dtypes.float64) -> None:
        super().__init__(name, dtype)
        self.threshold = threshold

    def _matches(self, labels: Any, predictions: Any) -> Any:
        labels, predictions = ops.convert_to_tensor(labels), ops.convert_to_tensor(predictions)
        return math_ops.equal(labels > self.threshold, predictions > self.threshold)


class SparseAccuracy(Accuracy):
    """The fraction of rows of predictions whose largest element is at the position of the label."""

    def _matches(self, labels: Any, predictions: Any) -> Any:
        best = math_ops.argmax(predictions, axis=-1)
        return math_ops.equal(math_ops.cast(labels, best.dtype), best)
