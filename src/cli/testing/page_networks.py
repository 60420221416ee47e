# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Graphs of well-known networks, made with the Python package: what the page of a graph is tested with.

    PYTHONPATH=build/release/python /usr/bin/python3 src/cli/testing/page_networks.py FOLDER
writes all of them to FOLDER as NAME.pb.
"""

import os
import sys

import numpy as np

import millrace as tf


def _conv(x, out, size, stride=1, relu=True):
    filters = np.zeros((size, size, int(x.shape[-1]), out), np.float32)
    x = tf.nn.conv2d(x, tf.identity(tf.constant(filters, name="weights")), [1, stride, stride, 1], "SAME")
    ones = np.ones((out,), np.float32)
    x = tf.nn.fused_batch_norm(x, ones, ones, ones, ones, is_training=False)[0]
    return tf.nn.relu(x) if relu else x


def resnet50(scopes=True):
    """With a scope for each block and unit, or all nodes side by side."""
    scope = tf.name_scope if scopes else lambda name: tf.name_scope(None)
    x = tf.placeholder(tf.float32, [1, 64, 64, 3], name="images")
    with scope("conv1"):
        x = _conv(x, 8, 7, 2)
    x = tf.nn.max_pool(x, [1, 3, 3, 1], [1, 2, 2, 1], "SAME")
    for block, units in enumerate((3, 4, 6, 3)):
        with scope("block%d" % (block + 1)):
            for unit in range(units):
                with scope("unit_%d" % (unit + 1)):
                    short = x
                    if unit == 0:
                        with scope("shortcut"):
                            short = _conv(x, 32 * 2**block, 1, relu=False)
                    with scope("conv1"):
                        y = _conv(x, 8 * 2**block, 1)
                    with scope("conv2"):
                        y = _conv(y, 8 * 2**block, 3)
                    with scope("conv3"):
                        y = _conv(y, 32 * 2**block, 1, relu=False)
                    x = tf.nn.relu(y + short)
    x = tf.reduce_mean(x, [1, 2], name="pool5")
    with scope("logits"):
        x = tf.nn.bias_add(tf.matmul(x, np.zeros((256, 10), np.float32)), np.zeros(10, np.float32))
    tf.nn.softmax(x, name="predictions")


def inception():
    """Modules of four branches each."""
    x = tf.placeholder(tf.float32, [1, 64, 64, 3], name="images")
    with tf.name_scope("stem"):
        x = _conv(_conv(x, 8, 3, 2), 16, 3)
    for module in range(9):
        with tf.name_scope("mixed_%d" % module):
            branches = []
            for branch, sizes in enumerate(((1,), (1, 5), (1, 3, 3), None)):
                with tf.name_scope("branch_%d" % branch):
                    y = x
                    if sizes is None:
                        y = _conv(tf.nn.avg_pool(y, [1, 3, 3, 1], [1, 1, 1, 1], "SAME"), 8, 1)
                    for size in sizes or ():
                        y = _conv(y, 8, size)
                    branches.append(y)
            x = tf.concat(branches, 3)
    tf.nn.softmax(tf.reduce_mean(x, [1, 2]), name="predictions")


def lstm_training(steps=20):
    """Unrolled, with gradients, an optimizer, summaries and a saver."""
    x = tf.placeholder(tf.int32, [4, steps], name="words")
    y = tf.placeholder(tf.int32, [4, steps], name="next_words")
    table = tf.get_variable("embedding", [50, 16])
    inputs = tf.unstack(tf.nn.embedding_lookup(table, x), axis=1)
    cells = [tf.nn.rnn_cell.BasicLSTMCell(16) for _ in range(2)]
    outputs, _ = tf.nn.static_rnn(tf.nn.rnn_cell.MultiRNNCell(cells), inputs, dtype=tf.float32)
    with tf.name_scope("softmax"):
        logits = tf.layers.dense(tf.stack(outputs, 1), 50)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits), name="loss")
    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.AdamOptimizer(1e-3)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    clipped, _ = tf.clip_by_global_norm(gradients, 5.0)
    optimizer.apply_gradients(zip(clipped, variables), global_step=step)
    tf.summary.scalar("loss", loss)
    tf.summary.merge_all()
    tf.train.Saver()


NETWORKS = {
    "resnet50": resnet50,
    "resnet50_flat": lambda: resnet50(scopes=False),
    "inception": inception,
    "lstm_training": lstm_training,
}


def write(folder):
    for name, build in NETWORKS.items():
        with tf.Graph().as_default() as graph:
            build()
            with open(os.path.join(folder, name + ".pb"), "wb") as file:
                file.write(graph.as_graph_def().SerializeToString())


if __name__ == "__main__":
    write(sys.argv[1])
