# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Datasets compared with plain Python over the same elements."""
import collections

import numpy as np
import pytest

import millrace as tf


def elements(dataset, limit=1000):
    """The elements of a one-shot iterator."""
    get_next = dataset.make_one_shot_iterator().get_next()
    out = []
    with tf.Session() as sess:
        while len(out) < limit:
            try:
                out.append(sess.run(get_next))
            except tf.errors.OutOfRangeError:
                return out
    return out


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def test_range():
    assert elements(tf.data.Dataset.range(4)) == [0, 1, 2, 3]
    assert elements(tf.data.Dataset.range(2, 4)) == [2, 3]
    assert elements(tf.data.Dataset.range(5, 0, -2)) == [5, 3, 1]


def test_structures_come_out_as_they_went_in():
    point = collections.namedtuple("Point", ["x", "y"])
    dataset = tf.data.Dataset.from_tensors({"a": point(1, 2.0), "b": (tf.constant("s"), [1, 2])})
    (got,) = elements(dataset)
    assert isinstance(got["a"], point) and got["a"].x == 1 and got["a"].y == 2.0
    assert got["b"][0] == b"s"
    np.testing.assert_array_equal(got["b"][1], [1, 2])
    assert dataset.output_types == {"a": point(tf.int32, tf.float32), "b": (tf.string, tf.int32)}
    assert dataset.output_shapes["b"][1].as_list() == [2]
    assert dataset.output_classes["a"].x is tf.Tensor


def test_slices():
    x = np.arange(6).reshape(3, 2)
    got = elements(tf.data.Dataset.from_tensor_slices((x, ["a", "b", "c"])))
    assert [list(a) for a, _ in got] == x.tolist()
    assert [b for _, b in got] == [b"a", b"b", b"c"]


def test_slices_need_one_size():
    with pytest.raises(ValueError):
        tf.data.Dataset.from_tensor_slices((np.zeros(3), np.zeros(4)))


def test_sparse_slices():
    sparse = tf.SparseTensor([[0, 1], [2, 0], [2, 3]], [1.0, 2.0, 3.0], [3, 4])
    got = elements(tf.data.Dataset.from_tensor_slices(sparse))
    assert [list(s.values) for s in got] == [[1.0], [], [2.0, 3.0]]
    assert all(list(s.dense_shape) == [4] for s in got)
    batched = tf.data.Dataset.from_tensor_slices(sparse).batch(3)
    (whole,) = elements(batched)
    np.testing.assert_array_equal(whole.indices, [[0, 1], [2, 0], [2, 3]])
    np.testing.assert_array_equal(whole.dense_shape, [3, 4])


def test_from_sparse_tensor_slices():
    sparse = tf.SparseTensor([[0, 1], [1, 0]], [1.0, 2.0], [2, 4])
    got = elements(tf.data.Dataset.from_sparse_tensor_slices(sparse))
    assert [list(g[1]) for g in got] == [[1.0], [2.0]]


def test_map_with_captures_and_several_components():
    factor = tf.constant(10, tf.int64)
    dataset = tf.data.Dataset.range(3).map(lambda x: (x * factor, x + 1))
    assert elements(dataset.map(lambda a, b: a + b)) == [1, 12, 23]
    assert elements(dataset.map(lambda a, b: {"d": a - b}))[2] == {"d": 17}


@pytest.mark.parametrize("calls", [1, 3, tf.data.experimental.AUTOTUNE])
def test_parallel_map_keeps_the_order(calls):
    dataset = tf.data.Dataset.range(50).map(lambda x: x * x, num_parallel_calls=calls)
    assert elements(dataset) == [i * i for i in range(50)]


def test_filter_needs_a_bool():
    assert elements(tf.data.Dataset.range(10).filter(lambda x: tf.equal(x % 3, 0))) == [0, 3, 6, 9]
    with pytest.raises(ValueError, match="scalar boolean"):
        tf.data.Dataset.range(3).filter(lambda x: x)


def test_flat_map_and_interleave():
    repeat = lambda x: tf.data.Dataset.from_tensors(x).repeat(x)  # noqa: E731
    assert elements(tf.data.Dataset.range(4).flat_map(repeat)) == [1, 2, 2, 3, 3, 3]
    dataset = tf.data.Dataset.from_tensor_slices(np.array([4, 5, 6], np.int64)).interleave(repeat, 2, 3)
    assert elements(dataset) == [4, 4, 4, 5, 5, 5, 4, 5, 5, 6, 6, 6, 6, 6, 6]


@pytest.mark.parametrize("calls", [1, 2, 4])
def test_parallel_interleave_keeps_the_order(calls):
    repeat = lambda x: tf.data.Dataset.from_tensors(x).repeat(x)  # noqa: E731
    dataset = tf.data.Dataset.from_tensor_slices(np.array([4, 5, 6], np.int64))
    got = elements(dataset.interleave(repeat, 2, 3, num_parallel_calls=calls))
    assert got == [4, 4, 4, 5, 5, 5, 4, 5, 5, 6, 6, 6, 6, 6, 6]


def test_zip_concatenate_enumerate():
    a, b = tf.data.Dataset.range(3), tf.data.Dataset.range(10, 20)
    assert elements(tf.data.Dataset.zip((a, b))) == [(0, 10), (1, 11), (2, 12)]
    assert elements(a.concatenate(a)) == [0, 1, 2, 0, 1, 2]
    assert elements(b.take(2).enumerate(5)) == [(5, 10), (6, 11)]
    with pytest.raises(TypeError):
        a.concatenate(tf.data.Dataset.from_tensors(1.0))


def test_repeat_take_skip_shard():
    dataset = tf.data.Dataset.range(6)
    assert elements(dataset.repeat(2).skip(4).take(4)) == [4, 5, 0, 1]
    assert elements(dataset.shard(2, 1)) == [1, 3, 5]
    assert elements(dataset.repeat().take(8)) == [0, 1, 2, 3, 4, 5, 0, 1]
    with pytest.raises(ValueError):
        dataset.shard(2, 2)


def test_batches():
    got = elements(tf.data.Dataset.range(5).batch(2))
    assert [g.tolist() for g in got] == [[0, 1], [2, 3], [4]]
    dropped = tf.data.Dataset.range(5).batch(2, drop_remainder=True)
    assert dropped.output_shapes.as_list() == [2]
    assert len(elements(dropped)) == 2


def test_padded_batches():
    dataset = tf.data.Dataset.range(1, 4).map(lambda x: tf.fill([x], x))
    (got,) = elements(dataset.padded_batch(3, [None]))
    assert got.tolist() == [[1, 0, 0], [2, 2, 0], [3, 3, 3]]
    (got,) = elements(dataset.padded_batch(3, [4], padding_values=tf.constant(-1, tf.int64)))
    assert got.tolist() == [[1, -1, -1, -1], [2, 2, -1, -1], [3, 3, 3, -1]]


def test_unbatch_and_window():
    dataset = tf.data.Dataset.from_tensors(np.arange(6).reshape(3, 2)).unbatch()
    assert [g.tolist() for g in elements(dataset)] == [[0, 1], [2, 3], [4, 5]]
    windows = tf.data.Dataset.range(7).window(3, shift=2, drop_remainder=True).flat_map(lambda w: w.batch(3))
    assert [g.tolist() for g in elements(windows)] == [[0, 1, 2], [2, 3, 4], [4, 5, 6]]


def philox_words(seed, seed2, count):
    """The words of Philox 4x32-10 (Salmon and others, 2011)."""
    words, mask = [], 0xFFFFFFFF
    for block in range((count + 3) // 4):
        c = [block & mask, block >> 32, seed2 & mask, seed2 >> 32]
        k = [seed & mask, seed >> 32]
        for _ in range(10):
            p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & mask, (p0 >> 32) ^ c[3] ^ k[1], p0 & mask]
            k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
        words += c
    return words[:count]


def shuffled(values, buffer_size, seed, seed2):
    """The elements drawn from a buffer that is filled in order."""
    draws = iter(philox_words(seed, seed2, len(values)))
    rest, buffer, out = list(values), [], []
    while rest or buffer:
        while rest and len(buffer) < buffer_size:
            buffer.append(rest.pop(0))
        at = next(draws) % len(buffer)
        out.append(buffer[at])
        buffer[at] = buffer[0]
        buffer.pop(0)
    return out


def test_shuffle_is_that_of_the_seeds():
    tf.set_random_seed(5)
    dataset = tf.data.Dataset.range(20).shuffle(7, seed=3, reshuffle_each_iteration=False)
    assert elements(dataset) == shuffled(range(20), 7, 5, 3)
    assert sorted(elements(dataset.repeat(2))) == sorted(list(range(20)) * 2)


def test_shuffle_again_in_each_iteration():
    tf.set_random_seed(5)
    options = tf.data.Options()
    options.experimental_optimization.shuffle_and_repeat_fusion = False
    got = elements(tf.data.Dataset.range(20).shuffle(20, seed=3).repeat(2).with_options(options))
    seeds = philox_words(5, 3, 4)
    assert got[:20] == shuffled(range(20), 20, seeds[0], seeds[1])
    assert got[20:] == shuffled(range(20), 20, seeds[2], seeds[3])


def shuffled_and_repeated(n, count, buffer_size, seed, seed2):
    """Epochs of range(n), of which the next one is read into the buffer while the one before is drawn from."""
    draws = iter(philox_words(seed, seed2, n * count))
    rest = [(epoch, i) for epoch in range(count) for i in range(n)]
    buffer, out = [], []
    while rest or buffer:
        while rest and len(buffer) < buffer_size:
            buffer.append(rest.pop(0))
        first = [at for at, (epoch, _) in enumerate(buffer) if epoch == buffer[0][0]]
        at = first[next(draws) % len(first)]
        out.append(buffer[at][1])
        buffer[at] = buffer[0]
        buffer.pop(0)
    return out


@pytest.mark.parametrize("buffer_size", [1, 3, 6, 13])
def test_shuffle_and_repeat_become_one_stage_by_default(buffer_size):
    tf.set_random_seed(5)
    got = elements(tf.data.Dataset.range(6).shuffle(buffer_size, seed=3).repeat(4))
    assert got == shuffled_and_repeated(6, 4, buffer_size, 5, 3)


def test_cache_reads_its_input_once():
    calls = []

    def note(x):
        calls.append(int(x))
        return x

    dataset = tf.data.Dataset.range(3).map(lambda x: tf.py_func(note, [x], tf.int64)).cache().repeat(3)
    assert elements(dataset) == [0, 1, 2] * 3
    assert calls == [0, 1, 2]


def test_cache_in_files(tmp_path):
    prefix = str(tmp_path / "cache")
    assert elements(tf.data.Dataset.range(3).cache(prefix)) == [0, 1, 2]
    assert (tmp_path / "cache.index").exists()
    assert elements(tf.data.Dataset.range(100, 103).cache(prefix)) == [0, 1, 2]


def test_prefetch():
    assert elements(tf.data.Dataset.range(100).prefetch(5)) == list(range(100))
    assert elements(tf.data.Dataset.range(10).prefetch(tf.data.experimental.AUTOTUNE)) == list(range(10))


def test_reduce():
    dataset = tf.data.Dataset.range(5)
    total = dataset.reduce(np.int64(0), lambda s, x: s + x)
    count, largest = dataset.reduce((0, np.int64(0)), lambda s, x: (s[0] + 1, tf.maximum(s[1], x)))
    with tf.Session() as sess:
        assert sess.run([total, count, largest]) == [10, 5, 4]


def test_generator():
    def numbers(limit):
        for i in range(int(limit)):
            yield i, [i] * i

    dataset = tf.data.Dataset.from_generator(numbers, (tf.int64, tf.float32), ([], [None]), args=(3,))
    got = elements(dataset.repeat(2))
    assert [n for n, _ in got] == [0, 1, 2, 0, 1, 2]
    assert [list(v) for _, v in got[:3]] == [[], [1.0], [2.0, 2.0]]


def test_empty_lists_of_generators_have_the_declared_type():
    dataset = tf.data.Dataset.from_generator(lambda: ([1] * n for n in range(3)), tf.int64, [None])
    assert [list(v) for v in elements(dataset)] == [[], [1], [1, 1]]
    assert elements(dataset)[0].dtype == np.int64


def test_generator_of_wrong_elements():
    dataset = tf.data.Dataset.from_generator(lambda: iter(["a"]), tf.int64)
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="could not be converted"):
        sess.run(dataset.make_one_shot_iterator().get_next())


def test_one_shot_iterators_refuse_variables():
    v = tf.get_variable("v", initializer=tf.constant(3, tf.int64), use_resource=True)
    dataset = tf.data.Dataset.range(3).map(lambda x: x + v)
    with pytest.raises(ValueError, match="does not support datasets that capture stateful objects"):
        dataset.make_one_shot_iterator()
    iterator = dataset.make_initializable_iterator()
    get_next = iterator.get_next()
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer()])
        sess.run(iterator.initializer)
        assert sess.run(get_next) == 3


def test_options_are_merged():
    options = tf.data.Options()
    options.experimental_deterministic = False
    dataset = tf.data.Dataset.range(3).with_options(options)
    assert dataset.map(lambda x: x).options().experimental_deterministic is False
    with pytest.raises(AttributeError):
        options.experimental_unheard_of = True
    with pytest.raises(TypeError):
        options.experimental_deterministic = "yes"


def test_list_files(tmp_path):
    for name in ("a.txt", "b.txt", "c.csv"):
        (tmp_path / name).write_text("x")
    got = elements(tf.data.Dataset.list_files(str(tmp_path / "*.txt"), shuffle=False))
    assert got == [str(tmp_path / n).encode() for n in ("a.txt", "b.txt")]
    with tf.Session() as sess, pytest.raises(
        tf.errors.InvalidArgumentError, match="No files matched pattern"
    ):
        iterator = tf.data.Dataset.list_files(str(tmp_path / "*.zip")).make_initializable_iterator()
        sess.run(iterator.initializer)
        sess.run(iterator.get_next())
