# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Datasets that are made anew with a change, or written as graphs; and functions of rows."""
import numpy as np
import pytest

import millrace as tf
from millrace.python.data.experimental.ops import optimization
from millrace.python.data.ops import dataset_ops
from millrace.python.framework import function
from millrace.python.ops import gen_dataset_ops, gen_experimental_dataset_ops as ged_ops


def drain(variant, types, shapes, limit=1000, config=None):
    """All elements of a dataset's tensor, with whether the session made them."""
    iterator = tf.data.Iterator.from_structure(types, shapes)
    start = gen_dataset_ops.make_iterator(variant, iterator._iterator_resource)
    element = iterator.get_next()
    out = []
    with tf.Session(config=config) as sess:
        sess.run(start)
        while len(out) < limit:
            try:
                out.append(sess.run(element))
            except tf.errors.OutOfRangeError:
                return out
    return out


VECTORS = {"output_types": [tf.int64], "output_shapes": [[None]]}
SCALARS = {"output_types": [tf.int64], "output_shapes": [[]]}


def rebatch(dataset, replicas, **kwargs):
    variant = ged_ops.rebatch_dataset(dataset._variant_tensor, np.int64(replicas), **VECTORS, **kwargs)
    return [e.tolist() for e in drain(variant, tf.int64, tf.TensorShape([None]))]


def chunks(n, size):
    return [list(range(i, min(i + size, n))) for i in range(0, n, size)]


@pytest.mark.parametrize("drop", [False, True])
def test_batches_for_replicas(drop):
    dataset = tf.data.Dataset.range(1024).batch(32, drop_remainder=drop)
    assert rebatch(dataset, 4) == chunks(1024, 8)
    assert rebatch(dataset.map(lambda x: x).prefetch(2).repeat(2), 4) == chunks(1024, 8) * 2


def test_a_last_batch_that_is_not_full():
    assert rebatch(tf.data.Dataset.range(34).batch(32), 4) == chunks(32, 8) + [[32, 33]]
    assert rebatch(tf.data.Dataset.range(1032).batch(32), 4) == chunks(1032, 8)


def test_a_size_that_replicas_do_not_divide():
    dataset = tf.data.Dataset.range(64).batch(32)
    expected = [[list(range(b + i, min(b + i + 7, b + 32))) for i in range(0, 32, 7)] for b in (0, 32)]
    assert rebatch(dataset, 5) == expected[0] + expected[1]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"batch size \(32\) is not divisible"):
        rebatch(dataset, 5, use_fallback=False)


def test_batches_behind_stages_that_count_them_are_cut():
    assert rebatch(tf.data.Dataset.range(64).batch(16).take(2), 2) == chunks(32, 8)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Take"):
        rebatch(tf.data.Dataset.range(64).batch(16).take(2), 2, use_fallback=False)
    joined = tf.data.Dataset.range(4).batch(4).concatenate(tf.data.Dataset.range(4, 8).batch(2))
    assert rebatch(joined, 2) == [[0, 1], [2, 3], [4], [5], [6], [7]]


def test_wrong_rebatching():
    with pytest.raises(tf.errors.InvalidArgumentError, match="num_replicas must be greater than zero"):
        rebatch(tf.data.Dataset.range(4).batch(2), 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="component 0 is a scalar"):
        rebatch(tf.data.Dataset.range(4), 2)


@pytest.fixture(name="files")
def make_files(tmp_path):
    paths = []
    for i in range(4):
        paths.append(str(tmp_path / f"{i}.txt"))
        with open(paths[-1], "w") as file:
            file.writelines(f"{i}:{j}\n" for j in range(3))
    return paths


def shard(dataset, workers, index, types=tf.string):
    flat = {"output_types": [types], "output_shapes": [[]]}
    variant = ged_ops.auto_shard_dataset(dataset._variant_tensor, np.int64(workers), np.int64(index), **flat)
    return drain(variant, types, tf.TensorShape([]))


def lines(*files):
    return [b"%d:%d" % (i, j) for i in files for j in range(3)]


def test_workers_read_different_files(files):
    names = tf.data.Dataset.from_tensor_slices(files)
    dataset = names.flat_map(tf.data.TextLineDataset).map(tf.identity).prefetch(1)
    assert shard(dataset, 2, 0) == lines(0, 2)
    assert shard(dataset, 2, 1) == lines(1, 3)
    assert shard(tf.data.TextLineDataset(files).repeat(2), 4, 3) == lines(3) * 2
    interleaved = names.interleave(lambda f: tf.data.TextLineDataset(f).take(2), cycle_length=2)
    assert sorted(shard(interleaved, 2, 1)) == sorted(set(lines(1, 3)) - {b"1:2", b"3:2"})


def test_other_elements_are_counted_out():
    assert shard(tf.data.Dataset.range(10), 3, 1, tf.int64) == [1, 4, 7]
    flat = tf.data.Dataset.range(3).flat_map(lambda x: tf.data.Dataset.range(x, x + 2))
    assert shard(flat, 2, 0, tf.int64) == [0, 1, 2]


def test_more_workers_than_files(files):
    with pytest.raises(tf.errors.InvalidArgumentError, match="There aren't enough elements"):
        shard(tf.data.TextLineDataset(files), 5, 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="index must be"):
        shard(tf.data.TextLineDataset(files), 2, 2)


def graph_of(dataset):
    with tf.Session() as sess:
        return sess.run(gen_dataset_ops.dataset_to_graph(dataset._variant_tensor))


def test_a_dataset_as_a_graph():
    dataset = (
        tf.data.Dataset.range(10)
        .filter(lambda x: x % 2 > 0)
        .map(lambda x: x * x + 1)
        .shuffle(3, seed=1)
        .batch(2)
    )
    text = graph_of(dataset)
    graph = tf.GraphDef.FromString(text)
    kinds = [n.op for n in graph.node]
    assert [k for k in kinds if k != "Const"] == [
        "RangeDataset",
        "FilterDataset",
        "MapDataset",
        "ShuffleDataset",
        "BatchDatasetV2",
        "_Retval",
    ]
    assert len(graph.library.function) >= 2
    expected = [e.tolist() for e in drain(dataset._variant_tensor, tf.int64, tf.TensorShape([None]))]
    with tf.Graph().as_default():  # that has none of the functions
        variant = ged_ops.dataset_from_graph(text)
        assert [e.tolist() for e in drain(variant, tf.int64, tf.TensorShape([None]))] == expected


def test_graphs_that_are_no_dataset():
    def fails(text, error, match):
        with tf.Graph().as_default(), pytest.raises(error, match=match):
            drain(ged_ops.dataset_from_graph(text), tf.int64, tf.TensorShape([]))

    fails(b"\xff", tf.errors.InvalidArgumentError, "not a GraphDef")
    fails(b"", tf.errors.NotFoundError, "no _Retval")
    with tf.Graph().as_default():
        graph = tf.GraphDef.FromString(graph_of(tf.data.Dataset.range(10)))

    def changed(op, change):
        other = tf.GraphDef()
        other.CopyFrom(graph)
        change(next(n for n in other.node if n.op == op))
        return other.SerializeToString()

    fails(
        changed("RangeDataset", lambda n: n.input.pop()),
        tf.errors.InvalidArgumentError,
        "takes 3 inputs, not 2",
    )
    fails(
        changed("RangeDataset", lambda n: n.attr.pop("output_types")),
        tf.errors.InvalidArgumentError,
        "output_types",
    )
    fails(
        changed("RangeDataset", lambda n: setattr(n, "op", "Add")),
        tf.errors.UnimplementedError,
        "neither makes",
    )

    def circle(node):
        node.input[0] = node.name

    fails(changed("RangeDataset", circle), tf.errors.InvalidArgumentError, "too deep")
    bad = changed("Const", lambda n: n.attr["value"].tensor.tensor_shape.dim.add(size=2**40))
    fails(bad, tf.errors.OpError, "")


def test_random_bytes_are_no_crash():
    with tf.Graph().as_default():
        sound = graph_of(tf.data.Dataset.range(10).map(lambda x: x + 1).batch(2))
    random = np.random.RandomState(1)
    graph_text = tf.placeholder(tf.string, [])
    variant = gen_dataset_ops.dataset_cardinality if hasattr(gen_dataset_ops, "dataset_cardinality") else None
    size = (variant or ged_ops.dataset_cardinality)(ged_ops.dataset_from_graph(graph_text))
    outcomes = {True: 0, False: 0}
    with tf.Session() as sess:
        for _ in range(400):
            text = bytearray(sound)
            for at in random.randint(0, len(text), 1 + random.randint(4)):
                text[at] = random.randint(256)
            try:
                sess.run(size, {graph_text: bytes(text)})
                outcomes[True] += 1
            except tf.errors.OpError:
                outcomes[False] += 1
    assert min(outcomes.values()) > 3


def test_fastest_branch():
    from millrace.python.data.util import structure  # noqa: F401

    dataset = tf.data.Dataset.range(24)

    @function.Defun(tf.variant)
    def pairs(x):
        return dataset_ops._VariantDataset(x, tf.TensorSpec([], tf.int64)).batch(2, True)._variant_tensor

    @function.Defun(tf.variant)
    def mapped(x):
        inner = dataset_ops._VariantDataset(x, tf.TensorSpec([], tf.int64))
        return inner.map(lambda v: v).batch(2, True)._variant_tensor

    variant = ged_ops.choose_fastest_branch_dataset(
        dataset._variant_tensor,
        np.int64(2),
        np.int64(1),
        [],
        num_elements_per_branch=2,
        branches=[pairs, mapped],
        other_arguments_lengths=[0, 0],
        **VECTORS,
    )
    assert [e.tolist() for e in drain(variant, tf.int64, tf.TensorShape([None]))] == chunks(24, 2)


def test_the_fastest_of_several_functions():
    offset = tf.constant(5, tf.int64)
    dataset = optimization._ChooseFastestBranchDataset(
        tf.data.Dataset.range(24),
        [
            lambda x: x.map(lambda v: v + offset).batch(2, drop_remainder=True),
            lambda x: x.batch(2, drop_remainder=True).map(lambda v: v + offset),
        ],
        ratio_numerator=2,
        num_elements_per_branch=2,
    )
    assert tf.data.get_output_shapes(dataset).as_list() == [2]
    element = tf.data.make_one_shot_iterator(dataset_ops._OptimizeDataset(dataset, [])).get_next()
    with tf.Session() as session:
        got = [session.run(element).tolist() for _ in range(12)]
    assert got == [[v + 5 for v in chunk] for chunk in chunks(24, 2)]
    with pytest.raises(ValueError, match="ratio must be positive."):
        optimization._ChooseFastestBranchDataset(tf.data.Dataset.range(3), [lambda x: x], ratio_numerator=0)


def test_caches_and_seeds_can_be_deleted():
    cache, deleter = gen_dataset_ops.anonymous_memory_cache()
    seeds, seeds_deleter = gen_dataset_ops.anonymous_random_seed_generator(np.int64(1), np.int64(2))
    with tf.Session() as sess:
        sess.run(
            [
                gen_dataset_ops.delete_memory_cache(cache, deleter),
                gen_dataset_ops.delete_random_seed_generator(seeds, seeds_deleter),
            ]
        )


def map_defun(f, arguments, captured, shapes, types):
    return gen_dataset_ops.map_defun(arguments, captured, output_types=types, output_shapes=shapes, f=f)


def test_functions_of_rows():
    @function.Defun(tf.int32, tf.int32)
    def f(row, captured):
        return tf.reduce_sum(row), row * captured

    rows = np.arange(6, dtype=np.int32).reshape(3, 2)
    out = map_defun(f, [tf.constant(rows)], [tf.constant(10)], [[], [2]], [tf.int32, tf.int32])
    assert out[0].shape.as_list() == [3] and out[1].shape.as_list() == [3, 2]
    with tf.Session() as sess:
        sums, scaled = sess.run(out)
    assert sums.tolist() == rows.sum(1).tolist() and scaled.tolist() == (rows * 10).tolist()


def test_functions_of_no_rows_and_of_wrong_ones():
    @function.Defun(tf.string)
    def f(row):
        return tf.strings.join([row, "!"])

    none = map_defun(f, [tf.zeros([0, 4], tf.string)], [], [[None]], [tf.string])
    texts = map_defun(f, [tf.constant([["a", "b"]])], [], [None], [tf.string])
    wrong = map_defun(f, [tf.constant([["a", "b"]])], [], [[3]], [tf.string])
    anything = tf.placeholder(tf.string)
    scalar = map_defun(f, [anything], [], [None], [tf.string])
    with tf.Session() as sess:
        assert sess.run(none)[0].shape == (0, 0)
        assert sess.run(texts)[0].tolist() == [[b"a!", b"b!"]]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Mismatch in function retval shape"):
            sess.run(wrong)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Input 0 has a rank of 0"):
            sess.run(scalar, {anything: "x"})


def snapshot(dataset, path, **kwargs):
    kwargs = {"output_types": [tf.int64], "output_shapes": [[]], **kwargs}
    return ged_ops.snapshot_dataset(dataset._variant_tensor, str(path), **kwargs)


def counted(path):
    """Numbers, and a file with one line for each requested element."""

    def count(value):
        with open(path, "a") as file:
            file.write("x\n")
        return value

    return tf.data.Dataset.range(5).map(lambda x: tf.py_func(count, [x], tf.int64))


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_a_snapshot_is_read_the_second_time(tmp_path, compression):
    log, folder = tmp_path / "log", tmp_path / "snapshots"
    variant = snapshot(counted(log), folder, compression=compression, shard_size_bytes=10)
    for _ in range(3):
        assert drain(variant, tf.int64, tf.TensorShape([])) == [0, 1, 2, 3, 4]
    assert len(log.read_text().splitlines()) == 5
    assert len(list(folder.glob("*/snapshot.metadata"))) == 1
    assert len(list(folder.glob("*/*/*.snapshot"))) > 1


def test_an_unfinished_snapshot_is_left_alone_until_it_expires(tmp_path):
    log, folder = tmp_path / "log", tmp_path / "snapshots"
    variant = snapshot(counted(log), folder)
    assert drain(variant, tf.int64, tf.TensorShape([]), limit=2) == [0, 1]
    before = len(log.read_text().splitlines())
    assert drain(variant, tf.int64, tf.TensorShape([])) == [0, 1, 2, 3, 4]
    assert drain(variant, tf.int64, tf.TensorShape([])) == [0, 1, 2, 3, 4]
    assert len(log.read_text().splitlines()) == before + 10
    (metadata,) = folder.glob("*/snapshot.metadata")
    # Without the time of its begin it is as old as can be.
    run = metadata.read_bytes()
    metadata.write_bytes(b"\x12\x01x")
    assert drain(variant, tf.int64, tf.TensorShape([])) == [0, 1, 2, 3, 4]
    assert metadata.read_bytes() != run
    assert drain(variant, tf.int64, tf.TensorShape([])) == [0, 1, 2, 3, 4]
    assert len(log.read_text().splitlines()) == before + 15


def test_snapshots_of_other_datasets_and_broken_ones(tmp_path):
    first = snapshot(tf.data.Dataset.range(3), tmp_path)
    assert drain(first, tf.int64, tf.TensorShape([])) == [0, 1, 2]
    assert drain(snapshot(tf.data.Dataset.range(4), tmp_path), tf.int64, tf.TensorShape([])) == [0, 1, 2, 3]
    for file in tmp_path.glob("*/*/*.snapshot"):
        data = bytearray(file.read_bytes())
        data[-6] ^= 1
        file.write_bytes(data)
    with pytest.raises(tf.errors.DataLossError):
        drain(first, tf.int64, tf.TensorShape([]))
    for options in ({"compression": "LZ"}, {"pending_snapshot_expiry_seconds": 0}):
        with pytest.raises(tf.errors.InvalidArgumentError):
            drain(snapshot(tf.data.Dataset.range(3), tmp_path, **options), tf.int64, tf.TensorShape([]))


def test_statistics_are_written(tmp_path):
    from millrace.python.ops import gen_summary_ops

    writer = gen_summary_ops.summary_writer(shared_name="w")
    create = gen_summary_ops.create_summary_file_writer(writer, str(tmp_path), 0, 0, "")
    aggregator = ged_ops.stats_aggregator_handle_v2()
    other = gen_summary_ops.summary_writer(shared_name="v")
    create_other = gen_summary_ops.create_summary_file_writer(other, str(tmp_path), 0, 0, ".other")
    measured = tf.data.Dataset.range(3).apply(tf.data.experimental.bytes_produced_stats("bytes"))
    flat = {"output_types": [tf.int64], "output_shapes": [[]]}
    dataset = ged_ops.set_stats_aggregator_dataset(measured._variant_tensor, aggregator, "", "", **flat)
    iterator = tf.data.Iterator.from_structure(tf.int64, tf.TensorShape([]))
    start, element = gen_dataset_ops.make_iterator(dataset, iterator._iterator_resource), iterator.get_next()
    with tf.Session() as sess:
        sess.run([create, create_other])
        sess.run(ged_ops.stats_aggregator_set_summary_writer(aggregator, writer))
        with pytest.raises(tf.errors.FailedPreconditionError, match="have a summary writer already"):
            sess.run(ged_ops.stats_aggregator_set_summary_writer(aggregator, other))
        sess.run(start)
        for _ in range(3):
            sess.run(element)
        sess.run(gen_summary_ops.close_summary_writer(writer))
    (path,) = [p for p in tmp_path.iterdir() if not p.name.endswith(".other")]
    events = [e for e in tf.train.summary_iterator(str(path)) if e.summary.value]
    assert [(e.step, e.summary.value[0].tag, e.summary.value[0].histo.sum) for e in events] == [
        (1, "bytes", 8),
        (2, "bytes", 16),
        (3, "bytes", 24),
    ]
