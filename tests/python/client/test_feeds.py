# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Session.run: what can be fed."""
from __future__ import annotations

import numpy as np
import pytest

import millrace as tf


def test_everything_that_becomes_an_array() -> None:
    p = tf.placeholder(tf.float32, [None])
    total = tf.reduce_sum(p)
    with tf.Session() as session:
        for value in (
            [1, 2],
            (1.0, 2.0),
            np.array([1, 2]),
            np.array([1.0, 2.0], np.float64),
            range(1, 3),
            np.float16([1, 2]),
        ):
            assert session.run(total, {p: value}) == 3.0
        assert session.run(total, feed_dict={"%s" % p.name: [4]}) == 4.0 and session.run(
            p, {p: [5.0]}
        ).tolist() == [5.0]
        assert session.run(total, {p: np.ones([8], np.float32)[::2]}) == 4.0
        assert (
            session.run(total, {p: np.arange(3, dtype=">f4")}) == 3.0 and session.run(total, {p: []}) == 0.0
        )


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
                                  "uint32", "uint64", "bool", "complex64", "complex128"])  # fmt: skip
def test_round_trip_of_all_types(kind: str) -> None:
    p = tf.placeholder(kind)
    array = (np.arange(6).reshape(2, 3) % 2).astype(kind)
    with tf.Session() as session:
        for value in (array, array[:, ::-1], array.T, array[0, 1], np.zeros([0, 2], kind)):
            found = session.run(tf.identity(p), {p: value})
            assert found.dtype == array.dtype
            np.testing.assert_array_equal(found, value)


def test_strings() -> None:
    p = tf.placeholder(tf.string)
    with tf.Session() as session:
        copy = tf.identity(p)
        assert (
            session.run(copy, {p: "text"}) == b"text" and session.run(copy, {p: b"\x00\xff"}) == b"\x00\xff"
        )
        assert session.run(copy, {p: ["é", b"b"]}).tolist() == ["é".encode(), b"b"]
        assert session.run(copy, {p: np.array(["abc", "d"])}).tolist() == [b"abc", b"d"]
        assert session.run(copy, {p: np.array([b"ab", b"c"])}).tolist() == [b"ab", b"c"]
        assert session.run(copy, {p: np.array([["x"], ["y"]], dtype=object)}).tolist() == [[b"x"], [b"y"]]


def test_any_tensor_can_be_fed() -> None:
    a = tf.constant([1.0, 2.0])
    b = a * 2.0
    c = b + 1.0
    with tf.Session() as session:
        assert session.run(c, {b: [10.0, 20.0]}).tolist() == [11.0, 21.0]
        assert session.run([a, c], {a: [0.0, 0.0]})[1].tolist() == [1.0, 1.0]
        assert session.run(c).tolist() == [3.0, 5.0]
    tf.get_default_graph().prevent_feeding(b)
    with tf.Session() as session:
        with pytest.raises(ValueError, match="Tensor .* may not be fed."):
            session.run(c, {b: [1.0, 1.0]})


def test_composites() -> None:
    indices, values, shape = np.array([[0, 1], [2, 0]]), np.array([1.0, 2.0], np.float32), np.array([3, 2])
    sparse = tf.sparse_placeholder(tf.float32)
    dense = tf.sparse_tensor_to_dense(sparse, validate_indices=False)
    with tf.Session() as session:
        for value in (tf.SparseTensorValue(indices, values, shape), (indices, values, shape)):
            assert session.run(dense, {sparse: value}).tolist() == [[0, 1], [0, 0], [2, 0]]
        assert session.run(
            sparse, {sparse: tf.SparseTensorValue(indices, values, shape)}
        ).values.tolist() == [1, 2]
        slices = tf.IndexedSlices(
            tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int64), tf.placeholder(tf.int64)
        )
        doubled = slices.values * 2.0
        assert session.run(doubled, {slices: (values, np.array([1, 2]), np.array([5]))}).tolist() == [
            2.0,
            4.0,
        ]
        two = tf.IndexedSlices(tf.placeholder(tf.float32), tf.placeholder(tf.int64))
        assert session.run(two, {two: (values, np.array([1, 2]))}).indices.tolist() == [1, 2]


def test_nested_keys() -> None:
    a, b, c = tf.placeholder(tf.float32), tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    with tf.Session() as session:
        assert session.run(a + b * c, {(a, (b, c)): (1.0, (2.0, 3.0))}) == 7.0
        with pytest.raises(ValueError, match="Could not flatten dictionary"):
            session.run(a, {(a, b): (1.0,)})


def test_wrong_feeds() -> None:
    p, q = tf.placeholder(tf.float32, [2, None], name="p"), tf.placeholder(tf.int8, [], name="q")
    with tf.Session() as session:
        with pytest.raises(ValueError) as caught:
            session.run(p, {p: np.ones(3)})
        assert (
            str(caught.value) == "Cannot feed value of shape (3,) for Tensor 'p:0', which has shape '(2, ?)'"
        )
        with pytest.raises(TypeError, match="The value of a feed cannot be a tf.Tensor object."):
            session.run(p, {p: tf.ones([2, 2])})
        with pytest.raises(
            TypeError,
            match="Cannot interpret feed_dict key as Tensor: The name 'nothing:0' refers to a Tensor which",
        ):
            session.run(p, {"nothing:0": 1.0})
        with pytest.raises(
            TypeError, match="Cannot interpret feed_dict key as Tensor: Can not convert a int into a Tensor."
        ):
            session.run(p, {3: 1.0})
        with pytest.raises(TypeError, match="Cannot interpret feed_dict key as Tensor"):
            session.run(p, {p.op: 1.0})
        with pytest.raises(
            TypeError,
            match="Type of feed value 300 with type <class 'int'> is not compatible with Tensor type",
        ):
            session.run(q, {q: 300})
        with pytest.raises(ValueError):
            session.run(p, {p: "text"})
        with pytest.raises((ValueError, TypeError)):
            session.run(p, {p: None})
        with tf.Graph().as_default():
            foreign = tf.placeholder(tf.float32)
        with pytest.raises(
            TypeError,
            match="Cannot interpret feed_dict key as Tensor: Tensor .* is not an element of this graph.",
        ):
            session.run(p, {foreign: 1.0})
        with pytest.raises((TypeError, AttributeError)):
            session.run(p, [p, 1.0])


def test_missing_feeds() -> None:
    known, unknown = tf.placeholder(tf.float32, [None, 3], name="known"), tf.placeholder(
        tf.int32, name="unknown"
    )
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(known + 1.0)
        assert (
            "You must feed a value for placeholder tensor 'known' with dtype float and shape [?,3]"
            in caught.value.message
        )
        assert caught.value.op is known.op
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match="You must feed a value for placeholder tensor 'unknown' with dtype int32",
        ):
            session.run(unknown + 1)


def test_large_arrays_are_not_changed() -> None:
    p = tf.placeholder(tf.float32, [None])
    bump = tf.Variable(tf.zeros([1 << 18]), trainable=False)
    total = tf.assign_add(bump, p)
    array = np.ones(1 << 18, np.float32)
    with tf.Session() as session:
        session.run(bump.initializer)
        session.run(total, {p: array})
        assert (session.run(total, {p: array}) == 2).all() and (array == 1).all()
        out = session.run(tf.identity(p), {p: array})
        out[:] = 7
        assert (array == 1).all()


def test_values_in_the_place_of_reference_variables() -> None:
    v = tf.Variable([1.0, 2.0], use_resource=False)
    count = tf.Variable(3, use_resource=False)
    doubled, next_count, changed = v * 2.0, count + 1, v.assign_add([1.0, 1.0])
    (gradient,) = tf.gradients(tf.reduce_sum(v * v), [v])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(doubled, {v: [5.0, 6.0]}).tolist() == [10.0, 12.0]
        assert session.run([v, next_count], {v: [5.0, 6.0], count: 7})[1] == 8
        assert session.run(gradient, {v: np.float32([7, 8])}).tolist() == [14.0, 16.0]
        assert session.make_callable(doubled, feed_list=[v])(np.float32([9, 9])).tolist() == [18.0, 18.0]
        with pytest.raises(tf.errors.InvalidArgumentError, match="incompatible with expected float_ref"):
            session.run(changed, {v: [5.0, 6.0]})
        with pytest.raises(ValueError, match="Cannot feed value of shape"):
            session.run(doubled, {v: [1.0, 2.0, 3.0]})
        assert session.run(v).tolist() == [1.0, 2.0]
