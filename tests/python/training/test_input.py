# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Queues that are filled by threads: runners, producers, batches."""

import collections

import numpy as np
import pytest

import millrace as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


class Running:
    """A session with all queue runners started, and joined at the end."""

    def __enter__(self):
        self.sess = tf.Session()
        self.sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        self.coord = tf.train.Coordinator()
        self.threads = tf.train.start_queue_runners(self.sess, self.coord)
        return self.sess

    def __exit__(self, kind, value, trace):
        self.coord.request_stop()
        self.coord.join(self.threads, stop_grace_period_secs=30)
        self.sess.close()


def rest(sess, fetch):
    """All values until the end of the input."""
    found = []
    with pytest.raises(tf.errors.OutOfRangeError):
        while len(found) < 1000:
            found.append(sess.run(fetch))
    return found


def test_strings_in_order_and_shuffled():
    names = [b"xy%d" % i for i in range(5)]
    plain = tf.train.string_input_producer(names, num_epochs=2, shuffle=False)
    mixed = tf.train.string_input_producer(names, num_epochs=3, shuffle=True, seed=3)
    one, two = plain.dequeue(), mixed.dequeue()
    with Running() as sess:
        assert rest(sess, one) == names * 2
        got = rest(sess, two)
        assert (
            len(got) == 15 and all(sorted(got[i : i + 5]) == names for i in (0, 5, 10)) and got != names * 3
        )


def test_empty_string_list_is_refused():
    with pytest.raises(ValueError, match="string_input_producer requires a non-null input tensor"):
        tf.train.string_input_producer([])
    empty = tf.train.string_input_producer(tf.constant([], dtype=tf.string))
    value = empty.dequeue()
    coord = tf.train.Coordinator()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        threads = tf.train.start_queue_runners(sess, coord)
        with pytest.raises(tf.errors.OutOfRangeError):
            sess.run(value)
        with pytest.raises(tf.errors.InvalidArgumentError, match="string_input_producer requires a non-null"):
            coord.join(threads, stop_grace_period_secs=30)


def test_ranges():
    numbers = tf.train.range_input_producer(4, num_epochs=2, shuffle=False).dequeue()
    with Running() as sess:
        assert rest(sess, numbers) == [0, 1, 2, 3] * 2


def test_slices():
    a, b = tf.train.slice_input_producer(
        [tf.constant([b"A", b"B", b"C"]), tf.range(3)], num_epochs=2, shuffle=False
    )
    assert a.get_shape() == b.get_shape() == []
    with Running() as sess:
        assert rest(sess, [a, b]) == [[x, i] for i, x in enumerate([b"A", b"B", b"C"])] * 2


def test_the_producer_of_slices_needs_input():
    with pytest.raises(ValueError, match="Expected at least one tensor"):
        tf.train.slice_input_producer([])


def test_input_producer_cycles_and_checks_shapes():
    rows = tf.train.input_producer(tf.constant([[1, 2], [3, 4]]), shuffle=False).dequeue()
    assert rows.get_shape() == [2]
    with Running() as sess:
        assert [sess.run(rows).tolist() for _ in range(5)] == [[1, 2], [3, 4]] * 2 + [[1, 2]]
    with pytest.raises(ValueError):
        tf.train.input_producer(tf.placeholder(tf.float32))


def test_limit_epochs():
    twice = tf.train.limit_epochs(tf.constant(7), num_epochs=2)
    forever = tf.train.limit_epochs(tf.constant(7))
    with pytest.raises(ValueError, match="must be > 0"):
        tf.train.limit_epochs(tf.constant(7), num_epochs=0)
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        assert rest(sess, twice) == [7, 7] and sess.run(forever) == 7


def test_matching_files(tmp_path):
    for name in ("a1", "a2", "b"):
        (tmp_path / name).write_text("")
    found = tf.train.match_filenames_once(str(tmp_path / "a*"))
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        assert sorted(sess.run(found)) == [str(tmp_path / n).encode() for n in ("a1", "a2")]


def counter(n, dtype=tf.int64):
    """0, 1, ..., n-1 and then the end."""
    return tf.cast(tf.train.range_input_producer(n, num_epochs=1, shuffle=False).dequeue(), dtype)


def test_batches_in_order():
    number = counter(6)
    batch = tf.train.batch([number, tf.stack([number, -number])], batch_size=2)
    assert [b.get_shape().as_list() for b in batch] == [[2], [2, 2]]
    with Running() as sess:
        got = rest(sess, batch)
    assert [g[0].tolist() for g in got] == [[0, 1], [2, 3], [4, 5]] and got[1][1].tolist() == [
        [2, -2],
        [3, -3],
    ]


def test_last_batch_may_be_smaller():
    number = counter(5)
    batch = tf.train.batch({"x": number}, batch_size=2, allow_smaller_final_batch=True)
    assert batch["x"].get_shape().as_list() == [None]
    with Running() as sess:
        assert [g["x"].tolist() for g in rest(sess, batch)] == [[0, 1], [2, 3], [4]]


def test_batches_are_padded():
    number = counter(4, tf.int32)
    batch = tf.train.batch([tf.range(number)], batch_size=4, dynamic_pad=True, shapes=[[None]])
    with Running() as sess:
        assert sess.run(batch).tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 2]]


def test_enqueue_many():
    batch = tf.train.batch([tf.constant([1, 2, 3])], batch_size=2, enqueue_many=True)
    with Running() as sess:
        assert [sess.run(batch).tolist() for _ in range(3)] == [[1, 2], [3, 1], [2, 3]]


def test_shuffled_batches_hold_everything_once():
    number = counter(30)
    batch = tf.train.shuffle_batch([number, number * 2], 5, capacity=12, min_after_dequeue=6, seed=1)
    with Running() as sess:
        got = rest(sess, batch)
    numbers = np.concatenate([g[0] for g in got])
    assert sorted(numbers) == list(range(30)) and numbers.tolist() != list(range(30))
    np.testing.assert_array_equal(np.concatenate([g[1] for g in got]), 2 * numbers)


@pytest.mark.parametrize("shuffle", [False, True])
def test_several_sources_are_joined(shuffle):
    sources = [[counter(8), tf.constant(b"a")], [counter(8), tf.constant(b"b")]]
    if shuffle:
        batch = tf.train.shuffle_batch_join(sources, 4, capacity=10, min_after_dequeue=3)
    else:
        batch = tf.train.batch_join(sources, 4)
    with Running() as sess:
        got = rest(sess, batch)
    pairs = collections.Counter((n, s) for g in got for n, s in zip(*[x.tolist() for x in g]))
    assert pairs == {(n, s): 1 for n in range(8) for s in (b"a", b"b")}


def test_maybe_batches_keep_some():
    number = counter(10)
    batch = tf.train.maybe_batch([number], tf.equal(number % 2, 0), batch_size=5)
    with Running() as sess:
        assert rest(sess, batch)[0].tolist() == [0, 2, 4, 6, 8]


def test_maybe_shuffled_and_joined():
    number, other = counter(10), counter(10)
    keep = tf.less(number, 4)
    shuffled = tf.train.maybe_shuffle_batch([number], 4, 10, 2, keep)
    joined = tf.train.maybe_batch_join([[other]], tf.less(other, 4), 4)
    with Running() as sess:
        assert sorted(rest(sess, shuffled)[0].tolist()) == [0, 1, 2, 3]
        assert sorted(rest(sess, joined)[0].tolist()) == [0, 1, 2, 3]


def test_sparse_tensors_in_batches():
    number = counter(4)
    sparse = tf.SparseTensor(tf.stack([[number, number]]), tf.stack([number]), [8, 8])
    batch, same = tf.train.batch([sparse, number], batch_size=2)
    with Running() as sess:
        value, numbers = sess.run([batch, same])
    assert numbers.tolist() == [0, 1]
    assert value.indices.tolist() == [[0, 0, 0], [1, 1, 1]] and value.values.tolist() == [0, 1]
    assert value.dense_shape.tolist() == [2, 8, 8]


def test_wrong_arguments():
    with pytest.raises(ValueError, match="Cannot infer Tensor's rank|All shapes must be fully defined"):
        tf.train.batch([tf.placeholder(tf.float32)], 2)
    with pytest.raises(ValueError):
        tf.train.batch([], 2)
    with pytest.raises(ValueError):
        tf.train.shuffle_batch_join([[1.0], [1.0, 2.0]], 2, 10, 3)
    with pytest.raises(TypeError):
        tf.train.batch_join([[1.0], [2]], 2)


def test_queue_runner_runs_and_stops():
    counter_var = tf.Variable(0, dtype=tf.int64)
    queue = tf.FIFOQueue(10, tf.float32)
    add = counter_var.count_up_to(3)
    runner = tf.train.QueueRunner(queue, [add])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for thread in runner.create_threads(sess, start=True):
            thread.join(30)
            assert not thread.is_alive()
        assert runner.exceptions_raised == [] and sess.run(counter_var) == 3
        assert sess.run(queue.is_closed())


def test_queue_runner_reports_errors():
    queue = tf.FIFOQueue(10, tf.float32)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(tf.placeholder(tf.float32))])
    with tf.Session() as sess:
        for thread in runner.create_threads(sess, start=True):
            thread.join(30)
        (error,) = runner.exceptions_raised
        assert isinstance(error, tf.errors.InvalidArgumentError)
        coord = tf.train.Coordinator()
        threads = runner.create_threads(sess, coord=coord, start=True)
        with pytest.raises(tf.errors.InvalidArgumentError):
            coord.join(threads, stop_grace_period_secs=30)


def test_queue_runner_definition_round_trip():
    queue = tf.FIFOQueue(10, tf.float32, name="queue")
    enqueue = queue.enqueue(1.0, name="enqueue")
    runner = tf.train.QueueRunner(
        queue, [enqueue], queue_closed_exception_types=(tf.errors.OutOfRangeError, tf.errors.CancelledError)
    )
    definition = runner.to_proto()
    assert definition.queue_name == "queue" and list(definition.enqueue_op_name) == ["enqueue"]
    again = tf.train.QueueRunner.from_proto(definition)
    assert again.queue_closed_exception_types == runner.queue_closed_exception_types
    assert again.to_proto() == definition and again.name == "queue"
    with pytest.raises(ValueError):
        tf.train.QueueRunner(queue)
    with pytest.raises(ValueError):
        tf.train.QueueRunner()


def test_collected_runners_start_once():
    queue = tf.FIFOQueue(5, tf.float32, shapes=[[]])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(1.0)] * 2))
    assert len(tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)) == 1
    with tf.Session() as sess:
        with pytest.raises(TypeError, match="sess must be a"):
            tf.train.start_queue_runners("nope")
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coord)
        assert tf.train.start_queue_runners(sess, coord) == []
        sess.run(queue.dequeue_many(20))
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=30)
    with pytest.raises(ValueError, match="No default session"):
        tf.train.start_queue_runners()


def test_names_of_files_may_be_a_variable(tmp_path):
    for name in ("a1", "a2", "b1"):
        (tmp_path / name).write_text("x")
    names = tf.train.match_filenames_once(str(tmp_path / "a*"))
    queue = tf.train.string_input_producer(names, shuffle=False, num_epochs=1)
    value = queue.dequeue()
    with Running() as sess:
        assert rest(sess, value) == [str(tmp_path / "a1").encode(), str(tmp_path / "a2").encode()]
    with pytest.raises(ValueError, match="requires a non-null input tensor"):
        tf.train.string_input_producer([])
