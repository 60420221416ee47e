# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Streaming precision and recall of the k best predictions."""
from __future__ import annotations

import numbers
from typing import Any, Optional, Tuple

from millrace.python.framework import dtypes, ops, sparse_tensor
from millrace.python.ops import array_ops, math_ops, nn, sets, sparse_ops, state_ops
from millrace.python.ops import weights_broadcast_ops
from millrace.python.ops._metrics_common import (
    _aggregate_across_replicas,
    _maybe_expand_labels,
    _safe_scalar_div,
    add_update,
    metric_variable,
)


def _at_k_name(name: str, k: Optional[int] = None, class_id: Any = None) -> str:
    if k is not None and not isinstance(k, numbers.Integral):
        raise TypeError("k must be an integer, got: %r" % (k,))
    if class_id is not None and not isinstance(class_id, numbers.Integral):
        raise TypeError("class_id must be an integer, got: %r" % (class_id,))
    name = "%s_at_%d" % (name, k) if k is not None else "%s_at_k" % name  # type: ignore[str-format]
    return name if class_id is None else "%s_class%d" % (name, class_id)


def _select_class_id(ids: Any, selected_id: int) -> Any:
    """Returns a sparse tensor of the elements of `ids` that equal `selected_id`."""
    ids = sparse_tensor.convert_to_tensor_or_sparse_tensor(ids)
    if isinstance(ids, sparse_tensor.SparseTensor):
        return sparse_ops.sparse_retain(ids, math_ops.equal(ids.values, selected_id))
    ids_shape = array_ops.shape(ids, out_type=dtypes.int64)
    filled_shape = array_ops.concat((ids_shape[:-1], [1]), axis=0)
    filled = array_ops.fill(
        math_ops.cast(filled_shape, dtypes.int32), math_ops.cast(selected_id, dtypes.int64)
    )
    result = sets.set_intersection(filled, ids)
    return sparse_tensor.SparseTensor(indices=result.indices, values=result.values, dense_shape=ids_shape)


def _maybe_select_class_id(labels: Any, predictions_idx: Any, selected_id: Optional[int]) -> Tuple[Any, Any]:
    if selected_id is None:
        return labels, predictions_idx
    return _select_class_id(labels, selected_id), _select_class_id(predictions_idx, selected_id)


def _weighted(counts: Any, weights: Any) -> Any:
    counts = math_ops.cast(counts, dtypes.float64)
    if weights is not None:
        with ops.control_dependencies((weights_broadcast_ops.assert_broadcastable(weights, counts),)):
            counts = math_ops.multiply(counts, math_ops.cast(weights, dtypes.float64))
    return counts


def _true_positives(labels: Any, predictions_idx: Any, class_id: Any, weights: Any, name: Any) -> Any:
    with ops.name_scope(name, "true_positives", (predictions_idx, labels, weights)):
        labels, predictions_idx = _maybe_select_class_id(labels, predictions_idx, class_id)
        return _weighted(sets.set_size(sets.set_intersection(predictions_idx, labels)), weights)


def _false_positives(labels: Any, predictions_idx: Any, class_id: Any, weights: Any, name: Any) -> Any:
    with ops.name_scope(name, "false_positives", (predictions_idx, labels, weights)):
        labels, predictions_idx = _maybe_select_class_id(labels, predictions_idx, class_id)
        return _weighted(sets.set_size(sets.set_difference(predictions_idx, labels, aminusb=True)), weights)


def _false_negatives(labels: Any, predictions_idx: Any, class_id: Any, weights: Any, name: Any) -> Any:
    with ops.name_scope(name, "false_negatives", (predictions_idx, labels, weights)):
        labels, predictions_idx = _maybe_select_class_id(labels, predictions_idx, class_id)
        return _weighted(sets.set_size(sets.set_difference(predictions_idx, labels, aminusb=False)), weights)


_COUNTS = {
    "true_positive": _true_positives,
    "false_positive": _false_positives,
    "false_negative": _false_negatives,
}


def _streaming(
    kind: str, labels: Any, predictions_idx: Any, k: Any, class_id: Any, weights: Any
) -> Tuple[Any, Any]:
    default_name = _at_k_name(kind, k, class_id=class_id)
    with ops.name_scope(None, default_name, (predictions_idx, labels, weights)) as scope:
        count = _COUNTS[kind](labels, predictions_idx, class_id, weights, None)
        total = math_ops.cast(math_ops.reduce_sum(count), dtypes.float64)
        var = metric_variable([], dtypes.float64, name=scope)
        return var, state_ops.assign_add(var, total, name="update")


def _at_top_k(
    kind: str,
    other: str,
    labels: Any,
    predictions_idx: Any,
    k: Any,
    class_id: Any,
    weights: Any,
    collections: Any,
    updates: Any,
    name: Any,
) -> Tuple[Any, Any]:
    with ops.name_scope(
        name, _at_k_name(kind, k, class_id=class_id), (predictions_idx, labels, weights)
    ) as scope:
        labels = _maybe_expand_labels(labels, predictions_idx)
        top_k_idx = math_ops.cast(predictions_idx, dtypes.int64)
        tp, tp_update = _streaming("true_positive", labels, top_k_idx, k, class_id, weights)
        rest, rest_update = _streaming(other, labels, top_k_idx, k, class_id, weights)

        def compute(_: Any, tp: Any, rest: Any) -> Any:
            return math_ops.div(tp, math_ops.add(tp, rest), name=scope)

        metric = _aggregate_across_replicas(collections, compute, tp, rest)
        update = math_ops.div(tp_update, math_ops.add(tp_update, rest_update), name="update")
        return metric, add_update(updates, update)


def precision_at_top_k(
    labels: Any,
    predictions_idx: Any,
    k: Any = None,
    class_id: Any = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (precision of the predicted indices [..., k], update op), float64."""
    return _at_top_k(
        "precision",
        "false_positive",
        labels,
        predictions_idx,
        k,
        class_id,
        weights,
        metrics_collections,
        updates_collections,
        name,
    )


def recall_at_top_k(
    labels: Any,
    predictions_idx: Any,
    k: Any = None,
    class_id: Any = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (recall of the predicted indices [..., k], update op), float64."""
    return _at_top_k(
        "recall",
        "false_negative",
        labels,
        predictions_idx,
        k,
        class_id,
        weights,
        metrics_collections,
        updates_collections,
        name,
    )


def precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: Any = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (precision of the `k` largest predictions [..., classes], update op), float64."""
    with ops.name_scope(
        name, _at_k_name("precision", k, class_id=class_id), (predictions, labels, weights)
    ) as scope:
        _, top_k_idx = nn.top_k(predictions, k)
        return precision_at_top_k(
            labels, top_k_idx, k, class_id, weights, metrics_collections, updates_collections, name=scope
        )


def recall_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: Any = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (recall of the `k` largest predictions [..., classes], update op), float64."""
    with ops.name_scope(
        name, _at_k_name("recall", k, class_id=class_id), (predictions, labels, weights)
    ) as scope:
        _, top_k_idx = nn.top_k(predictions, k)
        return recall_at_top_k(
            labels, top_k_idx, k, class_id, weights, metrics_collections, updates_collections, name=scope
        )


def sparse_precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: Any = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """As `precision_at_k`."""
    return precision_at_k(
        labels, predictions, k, class_id, weights, metrics_collections, updates_collections, name
    )


def _num_relevant(labels: Any, k: int) -> Any:
    """Returns min(number of labels, k) for each row."""
    if k < 1:
        raise ValueError("Invalid k=%s." % k)
    with ops.name_scope(None, "num_relevant", (labels,)) as scope:
        labels = sparse_tensor.convert_to_tensor_or_sparse_tensor(labels)
        if isinstance(labels, sparse_tensor.SparseTensor):
            return math_ops.minimum(sets.set_size(labels), k, name=scope)
        num_labels = math_ops.minimum(array_ops.shape(labels)[-1], k)
        return array_ops.fill(array_ops.shape(labels)[:-1], num_labels, name=scope)


def _expand_and_tile(tensor: Any, multiple: int, dim: int = 0) -> Any:
    """Returns `tensor` repeated `multiple` times along a new dimension."""
    if multiple < 1:
        raise ValueError("Invalid multiple %s, must be > 0." % multiple)
    with ops.name_scope(None, "expand_and_tile", (tensor, multiple, dim)) as scope:
        tensor = sparse_tensor.convert_to_tensor_or_sparse_tensor(tensor)
        if isinstance(tensor, sparse_tensor.SparseTensor):
            expanded = array_ops.reshape(array_ops.size(tensor.dense_shape) + dim, [1]) if dim < 0 else [dim]
            before = array_ops.slice(tensor.dense_shape, [0], expanded)
            after = array_ops.slice(tensor.dense_shape, expanded, [-1])
            shape = array_ops.concat((before, [1], after), 0, name="expanded_shape")
            reshaped = sparse_ops.sparse_reshape(tensor, shape=shape, name="expand")
            if multiple == 1:
                return reshaped
            return sparse_ops.sparse_concat(dim - 1 if dim < 0 else dim, [reshaped] * multiple, name=scope)
        expanded_tensor = array_ops.expand_dims(tensor, dim if dim >= 0 else dim - 1)
        if multiple == 1:
            return expanded_tensor
        ones = array_ops.ones_like(array_ops.shape(tensor))
        before, after = ones[:dim], ones[dim:]
        return array_ops.tile(expanded_tensor, array_ops.concat((before, (multiple,), after), 0), name=scope)


def _sparse_average_precision_at_top_k(labels: Any, predictions_idx: Any) -> Any:
    """Returns the average precision of each row."""
    with ops.name_scope(None, "average_precision", (predictions_idx, labels)) as scope:
        predictions_idx = math_ops.cast(predictions_idx, dtypes.int64, name="predictions_idx")
        if predictions_idx.get_shape().ndims == 0:
            raise ValueError("The rank of predictions_idx must be at least 1.")
        k = predictions_idx.get_shape().as_list()[-1]
        if k is None:
            raise ValueError("The last dimension of predictions_idx must be set.")
        labels = _maybe_expand_labels(labels, predictions_idx)
        predictions_idx_per_k = array_ops.expand_dims(predictions_idx, -1, name="predictions_idx_per_k")
        labels_per_k = _expand_and_tile(labels, multiple=k, dim=-1)
        relevant_per_k = _true_positives(labels_per_k, predictions_idx_per_k, None, None, "relevant_per_k")
        tp_per_k = math_ops.cumsum(relevant_per_k, axis=-1, name="tp_per_k")
        retrieved_per_k = math_ops.cumsum(
            array_ops.ones_like(relevant_per_k), axis=-1, name="retrieved_per_k"
        )
        precision_per_k = math_ops.div(
            math_ops.cast(tp_per_k, dtypes.float64),
            math_ops.cast(retrieved_per_k, dtypes.float64),
            name="precision_per_k",
        )
        relevant_precision_per_k = math_ops.multiply(
            precision_per_k, math_ops.cast(relevant_per_k, dtypes.float64), name="relevant_precision_per_k"
        )
        precision_sum = math_ops.reduce_sum(relevant_precision_per_k, axis=(-1,), name="precision_sum")
        num_relevant_items = math_ops.cast(_num_relevant(labels, k), dtypes.float64)
        return math_ops.div(precision_sum, num_relevant_items, name=scope)


def average_precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """Returns (mean average precision of the `k` largest predictions, update op), float64."""
    default_name = _at_k_name("average_precision", k)
    with ops.name_scope(name, default_name, (predictions, labels, weights)):
        _, predictions_idx = nn.top_k(predictions, k)
        return _streaming_sparse_average_precision_at_top_k(
            labels, predictions_idx, weights, metrics_collections, updates_collections, name
        )


def _streaming_sparse_average_precision_at_top_k(
    labels: Any,
    predictions_idx: Any,
    weights: Any,
    metrics_collections: Any,
    updates_collections: Any,
    name: Any,
) -> Tuple[Any, Any]:
    with ops.name_scope(name, "average_precision_at_top_k", (predictions_idx, labels, weights)) as scope:
        average_precision = _sparse_average_precision_at_top_k(predictions_idx=predictions_idx, labels=labels)
        if weights is not None:
            weights = weights_broadcast_ops.broadcast_weights(
                math_ops.cast(weights, dtypes.float64), average_precision
            )
            average_precision = math_ops.multiply(average_precision, weights)
        with ops.name_scope(None, "max", (average_precision,)) as max_scope:
            max_var = metric_variable([], dtypes.float64, name=max_scope)
            if weights is None:
                batch_max = math_ops.cast(array_ops.size(average_precision, name="batch_max"), dtypes.float64)
            else:
                batch_max = math_ops.reduce_sum(weights, name="batch_max")
            max_update = state_ops.assign_add(max_var, batch_max, name="update")
        with ops.name_scope(None, "total", (average_precision,)) as total_scope:
            total_var = metric_variable([], dtypes.float64, name=total_scope)
            batch_total = math_ops.reduce_sum(average_precision, name="batch_total")
            total_update = state_ops.assign_add(total_var, batch_total, name="update")
        value = _aggregate_across_replicas(
            metrics_collections, lambda _, t, m: _safe_scalar_div(t, m, name="mean"), total_var, max_var
        )
        update = _safe_scalar_div(total_update, max_update, name=scope)
        return value, add_update(updates_collections, update)


def sparse_average_precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: Optional[str] = None,
) -> Tuple[Any, Any]:
    """As `average_precision_at_k`."""
    return average_precision_at_k(
        labels, predictions, k, weights, metrics_collections, updates_collections, name
    )
