# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Repeated execution does not leak memory."""
import gc

import millrace as tf
import pytest

pytestmark = pytest.mark.usefixtures("eager")


def resident():
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def train():
    v = tf.Variable(tf.ones([10, 10]))
    optimizer = tf.train.AdamOptimizer(0.1)
    for _ in range(5):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.matmul(v, v) ** 2)
            grad = tape.gradient(loss, v)
        outer.gradient(grad, v)
        optimizer.apply_gradients([(grad, v)])


def loop():
    array = tf.TensorArray(tf.float32, 3)
    for i in range(3):
        array = array.write(i, tf.constant(float(i))[tf.newaxis])
    array.stack()
    for _ in tf.data.Dataset.range(2):
        pass
    tf.py_func(lambda x: x, [tf.ones([2])], tf.float32)


@pytest.mark.parametrize("work, rounds", [(train, 40), (loop, 100)])
def test_flat(work, rounds):
    for _ in range(rounds):
        work()
    before = resident()
    for _ in range(4 * rounds):
        work()
    # A leak of one small object a round would be larger.
    assert resident() - before < 2 << 20
