# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""More cells of tf.contrib.rnn."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import ops, tensor_shape
from millrace.python.ops import (
    array_ops,
    init_ops,
    math_ops,
    nn_ops,
    rnn_cell_impl,
    variable_scope,
)
from millrace.python.util import nest

LSTMStateTuple = rnn_cell_impl.LSTMStateTuple


def _linear(args: Any, output_size: int, bias: bool, bias_initializer: Any = None) -> Any:
    """The product of concatenated inputs and a variable "kernel", plus a variable "bias"."""
    args = args if nest.is_sequence(args) else [args]
    total = 0
    for arg in args:
        size = arg.get_shape()[1].value
        if size is None:
            raise ValueError("linear expects shape[1] to be provided for shape %s" % arg.get_shape())
        total += size
    dtype = args[0].dtype
    weights = variable_scope.get_variable("kernel", [total, output_size], dtype=dtype)
    result = math_ops.matmul(args[0] if len(args) == 1 else array_ops.concat(args, 1), weights)
    if not bias:
        return result
    biases = variable_scope.get_variable(
        "bias", [output_size], dtype=dtype, initializer=bias_initializer or init_ops.zeros_initializer()
    )
    return nn_ops.bias_add(result, biases)


class LayerNormBasicLSTMCell(rnn_cell_impl.RNNCell):
    """An LSTM whose gates are normalised, with dropout of the new values.

    Args:
      num_units: the size.
      forget_bias: added to the forget gate.
      input_size: not used.
      activation: of the new values.
      layer_norm: whether there is a normalization; if not, there are biases.
      norm_gain, norm_shift: the initial values of its variables.
      dropout_keep_prob, dropout_prob_seed: of the dropout.
      reuse: whether variables are reused.
    """

    def __init__(
        self, num_units: int, forget_bias: float = 1.0, input_size: Any = None,
        activation: Any = math_ops.tanh,
        layer_norm: bool = True, norm_gain: float = 1.0, norm_shift: float = 0.0,
        dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: Any = None, reuse: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(_reuse=reuse)
        del input_size
        self._num_units = num_units
        self._activation = activation
        self._forget_bias = forget_bias
        self._keep_prob = dropout_keep_prob
        self._seed = dropout_prob_seed
        self._layer_norm = layer_norm
        self._norm_gain = norm_gain
        self._norm_shift = norm_shift

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> Any:
        return self._num_units

    def _norm(self, inp: Any, scope: str, dtype: Any) -> Any:
        from millrace.python._contrib import norm_layers

        shape = inp.get_shape()[-1:]
        with variable_scope.variable_scope(scope):
            # The variables are made with their initial values, and are then reused by the layer.
            variable_scope.get_variable(
                "gamma", shape=shape, dtype=dtype, initializer=init_ops.constant_initializer(self._norm_gain)
            )
            variable_scope.get_variable(
                "beta", shape=shape, dtype=dtype, initializer=init_ops.constant_initializer(self._norm_shift)
            )
        return norm_layers.layer_norm(inp, reuse=True, scope=scope)

    def call(self, inputs: Any, state: Any) -> Any:  # type: ignore[override]
        """One step: (output, state)."""
        c, h = state
        args = array_ops.concat([inputs, h], 1)
        dtype = args.dtype
        weights = variable_scope.get_variable(
            "kernel", [args.get_shape()[-1], 4 * self._num_units], dtype=dtype
        )
        concat = math_ops.matmul(args, weights)
        if not self._layer_norm:
            concat = nn_ops.bias_add(
                concat, variable_scope.get_variable("bias", [4 * self._num_units], dtype=dtype)
            )
        i, j, f, o = array_ops.split(value=concat, num_or_size_splits=4, axis=1)
        if self._layer_norm:
            i, j = self._norm(i, "input", dtype), self._norm(j, "transform", dtype)
            f, o = self._norm(f, "forget", dtype), self._norm(o, "output", dtype)
        g = self._activation(j)
        if not isinstance(self._keep_prob, float) or self._keep_prob < 1:
            g = nn_ops.dropout(g, self._keep_prob, seed=self._seed)
        new_c = c * math_ops.sigmoid(f + self._forget_bias) + math_ops.sigmoid(i) * g
        if self._layer_norm:
            new_c = self._norm(new_c, "state", dtype)
        new_h = self._activation(new_c) * math_ops.sigmoid(o)
        return new_h, LSTMStateTuple(new_c, new_h)


class UGRNNCell(rnn_cell_impl.RNNCell):
    """A network with one update gate (Collins and others, 2017)."""

    def __init__(
        self, num_units: int, initializer: Any = None, forget_bias: float = 1.0,
        activation: Any = math_ops.tanh,
        reuse: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(_reuse=reuse)
        self._num_units = num_units
        self._initializer = initializer
        self._forget_bias = forget_bias
        self._activation = activation

    @property
    def state_size(self) -> Any:
        return self._num_units

    @property
    def output_size(self) -> Any:
        return self._num_units

    def call(self, inputs: Any, state: Any) -> Any:  # type: ignore[override]
        """One step: (output, state)."""
        if inputs.get_shape()[1].value is None:
            raise ValueError("Could not infer input size from inputs.get_shape()[-1]")
        with variable_scope.variable_scope(
            variable_scope.get_variable_scope(), initializer=self._initializer
        ):
            rnn_matrix = _linear([inputs, state], 2 * self._num_units, True)
            g_act, c_act = array_ops.split(axis=1, num_or_size_splits=2, value=rnn_matrix)
            c = self._activation(c_act)
            g = math_ops.sigmoid(g_act + self._forget_bias)
            new_state = g * state + (1.0 - g) * c
        return new_state, new_state


class NASCell(rnn_cell_impl.LayerRNNCell):
    """The cell found by neural architecture search (Zoph and Le, 2016).

    Args:
      num_units: the size of the state.
      num_proj: the size of outputs, by a product; None: that of the state.
      use_bias: whether there is a bias.
    """

    def __init__(
        self, num_units: int, num_proj: Any = None, use_bias: bool = False, reuse: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(_reuse=reuse, **kwargs)
        self._num_units = num_units
        self._num_proj = num_proj
        self._use_bias = use_bias

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self._num_proj or self._num_units)

    @property
    def output_size(self) -> Any:
        return self._num_proj or self._num_units

    def build(self, inputs_shape: Any) -> None:
        size = tensor_shape.dimension_value(tensor_shape.as_shape(inputs_shape)[-1])
        if size is None:
            raise ValueError("Could not infer input size from inputs.get_shape()[-1]")
        outputs = self._num_proj or self._num_units
        self.recurrent_kernel = self.add_variable("recurrent_kernel", [outputs, 8 * self._num_units])
        self.kernel = self.add_variable("kernel", [size, 8 * self._num_units])
        if self._use_bias:
            self.bias = self.add_variable(
                "bias", shape=[8 * self._num_units], initializer=init_ops.zeros_initializer
            )
        if self._num_proj is not None:
            self.projection_weights = self.add_variable(
                "projection_weights", [self._num_units, self._num_proj]
            )
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:  # type: ignore[override]
        """One step: (output, state)."""
        sigmoid, tanh, relu = math_ops.sigmoid, math_ops.tanh, nn_ops.relu
        c_prev, m_prev = state
        m_parts = math_ops.matmul(m_prev, self.recurrent_kernel)
        i_parts = math_ops.matmul(inputs, self.kernel)
        if self._use_bias:
            m_parts = nn_ops.bias_add(m_parts, self.bias)
        m = array_ops.split(axis=1, num_or_size_splits=8, value=m_parts)
        i = array_ops.split(axis=1, num_or_size_splits=8, value=i_parts)
        first = [
            sigmoid(i[0] + m[0]), relu(i[1] + m[1]), sigmoid(i[2] + m[2]), relu(i[3] * m[3]),
            tanh(i[4] + m[4]),
            sigmoid(i[5] + m[5]), tanh(i[6] + m[6]), sigmoid(i[7] + m[7]),
        ]  # fmt: skip
        second = [
            tanh(first[0] * first[1]), tanh(first[2] + first[3]), tanh(first[4] * first[5]),
            sigmoid(first[6] + first[7]),
        ]  # fmt: skip
        second[0] = tanh(second[0] + c_prev)
        new_c = second[0] * second[1]
        new_m = tanh(new_c * tanh(second[2] + second[3]))
        if self._num_proj is not None:
            new_m = math_ops.matmul(new_m, self.projection_weights)
        return new_m, LSTMStateTuple(new_c, new_m)


class ConvLSTMCell(rnn_cell_impl.RNNCell):
    """An LSTM of sequences, images or volumes, with convolutions instead of matrix products.

    Args:
      conv_ndims: 1, 2 or 3.
      input_shape: of the inputs, without the batch.
      output_channels: the number of channels.
      kernel_shape: of the convolution.
      use_bias: whether there is a bias.
      skip_connection: whether inputs are concatenated to the outputs.
      forget_bias: added to the forget gate.
      initializers: of the variables.
      name: of the cell.
    """

    def __init__(
        self, conv_ndims: int, input_shape: Any, output_channels: int, kernel_shape: Any,
        use_bias: bool = True,
        skip_connection: bool = False, forget_bias: float = 1.0, initializers: Any = None,
        name: str = "conv_lstm_cell",
    ) -> None:  # fmt: skip
        super().__init__(name=name)
        if conv_ndims != len(input_shape) - 1:
            raise ValueError("Invalid input_shape {} for conv_ndims={}.".format(input_shape, conv_ndims))
        self._conv_ndims = conv_ndims
        self._output_channels = output_channels
        self._kernel_shape = list(kernel_shape)
        self._use_bias = use_bias
        self._forget_bias = forget_bias
        self._skip_connection = skip_connection
        self._initializers = initializers
        total = output_channels + (input_shape[-1] if skip_connection else 0)
        self._output_size = tensor_shape.TensorShape(list(input_shape[:-1]) + [total])
        state = tensor_shape.TensorShape(list(input_shape[:-1]) + [output_channels])
        self._state_size = LSTMStateTuple(state, state)

    @property
    def output_size(self) -> Any:
        return self._output_size

    @property
    def state_size(self) -> Any:
        return self._state_size

    def call(self, inputs: Any, state: Any, scope: Any = None) -> Any:  # type: ignore[override]
        """One step: (output, state)."""
        cell, hidden = state
        joined = array_ops.concat([inputs, hidden], -1)
        channels = joined.get_shape()[-1].value
        kernel = variable_scope.get_variable(
            "kernel", self._kernel_shape + [channels, 4 * self._output_channels], dtype=inputs.dtype,
            initializer=self._initializers,
        )  # fmt: skip
        products = nn_ops.convolution(joined, kernel, "SAME")
        if self._use_bias:
            products += variable_scope.get_variable(
                "biases",
                [4 * self._output_channels],
                dtype=inputs.dtype,
                initializer=init_ops.zeros_initializer(),
            )
        axis = self._conv_ndims + 1
        input_gate, new_input, forget_gate, output_gate = array_ops.split(
            value=products, num_or_size_splits=4, axis=axis
        )
        new_cell = math_ops.sigmoid(forget_gate + self._forget_bias) * cell
        new_cell += math_ops.sigmoid(input_gate) * math_ops.tanh(new_input)
        output = math_ops.tanh(new_cell) * math_ops.sigmoid(output_gate)
        new_state = LSTMStateTuple(new_cell, output)
        if self._skip_connection:
            output = array_ops.concat([output, inputs], axis=-1)
        return output, new_state


class Conv1DLSTMCell(ConvLSTMCell):
    """ConvLSTMCell of sequences."""

    def __init__(self, name: str = "conv_1d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=1, name=name, **kwargs)


class Conv2DLSTMCell(ConvLSTMCell):
    """ConvLSTMCell of images."""

    def __init__(self, name: str = "conv_2d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=2, name=name, **kwargs)


class Conv3DLSTMCell(ConvLSTMCell):
    """ConvLSTMCell of volumes."""

    def __init__(self, name: str = "conv_3d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=3, name=name, **kwargs)


class HighwayWrapper(rnn_cell_impl.RNNCell):
    """A cell whose outputs are mixed with its inputs by a gate.

    Args:
      cell: the cell; its outputs have the sizes of its inputs.
      couple_carry_transform_gates: whether the gates of both sum to one.
      carry_bias_init: the first value of the bias.
    """

    def __init__(
        self, cell: Any, couple_carry_transform_gates: bool = True, carry_bias_init: float = 1.0
    ) -> None:
        super().__init__()
        self._cell = cell
        self._couple_carry_transform_gates = couple_carry_transform_gates
        self._carry_bias_init = carry_bias_init

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        return self._cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        with ops.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            return self._cell.zero_state(batch_size, dtype)

    def _gate(self, inp: Any, name: str, bias: float) -> Any:
        size = inp.get_shape().as_list()[-1]
        weight = variable_scope.get_variable("%s_w" % name, [size, size])
        offset = variable_scope.get_variable(
            "%s_b" % name, [size], initializer=init_ops.constant_initializer(bias)
        )
        return math_ops.sigmoid(nn_ops.xw_plus_b(inp, weight, offset))

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:  # type: ignore[override]
        outputs, new_state = self._cell(inputs, state, scope=scope)
        nest.assert_same_structure(inputs, outputs)

        def highway(inp: Any, out: Any) -> Any:
            inp.get_shape().assert_is_compatible_with(out.get_shape())
            carry = self._gate(inp, "carry", self._carry_bias_init)
            if self._couple_carry_transform_gates:
                transform = 1 - carry
            else:
                transform = self._gate(inp, "transform", -self._carry_bias_init)
            return inp * carry + out * transform

        return nest.map_structure(highway, inputs, outputs), new_state


class AttentionCellWrapper(rnn_cell_impl.RNNCell):
    """A cell with attention over its last outputs (Bahdanau and others, 2014).

    Args:
      cell: the cell.
      attn_length: the number of outputs kept.
      attn_size: the size of the attention vector; None: that of outputs.
      attn_vec_size: the size of the comparison; None: that of outputs.
      input_size: the size of the cell's inputs; None: that of the inputs.
      state_is_tuple: whether states are tuples (recommended).

    Raises:
      TypeError: if `cell` is no RNNCell.
      ValueError: if states are not tuples as required, or `attn_length` is not positive.
    """

    def __init__(
        self, cell: Any, attn_length: int, attn_size: Any = None, attn_vec_size: Any = None,
        input_size: Any = None,
        state_is_tuple: bool = True, reuse: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(_reuse=reuse)
        rnn_cell_impl.assert_like_rnncell("cell", cell)
        if nest.is_sequence(cell.state_size) and not state_is_tuple:
            raise ValueError(
                "Cell returns tuple of states, but the flag state_is_tuple is not set. State size is: %s"
                % str(cell.state_size)
            )
        if attn_length <= 0:
            raise ValueError("attn_length should be greater than zero, got %s" % str(attn_length))
        if not state_is_tuple:
            raise ValueError("States must be tuples: state_is_tuple=False is not implemented")
        self._cell = cell
        self._attn_length = attn_length
        self._attn_size = cell.output_size if attn_size is None else attn_size
        self._attn_vec_size = cell.output_size if attn_vec_size is None else attn_vec_size
        self._input_size = input_size

    @property
    def state_size(self) -> Any:
        return (self._cell.state_size, self._attn_size, self._attn_size * self._attn_length)

    @property
    def output_size(self) -> Any:
        return self._attn_size

    def call(self, inputs: Any, state: Any) -> Any:  # type: ignore[override]
        """One step: (output, state)."""
        state, attns, attn_states = state
        attn_states = array_ops.reshape(attn_states, [-1, self._attn_length, self._attn_size])
        size = self._input_size or inputs.get_shape().as_list()[1]
        with variable_scope.variable_scope("input_projection"):
            cell_inputs = _linear([inputs, attns], size, True)
        cell_output, new_state = self._cell(cell_inputs, state)
        query = array_ops.concat(nest.flatten(new_state), 1)
        new_attns, new_attn_states = self._attention(query, attn_states)
        with variable_scope.variable_scope("attn_output_projection"):
            output = _linear([cell_output, new_attns], self._attn_size, True)
        new_attn_states = array_ops.concat([new_attn_states, array_ops.expand_dims(output, 1)], 1)
        new_attn_states = array_ops.reshape(new_attn_states, [-1, self._attn_length * self._attn_size])
        return output, (new_state, new_attns, new_attn_states)

    def _attention(self, query: Any, attn_states: Any) -> Any:
        with variable_scope.variable_scope("attention"):
            k = variable_scope.get_variable("attn_w", [1, 1, self._attn_size, self._attn_vec_size])
            v = variable_scope.get_variable("attn_v", [self._attn_vec_size])
            hidden = array_ops.reshape(attn_states, [-1, self._attn_length, 1, self._attn_size])
            features = nn_ops.conv2d(hidden, k, [1, 1, 1, 1], "SAME")
            y = array_ops.reshape(_linear(query, self._attn_vec_size, True), [-1, 1, 1, self._attn_vec_size])
            s = math_ops.reduce_sum(v * math_ops.tanh(features + y), [2, 3])
            a = nn_ops.softmax(s)
            d = math_ops.reduce_sum(array_ops.reshape(a, [-1, self._attn_length, 1, 1]) * hidden, [1, 2])
            new_attns = array_ops.reshape(d, [-1, self._attn_size])
            return new_attns, array_ops.slice(attn_states, [0, 1, 0], [-1, -1, -1])
