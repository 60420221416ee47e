# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Shapes that depend on values which are known from the graph alone."""

import millrace as tf
import numpy as np
import pytest


def x(*sizes):
    return tf.placeholder(tf.float32, sizes or None)


def sparse(shape):
    return tf.SparseTensor(tf.placeholder(tf.int64, [None, len(shape)]), x(None), shape)


def index(vector):
    return tf.placeholder(tf.int32, vector)


# What is made, and its shape; None: unknown.
CASES = {
    "arithmetic on a known shape": (lambda: tf.fill(tf.shape(x(2, 3)) * 2, 1.0), [4, 6]),
    "minimum": (lambda: tf.zeros([tf.minimum(tf.shape(x(2, 3))[0], 5)]), [2]),
    "floor division": (lambda: tf.zeros([tf.shape(x(8, 3))[0] // 3]), [2]),
    "casts through floats": (lambda: tf.zeros(tf.cast(tf.constant([2.5, 3.7]), tf.int32)), [2, 3]),
    "a product of sizes": (
        lambda: tf.reshape(x(2, 3, 4), [tf.reduce_prod(tf.shape(x(2, 3, 4))[:2]), -1]),
        [6, 4],
    ),
    "gathered sizes": (lambda: tf.zeros(tf.gather(tf.shape(x(2, 3, 4)), [2, 0])), [4, 2]),
    "the number of elements of a range": (lambda: tf.range(tf.shape(x(4, 3))[0] * 3 + 1), [13]),
    "a range backwards as permutation": (
        lambda: tf.transpose(x(2, 3, 4), tf.range(tf.rank(x(2, 3, 4)))[::-1]),
        [4, 3, 2],
    ),
    "a range of axes": (lambda: tf.reduce_sum(x(2, 3, 4), tf.range(1, tf.rank(x(2, 3, 4)))), [2]),
    "a computed axis": (lambda: tf.split(x(6, 4), 3, axis=tf.constant(1) - 1)[1], [2, 4]),
    "packs of packs": (lambda: tf.pad(x(2, 5), [[1, 1], [2, tf.shape(x(2, 3))[0]]]), [4, 9]),
    "sizes of an image": (
        lambda: tf.image.resize_bilinear(x(None, 8, 9, 3), tf.shape(x(None, 8, 9, 3))[1:3] * 2),
        [None, 16, 18, 3],
    ),
    "a computed block shape": (
        lambda: tf.space_to_batch_nd(x(2, 4, 6, 1), tf.constant([2, 2]) * 1, [[0, 0], [0, 0]]),
        [8, 2, 3, 1],
    ),
    "constant indices of a stitch": (
        lambda: tf.dynamic_stitch([[0, 5], [1]], [x(2, 3), x(1, 3)]),
        [6, 3],
    ),
    "no constant indices": (lambda: tf.dynamic_stitch([index([2]), [1]], [x(2, 3), x(1, 3)]), [None, 3]),
    "a partly known value": (lambda: tf.ones([index([]), 7]), [None, 7]),
    "a partly known shape, concatenated": (
        lambda: tf.zeros(tf.concat([tf.shape(x(None, 3)), [tf.constant(2) + 3]], 0)),
        [None, 3, 5],
    ),
    "a partly known shape, multiplied": (lambda: tf.zeros(tf.shape(x(None, 3)) * 2), [None, None]),
    "sizes of a joined sparse tensor": (lambda: tf.sparse_concat(0, [sparse([3, 4])] * 2).indices, [None, 2]),
    "random numbers are not constant": (
        lambda: tf.zeros([tf.random_uniform([], 1, 5, tf.int32)]),
        [None],
    ),
    "branches are not constant": (
        lambda: tf.zeros(
            [tf.cond(tf.constant(True), lambda: tf.constant(2), lambda: tf.constant(3)), tf.constant(4)]
        ),
        [None, 4],
    ),
    "large tensors are not computed": (
        lambda: tf.zeros([tf.size(tf.fill([3000, 3000], 1)), tf.reduce_max(tf.range(100000))]),
        [9000000, None],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_shapes_of_computed_values(case):
    make, expected = CASES[case]
    with tf.Graph().as_default():
        assert make().shape.as_list() == expected


def test_values_are_what_the_graph_gives_when_it_runs():
    with tf.Graph().as_default():
        base = tf.shape(x(7, 5))
        sizes = tf.stack([base[0] % 3 + 1, tf.cast(tf.sqrt(16.0), tf.int32), tf.reduce_max(base) - 4])
        y = tf.zeros(sizes)
        assert y.shape.as_list() == [2, 4, 3]
        with tf.Session() as session:
            assert session.run(y).shape == (2, 4, 3)
            np.testing.assert_array_equal(session.run(sizes), [2, 4, 3])


def test_errors_of_kernels_leave_the_shape_unknown():
    with tf.Graph().as_default():
        y = tf.zeros([tf.constant(1) // tf.constant(0)])
        assert y.shape.as_list() == [None]
        with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="by zero"):
            session.run(y)


def test_an_input_that_is_replaced_counts():
    with tf.Graph().as_default() as graph:
        a, b = tf.constant(2), tf.constant(5)
        total = a + 1
        assert tf.zeros([total]).shape.as_list() == [3]
        total.op._update_input(0, b)
        assert tf.zeros([total]).shape.as_list() == [6]
        assert graph is tf.get_default_graph()


@pytest.mark.parametrize("length, size", [(20, 21), (2000, None)])
def test_long_chains_are_given_up(length, size):
    with tf.Graph().as_default():
        value = tf.constant(1)
        for _ in range(length):
            value = value + value * 0 + 1
        assert tf.zeros([value]).shape.as_list() == [size]
