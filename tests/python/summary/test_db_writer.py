# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Summaries in a database, read with Python's own SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.contrib import summary
from millrace.python.eager import context

Query = Callable[..., list[Any]]


@pytest.fixture(autouse=True)
def no_writer() -> Iterator[None]:
    yield
    context.context().summary_writer = None


@pytest.fixture
def query(tmp_path: Path) -> Query:
    """The rows of a query, single columns without their tuples."""

    def rows(sql: str, *values: Any) -> list[Any]:
        with sqlite3.connect(tmp_path / "db.sqlite") as connection:
            found = connection.execute(sql, values).fetchall()
        return [row[0] if len(row) == 1 else row for row in found]

    return rows


def writer(folder: Path, run: str = "run") -> Any:
    return summary.create_db_writer(f"file:{folder}/db.sqlite", "experiment", run, "user")


def tensors(query: Query, tag: str) -> dict[int, Any]:
    found = {}
    for step, dtype, shape, data in query(
        "SELECT step, dtype, shape, data FROM Tensors JOIN Tags ON series = tag_id WHERE tag_name = ?", tag
    ):
        sizes = [int(size) for size in shape.split(",")] if shape else []
        found[step] = np.frombuffer(data, tf.as_dtype(dtype).as_numpy_dtype).reshape(sizes)
    return found


def test_a_graph_writes_a_run(tmp_path: Path, query: Query) -> None:
    x = tf.placeholder(tf.int64, [])
    step = tf.placeholder(tf.int64, [])
    with writer(tmp_path).as_default(), summary.always_record_summaries():
        summary.generic("x", tf.stack([x, 2 * x]), step=step)
        with tf.name_scope("scope"):
            summary.scalar("y", tf.cast(x, tf.float64) / 2, step=step)
        summary.histogram("h", tf.constant([1.0, 2.0, 2.0]), step=step)
        summary.image("i", tf.zeros([1, 2, 3, 1]), step=step)
        close = context.context().summary_writer.close()
        names = {node.name for node in tf.get_default_graph().as_graph_def().node}
        with tf.Session() as sess:
            summary.initialize(graph=tf.get_default_graph(), session=sess)
            for i in (1, 2):
                sess.run(summary.all_summary_ops(), {x: 10 * i, step: i})
            sess.run(close)
    assert query("SELECT user_name, experiment_name, run_name FROM Users JOIN Experiments USING (user_id) "
                 "JOIN Runs USING (experiment_id)") == [("user", "experiment", "run")]  # fmt: skip
    assert {s: v.tolist() for s, v in tensors(query, "x").items()} == {1: [10, 20], 2: [20, 40]}
    y = tensors(query, "scope/y")
    assert y[2] == 10.0 and y[2].dtype == np.float64
    assert tensors(query, "h")[1][:, 2].sum() == 3
    assert dict(query("SELECT tag_name, plugin_name FROM Tags")) == {
        "x": "", "scope/y": "scalars", "h": "histograms", "i/image/0": "images"}  # fmt: skip
    assert set(query("SELECT node_name FROM Nodes")) == names
    started, finished = query("SELECT started_time, finished_time FROM Runs")[0]
    assert started <= finished


def test_ops_that_run_at_once(tmp_path: Path, query: Query) -> None:
    with context.eager_mode():
        made = writer(tmp_path)
        with made.as_default(), summary.always_record_summaries():
            summary.scalar("loss", 3, step=7)
            summary.graph(tf.GraphDef(node=[tf.NodeDef(name="hi")]), step=7)
        made.close()
    assert tensors(query, "loss")[7] == 3
    assert query("SELECT node_name FROM Nodes") == ["hi"]


def test_names(tmp_path: Path) -> None:
    uri = str(tmp_path / "db.sqlite")
    with pytest.raises(ValueError, match=r"experiment_name \(\x00\) must match \^\[\^\\x00-\\x1F<>\]"):
        summary.create_db_writer(uri, experiment_name="\0")
    with pytest.raises(ValueError, match="run_name"):
        summary.create_db_writer(uri, run_name="<b>")
    for name in ("-hi", "hi-", "@", ""):
        with pytest.raises(ValueError, match="user_name"):
            summary.create_db_writer(uri, user_name=name)
    made = summary.create_db_writer(uri, user_name=tf.constant("a@b"), run_name="r", experiment_name="")
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match=r"user_name \(a@b\)"):
        sess.run(made.init())


def test_databases_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database at all, but long enough to be read\n" * 100)
    for path, text in (
        (tmp_path / "no" / "db", "unable to open database file"),
        (tmp_path / "text", "not a database"),
    ):
        made = summary.create_db_writer(str(path), "e", "r", "u")
        with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match=text):
            sess.run(made.init())


def test_writers_without_a_name_are_different(tmp_path: Path) -> None:
    with context.eager_mode():
        made = [summary.create_db_writer(str(tmp_path / name), "e", "r", "u") for name in ("a", "b")]
        for i, one in enumerate(made):
            with one.as_default(), summary.always_record_summaries():
                summary.scalar("x", i, step=i)
        for one in made:
            one.close()
    for i, name in enumerate(("a", "b")):
        with sqlite3.connect(tmp_path / name) as connection:
            assert connection.execute("SELECT step FROM Tensors").fetchall() == [(i,)]
