# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Decoders of tf.contrib.seq2seq, and the loop that runs them."""
from __future__ import annotations

import abc
import collections
from typing import Any

from millrace.python.framework import constant_op, dtypes, ops, tensor_shape, tensor_util
from millrace.python.layers import base as layers_base
from millrace.python.ops import (
    array_ops,
    control_flow_ops,
    control_flow_util,
    math_ops,
    rnn_cell_impl,
    tensor_array_ops,
    variable_scope,
)
from millrace.python.util import nest


class Decoder(metaclass=abc.ABCMeta):
    """The interface: `initialize` returns the first inputs, `step` decodes one step."""

    @property
    def batch_size(self) -> Any:
        """A scalar tensor."""
        raise NotImplementedError

    @property
    def output_size(self) -> Any:
        """The structure of sizes of outputs."""
        raise NotImplementedError

    @property
    def output_dtype(self) -> Any:
        """The structure of types of outputs."""
        raise NotImplementedError

    @abc.abstractmethod
    def initialize(self, name: Any = None) -> Any:
        """(finished, inputs, state) of the first step."""

    @abc.abstractmethod
    def step(self, time: Any, inputs: Any, state: Any, name: Any = None) -> Any:
        """(outputs, state, inputs, finished) of one step."""

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        """(outputs, state) of a whole sequence; NotImplementedError: as they are."""
        raise NotImplementedError

    @property
    def tracks_own_finished(self) -> bool:
        """Whether the decoder itself keeps track of finished entries, as when it reorders the batch."""
        return False


def _create_zero_outputs(size: Any, dtype: Any, batch_size: Any) -> Any:
    def create(s: Any, d: Any) -> Any:
        return array_ops.zeros(array_ops.stack([batch_size] + tensor_shape.TensorShape(s).as_list()), dtype=d)

    return nest.map_structure(create, size, dtype)


def _shape(batch_size: Any, from_shape: Any) -> Any:
    if not isinstance(from_shape, tensor_shape.TensorShape) or from_shape.ndims == 0:
        return None
    known = tensor_util.constant_value(ops.convert_to_tensor(batch_size, name="batch_size"))
    return tensor_shape.TensorShape([None if known is None else int(known)]).concatenate(from_shape)


def dynamic_decode(
    decoder: Any, output_time_major: bool = False, impute_finished: bool = False,
    maximum_iterations: Any = None,
    parallel_iterations: int = 32, swap_memory: bool = False, scope: Any = None,
) -> Any:  # fmt: skip
    """Decodes until all sequences are finished.

    Args:
      decoder: a Decoder.
      output_time_major: whether outputs are [time, batch, ...].
      impute_finished: whether outputs of finished sequences are zero and their states kept.
      maximum_iterations: int32 [], the maximum number of steps.
      parallel_iterations, swap_memory: of the loop.
      scope: the variable scope, "decoder" if not given.

    Returns:
      (outputs, state, lengths).

    Raises:
      TypeError: if `decoder` is no Decoder.
      ValueError: if `maximum_iterations` is no scalar.
    """
    if not isinstance(decoder, Decoder):
        raise TypeError("Expected decoder to be type Decoder, but saw: %s" % type(decoder))
    with variable_scope.variable_scope(scope, "decoder") as varscope:
        # Variables are read once, before the loop.
        ctxt = ops.get_default_graph()._get_control_flow_context()
        in_while = control_flow_util.GetContainingWhileContext(ctxt) is not None
        if varscope.caching_device is None and not in_while:
            varscope.set_caching_device(lambda op: op.device)
        if maximum_iterations is not None:
            maximum_iterations = ops.convert_to_tensor(
                maximum_iterations, dtype=dtypes.int32, name="maximum_iterations"
            )
            if maximum_iterations.get_shape().ndims != 0:
                raise ValueError("maximum_iterations must be a scalar")
        outputs_ta, final_state, lengths = _decode_loop(
            decoder, impute_finished, maximum_iterations, parallel_iterations, swap_memory
        )
        final_outputs = nest.map_structure(lambda ta: ta.stack(), outputs_ta)
        try:
            final_outputs, final_state = decoder.finalize(final_outputs, final_state, lengths)
        except NotImplementedError:
            pass
        if not output_time_major:
            from millrace.python.ops import rnn

            final_outputs = nest.map_structure(rnn._transpose_batch_time, final_outputs)  # type: ignore[attr-defined]
    return final_outputs, final_state, lengths


def _decode_loop(
    decoder: Any, impute_finished: bool, maximum_iterations: Any, parallel_iterations: int, swap_memory: bool
) -> Any:
    initial_finished, initial_inputs, initial_state = decoder.initialize()
    zero_outputs = _create_zero_outputs(decoder.output_size, decoder.output_dtype, decoder.batch_size)
    if maximum_iterations is not None:
        initial_finished = math_ops.logical_or(initial_finished, 0 >= maximum_iterations)
    initial_lengths = array_ops.zeros_like(initial_finished, dtype=dtypes.int32)

    def create_ta(s: Any, d: Any) -> Any:
        return tensor_array_ops.TensorArray(
            dtype=d,
            size=0,
            dynamic_size=True,
            element_shape=_shape(decoder.batch_size, tensor_shape.as_shape(s)),
        )

    def body(time: Any, outputs_ta: Any, state: Any, inputs: Any, finished: Any, lengths: Any) -> Any:
        next_outputs, decoder_state, next_inputs, decoder_finished = decoder.step(time, inputs, state)
        decoder_state_lengths = False
        if decoder.tracks_own_finished:
            next_finished = decoder_finished
            lengths_of = getattr(decoder_state, "lengths", None)
            decoder_state_lengths = lengths_of is not None
        else:
            next_finished = math_ops.logical_or(decoder_finished, finished)
        if decoder_state_lengths:
            next_lengths = math_ops.cast(decoder_state.lengths, dtypes.int32)
        else:
            ends = array_ops.fill(array_ops.shape(lengths), time + 1)
            next_lengths = array_ops.where(math_ops.logical_not(finished), ends, lengths)
        nest.assert_same_structure(state, decoder_state)
        nest.assert_same_structure(outputs_ta, next_outputs)
        nest.assert_same_structure(inputs, next_inputs)
        emit, next_state = next_outputs, decoder_state
        if impute_finished:
            emit = nest.map_structure(
                lambda out, zero: array_ops.where(finished, zero, out), next_outputs, zero_outputs
            )

            def copy_through(new: Any, cur: Any) -> Any:
                if isinstance(cur, tensor_array_ops.TensorArray) or new.shape.ndims == 0:
                    return new
                new.set_shape(cur.shape)
                return array_ops.where(finished, cur, new)

            next_state = nest.map_structure(copy_through, decoder_state, state)
        outputs_ta = nest.map_structure(lambda ta, out: ta.write(time, out), outputs_ta, emit)
        return time + 1, outputs_ta, next_state, next_inputs, next_finished, next_lengths

    initial_time = constant_op.constant(0, dtype=dtypes.int32)
    initial_ta = nest.map_structure(create_ta, decoder.output_size, decoder.output_dtype)
    result = control_flow_ops.while_loop(
        lambda time, ta, state, inputs, finished, lengths: math_ops.logical_not(
            math_ops.reduce_all(finished)
        ),
        body,
        loop_vars=(
            initial_time,
            initial_ta,
            initial_state,
            initial_inputs,
            initial_finished,
            initial_lengths,
        ),
        parallel_iterations=parallel_iterations,
        maximum_iterations=maximum_iterations,
        swap_memory=swap_memory,
    )
    return result[1], result[2], result[5]


class BasicDecoderOutput(collections.namedtuple("BasicDecoderOutput", ("rnn_output", "sample_id"))):
    """Outputs of the cell, and ids."""


class BasicDecoder(Decoder):
    """A cell whose inputs a helper selects.

    Args:
      cell: an RNNCell.
      helper: a Helper.
      initial_state: of the cell.
      output_layer: a layer applied to the cell's outputs, or None.

    Raises:
      TypeError: if an argument has another type.
    """

    def __init__(self, cell: Any, helper: Any, initial_state: Any, output_layer: Any = None) -> None:
        from millrace.python._contrib import seq2seq_helpers

        rnn_cell_impl.assert_like_rnncell("cell", cell)
        if not isinstance(helper, seq2seq_helpers.Helper):
            raise TypeError("helper must be a Helper, received: %s" % type(helper))
        if output_layer is not None and not isinstance(output_layer, layers_base.Layer):
            raise TypeError("output_layer must be a Layer, received: %s" % type(output_layer))
        self._cell = cell
        self._helper = helper
        self._initial_state = initial_state
        self._output_layer = output_layer

    @property
    def batch_size(self) -> Any:
        return self._helper.batch_size

    def _rnn_output_size(self) -> Any:
        size = self._cell.output_size
        if self._output_layer is None:
            return size
        with_batch = nest.map_structure(lambda s: tensor_shape.TensorShape([None]).concatenate(s), size)
        shape = self._output_layer.compute_output_shape(with_batch)
        return nest.map_structure(lambda s: s[1:], shape)

    @property
    def output_size(self) -> Any:
        return BasicDecoderOutput(rnn_output=self._rnn_output_size(), sample_id=self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> Any:
        dtype = nest.flatten(self._initial_state)[0].dtype
        return BasicDecoderOutput(
            nest.map_structure(lambda _: dtype, self._rnn_output_size()), self._helper.sample_ids_dtype
        )

    def initialize(self, name: Any = None) -> Any:
        return tuple(self._helper.initialize()) + (self._initial_state,)

    def step(self, time: Any, inputs: Any, state: Any, name: Any = None) -> Any:
        with ops.name_scope(name, "BasicDecoderStep", (time, inputs, state)):
            cell_outputs, cell_state = self._cell(inputs, state)
            if self._output_layer is not None:
                cell_outputs = self._output_layer(cell_outputs)
            sample_ids = self._helper.sample(time=time, outputs=cell_outputs, state=cell_state)
            finished, next_inputs, next_state = self._helper.next_inputs(
                time=time, outputs=cell_outputs, state=cell_state, sample_ids=sample_ids
            )
        return BasicDecoderOutput(cell_outputs, sample_ids), next_state, next_inputs, finished
