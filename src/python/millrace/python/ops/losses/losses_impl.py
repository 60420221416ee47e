# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Weighted and reduced losses, which are added to a collection."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import (
    array_ops,
    confusion_matrix,
    control_flow_ops,
    math_ops,
    nn,
    nn_ops,
    weights_broadcast_ops,
)
from millrace.python.ops.losses import util
from millrace.python.util.deprecation import deprecated_argument_lookup


class Reduction:
    """The reduction of weighted losses to one value."""

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls) -> Any:
        """Returns all reductions."""
        return (
            cls.NONE,
            cls.SUM,
            cls.MEAN,
            cls.SUM_OVER_BATCH_SIZE,
            cls.SUM_OVER_NONZERO_WEIGHTS,
            cls.SUM_BY_NONZERO_WEIGHTS,
        )

    @classmethod
    def validate(cls, key: Any) -> None:
        """Raises ValueError for anything else than a reduction."""
        if key not in cls.all():
            raise ValueError("Invalid Reduction Key %s." % key)


_DEFAULT = Reduction.SUM_BY_NONZERO_WEIGHTS
_LOSSES = ops.GraphKeys.LOSSES


def _float(value: Any) -> Any:
    """Returns `value` as a dense tensor of float32."""
    return math_ops.cast(
        value if isinstance(value, ops.Tensor) else ops.convert_to_tensor(value), dtype="float32"
    )


def _safe_mean(losses: Any, num_present: Any) -> Any:
    return math_ops.div_no_nan(math_ops.reduce_sum(losses), num_present, name="value")


def _num_present(losses: Any, weights: Any, per_batch: bool = False) -> Any:
    """Returns the number of elements of `losses` whose weight is not 0, as a scalar or per element of the batch."""
    if isinstance(weights, float) and weights != 0.0:
        return _num_elements(losses)
    with ops.name_scope(None, "num_present", (losses, weights)) as scope:
        weights = _float(weights)
        present = array_ops.where(
            math_ops.equal(weights, 0.0), array_ops.zeros_like(weights), array_ops.ones_like(weights)
        )
        present = weights_broadcast_ops.broadcast_weights(present, losses)
        if per_batch:
            return math_ops.reduce_sum(
                present, axis=math_ops.range(1, array_ops.rank(present)), keepdims=True, name=scope
            )
        return math_ops.reduce_sum(present, name=scope)


def _num_elements(losses: Any) -> Any:
    with ops.name_scope(None, "num_elements", values=[losses]) as scope:
        return math_ops.cast(array_ops.size(losses, name=scope), dtype=losses.dtype)


def compute_weighted_loss(
    losses: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = _LOSSES,
    reduction: str = _DEFAULT,
) -> Any:
    """Returns the losses times the weights (a scalar, or of their rank with dimensions 1 or the same), reduced.

    The result is added to `loss_collection`. Raises ValueError when shapes do not broadcast or for an unknown
    reduction.
    """
    Reduction.validate(reduction)
    with ops.name_scope(scope, "weighted_loss", (losses, weights)):
        losses = ops.convert_to_tensor(losses)
        with ops.control_dependencies((weights_broadcast_ops.assert_broadcastable(weights, losses),)):
            input_dtype = losses.dtype
            losses = math_ops.cast(losses, dtype="float32")
            weights = _float(weights)
            result = math_ops.multiply(losses, weights)
            if reduction != Reduction.NONE:
                weighted = result
                result = math_ops.reduce_sum(weighted)
                if reduction == Reduction.MEAN:
                    result = _safe_mean(result, math_ops.reduce_sum(array_ops.ones_like(weighted) * weights))
                elif reduction == Reduction.SUM_BY_NONZERO_WEIGHTS:
                    result = _safe_mean(result, _num_present(weighted, weights))
                elif reduction == Reduction.SUM_OVER_BATCH_SIZE:
                    result = _safe_mean(result, _num_elements(weighted))
            result = math_ops.cast(result, input_dtype)
            util.add_loss(result, loss_collection)
            return result


def _pair(labels: Any, predictions: Any) -> Any:
    predictions = _float(predictions)
    labels = _float(labels)
    predictions.get_shape().assert_is_compatible_with(labels.get_shape())
    return labels, predictions


def _refuse_none(**kwargs: Any) -> None:
    for name, value in kwargs.items():
        if value is None:
            raise ValueError("%s must not be None." % name)


def absolute_difference(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = _LOSSES,
    reduction: str = _DEFAULT,
) -> Any:
    """Returns the weighted |predictions - labels|."""
    _refuse_none(labels=labels, predictions=predictions)
    with ops.name_scope(scope, "absolute_difference", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions)
        losses = math_ops.abs(math_ops.subtract(predictions, labels))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)


def cosine_distance(
    labels: Any,
    predictions: Any,
    axis: Any = None,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = _LOSSES,
    reduction: str = _DEFAULT,
    dim: Any = None,
) -> Any:
    """Returns the weighted 1 - sum(labels * predictions) along `axis`; both must be normalised."""
    axis = deprecated_argument_lookup("axis", axis, "dim", dim)
    if axis is None:
        raise ValueError("You must specify 'axis'.")
    _refuse_none(labels=labels, predictions=predictions)
    with ops.name_scope(scope, "cosine_distance_loss", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions)
        radial_diffs = math_ops.multiply(predictions, labels)
        losses = 1 - math_ops.reduce_sum(radial_diffs, axis=(axis,), keepdims=True)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)


def hinge_loss(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = _LOSSES,
    reduction: str = _DEFAULT,
) -> Any:
    """Returns the weighted max(0, 1 - (2 labels - 1) logits) for labels 0 and 1."""
    _refuse_none(labels=labels, logits=logits)
    with ops.name_scope(scope, "hinge_loss", (logits, labels, weights)) as scope:
        logits = _float(logits)
        labels = _float(labels)
        logits.get_shape().assert_is_compatible_with(labels.get_shape())
        all_ones = array_ops.ones_like(labels)
        labels = math_ops.subtract(2 * labels, all_ones)
        losses = nn_ops.relu(math_ops.subtract(all_ones, math_ops.multiply(labels, logits)))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)


def huber_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    delta: float = 1.0,
    scope: Any = None,
    loss_collection: Any = _LOSSES,
    reduction: str = _DEFAULT,
) -> Any:
    """Returns the weighted e^2 / 2 for |e| <= delta and delta |e| - delta^2 / 2 beyond, e = predictions - labels."""
    _refuse_none(labels=labels, predictions=predictions)
    with ops.name_scope(scope, "huber_loss", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions)
        abs_error = math_ops.abs(math_ops.subtract(predictions, labels))
        delta = ops.convert_to_tensor(delta, dtype=abs_error.dtype)
        quadratic = math_ops.minimum(abs_error, delta)
        linear = math_ops.subtract(abs_error, quadratic)
        half = ops.convert_to_tensor(0.5, dtype=quadratic.dtype)
        losses = math_ops.add(
            math_ops.multiply(half, math_ops.multiply(quadratic, quadratic)), math_ops.multiply(delta, linear)
        )
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)


def log_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    epsilon: float = 1e-7,
    scope: Any = None,
    loss_collection: Any = _LOSSES,
    reduction: str = _DEFAULT,
) -> Any:
    """Returns the weighted -labels log(p + epsilon) - (1 - labels) log(1 - p + epsilon)."""
    _refuse_none(labels=labels, predictions=predictions)
    with ops.name_scope(scope, "log_loss", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions)
        losses = -math_ops.multiply(labels, math_ops.log(predictions + epsilon)) - math_ops.multiply(
            (1 - labels), math_ops.log(1 - predictions + epsilon)
        )
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)


def mean_pairwise_squared_error(
    labels: Any, predictions: Any, weights: Any = 1.0, scope: Any = None, loss_collection: Any = _LOSSES
) -> Any:
    """Returns the weighted mean of the squared differences between the differences of all pairs of elements."""
    _refuse_none(labels=labels, predictions=predictions)
    with ops.name_scope(scope, "mean_pairwise_squared_error", (predictions, labels, weights)) as scope:
        weights = _float(weights)
        labels = _float(labels)
        with ops.control_dependencies((weights_broadcast_ops.assert_broadcastable(weights, labels),)):
            predictions = _float(predictions)
            predictions.get_shape().assert_is_compatible_with(labels.get_shape())
            diffs = math_ops.subtract(predictions, labels)
            axis = math_ops.range(1, array_ops.rank(diffs))
            sum_squares = math_ops.reduce_sum(math_ops.square(diffs), axis=axis, keepdims=True)
            num_present = _num_present(diffs, weights, per_batch=True)
            term1 = 2.0 * math_ops.div_no_nan(sum_squares, math_ops.maximum(num_present - 1, 0), name="value")
            sum_diff = math_ops.reduce_sum(diffs, axis=axis, keepdims=True)
            term2 = 2.0 * math_ops.div_no_nan(
                math_ops.square(sum_diff),
                math_ops.maximum(math_ops.multiply(num_present, num_present - 1), 0),
                name="value",
            )
            weighted_losses = math_ops.multiply(term1 - term2, weights)
            loss = math_ops.reduce_sum(weighted_losses)
            mean_loss = array_ops.where(
                math_ops.reduce_sum(num_present) > 0, loss, array_ops.zeros_like(loss), name="value"
            )
            util.add_loss(mean_loss, loss_collection)
            return mean_loss


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = _LOSSES,
    reduction: str = _DEFAULT,
) -> Any:
    """Returns the weighted (predictions - labels)^2."""
    _refuse_none(labels=labels, predictions=predictions)
    with ops.name_scope(scope, "mean_squared_error", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions)
        losses = math_ops.squared_difference(predictions, labels)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)


def sigmoid_cross_entropy(
    multi_class_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: Any = 0,
    scope: Any = None,
    loss_collection: Any = _LOSSES,
    reduction: str = _DEFAULT,
) -> Any:
    """Returns the weighted cross entropies of labels and sigmoid(logits); labels may be smoothed towards 0.5."""
    _refuse_none(multi_class_labels=multi_class_labels, logits=logits)
    with ops.name_scope(scope, "sigmoid_cross_entropy_loss", (logits, multi_class_labels, weights)) as scope:
        logits = ops.convert_to_tensor(logits)
        labels = math_ops.cast(ops.convert_to_tensor(multi_class_labels), logits.dtype)
        logits.get_shape().assert_is_compatible_with(labels.get_shape())
        if label_smoothing > 0:
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)


def softmax_cross_entropy(
    onehot_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: Any = 0,
    scope: Any = None,
    loss_collection: Any = _LOSSES,
    reduction: str = _DEFAULT,
) -> Any:
    """Returns the weighted cross entropies of labels and softmax(logits); labels may be smoothed to uniform ones."""
    _refuse_none(onehot_labels=onehot_labels, logits=logits)
    with ops.name_scope(scope, "softmax_cross_entropy_loss", (logits, onehot_labels, weights)) as scope:
        logits = ops.convert_to_tensor(logits)
        onehot_labels = math_ops.cast(ops.convert_to_tensor(onehot_labels), logits.dtype)
        logits.get_shape().assert_is_compatible_with(onehot_labels.get_shape())
        if label_smoothing > 0:
            num_classes = math_ops.cast(array_ops.shape(onehot_labels)[-1], logits.dtype)
            onehot_labels = onehot_labels * (1.0 - label_smoothing) + label_smoothing / num_classes
        onehot_labels = array_ops.stop_gradient(onehot_labels, name="labels_stop_gradient")
        losses = nn_ops.softmax_cross_entropy_with_logits_v2(
            labels=onehot_labels, logits=logits, name="xentropy"
        )
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)


def _remove_squeezable_dimensions(
    labels: Any, predictions: Any, weights: Any = None, expected_rank_diff: int = 0
) -> Any:
    labels, predictions = confusion_matrix.remove_squeezable_dimensions(
        labels, predictions, expected_rank_diff=expected_rank_diff
    )
    if weights is not None:
        weights = ops.convert_to_tensor(weights)
        labels_rank, weights_rank = labels.get_shape().ndims, weights.get_shape().ndims
        if labels_rank is not None and weights_rank is not None:
            if weights_rank - labels_rank == 1:
                weights = array_ops.squeeze(weights, [-1])
        elif weights_rank is None or (
            weights_rank > 0 and weights.get_shape().dims[-1].is_compatible_with(1)
        ):
            unsqueezed = weights
            weights = control_flow_ops.cond(
                math_ops.equal(array_ops.rank(weights), math_ops.add(array_ops.rank(labels), 1)),
                lambda: array_ops.squeeze(unsqueezed, [-1]),
                lambda: unsqueezed,
            )
    return labels, predictions, weights


def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = _LOSSES,
    reduction: str = _DEFAULT,
) -> Any:
    """Returns the weighted cross entropies of class indices and softmax(logits)."""
    _refuse_none(labels=labels, logits=logits)
    with ops.name_scope(scope, "sparse_softmax_cross_entropy_loss", (logits, labels, weights)) as scope:
        labels, logits, weights = _remove_squeezable_dimensions(labels, logits, weights, expected_rank_diff=1)
        losses = nn_ops.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=logits, name="xentropy"
        )
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)
