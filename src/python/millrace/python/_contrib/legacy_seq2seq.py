# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The models of tf.contrib.legacy_seq2seq: sequences are lists with a tensor [batch, …] for each step."""
from __future__ import annotations

import copy
from typing import Any, Callable, Dict, List, Tuple

from millrace.python.framework import dtypes, ops
from millrace.python.ops import array_ops, control_flow_ops, embedding_ops, math_ops, nn_ops, rnn
from millrace.python.ops import variable_scope as vs
from millrace.python._contrib import rnn_wrappers
from millrace.python.util import nest


def _extract_argmax_and_embed(
    embedding: Any, output_projection: Any, update_embedding: bool
) -> Callable[..., Any]:
    """A loop function: the embedding of the most likely symbol of the previous output."""

    def loop_function(prev: Any, _: int) -> Any:
        if output_projection is not None:
            prev = nn_ops.xw_plus_b(prev, output_projection[0], output_projection[1])
        embedded = embedding_ops.embedding_lookup(embedding, math_ops.argmax(prev, 1))
        return embedded if update_embedding else array_ops.stop_gradient(embedded)

    return loop_function


def _check_projection(output_projection: Any, num_symbols: int, dtype: Any) -> None:
    for value, shape in zip(output_projection or (), ([None, num_symbols], [num_symbols])):
        ops.convert_to_tensor(value, dtype=dtype).get_shape().assert_is_compatible_with(shape)


def _next_input(loop_function: Any, prev: Any, step: int, given: Any) -> Any:
    """The input of a step: from the previous output if there is one and a loop function, else `given`."""
    if loop_function is None or prev is None:
        return given
    with vs.variable_scope("loop_function", reuse=True):
        return loop_function(prev, step)


def _decode(decode: Any, feed_previous: Any, steps: int, state_like: Any) -> Tuple[List[Any], Any]:
    """Calls `decode` with a bool; for a tensor with both values, in branches that share variables."""
    if isinstance(feed_previous, bool):
        return decode(feed_previous)

    def branch(feeds: bool) -> List[Any]:
        with vs.variable_scope(vs.get_variable_scope(), reuse=None if feeds else True):
            outputs, state = decode(feeds)
            return outputs + nest.flatten(state)

    flat = control_flow_ops.cond(feed_previous, lambda: branch(True), lambda: branch(False))
    return flat[:steps], nest.pack_sequence_as(state_like, flat[steps:])


def rnn_decoder(
    decoder_inputs: Any, initial_state: Any, cell: Any, loop_function: Any = None, scope: Any = None
) -> Tuple[List[Any], Any]:
    """Runs a cell over inputs.

    Args:
      decoder_inputs: list of [batch, depth].
      initial_state: of the cell.
      cell: an RNNCell.
      loop_function: takes the previous output and the number of the step and returns the input, from the
        second step on; None: the inputs are those given.
      scope: variable scope; "rnn_decoder" by default.

    Returns:
      The list of outputs and the final state.
    """
    with vs.variable_scope(scope or "rnn_decoder"):
        state, outputs = initial_state, []  # type: Any, List[Any]
        for i, given in enumerate(decoder_inputs):
            step_input = _next_input(loop_function, outputs[-1] if outputs else None, i, given)
            if i > 0:
                vs.get_variable_scope().reuse_variables()
            output, state = cell(step_input, state)
            outputs.append(output)
    return outputs, state


def basic_rnn_seq2seq(
    encoder_inputs: Any, decoder_inputs: Any, cell: Any, dtype: Any = dtypes.float32, scope: Any = None
) -> Tuple[List[Any], Any]:
    """A decoder that starts with the final state of an encoder, which has a copy of the cell.

    Args:
      encoder_inputs, decoder_inputs: lists of [batch, depth].
      cell: an RNNCell; the encoder has a copy.
      dtype: of the encoder's initial state.
      scope: variable scope; "basic_rnn_seq2seq" by default.

    Returns:
      The list of the decoder's outputs and its final state.
    """
    with vs.variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = rnn.static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(
    encoder_inputs: Any,
    decoder_inputs: Any,
    cell: Any,
    loop_function: Any = None,
    dtype: Any = dtypes.float32,
    scope: Any = None,
) -> Tuple[List[Any], Any]:
    """As `basic_rnn_seq2seq` with the same variables in both, and a loop function (`rnn_decoder`)."""
    with vs.variable_scope("combined_tied_rnn_seq2seq"):
        scope = scope or "tied_rnn_seq2seq"
        _, state = rnn.static_rnn(cell, encoder_inputs, dtype=dtype, scope=scope)
        vs.get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function=loop_function, scope=scope)


def embedding_rnn_decoder(
    decoder_inputs: Any,
    initial_state: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    scope: Any = None,
) -> Tuple[List[Any], Any]:
    """Runs a cell over embedded symbols.

    Args:
      decoder_inputs: list of integer [batch].
      initial_state: of the cell.
      cell: an RNNCell.
      num_symbols, embedding_size: shape of the variable `embedding`.
      output_projection: (weights [output size, num_symbols], biases [num_symbols]) that make logits of the
        previous output when it is fed; None: outputs are logits.
      feed_previous: from the second step on the input is the most likely symbol of the previous output.
      update_embedding_for_previous: whether gradients flow to the embedding through symbols that are fed
        back.
      scope: variable scope; "embedding_rnn_decoder" by default.

    Returns:
      The list of outputs (not projected) and the final state.

    Raises:
      ValueError: the projection has another shape.
    """
    with vs.variable_scope(scope or "embedding_rnn_decoder") as scope:
        _check_projection(output_projection, num_symbols, scope.dtype)
        embedding = vs.get_variable("embedding", [num_symbols, embedding_size])
        loop_function = (
            _extract_argmax_and_embed(embedding, output_projection, update_embedding_for_previous)
            if feed_previous
            else None
        )
        embedded = [embedding_ops.embedding_lookup(embedding, i) for i in decoder_inputs]
        return rnn_decoder(embedded, initial_state, cell, loop_function=loop_function)


def embedding_rnn_seq2seq(
    encoder_inputs: Any,
    decoder_inputs: Any,
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> Tuple[List[Any], Any]:
    """An encoder and a decoder of embedded symbols: `embedding_attention_seq2seq` without attention."""
    with vs.variable_scope(scope or "embedding_rnn_seq2seq", dtype=dtype) as scope:
        encoder_cell = rnn_wrappers.EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        _, encoder_state = rnn.static_rnn(encoder_cell, encoder_inputs, dtype=scope.dtype)
        if output_projection is None:
            cell = rnn_wrappers.OutputProjectionWrapper(cell, num_decoder_symbols)

        def decode(feeds: bool) -> Tuple[List[Any], Any]:
            return embedding_rnn_decoder(
                decoder_inputs,
                encoder_state,
                cell,
                num_decoder_symbols,
                embedding_size,
                output_projection=output_projection,
                feed_previous=feeds,
            )

        return _decode(decode, feed_previous, len(decoder_inputs), encoder_state)


def embedding_tied_rnn_seq2seq(
    encoder_inputs: Any,
    decoder_inputs: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_decoder_symbols: Any = None,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> Tuple[List[Any], Any]:
    """`tied_rnn_seq2seq` over symbols of one embedding [num_symbols, embedding_size].

    Logits are of `num_decoder_symbols`, `num_symbols` if None. The other arguments, results and errors are
    those of `embedding_attention_seq2seq`.
    """
    with vs.variable_scope(scope or "embedding_tied_rnn_seq2seq", dtype=dtype) as scope:
        dtype = scope.dtype
        _check_projection(output_projection, num_symbols, dtype)
        embedding = vs.get_variable("embedding", [num_symbols, embedding_size], dtype=dtype)
        encoder = [embedding_ops.embedding_lookup(embedding, i) for i in encoder_inputs]
        decoder = [embedding_ops.embedding_lookup(embedding, i) for i in decoder_inputs]
        if output_projection is None:
            symbols = num_symbols if num_decoder_symbols is None else num_decoder_symbols
            cell = rnn_wrappers.OutputProjectionWrapper(cell, symbols)
        update = isinstance(feed_previous, bool)

        def decode(feeds: bool) -> Tuple[List[Any], Any]:
            function = _extract_argmax_and_embed(embedding, output_projection, update) if feeds else None
            return tied_rnn_seq2seq(encoder, decoder, cell, loop_function=function, dtype=dtype)

        return _decode(decode, feed_previous, len(decoder_inputs), cell.state_size)


def one2many_rnn_seq2seq(
    encoder_inputs: Any,
    decoder_inputs_dict: Any,
    enc_cell: Any,
    dec_cells_dict: Any,
    num_encoder_symbols: int,
    num_decoder_symbols_dict: Any,
    embedding_size: int,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> Tuple[Dict[Any, List[Any]], Dict[Any, Any]]:
    """One encoder of embedded symbols and a decoder for each name, which starts with the encoder's state.

    Args:
      encoder_inputs: list of integer [batch].
      decoder_inputs_dict, dec_cells_dict, num_decoder_symbols_dict: inputs, cells and numbers of symbols of
        the decoders by name.
      enc_cell: an RNNCell.
      num_encoder_symbols, embedding_size: shape of the encoder's embedding.
      feed_previous, dtype: as in `embedding_attention_seq2seq`.
      scope: variable scope; "one2many_rnn_seq2seq" by default.

    Returns:
      The lists of logits [batch, symbols] and the final states, both by name.
    """
    outputs: Dict[Any, List[Any]] = {}
    states: Dict[Any, Any] = {}
    with vs.variable_scope(scope or "one2many_rnn_seq2seq", dtype=dtype) as scope:
        encoder_cell = rnn_wrappers.EmbeddingWrapper(enc_cell, num_encoder_symbols, embedding_size)
        _, encoder_state = rnn.static_rnn(encoder_cell, encoder_inputs, dtype=scope.dtype)
        for name, inputs in decoder_inputs_dict.items():
            symbols = num_decoder_symbols_dict[name]
            cell = rnn_wrappers.OutputProjectionWrapper(dec_cells_dict[name], symbols)

            def decode(feeds: bool, inputs: Any = inputs, cell: Any = cell, symbols: int = symbols) -> Any:
                update = isinstance(feed_previous, bool)
                return embedding_rnn_decoder(
                    inputs, encoder_state, cell, symbols, embedding_size, None, feeds, update
                )

            with vs.variable_scope("one2many_decoder_" + str(name)):
                outputs[name], states[name] = _decode(decode, feed_previous, len(inputs), encoder_state)
    return outputs, states


def _attention(states: Any, num_heads: int, dtype: Any) -> Callable[[Any], List[Any]]:
    """Creates variables of attention over `states` [batch, length, size]; returns the function of a query."""
    length, size = states.get_shape().as_list()[1:]
    if length is None:
        length = array_ops.shape(states)[1]
    hidden = array_ops.reshape(states, [-1, length, 1, size])
    features, vectors = [], []
    for head in range(num_heads):
        kernel = vs.get_variable("AttnW_%d" % head, [1, 1, size, size], dtype=dtype)
        features.append(nn_ops.conv2d(hidden, kernel, [1, 1, 1, 1], "SAME"))
        vectors.append(vs.get_variable("AttnV_%d" % head, [size], dtype=dtype))

    def attend(query: Any) -> List[Any]:
        if nest.is_sequence(query):
            query = array_ops.concat(nest.flatten(query), 1)
        results = []
        for head in range(num_heads):
            with vs.variable_scope("Attention_%d" % head):
                y = array_ops.reshape(rnn_wrappers.linear(query, size), [-1, 1, 1, size])
                y = math_ops.cast(y, dtype)
                scores = math_ops.reduce_sum(vectors[head] * math_ops.tanh(features[head] + y), [2, 3])
                mask = math_ops.cast(nn_ops.softmax(math_ops.cast(scores, dtypes.float32)), dtype)
                mixed = math_ops.reduce_sum(array_ops.reshape(mask, [-1, length, 1, 1]) * hidden, [1, 2])
                results.append(array_ops.reshape(mixed, [-1, size]))
        return results

    return attend


def attention_decoder(
    decoder_inputs: Any,
    initial_state: Any,
    attention_states: Any,
    cell: Any,
    output_size: Any = None,
    num_heads: int = 1,
    loop_function: Any = None,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Tuple[List[Any], Any]:
    """Runs a cell over inputs concatenated with attention over states (Vinyals et al., 2014).

    Args:
      decoder_inputs: list of [batch, depth].
      initial_state: of the cell.
      attention_states: [batch, length, size].
      cell: an RNNCell.
      output_size: of the outputs; None: that of the cell.
      num_heads: the number of attention heads.
      loop_function: as in `rnn_decoder`.
      dtype: of the attention; None: that of the variable scope.
      scope: variable scope; "attention_decoder" by default.
      initial_state_attention: whether attention is computed from the initial state for the first step; else
        it is zero.

    Returns:
      The list of outputs [batch, output_size] and the final state.

    Raises:
      ValueError: there is no input or no head, or the size of the states or the depth of an input is unknown.
    """
    if not decoder_inputs:
        raise ValueError("Must provide at least 1 input to attention decoder.")
    if num_heads < 1:
        raise ValueError("With less than 1 heads, use a non-attention decoder.")
    size = attention_states.get_shape().with_rank(3).as_list()[2]
    if size is None:
        raise ValueError("Shape[2] of attention_states must be known: %s" % attention_states.get_shape())
    if output_size is None:
        output_size = cell.output_size
    with vs.variable_scope(scope or "attention_decoder", dtype=dtype) as scope:
        dtype = scope.dtype
        attend = _attention(attention_states, num_heads, dtype)
        state, outputs = initial_state, []  # type: Any, List[Any]
        if initial_state_attention:
            attended = attend(initial_state)
        else:
            batch = array_ops.shape(decoder_inputs[0])[0]
            attended = [
                array_ops.zeros(array_ops.stack([batch, size]), dtype=dtype) for _ in range(num_heads)
            ]
            for tensor in attended:
                tensor.set_shape([None, size])
        for i, given in enumerate(decoder_inputs):
            if i > 0:
                vs.get_variable_scope().reuse_variables()
            step_input = _next_input(loop_function, outputs[-1] if outputs else None, i, given)
            depth = step_input.get_shape().with_rank(2).as_list()[1]
            if depth is None:
                raise ValueError("Could not infer input size from input: %s" % step_input.name)
            joined = [math_ops.cast(tensor, dtype) for tensor in [step_input] + attended]
            cell_output, state = cell(rnn_wrappers.linear(joined, depth), state)
            with vs.variable_scope(vs.get_variable_scope(), reuse=True if initial_state_attention else None):
                attended = attend(state)
            with vs.variable_scope("AttnOutputProjection"):
                joined = [math_ops.cast(cell_output, dtype)] + attended
                outputs.append(rnn_wrappers.linear(joined, output_size))
    return outputs, state


def embedding_attention_decoder(
    decoder_inputs: Any,
    initial_state: Any,
    attention_states: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_size: Any = None,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Tuple[List[Any], Any]:
    """`attention_decoder` over embedded symbols, with arguments of it and of `embedding_rnn_decoder`."""
    if output_size is None:
        output_size = cell.output_size
    with vs.variable_scope(scope or "embedding_attention_decoder", dtype=dtype) as scope:
        _check_projection(output_projection, num_symbols, scope.dtype)
        embedding = vs.get_variable("embedding", [num_symbols, embedding_size])
        loop_function = (
            _extract_argmax_and_embed(embedding, output_projection, update_embedding_for_previous)
            if feed_previous
            else None
        )
        return attention_decoder(
            [embedding_ops.embedding_lookup(embedding, i) for i in decoder_inputs],
            initial_state,
            attention_states,
            cell,
            output_size=output_size,
            num_heads=num_heads,
            loop_function=loop_function,
            initial_state_attention=initial_state_attention,
        )


def embedding_attention_seq2seq(
    encoder_inputs: Any,
    decoder_inputs: Any,
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Tuple[List[Any], Any]:
    """An encoder of embedded symbols and a decoder that attends to the encoder's outputs.

    Args:
      encoder_inputs, decoder_inputs: lists of integer [batch].
      cell: an RNNCell; the encoder has a copy.
      num_encoder_symbols, num_decoder_symbols, embedding_size: shapes of the embeddings.
      num_heads, initial_state_attention: as in `attention_decoder`.
      output_projection: as in `embedding_rnn_decoder`; None: outputs are logits [batch, num_decoder_symbols].
      feed_previous: as in `embedding_rnn_decoder`; also a bool [] tensor, which chooses in each step of a
        session (the embedding then gets no gradient through symbols that are fed back).
      dtype: of the variables; None: that of the variable scope.
      scope: variable scope; "embedding_attention_seq2seq" by default.

    Returns:
      The list of the decoder's outputs and its final state.
    """
    with vs.variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as scope:
        encoder_cell = rnn_wrappers.EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        encoded, encoder_state = rnn.static_rnn(encoder_cell, encoder_inputs, dtype=scope.dtype)
        attention_states = array_ops.stack(encoded, axis=1)
        output_size = None
        if output_projection is None:
            cell = rnn_wrappers.OutputProjectionWrapper(cell, num_decoder_symbols)
            output_size = num_decoder_symbols

        def decode(feeds: bool) -> Tuple[List[Any], Any]:
            return embedding_attention_decoder(
                decoder_inputs,
                encoder_state,
                attention_states,
                cell,
                num_decoder_symbols,
                embedding_size,
                num_heads=num_heads,
                output_size=output_size,
                output_projection=output_projection,
                feed_previous=feeds,
                update_embedding_for_previous=isinstance(feed_previous, bool),
                initial_state_attention=initial_state_attention,
            )

        return _decode(decode, feed_previous, len(decoder_inputs), encoder_state)
