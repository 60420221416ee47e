# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.contrib.seq2seq, beside NumPy and exhaustive search."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import millrace as tf

seq2seq = tf.contrib.seq2seq


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        yield


def run(*fetches: Any) -> Any:
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        return sess.run(fetches)


def test_training_ends_with_each_sequence():
    x = np.random.RandomState(0).rand(2, 4, 3).astype(np.float32)
    lengths = [2, 4]
    cell = tf.nn.rnn_cell.BasicRNNCell(3)
    helper = seq2seq.TrainingHelper(tf.constant(x), lengths)
    state = cell.zero_state(2, tf.float32)
    decoder = seq2seq.BasicDecoder(cell, helper, state)
    outputs, last, found = seq2seq.dynamic_decode(decoder, impute_finished=True)
    kernel, bias = [v for v in tf.global_variables()]
    out, ids, last, found, w, b = run(outputs.rnn_output, outputs.sample_id, last, found, kernel, bias)
    h = np.zeros([2, 3], np.float32)
    for t in range(4):
        new = np.tanh(np.concatenate([x[:, t], h], 1) @ w + b)
        alive = (t < np.array(lengths))[:, None]
        np.testing.assert_allclose(out[:, t], np.where(alive, new, 0), rtol=1e-5)
        np.testing.assert_array_equal(ids[alive[:, 0], t], new[alive[:, 0]].argmax(1))
        h = np.where(alive, new, h)
    np.testing.assert_allclose(last, h, rtol=1e-5)
    assert found.tolist() == lengths and kernel.op.name == "decoder/basic_rnn_cell/kernel"


@pytest.mark.parametrize("normalize", [False, True])
def test_bahdanau_attention(normalize):
    rng = np.random.RandomState(0)
    memory, query = rng.rand(2, 5, 3).astype(np.float32), rng.rand(2, 4).astype(np.float32)
    lengths = np.array([3, 5])
    mechanism = seq2seq.BahdanauAttention(6, tf.constant(memory), lengths, normalize=normalize)
    alignments, _ = mechanism(tf.constant(query), state=mechanism.initial_alignments(2, tf.float32))
    names = {v.op.name.rsplit("/", 1)[-1]: v for v in tf.global_variables() if "attention_" in v.op.name}
    layers = [v for v in tf.global_variables() if v.op.name.endswith("kernel")]
    got, v, (wm, wq) = run(alignments, names, layers)
    mask = np.arange(5) < lengths[:, None]
    keys = (memory * mask[..., None]) @ wm
    weights = v["attention_v"]
    add = 0.0
    if normalize:
        weights = v["attention_g"] * weights / np.sqrt((weights**2).sum())
        add = v["attention_b"]
    score = (weights * np.tanh(keys + (query @ wq)[:, None] + add)).sum(-1)
    exp = np.where(mask, np.exp(score), 0)
    np.testing.assert_allclose(got, exp / exp.sum(1, keepdims=True), rtol=1e-5)


def test_luong_attention_through_the_wrapper():
    rng = np.random.RandomState(0)
    memory, x = rng.rand(2, 5, 4).astype(np.float32), rng.rand(2, 3).astype(np.float32)
    mechanism = seq2seq.LuongAttention(4, tf.constant(memory))
    cell = seq2seq.AttentionWrapper(
        tf.nn.rnn_cell.GRUCell(4), mechanism, attention_layer_size=7, alignment_history=True
    )
    state = cell.zero_state(2, tf.float32)
    output, state = cell(tf.constant(x), state)
    _, state = cell(tf.constant(x), state)
    assert cell.output_size == 7 and output.shape.as_list() == [2, 7]
    history, time, attention = run(state.alignment_history.stack(), state.time, state.attention)
    assert history.shape == (2, 2, 5) and time == 2 and attention.shape == (2, 7)
    np.testing.assert_allclose(history.sum(-1), np.ones([2, 2]), rtol=1e-5)
    with pytest.raises(TypeError, match="Expected state to be instance of AttentionWrapperState"):
        cell(tf.constant(x), (tf.zeros([2, 4]),))
    with pytest.raises(ValueError, match="exactly one integer per attention_mechanism"):
        seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(4), [mechanism], attention_layer_size=[1, 2])


def test_modes_of_monotonic_attention_agree():
    rng = np.random.RandomState(0)
    p, previous = rng.rand(3, 6), rng.rand(3, 6)
    previous /= previous.sum(1, keepdims=True)
    expected = np.zeros([3, 6])
    for b in range(3):
        for j in range(6):
            for k in range(j + 1):
                expected[b, j] += previous[b, k] * np.prod(1 - p[b, k:j]) * p[b, j]
    recursive, parallel = run(
        seq2seq.monotonic_attention(p, previous, "recursive"),
        seq2seq.monotonic_attention(p, previous, "parallel"),
    )
    np.testing.assert_allclose(recursive, expected, rtol=1e-9)
    np.testing.assert_allclose(parallel, expected, rtol=1e-6)
    hard = run(seq2seq.monotonic_attention((p > 0.5).astype(float), np.eye(6)[[0, 1, 2]], "hard"))[0]
    assert all(row.sum() in (0, 1) for row in hard)
    with pytest.raises(ValueError, match="mode must be"):
        seq2seq.monotonic_attention(p, previous, "other")


def test_trees_are_read_from_their_ends():
    ids = np.array([[[1, 2]], [[3, 4]], [[5, 6]]])  # time, batch, beam
    parents = np.array([[[0, 0]], [[1, 0]], [[1, 0]]])
    assert run(seq2seq.gather_tree(ids, parents, [3], 9))[0][:, 0].T.tolist() == [[1, 4, 5], [2, 3, 6]]
    assert run(seq2seq.gather_tree(ids, parents, [3], 4))[0][:, 0].T.tolist() == [[1, 4, 4], [2, 3, 6]]
    assert run(seq2seq.gather_tree(ids, parents, [2], 9))[0][:, 0].T.tolist() == [[2, 3, 9], [1, 4, 9]]
    assert run(seq2seq.tile_batch(tf.constant([[1], [2]]), 2))[0].tolist() == [[1], [1], [2], [2]]


class _Markov(tf.nn.rnn_cell.RNNCell):
    """Logits of the next id by the id that is read."""

    def __init__(self, table):
        super().__init__()
        self._table = table

    state_size = 1
    output_size = 5

    def call(self, inputs, state):
        return tf.matmul(inputs, tf.constant(self._table)), state + 1


@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_beams_find_what_an_exhaustive_search_finds(weight):
    table = np.random.RandomState(3).randn(5, 5).astype(np.float32)
    log = table - np.log(np.exp(table).sum(1, keepdims=True))
    start, end, steps, width = 1, 0, 3, 125  # as many beams as there are sequences
    found = {}
    for ids in itertools.product(range(5), repeat=steps):
        cut = ids[: ids.index(end) + 1] if end in ids else ids
        p = sum(log[a, b] for a, b in zip((start,) + cut, cut))
        length = len(cut) - (end in cut and len(cut) == steps)  # an end counts from the next step on
        found[cut + (end,) * (steps - len(cut))] = p / ((5 + length) / 6) ** weight
    decoder = seq2seq.BeamSearchDecoder(
        _Markov(table), lambda ids: tf.one_hot(ids, 5), [start, start], end, tf.zeros([2 * width, 1]), width,
        length_penalty_weight=weight,
    )  # fmt: skip
    outputs, _, lengths = seq2seq.dynamic_decode(decoder, maximum_iterations=steps)
    ids, lengths = run(outputs.predicted_ids, lengths)
    best = sorted(found, key=lambda k: -found[k])[:10]
    for b in range(2):
        assert [tuple(row) for row in ids[b].T[:10]] == best
    assert lengths.shape == (2, width)


def test_ids_are_drawn_or_greedy():
    table = 9 * np.roll(np.eye(5, dtype=np.float32), 1, axis=1)  # after i comes i + 1
    for helper in (
        seq2seq.GreedyEmbeddingHelper(lambda ids: tf.one_hot(ids, 5), [1, 3], 4),
        seq2seq.SampleEmbeddingHelper(
            np.eye(5, dtype=np.float32), [1, 3], 4, softmax_temperature=0.1, seed=1
        ),
    ):
        decoder = seq2seq.BasicDecoder(_Markov(table), helper, tf.zeros([2, 1]))
        outputs, _, lengths = seq2seq.dynamic_decode(decoder, maximum_iterations=9, impute_finished=True)
        ids, lengths = run(outputs.sample_id, lengths)
        assert ids[0].tolist() == [2, 3, 4] and lengths.tolist() == [3, 1]
    with pytest.raises(ValueError, match="start_tokens must be a vector"):
        seq2seq.GreedyEmbeddingHelper(lambda ids: tf.one_hot(ids, 5), 1, 4)


def test_scheduled_sampling_reads_what_it_drew():
    x = tf.one_hot([[0, 0, 0]], 5)
    helper = seq2seq.ScheduledEmbeddingTrainingHelper(x, [3], lambda ids: tf.one_hot(ids, 5), 1.0)
    table = 99 * np.roll(np.eye(5, dtype=np.float32), 1, axis=1)
    outputs, _, _ = seq2seq.dynamic_decode(seq2seq.BasicDecoder(_Markov(table), helper, tf.zeros([1, 1])))
    assert run(outputs.sample_id)[0].tolist() == [[1, 2, 3]]
    helper = seq2seq.ScheduledOutputTrainingHelper(x, [3], 0.0)
    outputs, _, _ = seq2seq.dynamic_decode(seq2seq.BasicDecoder(_Markov(table), helper, tf.zeros([1, 1])))
    assert run(outputs.rnn_output)[0].argmax(-1).tolist() == [[1, 1, 1]]
    with pytest.raises(TypeError, match="Expected decoder to be type Decoder"):
        seq2seq.dynamic_decode(3)
