# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Tables give the values of their keys, and others their default."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.python.ops import lookup_ops

RNG = np.random.RandomState(1)


def run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.local_variables_initializer())
        session.run(tf.tables_initializer())
        return session.run(fetches, feed)


def vocabulary(folder: Any) -> str:
    path = folder / "words.txt"
    path.write_text("a\nb\nc\n")
    return str(path)


def test_hash_tables() -> None:
    init = tf.lookup.KeyValueTensorInitializer(["a", "b"], np.array([1, 2]))
    table = tf.lookup.StaticHashTable(init, -1)
    found = table.lookup(tf.constant(["b", "x"]))
    assert found.shape == [2] and table.key_dtype == tf.string and table.value_dtype == tf.int64
    assert run(found).tolist() == [2, -1] and run(table.size()) == 2
    keys, values = run(table.export())
    assert dict(zip(keys.tolist(), values.tolist())) == {b"a": 1, b"b": 2}
    sp = run(table.lookup(tf.SparseTensor([[0, 1]], ["a"], [1, 2])))
    assert sp.values.tolist() == [1] and sp.indices.tolist() == [[0, 1]]
    with pytest.raises(
        TypeError, match="Signature mismatch. Keys must be dtype <dtype: 'string'>, got <dtype: 'int32'>."
    ):
        table.lookup(tf.constant([1]))
    with tf.Session() as session, pytest.raises(
        tf.errors.FailedPreconditionError, match="Table not initialized"
    ):
        session.run(table.lookup(tf.constant(["a"])))


def test_initializing_twice_is_allowed_with_the_same_values() -> None:
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), -1)
    with tf.Session() as session:
        session.run(table.initializer)
        session.run(table.initializer)
        session.run(tf.tables_initializer())
        assert session.run(table.lookup(tf.constant(["a"]))).tolist() == [1]


def test_tables_from_files(tmp_path: Any) -> None:
    path = vocabulary(tmp_path)
    table = lookup_ops.index_table_from_file(path, num_oov_buckets=2)
    ids = run(table.lookup(tf.constant(["a", "c", "unknown"])))
    assert ids[:2].tolist() == [0, 2] and ids[2] in (3, 4) and run(table.size()) == 5
    words = lookup_ops.index_to_string_table_from_file(path, default_value="?")
    assert run(words.lookup(tf.constant([1, 7], tf.int64))).tolist() == [b"b", b"?"]
    lines = tf.lookup.TextFileInitializer(
        path, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
    )
    assert run(tf.lookup.StaticHashTable(lines, -1).lookup(tf.constant(["c"]))).tolist() == [2]
    assert path in [
        t.op.get_attr("value").string_val[0].decode() for t in tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS)
    ]
    for kwargs, text in (
        ({"vocabulary_file": None}, "vocabulary_file must be specified and must not be empty."),
        (
            {"vocabulary_file": path, "num_oov_buckets": -1},
            "num_oov_buckets must be greater or equal than 0, got -1.",
        ),
        (
            {"vocabulary_file": path, "vocab_size": 0},
            "vocab_size must be greater than 0, got 0. vocabulary_file: ",
        ),
    ):
        with pytest.raises(ValueError, match=text):
            lookup_ops.index_table_from_file(**kwargs)


def test_tables_from_tensors() -> None:
    table = lookup_ops.index_table_from_tensor(["x", "y"], default_value=-5)
    assert run(table.lookup(tf.constant(["y", "q"]))).tolist() == [1, -5]
    numbers = lookup_ops.index_table_from_tensor([50, 60], dtype=tf.int32)
    assert run(numbers.lookup(tf.constant([60, 1], tf.int64))).tolist() == [1, -1]
    words = lookup_ops.index_to_string_table_from_tensor(["x", "y"])
    assert run(words.lookup(tf.constant([1, 9], tf.int64))).tolist() == [b"y", b"UNK"]
    with pytest.raises(ValueError, match="Expected non-integer, got <dtype: 'int32'>."):
        lookup_ops.index_table_from_tensor([1, 2])


def test_vocabulary_tables() -> None:
    init = tf.lookup.KeyValueTensorInitializer(["a", "b"], np.array([0, 1]))
    table = tf.lookup.StaticVocabularyTable(init, 3)
    ids = run(table.lookup(tf.constant(["a", "b", "?"])))
    assert ids[:2].tolist() == [0, 1] and 2 <= ids[2] < 5 and run(table.size()) == 5
    with pytest.raises(ValueError, match="oov_buckets must be > 0."):
        tf.lookup.StaticVocabularyTable(init, 0)


def test_mutable_tables() -> None:
    table = lookup_ops.MutableHashTable(tf.string, tf.int64, -1)
    vectors = lookup_ops.MutableHashTable(tf.string, tf.float32, [0.0, 0.0])
    with tf.Session() as session:
        session.run(table.insert(["a", "b"], [1, 2]))
        assert session.run(table.lookup(tf.constant(["a", "z"]))).tolist() == [1, -1]
        session.run(table.insert(["a"], [9]))
        session.run(table.remove(tf.constant(["b", "no"])))
        keys, values = session.run(table.export())
        assert keys.tolist() == [b"a"] and values.tolist() == [9] and session.run(table.size()) == 1
        session.run(vectors.insert(["a"], [[1.0, 2.0]]))
        found = vectors.lookup(tf.constant([["a"], ["z"]]))
        assert found.shape == [2, 1, 2] and session.run(found).tolist() == [[[1, 2]], [[0, 0]]]


def test_dense_tables() -> None:
    table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, 0, -5)
    with tf.Session() as session:
        session.run(table.insert([11, 12], [3, 4]))
        assert session.run(table.lookup([11, 7])).tolist() == [3, -1]
        session.run(table.erase([11]))
        assert session.run([table.lookup([11]), table.size()])[1] == 1


def test_mutable_tables_are_saved(tmp_path: Any) -> None:
    table = lookup_ops.MutableHashTable(tf.string, tf.int64, -1, name="t")
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(table.insert(["a"], [5]))
        path = saver.save(session, str(tmp_path / "model"))
    with tf.Session() as session:
        saver.restore(session, path)
        assert session.run(table.lookup(tf.constant(["a"]))).tolist() == [5]


def test_mutable_tables_in_checkpoints_of_objects(tmp_path: Any) -> None:
    table = lookup_ops.MutableHashTable(tf.string, tf.int64, -1)
    checkpoint = tf.train.Checkpoint(table=table)
    with tf.Session() as session:
        session.run(table.insert(["a"], [5]))
        path = checkpoint.save(str(tmp_path / "objects"), session=session)
        session.run(table.remove(tf.constant(["a"])))
        checkpoint.restore(path).run_restore_ops(session)
        assert session.run(table.lookup(tf.constant(["a"]))).tolist() == [5]


def test_integer_keys_from_whole_lines(tmp_path: Any) -> None:
    path = str(tmp_path / "numbers.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("42\n-7\n1000\n")
    index = tf.lookup.TextFileIndex
    lines = tf.lookup.TextFileInitializer(path, tf.int64, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER)
    table = tf.lookup.StaticHashTable(lines, -1)
    assert run(table.lookup(tf.constant([1000, 42, -7, 1], tf.int64))).tolist() == [2, 0, 1, -1]
    ids = lookup_ops.index_table_from_file(path, key_dtype=tf.int64, num_oov_buckets=1)
    assert run(ids.lookup(tf.constant([-7, 8], tf.int64))).tolist() == [1, 3]
    with open(path, "a", encoding="utf-8") as file:
        file.write("seven\n")
    lines = tf.lookup.TextFileInitializer(path, tf.int64, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER)
    with pytest.raises(tf.errors.InvalidArgumentError, match="seven in line 3 is not a valid int64"):
        run(tf.lookup.StaticHashTable(lines, -1).size())
    with pytest.raises(ValueError, match="Signature mismatch. Keys must be"):
        tf.lookup.TextFileInitializer(path, tf.float32, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER)
