# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A network that writes texts character by character, trained, saved, and sampled from what was saved."""
from __future__ import print_function

import argparse
import os
import pickle

import numpy as np
import tensorflow as tf
from tensorflow.contrib import legacy_seq2seq, rnn

TEXT = "the quick brown fox jumps over the lazy dog. " * 40


class TextLoader:
    def __init__(self, batch_size, seq_length):
        self.batch_size, self.seq_length = batch_size, seq_length
        self.chars = sorted(set(TEXT))
        self.vocab = dict(zip(self.chars, range(len(self.chars))))
        data = np.array([self.vocab[c] for c in TEXT])
        self.num_batches = data.size // (batch_size * seq_length)
        data = data[: self.num_batches * batch_size * seq_length]
        ydata = np.roll(data, -1)
        self.x_batches = np.split(data.reshape(batch_size, -1), self.num_batches, 1)
        self.y_batches = np.split(ydata.reshape(batch_size, -1), self.num_batches, 1)


class Model:
    def __init__(self, args, training=True):
        if not training:
            args.batch_size = args.seq_length = 1
        cells = [rnn.LSTMCell(args.rnn_size) for _ in range(args.num_layers)]
        self.cell = cell = rnn.MultiRNNCell(cells, state_is_tuple=True)
        self.input_data = tf.placeholder(tf.int32, [args.batch_size, args.seq_length])
        self.targets = tf.placeholder(tf.int32, [args.batch_size, args.seq_length])
        self.initial_state = cell.zero_state(args.batch_size, tf.float32)
        with tf.variable_scope("rnnlm"):
            softmax_w = tf.get_variable("softmax_w", [args.rnn_size, args.vocab_size])
            softmax_b = tf.get_variable("softmax_b", [args.vocab_size])
        embedding = tf.get_variable("embedding", [args.vocab_size, args.rnn_size])
        inputs = tf.nn.embedding_lookup(embedding, self.input_data)
        inputs = [tf.squeeze(i, [1]) for i in tf.split(inputs, args.seq_length, 1)]

        def loop(prev, _):
            prev = tf.matmul(prev, softmax_w) + softmax_b
            return tf.nn.embedding_lookup(embedding, tf.stop_gradient(tf.argmax(prev, 1)))

        outputs, last_state = legacy_seq2seq.rnn_decoder(
            inputs, self.initial_state, cell, loop_function=loop if not training else None, scope="rnnlm"
        )
        output = tf.reshape(tf.concat(outputs, 1), [-1, args.rnn_size])
        self.logits = tf.matmul(output, softmax_w) + softmax_b
        self.probs = tf.nn.softmax(self.logits)
        loss = legacy_seq2seq.sequence_loss_by_example(
            [self.logits], [tf.reshape(self.targets, [-1])], [tf.ones([args.batch_size * args.seq_length])]
        )
        with tf.name_scope("cost"):
            self.cost = tf.reduce_sum(loss) / args.batch_size / args.seq_length
        self.final_state = last_state
        self.lr = tf.Variable(0.0, trainable=False)
        tvars = tf.trainable_variables()
        grads, _ = tf.clip_by_global_norm(tf.gradients(self.cost, tvars), 5.0)
        with tf.name_scope("optimizer"):
            self.train_op = tf.train.AdamOptimizer(self.lr).apply_gradients(zip(grads, tvars))
        tf.summary.histogram("logits", self.logits)
        tf.summary.scalar("train_loss", self.cost)

    def sample(self, sess, chars, vocab, num, prime):
        state = sess.run(self.cell.zero_state(1, tf.float32))
        for char in prime[:-1]:
            [state] = sess.run(
                [self.final_state], {self.input_data: [[vocab[char]]], self.initial_state: state}
            )
        ret, char = prime, prime[-1]
        for _ in range(num):
            feed = {self.input_data: [[vocab[char]]], self.initial_state: state}
            probs, state = sess.run([self.probs, self.final_state], feed)
            char = chars[int(np.argmax(probs[0]))]
            ret += char
        return ret


parser = argparse.ArgumentParser()
parser.add_argument("--save_dir", default="save")
parser.add_argument("--rnn_size", type=int, default=48)
parser.add_argument("--num_layers", type=int, default=2)
parser.add_argument("--batch_size", type=int, default=8)
parser.add_argument("--seq_length", type=int, default=20)
parser.add_argument("--num_epochs", type=int, default=25)
args = parser.parse_args()
loader = TextLoader(args.batch_size, args.seq_length)
args.vocab_size = len(loader.chars)
os.makedirs(args.save_dir, exist_ok=True)
with open(os.path.join(args.save_dir, "config.pkl"), "wb") as f:
    pickle.dump(args, f)
tf.set_random_seed(2)
model = Model(args)
with tf.Session() as sess:
    summaries = tf.summary.merge_all()
    writer = tf.summary.FileWriter(os.path.join(args.save_dir, "log"))
    writer.add_graph(sess.graph)
    sess.run(tf.global_variables_initializer())
    saver = tf.train.Saver(tf.global_variables(), max_to_keep=2)
    for e in range(args.num_epochs):
        sess.run(tf.assign(model.lr, 0.02 * 0.97**e))
        state = sess.run(model.initial_state)
        for b in range(loader.num_batches):
            feed = {model.input_data: loader.x_batches[b], model.targets: loader.y_batches[b]}
            for i, (c, h) in enumerate(model.initial_state):
                feed[c] = state[i].c
                feed[h] = state[i].h
            summ, train_loss, state, _ = sess.run(
                [summaries, model.cost, model.final_state, model.train_op], feed
            )
        writer.add_summary(summ, e)
        if e % 6 == 0:
            print("epoch %d, train_loss = %.3f" % (e, train_loss))
            saver.save(sess, os.path.join(args.save_dir, "model.ckpt"), global_step=e)
tf.reset_default_graph()
with open(os.path.join(args.save_dir, "config.pkl"), "rb") as f:
    saved = pickle.load(f)
model = Model(saved, training=False)
with tf.Session() as sess:
    tf.global_variables_initializer().run()
    saver = tf.train.Saver(tf.global_variables())
    ckpt = tf.train.get_checkpoint_state(args.save_dir)
    assert ckpt and ckpt.model_checkpoint_path
    saver.restore(sess, ckpt.model_checkpoint_path)
    text = model.sample(sess, loader.chars, loader.vocab, 40, "the ")
    print("sample:", text)
    assert text.startswith("the quick"), text
