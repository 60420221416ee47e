# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Basic, gated and long short-term memory cells."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import constant_op, dtypes, ops, tensor_shape
from millrace.python.layers import _arguments, _layer_config, base as base_layer
from millrace.python.ops import array_ops, clip_ops, init_ops, math_ops, nn_ops, partitioned_variables
from millrace.python.ops._rnn_cell_base import (
    _BIAS_VARIABLE_NAME,
    _WEIGHTS_VARIABLE_NAME,
    LayerRNNCell,
    LSTMStateTuple,
    RNNCell,
)
from millrace.python.training.tracking import base as trackable
from millrace.python.util import nest


def _input_depth(input_shape: Any) -> int:
    depth = tensor_shape.dimension_value(tensor_shape.TensorShape(input_shape)[-1])
    if depth is None:
        raise ValueError("Expected inputs.shape[-1] to be known, saw shape: %s" % str(input_shape))
    return int(depth)


class BasicRNNCell(LayerRNNCell):
    """output = new state = activation(W [inputs, state] + B)."""

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Optional[bool] = None,
        name: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = base_layer.InputSpec(ndim=2)
        self._num_units = num_units
        self._activation = _arguments.get_activation(activation) if activation else math_ops.tanh

    @property
    def state_size(self) -> Any:
        return self._num_units

    @property
    def output_size(self) -> Any:
        return self._num_units

    def build(self, input_shape: Any) -> None:
        input_depth = _input_depth(input_shape)
        self._kernel = self.add_variable(
            _WEIGHTS_VARIABLE_NAME, shape=[input_depth + self._num_units, self._num_units]
        )
        self._bias = self.add_variable(
            _BIAS_VARIABLE_NAME,
            shape=[self._num_units],
            initializer=init_ops.zeros_initializer(dtype=self.dtype),
        )
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:  # type: ignore[override]
        gate_inputs = math_ops.matmul(array_ops.concat([inputs, state], 1), self._kernel)
        gate_inputs = nn_ops.bias_add(gate_inputs, self._bias)
        output = self._activation(gate_inputs)
        return output, output


class GRUCell(LayerRNNCell):
    """Gated recurrent unit (Cho et al., 2014); variables gates/{kernel,bias} and candidate/{kernel,bias}."""

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Optional[bool] = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = base_layer.InputSpec(ndim=2)
        self._num_units = num_units
        self._activation = _arguments.get_activation(activation) if activation else math_ops.tanh
        self._kernel_initializer = _arguments.get_initializer(kernel_initializer)
        self._bias_initializer = _arguments.get_initializer(bias_initializer)

    @property
    def state_size(self) -> Any:
        return self._num_units

    @property
    def output_size(self) -> Any:
        return self._num_units

    def build(self, input_shape: Any) -> None:
        rows = _input_depth(input_shape) + self._num_units
        self._gate_kernel = self.add_variable(
            "gates/%s" % _WEIGHTS_VARIABLE_NAME,
            shape=[rows, 2 * self._num_units],
            initializer=self._kernel_initializer,
        )
        bias = self._bias_initializer
        self._gate_bias = self.add_variable(
            "gates/%s" % _BIAS_VARIABLE_NAME,
            shape=[2 * self._num_units],
            initializer=bias if bias is not None else init_ops.constant_initializer(1.0, dtype=self.dtype),
        )
        self._candidate_kernel = self.add_variable(
            "candidate/%s" % _WEIGHTS_VARIABLE_NAME,
            shape=[rows, self._num_units],
            initializer=self._kernel_initializer,
        )
        self._candidate_bias = self.add_variable(
            "candidate/%s" % _BIAS_VARIABLE_NAME,
            shape=[self._num_units],
            initializer=bias if bias is not None else init_ops.zeros_initializer(dtype=self.dtype),
        )
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:  # type: ignore[override]
        gate_inputs = math_ops.matmul(array_ops.concat([inputs, state], 1), self._gate_kernel)
        gate_inputs = nn_ops.bias_add(gate_inputs, self._gate_bias)
        value = math_ops.sigmoid(gate_inputs)
        r, u = array_ops.split(value=value, num_or_size_splits=2, axis=1)
        r_state = r * state
        candidate = math_ops.matmul(array_ops.concat([inputs, r_state], 1), self._candidate_kernel)
        candidate = nn_ops.bias_add(candidate, self._candidate_bias)
        c = self._activation(candidate)
        new_h = u * state + (1 - u) * c
        return new_h, new_h


class BasicLSTMCell(LayerRNNCell):
    """Long short-term memory without peepholes, clipping and projection; variables kernel [in + n, 4 n], bias [4 n].

    The gates are in the order i, j, f, o; `forget_bias` is added to the forget gate.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Optional[bool] = None,
        name: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = base_layer.InputSpec(ndim=2)
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = _arguments.get_activation(activation) if activation else math_ops.tanh

    @property
    def state_size(self) -> Any:
        return (
            LSTMStateTuple(self._num_units, self._num_units) if self._state_is_tuple else 2 * self._num_units
        )

    @property
    def output_size(self) -> Any:
        return self._num_units

    def build(self, input_shape: Any) -> None:
        input_depth = _input_depth(input_shape)
        h_depth = self._num_units
        self._kernel = self.add_variable(
            _WEIGHTS_VARIABLE_NAME, shape=[input_depth + h_depth, 4 * self._num_units]
        )
        self._bias = self.add_variable(
            _BIAS_VARIABLE_NAME,
            shape=[4 * self._num_units],
            initializer=init_ops.zeros_initializer(dtype=self.dtype),
        )
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:  # type: ignore[override]
        sigmoid = math_ops.sigmoid
        one = constant_op.constant(1, dtype=dtypes.int32)
        if self._state_is_tuple:
            c, h = state
        else:
            c, h = array_ops.split(value=state, num_or_size_splits=2, axis=one)
        gate_inputs = math_ops.matmul(array_ops.concat([inputs, h], 1), self._kernel)
        gate_inputs = nn_ops.bias_add(gate_inputs, self._bias)
        i, j, f, o = array_ops.split(value=gate_inputs, num_or_size_splits=4, axis=one)
        forget_bias = constant_op.constant(self._forget_bias, dtype=f.dtype)
        add, multiply = math_ops.add, math_ops.multiply
        new_c = add(multiply(c, sigmoid(add(f, forget_bias))), multiply(sigmoid(i), self._activation(j)))
        new_h = multiply(self._activation(new_c), sigmoid(o))
        new_state = (
            LSTMStateTuple(new_c, new_h) if self._state_is_tuple else array_ops.concat([new_c, new_h], 1)
        )
        return new_h, new_state


class LSTMCell(LayerRNNCell):
    """Long short-term memory with optional peepholes, clipping and projection (Sak et al., 2014)."""

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: Any = None,
        initializer: Any = None,
        num_proj: Optional[int] = None,
        proj_clip: Any = None,
        num_unit_shards: Any = None,
        num_proj_shards: Any = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Optional[bool] = None,
        name: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = base_layer.InputSpec(ndim=2)
        self._num_units = num_units
        self._use_peepholes = use_peepholes
        self._cell_clip = cell_clip
        self._initializer = _arguments.get_initializer(initializer)
        self._num_proj = num_proj
        self._proj_clip = proj_clip
        self._num_unit_shards = num_unit_shards
        self._num_proj_shards = num_proj_shards
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = _arguments.get_activation(activation) if activation else math_ops.tanh
        h_size = num_proj if num_proj else num_units
        self._state_size: Any = LSTMStateTuple(num_units, h_size) if state_is_tuple else num_units + h_size
        self._output_size = h_size

    @property
    def state_size(self) -> Any:
        return self._state_size

    @property
    def output_size(self) -> Any:
        return self._output_size

    def build(self, input_shape: Any) -> None:
        input_depth = _input_depth(input_shape)
        h_depth = self._num_units if self._num_proj is None else self._num_proj
        shards = self._num_unit_shards
        self._kernel = self.add_variable(
            _WEIGHTS_VARIABLE_NAME,
            shape=[input_depth + h_depth, 4 * self._num_units],
            initializer=self._initializer,
            partitioner=partitioned_variables.fixed_size_partitioner(shards) if shards is not None else None,
        )
        initializer = None if self.dtype is None else init_ops.zeros_initializer
        self._bias = self.add_variable(
            _BIAS_VARIABLE_NAME,
            shape=[4 * self._num_units],
            initializer=(initializer or init_ops.zeros_initializer)(dtype=self.dtype or dtypes.float32),
        )
        if self._use_peepholes:
            self._w_f_diag = self.add_variable(
                "w_f_diag", shape=[self._num_units], initializer=self._initializer
            )
            self._w_i_diag = self.add_variable(
                "w_i_diag", shape=[self._num_units], initializer=self._initializer
            )
            self._w_o_diag = self.add_variable(
                "w_o_diag", shape=[self._num_units], initializer=self._initializer
            )
        if self._num_proj is not None:
            proj_shards = self._num_proj_shards
            self._proj_kernel = self.add_variable(
                "projection/%s" % _WEIGHTS_VARIABLE_NAME,
                shape=[self._num_units, self._num_proj],
                initializer=self._initializer,
                partitioner=partitioned_variables.fixed_size_partitioner(proj_shards)
                if proj_shards is not None
                else None,
            )
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:  # type: ignore[override]
        num_proj = self._num_units if self._num_proj is None else self._num_proj
        sigmoid = math_ops.sigmoid
        if self._state_is_tuple:
            c_prev, m_prev = state
        else:
            c_prev = array_ops.slice(state, [0, 0], [-1, self._num_units])
            m_prev = array_ops.slice(state, [0, self._num_units], [-1, num_proj])
        if tensor_shape.dimension_value(inputs.get_shape().with_rank(2)[1]) is None:
            raise ValueError("Could not infer input size from inputs.get_shape()[-1]")
        lstm_matrix = math_ops.matmul(array_ops.concat([inputs, m_prev], 1), self._kernel)
        lstm_matrix = nn_ops.bias_add(lstm_matrix, self._bias)
        i, j, f, o = array_ops.split(value=lstm_matrix, num_or_size_splits=4, axis=1)
        if self._use_peepholes:
            c = sigmoid(f + self._forget_bias + self._w_f_diag * c_prev) * c_prev + sigmoid(
                i + self._w_i_diag * c_prev
            ) * self._activation(j)
        else:
            c = sigmoid(f + self._forget_bias) * c_prev + sigmoid(i) * self._activation(j)
        if self._cell_clip is not None:
            c = clip_ops.clip_by_value(c, -self._cell_clip, self._cell_clip)
        m = sigmoid(o + self._w_o_diag * c if self._use_peepholes else o) * self._activation(c)
        if self._num_proj is not None:
            m = math_ops.matmul(m, self._proj_kernel)
            if self._proj_clip is not None:
                m = clip_ops.clip_by_value(m, -self._proj_clip, self._proj_clip)
        return m, LSTMStateTuple(c, m) if self._state_is_tuple else array_ops.concat([c, m], 1)


class MultiRNNCell(RNNCell):
    """A stack of cells; the state is the tuple of their states.

    Raises ValueError without cells or for tuple states if `state_is_tuple` is false, TypeError if `cells` is
    no list.
    """

    def __init__(self, cells: Any, state_is_tuple: bool = True):
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        if not nest.is_sequence(cells):
            raise TypeError("cells must be a list or tuple, but saw: %s." % cells)
        self._cells = list(cells) if not isinstance(cells, list) else cells
        if any(not hasattr(cell, "state_size") for cell in self._cells):
            raise TypeError("cells must be a list of RNNCells, but saw: %s." % cells)
        for number, cell in enumerate(self._cells):
            if isinstance(cell, trackable.Trackable):
                self._track_trackable(cell, name="cell-%d" % number)
        self._state_is_tuple = state_is_tuple
        if not state_is_tuple and any(nest.is_sequence(c.state_size) for c in self._cells):
            raise ValueError(
                "Some cells return tuples of states, but the flag state_is_tuple is not set.  State sizes are: %s"
                % str([c.state_size for c in self._cells])
            )

    def get_config(self) -> Any:
        """Returns the class names and configurations of the cells."""
        cells = [_layer_config.serialize(cell) for cell in self._cells]
        return {"cells": cells, "state_is_tuple": self._state_is_tuple}

    @classmethod
    def from_config(cls, config: Any, custom_objects: Any = None) -> Any:
        """Makes the cells and their stack from the result of `get_config()`."""
        from millrace.python.ops import rnn_cell

        cells = [_layer_config.deserialize(cell, (rnn_cell,), custom_objects) for cell in config["cells"]]
        return cls(cells, config["state_is_tuple"])

    @property
    def state_size(self) -> Any:
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        return self._cells[-1].output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        with ops.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            if self._state_is_tuple:
                return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)
            return super().zero_state(batch_size, dtype)

    def call(self, inputs: Any, state: Any) -> Any:  # type: ignore[override]
        from millrace.python.ops import variable_scope as vs

        cur_state_pos = 0
        cur_inp = inputs
        new_states = []
        for i, cell in enumerate(self._cells):
            with vs.variable_scope("cell_%d" % i):
                if self._state_is_tuple:
                    if not nest.is_sequence(state):
                        raise ValueError(
                            "Expected state to be a tuple of length %d, but received: %s"
                            % (len(self.state_size), state)
                        )
                    cur_state = state[i]
                else:
                    cur_state = array_ops.slice(state, [0, cur_state_pos], [-1, cell.state_size])
                    cur_state_pos += cell.state_size
                cur_inp, new_state = cell(cur_inp, cur_state)
                new_states.append(new_state)
        return cur_inp, tuple(new_states) if self._state_is_tuple else array_ops.concat(new_states, 1)
