# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Cells of tf.contrib.rnn whose step, or whose whole sequence, is one op."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import dtypes, ops, tensor_shape
from millrace.python.layers import base as base_layer
from millrace.python.ops import array_ops, gen_rnn_ops, init_ops, math_ops
from millrace.python.ops._rnn_cell_base import LayerRNNCell, LSTMStateTuple

_PEEPHOLES = ("w_i_diag", "w_f_diag", "w_o_diag")


def _input_size(input_shape: Any, axis: int) -> int:
    shape = tensor_shape.TensorShape(input_shape)
    size = tensor_shape.dimension_value(shape[axis])
    if not size:
        raise ValueError("Expecting inputs_shape[%d] to be set: %s" % (axis, shape))
    return int(size)


class _LSTMVariables:
    """The variables of an LSTM layer and the arguments of its op that follow from them."""

    def __init__(self, num_units: int, forget_bias: float, cell_clip: Optional[float], use_peephole: bool):
        self.num_units = num_units
        self._attrs = {
            "forget_bias": forget_bias,
            "cell_clip": cell_clip if cell_clip is not None else -1,
            "use_peephole": use_peephole,
        }

    def build(self, layer: Any, input_size: int) -> None:
        n = self.num_units
        self._kernel = layer.add_variable("kernel", [input_size + n, n * 4])
        self._bias = layer.add_variable("bias", [n * 4], initializer=init_ops.constant_initializer(0.0))
        peephole = self._attrs["use_peephole"]
        self._diagonals = [layer.add_variable(name, [n]) for name in _PEEPHOLES] if peephole else None

    def arguments(self, dtype: Any) -> Any:
        diagonals = self._diagonals or [array_ops.zeros([self.num_units], dtype=dtype)] * 3
        named = dict(zip(("wci", "wcf", "wco"), diagonals))
        return dict(self._attrs, w=self._kernel, b=self._bias, **named)


class LSTMBlockCell(LayerRNNCell):
    """Long short-term memory (Zaremba et al., 2014) as one op per step, without projection.

    Variables: kernel [inputs + n, 4 n], bias [4 n] (gates i, c, f, o) and, with peepholes, w_i_diag, w_f_diag
    and w_o_diag [n], where n is num_units. Compatible with checkpoints of `LSTMCell` without projection.

    Args:
      num_units: size of the output and of both parts of the state.
      forget_bias: added to the forget gate.
      cell_clip: the cell state is clipped to [-cell_clip, cell_clip]; None: it is not.
      use_peephole: whether the gates have peephole connections to the cell state.
      dtype: float32 or half; None: that of the inputs.
      reuse: whether variables of the scope may exist already.
      name: of the layer.

    Raises:
      ValueError: the depth of the inputs is unknown, or the state is not a pair.
    """

    def __init__(
        self, num_units: int, forget_bias: float = 1.0, cell_clip: Optional[float] = None,
        use_peephole: bool = False, dtype: Any = None, reuse: Optional[bool] = None, name: Any = "lstm_cell",
    ):  # fmt: skip
        super().__init__(_reuse=reuse, dtype=dtype, name=name)
        self._num_units = num_units
        self._lstm = _LSTMVariables(num_units, forget_bias, cell_clip, use_peephole)
        self.input_spec = base_layer.InputSpec(ndim=2)

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> Any:
        return self._num_units

    def build(self, inputs_shape: Any) -> None:
        self._lstm.build(self, _input_size(inputs_shape, 1))
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:  # type: ignore[override]
        if len(state) != 2:
            raise ValueError("Expecting state to be a tuple with length 2.")
        cs_prev, h_prev = state
        _, cs, _, _, _, _, h = gen_rnn_ops.lstm_block_cell(
            x=inputs, cs_prev=cs_prev, h_prev=h_prev, **self._lstm.arguments(inputs.dtype)
        )
        return h, LSTMStateTuple(cs, h)


class LSTMBlockWrapper(base_layer.Layer):
    """A layer that maps a sequence to (outputs, final state) by an op for all its steps.

    A subclass defines `num_units` and `_call_cell`.
    """

    @property
    def num_units(self) -> int:
        """Size of the outputs and of both parts of the state."""
        raise NotImplementedError("Abstract method")

    def _call_cell(
        self, inputs: Any, initial_cell_state: Any, initial_output: Any, dtype: Any, sequence_length: Any
    ) -> Any:
        """Returns the cell states and the outputs of all steps, both [time, batch, num_units]."""
        raise NotImplementedError("Abstract method")

    def call(  # type: ignore[override]
        self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None
    ) -> Any:
        """Runs the sequence.

        Args:
          inputs: [time, batch, depth].
          initial_state: (c, h), each [batch, num_units]; None: zeros of type `dtype`.
          dtype: of the initial state and the outputs; None: that of `initial_state`.
          sequence_length: integer [batch], in [0, time]; outputs after it are 0 and the final state is that
            of its last step. None: all have `time` steps.

        Returns:
          Outputs [time, batch, num_units] and the final LSTMStateTuple.

        Raises:
          ValueError: neither `initial_state` nor `dtype` is given, `initial_state` is no pair, or the depth
            is unknown.
        """
        shape = inputs.get_shape().with_rank(3)
        _input_size(shape, 2)
        time, batch = (
            size if size is not None else array_ops.shape(inputs)[n]
            for n, size in enumerate(shape.as_list()[:2])
        )
        if initial_state is None:
            if dtype is None:
                raise ValueError("Either initial_state or dtype needs to be specified")
            initial_state = (array_ops.zeros(array_ops.stack([batch, self.num_units]), dtype=dtype),) * 2
        elif len(initial_state) != 2:
            raise ValueError("Expecting initial_state to be a tuple with length 2 or None")
        elif dtype is None:
            dtype = initial_state[0].dtype
        if sequence_length is not None:
            sequence_length = ops.convert_to_tensor(sequence_length)
        first_c, first_h = initial_state
        states, outputs = self._call_cell(inputs, first_c, first_h, dtype, sequence_length)
        if sequence_length is None:
            final = LSTMStateTuple(states[-1], outputs[-1])
        else:
            mask = array_ops.transpose(array_ops.sequence_mask(sequence_length, time, dtype=dtype))
            outputs *= array_ops.expand_dims(mask, -1)
            # Row 0 is the state before the first step, the final state of empty sequences.
            rows = array_ops.stack(
                [math_ops.cast(sequence_length, dtypes.int32), math_ops.range(batch)], axis=1
            )
            final = LSTMStateTuple(
                *(
                    array_ops.gather_nd(array_ops.concat([array_ops.expand_dims(first, 0), later], 0), rows)
                    for first, later in zip(initial_state, (states, outputs))
                )
            )
        return outputs, final


class LSTMBlockFusedCell(LSTMBlockWrapper):
    """Long short-term memory of a whole sequence as one op.

    Called with (inputs, initial_state=None, dtype=None, sequence_length=None), as `LSTMBlockWrapper` says.
    The arguments and variables are those of `LSTMBlockCell`; the name differs.
    """

    def __init__(
        self, num_units: int, forget_bias: float = 1.0, cell_clip: Optional[float] = None,
        use_peephole: bool = False, reuse: Optional[bool] = None, dtype: Any = None,
        name: Any = "lstm_fused_cell",
    ):  # fmt: skip
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self._lstm = _LSTMVariables(num_units, forget_bias, cell_clip, use_peephole)
        self.input_spec = base_layer.InputSpec(ndim=3)

    @property
    def num_units(self) -> int:
        return self._lstm.num_units

    def build(self, input_shape: Any) -> None:
        self._lstm.build(self, _input_size(input_shape, 2))
        self.built = True

    def _call_cell(
        self, inputs: Any, initial_cell_state: Any, initial_output: Any, dtype: Any, sequence_length: Any
    ) -> Any:
        steps = (
            array_ops.shape(inputs)[0] if sequence_length is None else math_ops.reduce_max(sequence_length)
        )
        _, cs, _, _, _, _, h = gen_rnn_ops.block_lstm(
            seq_len_max=math_ops.cast(steps, dtypes.int64),
            x=inputs,
            cs_prev=initial_cell_state,
            h_prev=initial_output,
            **self._lstm.arguments(dtype),
        )
        return cs, h
