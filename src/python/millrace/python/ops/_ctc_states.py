# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Sums over the states of the label automaton of connectionist temporal classification, in logarithms.

States are [frames, batch, 2 * (max label length + 1)]: the initial state and one of each label, then the blanks.
"""
from __future__ import annotations

from typing import Any, Callable

from millrace.python.framework import ops
from millrace.python.ops import array_ops, functional_ops, math_ops
from millrace.python.util import nest


def _size(value: Any, axis: int) -> Any:
    known = value.shape.dims[axis].value
    return array_ops.shape(value)[axis] if known is None else known


def _state_to_olabel(labels: Any, num_labels: int, states: Any) -> Any:
    """Returns [frames, batch, num_labels]: the sum of the states of each label, the blank being label 0."""
    labels, states = ops.convert_to_tensor(labels), ops.convert_to_tensor(states)
    label_states = _size(labels, 1) + 1
    log_0 = math_ops.log(0.0)
    masks = array_ops.one_hot(labels - 1, depth=num_labels - 1, on_value=0.0, off_value=log_0)
    of_labels = states[:, :, 1:label_states, array_ops.newaxis] + masks[array_ops.newaxis]
    blank = math_ops.reduce_logsumexp(states[:, :, label_states:], axis=2, keepdims=True)
    return array_ops.concat([blank, math_ops.reduce_logsumexp(of_labels, axis=2)], axis=-1)


def _state_to_olabel_unique(labels: Any, num_labels: int, states: Any, unique: Any) -> Any:
    """As `_state_to_olabel`; `unique`, the result of `ctc_unique_labels`, is not needed."""
    return _state_to_olabel(labels, num_labels, states)


def _sum_states(idx: Any, states: Any) -> Any:
    """Sums `states` [frames, batch, labels] by `idx` [batch, labels]: [:, b, k] to [:, b, idx[b, k]]."""
    idx, states = ops.convert_to_tensor(idx), ops.convert_to_tensor(states)
    masks = array_ops.one_hot(idx, depth=_size(states, 2), on_value=0.0, off_value=math_ops.log(0.0), axis=1)
    return math_ops.reduce_logsumexp(states[:, :, array_ops.newaxis] + masks[array_ops.newaxis], axis=-1)


def _scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initial: Any,
    reverse: bool = False,
    inclusive: bool = False,
    final_only: bool = False,
) -> Any:
    """As `tf.scan`.

    Args:
      inclusive: whether `initial` comes before the results (in reverse: after them).
      final_only: whether to return the last result alone.
    """
    results = functional_ops.scan(fn, elems, initial, reverse=reverse)
    if final_only:
        return nest.map_structure(lambda r: r[0 if reverse else -1], results)
    if not inclusive:
        return results

    def with_initial(start: Any, result: Any) -> Any:
        parts = [array_ops.expand_dims(ops.convert_to_tensor(start, dtype=result.dtype), 0), result]
        return array_ops.concat(parts[::-1] if reverse else parts, axis=0)

    return nest.map_structure(with_initial, initial, results)
