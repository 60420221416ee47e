# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.contrib.legacy_seq2seq against NumPy."""
from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

import millrace as tf

seq2seq = tf.contrib.legacy_seq2seq


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed + sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def _fill(sess: Any) -> Dict[str, np.ndarray]:
    """Gives each variable other random values; returns them by name."""
    sess.run(tf.global_variables_initializer())
    values = {}
    for n, v in enumerate(tf.trainable_variables()):
        values[v.op.name] = _random(*v.shape.as_list(), seed=n)
        v.load(values[v.op.name], sess)
    return values


def _linear(inputs: List[np.ndarray], v: Dict[str, np.ndarray], scope: str) -> np.ndarray:
    return np.concatenate(inputs, 1) @ v[scope + "/kernel"] + v[scope + "/bias"]


def _step(x: np.ndarray, h: np.ndarray, v: Dict[str, np.ndarray], scope: str) -> np.ndarray:
    return np.tanh(_linear([x, h], v, scope))


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _tensors(values: Any) -> List[Any]:
    return [tf.constant(v) for v in values]


def test_basic_and_tied() -> None:
    encoder, decoder = _random(3, 2, 3), _random(2, 2, 3, seed=1)
    for function, scopes in (
        (seq2seq.basic_rnn_seq2seq, ["basic_rnn_seq2seq/rnn", "basic_rnn_seq2seq/rnn_decoder"]),
        (seq2seq.tied_rnn_seq2seq, ["combined_tied_rnn_seq2seq/tied_rnn_seq2seq"] * 2),
    ):
        with tf.Graph().as_default(), tf.Session() as sess:
            cell = tf.nn.rnn_cell.BasicRNNCell(4)
            outputs, state = function(_tensors(encoder), _tensors(decoder), cell)
            v = _fill(sess)
            assert sorted(v) == sorted(
                {s + "/basic_rnn_cell/" + n for s in scopes for n in ("kernel", "bias")}
            )
            h = np.zeros([2, 4], np.float32)
            for x in encoder:
                h = _step(x, h, v, scopes[0] + "/basic_rnn_cell")
            for x, got in zip(decoder, sess.run(outputs)):
                h = _step(x, h, v, scopes[1] + "/basic_rnn_cell")
                np.testing.assert_allclose(got, h, atol=1e-5)
            np.testing.assert_allclose(sess.run(state), h, atol=1e-5)


def test_rnn_decoder_loop_function() -> None:
    x, h = _random(3, 2, 4), _random(2, 4)
    with tf.Graph().as_default(), tf.Session() as sess:
        steps = []
        outputs, _ = seq2seq.rnn_decoder(
            _tensors(x),
            tf.constant(h),
            tf.nn.rnn_cell.BasicRNNCell(4),
            lambda prev, i: steps.append(i) or 2 * prev,
        )
        assert steps == [1, 2]
        v = _fill(sess)
        step_input = x[0]
        for got in sess.run(outputs):
            h = _step(step_input, h, v, "rnn_decoder/basic_rnn_cell")
            step_input = 2 * h
            np.testing.assert_allclose(got, h, atol=1e-5)


@pytest.mark.parametrize("projects", [False, True])
def test_embedding_rnn_decoder_feeds_previous(projects: bool) -> None:
    ids, h = np.array([[1, 0], [2, 2], [0, 1]]), _random(2, 4)
    weights, biases = (_random(4, 5), _random(5)) if projects else (np.eye(4), np.zeros(4))
    symbols = 5 if projects else 4
    for feeds in (False, True):
        with tf.Graph().as_default(), tf.Session() as sess:
            cell = tf.nn.rnn_cell.BasicRNNCell(4)
            outputs, _ = seq2seq.embedding_rnn_decoder(
                _tensors(ids),
                tf.constant(h),
                cell,
                symbols,
                3,
                (weights, biases) if projects else None,
                feeds,
            )
            v = _fill(sess)
            scope, state, step_ids = "embedding_rnn_decoder", h, ids[0]
            for i, got in enumerate(sess.run(outputs)):
                embedded = v[scope + "/embedding"][step_ids if feeds else ids[i]]
                state = _step(embedded, state, v, scope + "/rnn_decoder/basic_rnn_cell")
                step_ids = np.argmax(state @ weights + biases, 1)
                np.testing.assert_allclose(got, state, atol=1e-5)


def _attend(
    query: np.ndarray, states: np.ndarray, v: Dict[str, np.ndarray], scope: str, head: int
) -> np.ndarray:
    features = states @ v["%s/AttnW_%d" % (scope, head)][0, 0]
    y = _linear([query], v, "%s/Attention_%d" % (scope, head))
    scores = np.tanh(features + y[:, None]) @ v["%s/AttnV_%d" % (scope, head)]
    return np.einsum("bl,bls->bs", _softmax(scores), states)


@pytest.mark.parametrize("heads,attends_first", [(1, False), (2, True)])
def test_attention_decoder(heads: int, attends_first: bool) -> None:
    x, h, states = _random(3, 2, 3), _random(2, 4), _random(2, 5, 6)
    with tf.Graph().as_default(), tf.Session() as sess:
        cell, attention_states = tf.nn.rnn_cell.BasicRNNCell(4), tf.constant(states)
        outputs, state = seq2seq.attention_decoder(
            _tensors(x),
            tf.constant(h),
            attention_states,
            cell,
            7,
            heads,
            initial_state_attention=attends_first,
        )
        v = _fill(sess)
        scope = "attention_decoder"
        attended = [np.zeros([2, 6], np.float32)] * heads
        if attends_first:
            attended = [_attend(h, states, v, scope, n) for n in range(heads)]
        for step_input, got in zip(x, sess.run(outputs)):
            h = _step(_linear([step_input] + attended, v, scope), h, v, scope + "/basic_rnn_cell")
            attended = [_attend(h, states, v, scope, n) for n in range(heads)]
            want = _linear([h] + attended, v, scope + "/AttnOutputProjection")
            np.testing.assert_allclose(got, want, atol=1e-5)
        np.testing.assert_allclose(sess.run(state), h, atol=1e-5)
        last = outputs[-1]
        error = tf.test.compute_gradient_error(attention_states, states.shape, last, [2, 7], states, 1e-2)
        assert error < 5e-3


def test_embedding_attention_seq2seq_chooses_in_each_step() -> None:
    encoder, decoder = np.array([[1, 0], [2, 2]]), np.array([[0, 1], [2, 0], [1, 1]])
    with tf.Graph().as_default(), tf.Session() as sess:
        feeds = tf.placeholder(tf.bool, [])
        with tf.variable_scope("m") as scope:
            build = lambda feed_previous: seq2seq.embedding_attention_seq2seq(  # noqa: E731
                _tensors(encoder),
                _tensors(decoder),
                tf.nn.rnn_cell.GRUCell(4),
                3,
                5,
                6,
                feed_previous=feed_previous,
            )
            chosen = build(feeds)
            scope.reuse_variables()
            fixed = {value: build(value) for value in (False, True)}
        v = _fill(sess)
        prefix = "m/embedding_attention_seq2seq/"
        for name, shape in (
            ("rnn/embedding_wrapper/embedding", (3, 6)),
            ("rnn/embedding_wrapper/gru_cell/gates/kernel", (10, 8)),
            ("embedding_attention_decoder/embedding", (5, 6)),
            ("embedding_attention_decoder/attention_decoder/AttnW_0", (1, 1, 4, 4)),
            ("embedding_attention_decoder/attention_decoder/output_projection_wrapper/kernel", (4, 5)),
            ("embedding_attention_decoder/attention_decoder/AttnOutputProjection/kernel", (9, 5)),
        ):
            assert v[prefix + name].shape == shape
        results = []
        for value, want in fixed.items():
            for a, b in zip(*sess.run([chosen[0] + [chosen[1]], want[0] + [want[1]]], {feeds: value})):
                np.testing.assert_allclose(a, b, atol=1e-6)
            results.append(sess.run(want[0][-1]))
        assert np.abs(results[0] - results[1]).max() > 1e-3


def test_embedding_rnn_seq2seq() -> None:
    encoder, decoder = np.array([[1, 0], [2, 2]]), np.array([[0, 1], [2, 0], [1, 1]])
    with tf.Graph().as_default(), tf.Session() as sess:
        feeds = tf.placeholder(tf.bool, [])
        outputs, state = seq2seq.embedding_rnn_seq2seq(
            _tensors(encoder), _tensors(decoder), tf.nn.rnn_cell.BasicRNNCell(4), 3, 5, 6, feed_previous=feeds
        )
        v = _fill(sess)
        scope = "embedding_rnn_seq2seq/"
        wrapper, decoder_scope = scope + "rnn/embedding_wrapper", scope + "embedding_rnn_decoder"
        first = np.zeros([2, 4], np.float32)
        for ids in encoder:
            first = _step(v[wrapper + "/embedding"][ids], first, v, wrapper + "/basic_rnn_cell")
        projection = decoder_scope + "/rnn_decoder/output_projection_wrapper"
        for value in (False, True):
            h, ids = first, decoder[0]
            got_outputs, got_state = sess.run([outputs, state], {feeds: value})
            for i, got in enumerate(got_outputs):
                embedded = v[decoder_scope + "/embedding"][ids if value else decoder[i]]
                h = _step(embedded, h, v, projection + "/basic_rnn_cell")
                want = _linear([h], v, projection)
                ids = np.argmax(want, 1)
                np.testing.assert_allclose(got, want, atol=1e-5)
            np.testing.assert_allclose(got_state, h, atol=1e-5)


def test_embedding_tied_rnn_seq2seq() -> None:
    encoder, decoder = np.array([[1, 0], [2, 2]]), np.array([[0, 1], [2, 0], [1, 1]])
    with tf.Graph().as_default(), tf.Session() as sess:
        feeds = tf.placeholder(tf.bool, [])
        arguments: List[Any] = [_tensors(encoder), _tensors(decoder), tf.nn.rnn_cell.BasicRNNCell(4), 5, 6]
        chosen = seq2seq.embedding_tied_rnn_seq2seq(*arguments, feed_previous=feeds)
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            fixed = seq2seq.embedding_tied_rnn_seq2seq(*arguments, feed_previous=True)
        v = _fill(sess)
        embedding = v["embedding_tied_rnn_seq2seq/embedding"]
        scope = "embedding_tied_rnn_seq2seq/combined_tied_rnn_seq2seq/tied_rnn_seq2seq"
        scope += "/output_projection_wrapper"
        assert len(v) == 5
        first = np.zeros([2, 4], np.float32)
        for ids in encoder:
            first = _step(embedding[ids], first, v, scope + "/basic_rnn_cell")
        for value, result in ((False, chosen), (True, chosen), (True, fixed)):
            h, ids = first, decoder[0]
            got_outputs, got_state = sess.run(result, {feeds: value})
            assert len(got_outputs) == 3
            for i, got in enumerate(got_outputs):
                h = _step(embedding[ids if value else decoder[i]], h, v, scope + "/basic_rnn_cell")
                want = _linear([h], v, scope)
                ids = np.argmax(want, 1)
                np.testing.assert_allclose(got, want, atol=1e-5)
            np.testing.assert_allclose(got_state, h, atol=1e-5)


def test_one2many_rnn_seq2seq() -> None:
    encoder = np.array([[1, 0], [2, 2]])
    decoders = {"a": np.array([[0, 1], [2, 0]]), "b": np.array([[3, 1], [2, 0], [1, 1]])}
    with tf.Graph().as_default(), tf.Session() as sess:
        feeds = tf.placeholder(tf.bool, [])
        outputs, states = seq2seq.one2many_rnn_seq2seq(
            _tensors(encoder),
            {name: _tensors(ids) for name, ids in decoders.items()},
            tf.nn.rnn_cell.BasicRNNCell(4),
            {name: tf.nn.rnn_cell.BasicRNNCell(4) for name in decoders},
            3,
            {"a": 5, "b": 7},
            6,
            feed_previous=feeds,
        )
        v = _fill(sess)
        scope = "one2many_rnn_seq2seq/"
        wrapper = scope + "rnn/embedding_wrapper"
        first = np.zeros([2, 4], np.float32)
        for ids in encoder:
            first = _step(v[wrapper + "/embedding"][ids], first, v, wrapper + "/basic_rnn_cell")
        for name, decoder in decoders.items():
            within = scope + "one2many_decoder_%s/embedding_rnn_decoder" % name
            projection = within + "/rnn_decoder/output_projection_wrapper"
            for value in (False, True):
                h, ids = first, decoder[0]
                got_outputs, got_state = sess.run([outputs[name], states[name]], {feeds: value})
                assert len(got_outputs) == len(decoder)
                for i, got in enumerate(got_outputs):
                    embedded = v[within + "/embedding"][ids if value else decoder[i]]
                    h = _step(embedded, h, v, projection + "/basic_rnn_cell")
                    want = _linear([h], v, projection)
                    ids = np.argmax(want, 1)
                    np.testing.assert_allclose(got, want, atol=1e-5)
                np.testing.assert_allclose(got_state, h, atol=1e-5)


def test_copies_of_cells_have_variables_of_their_own() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicLSTMCell(4) for _ in range(2)])
        outputs, _ = seq2seq.basic_rnn_seq2seq(_tensors(_random(2, 2, 3)), _tensors(_random(2, 2, 3)), cell)
        assert len(tf.trainable_variables()) == 8
        _fill(sess)
        gradients = sess.run(tf.gradients(outputs[-1], tf.trainable_variables()))
        assert all(np.any(g) for g in gradients)


def test_errors() -> None:
    cell = tf.nn.rnn_cell.BasicRNNCell(4)
    with tf.Graph().as_default():
        x, h, states = [tf.zeros([2, 3])], tf.zeros([2, 4]), tf.zeros([2, 5, 6])
        with pytest.raises(ValueError, match="Must provide at least 1 input to attention decoder"):
            seq2seq.attention_decoder([], h, states, cell)
        with pytest.raises(ValueError, match="With less than 1 heads, use a non-attention decoder"):
            seq2seq.attention_decoder(x, h, states, cell, num_heads=0)
        with pytest.raises(ValueError, match=r"Shape\[2\] of attention_states must be known"):
            seq2seq.attention_decoder(x, h, tf.placeholder(tf.float32, [2, 5, None]), cell)
        with pytest.raises(ValueError, match="Could not infer input size from input"):
            seq2seq.attention_decoder([tf.placeholder(tf.float32, [2, None])], h, states, cell)
        with pytest.raises(ValueError, match="Parameter output_size must be > 0: 0"):
            tf.contrib.rnn.OutputProjectionWrapper(cell, 0)
        with pytest.raises(ValueError, match="Both embedding_classes and embedding_size must be > 0: 3, 0"):
            tf.contrib.rnn.EmbeddingWrapper(cell, 3, 0)
        with pytest.raises(ValueError, match="incompatible|compatible"):
            projection = (tf.zeros([4, 5]), tf.zeros([6]))
            seq2seq.embedding_rnn_decoder([tf.constant([0, 1])], h, cell, 5, 3, projection)
