# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Cells of tf.contrib.rnn whose step, or whose whole sequence, is one op."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import tensor_shape
from millrace.python.layers import base as base_layer
from millrace.python.ops import array_ops, gen_rnn_ops, init_ops
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

    Variables: kernel [inputs + n, 4 n], bias [4 n] (gates i, c, f, o) and, with peepholes, w_i_diag, w_f_diag and
    w_o_diag [n], where n is num_units. Checkpoints of `LSTMCell` without projection fit.

    Args:
      num_units: size of the output and of both parts of the state.
      forget_bias: added to the forget gate.
      cell_clip: the cell state is clipped to [-cell_clip, cell_clip]; None: it is not.
      use_peephole: whether the gates see the cell state.
      dtype: float32 or half; None: that of the inputs.
      reuse: whether variables of the scope may exist already.
      name: of the layer.

    Raises:
      ValueError: the depth of the inputs is unknown, or the state is not a pair.
    """

    def __init__(
        self, num_units: int, forget_bias: float = 1.0, cell_clip: Optional[float] = None, use_peephole: bool = False,
        dtype: Any = None, reuse: Optional[bool] = None, name: Any = "lstm_cell",
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
