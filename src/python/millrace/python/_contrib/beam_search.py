# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""BeamSearchDecoder of tf.contrib.seq2seq: the best sequences of a model."""
from __future__ import annotations

import collections
from typing import Any

import numpy as np

from millrace.python._contrib import seq2seq_decoder, seq2seq_helpers
from millrace.python._contrib.beam_trees import gather_tree, gather_tree_from_array, tile_batch
from millrace.python.framework import dtypes, ops, tensor_shape, tensor_util
from millrace.python.layers import base as layers_base
from millrace.python.ops import array_ops, control_flow_ops, math_ops, nn_ops, rnn_cell_impl, tensor_array_ops
from millrace.python.util import nest

__all__ = ["BeamSearchDecoder", "gather_tree", "gather_tree_from_array", "tile_batch"]


class BeamSearchDecoderState(
    collections.namedtuple(
        "BeamSearchDecoderState",
        ("cell_state", "log_probs", "finished", "lengths", "accumulated_attention_probs"),
    )
):
    """The state of the cell, and for each beam its log probability, whether it has ended, and its length."""


class BeamSearchDecoderOutput(
    collections.namedtuple("BeamSearchDecoderOutput", ("scores", "predicted_ids", "parent_ids"))
):
    """One step of each beam: its score, its id, and the beam of the previous step that it continues."""


class FinalBeamSearchDecoderOutput(
    collections.namedtuple("FinalBeamDecoderOutput", ["predicted_ids", "beam_search_decoder_output"])
):
    """The sequences [batch, time, beam], the best first, and the outputs of the steps."""


class BeamSearchDecoder(seq2seq_decoder.Decoder):
    """Keeps the best sequences of ids at each step.

    Args:
      cell: an RNNCell; states are [batch * beam_width, ...] (see `tile_batch`).
      embedding: a function of ids, or the `params` of embedding_lookup.
      start_tokens: int32 [batch].
      end_token: int32 [].
      initial_state: of the cell.
      beam_width: the number of sequences kept.
      output_layer: a layer on outputs that makes logits, or None.
      length_penalty_weight: scores are divided by ((5 + length) / 6) to this power.
      coverage_penalty_weight: the weight of a penalty for memory entries with little attention.
      reorder_tensor_arrays: whether TensorArrays of the state (alignments) are reordered by beams at the end.

    Raises:
      TypeError: if the cell or the layer has another type.
      ValueError: if the tokens have other ranks.
    """

    def __init__(
        self, cell: Any, embedding: Any, start_tokens: Any, end_token: Any, initial_state: Any,
        beam_width: int,
        output_layer: Any = None, length_penalty_weight: float = 0.0, coverage_penalty_weight: float = 0.0,
        reorder_tensor_arrays: bool = True,
    ) -> None:  # fmt: skip
        rnn_cell_impl.assert_like_rnncell("cell", cell)
        if output_layer is not None and not isinstance(output_layer, layers_base.Layer):
            raise TypeError("output_layer must be a Layer, received: %s" % type(output_layer))
        self._cell = cell
        self._output_layer = output_layer
        self._reorder_tensor_arrays = reorder_tensor_arrays
        self._embedding_fn = seq2seq_helpers._embedding_function(embedding)
        self._start_tokens = ops.convert_to_tensor(start_tokens, dtype=dtypes.int32, name="start_tokens")
        if self._start_tokens.get_shape().ndims != 1:
            raise ValueError("start_tokens must be a vector")
        self._end_token = ops.convert_to_tensor(end_token, dtype=dtypes.int32, name="end_token")
        if self._end_token.get_shape().ndims != 0:
            raise ValueError("end_token must be a scalar")
        self._batch_size = array_ops.size(self._start_tokens)
        self._beam_width = beam_width
        self._length_penalty_weight = length_penalty_weight
        self._coverage_penalty_weight = coverage_penalty_weight
        self._initial_cell_state = nest.map_structure(
            self._maybe_split_batch_beams, initial_state, self._cell.state_size
        )
        tiled = array_ops.tile(array_ops.expand_dims(self._start_tokens, 1), [1, self._beam_width])
        self._start_inputs = self._embedding_fn(tiled)
        self._finished = array_ops.one_hot(
            array_ops.zeros([self._batch_size], dtype=dtypes.int32),
            depth=self._beam_width, on_value=False, off_value=True, dtype=dtypes.bool,
        )  # fmt: skip

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    def _rnn_output_size(self) -> Any:
        size = self._cell.output_size
        if self._output_layer is None:
            return size
        with_batch = nest.map_structure(lambda s: tensor_shape.TensorShape([None]).concatenate(s), size)
        shape = self._output_layer.compute_output_shape(with_batch)
        return nest.map_structure(lambda s: s[1:], shape)

    @property
    def tracks_own_finished(self) -> bool:
        return True

    @property
    def output_size(self) -> Any:
        size = tensor_shape.TensorShape([self._beam_width])
        return BeamSearchDecoderOutput(scores=size, predicted_ids=size, parent_ids=size)

    @property
    def output_dtype(self) -> Any:
        dtype = nest.flatten(self._initial_cell_state)[0].dtype
        return BeamSearchDecoderOutput(
            scores=nest.map_structure(lambda _: dtype, self._rnn_output_size()),
            predicted_ids=dtypes.int32,
            parent_ids=dtypes.int32,
        )

    def initialize(self, name: Any = None) -> Any:
        dtype = nest.flatten(self._initial_cell_state)[0].dtype
        # All beams are equal at first, so only the first one has probability above 0.
        log_probs = array_ops.one_hot(
            array_ops.zeros([self._batch_size], dtype=dtypes.int32), depth=self._beam_width,
            on_value=ops.convert_to_tensor(0.0, dtype=dtype),
            off_value=ops.convert_to_tensor(-np.inf, dtype=dtype),
            dtype=dtype,
        )  # fmt: skip
        accumulated: Any = ()
        if self._coverage_penalty_weight != 0.0:
            accumulated = array_ops.zeros_like(self._alignments(self._initial_cell_state))
        state = BeamSearchDecoderState(
            cell_state=self._initial_cell_state,
            log_probs=log_probs,
            finished=self._finished,
            lengths=array_ops.zeros([self._batch_size, self._beam_width], dtype=dtypes.int64),
            accumulated_attention_probs=accumulated,
        )
        return self._finished, self._start_inputs, state

    @staticmethod
    def _alignments(cell_state: Any) -> Any:
        """The alignments of an AttentionWrapper in a state; ValueError without one."""
        parts = [cell_state] + (list(cell_state) if isinstance(cell_state, tuple) else [])
        for part in parts:
            if hasattr(part, "alignments"):
                if isinstance(part.alignments, tuple):
                    raise ValueError("Coverage penalty cannot be used with several attention mechanisms")
                return part.alignments
        raise ValueError("The cell has no attention: coverage_penalty_weight must be 0")

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        longest = math_ops.cast(math_ops.reduce_max(final_state.lengths, axis=1), dtypes.int32)
        predicted_ids = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end_token)
        if self._reorder_tensor_arrays:
            final_state = final_state._replace(
                cell_state=nest.map_structure(
                    lambda t: self._maybe_sort_array_beams(t, outputs.parent_ids, final_state.lengths),
                    final_state.cell_state,
                )
            )
        return FinalBeamSearchDecoderOutput(predicted_ids, outputs), final_state

    def _maybe_sort_array_beams(self, t: Any, parent_ids: Any, sequence_length: Any) -> Any:
        if not isinstance(t, tensor_array_ops.TensorArray):
            return t
        values = t.stack()
        shape = array_ops.shape(values)
        with_beams = array_ops.concat([shape[:1], [-1, self._beam_width], shape[2:]], 0)
        split = array_ops.reshape(values, with_beams)
        known = values.shape.ndims
        if known is not None:
            split.set_shape([None, None, self._beam_width] + values.shape.as_list()[2:])
        ordered = gather_tree_from_array(split, parent_ids, sequence_length)
        return array_ops.reshape(ordered, shape)

    def _merge_batch_beams(self, t: Any, s: Any) -> Any:
        """[batch, beam, ...] to [batch * beam, ...]."""
        s = _as_shape(s)
        shape = array_ops.shape(t)
        merged = array_ops.reshape(
            t, array_ops.concat(([self._batch_size * self._beam_width], shape[2:]), axis=0)
        )
        size = tensor_util.constant_value(self._batch_size)
        merged.set_shape(
            tensor_shape.TensorShape([size * self._beam_width if size is not None else None]).concatenate(s)
        )
        return merged

    def _split_batch_beams(self, t: Any, s: Any) -> Any:
        """[batch * beam, ...] to [batch, beam, ...]."""
        s = _as_shape(s)
        shape = array_ops.shape(t)
        split = array_ops.reshape(
            t, array_ops.concat(([self._batch_size, self._beam_width], shape[1:]), axis=0)
        )
        size = tensor_util.constant_value(self._batch_size)
        split.set_shape(tensor_shape.TensorShape([size, self._beam_width]).concatenate(s))
        return split

    def _maybe_split_batch_beams(self, t: Any, s: Any) -> Any:
        if isinstance(t, tensor_array_ops.TensorArray):
            return t
        return self._split_batch_beams(t, s) if _rank(t) >= 1 else t

    def _maybe_merge_batch_beams(self, t: Any, s: Any) -> Any:
        if isinstance(t, tensor_array_ops.TensorArray):
            return t
        return self._merge_batch_beams(t, s) if _rank(t) >= 2 else t

    def step(self, time: Any, inputs: Any, state: Any, name: Any = None) -> Any:
        with ops.name_scope(name, "BeamSearchDecoderStep", (time, inputs, state)):
            inputs = nest.map_structure(lambda inp: self._merge_batch_beams(inp, inp.shape[2:]), inputs)
            cell_state = nest.map_structure(
                self._maybe_merge_batch_beams, state.cell_state, self._cell.state_size
            )
            cell_outputs, next_cell_state = self._cell(inputs, cell_state)
            cell_outputs = nest.map_structure(
                lambda out: self._split_batch_beams(out, out.shape[1:]), cell_outputs
            )
            next_cell_state = nest.map_structure(
                self._maybe_split_batch_beams, next_cell_state, self._cell.state_size
            )
            if self._output_layer is not None:
                cell_outputs = self._output_layer(cell_outputs)
            beam_output, beam_state = self._search(cell_outputs, next_cell_state, state)
            sample_ids = beam_output.predicted_ids
            next_inputs = control_flow_ops.cond(
                math_ops.reduce_all(beam_state.finished),
                lambda: self._start_inputs,
                lambda: self._embedding_fn(sample_ids),
            )
        return beam_output, beam_state, next_inputs, beam_state.finished

    def _search(self, logits: Any, next_cell_state: Any, state: Any) -> Any:
        """The best continuations of all beams."""
        lengths, finished = state.lengths, state.finished
        not_finished = math_ops.logical_not(finished)
        vocab_size = logits.shape.dims[-1].value or array_ops.shape(logits)[-1]
        step_log_probs = self._mask_probs(nn_ops.log_softmax(logits), finished, vocab_size)
        total_probs = array_ops.expand_dims(state.log_probs, 2) + step_log_probs
        ends = array_ops.one_hot(
            indices=array_ops.fill([self._batch_size, self._beam_width], self._end_token), depth=vocab_size,
            on_value=np.int64(0), off_value=np.int64(1), dtype=dtypes.int64,
        )  # fmt: skip
        added = ends * array_ops.expand_dims(math_ops.cast(not_finished, dtypes.int64), 2)
        new_lengths = added + array_ops.expand_dims(lengths, 2)
        accumulated: Any = ()
        if self._coverage_penalty_weight != 0.0:
            read = array_ops.expand_dims(math_ops.cast(not_finished, logits.dtype), 2)
            accumulated = state.accumulated_attention_probs + read * self._alignments(next_cell_state)
        scores = self._scores(total_probs, new_lengths, accumulated, vocab_size)

        width = self._beam_width
        flat = array_ops.reshape(scores, [self._batch_size, -1])
        next_scores, word_indices = nn_ops.top_k(flat, k=width)
        size = tensor_util.constant_value(self._batch_size)
        next_scores.set_shape([size, width])
        word_indices.set_shape([size, width])
        next_log_probs = self._gather_flat(total_probs, word_indices)
        word_ids = math_ops.floormod(word_indices, vocab_size)
        beam_ids = math_ops.cast(word_indices / vocab_size, dtypes.int32)
        ended_before = self._gather(finished, beam_ids)
        next_finished = math_ops.logical_or(ended_before, math_ops.equal(word_ids, self._end_token))
        grown = math_ops.cast(math_ops.logical_not(ended_before), dtypes.int64)
        next_lengths = self._gather(lengths, beam_ids) + grown
        chosen = nest.map_structure(lambda s: self._maybe_gather(s, beam_ids), next_cell_state)
        if self._coverage_penalty_weight != 0.0:
            accumulated = self._gather(accumulated, beam_ids)
        next_state = BeamSearchDecoderState(
            cell_state=chosen,
            log_probs=next_log_probs,
            lengths=next_lengths,
            finished=next_finished,
            accumulated_attention_probs=accumulated,
        )
        return BeamSearchDecoderOutput(next_scores, word_ids, beam_ids), next_state

    def _mask_probs(self, probs: Any, finished: Any, vocab_size: Any) -> Any:
        """Finished beams are only continued with the end token."""
        row = array_ops.one_hot(
            self._end_token, vocab_size, dtype=probs.dtype,
            on_value=ops.convert_to_tensor(0.0, dtype=probs.dtype),
            off_value=probs.dtype.min,
        )  # fmt: skip
        rows = array_ops.tile(
            array_ops.reshape(row, [1, 1, -1]), array_ops.concat([array_ops.shape(finished), [1]], 0)
        )
        mask = array_ops.tile(array_ops.expand_dims(finished, 2), [1, 1, vocab_size])
        return array_ops.where(mask, rows, probs)

    def _scores(self, log_probs: Any, lengths: Any, accumulated: Any, vocab_size: Any) -> Any:
        scores = log_probs
        weight = ops.convert_to_tensor(self._length_penalty_weight, name="length_penalty_weight")
        weight.shape.assert_has_rank(0)
        if tensor_util.constant_value(weight) != 0:
            five, one = math_ops.cast(5, dtypes.float32), math_ops.cast(1, dtypes.float32)
            penalty = math_ops.pow((five + math_ops.cast(lengths, dtypes.float32)) / (five + one), weight)
            scores = log_probs / math_ops.cast(penalty, log_probs.dtype)
        if self._coverage_penalty_weight == 0.0:
            return scores
        little = math_ops.log(math_ops.minimum(accumulated, 1.0))
        covered = math_ops.reduce_sum(little, 2)
        coverage = array_ops.tile(array_ops.expand_dims(covered, 2), [1, 1, vocab_size])
        return scores + coverage * self._coverage_penalty_weight

    def _gather_flat(self, values: Any, indices: Any) -> Any:
        flat = array_ops.reshape(values, [self._batch_size, -1])
        return self._gather(flat, indices)

    def _gather(self, values: Any, indices: Any) -> Any:
        """Gathers the beams `indices` of each batch entry."""
        result = array_ops.batch_gather(values, indices)
        result.set_shape(indices.shape.concatenate(values.shape[2:]))
        return result

    def _maybe_gather(self, t: Any, beam_ids: Any) -> Any:
        if isinstance(t, tensor_array_ops.TensorArray) or _rank(t) < 2:
            return t
        return self._gather(t, beam_ids)


def _as_shape(size: Any) -> Any:
    """The shape of a part of a state; a size that is a tensor is unknown."""
    if isinstance(size, ops.Tensor):
        known = tensor_util.constant_value(size)
        return tensor_shape.TensorShape([None if known is None else int(known)])
    return tensor_shape.as_shape(size)


def _rank(t: Any) -> int:
    if t.shape.ndims is None:
        raise ValueError("Expected tensor (%s) to have known rank, but ndims == None." % t)
    return int(t.shape.ndims)
