# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A classifier with summaries of its variables and a trace of one step, read back from the event file."""
from __future__ import absolute_import, division, print_function

import argparse
import glob
import sys

import numpy as np
import tensorflow as tf

FLAGS = None
random = np.random.RandomState(0)
CENTRES = random.randn(4, 16).astype(np.float32) * 2


def feed_dict(x, y_, keep_prob, train):
    """A batch of points round four centres."""
    labels = random.randint(0, 4, 50)
    points = CENTRES[labels] + random.randn(50, 16).astype(np.float32)
    return {x: points, y_: labels, keep_prob: FLAGS.dropout if train else 1.0}


def variable_summaries(var):
    with tf.name_scope("summaries"):
        mean = tf.reduce_mean(var)
        tf.summary.scalar("mean", mean)
        with tf.name_scope("stddev"):
            stddev = tf.sqrt(tf.reduce_mean(tf.square(var - mean)))
        tf.summary.scalar("stddev", stddev)
        tf.summary.scalar("max", tf.reduce_max(var))
        tf.summary.scalar("min", tf.reduce_min(var))
        tf.summary.histogram("histogram", var)


def nn_layer(inputs, input_dim, output_dim, layer_name, act=tf.nn.relu):
    with tf.name_scope(layer_name):
        with tf.name_scope("weights"):
            weights = tf.Variable(tf.truncated_normal([input_dim, output_dim], stddev=0.1, seed=1))
            variable_summaries(weights)
        with tf.name_scope("biases"):
            biases = tf.Variable(tf.constant(0.1, shape=[output_dim]))
            variable_summaries(biases)
        with tf.name_scope("Wx_plus_b"):
            preactivate = tf.matmul(inputs, weights) + biases
            tf.summary.histogram("pre_activations", preactivate)
        activations = act(preactivate, name="activation")
        tf.summary.histogram("activations", activations)
        return activations, weights


def train():
    tf.set_random_seed(1)
    sess = tf.InteractiveSession()
    with tf.name_scope("input"):
        x = tf.placeholder(tf.float32, [None, 16], name="x-input")
        y_ = tf.placeholder(tf.int64, [None], name="y-input")
    with tf.name_scope("input_reshape"):
        tf.summary.image("input", tf.reshape(x, [-1, 4, 4, 1]), 4)
    hidden1, weights = nn_layer(x, 16, 8, "layer1")
    with tf.name_scope("dropout"):
        keep_prob = tf.placeholder(tf.float32)
        tf.summary.scalar("dropout_keep_probability", keep_prob)
        dropped = tf.nn.dropout(hidden1, keep_prob)
    y, _ = nn_layer(dropped, 8, 4, "layer2", act=tf.identity)
    with tf.name_scope("cross_entropy"):
        with tf.name_scope("total"):
            cross_entropy = tf.losses.sparse_softmax_cross_entropy(labels=y_, logits=y)
    tf.summary.scalar("cross_entropy", cross_entropy)
    with tf.name_scope("train"):
        train_step = tf.train.AdamOptimizer(0.02).minimize(cross_entropy)
    with tf.name_scope("accuracy"):
        correct_prediction = tf.equal(tf.argmax(y, 1), y_)
        accuracy = tf.reduce_mean(tf.cast(correct_prediction, tf.float32))
    tf.summary.scalar("accuracy", accuracy)
    merged = tf.summary.merge_all()
    train_writer = tf.summary.FileWriter(FLAGS.log_dir + "/train", sess.graph)
    test_writer = tf.summary.FileWriter(FLAGS.log_dir + "/test")
    tf.global_variables_initializer().run()
    means = {}
    for i in range(FLAGS.max_steps):
        if i % 10 == 0:
            summary, acc, value = sess.run([merged, accuracy, weights], feed_dict(x, y_, keep_prob, False))
            test_writer.add_summary(summary, i)
            means[i] = value.mean()
            print("Accuracy at step %s: %s" % (i, acc))
        elif i % 50 == 49:
            run_options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            run_metadata = tf.RunMetadata()
            summary, _ = sess.run(
                [merged, train_step], feed_dict(x, y_, keep_prob, True),
                options=run_options, run_metadata=run_metadata,
            )  # fmt: skip
            assert any(n.node_name == "layer1/Wx_plus_b/add"
                       for d in run_metadata.step_stats.dev_stats for n in d.node_stats)  # fmt: skip
            train_writer.add_run_metadata(run_metadata, "step%03d" % i)
            train_writer.add_summary(summary, i)
        else:
            summary, _ = sess.run([merged, train_step], feed_dict(x, y_, keep_prob, True))
            train_writer.add_summary(summary, i)
    train_writer.close()
    test_writer.close()
    return means, acc


def check(means, acc):
    """What the event files hold is what was run."""
    assert acc > 0.9, acc
    read = {}
    tags = set()
    for event in tf.train.summary_iterator(glob.glob(FLAGS.log_dir + "/test/*")[0]):
        for value in event.summary.value:
            tags.add(value.tag)
            if value.tag == "layer1/weights/summaries/mean_1":
                read[event.step] = value.simple_value
            if value.tag == "layer1/biases/summaries/histogram":
                assert value.histo.num == 8
    assert sorted(read) == sorted(means)
    np.testing.assert_allclose(
        [read[k] for k in sorted(read)], [means[k] for k in sorted(read)], rtol=1e-4, atol=1e-6
    )
    assert {"input_reshape/input/image/0", "input_reshape/input/image/3", "layer2/weights/summaries/stddev_1",
            "dropout/dropout_keep_probability", "cross_entropy_1", "accuracy_1"} <= tags, sorted(tags)  # fmt: skip
    kinds = []
    for event in tf.train.summary_iterator(glob.glob(FLAGS.log_dir + "/train/*")[0]):
        kinds.append(event.WhichOneof("what"))
        if kinds[-1] == "graph_def":
            graph = tf.GraphDef.FromString(event.graph_def)
            assert any(node.name == "layer2/Wx_plus_b/MatMul" for node in graph.node)
        if kinds[-1] == "tagged_run_metadata":
            assert event.tagged_run_metadata.tag in ("step049", "step099")
            assert tf.RunMetadata.FromString(event.tagged_run_metadata.run_metadata).step_stats.dev_stats
    assert kinds.count("tagged_run_metadata") == 2 and kinds.count("graph_def") == 1, kinds


def main(_):
    if tf.gfile.Exists(FLAGS.log_dir):
        tf.gfile.DeleteRecursively(FLAGS.log_dir)
    tf.gfile.MakeDirs(FLAGS.log_dir)
    check(*train())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--max_steps", type=int, default=101)
    parser.add_argument("--dropout", type=float, default=0.9)
    parser.add_argument("--log_dir", type=str, default="logs")
    FLAGS, unparsed = parser.parse_known_args()
    tf.app.run(main=main, argv=[sys.argv[0]] + unparsed)
