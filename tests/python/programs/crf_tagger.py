# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A tagger with a linear-chain conditional random field, checked by counting all sequences of tags."""
import itertools

import numpy as np
import tensorflow as tf

num_examples, num_words, num_features, num_tags = 6, 5, 8, 3
random = np.random.RandomState(0)
x = random.rand(num_examples, num_words, num_features).astype(np.float32)
y = random.randint(num_tags, size=[num_examples, num_words]).astype(np.int32)
lengths = np.array([5, 4, 3, 5, 2, 1], np.int32)


def score_of(unary, transitions, tags):
    total = sum(unary[i, t] for i, t in enumerate(tags))
    return total + sum(transitions[a, b] for a, b in zip(tags, tags[1:]))


with tf.Graph().as_default():
    tf.set_random_seed(1)
    with tf.Session() as session:
        x_t, y_t = tf.constant(x), tf.constant(y)
        lengths_t = tf.constant(lengths)
        weights = tf.get_variable("weights", [num_features, num_tags])
        flat = tf.matmul(tf.reshape(x_t, [-1, num_features]), weights)
        unary_scores = tf.reshape(flat, [num_examples, num_words, num_tags])
        log_likelihood, transition_params = tf.contrib.crf.crf_log_likelihood(unary_scores, y_t, lengths_t)
        assert transition_params.op.name == "transitions"
        viterbi_sequence, viterbi_score = tf.contrib.crf.crf_decode(
            unary_scores, transition_params, lengths_t
        )
        assert viterbi_sequence.dtype == tf.int32 and viterbi_sequence.shape.as_list() == [
            num_examples,
            num_words,
        ]
        loss = tf.reduce_mean(-log_likelihood)
        train_op = tf.train.AdamOptimizer(0.1).minimize(loss)
        slope = tf.gradients(loss, transition_params)[0]
        session.run(tf.global_variables_initializer())
        for step in range(101):
            found, best, unary, likelihood, transitions, value, g = session.run(
                [
                    viterbi_sequence,
                    viterbi_score,
                    unary_scores,
                    log_likelihood,
                    transition_params,
                    loss,
                    slope,
                ]
            )
            if step == 0:
                first = value
            if step % 50 == 0:
                expected_slope = np.zeros([num_tags, num_tags])
                for i, n in enumerate(lengths):
                    every = list(itertools.product(range(num_tags), repeat=int(n)))
                    scores = np.array([score_of(unary[i], transitions, tags) for tags in every])
                    norm = np.log(np.exp(scores).sum())
                    gold = score_of(unary[i], transitions, y[i, :n])
                    np.testing.assert_allclose(likelihood[i], gold - norm, rtol=1e-3, atol=1e-4)
                    np.testing.assert_allclose(best[i], scores.max(), rtol=1e-5)
                    assert list(found[i, :n]) == list(every[scores.argmax()]) and not found[i, n:].any()
                    tags, score = tf.contrib.crf.viterbi_decode(unary[i, :n], transitions)
                    assert tags == list(found[i, :n]) and np.isclose(score, scores.max())
                    for tags, p in zip(every, np.exp(scores - norm)):
                        for a, b in zip(tags, tags[1:]):
                            expected_slope[a, b] += p / num_examples
                    for a, b in zip(y[i, :n], y[i, 1:n]):
                        expected_slope[a, b] -= 1.0 / num_examples
                np.testing.assert_allclose(g, expected_slope, rtol=1e-3, atol=1e-4)
            session.run(train_op)
        assert value < first / 2, (first, value)
        # one word, and no word at all
        one = tf.constant(unary[:2, :1])
        tags, score = session.run(tf.contrib.crf.crf_decode(one, transition_params, [1, 1]))
        assert list(tags[:, 0]) == list(unary[:2, 0].argmax(1)) and np.allclose(score, unary[:2, 0].max(1))
        norm = session.run(tf.contrib.crf.crf_log_norm(unary_scores, [0] * num_examples, transition_params))
        assert not norm.any()
        print("loss %.3f" % value)
