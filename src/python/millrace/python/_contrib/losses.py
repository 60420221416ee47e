# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Losses of tf.contrib.losses and tf.contrib.slim.losses: predictions come first."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import array_ops, math_ops, nn, nn_ops
from millrace.python.ops.losses import losses_impl, util

add_loss = util.add_loss
get_losses = util.get_losses
get_regularization_losses = util.get_regularization_losses
get_total_loss = util.get_total_loss


def compute_weighted_loss(losses: Any, weights: Any = 1.0, scope: Any = None) -> Any:
    """The mean of losses with weights that are not zero; it is added to the collection.

    Weights have the leading dimensions of the losses: [], [batch], or more.
    """
    with ops.name_scope(scope, "weighted_loss", [losses, weights]):
        losses = ops.convert_to_tensor(losses)
        return losses_impl.compute_weighted_loss(losses, _widened(losses, weights))


def _widened(losses: Any, weights: Any) -> Any:
    """Weights, with dimensions of 1 appended up to the rank of the losses."""
    weights = math_ops.cast(ops.convert_to_tensor(weights), "float32")
    have, want = weights.shape.ndims, losses.shape.ndims
    if have is None or want is None:
        raise ValueError("losses and weights must have known ranks")
    if have > want:
        weights = array_ops.squeeze(weights, list(range(want, have)))
    elif 0 < have < want:
        for _ in range(want - have):
            weights = array_ops.expand_dims(weights, -1)
    return weights


def _smoothed(labels: Any, smoothing: float) -> Any:
    classes = math_ops.cast(array_ops.shape(labels)[1], labels.dtype)
    return labels * (1.0 - smoothing) + smoothing / classes


def softmax_cross_entropy(
    logits: Any, onehot_labels: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: Any = None
) -> Any:
    """The cross entropy of softmax; the loss is added to the collection."""
    with ops.name_scope(scope, "softmax_cross_entropy_loss", [logits, onehot_labels, weights]):
        logits, onehot_labels = ops.convert_to_tensor(logits), ops.convert_to_tensor(onehot_labels)
        logits.get_shape().assert_is_compatible_with(onehot_labels.get_shape())
        onehot_labels = math_ops.cast(onehot_labels, logits.dtype)
        if label_smoothing > 0:
            onehot_labels = _smoothed(onehot_labels, label_smoothing)
        losses = nn_ops.softmax_cross_entropy_with_logits(
            labels=onehot_labels, logits=logits, name="xentropy"
        )
        return compute_weighted_loss(losses, weights)


def sparse_softmax_cross_entropy(logits: Any, labels: Any, weights: Any = 1.0, scope: Any = None) -> Any:
    """The cross entropy of softmax for labels that are class numbers."""
    with ops.name_scope(scope, "sparse_softmax_cross_entropy_loss", [logits, labels, weights]):
        logits, labels = ops.convert_to_tensor(logits), ops.convert_to_tensor(labels)
        if labels.shape.ndims is not None and labels.shape.ndims == logits.shape.ndims:
            labels = array_ops.reshape(labels, shape=[array_ops.shape(labels)[0]])
        losses = nn_ops.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=logits, name="xentropy"
        )
        return compute_weighted_loss(losses, weights)


def sigmoid_cross_entropy(
    logits: Any, multi_class_labels: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: Any = None
) -> Any:
    """The cross entropy of sigmoid."""
    with ops.name_scope(scope, "sigmoid_cross_entropy_loss", [logits, multi_class_labels, weights]):
        logits, labels = ops.convert_to_tensor(logits), ops.convert_to_tensor(multi_class_labels)
        logits.get_shape().assert_is_compatible_with(labels.get_shape())
        labels = math_ops.cast(labels, logits.dtype)
        if label_smoothing > 0:
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights)


def _floats(predictions: Any, labels: Any) -> tuple[Any, Any]:
    predictions, labels = ops.convert_to_tensor(predictions), ops.convert_to_tensor(labels)
    predictions.get_shape().assert_is_compatible_with(labels.get_shape())
    return math_ops.cast(predictions, "float32"), math_ops.cast(labels, "float32")


def absolute_difference(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: Any = None) -> Any:
    """Absolute differences."""
    with ops.name_scope(scope, "absolute_difference", [predictions, labels, weights]):
        predictions, labels = _floats(predictions, labels)
        return compute_weighted_loss(math_ops.abs(predictions - labels), weights)


def mean_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: Any = None) -> Any:
    """Squared differences."""
    with ops.name_scope(scope, "mean_squared_error", [predictions, labels, weights]):
        predictions, labels = _floats(predictions, labels)
        return compute_weighted_loss(math_ops.squared_difference(predictions, labels), weights)


def mean_pairwise_squared_error(
    predictions: Any, labels: Any = None, weights: Any = 1.0, scope: Any = None
) -> Any:
    """Squared differences of differences within each entry of the batch."""
    return losses_impl.mean_pairwise_squared_error(labels, predictions, weights, scope=scope)


def log_loss(
    predictions: Any, labels: Any = None, weights: Any = 1.0, epsilon: float = 1e-7, scope: Any = None
) -> Any:
    """The cross entropy of probabilities."""
    with ops.name_scope(scope, "log_loss", [predictions, labels, weights]):
        predictions, labels = _floats(predictions, labels)
        positive = math_ops.multiply(labels, math_ops.log(predictions + epsilon))
        negative = math_ops.multiply(1 - labels, math_ops.log(1 - predictions + epsilon))
        return compute_weighted_loss(-positive - negative, weights)


def hinge_loss(logits: Any, labels: Any = None, scope: Any = None) -> Any:
    """Hinge losses, not reduced and in no collection."""
    with ops.name_scope(scope, "hinge_loss", [logits, labels]):
        logits, labels = _floats(logits, labels)
        all_ones = array_ops.ones_like(labels)
        labels = math_ops.subtract(2 * labels, all_ones)
        return nn_ops.relu(math_ops.subtract(all_ones, math_ops.multiply(labels, logits)))


def cosine_distance(
    predictions: Any,
    labels: Any = None,
    axis: Any = None,
    weights: Any = 1.0,
    scope: Any = None,
    dim: Any = None,
) -> Any:
    """1 - the product of unit vectors along an axis; ValueError without axis."""
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("You must specify 'axis'.")
    with ops.name_scope(scope, "cosine_distance_loss", [predictions, labels, weights]):
        predictions, labels = _floats(predictions, labels)
        losses = 1 - math_ops.reduce_sum(math_ops.multiply(predictions, labels), axis=[axis])
        return compute_weighted_loss(losses, weights)
