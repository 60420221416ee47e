# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Cells of tf.contrib.rnn that compute a step of a gated recurrent unit by one op."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import tensor_shape
from millrace.python.layers import base as base_layer
from millrace.python.ops import gen_rnn_ops, init_ops
from millrace.python.ops._rnn_cell_base import LayerRNNCell


class GRUBlockCell(LayerRNNCell):
    """Gated recurrent unit (Cho et al., 2014) as one op per step, of float32.

    Variables: w_ru [inputs + n, 2 n] and b_ru [2 n], initially 1, of the gates r and u; w_c [inputs + n, n]
    and b_c [n], initially 0, of the candidate, where n is the number of units.

    Args:
      num_units: size of the output and the state.
      cell_size: the older name of `num_units`.
      reuse: whether variables of the scope may exist already.
      name: of the layer.

    Raises:
      ValueError: none or both of `num_units` and `cell_size` are given, the depth of the inputs is unknown,
        or the state has another size.
    """

    _names = ("w_ru", "b_ru", "w_c", "b_c")

    def __init__(
        self, num_units: Optional[int] = None, cell_size: Optional[int] = None, reuse: Optional[bool] = None,
        name: Any = "gru_cell",
    ):  # fmt: skip
        super().__init__(_reuse=reuse, name=name)
        if (cell_size is None) == (num_units is None):
            raise ValueError("Exactly one of num_units or cell_size must be provided.")
        self._cell_size: Any = cell_size if num_units is None else num_units
        self.input_spec = base_layer.InputSpec(ndim=2)

    @property
    def state_size(self) -> Any:
        return self._cell_size

    @property
    def output_size(self) -> Any:
        return self._cell_size

    def build(self, input_shape: Any) -> None:
        input_size = tensor_shape.dimension_value(tensor_shape.TensorShape(input_shape)[1])
        if input_size is None:
            raise ValueError("Expecting input_size to be set.")
        n = self._cell_size
        w_ru, b_ru, w_c, b_c = self._names
        self._gate_kernel = self.add_variable(w_ru, [input_size + n, n * 2])
        self._gate_bias = self.add_variable(b_ru, [n * 2], initializer=init_ops.constant_initializer(1.0))
        self._candidate_kernel = self.add_variable(w_c, [input_size + n, n])
        self._candidate_bias = self.add_variable(b_c, [n], initializer=init_ops.constant_initializer(0.0))
        self.built = True

    def call(self, inputs: Any, h_prev: Any) -> Any:  # type: ignore[override]
        size = tensor_shape.dimension_value(h_prev.get_shape().with_rank(2)[1])
        if size is not None and size != self._cell_size:
            raise ValueError("Shape of h_prev[1] incorrect: cell_size %i vs %s" % (self._cell_size, size))
        _, _, _, h = gen_rnn_ops.gru_block_cell(
            x=inputs,
            h_prev=h_prev,
            w_ru=self._gate_kernel,
            w_c=self._candidate_kernel,
            b_ru=self._gate_bias,
            b_c=self._candidate_bias,
        )
        return h, h


class GRUBlockCellV2(GRUBlockCell):
    """As `GRUBlockCell`, with variables compatible with checkpoints of `GRUCell`."""

    _names = ("gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias")
