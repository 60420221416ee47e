# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.contrib.crf: linear-chain conditional random fields.

Shapes: scores are float [batch, time, tags], tags integer [batch, time], lengths integer [batch], and transitions
[tags, tags] from the row's tag to the column's. Steps past a length are ignored.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.framework import dtypes, ops
from millrace.python.ops import array_ops, control_flow_ops, functional_ops, math_ops
from millrace.python.ops import variable_scope

__all__ = [
    "crf_binary_score", "crf_decode", "crf_log_likelihood", "crf_log_norm", "crf_sequence_score", "crf_unary_score",
    "viterbi_decode",
]  # fmt: skip


def _mask(lengths: Any, size: Any) -> Any:
    return array_ops.sequence_mask(math_ops.maximum(lengths, 0), size, dtypes.float32)


def crf_unary_score(tag_indices: Any, sequence_lengths: Any, inputs: Any) -> Any:
    """The sum of the scores of the tags: float [batch]."""
    inputs = ops.convert_to_tensor(inputs)
    tags = array_ops.one_hot(tag_indices, array_ops.shape(inputs)[2], dtype=inputs.dtype)
    mask = _mask(sequence_lengths, array_ops.shape(inputs)[1])
    return math_ops.reduce_sum(math_ops.reduce_sum(inputs * tags, 2) * mask, 1)


def crf_binary_score(tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The sum of the scores of the transitions between tags that follow each other: float [batch]."""
    transitions = ops.convert_to_tensor(transition_params)
    tags = ops.convert_to_tensor(tag_indices)
    count = array_ops.shape(transitions, out_type=tags.dtype)[0]
    pairs = tags[:, :-1] * count + tags[:, 1:]
    scores = array_ops.gather(array_ops.reshape(transitions, [-1]), pairs)
    lengths = ops.convert_to_tensor(sequence_lengths) - 1
    return math_ops.reduce_sum(scores * _mask(lengths, array_ops.shape(tags)[1] - 1), 1)


def crf_sequence_score(inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The score of each sequence of tags, not normalized: float [batch]."""
    unary = crf_unary_score(tag_indices, sequence_lengths, inputs)
    return unary + crf_binary_score(tag_indices, sequence_lengths, transition_params)


def _forward(inputs: Any, sequence_lengths: Any, step: Any) -> Any:
    """Folds `step(state, scores)` over time from the first scores; a sequence that has ended keeps its state."""
    lengths = ops.convert_to_tensor(sequence_lengths)

    def next_state(state: Any, element: Any) -> Any:
        scores, time = element
        running = array_ops.expand_dims(math_ops.cast(time < lengths, state.dtype), 1)
        return running * step(state, scores) + (1 - running) * state

    by_time = array_ops.transpose(inputs, [1, 0, 2])[1:]
    times = math_ops.range(1, array_ops.shape(inputs)[1])
    elements = (by_time, math_ops.cast(times, lengths.dtype))
    return functional_ops.foldl(next_state, elements, initializer=inputs[:, 0, :])


def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The logarithm of the sum of the exponentials of the scores of all sequences of tags: float [batch]."""
    inputs = ops.convert_to_tensor(inputs)
    transitions = array_ops.expand_dims(ops.convert_to_tensor(transition_params), 0)

    def step(state: Any, scores: Any) -> Any:
        return scores + math_ops.reduce_logsumexp(array_ops.expand_dims(state, 2) + transitions, [1])

    last = math_ops.reduce_logsumexp(_forward(inputs, sequence_lengths, step), [1])
    empty = math_ops.less_equal(ops.convert_to_tensor(sequence_lengths), 0)
    return array_ops.where(empty, array_ops.zeros_like(last), last)


def crf_log_likelihood(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any = None
) -> tuple[Any, Any]:
    """The logarithm of the probability of each sequence of tags.

    Returns:
      float [batch], and the transitions, which are the variable "transitions" where none are given.
    """
    inputs = ops.convert_to_tensor(inputs)
    if transition_params is None:
        count = inputs.shape[2].value
        transition_params = variable_scope.get_variable("transitions", [count, count])
    score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    return score - crf_log_norm(inputs, sequence_lengths, transition_params), transition_params


def viterbi_decode(score: Any, transition_params: Any) -> tuple[list[int], Any]:
    """The best sequence of tags and its score, in NumPy, for one sequence of scores [time, tags]."""
    score = np.asarray(score)
    best = score[0]
    back = []
    for scores in score[1:]:
        candidates = best[:, None] + transition_params
        back.append(np.argmax(candidates, 0))
        best = scores + np.max(candidates, 0)
    tags = [int(np.argmax(best))]
    for pointers in reversed(back):
        tags.append(int(pointers[tags[-1]]))
    return tags[::-1], np.max(best)


def crf_decode(potentials: Any, transition_params: Any, sequence_length: Any) -> tuple[Any, Any]:
    """The best sequence of tags of each sequence.

    Returns:
      int32 [batch, time], 0 past the length, and the scores, float [batch].
    """
    potentials = ops.convert_to_tensor(potentials)
    transitions = array_ops.expand_dims(ops.convert_to_tensor(transition_params), 0)
    lengths = ops.convert_to_tensor(sequence_length)
    count = array_ops.shape(potentials)[2]
    by_time = array_ops.transpose(potentials, [1, 0, 2])
    stay = array_ops.expand_dims(math_ops.range(count), 0)

    def forward(before: Any, element: Any) -> Any:
        state, _ = before
        scores, time = element
        candidates = array_ops.expand_dims(state, 2) + transitions
        running = array_ops.tile(array_ops.expand_dims(time < lengths, 1), [1, count])
        pointers = math_ops.cast(math_ops.argmax(candidates, 1), dtypes.int32)
        return (
            array_ops.where(running, scores + math_ops.reduce_max(candidates, 1), state),
            array_ops.where(running, pointers, stay + array_ops.zeros_like(pointers)),
        )

    def several() -> Any:
        first = potentials[:, 0, :]
        times = math_ops.cast(math_ops.range(1, array_ops.shape(potentials)[1]), lengths.dtype)
        start = (first, array_ops.zeros_like(first, dtypes.int32))
        states, pointers = functional_ops.scan(forward, (by_time[1:], times), initializer=start)
        last = math_ops.cast(math_ops.argmax(states[-1], 1), dtypes.int32)
        rows = math_ops.range(array_ops.shape(potentials)[0])

        def backward(tags: Any, step: Any) -> Any:
            return array_ops.gather_nd(step, array_ops.stack([rows, tags], 1))

        tags = functional_ops.scan(backward, array_ops.reverse(pointers, [0]), initializer=last)
        tags = array_ops.concat([array_ops.reverse(tags, [0]), array_ops.expand_dims(last, 0)], 0)
        return array_ops.transpose(tags), math_ops.reduce_max(states[-1], 1)

    def single() -> Any:
        first = potentials[:, 0, :]
        tags = math_ops.cast(math_ops.argmax(first, 1), dtypes.int32)
        return array_ops.expand_dims(tags, 1), math_ops.reduce_max(first, 1)

    steps = potentials.shape[1].value
    if steps is None:
        one_step = math_ops.equal(array_ops.shape(potentials)[1], 1)
        tags, scores = control_flow_ops.cond(one_step, single, several)
    else:
        tags, scores = single() if steps == 1 else several()
    tags *= array_ops.sequence_mask(lengths, array_ops.shape(potentials)[1], dtypes.int32)
    tags.set_shape(potentials.shape[:2])
    return tags, scores
