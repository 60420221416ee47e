# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Cells of tf.contrib.rnn that take a whole sequence at once: [time, batch, depth] or a list of [batch, depth]."""
from __future__ import annotations

import abc
from typing import Any, Tuple

from millrace.python.ops import array_ops, rnn


class FusedRNNCell(metaclass=abc.ABCMeta):
    """A function of a sequence that can be faster than a cell of one step."""

    @abc.abstractmethod
    def __call__(
        self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None,
        scope: Any = None,
    ) -> Tuple[Any, Any]:  # fmt: skip
        """Runs over a sequence.

        Args:
          inputs: [time, batch, depth], or a list of [batch, depth].
          initial_state: the state before the first step; None: zeros.
          dtype: type of the initial state and the outputs; required without an initial state.
          sequence_length: integer [batch]: steps of each sequence; None: all.
          scope: variable scope.

        Returns:
          The outputs, of the same kind as the inputs, and the final state.
        """


class FusedRNNCellAdaptor(FusedRNNCell):
    """Runs an RNNCell over a sequence: by `dynamic_rnn` if `use_dynamic_rnn`, else by `static_rnn`."""

    def __init__(self, cell: Any, use_dynamic_rnn: bool = False):
        self._cell = cell
        self._use_dynamic_rnn = use_dynamic_rnn

    def __call__(
        self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None,
        scope: Any = None,
    ) -> Tuple[Any, Any]:  # fmt: skip
        is_list = isinstance(inputs, list)
        arguments = {
            "sequence_length": sequence_length, "initial_state": initial_state, "dtype": dtype, "scope": scope,
        }  # fmt: skip
        if self._use_dynamic_rnn:
            inputs = array_ops.stack(inputs) if is_list else inputs
            outputs, state = rnn.dynamic_rnn(self._cell, inputs, time_major=True, **arguments)
            return (array_ops.unstack(outputs) if is_list else outputs), state
        inputs = inputs if is_list else array_ops.unstack(inputs)
        outputs, state = rnn.static_rnn(self._cell, inputs, **arguments)
        return (outputs if is_list else array_ops.stack(outputs)), state


class TimeReversedFusedRNN(FusedRNNCell):
    """Runs a fused cell from the last step to the first: outputs have the positions of their inputs."""

    def __init__(self, cell: Any):
        self._cell = cell

    @staticmethod
    def _reverse(sequence: Any, lengths: Any) -> Any:
        if isinstance(sequence, list):
            return list(reversed(sequence))
        if lengths is None:
            return array_ops.reverse_v2(sequence, [0])
        return array_ops.reverse_sequence(sequence, lengths, 0, 1)

    def __call__(
        self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None,
        scope: Any = None,
    ) -> Tuple[Any, Any]:  # fmt: skip
        outputs, state = self._cell(
            self._reverse(inputs, sequence_length), initial_state=initial_state, dtype=dtype,
            sequence_length=sequence_length, scope=scope,
        )  # fmt: skip
        return self._reverse(outputs, sequence_length), state
