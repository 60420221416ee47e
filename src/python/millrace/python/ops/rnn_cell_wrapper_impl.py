# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Wrappers of recurrent cells: dropout, residual connections and devices."""
from __future__ import annotations

import hashlib
import numbers
from typing import Any, Callable, Optional

from millrace.python.framework import ops, tensor_shape, tensor_util
from millrace.python.layers import _layer_config
from millrace.python.ops import math_ops, nn_ops, random_ops
from millrace.python.ops._rnn_cell_base import LSTMStateTuple, RNNCell, assert_like_rnncell
from millrace.python.util import nest


class _RNNCellWrapperV1(RNNCell):
    """A cell around another one."""

    def __init__(self, cell: Any, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        assert_like_rnncell("cell", cell)
        self.cell = cell

    @property
    def _cell(self) -> Any:
        return self.cell

    @property
    def wrapped_cell(self) -> Any:
        """The cell inside."""
        return self.cell

    @property
    def state_size(self) -> Any:
        return self.cell.state_size

    @property
    def output_size(self) -> Any:
        return self.cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        with ops.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            return self.cell.zero_state(batch_size, dtype)

    def _call_wrapped_cell(self, inputs: Any, state: Any, cell_call_fn: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:  # type: ignore[override]
        return self._call_wrapped_cell(inputs, state, cell_call_fn=self.cell.__call__, scope=scope)

    def call(self, inputs: Any, state: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        return self._call_wrapped_cell(inputs, state, cell_call_fn=self.cell.call, **kwargs)

    def build(self, _: Any) -> None:
        self.built = True

    def get_config(self) -> Any:
        """Returns the arguments of the wrapper, with the cell as its class name and configuration."""
        return dict(super().get_config(), cell=_layer_config.serialize(self.cell))

    @classmethod
    def from_config(cls, config: Any, custom_objects: Any = None) -> Any:
        """Makes a wrapper and its cell from `get_config()`; `custom_objects`: other classes by name."""
        from millrace.python.ops import rnn_cell

        arguments = dict(config)
        arguments["cell"] = _layer_config.deserialize(arguments["cell"], (rnn_cell,), custom_objects)
        return cls(**arguments)


def _enumerated_map_structure_up_to(
    shallow_structure: Any, map_fn: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    index = [0]

    def enumerated_fn(*inner_args: Any, **inner_kwargs: Any) -> Any:
        result = map_fn(index[0], *inner_args, **inner_kwargs)
        index[0] += 1
        return result

    return nest.map_structure_up_to(shallow_structure, enumerated_fn, *args, **kwargs)


def _default_dropout_state_filter_visitor(substate: Any) -> Any:
    if isinstance(substate, LSTMStateTuple):
        return LSTMStateTuple(c=False, h=True)
    if type(substate).__name__ == "TensorArray":
        return False
    return True


class DropoutWrapper(_RNNCellWrapperV1):
    """Applies dropout to inputs, states and outputs of a cell; variational dropout keeps one mask for all steps.

    Raises ValueError for probabilities outside of [0, 1] and for variational recurrence without `dtype` and
    `input_size`; TypeError for a filter of states that cannot be called.
    """

    def __init__(
        self,
        cell: Any,
        input_keep_prob: Any = 1.0,
        output_keep_prob: Any = 1.0,
        state_keep_prob: Any = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: Any = None,
        seed: Any = None,
        dropout_state_filter_visitor: Any = None,
        **kwargs: Any,
    ):
        super().__init__(cell, dtype=dtype, **kwargs)
        if dropout_state_filter_visitor is not None and not callable(dropout_state_filter_visitor):
            raise TypeError("dropout_state_filter_visitor must be callable")
        self._dropout_state_filter = dropout_state_filter_visitor or _default_dropout_state_filter_visitor
        with ops.name_scope("DropoutWrapperInit"):
            self._input_keep_prob = self._probability("input_keep_prob", input_keep_prob)
            self._state_keep_prob = self._probability("state_keep_prob", state_keep_prob)
            self._output_keep_prob = self._probability("output_keep_prob", output_keep_prob)
        self._variational_recurrent = variational_recurrent
        self._input_size = input_size
        self._seed = seed
        self._recurrent_input_noise: Any = None
        self._recurrent_state_noise: Any = None
        self._recurrent_output_noise: Any = None
        if variational_recurrent:
            self._make_noises(dtype, input_size)

    @staticmethod
    def _probability(name: str, prob: Any) -> Any:
        tensor = ops.convert_to_tensor(prob)
        value = tensor_util.constant_value(tensor)
        if value is None:
            return tensor
        if value < 0 or value > 1:
            raise ValueError("Parameter {} must be between 0 and 1: {}".format(name, prob))
        return float(value)

    def _make_noises(self, dtype: Any, input_size: Any) -> None:
        if dtype is None:
            raise ValueError("When variational_recurrent=True, dtype must be provided")

        def batch_noise(s: Any, inner_seed: Any) -> Any:
            shape = tensor_shape.TensorShape([1]).concatenate(tensor_shape.as_shape(s)).as_list()
            return random_ops.random_uniform(shape, seed=inner_seed, dtype=dtype)

        if not isinstance(self._input_keep_prob, numbers.Real) or self._input_keep_prob < 1.0:
            if input_size is None:
                raise ValueError(
                    "When variational_recurrent=True and input_keep_prob < 1.0 or is unknown, input_size must be provided"
                )
            self._recurrent_input_noise = _enumerated_map_structure_up_to(
                input_size, lambda i, s: batch_noise(s, inner_seed=self._gen_seed("input", i)), input_size
            )
        self._recurrent_state_noise = _enumerated_map_structure_up_to(
            self.cell.state_size,
            lambda i, s: batch_noise(s, inner_seed=self._gen_seed("state", i)),
            self.cell.state_size,
        )
        self._recurrent_output_noise = _enumerated_map_structure_up_to(
            self.cell.output_size,
            lambda i, s: batch_noise(s, inner_seed=self._gen_seed("output", i)),
            self.cell.output_size,
        )

    def _gen_seed(self, salt_prefix: str, index: int) -> Optional[int]:
        if self._seed is None:
            return None
        string = (str(self._seed) + "%s_%d" % (salt_prefix, index)).encode("utf-8")
        return int(hashlib.md5(string).hexdigest()[:8], 16) & 0x7FFFFFFF

    def _variational_recurrent_dropout_value(self, index: int, value: Any, noise: Any, keep_prob: Any) -> Any:
        random_tensor = keep_prob + noise
        ret = math_ops.div(value, keep_prob) * math_ops.floor(random_tensor)
        ret.set_shape(value.get_shape())
        return ret

    def _dropout(
        self, values: Any, salt_prefix: str, recurrent_noise: Any, keep_prob: Any, shallow: Any = None
    ) -> Any:
        if shallow is None:
            shallow = values
        if not self._variational_recurrent:

            def dropout(i: int, do_dropout: Any, v: Any) -> Any:
                if not isinstance(do_dropout, bool) or do_dropout:
                    return nn_ops.dropout_v2(v, rate=1 - keep_prob, seed=self._gen_seed(salt_prefix, i))
                return v

            return _enumerated_map_structure_up_to(shallow, dropout, shallow, values)

        def variational(i: int, do_dropout: Any, v: Any, n: Any) -> Any:
            if not isinstance(do_dropout, bool) or do_dropout:
                return self._variational_recurrent_dropout_value(i, v, n, keep_prob)
            return v

        return _enumerated_map_structure_up_to(shallow, variational, shallow, values, recurrent_noise)

    @staticmethod
    def _should_dropout(p: Any) -> bool:
        return not isinstance(p, float) or p < 1

    def _call_wrapped_cell(self, inputs: Any, state: Any, cell_call_fn: Any, **kwargs: Any) -> Any:
        if self._should_dropout(self._input_keep_prob):
            inputs = self._dropout(inputs, "input", self._recurrent_input_noise, self._input_keep_prob)
        output, new_state = cell_call_fn(inputs, state, **kwargs)
        if self._should_dropout(self._state_keep_prob):
            shallow = nest.get_traverse_shallow_structure(self._dropout_state_filter, new_state)
            new_state = self._dropout(
                new_state, "state", self._recurrent_state_noise, self._state_keep_prob, shallow
            )
        if self._should_dropout(self._output_keep_prob):
            output = self._dropout(output, "output", self._recurrent_output_noise, self._output_keep_prob)
        return output, new_state


class ResidualWrapper(_RNNCellWrapperV1):
    """Adds the inputs of a cell to its outputs, or joins both by `residual_fn(inputs, outputs)`."""

    def __init__(self, cell: Any, residual_fn: Any = None, **kwargs: Any):
        super().__init__(cell, **kwargs)
        self._residual_fn = residual_fn

    def _call_wrapped_cell(self, inputs: Any, state: Any, cell_call_fn: Any, **kwargs: Any) -> Any:
        outputs, new_state = cell_call_fn(inputs, state, **kwargs)

        def default_residual_fn(inputs: Any, outputs: Any) -> Any:
            nest.assert_same_structure(inputs, outputs)

            def add(inp: Any, out: Any) -> Any:
                inp.get_shape().assert_is_compatible_with(out.get_shape())
                return inp + out

            return nest.map_structure(add, inputs, outputs)

        return (self._residual_fn or default_residual_fn)(inputs, outputs), new_state


class DeviceWrapper(_RNNCellWrapperV1):
    """Places the ops of a cell on a device."""

    def __init__(self, cell: Any, device: Any, **kwargs: Any):
        super().__init__(cell, **kwargs)
        self._device = device

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        with ops.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            with ops.device(self._device):
                return self.cell.zero_state(batch_size, dtype)

    def _call_wrapped_cell(self, inputs: Any, state: Any, cell_call_fn: Any, **kwargs: Any) -> Any:
        with ops.device(self._device):
            return cell_call_fn(inputs, state, **kwargs)


DropoutWrapperBase = DropoutWrapper
ResidualWrapperBase = ResidualWrapper
DeviceWrapperBase = DeviceWrapper
