# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""CIFAR-10 in the style of the tutorial, part input."""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function
import os
from six.moves import xrange
import tensorflow as tf

IMAGE_SIZE = 24
NUM_CLASSES = 10
NUM_EXAMPLES_PER_EPOCH_FOR_TRAIN = 100


def read_cifar10(filename_queue):
    class CIFAR10Record(object):
        pass

    result = CIFAR10Record()
    label_bytes = 1
    result.height = 32
    result.width = 32
    result.depth = 3
    image_bytes = result.height * result.width * result.depth
    record_bytes = label_bytes + image_bytes
    reader = tf.FixedLengthRecordReader(record_bytes=record_bytes)
    result.key, value = reader.read(filename_queue)
    record_bytes = tf.decode_raw(value, tf.uint8)
    result.label = tf.cast(tf.strided_slice(record_bytes, [0], [label_bytes]), tf.int32)
    depth_major = tf.reshape(
        tf.strided_slice(record_bytes, [label_bytes], [label_bytes + image_bytes]),
        [result.depth, result.height, result.width],
    )
    result.uint8image = tf.transpose(depth_major, [1, 2, 0])
    return result


def _batch(image, label, min_queue_examples, batch_size, shuffle):
    n = 4
    if shuffle:
        images, label_batch = tf.train.shuffle_batch(
            [image, label],
            batch_size=batch_size,
            num_threads=n,
            capacity=min_queue_examples + 3 * batch_size,
            min_after_dequeue=min_queue_examples,
        )
    else:
        images, label_batch = tf.train.batch(
            [image, label], batch_size=batch_size, num_threads=n, capacity=min_queue_examples + 3 * batch_size
        )
    tf.summary.image("images", images)
    return images, tf.reshape(label_batch, [batch_size])


def distorted_inputs(data_dir, batch_size):
    filenames = [os.path.join(data_dir, "data_batch_%d.bin" % i) for i in xrange(1, 3)]
    for f in filenames:
        if not tf.gfile.Exists(f):
            raise ValueError("Failed to find file: " + f)
    filename_queue = tf.train.string_input_producer(filenames)
    with tf.name_scope("data_augmentation"):
        read_input = read_cifar10(filename_queue)
        reshaped_image = tf.cast(read_input.uint8image, tf.float32)
        height = IMAGE_SIZE
        width = IMAGE_SIZE
        distorted = tf.random_crop(reshaped_image, [height, width, 3])
        distorted = tf.image.random_flip_left_right(distorted)
        distorted = tf.image.random_brightness(distorted, max_delta=63)
        distorted = tf.image.random_contrast(distorted, lower=0.2, upper=1.8)
        float_image = tf.image.per_image_standardization(distorted)
        float_image.set_shape([height, width, 3])
        read_input.label.set_shape([1])
        min_queue = int(NUM_EXAMPLES_PER_EPOCH_FOR_TRAIN * 0.4)
        print("Filling queue with %d CIFAR images before starting to train." % min_queue)
    return _batch(float_image, read_input.label, min_queue, batch_size, shuffle=True)


def inputs(eval_data, data_dir, batch_size):
    filenames = [os.path.join(data_dir, "test_batch.bin")]
    filename_queue = tf.train.string_input_producer(filenames, shuffle=False)
    read_input = read_cifar10(filename_queue)
    img = tf.cast(read_input.uint8image, tf.float32)
    img = tf.image.resize_image_with_crop_or_pad(img, IMAGE_SIZE, IMAGE_SIZE)
    img = tf.image.per_image_standardization(img)
    img.set_shape([IMAGE_SIZE, IMAGE_SIZE, 3])
    read_input.label.set_shape([1])
    return _batch(img, read_input.label, 20, batch_size, shuffle=False)
