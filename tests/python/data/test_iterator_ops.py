# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Iterators of all kinds."""
import threading

import numpy as np
import pytest

import millrace as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def drain(sess, fetch):
    out = []
    while True:
        try:
            out.append(sess.run(fetch))
        except tf.errors.OutOfRangeError:
            return out


def test_initializable_iterators_start_again():
    count = tf.placeholder(tf.int64, [])
    iterator = tf.data.Dataset.range(count).make_initializable_iterator()
    get_next = iterator.get_next()
    with tf.Session() as sess:
        with pytest.raises(tf.errors.FailedPreconditionError, match="has not been initialized"):
            sess.run(get_next)
        for n in (2, 4):
            sess.run(iterator.initializer, {count: n})
            assert drain(sess, get_next) == list(range(n))


def test_iterators_of_a_structure_take_several_datasets():
    iterator = tf.data.Iterator.from_structure(tf.int64, tf.TensorShape([]))
    first = iterator.make_initializer(tf.data.Dataset.range(2))
    second = iterator.make_initializer(tf.data.Dataset.range(10, 13))
    get_next = iterator.get_next()
    with tf.Session() as sess:
        sess.run(first)
        assert drain(sess, get_next) == [0, 1]
        sess.run(second)
        assert drain(sess, get_next) == [10, 11, 12]
    with pytest.raises(TypeError):
        iterator.make_initializer(tf.data.Dataset.from_tensors(1.0))


def test_feedable_iterators():
    handle = tf.placeholder(tf.string, [])
    one = tf.data.Dataset.range(3).make_one_shot_iterator()
    two = tf.data.Dataset.range(10, 13).make_one_shot_iterator()
    get_next = tf.data.Iterator.from_string_handle(handle, one.output_types, one.output_shapes).get_next()
    with tf.Session() as sess:
        a, b = sess.run([one.string_handle(), two.string_handle()])
        assert [sess.run(get_next, {handle: h}) for h in (a, b, a, b, a)] == [0, 10, 1, 11, 2]
        with pytest.raises(tf.errors.InvalidArgumentError):
            sess.run(get_next, {handle: "nonsense"})


def test_one_shot_iterators_have_no_initializer():
    with pytest.raises(ValueError, match="does not have an initializer"):
        tf.data.Dataset.range(2).make_one_shot_iterator().initializer  # noqa: B018


def test_optionals():
    iterator = tf.data.Dataset.range(1).make_initializable_iterator()
    optional = tf.data.experimental.get_next_as_optional(iterator)
    has, value = optional.has_value(), optional.get_value()
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        assert sess.run([has, value]) == [True, 0]
        assert not sess.run(has)
        with pytest.raises(tf.errors.InvalidArgumentError, match="does not have a value"):
            sess.run(value)
    made = tf.data.experimental.Optional.from_value((1, 2.0))
    with tf.Session() as sess:
        assert sess.run(made.get_value()) == (1, 2.0)


def test_saved_iterators_go_on(tmp_path):
    dataset = (
        tf.data.Dataset.range(10).shuffle(4, seed=1).map(lambda x: x * x, num_parallel_calls=2).prefetch(2)
    )
    iterator = dataset.make_initializable_iterator()
    get_next = iterator.get_next()
    saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
    saver = tf.train.Saver([saveable])
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        before = [sess.run(get_next) for _ in range(4)]
        path = saver.save(sess, str(tmp_path / "it"))
        rest = drain(sess, get_next)
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        saver.restore(sess, path)
        assert drain(sess, get_next) == rest
    assert sorted(before + rest) == [i * i for i in range(10)]


def test_a_run_that_waits_can_be_interrupted():
    started, go_on = threading.Event(), threading.Event()

    def wait():
        started.set()
        go_on.wait(30)
        return np.int64(1)

    dataset = tf.data.Dataset.range(2).map(lambda x: tf.py_func(wait, [], tf.int64)).prefetch(1)
    iterator = dataset.make_initializable_iterator()
    get_next = iterator.get_next()
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        # On a busy machine the time may be over before the iterator is reached.
        for _ in range(100):
            with pytest.raises(tf.errors.DeadlineExceededError):
                sess.run(get_next, options=tf.RunOptions(timeout_in_ms=50))
            if started.is_set():
                break
        assert started.is_set()
        go_on.set()
        assert drain(sess, get_next) == [1, 1]


def test_many_threads_share_an_iterator():
    get_next = tf.data.Dataset.range(200).prefetch(3).make_one_shot_iterator().get_next()
    got, lock = [], threading.Lock()
    with tf.Session() as sess:

        def work():
            mine = drain(sess, get_next)
            with lock:
                got.extend(mine)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert sorted(got) == list(range(200))
