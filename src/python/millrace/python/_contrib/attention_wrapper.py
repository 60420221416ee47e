# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""AttentionWrapper of tf.contrib.seq2seq: a cell that reads from memories."""
from __future__ import annotations

import collections
from typing import Any

from millrace.python._contrib import attention
from millrace.python.framework import dtypes, ops, tensor_shape, tensor_util
from millrace.python.layers import base as layers_base
from millrace.python.layers import core as layers_core
from millrace.python.ops import array_ops, check_ops, math_ops, rnn_cell_impl, tensor_array_ops
from millrace.python.util import nest


class AttentionWrapperState(
    collections.namedtuple(
        "AttentionWrapperState",
        ("cell_state", "attention", "time", "alignments", "alignment_history", "attention_state"),
    )
):
    """The state of an AttentionWrapper."""

    def clone(self, **kwargs: Any) -> Any:
        """The state with some parts replaced; ValueError if shapes of tensors differ."""

        def with_same_shape(old: Any, new: Any) -> Any:
            if isinstance(old, ops.Tensor) and isinstance(new, ops.Tensor):
                new.shape.assert_is_compatible_with(old.shape)
                new.set_shape(old.shape)
            return new

        return nest.map_structure(with_same_shape, self, super()._replace(**kwargs))


def _compute_attention(mechanism: Any, cell_output: Any, attention_state: Any, attention_layer: Any) -> Any:
    """(attention, alignments, next state of the mechanism)."""
    alignments, next_state = mechanism(cell_output, state=attention_state)
    expanded = array_ops.expand_dims(alignments, 1)
    context = array_ops.squeeze(math_ops.matmul(expanded, mechanism.values), [1])
    if attention_layer is not None:
        context = attention_layer(array_ops.concat([cell_output, context], 1))
    return context, alignments, next_state


class AttentionWrapper(rnn_cell_impl.RNNCell):
    """A cell whose inputs are concatenated with the attention of the previous step.

    Args:
      cell: an RNNCell.
      attention_mechanism: a mechanism, or a list of them.
      attention_layer_size: the depth of a layer applied to the concatenation of output and context (a list
        for several mechanisms); None: no layer.
      alignment_history: whether the alignments of all steps are kept, in TensorArrays.
      cell_input_fn: a function from (inputs, attention) to the cell's inputs; by default they are
        concatenated.
      output_attention: whether the output is the attention; else it is that of the cell.
      initial_cell_state: the cell's state in the result of `zero_state`.
      name: name of the layer.
      attention_layer: layers instead of `attention_layer_size`.
      attention_fn: computes (attention, alignments, next state) instead of the usual function.

    Raises:
      TypeError, ValueError: an argument is of the wrong type, or lengths of lists differ.
    """

    def __init__(
        self, cell: Any, attention_mechanism: Any, attention_layer_size: Any = None,
        alignment_history: bool = False,
        cell_input_fn: Any = None, output_attention: bool = True, initial_cell_state: Any = None,
        name: Any = None,
        attention_layer: Any = None, attention_fn: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(name=name)
        rnn_cell_impl.assert_like_rnncell("cell", cell)
        self._is_multi = isinstance(attention_mechanism, (list, tuple))
        mechanisms = tuple(attention_mechanism) if self._is_multi else (attention_mechanism,)
        for mechanism in mechanisms:
            if not isinstance(mechanism, attention.AttentionMechanism):
                raise TypeError(
                    "attention_mechanism must be an AttentionMechanism or list of multiple "
                    "AttentionMechanism instances, "
                    "saw type: %s" % type(mechanism).__name__
                )
        if cell_input_fn is None:
            cell_input_fn = lambda inputs, attention: array_ops.concat([inputs, attention], -1)  # noqa: E731
        elif not callable(cell_input_fn):
            raise TypeError("cell_input_fn must be callable, saw type: %s" % type(cell_input_fn).__name__)
        if attention_layer_size is not None and attention_layer is not None:
            raise ValueError("Only one of attention_layer_size and attention_layer should be set")
        self._set_layers(mechanisms, attention_layer_size, attention_layer)
        self._attention_fn = _compute_attention if attention_fn is None else attention_fn
        self._cell = cell
        self._attention_mechanisms = mechanisms
        self._cell_input_fn = cell_input_fn
        self._output_attention = output_attention
        self._alignment_history = alignment_history
        with ops.name_scope(name, "AttentionWrapperInit"):
            self._initial_cell_state = None
            if initial_cell_state is not None:
                self._set_initial_state(initial_cell_state)

    def _set_layers(self, mechanisms: Any, sizes: Any, layers: Any) -> None:
        self._attention_layers: Any = None
        if sizes is not None:
            sizes = tuple(sizes if isinstance(sizes, (list, tuple)) else (sizes,))
            if len(sizes) != len(mechanisms):
                raise ValueError(
                    "If provided, attention_layer_size must contain exactly one integer per "
                    "attention_mechanism, saw: %d "
                    "vs %d" % (len(sizes), len(mechanisms))
                )
            self._attention_layers = tuple(
                layers_core.Dense(size, name="attention_layer", use_bias=False, dtype=mechanisms[i].dtype)
                for i, size in enumerate(sizes)
            )
            self._attention_layer_size: Any = sum(sizes)
        elif layers is not None:
            self._attention_layers = tuple(layers if isinstance(layers, (list, tuple)) else (layers,))
            if len(self._attention_layers) != len(mechanisms):
                raise ValueError(
                    "If provided, attention_layer must contain exactly one layer per attention_mechanism, "
                    "saw: %d vs %d" % (len(self._attention_layers), len(mechanisms))
                )
            self._attention_layer_size = sum(
                self._layer_size(layer, mechanism)
                for layer, mechanism in zip(self._attention_layers, mechanisms)
            )
        else:
            self._attention_layer_size = sum(int(m.values.get_shape()[-1]) for m in mechanisms)

    @staticmethod
    def _layer_size(layer: Any, mechanism: Any) -> int:
        assert isinstance(layer, layers_base.Layer)
        memory = mechanism.values.shape
        return int(layer.compute_output_shape([None, int(memory[-1])])[-1])

    def _set_initial_state(self, initial_cell_state: Any) -> None:
        final = nest.flatten(initial_cell_state)[-1]
        batch_size = final.shape[0].value or array_ops.shape(final)[0]
        message = (
            "When constructing AttentionWrapper %s: Non-matching batch sizes between the memory (encoder "
            "output) and "
            "initial_cell_state.  Are you using the BeamSearchDecoder?  You may need to tile your initial "
            "state via the "
            "tf.contrib.seq2seq.tile_batch function with argument multiple=beam_width." % self._base_name
        )
        with ops.control_dependencies(self._batch_size_checks(batch_size, message)):
            self._initial_cell_state = nest.map_structure(
                lambda s: array_ops.identity(s, name="check_initial_cell_state"), initial_cell_state
            )

    def _batch_size_checks(self, batch_size: Any, error_message: str) -> list[Any]:
        return [
            check_ops.assert_equal(batch_size, mechanism.batch_size, message=error_message)
            for mechanism in self._attention_mechanisms
        ]

    def _item_or_tuple(self, seq: Any) -> Any:
        t = tuple(seq)
        return t if self._is_multi else t[0]

    @property
    def output_size(self) -> Any:
        return self._attention_layer_size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> Any:
        mechanisms = self._attention_mechanisms
        return AttentionWrapperState(
            cell_state=self._cell.state_size,
            time=tensor_shape.TensorShape([]),
            attention=self._attention_layer_size,
            alignments=self._item_or_tuple(m.alignments_size for m in mechanisms),
            attention_state=self._item_or_tuple(m.state_size for m in mechanisms),
            alignment_history=self._item_or_tuple(
                m.alignments_size if self._alignment_history else () for m in mechanisms
            ),
        )

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        with ops.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            if self._initial_cell_state is not None:
                cell_state = self._initial_cell_state
            else:
                cell_state = self._cell.zero_state(batch_size, dtype)
            message = (
                "When calling zero_state of AttentionWrapper %s: Non-matching batch sizes between the "
                "memory (encoder "
                "output) and the requested batch size.  Are you using the BeamSearchDecoder?  If so, make "
                "sure your "
                "encoder output has been tiled to beam_width via tf.contrib.seq2seq.tile_batch, and the "
                "batch_size= "
                "argument passed to zero_state is batch_size * beam_width." % self._base_name
            )
            with ops.control_dependencies(self._batch_size_checks(batch_size, message)):
                cell_state = nest.map_structure(
                    lambda s: array_ops.identity(s, name="checked_cell_state"), cell_state
                )
            mechanisms = self._attention_mechanisms
            initial = [m.initial_alignments(batch_size, dtype) for m in mechanisms]
            size = tensor_util.constant_value(ops.convert_to_tensor(batch_size))
            known = int(size) if size is not None else batch_size
            return AttentionWrapperState(
                cell_state=cell_state,
                time=array_ops.zeros([], dtype=dtypes.int32),
                attention=attention.rnn_zero_state(self._attention_layer_size, known, dtype),
                alignments=self._item_or_tuple(initial),
                attention_state=self._item_or_tuple(m.initial_state(batch_size, dtype) for m in mechanisms),
                alignment_history=self._item_or_tuple(
                    tensor_array_ops.TensorArray(
                        dtype, size=0, dynamic_size=True, element_shape=alignment.shape
                    )
                    if self._alignment_history
                    else ()
                    for alignment in initial
                ),
            )

    def call(self, inputs: Any, state: Any) -> Any:  # type: ignore[override]
        """One step: runs the cell, computes the attention."""
        if not isinstance(state, AttentionWrapperState):
            raise TypeError(
                "Expected state to be instance of AttentionWrapperState. Received type %s instead."
                % type(state)
            )
        cell_inputs = self._cell_input_fn(inputs, state.attention)
        cell_output, next_cell_state = self._cell(cell_inputs, state.cell_state)
        cell_batch_size = cell_output.shape[0].value or array_ops.shape(cell_output)[0]
        message = (
            "When applying AttentionWrapper %s: Non-matching batch sizes between the memory (encoder "
            "output) and the query "
            "(decoder output).  Are you using the BeamSearchDecoder?  You may need to tile your memory "
            "input via the "
            "tf.contrib.seq2seq.tile_batch function with argument multiple=beam_width." % self.name
        )
        with ops.control_dependencies(self._batch_size_checks(cell_batch_size, message)):
            cell_output = array_ops.identity(cell_output, name="checked_cell_output")
        if self._is_multi:
            previous, histories = state.attention_state, state.alignment_history
        else:
            previous, histories = [state.attention_state], [state.alignment_history]
        attentions, alignments, states, new_histories = [], [], [], []
        for i, mechanism in enumerate(self._attention_mechanisms):
            layer = self._attention_layers[i] if self._attention_layers else None
            read, alignment, next_state = self._attention_fn(mechanism, cell_output, previous[i], layer)
            attentions.append(read)
            alignments.append(alignment)
            states.append(next_state)
            new_histories.append(histories[i].write(state.time, alignment) if self._alignment_history else ())
        joined = array_ops.concat(attentions, 1)
        next_wrapper_state = AttentionWrapperState(
            time=state.time + 1,
            cell_state=next_cell_state,
            attention=joined,
            attention_state=self._item_or_tuple(states),
            alignments=self._item_or_tuple(alignments),
            alignment_history=self._item_or_tuple(new_histories),
        )
        return (joined if self._output_attention else cell_output), next_wrapper_state
