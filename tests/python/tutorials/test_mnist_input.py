# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Reading MNIST in the way of the tutorials."""
import gzip
import struct

import numpy as np
import pytest

import millrace as tf
from millrace.examples.tutorials.mnist import input_data, mnist


def write(folder, train=30, test=7):
    random = np.random.RandomState(3)
    made = {}
    for name, count in (("train", train), ("t10k", test)):
        images = random.randint(0, 256, (count, 28, 28)).astype(np.uint8)
        labels = np.arange(count, dtype=np.uint8) % 10
        with gzip.open(folder / f"{name}-images-idx3-ubyte.gz", "wb") as file:
            file.write(struct.pack(">4I", 2051, count, 28, 28) + images.tobytes())
        with gzip.open(folder / f"{name}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">2I", 2049, count) + labels.tobytes())
        made[name] = images, labels
    return made


def test_values_and_splits(tmp_path):
    made = write(tmp_path)
    data = input_data.read_data_sets(str(tmp_path), validation_size=10)
    assert (data.train.num_examples, data.validation.num_examples, data.test.num_examples) == (20, 10, 7)
    assert data.train.images.dtype == np.float32 and data.train.images.shape == (20, 784)
    np.testing.assert_allclose(data.train.images[0], made["train"][0][10].ravel() / 255.0, rtol=1e-6)
    np.testing.assert_array_equal(data.validation.labels, made["train"][1][:10])
    hot = input_data.read_data_sets(
        str(tmp_path), one_hot=True, reshape=False, dtype=tf.uint8, validation_size=0
    )
    assert hot.test.images.shape == (7, 28, 28, 1) and hot.test.images.dtype == np.uint8
    np.testing.assert_array_equal(hot.test.labels, np.eye(10)[:7])


def test_batches_cover_each_epoch(tmp_path):
    write(tmp_path)
    train = input_data.read_data_sets(str(tmp_path), validation_size=0).train
    seen = np.concatenate([train.next_batch(10)[1] for _ in range(3)])
    assert sorted(seen) == sorted(np.arange(30) % 10)
    images, labels = train.next_batch(45)
    assert images.shape == (45, 784) and labels.shape == (45,) and train.epochs_completed == 2
    plain = input_data.read_data_sets(str(tmp_path), validation_size=0).train
    np.testing.assert_array_equal(plain.next_batch(12, shuffle=False)[1], np.arange(12) % 10)


def test_errors(tmp_path):
    write(tmp_path)
    with pytest.raises(ValueError, match="Validation size should be between 0 and 30. Received: 31."):
        input_data.read_data_sets(str(tmp_path), validation_size=31)
    with gzip.open(tmp_path / "train-labels-idx1-ubyte.gz", "wb") as file:
        file.write(b"\0" * 8)
    with pytest.raises(ValueError, match="Invalid magic number 0 in MNIST label file"):
        input_data.read_data_sets(str(tmp_path))
    with pytest.raises(TypeError, match="Invalid image dtype"):
        input_data.DataSet(np.zeros((1, 28, 28, 1)), np.zeros(1), dtype=tf.int32)
    with pytest.raises(OSError, match="cannot be fetched"):
        input_data.maybe_download("none", str(tmp_path / "new"), (tmp_path / "nothing").as_uri())


def test_fake_data():
    data = input_data.read_data_sets("", fake_data=True, one_hot=True)
    images, labels = data.train.next_batch(3)
    assert np.shape(images) == (3, 784) and labels == [[1] + [0] * 9] * 3


def test_model_learns_a_batch():
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        images = np.random.RandomState(0).randn(20, 784).astype(np.float32)
        labels = np.arange(20) % 10
        x, y = tf.placeholder(tf.float32, [None, 784]), tf.placeholder(tf.int32, [None])
        logits = mnist.inference(x, 32, 16)
        loss = mnist.loss(logits, y)
        step, right = mnist.training(loss, 0.1), mnist.evaluation(logits, y)
        session.run(tf.global_variables_initializer())
        for _ in range(200):
            session.run(step, {x: images, y: labels})
        assert session.run(right, {x: images, y: labels}) == 20
