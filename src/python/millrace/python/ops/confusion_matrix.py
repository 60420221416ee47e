# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Confusion matrices."""
from __future__ import annotations

from typing import Any, Optional, Tuple

from millrace.python.framework import dtypes, ops
from millrace.python.ops import array_ops, check_ops, control_flow_ops, math_ops


def remove_squeezable_dimensions(
    labels: Any, predictions: Any, expected_rank_diff: int = 0, name: Optional[str] = None
) -> Tuple[Any, Any]:
    """Removes a last dimension of 1 where rank(predictions) - rank(labels) is not `expected_rank_diff`."""
    with ops.name_scope(name, "remove_squeezable_dimensions", [labels, predictions]):
        predictions = ops.convert_to_tensor(predictions)
        labels = ops.convert_to_tensor(labels)
        predictions_shape, labels_shape = predictions.get_shape(), labels.get_shape()
        if labels_shape.ndims is not None and predictions_shape.ndims is not None:
            rank_diff = predictions_shape.ndims - labels_shape.ndims
            if (
                rank_diff == expected_rank_diff + 1
                and predictions_shape.ndims > 0
                and predictions_shape.dims[-1].is_compatible_with(1)
            ):
                predictions = array_ops.squeeze(predictions, [-1])
            elif (
                rank_diff == expected_rank_diff - 1
                and labels_shape.ndims > 0
                and labels_shape.dims[-1].is_compatible_with(1)
            ):
                labels = array_ops.squeeze(labels, [-1])
            return labels, predictions
        dynamic_diff = array_ops.rank(predictions) - array_ops.rank(labels)
        if (
            predictions_shape.ndims is None
            or predictions_shape.ndims
            and predictions_shape.dims[-1].is_compatible_with(1)
        ):
            unsqueezed = predictions
            predictions = control_flow_ops.cond(
                math_ops.equal(expected_rank_diff + 1, dynamic_diff),
                lambda: array_ops.squeeze(unsqueezed, [-1]),
                lambda: unsqueezed,
            )
        if labels_shape.ndims is None or labels_shape.ndims and labels_shape.dims[-1].is_compatible_with(1):
            raw_labels = labels
            labels = control_flow_ops.cond(
                math_ops.equal(expected_rank_diff - 1, dynamic_diff),
                lambda: array_ops.squeeze(raw_labels, [-1]),
                lambda: raw_labels,
            )
        return labels, predictions


def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: Any = None,
    weights: Any = None,
    dtype: Any = dtypes.int32,
    name: Optional[str] = None,
) -> Any:
    """Returns the matrix [num_classes, num_classes] of the counts (or sums of weights) of (label, prediction).

    Raises InvalidArgumentError when a step finds negative values or values not below `num_classes`.
    """
    from millrace.python.framework import sparse_tensor
    from millrace.python.ops import sparse_ops

    with ops.name_scope(name, "confusion_matrix", (predictions, labels, num_classes, weights)) as name:
        labels, predictions = remove_squeezable_dimensions(
            ops.convert_to_tensor(labels, name="labels"),
            ops.convert_to_tensor(predictions, name="predictions"),
        )
        predictions = math_ops.cast(predictions, dtypes.int64)
        labels = math_ops.cast(labels, dtypes.int64)
        labels = control_flow_ops.with_dependencies(
            [check_ops.assert_non_negative(labels, message="`labels` contains negative values")], labels
        )
        predictions = control_flow_ops.with_dependencies(
            [check_ops.assert_non_negative(predictions, message="`predictions` contains negative values")],
            predictions,
        )
        if num_classes is None:
            num_classes = math_ops.maximum(math_ops.reduce_max(predictions), math_ops.reduce_max(labels)) + 1
        else:
            num_classes_int64 = math_ops.cast(num_classes, dtypes.int64)
            labels = control_flow_ops.with_dependencies(
                [check_ops.assert_less(labels, num_classes_int64, message="`labels` out of bound")], labels
            )
            predictions = control_flow_ops.with_dependencies(
                [check_ops.assert_less(predictions, num_classes_int64, message="`predictions` out of bound")],
                predictions,
            )
        if weights is not None:
            weights = ops.convert_to_tensor(weights, name="weights")
            predictions.get_shape().assert_is_compatible_with(weights.get_shape())
            weights = math_ops.cast(weights, dtype)
        shape = array_ops.stack([num_classes, num_classes])
        indices = array_ops.stack([labels, predictions], axis=1)
        values = array_ops.ones_like(predictions, dtype) if weights is None else weights
        return array_ops.scatter_nd(indices, values, math_ops.cast(shape, dtypes.int64))


def confusion_matrix_v1(
    labels: Any,
    predictions: Any,
    num_classes: Any = None,
    dtype: Any = dtypes.int32,
    name: Optional[str] = None,
    weights: Any = None,
) -> Any:
    """As `confusion_matrix`, with the order of arguments of version 1."""
    return confusion_matrix(labels, predictions, num_classes, weights, dtype, name)
