# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Streaming means and errors."""
from __future__ import annotations

from typing import Any, Optional, Tuple

from millrace.python.framework import dtypes, ops
from millrace.python.ops import array_ops, check_ops, confusion_matrix, math_ops, state_ops
from millrace.python.ops import variable_scope, weights_broadcast_ops
from millrace.python.ops._metrics_common import (
    _aggregate_across_replicas,
    _remove_squeezable_dimensions,
    add_update,
    metric_variable,
)


def mean(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (mean of all values seen, op that adds `values`), both float32 scalars; variables "total" and "count"."""
    with variable_scope.variable_scope(name, "mean", (values, weights)):
        values = math_ops.cast(values, dtypes.float32)
        total = metric_variable([], dtypes.float32, name="total")
        count = metric_variable([], dtypes.float32, name="count")
        if weights is None:
            num_values = math_ops.cast(array_ops.size(values), dtypes.float32)
        else:
            values, _, weights = _remove_squeezable_dimensions(
                predictions=values, labels=None, weights=weights
            )
            weights = weights_broadcast_ops.broadcast_weights(math_ops.cast(weights, dtypes.float32), values)
            values = math_ops.multiply(values, weights)
            num_values = math_ops.reduce_sum(weights)
        update_total_op = state_ops.assign_add(total, math_ops.reduce_sum(values))
        with ops.control_dependencies([values]):
            update_count_op = state_ops.assign_add(count, num_values)
        mean_t = _aggregate_across_replicas(
            metrics_collections,
            lambda _, t, c: math_ops.div_no_nan(t, math_ops.maximum(c, 0), name="value"),
            total,
            count,
        )
        update_op = math_ops.div_no_nan(
            update_total_op, math_ops.maximum(update_count_op, 0), name="update_op"
        )
        return mean_t, add_update(updates_collections, update_op)


def accuracy(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (share of predictions that equal their labels, update op)."""
    predictions, labels = ops.convert_to_tensor(predictions), ops.convert_to_tensor(labels)
    predictions, labels, weights = _remove_squeezable_dimensions(predictions, labels, weights)
    predictions.get_shape().assert_is_compatible_with(labels.get_shape())
    if labels.dtype != predictions.dtype:
        predictions = math_ops.cast(predictions, labels.dtype)
    is_correct = math_ops.cast(math_ops.equal(predictions, labels), dtypes.float32)
    return mean(is_correct, weights, metrics_collections, updates_collections, name or "accuracy")


def mean_absolute_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (mean of |predictions - labels|, update op)."""
    predictions, labels, weights = _remove_squeezable_dimensions(predictions, labels, weights)
    errors = math_ops.abs(predictions - labels)
    return mean(errors, weights, metrics_collections, updates_collections, name or "mean_absolute_error")


def mean_cosine_distance(
    labels: Any,
    predictions: Any,
    dim: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (1 - mean of the products of unit vectors along `dim`, update op)."""
    predictions, labels, weights = _remove_squeezable_dimensions(predictions, labels, weights)
    radial_diffs = math_ops.reduce_sum(math_ops.multiply(predictions, labels), axis=[dim], keepdims=True)
    mean_distance, update_op = mean(radial_diffs, weights, None, None, name or "mean_cosine_distance")
    mean_distance = math_ops.subtract(1.0, mean_distance)
    update_op = math_ops.subtract(1.0, update_op)
    if metrics_collections:
        ops.add_to_collections(metrics_collections, mean_distance)
    return mean_distance, add_update(updates_collections, update_op)


def _streaming_confusion_matrix(
    labels: Any, predictions: Any, num_classes: Any, weights: Any = None
) -> Tuple[Any, Any]:
    """Returns (confusion matrix of all values seen, update op), float64."""
    total_cm = metric_variable([num_classes, num_classes], dtypes.float64, name="total_confusion_matrix")
    predictions = math_ops.cast(predictions, dtypes.int64)
    labels = math_ops.cast(labels, dtypes.int64)
    num_classes = math_ops.cast(num_classes, dtypes.int64)
    if predictions.get_shape().ndims is None or predictions.get_shape().ndims > 1:
        predictions = array_ops.reshape(predictions, [-1])
    if labels.get_shape().ndims is None or labels.get_shape().ndims > 1:
        labels = array_ops.reshape(labels, [-1])
    if weights is not None and (weights.get_shape().ndims is None or weights.get_shape().ndims > 1):
        weights = array_ops.reshape(weights, [-1])
    current_cm = confusion_matrix.confusion_matrix(
        labels, predictions, num_classes, weights=weights, dtype=dtypes.float64
    )
    return total_cm, state_ops.assign_add(total_cm, current_cm)


def mean_iou(
    labels: Any,
    predictions: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (mean over the classes seen of intersection / union, op that updates the confusion matrix)."""
    with variable_scope.variable_scope(name, "mean_iou", (predictions, labels, weights)):
        predictions, labels, weights = _remove_squeezable_dimensions(predictions, labels, weights)
        total_cm, update_op = _streaming_confusion_matrix(labels, predictions, num_classes, weights)

        def compute_mean_iou(_: Any, total_cm: Any) -> Any:
            sum_over_row = math_ops.cast(math_ops.reduce_sum(total_cm, 0), dtypes.float32)
            sum_over_col = math_ops.cast(math_ops.reduce_sum(total_cm, 1), dtypes.float32)
            cm_diag = math_ops.cast(array_ops.diag_part(total_cm), dtypes.float32)
            denominator = sum_over_row + sum_over_col - cm_diag
            num_valid = math_ops.reduce_sum(
                math_ops.cast(math_ops.not_equal(denominator, 0), dtype=dtypes.float32)
            )
            denominator = array_ops.where(
                math_ops.greater(denominator, 0), denominator, array_ops.ones_like(denominator)
            )
            iou = math_ops.div(cm_diag, denominator)
            return array_ops.where(
                math_ops.greater(num_valid, 0),
                math_ops.reduce_sum(iou, name="mean_iou") / num_valid,
                array_ops.zeros([]),
            )

        value = _aggregate_across_replicas(metrics_collections, compute_mean_iou, total_cm)
        return value, add_update(updates_collections, update_op)


def mean_per_class_accuracy(
    labels: Any,
    predictions: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (mean over classes of the share of right predictions, op that updates and returns the shares)."""
    with variable_scope.variable_scope(name, "mean_accuracy", (predictions, labels, weights)):
        labels = math_ops.cast(ops.convert_to_tensor(labels), dtypes.int64)
        if labels.get_shape().ndims is None or labels.get_shape().ndims > 1:
            labels = array_ops.reshape(labels, [-1])
        predictions = ops.convert_to_tensor(predictions)
        if predictions.get_shape().ndims is None or predictions.get_shape().ndims > 1:
            predictions = array_ops.reshape(predictions, [-1])
        predictions.get_shape().assert_is_compatible_with(labels.get_shape())
        total = metric_variable([num_classes], dtypes.float32, name="total")
        count = metric_variable([num_classes], dtypes.float32, name="count")
        ones = array_ops.ones([array_ops.size(labels)], dtypes.float32)
        if labels.dtype != predictions.dtype:
            predictions = math_ops.cast(predictions, labels.dtype)
        is_correct = math_ops.cast(math_ops.equal(predictions, labels), dtypes.float32)
        if weights is not None:
            weights = ops.convert_to_tensor(weights)
            if weights.get_shape().ndims is None or weights.get_shape().ndims > 1:
                weights = array_ops.reshape(weights, [-1])
            weights = math_ops.cast(weights, dtypes.float32)
            is_correct *= weights
            ones *= weights
        update_total_op = state_ops.scatter_add(total, labels, ones)
        update_count_op = state_ops.scatter_add(count, labels, is_correct)

        def compute(_: Any, count: Any, total: Any) -> Any:
            return math_ops.reduce_mean(
                math_ops.div_no_nan(count, math_ops.maximum(total, 0), name=None), name="mean_accuracy"
            )

        value = _aggregate_across_replicas(metrics_collections, compute, count, total)
        update_op = math_ops.div_no_nan(
            update_count_op, math_ops.maximum(update_total_op, 0), name="update_op"
        )
        return value, add_update(updates_collections, update_op)


def mean_relative_error(
    labels: Any,
    predictions: Any,
    normalizer: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (mean of |labels - predictions| / normalizer, 0 where the normalizer is 0, update op)."""
    predictions, labels, weights = _remove_squeezable_dimensions(predictions, labels, weights)
    predictions, normalizer = confusion_matrix.remove_squeezable_dimensions(predictions, normalizer)
    predictions.get_shape().assert_is_compatible_with(normalizer.get_shape())
    errors = array_ops.where(
        math_ops.equal(normalizer, 0.0),
        array_ops.zeros_like(labels),
        math_ops.div(math_ops.abs(labels - predictions), normalizer),
    )
    return mean(errors, weights, metrics_collections, updates_collections, name or "mean_relative_error")


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (mean of (predictions - labels)^2, update op)."""
    predictions, labels, weights = _remove_squeezable_dimensions(predictions, labels, weights)
    squared_error = math_ops.squared_difference(labels, predictions)
    return mean(
        squared_error, weights, metrics_collections, updates_collections, name or "mean_squared_error"
    )


def root_mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (square root of the mean squared error, update op)."""
    predictions, labels, weights = _remove_squeezable_dimensions(predictions, labels, weights)
    mse, update_mse_op = mean_squared_error(
        labels, predictions, weights, None, None, name or "root_mean_squared_error"
    )
    rmse = _aggregate_across_replicas(metrics_collections, lambda _, value: math_ops.sqrt(value), mse)
    return rmse, add_update(updates_collections, math_ops.sqrt(update_mse_op))


def mean_tensor(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (element-wise mean of all tensors seen, update op), of the shape of `values`."""
    with variable_scope.variable_scope(name, "mean", (values, weights)):
        values = math_ops.cast(ops.convert_to_tensor(values), dtypes.float32)
        total = metric_variable(values.get_shape(), dtypes.float32, name="total_tensor")
        count = metric_variable(values.get_shape(), dtypes.float32, name="count_tensor")
        num_values = array_ops.ones_like(values)
        if weights is not None:
            values, _, weights = _remove_squeezable_dimensions(
                predictions=values, labels=None, weights=weights
            )
            weights = weights_broadcast_ops.broadcast_weights(math_ops.cast(weights, dtypes.float32), values)
            values = math_ops.multiply(values, weights)
            num_values = math_ops.multiply(num_values, weights)
        update_total_op = state_ops.assign_add(total, values)
        with ops.control_dependencies([values]):
            update_count_op = state_ops.assign_add(count, num_values)
        mean_t = _aggregate_across_replicas(
            metrics_collections,
            lambda _, t, c: math_ops.div_no_nan(t, math_ops.maximum(c, 0), name="value"),
            total,
            count,
        )
        update_op = math_ops.div_no_nan(
            update_total_op, math_ops.maximum(update_count_op, 0), name="update_op"
        )
        return mean_t, add_update(updates_collections, update_op)


def percentage_below(
    values: Any,
    threshold: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (share of values below the threshold, update op)."""
    is_below = math_ops.cast(math_ops.less(values, threshold), dtypes.float32)
    return mean(
        is_below, weights, metrics_collections, updates_collections, name or "percentage_below_threshold"
    )


def _count_condition(
    values: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None
) -> Tuple[Any, Any]:
    """Returns (sum of the weights where `values` is true, update op)."""
    check_ops.assert_type(values, dtypes.bool)
    count = metric_variable([], dtypes.float32, name="count")
    values = math_ops.cast(values, dtypes.float32)
    if weights is not None:
        with ops.control_dependencies((check_ops.assert_rank_in(weights, (0, array_ops.rank(values))),)):
            weights = math_ops.cast(weights, dtypes.float32)
            values = math_ops.multiply(values, weights)
    value_tensor = _aggregate_across_replicas(metrics_collections, lambda _, c: array_ops.identity(c), count)
    update_op = state_ops.assign_add(count, math_ops.reduce_sum(values))
    return value_tensor, add_update(updates_collections, update_op)


def _make_count(name_: str, label_value: bool, prediction_value: bool, doc: str) -> Any:
    def count(
        labels: Any,
        predictions: Any,
        weights: Any = None,
        metrics_collections: Any = None,
        updates_collections: Any = None,
        name: Optional[str] = None,
    ) -> Tuple[Any, Any]:
        with variable_scope.variable_scope(name, name_, (predictions, labels, weights)):
            predictions, labels, weights = _remove_squeezable_dimensions(
                predictions=math_ops.cast(predictions, dtype=dtypes.bool),
                labels=math_ops.cast(labels, dtype=dtypes.bool),
                weights=weights,
            )
            condition = math_ops.logical_and(
                math_ops.equal(labels, label_value), math_ops.equal(predictions, prediction_value)
            )
            return _count_condition(condition, weights, metrics_collections, updates_collections)

    count.__name__ = count.__qualname__ = name_
    count.__doc__ = doc
    return count


true_positives = _make_count("true_positives", True, True, "Returns (count of true positives, update op).")
true_negatives = _make_count("true_negatives", False, False, "Returns (count of true negatives, update op).")
false_positives = _make_count(
    "false_positives", False, True, "Returns (count of false positives, update op)."
)
false_negatives = _make_count(
    "false_negatives", True, False, "Returns (count of false negatives, update op)."
)


def _ratio(
    name_: str,
    other: Any,
    labels: Any,
    predictions: Any,
    weights: Any,
    collections: Any,
    updates: Any,
    name: Any,
) -> Any:
    with variable_scope.variable_scope(name, name_, (predictions, labels, weights)):
        predictions, labels, weights = _remove_squeezable_dimensions(
            predictions=math_ops.cast(predictions, dtype=dtypes.bool),
            labels=math_ops.cast(labels, dtype=dtypes.bool),
            weights=weights,
        )
        true_p, true_update = true_positives(labels, predictions, weights)
        other_count, other_update = other(labels, predictions, weights)

        def compute(numerator: Any, denominator_rest: Any, name: str) -> Any:
            total = numerator + denominator_rest
            return array_ops.where(
                math_ops.greater(total, 0), math_ops.div(numerator, total), array_ops.zeros_like(total), name
            )

        value = _aggregate_across_replicas(
            collections, lambda _, a, b: compute(a, b, "value"), true_p, other_count
        )
        return value, add_update(updates, compute(true_update, other_update, "update_op"))


def precision(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (true positives / positives predicted, update op)."""
    return _ratio(
        "precision",
        false_positives,
        labels,
        predictions,
        weights,
        metrics_collections,
        updates_collections,
        name,
    )


def recall(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (true positives / positive labels, update op)."""
    return _ratio(
        "recall",
        false_negatives,
        labels,
        predictions,
        weights,
        metrics_collections,
        updates_collections,
        name,
    )
