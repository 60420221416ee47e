# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The writer that tests of hooks put in FileWriter's place."""
from __future__ import annotations

import unittest
from typing import Any, Iterator

import pytest

import millrace as tf
from millrace.python.summary.writer import fake_summary_writer, writer, writer_cache


@pytest.fixture
def fake() -> Iterator[Any]:
    fake_summary_writer.FakeSummaryWriter.install()
    tf.summary.FileWriterCache.clear()
    yield fake_summary_writer.FakeSummaryWriter
    fake_summary_writer.FakeSummaryWriter.uninstall()
    tf.summary.FileWriterCache.clear()


def test_a_hook_writes_to_it(fake: Any, tmp_path: Any) -> None:
    with tf.Graph().as_default() as graph:
        step = tf.train.create_global_step()
        train = tf.assign_add(step, 1)
        tf.summary.scalar("doubled", tf.cast(train, tf.float32) * 2.0)
        hook = tf.train.SummarySaverHook(
            save_steps=2, output_dir=str(tmp_path), summary_op=tf.summary.merge_all()
        )
        with tf.train.SingularMonitoredSession(hooks=[hook]) as sess:
            for _ in range(4):
                sess.run(train)
    written = writer_cache.FileWriterCache.get(str(tmp_path))
    assert isinstance(written, fake) and not list(tmp_path.iterdir())
    case = unittest.TestCase()
    written.assert_summaries(
        case, str(tmp_path), expected_summaries={1: {"doubled": 2.0}, 3: {"doubled": 6.0}}
    )
    with pytest.raises(AssertionError):
        written.assert_summaries(case, expected_summaries={2: {"doubled": 4.0}})
    with pytest.raises(AssertionError):
        written.assert_summaries(case, expected_graph=graph, expected_logdir="other")


def test_it_is_installed_once() -> None:
    real = writer.FileWriter
    fake_class = fake_summary_writer.FakeSummaryWriter
    with pytest.raises(ValueError, match="FakeSummaryWriter not installed."):
        fake_class.uninstall()
    fake_class.install()
    with pytest.raises(ValueError, match="FakeSummaryWriter already installed."):
        fake_class.install()
    fake_class.uninstall()
    assert writer.FileWriter is real and writer_cache.FileWriter is real


def test_unexpected_arguments_are_refused() -> None:
    made = fake_summary_writer.FakeSummaryWriter("dir")
    made.add_graph("graph")
    made.add_session_log("log", 1)
    made.add_summary(tf.Summary(value=[tf.Summary.Value(tag="a", simple_value=1.0)]).SerializeToString(), 5)
    assert made.summaries[5][0].value[0].tag == "a"
    for wrong in (lambda: made.add_graph("g", 1), lambda: made.add_meta_graph("m", 0), lambda: made.add_run_metadata("r", "t", 2)):  # fmt: skip
        with pytest.raises(ValueError, match="Unexpected argument"):
            wrong()
