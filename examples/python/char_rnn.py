# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Learns to continue a text letter by letter with a stack of LSTM cells, and writes some of its own.

    PYTHONPATH=build/release/python /usr/bin/python3 -m millrace examples/python/char_rnn.py --text=LICENSE
"""
from __future__ import annotations

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_string("text", "", "file to learn from; a rhyme without it")
tf.app.flags.DEFINE_integer("steps", 300, "steps of training")
tf.app.flags.DEFINE_integer("units", 64, "width of a cell")
tf.app.flags.DEFINE_integer("layers", 2, "cells in the stack")
tf.app.flags.DEFINE_integer("batch", 16, "places in the text that are learned at the same time")
tf.app.flags.DEFINE_integer("length", 25, "letters in a step")
tf.app.flags.DEFINE_integer("sample", 120, "letters to write at the end")
FLAGS = tf.app.flags.FLAGS

RHYME = "one for sorrow, two for joy, three for a girl, four for a boy, five for silver, six for gold. " * 40


class Network:
    """Logits of the next letter for letters [batch, length], and the state to continue with."""

    def __init__(self, letters: int, batch: int, length: int) -> None:
        self.inputs = tf.placeholder(tf.int32, [batch, length])
        self.targets = tf.placeholder(tf.int32, [batch, length])
        cells = [tf.nn.rnn_cell.BasicLSTMCell(FLAGS.units) for _ in range(FLAGS.layers)]
        stack = tf.nn.rnn_cell.MultiRNNCell(cells)
        self.start = stack.zero_state(batch, tf.float32)
        embedding = tf.get_variable("embedding", [letters, FLAGS.units])
        x = tf.nn.embedding_lookup(embedding, self.inputs)
        outputs, self.end = tf.nn.dynamic_rnn(stack, x, initial_state=self.start)
        logits = tf.layers.dense(outputs, letters, name="letters")
        self.probabilities = tf.nn.softmax(logits)
        self.loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.targets, logits=logits)
        )


def training_op(loss: tf.Tensor) -> tf.Operation:
    """Adam on gradients that are clipped together."""
    variables = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 5.0)
    return tf.train.AdamOptimizer(0.005).apply_gradients(zip(gradients, variables))


def write(sess: tf.Session, network: Network, alphabet: list[str], count: int) -> str:
    """Text that the network makes up."""
    random, letter, state, text = np.random.RandomState(1), 0, sess.run(network.start), ""
    for _ in range(count):
        chances, state = sess.run(
            [network.probabilities, network.end], {network.inputs: [[letter]], network.start: state}
        )
        letter = int(random.choice(len(alphabet), p=chances[0, 0] / chances[0, 0].sum()))
        text += alphabet[letter]
    return text


def main(unused_argv: list[str]) -> None:
    text = open(FLAGS.text, encoding="utf-8").read() if FLAGS.text else RHYME
    alphabet = sorted(set(text))
    numbers = np.array([alphabet.index(c) for c in text], np.int32)
    columns = (len(numbers) - 1) // FLAGS.batch
    x = numbers[: columns * FLAGS.batch].reshape(FLAGS.batch, columns)
    y = numbers[1 : columns * FLAGS.batch + 1].reshape(FLAGS.batch, columns)
    tf.set_random_seed(1)
    with tf.variable_scope("network"):
        network = Network(len(alphabet), FLAGS.batch, FLAGS.length)
    train = training_op(network.loss)
    with tf.variable_scope("network", reuse=True):
        writer = Network(len(alphabet), 1, 1)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        state, at = None, 0
        for step in range(FLAGS.steps):
            if state is None or at + FLAGS.length > columns:
                state, at = sess.run(network.start), 0
            feed = {
                network.inputs: x[:, at : at + FLAGS.length],
                network.targets: y[:, at : at + FLAGS.length],
                network.start: state,
            }
            loss, state, _ = sess.run([network.loss, network.end, train], feed)
            at += FLAGS.length
            if step % 50 == 0 or step == FLAGS.steps - 1:
                print("step %d: loss %.4f" % (step, loss))
        print(write(sess, writer, alphabet, FLAGS.sample))


if __name__ == "__main__":
    tf.app.run()
