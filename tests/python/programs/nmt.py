# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A translation model: an encoder in both directions, a decoder with attention, greedy and beam search."""
from __future__ import print_function

import collections

import numpy as np
import tensorflow as tf
from tensorflow.contrib import seq2seq
from tensorflow.python.layers import core as layers_core

VOCAB, SOS, EOS, UNITS, BATCH, LENGTH, BEAM = 12, 1, 2, 48, 32, 5, 3


class BatchedInput(
    collections.namedtuple("BatchedInput", ("initializer", "source", "target_in", "target_out", "lengths"))
):
    pass


def sentences(rng, n):
    """Sources and targets that are the sources reversed."""
    lengths = rng.randint(2, LENGTH + 1, size=n)
    return [[str(t) for t in rng.randint(3, VOCAB, size=k)] for k in lengths]


def get_iterator(lines):
    table = tf.contrib.lookup.index_table_from_tensor(
        tf.constant([str(i) for i in range(VOCAB)]), default_value=0
    )
    src = tf.data.Dataset.from_tensor_slices([" ".join(s) for s in lines])
    tgt = tf.data.Dataset.from_tensor_slices([" ".join(s[::-1]) for s in lines])
    ds = tf.data.Dataset.zip((src, tgt)).shuffle(len(lines), seed=3).repeat()
    ds = ds.map(
        lambda s, t: (tf.string_split([s]).values, tf.string_split([t]).values), num_parallel_calls=2
    ).prefetch(8)
    ds = ds.filter(lambda s, t: tf.logical_and(tf.size(s) > 0, tf.size(t) > 0))
    ds = ds.map(lambda s, t: (tf.cast(table.lookup(s), tf.int32), tf.cast(table.lookup(t), tf.int32)))
    ds = ds.map(lambda s, t: (s, tf.concat(([SOS], t), 0), tf.concat((t, [EOS]), 0), tf.size(s)))
    ds = ds.padded_batch(
        BATCH,
        padded_shapes=(
            tf.TensorShape([None]),
            tf.TensorShape([None]),
            tf.TensorShape([None]),
            tf.TensorShape([]),
        ),
        padding_values=(EOS, EOS, EOS, 0),
    )
    it = ds.make_initializable_iterator()
    src_ids, tgt_in, tgt_out, lengths = it.get_next()
    return BatchedInput(it.initializer, src_ids, tgt_in, tgt_out, lengths)


def cell(units):
    return tf.contrib.rnn.DropoutWrapper(tf.contrib.rnn.GRUCell(units), input_keep_prob=1.0)


def build(source, source_lengths, mode, target_in=None, target_lengths=None):
    with tf.variable_scope("embeddings", dtype=tf.float32):
        embedding = tf.get_variable("embedding", [VOCAB, UNITS])
    output_layer = layers_core.Dense(VOCAB, use_bias=False, name="output_projection")
    with tf.variable_scope("dynamic_seq2seq"):
        with tf.variable_scope("encoder") as scope:
            outputs, states = tf.nn.bidirectional_dynamic_rnn(
                cell(UNITS // 2),
                cell(UNITS // 2),
                tf.nn.embedding_lookup(embedding, source),
                sequence_length=source_lengths,
                dtype=scope.dtype,
                swap_memory=True,
            )
            memory, state = tf.concat(outputs, -1), tf.concat(states, -1)
        with tf.variable_scope("decoder") as decoder_scope:
            batch_size = tf.size(source_lengths)
            if mode == "beam":
                memory = seq2seq.tile_batch(memory, multiplier=BEAM)
                source_lengths = seq2seq.tile_batch(source_lengths, multiplier=BEAM)
                state = seq2seq.tile_batch(state, multiplier=BEAM)
                batch_size = batch_size * BEAM
            mechanism = seq2seq.LuongAttention(
                UNITS, memory, memory_sequence_length=source_lengths, scale=True
            )
            attention = seq2seq.AttentionWrapper(
                cell(UNITS),
                mechanism,
                attention_layer_size=UNITS,
                alignment_history=mode == "greedy",
                output_attention=True,
                name="attention",
            )
            initial = attention.zero_state(batch_size, tf.float32).clone(cell_state=state)
            if mode == "train":
                helper = seq2seq.TrainingHelper(tf.nn.embedding_lookup(embedding, target_in), target_lengths)
                decoder = seq2seq.BasicDecoder(attention, helper, initial)
                outputs, _, _ = seq2seq.dynamic_decode(decoder, swap_memory=True, scope=decoder_scope)
                return output_layer(outputs.rnn_output), None
            start = tf.fill([tf.size(source_lengths) // (BEAM if mode == "beam" else 1)], SOS)
            if mode == "beam":
                decoder = seq2seq.BeamSearchDecoder(
                    cell=attention,
                    embedding=embedding,
                    start_tokens=start,
                    end_token=EOS,
                    initial_state=initial,
                    beam_width=BEAM,
                    output_layer=output_layer,
                    length_penalty_weight=0.5,
                )
                outputs, _, _ = seq2seq.dynamic_decode(
                    decoder, maximum_iterations=2 * LENGTH, scope=decoder_scope
                )
                return outputs.predicted_ids, None
            helper = seq2seq.GreedyEmbeddingHelper(embedding, start, EOS)
            decoder = seq2seq.BasicDecoder(attention, helper, initial, output_layer=output_layer)
            outputs, final_state, _ = seq2seq.dynamic_decode(
                decoder, maximum_iterations=2 * LENGTH, impute_finished=True, scope=decoder_scope
            )
            return outputs.sample_id, final_state.alignment_history.stack()


def main(_):
    rng = np.random.RandomState(0)
    tf.set_random_seed(1)
    iterator = get_iterator(sentences(rng, 2000))
    target_lengths = iterator.lengths + 1
    logits, _ = build(iterator.source, iterator.lengths, "train", iterator.target_in, target_lengths)
    weights = tf.sequence_mask(target_lengths, tf.shape(iterator.target_out)[1], dtype=logits.dtype)
    crossent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=iterator.target_out, logits=logits)
    loss = tf.reduce_sum(crossent * weights) / tf.to_float(BATCH)
    params = tf.trainable_variables()
    gradients = tf.gradients(loss, params, colocate_gradients_with_ops=True)
    clipped, norm = tf.clip_by_global_norm(gradients, 5.0)
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdamOptimizer(0.01).apply_gradients(zip(clipped, params), global_step=step)

    source = tf.placeholder(tf.int32, [None, None])
    lengths = tf.placeholder(tf.int32, [None])
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        greedy, alignments = build(source, lengths, "greedy")
        beams, _ = build(source, lengths, "beam")
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        sess.run(iterator.initializer)
        for i in range(401):
            _, value, gnorm = sess.run([train, loss, norm])
            if i % 100 == 0:
                print("step %d loss %.3f gnorm %.2f" % (i, value, gnorm))
        tests = sentences(rng, 20)
        padded = np.full([20, LENGTH], EOS, np.int32)
        for row, s in enumerate(tests):
            padded[row, : len(s)] = [int(t) for t in s]
        feed = {source: padded, lengths: [len(s) for s in tests]}
        ids, align, best = sess.run([greedy, alignments, beams], feed)
        assert align.shape[1:] == (20, LENGTH)
        np.testing.assert_allclose(align[0].sum(-1), np.ones(20), rtol=1e-4)

        def right(found):
            hits = 0
            for s, row in zip(tests, found):
                row = list(row)
                hits += row[: row.index(EOS)] == [int(t) for t in s[::-1]] if EOS in row else 0
            return hits

        print("greedy %d beam %d of 20" % (right(ids), right(best[:, :, 0])))
        assert right(ids) >= 12 and right(best[:, :, 0]) >= 12


if __name__ == "__main__":
    tf.app.run()
