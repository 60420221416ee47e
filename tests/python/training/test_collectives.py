# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Collective operations over tasks, and training with them."""
import os
import sys

import numpy as np
import pytest

import millrace as tf
from millrace.python.ops import collective_ops

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "..", "examples", "python"))
import mnist_data  # noqa: E402

WORKERS = 4
BATCH, PIXELS = 32, 28 * 28


@pytest.fixture(scope="module")
def servers(free_ports):
    spec = tf.train.ClusterSpec({"worker": ["localhost:%d" % port for port in free_ports(WORKERS)]})
    return [tf.train.Server(spec, job_name="worker", task_index=task) for task in range(WORKERS)]


def on_each(make):
    results = []
    for task in range(WORKERS):
        with tf.device("/job:worker/task:%d" % task):
            results.append(make(task))
    return results


def test_values_of_all_operations(servers):
    with tf.Graph().as_default(), tf.Session(servers[0].target) as session:
        values = on_each(lambda task: tf.constant([[1.5 * task, 2.0]]))
        total = on_each(lambda task: collective_ops.all_reduce(values[task], WORKERS, 1, 1, "Add", "Div"))
        largest = on_each(lambda task: collective_ops.all_reduce(values[task], WORKERS, 1, 2, "Max", "Id"))
        all_of = on_each(lambda task: collective_ops.all_gather(values[task], WORKERS, 1, 3))
        sent = on_each(
            lambda task: collective_ops.broadcast_send(values[1], [1, 2], tf.float32, WORKERS, 1, 4)
            if task == 1
            else collective_ops.broadcast_recv([1, 2], tf.float32, WORKERS, 1, 4)
        )
        for got in session.run(total):
            np.testing.assert_array_equal(got, [[2.25, 2.0]])
        for got in session.run(largest):
            np.testing.assert_array_equal(got, [[4.5, 2.0]])
        for got in session.run(all_of):
            np.testing.assert_array_equal(got, [[0, 2], [1.5, 2], [3, 2], [4.5, 2]])
        for got in session.run(sent):
            np.testing.assert_array_equal(got, [[1.5, 2.0]])


def test_wrong_arguments():
    with pytest.raises(ValueError, match="at least 1"):
        collective_ops.all_reduce(tf.constant(1.0), 0, 1, 1, "Add", "Id")
    with pytest.raises(ValueError, match="at least 2"):
        collective_ops.broadcast_recv([1], tf.float32, 1, 1, 1)


def gradients(images, labels, weights, bias):
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=tf.matmul(images, weights) + bias
        )
    )
    return tf.gradients(loss, [weights, bias])


@pytest.fixture(scope="module")
def digits():
    """MNIST where it is, drawn digits elsewhere: images [n, 784] and labels, of training and of the test."""
    train, test, _ = mnist_data.load(generated=3000)
    return [
        (each.images.reshape(-1, PIXELS), np.argmax(each.labels, axis=1).astype(np.int32))
        for each in (train, test)
    ]


def make_variables(prefix):
    start = 0.01 * np.random.RandomState(5).randn(PIXELS, 10).astype(np.float32)
    return tf.Variable(start, name=prefix + "w"), tf.Variable(np.zeros(10, np.float32), name=prefix + "b")


def train_on(digits, session, feeds, split, steps, variables):
    session.run(tf.global_variables_initializer())
    all_images, all_labels = digits
    for begin in range(0, 60 * BATCH, BATCH):
        images, labels = all_images[begin : begin + BATCH], all_labels[begin : begin + BATCH]
        feed = {}
        for i, (x, y) in enumerate(feeds):
            feed[x], feed[y] = images[split * i : split * (i + 1)], labels[split * i : split * (i + 1)]
        session.run(steps, feed)
    return session.run(variables)


def test_training_on_four_tasks_is_bit_for_bit_that_of_one(servers, digits):
    split = BATCH // WORKERS

    def placeholders(_):
        return tf.placeholder(tf.float32, [split, PIXELS]), tf.placeholder(tf.int32, [split])

    with tf.Graph().as_default(), tf.Session(servers[0].target) as session:
        feeds = on_each(placeholders)
        variables = on_each(lambda task: make_variables("t%d" % task))
        found = on_each(lambda task: gradients(*feeds[task], *variables[task]))
        steps = on_each(
            lambda task: [
                v.assign_sub(0.1 * collective_ops.all_reduce(g, WORKERS, 7, 70 + i, "Add", "Div"))
                for i, (v, g) in enumerate(zip(variables[task], found[task]))
            ]
        )
        replicas = train_on(digits[0], session, feeds, split, steps, variables)
    with tf.Graph().as_default(), tf.Session() as session:
        feeds = [placeholders(i) for i in range(WORKERS)]
        alone = make_variables("")
        found = [gradients(*feed, *alone) for feed in feeds]
        steps = []
        for i, v in enumerate(alone):
            g = found[0][i]
            for others in found[1:]:
                g = g + others[i]
            steps.append(0.1 * (g / WORKERS))
        with tf.control_dependencies(steps):
            steps = [v.assign_sub(step) for v, step in zip(alone, steps)]
        wanted = train_on(digits[0], session, feeds, split, steps, alone)
    for replica in replicas:
        for got, want in zip(replica, wanted):
            np.testing.assert_array_equal(got, want)
    images, labels = digits[1]
    right = np.argmax(images @ wanted[0] + wanted[1], axis=1) == labels
    assert np.mean(right) > 0.7  # 0.78 of drawn digits, 0.83 of those of MNIST
