# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The transformations of tf.data.experimental, and files."""
import gzip
import zlib

import numpy as np
import pytest

import millrace as tf


def elements(dataset, limit=1000, initializable=False):
    if initializable:
        iterator = dataset.make_initializable_iterator()
    else:
        iterator = dataset.make_one_shot_iterator()
    get_next = iterator.get_next()
    out = []
    with tf.Session() as sess:
        if initializable:
            sess.run(iterator.initializer)
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


def test_scan_and_counter():
    dataset = tf.data.Dataset.range(5).apply(tf.data.experimental.scan(np.int64(0), lambda s, x: (s + x, s)))
    assert elements(dataset) == [0, 0, 1, 3, 6]
    assert elements(tf.data.experimental.Counter(3, 2).take(3)) == [3, 5, 7]


def test_take_while_and_unique():
    dataset = tf.data.Dataset.range(10)
    assert elements(dataset.apply(tf.data.experimental.take_while(lambda x: x < 4))) == [0, 1, 2, 3]
    repeated = tf.data.Dataset.from_tensor_slices(["a", "b", "a", "c", "b"])
    assert elements(repeated.apply(tf.data.experimental.unique())) == [b"a", b"b", b"c"]


def test_map_and_batch():
    dataset = tf.data.Dataset.range(5).apply(tf.data.experimental.map_and_batch(lambda x: x * 2, 2))
    assert [g.tolist() for g in elements(dataset)] == [[0, 2], [4, 6], [8]]


def test_group_by_window():
    dataset = tf.data.Dataset.range(10).apply(
        tf.data.experimental.group_by_window(lambda x: x % 2, lambda _, w: w.batch(4), window_size=4)
    )
    assert [g.tolist() for g in elements(dataset)] == [[0, 2, 4, 6], [1, 3, 5, 7], [8], [9]]


def test_group_by_reducer():
    reducer = tf.data.experimental.Reducer(
        init_func=lambda key: (np.int64(0), np.int64(0)),
        reduce_func=lambda state, x: (state[0] + x, state[1] + 1),
        finalize_func=lambda total, count: total * 100 + count,
    )
    dataset = tf.data.Dataset.range(10).apply(tf.data.experimental.group_by_reducer(lambda x: x % 3, reducer))
    assert elements(dataset) == [1804, 1203, 1503]


def test_buckets():
    lengths = [1, 5, 2, 6, 3, 7]
    dataset = tf.data.Dataset.from_generator(lambda: ([n] * n for n in lengths), tf.int32, [None])
    dataset = dataset.apply(tf.data.experimental.bucket_by_sequence_length(lambda x: tf.size(x), [4], [3, 3]))
    got = sorted(g.tolist() for g in elements(dataset))
    assert got == sorted(
        [
            [[1, 0, 0], [2, 2, 0], [3, 3, 3]],
            [[5] * 5 + [0] * 2, [6] * 6 + [0], [7] * 7],
        ]
    )


def test_choose_and_sample():
    datasets = [tf.data.Dataset.from_tensors(i).repeat(5) for i in range(3)]
    choice = tf.data.Dataset.from_tensor_slices(np.array([0, 1, 2, 0, 1], np.int64))
    assert elements(tf.data.experimental.choose_from_datasets(datasets, choice)) == [0, 1, 2, 0, 1]
    forever = [tf.data.Dataset.from_tensors(i).repeat() for i in range(3)]
    sampled = tf.data.experimental.sample_from_datasets(forever, [0.5, 0.5, 0.0], seed=1)
    counts = np.bincount(elements(sampled, 500), minlength=3)
    assert counts[2] == 0 and 190 < counts[0] < 310


def test_ignore_errors():
    values = tf.data.Dataset.from_tensor_slices([1.0, 0.0, 4.0]).map(
        lambda x: tf.check_numerics(1.0 / x, "bad")
    )
    assert elements(values.apply(tf.data.experimental.ignore_errors())) == [1.0, 0.25]


def test_shuffle_and_repeat():
    got = elements(tf.data.Dataset.range(5).apply(tf.data.experimental.shuffle_and_repeat(3, 2, seed=7)))
    assert sorted(got) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert sorted(got[:5]) == [0, 1, 2, 3, 4]


def test_cardinality_and_single_element():
    dataset = tf.data.Dataset.range(7).batch(2)
    cardinality = tf.data.experimental.cardinality
    single = tf.data.experimental.get_single_element(tf.data.Dataset.range(7).batch(10))
    filtered = cardinality(dataset.filter(lambda x: True))
    with tf.Session() as sess:
        assert sess.run(cardinality(dataset)) == 4
        assert sess.run(cardinality(dataset.repeat())) == tf.data.experimental.INFINITE_CARDINALITY
        assert sess.run(filtered) == tf.data.experimental.UNKNOWN_CARDINALITY
        assert sess.run(single).tolist() == list(range(7))
        with pytest.raises(tf.errors.InvalidArgumentError, match="Dataset had more than one element."):
            sess.run(tf.data.experimental.get_single_element(tf.data.Dataset.range(2)))


def test_dense_to_sparse():
    dataset = tf.data.Dataset.range(1, 4).map(lambda x: tf.fill([x], x))
    (got,) = elements(dataset.apply(tf.data.experimental.dense_to_sparse_batch(4, [5])))
    assert got.dense_shape.tolist() == [3, 5]
    assert got.values.tolist() == [1, 2, 2, 3, 3, 3]
    assert got.indices.tolist() == [[0, 0], [1, 0], [1, 1], [2, 0], [2, 1], [2, 2]]


def test_rejection_resample():
    rng = np.random.RandomState(3)
    classes = (rng.rand(4000) < 0.9).astype(np.int32)
    dataset = tf.data.Dataset.from_tensor_slices(classes).apply(
        tf.data.experimental.rejection_resample(lambda x: x, [0.5, 0.5], [0.1, 0.9], seed=2)
    )
    got = np.array([c for c, _ in elements(dataset, 5000)])
    assert 600 < len(got) < 1100
    assert abs(got.mean() - 0.5) < 0.08


@pytest.mark.parametrize("initial", [None, [0.8, 0.2]])
def test_rejection_resample_of_elements_that_are_shuffled(initial):
    labels = np.repeat([0, 1], [2000, 500]).astype(np.int32)
    dataset = tf.data.Dataset.from_tensor_slices((labels, -labels)).shuffle(3000, seed=1)
    resampled = dataset.apply(
        tf.data.experimental.rejection_resample(lambda label, _: label, [0.5, 0.5], initial, seed=3)
    )
    got = elements(resampled, 3000)
    assert all(c == label == -other for c, (label, other) in got)
    assert abs(np.mean([c for c, _ in got]) - 0.5) < 0.08


def test_stats():
    aggregator = tf.data.experimental.StatsAggregator()
    options = tf.data.Options()
    options.experimental_stats.aggregator = aggregator
    dataset = (
        tf.data.Dataset.range(4)
        .apply(tf.data.experimental.bytes_produced_stats("bytes"))
        .with_options(options)
    )
    iterator = dataset.make_initializable_iterator()
    get_next, summary = iterator.get_next(), aggregator.get_summary()
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        for _ in range(4):
            sess.run(get_next)
        value = tf.Summary.FromString(sess.run(summary)).value[0]
    assert value.tag == "bytes" and value.histo.num == 4 and value.histo.sum == 32


def test_records_lines_and_fixed_length(tmp_path):
    records = str(tmp_path / "r.tfrecord")
    with tf.python_io.TFRecordWriter(records) as writer:
        for i in range(3):
            writer.write(b"r%d" % i)
    (tmp_path / "t.txt").write_bytes(b"one\ntwo\r\nthree")
    (tmp_path / "t.gz").write_bytes(gzip.compress(b"four\n"))
    (tmp_path / "f.bin").write_bytes(b"Habcdefghf")
    assert elements(tf.data.TFRecordDataset([records, records])) == [b"r0", b"r1", b"r2"] * 2
    assert elements(tf.data.TFRecordDataset(records, num_parallel_reads=2)) == [b"r0", b"r1", b"r2"]
    assert elements(tf.data.TextLineDataset(str(tmp_path / "t.txt"))) == [b"one", b"two", b"three"]
    assert elements(tf.data.TextLineDataset(str(tmp_path / "t.gz"), "GZIP")) == [b"four"]
    fixed = tf.data.FixedLengthRecordDataset(str(tmp_path / "f.bin"), 4, header_bytes=1, footer_bytes=1)
    assert elements(fixed) == [b"abcd", b"efgh"]
    (tmp_path / "f.z").write_bytes(zlib.compress(b"Habcdefghf"))
    packed = tf.data.FixedLengthRecordDataset(str(tmp_path / "f.z"), 4, 1, 1, compression_type="ZLIB")
    assert elements(packed) == [b"abcd", b"efgh"]
    with pytest.raises(tf.errors.NotFoundError):
        elements(tf.data.TFRecordDataset(str(tmp_path / "none")))


def test_corrupt_records(tmp_path):
    path = tmp_path / "r.tfrecord"
    with tf.python_io.TFRecordWriter(str(path)) as writer:
        writer.write(b"good")
        writer.write(b"broken")
    data = bytearray(path.read_bytes())
    data[-6] ^= 1
    path.write_bytes(bytes(data))
    dataset = tf.data.TFRecordDataset(str(path))
    with pytest.raises(tf.errors.DataLossError, match="corrupted record at 32"):
        elements(dataset)
    assert elements(dataset.apply(tf.data.experimental.ignore_errors())) == [b"good"]


def test_writing_records(tmp_path):
    path = str(tmp_path / "w.tfrecord")
    write = tf.data.experimental.TFRecordWriter(path).write(tf.data.Dataset.from_tensor_slices(["a", "b"]))
    with tf.Session() as sess:
        sess.run(write)
    assert list(tf.python_io.tf_record_iterator(path)) == [b"a", b"b"]


def test_csv(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b,c\n1,2.5,x\n2,,"y, ""z""\nw"\n3,NA,\n')
    dataset = tf.data.experimental.CsvDataset(
        str(path), [tf.int32, [0.5], ["none"]], header=True, na_value="NA"
    )
    assert elements(dataset) == [(1, 2.5, b"x"), (2, 0.5, b'y, "z"\nw'), (3, 0.5, b"none")]
    chosen = tf.data.experimental.CsvDataset(str(path), [tf.int32], header=True, select_cols=[0])
    assert elements(chosen) == [(1,), (2,), (3,)]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Field 1 is required but missing in record!"):
        elements(
            tf.data.experimental.CsvDataset(
                str(path), [tf.int32, tf.float32, [""]], header=True, na_value="NA"
            )
        )


def test_make_csv_dataset(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,label\n1,2.5,x\n2,3.5,y\n")
    dataset = tf.data.experimental.make_csv_dataset(
        str(path), 2, label_name="label", num_epochs=1, shuffle=False
    )
    ((features, label),) = elements(dataset)
    assert features["a"].tolist() == [1, 2] and features["b"].tolist() == [2.5, 3.5]
    assert label.tolist() == [b"x", b"y"]


def test_parse_examples():
    def example(i):
        feature = {
            "x": tf.train.Feature(float_list=tf.train.FloatList(value=[i, i + 0.5])),
            "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=list(range(i)))),
        }
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

    dataset = tf.data.Dataset.from_tensor_slices([example(i) for i in range(3)]).batch(3)
    features = {"x": tf.FixedLenFeature([2], tf.float32), "ids": tf.VarLenFeature(tf.int64)}
    (got,) = elements(dataset.apply(tf.data.experimental.parse_example_dataset(features)))
    np.testing.assert_array_equal(got["x"], [[0, 0.5], [1, 1.5], [2, 2.5]])
    assert got["ids"].values.tolist() == [0, 0, 1]


def test_parallel_interleave(tmp_path):
    dataset = tf.data.Dataset.range(1, 4).apply(
        tf.data.experimental.parallel_interleave(lambda x: tf.data.Dataset.from_tensors(x).repeat(3), 2, 2)
    )
    assert elements(dataset) == [1, 1, 2, 2, 1, 2, 3, 3, 3]
    sloppy = tf.data.Dataset.range(1, 4).apply(
        tf.data.experimental.parallel_interleave(
            lambda x: tf.data.Dataset.from_tensors(x).repeat(3), 2, 2, sloppy=True
        )
    )
    assert sorted(elements(sloppy)) == [1] * 3 + [2] * 3 + [3] * 3
