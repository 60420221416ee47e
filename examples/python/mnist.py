# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Trains one of six models to read digits, as programs of TensorFlow 1.x do.

    PYTHONPATH=build/release/python /usr/bin/python3 -m millrace examples/python/mnist.py --model=conv --steps=2000

It reads MNIST from --data_dir, $MNIST_DIR or ./data/mnist, and draws digits if none of them has it (or with
--data_dir=generated). With --log_dir it writes summaries for TensorBoard and a checkpoint.
"""
from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import mnist_data

flags = tf.app.flags
flags.DEFINE_string("model", "conv", "softmax, mlp_sigmoid, mlp_relu, mlp_dropout, conv or conv_dropout")
flags.DEFINE_string("data_dir", "", "folder with the files of MNIST, or 'generated'")
flags.DEFINE_string("log_dir", "", "folder for summaries and checkpoints; none are written without it")
flags.DEFINE_integer("steps", 2000, "steps of training")
flags.DEFINE_integer("batch", 100, "examples in a step")
flags.DEFINE_integer("seed", 0, "of weights, dropout and the order of examples")
flags.DEFINE_integer("threads", 0, "threads, 0 for one per core")
flags.DEFINE_string("json", "", "file for the results")
FLAGS = flags.FLAGS

# Convolutions as (channels, side of the filter, stride), then widths of hidden layers.
CONVS = {
    "conv": [(4, 5, 1), (8, 5, 2), (12, 4, 2)],
    "conv_dropout": [(6, 6, 1), (12, 5, 2), (24, 4, 2)],
}
HIDDEN = {
    "softmax": [],
    "mlp_sigmoid": [200, 100, 60, 30],
    "mlp_relu": [200, 100, 60, 30],
    "mlp_dropout": [200, 100, 60, 30],
    "conv": [200],
    "conv_dropout": [200],
}
EVALUATE_EVERY = 100


class Model:
    """Placeholders, loss, accuracy and training step of a model."""

    def __init__(self, name: str, wrap: Callable[[Any], Any] = lambda optimizer: optimizer) -> None:
        """`wrap` makes the optimizer that is used from that of the model."""
        if name not in HIDDEN:
            raise ValueError("no model %r; there are %s" % (name, ", ".join(sorted(HIDDEN))))
        self.images = tf.placeholder(tf.float32, [None, 28, 28, 1], name="images")
        self.labels = tf.placeholder(tf.float32, [None, 10], name="labels")
        self.keep = tf.placeholder_with_default(1.0, [], name="keep_probability")
        self.step = tf.train.get_or_create_global_step()
        logits = self._logits(name)
        cross_entropy = tf.nn.softmax_cross_entropy_with_logits_v2(labels=self.labels, logits=logits)
        self.loss = tf.reduce_sum(cross_entropy, name="loss")
        right = tf.equal(tf.argmax(logits, 1), tf.argmax(self.labels, 1))
        self.accuracy = tf.reduce_mean(tf.cast(right, tf.float32), name="accuracy")
        if name == "softmax":
            optimizer = tf.train.GradientDescentOptimizer(0.003)
        else:
            rate = 0.0001 + tf.train.exponential_decay(0.003 - 0.0001, self.step, 2000, 1 / math.e)
            optimizer = tf.train.AdamOptimizer(rate)
        self.train = wrap(optimizer).minimize(self.loss, global_step=self.step)
        tf.summary.scalar("loss_per_example", tf.reduce_mean(cross_entropy))
        tf.summary.scalar("accuracy", self.accuracy)
        self.summary = tf.summary.merge_all()

    def _logits(self, name: str) -> tf.Tensor:
        activation = tf.nn.sigmoid if name == "mlp_sigmoid" else tf.nn.relu
        bias = 0.0 if name in ("softmax", "mlp_sigmoid") else 0.1
        x, channels = self.images, 1
        for i, (filters, side, stride) in enumerate(CONVS.get(name, [])):
            with tf.variable_scope("conv%d" % (i + 1)):
                w = tf.get_variable(
                    "W",
                    [side, side, channels, filters],
                    initializer=tf.truncated_normal_initializer(stddev=0.1),
                )
                b = tf.get_variable("b", [filters], initializer=tf.constant_initializer(bias))
                x = activation(tf.nn.bias_add(tf.nn.conv2d(x, w, [1, stride, stride, 1], "SAME"), b))
            channels = filters
        width = int(np.prod(x.get_shape().as_list()[1:]))
        x = tf.reshape(x, [-1, width])
        for i, units in enumerate(HIDDEN[name] + [10]):
            with tf.variable_scope("layer%d" % (i + 1)):
                last = i == len(HIDDEN[name])
                start = (
                    tf.zeros_initializer()
                    if name == "softmax"
                    else tf.truncated_normal_initializer(stddev=0.1)
                )
                w = tf.get_variable("W", [width, units], initializer=start)
                b = tf.get_variable("b", [units], initializer=tf.constant_initializer(bias))
                x, width = tf.nn.bias_add(tf.matmul(x, w), b), units
                if not last:
                    x = activation(x)
                    if name.endswith("dropout"):
                        x = tf.nn.dropout(x, keep_prob=self.keep)
        return x


def evaluate(sess: tf.Session, model: Model, examples: mnist_data.Examples) -> tuple[float, float]:
    """Accuracy and loss per example over a whole set."""
    right = loss = 0.0
    for begin in range(0, len(examples.labels), 500):
        images, labels = examples.images[begin : begin + 500], examples.labels[begin : begin + 500]
        accuracy, part = sess.run([model.accuracy, model.loss], {model.images: images, model.labels: labels})
        right += accuracy * len(labels)
        loss += part
    return right / len(examples.labels), loss / len(examples.labels)


def show(step: int, accuracy: float, loss: float, micros: float) -> None:
    """Writes the progress line; a terminal sees it change in place."""
    done = int(24 * step / max(FLAGS.steps, 1))
    bar = "#" * done + "." * (24 - done)
    text = "[%s] step %d/%d  test accuracy %.4f  loss %.4f  %.0f us a step" % (
        bar,
        step,
        FLAGS.steps,
        accuracy,
        loss,
        micros,
    )
    sys.stdout.write("\r" + text if sys.stdout.isatty() else text + "\n")
    sys.stdout.flush()


def main(unused_argv: list[str]) -> None:
    train, test, source = mnist_data.load(FLAGS.data_dir, FLAGS.seed)
    print("%s: %d examples to train, %d to test" % (source, len(train.labels), len(test.labels)))
    tf.set_random_seed(FLAGS.seed)
    model = Model(FLAGS.model)
    saver = tf.train.Saver()
    config = tf.ConfigProto(
        intra_op_parallelism_threads=FLAGS.threads, inter_op_parallelism_threads=FLAGS.threads
    )
    writer = tf.summary.FileWriter(FLAGS.log_dir, tf.get_default_graph()) if FLAGS.log_dir else None
    times: list[float] = []
    with tf.Session(config=config) as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(FLAGS.steps + 1):
            images, labels = train.next_batch(FLAGS.batch)
            feed = {model.images: images, model.labels: labels}
            if step % EVALUATE_EVERY == 0 or step == FLAGS.steps:
                accuracy, loss = evaluate(sess, model, test)
                show(step, accuracy, loss, 1e6 * float(np.median(times or [0.0])))
                if writer:
                    writer.add_summary(sess.run(model.summary, feed), step)
            if step == FLAGS.steps:
                break
            if FLAGS.model.endswith("dropout"):
                feed[model.keep] = 0.75
            start = time.perf_counter()
            sess.run(model.train, feed)
            times.append(time.perf_counter() - start)
        if writer:
            writer.close()
            print(
                "\ncheckpoint: %s" % saver.save(sess, FLAGS.log_dir + "/model.ckpt", global_step=model.step)
            )
    micros = 1e6 * float(np.median(times)) if times else 0.0
    print("\n%s: accuracy %.4f after %d steps, %.0f us a step" % (FLAGS.model, accuracy, FLAGS.steps, micros))
    if FLAGS.json:
        with open(FLAGS.json, "w", encoding="utf-8") as file:
            result = {
                "model": FLAGS.model,
                "data": source,
                "steps": FLAGS.steps,
                "accuracy": accuracy,
                "step_us": micros,
            }
            json.dump(result, file)


if __name__ == "__main__":
    tf.app.run()
