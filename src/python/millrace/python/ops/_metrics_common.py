# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The common part of streaming metrics: variables, and adjustment of shapes."""
from __future__ import annotations

from typing import Any, Callable, Optional, Tuple

from millrace.python.framework import dtypes, ops, sparse_tensor
from millrace.python.ops import array_ops, confusion_matrix, control_flow_ops, math_ops, variable_scope
from millrace.python.ops import weights_broadcast_ops  # noqa: F401

_EPSILON = 1e-7


def metric_variable(
    shape: Any,
    dtype: Any,
    validate_shape: bool = True,
    name: Optional[str] = None,
) -> Any:
    """Returns a variable of zeros in the collections LOCAL_VARIABLES and METRIC_VARIABLES."""
    return variable_scope.variable(
        lambda: array_ops.zeros(shape, dtype),
        trainable=False,
        collections=[ops.GraphKeys.LOCAL_VARIABLES, ops.GraphKeys.METRIC_VARIABLES],
        validate_shape=validate_shape,
        name=name,
    )


def _remove_squeezable_dimensions(predictions: Any, labels: Any, weights: Any) -> Tuple[Any, Any, Any]:
    """Removes or adds a last dimension of 1 where ranks differ by one."""
    predictions = ops.convert_to_tensor(predictions)
    if labels is not None:
        labels, predictions = confusion_matrix.remove_squeezable_dimensions(labels, predictions)
        predictions.get_shape().assert_is_compatible_with(labels.get_shape())
    if weights is None:
        return predictions, labels, None
    weights = ops.convert_to_tensor(weights)
    weights_shape, predictions_shape = weights.get_shape(), predictions.get_shape()
    weights_rank, predictions_rank = weights_shape.ndims, predictions_shape.ndims
    if weights_rank == 0:
        return predictions, labels, weights
    if predictions_rank is not None and weights_rank is not None:
        if weights_rank - predictions_rank == 1:
            weights = array_ops.squeeze(weights, [-1])
        elif predictions_rank - weights_rank == 1:
            weights = array_ops.expand_dims(weights, [-1])
        return predictions, labels, weights
    original = weights
    rank_diff = array_ops.rank(original) - array_ops.rank(predictions)

    def maybe_adjust() -> Any:
        return control_flow_ops.cond(
            math_ops.equal(rank_diff, 1),
            lambda: array_ops.squeeze(original, [-1]),
            lambda: control_flow_ops.cond(
                math_ops.equal(rank_diff, -1), lambda: array_ops.expand_dims(original, [-1]), lambda: original
            ),
        )

    weights = control_flow_ops.cond(
        math_ops.equal(array_ops.rank(original), 0), lambda: original, maybe_adjust
    )
    return predictions, labels, weights


def _maybe_expand_labels(labels: Any, predictions: Any) -> Any:
    """Adds a last dimension of 1 to labels when their rank is one below that of predictions."""
    with ops.name_scope(None, "expand_labels", (labels, predictions)) as scope:
        labels = sparse_tensor.convert_to_tensor_or_sparse_tensor(labels)
        if isinstance(labels, sparse_tensor.SparseTensor):
            from millrace.python.ops import sparse_ops

            return control_flow_ops.cond(
                math_ops.equal(array_ops.rank(predictions), array_ops.size(labels.dense_shape) + 1),
                lambda: sparse_ops.sparse_reshape(
                    labels, shape=array_ops.concat((labels.dense_shape, (1,)), 0), name=scope
                ),
                lambda: labels,
            )
        labels = ops.convert_to_tensor(labels)
        predictions = ops.convert_to_tensor(predictions)
        labels_rank, predictions_rank = labels.get_shape().ndims, predictions.get_shape().ndims
        if labels_rank is not None and predictions_rank is not None:
            if predictions_rank == labels_rank:
                return labels
            if predictions_rank == labels_rank + 1:
                return array_ops.expand_dims(labels, -1, name=scope)
            raise ValueError(
                "Unexpected labels shape %s for predictions shape %s."
                % (labels.get_shape(), predictions.get_shape())
            )
        return control_flow_ops.cond(
            math_ops.equal(array_ops.rank(predictions), array_ops.rank(labels) + 1),
            lambda: array_ops.expand_dims(labels, -1, name=scope),
            lambda: labels,
        )


def _safe_scalar_div(numerator: Any, denominator: Any, name: Optional[str]) -> Any:
    numerator.get_shape().with_rank_at_most(1)
    denominator.get_shape().with_rank_at_most(1)
    return math_ops.div_no_nan(numerator, denominator, name=name)


def aggregate_across_towers(metrics_collections: Any, metric_value_fn: Callable[..., Any], *args: Any) -> Any:
    """Returns the value of a metric, and adds it to collections."""
    value = metric_value_fn(None, *args)
    if metrics_collections:
        ops.add_to_collections(metrics_collections, value)
    return value


_aggregate_across_replicas = aggregate_across_towers


def add_update(updates_collections: Any, update_op: Any) -> Any:
    """Returns the op, added to collections."""
    if updates_collections:
        ops.add_to_collections(updates_collections, update_op)
    return update_op


def float_weights(weights: Any, values: Any) -> Any:
    """Returns weights as float32 of the shape of `values`."""
    return weights_broadcast_ops.broadcast_weights(math_ops.cast(weights, dtypes.float32), values)
