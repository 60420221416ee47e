# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the predefined hooks."""

import glob
import json
import os
import time

import numpy as np
import pytest

import millrace as tf
from millrace.python.platform import tf_logging
from millrace.python.training import basic_session_run_hooks


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def lines(monkeypatch):
    found = []
    monkeypatch.setattr(tf_logging, "info", lambda text, *args: found.append(text % args if args else text))
    return found


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return now


def events(folder):
    found = []
    for path in sorted(glob.glob(os.path.join(folder, "events*"))):
        found += list(tf.train.summary_iterator(path))
    return found


def steps_with(folder, tag):
    return [e.step for e in events(folder) if any(v.tag == tag for v in e.summary.value)]


def test_timer_by_steps_and_by_seconds(clock):
    timer = tf.train.SecondOrStepTimer(every_steps=3)
    assert timer.should_trigger_for_step(1)
    assert timer.update_last_triggered_step(1) == (None, None)
    assert not timer.should_trigger_for_step(1) and not timer.should_trigger_for_step(3)
    assert timer.should_trigger_for_step(4)
    clock[0] += 2.0
    assert timer.update_last_triggered_step(4) == (2.0, 3)
    timer = tf.train.SecondOrStepTimer(every_secs=10.0)
    timer.update_last_triggered_step(1)
    clock[0] += 5.0
    assert not timer.should_trigger_for_step(2)
    clock[0] += 6.0
    assert timer.should_trigger_for_step(2) and not timer.should_trigger_for_step(1)
    with pytest.raises(ValueError, match="Can not provide both"):
        tf.train.SecondOrStepTimer(every_secs=1, every_steps=1)
    with pytest.raises(ValueError, match="Either every_secs or every_steps"):
        tf.train.SecondOrStepTimer()


def test_logging_every_n_steps_and_at_end(lines):
    t = tf.constant(42.0, name="foo")
    count = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    hook = tf.train.LoggingTensorHook(tensors=[t.name], every_n_iter=3, at_end=True)
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        logged = []
        for _ in range(5):
            before = len(lines)
            sess.run(count)
            logged.append(any("foo:0 = 42.0" in line for line in lines[before:]))
    assert logged == [True, False, False, True, False]
    assert sum("foo:0 = 42.0" in line for line in lines) == 3


def test_logging_with_a_formatter(lines):
    t = tf.constant(42.0)
    hook = tf.train.LoggingTensorHook(
        {"t": t}, every_n_iter=1, formatter=lambda values: "value %d" % values["t"]
    )
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        sess.run(t)
    assert "value 42" in lines
    with pytest.raises(ValueError, match="exactly one of every_n_iter and every_n_secs must be provided"):
        tf.train.LoggingTensorHook({"t": t}, every_n_iter=1, every_n_secs=1)
    with pytest.raises(ValueError, match="invalid every_n_iter"):
        tf.train.LoggingTensorHook({"t": t}, every_n_iter=0)


def test_checkpoints_every_n_steps_and_at_the_end(tmp_path):
    count = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    calls = []

    class Listener(tf.train.CheckpointSaverListener):
        def begin(self):
            calls.append("begin")

        def before_save(self, session, global_step_value):
            calls.append(("before", int(global_step_value)))

        def after_save(self, session, global_step_value):
            calls.append(("after", int(global_step_value)))

        def end(self, session, global_step_value):
            calls.append(("end", int(global_step_value)))

    hook = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=2, listeners=[Listener()])
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        for _ in range(5):
            sess.run(count)
    wanted = ["begin"]
    for step in (0, 2, 4, 5):
        wanted += [("before", step), ("after", step)]
    assert calls == wanted + [("end", 5)]
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert [os.path.basename(p) for p in state.all_model_checkpoint_paths] == [
        "model.ckpt-%d" % s for s in (0, 2, 4, 5)
    ]
    assert os.path.exists(tmp_path / "graph.pbtxt")
    with pytest.raises(ValueError, match="cannot provide both saver and scaffold|You cannot provide both"):
        tf.train.CheckpointSaverHook(
            str(tmp_path), save_steps=1, saver=tf.train.Saver, scaffold=tf.train.Scaffold()
        )
    with pytest.raises(ValueError):
        tf.train.CheckpointSaverHook(str(tmp_path), save_secs=1, save_steps=1)


def test_step_counter(tmp_path, clock):
    count = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    hook = tf.train.StepCounterHook(every_n_steps=10, output_dir=str(tmp_path))
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        for _ in range(31):
            clock[0] += 0.01
            sess.run(count)
        hook._summary_writer.flush()
    rates = [(e.step, v.simple_value) for e in events(str(tmp_path)) for v in e.summary.value]
    assert [s for s, _ in rates] == [11, 21, 31]
    np.testing.assert_allclose([r for _, r in rates], [100.0] * 3, rtol=1e-3)


def test_summaries_every_n_steps(tmp_path):
    step = tf.train.get_or_create_global_step()
    with tf.control_dependencies([tf.summary.scalar("early", 0.0)]):
        count = tf.assign_add(step, 1)
    tf.summary.scalar("value", tf.constant(2.5))
    hook = tf.train.SummarySaverHook(
        save_steps=3, output_dir=str(tmp_path), summary_op=tf.summary.merge_all()
    )
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        for _ in range(8):
            sess.run(count)
    assert steps_with(str(tmp_path), "value") == [1, 4, 7]
    with pytest.raises(ValueError):
        tf.train.SummarySaverHook(summary_op=None, scaffold=None, save_steps=1)


def test_nan_stops_or_fails(lines):
    x = tf.placeholder(tf.float32, [])
    with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(x, fail_on_nan_loss=False)]) as sess:
        sess.run(x, {x: 1.0})
        assert not sess.should_stop()
        sess.run(x, {x: float("nan")})
        assert sess.should_stop()
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        with pytest.raises(tf.train.NanLossDuringTrainingError, match="NaN loss during training"):
            with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(x)]) as sess:
                sess.run(x, {x: float("nan")})


def test_final_ops():
    v = tf.Variable(1.0)
    double = v.assign(2.0)
    p = tf.placeholder(tf.float32)
    hook = tf.train.FinalOpsHook({"r": v * p}, final_ops_feed_dict={p: 4.0})
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        sess.run(double)
        assert hook.final_ops_values is None
    assert hook.final_ops_values == {"r": 8.0}


def test_feed_fn():
    x = tf.placeholder(tf.float32)
    total = x + 1.0
    hook = tf.train.FeedFnHook(lambda: {x: 6.0})
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        assert sess.run(total) == 7.0


def test_waiting_for_a_step(monkeypatch):
    step = tf.train.get_or_create_global_step()
    raise_step = tf.assign_add(step, 5)
    slept = []
    hook = tf.train.GlobalStepWaiterHook(wait_until_step=10)
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        raw = []
        monkeypatch.setattr(time, "sleep", lambda s: (slept.append(s), raw[0].run(raise_step)))
        raw.append(sess._tf_sess())
        sess.run(tf.get_default_graph().get_operation_by_name(step.op.name))
    assert len(slept) == 2


def test_profiler(tmp_path):
    count = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    hook = tf.train.ProfilerHook(save_steps=2, output_dir=str(tmp_path))
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        for _ in range(5):
            sess.run(count)
    names = sorted(os.path.basename(p) for p in glob.glob(str(tmp_path / "timeline-*.json")))
    assert names == ["timeline-%d.json" % s for s in (2, 4)]
    with open(tmp_path / names[0], encoding="utf-8") as file:
        assert json.load(file)["traceEvents"]


def test_runs_of_several_steps_end_at_the_last_step():
    step = tf.train.get_or_create_global_step()
    per_run = basic_session_run_hooks.get_or_create_steps_per_run_variable()
    assert basic_session_run_hooks.get_or_create_steps_per_run_variable() is per_run
    count = tf.assign_add(step, tf.cast(per_run, tf.int64))
    hook = basic_session_run_hooks._MultiStepStopAtStepHook(last_step=7, steps_per_run=3)
    found = []
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        while not sess.should_stop():
            found.append(int(sess.run(count)))
    assert found == [3, 6, 7]
    with pytest.raises(ValueError, match="steps_per_run should be greater than 0"):
        basic_session_run_hooks._MultiStepStopAtStepHook(last_step=7, steps_per_run=0)


def test_step_counter_warns_of_a_step_that_stays(monkeypatch):
    told = []
    monkeypatch.setattr(tf_logging, "warning", lambda *args: told.append(args))
    with tf.Graph().as_default():
        tf.train.get_or_create_global_step()
        nothing = tf.no_op()
        with tf.train.SingularMonitoredSession(hooks=[tf.train.StepCounterHook()]) as session:
            for _ in range(15):
                session.run(nothing)
            assert not told
            for _ in range(15):
                session.run(nothing)
    assert len(told) == 1 and "has not been increased" in told[0][0]
