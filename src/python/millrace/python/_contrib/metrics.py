# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics of tf.contrib.metrics: those of tf.metrics with predictions before labels."""
from __future__ import annotations

import functools
from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import math_ops
from millrace.python.ops import metrics_impl

_SWAPPED = (
    "accuracy auc false_negatives false_positives mean_absolute_error mean_iou mean_relative_error mean_squared_error"
    " precision precision_at_thresholds recall recall_at_thresholds root_mean_squared_error true_negatives true_positives"
).split()


def _swapped(name: str) -> Any:
    function = getattr(metrics_impl, name)

    @functools.wraps(function)
    def streaming(predictions: Any, labels: Any, *args: Any, **kwargs: Any) -> Any:
        return function(labels, predictions, *args, **kwargs)

    streaming.__name__ = "streaming_" + name
    return streaming


for _name in _SWAPPED:
    if hasattr(metrics_impl, _name):
        globals()["streaming_" + _name] = _swapped(_name)


def accuracy(predictions: Any, labels: Any, weights: Any = None, name: Any = None) -> Any:
    """The fraction of predictions that equal their labels, in one batch.

    Raises:
      ValueError: the types differ, or are not integer, bool or string.
    """
    if not (labels.dtype.is_integer or labels.dtype in (dtypes.bool, dtypes.string)):
        raise ValueError("Labels should have bool, integer, or string dtype, not %r" % labels.dtype)
    if predictions.dtype != labels.dtype:
        raise ValueError(
            "Dtypes of predictions and labels should match: %r vs %r" % (predictions.dtype, labels.dtype)
        )
    labels.get_shape().assert_is_compatible_with(predictions.get_shape())
    with ops.name_scope(name, "accuracy", [predictions, labels]):
        correct = math_ops.cast(math_ops.equal(predictions, labels), dtypes.float32)
        if weights is None:
            return math_ops.reduce_mean(correct)
        weights = math_ops.cast(weights, dtypes.float32)
        return math_ops.truediv(
            math_ops.reduce_sum(correct * weights), math_ops.reduce_sum(weights + 0 * correct)
        )


def aggregate_metrics(*value_update_tuples: Any) -> tuple[list[Any], list[Any]]:
    """(values, updates) of pairs; ValueError without any."""
    if not value_update_tuples:
        raise ValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples)
    return list(values), list(updates)


def aggregate_metric_map(names_to_tuples: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Dicts of values and of updates, of a dict of pairs."""
    values = {name: pair[0] for name, pair in names_to_tuples.items()}
    return values, {name: pair[1] for name, pair in names_to_tuples.items()}
