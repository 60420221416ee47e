# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Streaming metrics over thresholds: areas under curves, sensitivity, specificity."""
from __future__ import annotations

import numbers
from typing import Any, Optional, Tuple

from millrace.python.framework import constant_op, dtypes, ops
from millrace.python.ops import (
    array_ops,
    check_ops,
    math_ops,
    state_ops,
    variable_scope,
    weights_broadcast_ops,
)
from millrace.python.ops._metrics_common import (
    _EPSILON,
    _aggregate_across_replicas,
    _remove_squeezable_dimensions,
    add_update,
    metric_variable,
)

_ALL = ("tp", "fn", "tn", "fp")
_NAMES = {"tp": "true_positives", "fn": "false_negatives", "tn": "true_negatives", "fp": "false_positives"}


def _confusion_matrix_at_thresholds(
    labels: Any, predictions: Any, thresholds: Any, weights: Any = None, includes: Any = None
) -> Tuple[Any, Any]:
    """Returns (counts, update ops) by name, each [number of thresholds]."""
    includes = _ALL if includes is None else includes
    for include in includes:
        if include not in _ALL:
            raise ValueError("Invalid key: %s." % include)
    with ops.control_dependencies(
        [
            check_ops.assert_greater_equal(
                predictions,
                math_ops.cast(0.0, dtype=predictions.dtype),
                message="predictions must be in [0, 1]",
            ),
            check_ops.assert_less_equal(
                predictions,
                math_ops.cast(1.0, dtype=predictions.dtype),
                message="predictions must be in [0, 1]",
            ),
        ]
    ):
        predictions, labels, weights = _remove_squeezable_dimensions(
            predictions=math_ops.cast(predictions, dtypes.float32),
            labels=math_ops.cast(labels, dtype=dtypes.bool),
            weights=weights,
        )
    num_thresholds = len(thresholds)
    predictions_2d = array_ops.reshape(predictions, [-1, 1])
    labels_2d = array_ops.reshape(math_ops.cast(labels, dtype=dtypes.bool), [1, -1])
    num_predictions = predictions_2d.get_shape().as_list()[0]
    if num_predictions is None:
        num_predictions = array_ops.shape(predictions_2d)[0]
    thresh_tiled = array_ops.tile(
        array_ops.expand_dims(constant_op.constant(thresholds), [1]), array_ops.stack([1, num_predictions])
    )
    pred_is_pos = math_ops.greater(
        array_ops.tile(array_ops.transpose(predictions_2d), [num_thresholds, 1]), thresh_tiled
    )
    pred_is_neg = math_ops.logical_not(pred_is_pos) if ("fn" in includes or "tn" in includes) else None
    label_is_pos = array_ops.tile(labels_2d, [num_thresholds, 1])
    label_is_neg = math_ops.logical_not(label_is_pos) if ("fp" in includes or "tn" in includes) else None
    weights_tiled: Any = None
    if weights is not None:
        weights = weights_broadcast_ops.broadcast_weights(math_ops.cast(weights, dtypes.float32), predictions)
        weights_tiled = array_ops.tile(array_ops.reshape(weights, [1, -1]), [num_thresholds, 1])
        thresh_tiled.get_shape().assert_is_compatible_with(weights_tiled.get_shape())
    values, update_ops = {}, {}
    sides = {
        "tp": (label_is_pos, pred_is_pos),
        "fn": (label_is_pos, pred_is_neg),
        "tn": (label_is_neg, pred_is_neg),
        "fp": (label_is_neg, pred_is_pos),
    }
    for key in _ALL:
        if key not in includes:
            continue
        count = metric_variable([num_thresholds], dtypes.float32, name=_NAMES[key])
        found = math_ops.cast(math_ops.logical_and(*sides[key]), dtypes.float32)
        if weights_tiled is not None:
            found *= weights_tiled
        update_ops[key] = state_ops.assign_add(count, math_ops.reduce_sum(found, 1))
        values[key] = count
    return values, update_ops


def _even_thresholds(num_thresholds: int) -> Any:
    if not isinstance(num_thresholds, numbers.Integral) or isinstance(num_thresholds, bool):
        raise TypeError("num_thresholds must be an integer, got: %r" % (num_thresholds,))
    if not 2 <= num_thresholds <= 1 << 24:
        raise ValueError("num_thresholds must be from 2 to %d, got: %d" % (1 << 24, num_thresholds))
    inner = [(i + 1) * 1.0 / (num_thresholds - 1) for i in range(num_thresholds - 2)]
    return [0.0 - _EPSILON] + inner + [1.0 + _EPSILON]


def auc(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    curve: str = "ROC",
    name: Optional[str] = None,
    summation_method: str = "trapezoidal",
    thresholds: Any = None,
) -> Tuple[Any, Any]:
    """Returns (area under the curve "ROC" or "PR", update op) from counts at thresholds.

    `summation_method` is "trapezoidal", "minoring", "majoring" or (for PR) "careful_interpolation". Raises ValueError for
    other values.
    """
    with variable_scope.variable_scope(name, "auc", (labels, predictions, weights)):
        if curve not in ("ROC", "PR"):
            raise ValueError("curve must be either ROC or PR, %s unknown" % curve)
        if thresholds is not None:
            thresholds = [0.0 - _EPSILON] + list(thresholds) + [1.0 + _EPSILON]
        else:
            thresholds = _even_thresholds(num_thresholds)
        num = len(thresholds)
        values, update_ops = _confusion_matrix_at_thresholds(
            labels, ops.convert_to_tensor(predictions), thresholds, weights
        )
        epsilon = 1.0e-6

        def interpolate_pr_auc(tp: Any, fp: Any, fn: Any) -> Any:
            dtp = tp[: num - 1] - tp[1:]
            p = tp + fp
            prec_slope = math_ops.div_no_nan(
                dtp, math_ops.maximum(p[: num - 1] - p[1:], 0), name="prec_slope"
            )
            intercept = tp[1:] - math_ops.multiply(prec_slope, p[1:])
            safe_p_ratio = array_ops.where(
                math_ops.logical_and(p[: num - 1] > 0, p[1:] > 0),
                math_ops.div_no_nan(p[: num - 1], math_ops.maximum(p[1:], 0), name="recall_relative_ratio"),
                array_ops.ones_like(p[1:]),
            )
            return math_ops.reduce_sum(
                math_ops.div_no_nan(
                    prec_slope * (dtp + intercept * math_ops.log(safe_p_ratio)),
                    math_ops.maximum(tp[1:] + fn[1:], 0),
                    name="pr_auc_increment",
                ),
                name="interpolate_pr_auc",
            )

        def compute_auc(tp: Any, fn: Any, tn: Any, fp: Any, name: str) -> Any:
            if curve == "PR":
                if summation_method == "careful_interpolation":
                    return interpolate_pr_auc(tp, fp, fn)
            rec = math_ops.div(tp + epsilon, tp + fn + epsilon)
            if curve == "ROC":
                fp_rate = math_ops.div(fp, fp + tn + epsilon)
                x, y = fp_rate, rec
            else:
                x, y = rec, math_ops.div(tp + epsilon, tp + fp + epsilon)
            if summation_method in ("trapezoidal", "careful_interpolation"):
                heights = (y[: num - 1] + y[1:]) / 2.0
            elif summation_method == "minoring":
                heights = math_ops.minimum(y[: num - 1], y[1:])
            elif summation_method == "majoring":
                heights = math_ops.maximum(y[: num - 1], y[1:])
            else:
                raise ValueError("Invalid summation_method: %s" % summation_method)
            return math_ops.reduce_sum(math_ops.multiply(x[: num - 1] - x[1:], heights), name=name)

        value = _aggregate_across_replicas(
            metrics_collections, lambda _, v: compute_auc(v["tp"], v["fn"], v["tn"], v["fp"], "value"), values
        )
        u = update_ops
        return value, add_update(
            updates_collections, compute_auc(u["tp"], u["fn"], u["tn"], u["fp"], "update_op")
        )


def _counts_at(
    key: str,
    labels: Any,
    predictions: Any,
    thresholds: Any,
    weights: Any,
    collections: Any,
    updates: Any,
    name: Any,
) -> Any:
    with variable_scope.variable_scope(name, _NAMES[key], (predictions, labels, weights)):
        values, update_ops = _confusion_matrix_at_thresholds(
            labels, ops.convert_to_tensor(predictions), thresholds, weights=weights, includes=(key,)
        )
        value = _aggregate_across_replicas(collections, lambda _, v: array_ops.identity(v[key]), values)
        return value, add_update(updates, update_ops[key])


def true_positives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (counts of true positives at the thresholds, update op)."""
    return _counts_at(
        "tp", labels, predictions, thresholds, weights, metrics_collections, updates_collections, name
    )


def true_negatives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (counts of true negatives at the thresholds, update op)."""
    return _counts_at(
        "tn", labels, predictions, thresholds, weights, metrics_collections, updates_collections, name
    )


def false_positives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (counts of false positives at the thresholds, update op)."""
    return _counts_at(
        "fp", labels, predictions, thresholds, weights, metrics_collections, updates_collections, name
    )


def false_negatives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (counts of false negatives at the thresholds, update op)."""
    return _counts_at(
        "fn", labels, predictions, thresholds, weights, metrics_collections, updates_collections, name
    )


def _ratio_at(
    kind: str,
    other: str,
    labels: Any,
    predictions: Any,
    thresholds: Any,
    weights: Any,
    collections: Any,
    updates: Any,
    name: Any,
) -> Any:
    with variable_scope.variable_scope(name, kind + "_at_thresholds", (predictions, labels, weights)):
        values, update_ops = _confusion_matrix_at_thresholds(
            labels, ops.convert_to_tensor(predictions), thresholds, weights, includes=("tp", other)
        )

        def compute(v: Any, name: str) -> Any:
            return math_ops.div(v["tp"], _EPSILON + v["tp"] + v[other], name=kind + "_" + name)

        value = _aggregate_across_replicas(collections, lambda _, v: compute(v, "value"), values)
        return value, add_update(updates, compute(update_ops, "update_op"))


def precision_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (precision at the thresholds, update op)."""
    return _ratio_at(
        "precision",
        "fp",
        labels,
        predictions,
        thresholds,
        weights,
        metrics_collections,
        updates_collections,
        name,
    )


def recall_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (recall at the thresholds, update op)."""
    return _ratio_at(
        "recall",
        "fn",
        labels,
        predictions,
        thresholds,
        weights,
        metrics_collections,
        updates_collections,
        name,
    )


def sensitivity_at_specificity(
    labels: Any,
    predictions: Any,
    specificity: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (sensitivity at the threshold whose specificity is nearest to the one given, update op)."""
    if specificity < 0 or specificity > 1:
        raise ValueError("`specificity` must be in the range [0, 1].")
    with variable_scope.variable_scope(name, "sensitivity_at_specificity", (predictions, labels, weights)):
        values, update_ops = _confusion_matrix_at_thresholds(
            labels, ops.convert_to_tensor(predictions), _even_thresholds(num_thresholds), weights
        )

        def compute(v: Any, name: str) -> Any:
            specificities = math_ops.div(v["tn"], v["tn"] + v["fp"] + _EPSILON)
            index = math_ops.cast(math_ops.argmin(math_ops.abs(specificities - specificity), 0), dtypes.int32)
            return math_ops.div(v["tp"][index], v["tp"][index] + v["fn"][index] + _EPSILON, name)

        value = _aggregate_across_replicas(metrics_collections, lambda _, v: compute(v, "value"), values)
        return value, add_update(updates_collections, compute(update_ops, "update_op"))


def specificity_at_sensitivity(
    labels: Any,
    predictions: Any,
    sensitivity: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (specificity at the last threshold whose sensitivity is nearest to the one given, update op)."""
    if sensitivity < 0 or sensitivity > 1:
        raise ValueError("`sensitivity` must be in the range [0, 1].")
    with variable_scope.variable_scope(name, "specificity_at_sensitivity", (predictions, labels, weights)):
        values, update_ops = _confusion_matrix_at_thresholds(
            labels, ops.convert_to_tensor(predictions), _even_thresholds(num_thresholds), weights
        )

        def compute(v: Any, name: str) -> Any:
            sensitivities = math_ops.div(v["tp"], v["tp"] + v["fn"] + _EPSILON)
            distances = math_ops.abs(sensitivities - sensitivity)
            nearest = math_ops.equal(distances, math_ops.reduce_min(distances))
            indices = math_ops.range(0, array_ops.shape(nearest)[0])
            index = math_ops.reduce_max(array_ops.where(nearest, indices, array_ops.zeros_like(indices)))
            return math_ops.div(v["tn"][index], v["tn"][index] + v["fp"][index] + _EPSILON, name)

        value = _aggregate_across_replicas(metrics_collections, lambda _, v: compute(v, "value"), values)
        return value, add_update(updates_collections, compute(update_ops, "update_op"))
