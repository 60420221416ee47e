# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Datasets and readers of databases: SQLite's, made here, and LMDB's, which mdb_load wrote."""
import pathlib
import sqlite3

import numpy as np
import pytest

import millrace as tf
from millrace.python.ops import gen_dataset_ops
from millrace.python.ops import gen_experimental_dataset_ops as ged_ops

LMDB = pathlib.Path(__file__).parents[2] / "data" / "lmdb"


def elements(dataset, limit=5000):
    get_next = tf.compat.v1.data.make_initializable_iterator(dataset)
    out = []
    with tf.Session() as sess:
        sess.run(get_next.initializer)
        element = get_next.get_next()
        while len(out) < limit:
            try:
                out.append(sess.run(element))
            except tf.errors.OutOfRangeError:
                return out
    return out


@pytest.fixture(name="database")
def make_database(tmp_path):
    path = str(tmp_path / "people.db")
    with sqlite3.connect(path) as connection:
        columns = "name TEXT, age INTEGER, height REAL, photo BLOB, big INTEGER"
        connection.execute(f"CREATE TABLE people ({columns})")
        connection.executemany(
            "INSERT INTO people VALUES (?, ?, ?, ?, ?)",
            [
                ("Ada", 36, 1.65, b"\x00\x01", 2**40),
                ("Bob", -7, None, None, -(2**63)),
                ("Zoë", 300, 2.5, b"", 0),
            ],
        )
    return path


def query(path, text, types, driver="sqlite"):
    return tf.data.experimental.SqlDataset(driver, path, text, types)


def test_rows_of_a_query(database):
    text = "SELECT name, age, height FROM people ORDER BY age"
    rows = elements(query(database, text, (tf.string, tf.int32, tf.double)))
    assert rows == [(b"Bob", -7, 0.0), (b"Ada", 36, 1.65), ("Zoë".encode(), 300, 2.5)]


def test_types_of_columns(database):
    rows = elements(
        query(
            database,
            "SELECT photo, big, age, age, age, age FROM people",
            (tf.string, tf.int64, tf.int8, tf.uint8, tf.int16, tf.bool),
        )
    )
    assert rows[0] == (b"\x00\x01", 2**40, 36, 36, 36, True)
    assert rows[1] == (b"", -(2**63), -7, 249, -7, True)
    assert rows[2] == (b"", 0, 44, 44, 300, True)
    assert [type(v) for v in rows[0]] == [bytes, np.int64, np.int8, np.uint8, np.int16, np.bool_]


def test_a_query_may_be_shuffled_batched_and_repeated(database):
    dataset = query(database, "SELECT age FROM people", (tf.int64,)).repeat(2).batch(4)
    assert [b[0].tolist() for b in elements(dataset)] == [[36, -7, 300, 36], [-7, 300]]


@pytest.mark.parametrize(
    "text, types, message",
    [
        ("SELECT name FROM nobody", (tf.string,), "no such table: nobody"),
        ("SELECT name FROM", (tf.string,), "syntax error|incomplete input"),
        (
            "SELECT name, age FROM people",
            (tf.string,),
            r"number of columns in query \(2\) must match .* output_types \(1\)",
        ),
        ("", (tf.string,), "The query is empty"),
        ("DELETE FROM people", (tf.string,), "number of columns in query"),
        ("ATTACH 'x.db' AS x", (tf.string,), "number of columns|too many attached"),
        ("INSERT INTO people (age) VALUES (1) RETURNING age", (tf.int32,), "readonly database"),
    ],
)
def test_wrong_queries(database, text, types, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        elements(query(database, text, types))
    assert sqlite3.connect(database).execute("SELECT count(*) FROM people").fetchone() == (3,)


def test_wrong_databases(tmp_path, database):
    with pytest.raises(tf.errors.InvalidArgumentError, match="type, mysql, is not supported by SqlDataset"):
        elements(query(database, "SELECT 1", (tf.int32,), driver="mysql"))
    missing = tmp_path / "missing.db"
    with pytest.raises(tf.errors.InvalidArgumentError, match="missing.db.*unable to open database file"):
        elements(query(str(missing), "SELECT 1", (tf.int32,)))
    assert not missing.exists()
    (tmp_path / "text.db").write_text("not a database, but long enough to have a header " * 20)
    with pytest.raises(tf.errors.InvalidArgumentError, match="not a database"):
        elements(query(str(tmp_path / "text.db"), "SELECT * FROM x", (tf.int32,)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be one of: DT_STRING"):
        elements(query(database, "SELECT height FROM people", (tf.float32,)))


def test_any_bytes_are_a_database_or_an_error(tmp_path, database):
    sound = bytearray(pathlib.Path(database).read_bytes())
    random = np.random.RandomState(1)
    path = tmp_path / "changed.db"
    dataset = query(str(path), "SELECT name, big FROM people", (tf.string, tf.int64))
    iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
    element = iterator.get_next()
    refused = 0
    with tf.Session() as sess:
        for _ in range(300):
            changed = bytearray(sound)
            for at in random.randint(0, len(sound), 20):
                changed[at] = random.randint(256)
            path.write_bytes(changed)
            sess.run(iterator.initializer)
            try:
                for _ in range(100):
                    sess.run(element)
            except tf.errors.OutOfRangeError:
                pass
            except tf.errors.InvalidArgumentError:
                refused += 1
    assert refused > 20


def test_a_query_without_end_can_be_cancelled(database):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0"
    get_next = tf.compat.v1.data.make_one_shot_iterator(query(database, endless, (tf.int64,))).get_next()
    with tf.Session() as sess, pytest.raises(tf.errors.DeadlineExceededError):
        sess.run(get_next, options=tf.RunOptions(timeout_in_ms=200))


def lmdb_value(i):
    return bytes((i * 7 + j) % 256 for j in range(10000 if i == 123 else i % 40))


PLAIN = [(b"key%03d" % i, lmdb_value(i)) for i in range(300)]


def lmdb_elements(files):
    dataset = ged_ops.lmdb_dataset(files, output_types=[tf.string] * 2, output_shapes=[[], []])
    shapes = (tf.TensorShape([]), tf.TensorShape([]))
    iterator = tf.data.Iterator.from_structure((tf.string, tf.string), shapes)
    element = iterator.get_next()
    start = gen_dataset_ops.make_iterator(dataset, iterator._iterator_resource)
    out = []
    with tf.Session() as sess:
        sess.run(start)
        while True:
            try:
                out.append(sess.run(element))
            except tf.errors.OutOfRangeError:
                return out


def test_lmdb_dataset():
    assert lmdb_elements([str(LMDB / "plain.mdb")]) == PLAIN
    both = lmdb_elements([str(LMDB / "empty.mdb"), str(LMDB / "dups.mdb"), str(LMDB / "plain.mdb")])
    assert both[:4] == [(b"a", b"1"), (b"a", b"22"), (b"a", b"333"), (b"b", b"only")]
    assert both[4 + 1200 :] == PLAIN


def test_lmdb_errors(tmp_path):
    with pytest.raises(tf.errors.NotFoundError, match="none.mdb"):
        lmdb_elements([str(tmp_path / "none.mdb")])
    (tmp_path / "text.mdb").write_text("x" * 9000)
    with pytest.raises(tf.errors.DataLossError, match="not a valid LMDB database"):
        lmdb_elements([str(tmp_path / "text.mdb")])


def test_lmdb_reader(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "data.mdb").write_bytes((LMDB / "fixed.mdb").read_bytes())
    queue = tf.FIFOQueue(3, [tf.string])
    fill = queue.enqueue_many([[str(LMDB / "plain.mdb"), str(folder)]])
    reader = tf.LMDBReader()
    key, value = reader.read(queue)
    keys, values = reader.read_up_to(queue, 1000)
    with tf.Session() as sess:
        sess.run([fill, queue.close()])
        assert sess.run([key, value]) == list(PLAIN[0])
        got = sess.run([keys, values])
        assert list(zip(*got)) == PLAIN[1:]
        got = sess.run([keys, values])
        assert got[0].tolist() == [b"a"] * 9 + [b"b"] * 991
        assert got[1][8:10].tolist() == [b"0008", b"0000"]
        state = sess.run(reader.serialize_state())
        assert sess.run(value) == b"0991"
        sess.run(reader.restore_state(state))
        assert sess.run(value) == b"0991"
        assert sess.run(reader.num_records_produced()) == 1301
