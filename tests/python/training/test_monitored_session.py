# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Monitored sessions: hooks in order, recovery, and where they begin again."""

import os
import threading

import pytest

import millrace as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


class Recorder(tf.train.SessionRunHook):
    def __init__(self, fetch=None):
        self.calls, self.results, self.fetch, self.raise_at = [], [], fetch, None

    def begin(self):
        self.calls.append("begin")

    def after_create_session(self, session, coord):
        assert isinstance(session, tf.Session) and isinstance(coord, tf.train.Coordinator)
        self.calls.append("created")

    def before_run(self, run_context):
        self.calls.append("before")
        if self.fetch is not None:
            return tf.train.SessionRunArgs(self.fetch)

    def after_run(self, run_context, run_values):
        self.calls.append("after")
        self.results.append(run_values.results)
        if self.raise_at is not None and len(self.results) == self.raise_at:
            raise tf.errors.AbortedError(None, None, "Abort")

    def end(self, session):
        self.calls.append("end")


def counting():
    step = tf.train.get_or_create_global_step()
    return step, tf.assign_add(step, 1)


def test_hooks_are_called_in_order():
    _, count = counting()
    hook = Recorder({"c": tf.constant(5)})
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        assert sess.run(count) == 1
        assert sess.run([count, {"a": count}]) == [2, {"a": 2}]
        assert not sess.should_stop()
    assert hook.calls == ["begin", "created", "before", "after", "before", "after", "end"]
    assert hook.results == [{"c": 5}] * 2
    assert sess.should_stop()


def test_graph_is_finalized_and_hooks_may_change_it_before():
    class Adds(tf.train.SessionRunHook):
        def begin(self):
            self.v = tf.Variable(4.0, name="made_in_begin")

        def before_run(self, run_context):
            return tf.train.SessionRunArgs(self.v)

        def after_run(self, run_context, run_values):
            assert run_values.results == 4.0

    with tf.train.MonitoredSession(hooks=[Adds()]) as sess:
        assert sess.graph.finalized
        sess.run("made_in_begin:0")
        with pytest.raises(RuntimeError, match="finalized"):
            tf.constant(1.0)


def test_last_step_stops():
    step, count = counting()
    with tf.train.MonitoredSession(hooks=[tf.train.StopAtStepHook(last_step=3)]) as sess:
        done = 0
        while not sess.should_stop():
            done = sess.run(count)
    assert done == 3
    with pytest.raises(ValueError, match="One of num_steps or last_step must be specified"):
        tf.train.StopAtStepHook()
    with pytest.raises(ValueError, match="Only one of num_steps or last_step"):
        tf.train.StopAtStepHook(num_steps=1, last_step=2)


def test_training_goes_on_from_the_last_checkpoint(tmp_path):
    logdir = str(tmp_path)
    for start in (0, 4):
        with tf.Graph().as_default():
            step, count = counting()
            with tf.train.MonitoredTrainingSession(
                checkpoint_dir=logdir,
                hooks=[tf.train.StopAtStepHook(num_steps=4)],
                save_checkpoint_steps=2,
                log_step_count_steps=None,
            ) as sess:
                assert sess.run(step) == start
                while not sess.should_stop():
                    sess.run(count)
    assert tf.train.latest_checkpoint(logdir) == os.path.join(logdir, "model.ckpt-8")


def test_aborted_sessions_are_made_again(tmp_path):
    step, count = counting()
    hook = Recorder()
    hook.raise_at = 3
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path), hooks=[hook], save_checkpoint_steps=1, log_step_count_steps=None
    ) as sess:
        assert [sess.run(count), sess.run(count)] == [1, 2]
        # The third step was saved before it failed: the new session does the fourth.
        assert [sess.run(count), sess.run(count)] == [4, 5]
    assert hook.calls.count("created") == 2 and hook.calls.count("begin") == 1


def test_training_goes_on_after_a_reset_of_its_server(tmp_path):
    step, count = counting()
    server = tf.train.Server.create_local_server()
    with tf.train.MonitoredTrainingSession(
        server.target, checkpoint_dir=str(tmp_path), save_checkpoint_steps=1, log_step_count_steps=None
    ) as sess:
        assert [sess.run(count), sess.run(count)] == [1, 2]
        tf.Session.reset(server.target)
        # The new session restores what the server has lost.
        assert sess.run(count) == 3


def test_killed_process_loses_only_what_was_not_saved(tmp_path):
    step, count = counting()
    session = tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path), save_checkpoint_steps=3, log_step_count_steps=None
    )
    for _ in range(5):
        session.run(count)
    # No close(): as if the process ended here. The checkpoint of step 3 is the last.
    with tf.Graph().as_default():
        step, count = counting()
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(tmp_path), log_step_count_steps=None
        ) as sess:
            assert sess.run(step) == 3


def test_errors_pass_through_and_end_hooks_are_not_called():
    _, count = counting()
    hook = Recorder()
    with pytest.raises(ValueError, match="mine"):
        with tf.train.MonitoredSession(hooks=[hook]) as sess:
            sess.run(count)
            raise ValueError("mine")
    assert "end" not in hook.calls and sess.should_stop()
    with pytest.raises(RuntimeError, match="Session is already closed"):
        sess.run(count)


def test_end_of_input_and_stop_iteration_end_the_block():
    for error in (tf.errors.OutOfRangeError(None, None, "end"), StopIteration()):
        with tf.Graph().as_default():
            _, count = counting()
            hook = Recorder()
            with tf.train.MonitoredSession(hooks=[hook]) as sess:
                sess.run(count)
                raise error
            assert hook.calls[-1] == "end"


def test_coordinated_errors_of_threads_are_raised():
    queue = tf.FIFOQueue(2, tf.float32)
    bad = tf.placeholder(tf.float32)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(bad)]))
    value = queue.dequeue()
    with pytest.raises(tf.errors.InvalidArgumentError):
        with tf.train.MonitoredSession() as sess:
            while not sess.should_stop():
                sess.run(value)


def test_feeds_of_hooks_join_those_of_the_caller():
    p, q = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])

    class Feeds(tf.train.SessionRunHook):
        def before_run(self, run_context):
            assert run_context.original_args.fetches is total and not run_context.stop_requested
            return tf.train.SessionRunArgs(None, feed_dict={p: 3.0})

    total = p + q
    with tf.train.MonitoredSession(hooks=[Feeds()]) as sess:
        assert sess.run(total, {q: 4.0}) == 7.0
        with pytest.raises(RuntimeError, match="Same tensor is fed"):
            sess.run(total, {p: 1.0, q: 4.0})


def test_request_stop_of_a_hook():
    _, count = counting()

    class Stops(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            run_context.request_stop()

    with tf.train.MonitoredSession(hooks=[Stops()]) as sess:
        assert sess.run(count) == 1
        assert sess.should_stop()
        with pytest.raises(RuntimeError, match="Run called even after should_stop requested"):
            sess.run(count)


def test_step_fn():
    _, count = counting()
    hook = Recorder()

    def step_fn(step_context):
        assert isinstance(step_context.session, tf.Session)
        value = step_context.run_with_hooks(count)
        if value == 2:
            step_context.request_stop()
        return value

    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        values = []
        while not sess.should_stop():
            values.append(sess.run_step_fn(step_fn))
            assert len(values) < 5
    assert values[0] == 1 and hook.calls.count("before") == 2
    with tf.Graph().as_default():
        with tf.train.MonitoredSession() as sess:
            with pytest.raises(ValueError, match="may either have one .step_context. argument"):
                sess.run_step_fn(lambda: 1)


def test_scaffold():
    v = tf.Variable(1.0, name="v")
    local = tf.get_variable("local", initializer=7.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    started = []
    scaffold = tf.train.Scaffold(
        init_op=tf.global_variables_initializer(),
        init_feed_dict={},
        init_fn=lambda scaffold, session: session.run(v.assign(5.0)) if False else started.append(session),
    )
    with tf.train.MonitoredSession(session_creator=tf.train.ChiefSessionCreator(scaffold)) as sess:
        assert sess.run([v, local]) == [1.0, 7.0]
    assert len(started) == 1
    assert scaffold.saver is not None and scaffold.ready_op is not None
    assert scaffold.local_init_op.type == "NoOp" and scaffold.summary_op is None


def test_variables_that_nobody_initializes():
    tf.get_variable("other", initializer=1.0, collections=[tf.GraphKeys.GLOBAL_VARIABLES])
    scaffold = tf.train.Scaffold(init_op=tf.no_op())
    with pytest.raises(RuntimeError, match="Init operations did not make model ready"):
        tf.train.MonitoredSession(session_creator=tf.train.ChiefSessionCreator(scaffold))


def test_checkpoint_with_filename(tmp_path):
    v = tf.Variable(1.0, name="v")
    with tf.Session() as sess:
        sess.run(v.assign(6.0))
        path = tf.train.Saver().save(sess, str(tmp_path / "x"))
    creator = tf.train.ChiefSessionCreator(checkpoint_filename_with_path=path)
    with tf.train.MonitoredSession(creator) as sess:
        assert sess.run(v) == 6.0


def test_singular_session_does_not_recover():
    _, count = counting()
    hook = Recorder()
    hook.raise_at = 1
    with pytest.raises(tf.errors.AbortedError):
        with tf.train.SingularMonitoredSession(hooks=[hook]) as sess:
            assert isinstance(sess.raw_session(), tf.Session)
            sess.run(count)


def test_worker_waits_for_the_chief():
    from millrace.python.training import monitored_session

    v = tf.Variable(3.0, name="v")
    server = tf.train.Server.create_local_server()
    chief_graph = tf.get_default_graph()
    found = []

    def work():
        with chief_graph.as_default():
            creator = tf.train.WorkerSessionCreator(master=server.target, max_wait_secs=60)
            with tf.train.MonitoredSession(creator) as sess:
                found.append(sess.run(v))

    with tf.train.MonitoredSession(tf.train.ChiefSessionCreator(master=server.target)) as sess:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(60)
        assert not thread.is_alive() and found == [3.0]
    assert monitored_session.USE_DEFAULT is not None
