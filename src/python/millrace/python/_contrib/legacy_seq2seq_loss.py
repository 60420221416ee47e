# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The losses of tf.contrib.legacy_seq2seq, and models for sequences of several lengths."""
from __future__ import annotations

from typing import Any, Callable, List, Tuple

from millrace.python.framework import ops
from millrace.python.ops import array_ops, math_ops, nn_ops, variable_scope as vs


def sequence_loss_by_example(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    softmax_loss_function: Any = None,
    name: Any = None,
) -> Any:
    """The weighted cross entropy of each sequence.

    Args:
      logits: list of float [batch, classes], one for each step.
      targets: list of integer [batch].
      weights: list of float [batch].
      average_across_timesteps: whether to divide by the sum of the sequence's weights.
      softmax_loss_function: takes `labels` and `logits` instead of the sparse softmax cross entropy.
      name: of the scope.

    Returns:
      float [batch].

    Raises:
      ValueError: the lists differ in length.
    """
    if len(targets) != len(logits) or len(weights) != len(logits):
        raise ValueError(
            "Lengths of logits, weights, and targets must be the same %d, %d, %d."
            % (len(logits), len(weights), len(targets))
        )
    with ops.name_scope(name, "sequence_loss_by_example", logits + targets + weights):
        losses = []
        for logit, target, weight in zip(logits, targets, weights):
            if softmax_loss_function is None:
                flat = array_ops.reshape(target, [-1])
                loss = nn_ops.sparse_softmax_cross_entropy_with_logits(labels=flat, logits=logit)
            else:
                loss = softmax_loss_function(labels=target, logits=logit)
            losses.append(loss * weight)
        total = math_ops.add_n(losses)
        if average_across_timesteps:
            total /= math_ops.add_n(weights) + 1e-12  # a sequence of weight 0 has loss 0
        return total


def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Any = None,
    name: Any = None,
) -> Any:
    """The sum of `sequence_loss_by_example`, or the mean if `average_across_batch`: float []."""
    with ops.name_scope(name, "sequence_loss", logits + targets + weights):
        cost = math_ops.reduce_sum(
            sequence_loss_by_example(
                logits,
                targets,
                weights,
                average_across_timesteps=average_across_timesteps,
                softmax_loss_function=softmax_loss_function,
            )
        )
        if not average_across_batch:
            return cost
        return cost / math_ops.cast(array_ops.shape(targets[0])[0], cost.dtype)


def model_with_buckets(
    encoder_inputs: Any,
    decoder_inputs: Any,
    targets: Any,
    weights: Any,
    buckets: Any,
    seq2seq: Callable[[Any, Any], Any],
    softmax_loss_function: Any = None,
    per_example_loss: bool = False,
    name: Any = None,
) -> Tuple[List[Any], List[Any]]:
    """Builds a model for each of several lengths, all with the same variables.

    Args:
      encoder_inputs, decoder_inputs: lists for the longest bucket.
      targets, weights: lists for the loss, as in `sequence_loss_by_example`.
      buckets: list of (encoder steps, decoder steps), increasing.
      seq2seq: takes the inputs of a bucket and returns (outputs, state).
      softmax_loss_function: as in `sequence_loss_by_example`.
      per_example_loss: whether losses are [batch] and not [].
      name: of the scope.

    Returns:
      Lists of the outputs and of the losses of the buckets.

    Raises:
      ValueError: a list is shorter than the last bucket.
    """
    encoder_steps, decoder_steps = buckets[-1]
    for what, values, steps in (
        ("encoder_inputs", encoder_inputs, encoder_steps),
        ("targets", targets, decoder_steps),
        ("weights", weights, decoder_steps),
    ):
        if len(values) < steps:
            raise ValueError(
                "Length of %s (%d) must be at least that of last bucket (%d)." % (what, len(values), steps)
            )
    loss: Any = sequence_loss_by_example if per_example_loss else sequence_loss
    outputs: List[Any] = []
    losses: List[Any] = []
    with ops.name_scope(name, "model_with_buckets", encoder_inputs + decoder_inputs + targets + weights):
        for encoder_steps, decoder_steps in buckets:
            with vs.variable_scope(vs.get_variable_scope(), reuse=True if outputs else None):
                logits, _ = seq2seq(encoder_inputs[:encoder_steps], decoder_inputs[:decoder_steps])
                outputs.append(logits)
                losses.append(
                    loss(
                        logits,
                        targets[:decoder_steps],
                        weights[:decoder_steps],
                        softmax_loss_function=softmax_loss_function,
                    )
                )
    return outputs, losses
