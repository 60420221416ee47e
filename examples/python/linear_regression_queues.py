# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Linear regression on lines of text that threads read, parse and shuffle through queues.

    PYTHONPATH=build/release/python /usr/bin/python3 -m millrace examples/python/linear_regression_queues.py
"""
from __future__ import annotations

import os
import tempfile

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_integer("steps", 400, "steps of training")
tf.app.flags.DEFINE_integer("batch", 32, "examples in a step")
tf.app.flags.DEFINE_string("folder", "", "where the lines are written; a temporary folder without it")
FLAGS = tf.app.flags.FLAGS

WEIGHTS, BIAS = np.array([2.0, -3.0, 0.5]), 1.25


def write_lines(folder: str, files: int = 3, lines: int = 200) -> list[str]:
    """Files of lines "x0,x1,x2,y" with y = x W + b and a little noise."""
    random = np.random.RandomState(0)
    names = []
    for number in range(files):
        x = random.randn(lines, 3)
        y = x @ WEIGHTS + BIAS + 0.01 * random.randn(lines)
        names.append(os.path.join(folder, "part%d.csv" % number))
        np.savetxt(names[-1], np.column_stack([x, y]), fmt="%.5f", delimiter=",")
    return names


def batches(names: list[str], size: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Shuffled batches of the lines in the files, without end."""
    files = tf.train.string_input_producer(names)
    _, line = tf.TextLineReader().read(files)
    columns = tf.decode_csv(line, record_defaults=[[0.0]] * 4)
    x, y = tf.train.shuffle_batch(
        [tf.stack(columns[:3]), columns[3]], size, capacity=500, min_after_dequeue=100, num_threads=2
    )
    return x, y


def main(unused_argv: list[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        x, y = batches(write_lines(FLAGS.folder or scratch), FLAGS.batch)
        w = tf.Variable(tf.zeros([3]), name="weights")
        b = tf.Variable(0.0, name="bias")
        loss = tf.reduce_mean(tf.square(tf.reduce_sum(x * w, 1) + b - y))
        step = tf.train.get_or_create_global_step()
        train = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss, global_step=step)
        with tf.Session() as sess:
            sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(sess, coord)
            try:
                while not coord.should_stop():
                    _, value, done = sess.run([train, loss, step])
                    if done % 100 == 0:
                        print("step %d: loss %.5f" % (done, value))
                    if done >= FLAGS.steps:
                        break
            except tf.errors.OutOfRangeError:
                print("the input has ended")
            finally:
                coord.request_stop()
            coord.join(threads, stop_grace_period_secs=30)
            found, offset = sess.run([w, b])
            print("weights %s, bias %.3f" % (np.round(found, 3).tolist(), offset))


if __name__ == "__main__":
    tf.app.run()
