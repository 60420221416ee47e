# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Helpers for losses."""
from __future__ import annotations

from typing import Any, List, Optional

from millrace.python.framework import ops
from millrace.python.ops import array_ops, confusion_matrix, control_flow_ops, math_ops


def squeeze_or_expand_dimensions(y_pred: Any, y_true: Any, sample_weight: Any) -> Any:
    """Adds or removes last dimensions of 1 of predictions, targets (may be None) and weights."""
    if y_true is not None:
        y_true, y_pred = confusion_matrix.remove_squeezable_dimensions(y_true, y_pred)
    if sample_weight is None:
        return y_pred, y_true, None
    sample_weight = ops.convert_to_tensor(sample_weight)
    weights_rank, pred_rank = sample_weight.get_shape().ndims, y_pred.get_shape().ndims
    if weights_rank == 0:
        return y_pred, y_true, sample_weight
    if weights_rank is not None and pred_rank is not None:
        if weights_rank - pred_rank == 1:
            sample_weight = array_ops.squeeze(sample_weight, [-1])
        elif pred_rank - weights_rank == 1:
            sample_weight = array_ops.expand_dims(sample_weight, [-1])
        return y_pred, y_true, sample_weight
    weights_rank_tensor = array_ops.rank(sample_weight)
    rank_diff = weights_rank_tensor - array_ops.rank(y_pred)
    original = sample_weight

    def adjusted() -> Any:
        return control_flow_ops.cond(
            math_ops.equal(rank_diff, -1),
            lambda: array_ops.expand_dims(original, -1),
            lambda: control_flow_ops.cond(
                math_ops.equal(rank_diff, 1), lambda: array_ops.squeeze(original, [-1]), lambda: original
            ),
        )

    sample_weight = control_flow_ops.cond(math_ops.equal(weights_rank_tensor, 0), lambda: original, adjusted)
    return y_pred, y_true, sample_weight


def scale_losses_by_sample_weight(losses: Any, sample_weight: Any) -> Any:
    """Returns losses times weights, after `squeeze_or_expand_dimensions`."""
    losses = math_ops.cast(losses, "float32")
    sample_weight = math_ops.cast(sample_weight, "float32")
    losses, _, sample_weight = squeeze_or_expand_dimensions(losses, None, sample_weight)
    return math_ops.multiply(losses, sample_weight)


def check_per_example_loss_rank(per_example_loss: Any) -> Any:
    """Context that refuses a scalar loss with ValueError."""
    import contextlib

    @contextlib.contextmanager
    def check() -> Any:
        if per_example_loss.shape.ndims == 0:
            raise ValueError(
                "Invalid value passed for `per_example_loss`. Expected a tensor with at least rank 1, got: {}".format(
                    per_example_loss
                )
            )
        yield

    return check()


def add_loss(loss: Any, loss_collection: Any = ops.GraphKeys.LOSSES) -> None:
    """Adds a loss to a collection."""
    if loss_collection:
        ops.add_to_collection(loss_collection, loss)


def get_losses(scope: Optional[str] = None, loss_collection: Any = ops.GraphKeys.LOSSES) -> List[Any]:
    """Returns the losses of a collection whose names begin with `scope`."""
    return ops.get_collection(loss_collection, scope)  # type: ignore[no-any-return]


def get_regularization_losses(scope: Optional[str] = None) -> List[Any]:
    """Returns the losses of regularizers."""
    return ops.get_collection(ops.GraphKeys.REGULARIZATION_LOSSES, scope)  # type: ignore[no-any-return]


def get_regularization_loss(scope: Optional[str] = None, name: str = "total_regularization_loss") -> Any:
    """Returns the sum of the losses of regularizers, 0.0 if there are none."""
    losses = get_regularization_losses(scope)
    if losses:
        return math_ops.add_n(losses, name=name)
    from millrace.python.framework import constant_op

    return constant_op.constant(0.0)


def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: Optional[str] = None
) -> Any:
    """Returns the sum of all losses; ValueError if there are none."""
    losses = list(get_losses(scope=scope))
    if add_regularization_losses:
        losses += get_regularization_losses(scope=scope)
    return math_ops.add_n(losses, name=name)
