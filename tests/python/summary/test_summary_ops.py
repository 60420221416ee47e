# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Summaries that ops write themselves."""

import glob

import pytest

import millrace as tf
from millrace.python.eager import context
from millrace.python.ops import summary_ops_v2 as summary_ops


@pytest.fixture(autouse=True)
def no_writer():
    yield
    context.context().summary_writer = None


def events(folder):
    return [e for path in glob.glob(str(folder / "events*")) for e in tf.train.summary_iterator(path)]


def test_ops_write_when_they_run(tmp_path):
    step = tf.train.get_or_create_global_step()
    x = tf.placeholder(tf.float32, [])
    with summary_ops.create_file_writer(str(tmp_path)).as_default(), summary_ops.always_record_summaries():
        summary_ops.scalar("x", x, family="family")
        with tf.name_scope("scope"):
            summary_ops.histogram("h", tf.stack([x, 2 * x]), step=17)
        summary_ops.generic("g", tf.constant([1, 2]))
        flush = summary_ops.flush()
        with tf.Session() as sess:
            sess.run(step.initializer)
            tf.summary.initialize(graph=tf.get_default_graph(), session=sess)
            assert len(tf.summary.all_v2_summary_ops()) == 3
            sess.run(tf.summary.all_v2_summary_ops(), {x: 3.0})
            sess.run(flush)
    found = events(tmp_path)
    assert [e.WhichOneof("what") for e in found][:2] == ["file_version", "graph_def"]
    by_tag = {v.tag: (e.step, v) for e in found for v in e.summary.value}
    assert by_tag["family/family/x"][0] == 0 and by_tag["family/family/x"][1].simple_value == 3.0
    assert by_tag["scope/h"][0] == 17 and by_tag["scope/h"][1].histo.num == 2
    assert tf.make_ndarray(by_tag["g"][1].tensor).tolist() == [1, 2]


def test_conditions(tmp_path):
    step = tf.train.get_or_create_global_step()
    count = tf.assign_add(step, 1)
    summary_ops.create_file_writer(str(tmp_path)).set_as_default()
    with summary_ops.record_summaries_every_n_global_steps(2):
        sometimes = summary_ops.scalar("sometimes", 1.0)
    with summary_ops.never_record_summaries():
        never = summary_ops.scalar("never", 1.0)
    outside = summary_ops.scalar("outside", 1.0)
    with tf.Session() as sess:
        sess.run([step.initializer, summary_ops.summary_writer_initializer_op()])
        for _ in range(5):
            sess.run([sometimes, never, outside])
            sess.run(count)
        sess.run(summary_ops.flush())
    assert [(e.step, v.tag) for e in events(tmp_path) for v in e.summary.value] == [
        (s, "sometimes") for s in (0, 2, 4)]  # fmt: skip


def test_without_a_writer():
    assert summary_ops.scalar("x", 1.0).type == "NoOp" and tf.summary.all_v2_summary_ops() == []
    with tf.Session() as sess:
        with pytest.raises(RuntimeError, match="No default tf.contrib.summary.SummaryWriter found"):
            tf.summary.initialize(session=sess)
