# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The loss of tf.contrib.seq2seq."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import array_ops, math_ops, nn_ops


def sequence_loss(
    logits: Any, targets: Any, weights: Any, average_across_timesteps: bool = True, average_across_batch: bool = True,
    softmax_loss_function: Any = None, name: Any = None,
) -> Any:  # fmt: skip
    """The weighted cross entropy of sequences.

    Args:
      logits: float [batch, time, classes].
      targets: integer [batch, time].
      weights: float [batch, time].
      average_across_timesteps, average_across_batch: whether to divide by the weights along these dimensions.
      softmax_loss_function: takes `labels` and `logits` instead of the sparse softmax cross entropy.
      name: of the scope.

    Returns:
      float [] when both averages are taken, [batch] or [time] for one, [batch, time] for none.

    Raises:
      ValueError: an argument has another rank.
    """
    if len(logits.get_shape()) != 3:
        raise ValueError("Logits must be a [batch_size x sequence_length x logits] tensor")
    if len(targets.get_shape()) != 2:
        raise ValueError("Targets must be a [batch_size x sequence_length] tensor")
    if len(weights.get_shape()) != 2:
        raise ValueError("Weights must be a [batch_size x sequence_length] tensor")
    with ops.name_scope(name, "sequence_loss", [logits, targets, weights]):
        flat_logits = array_ops.reshape(logits, [-1, array_ops.shape(logits)[2]])
        flat_targets = array_ops.reshape(targets, [-1])
        entropy = softmax_loss_function or nn_ops.sparse_softmax_cross_entropy_with_logits
        losses = entropy(labels=flat_targets, logits=flat_logits)
        losses = array_ops.reshape(losses, array_ops.shape(weights)) * weights
        axes = [axis for axis, taken in ((0, average_across_batch), (1, average_across_timesteps)) if taken]
        if not axes:
            return losses
        total = (
            math_ops.reduce_sum(weights, axes) + 1e-12
        )  # avoids a division by zero for steps without weights
        return math_ops.reduce_sum(losses, axes) / total
