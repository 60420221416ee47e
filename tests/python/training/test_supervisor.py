# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Supervisor, SessionManager, ClusterSpec and where variables go in a cluster."""

import glob
import os

import pytest

import millrace as tf
from millrace.core.protobuf import cluster_pb2
from millrace.python.training import session_manager as session_manager_lib


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def test_managed_session_trains_saves_and_goes_on(tmp_path):
    logdir = str(tmp_path / "log")
    for start in (0, 5):
        with tf.Graph().as_default():
            step = tf.train.get_or_create_global_step()
            count = tf.assign_add(step, 1)
            tf.summary.scalar("twice", 2 * step)
            supervisor = tf.train.Supervisor(logdir=logdir, save_model_secs=0, save_summaries_secs=0)
            with supervisor.managed_session() as sess:
                assert sess.run(step) == start
                for _ in range(5):
                    assert not supervisor.should_stop()
                    sess.run(count)
                supervisor.summary_computed(sess, sess.run(supervisor.summary_op))
                supervisor.saver.save(sess, supervisor.save_path, global_step=supervisor.global_step)
            assert supervisor.should_stop()
    assert tf.train.latest_checkpoint(logdir) == os.path.join(logdir, "model.ckpt-10")
    found = [
        (e.step, v.simple_value)
        for path in glob.glob(os.path.join(logdir, "events*"))
        for e in tf.train.summary_iterator(path)
        for v in e.summary.value
    ]
    assert sorted(found) == [(5, 10.0), (10, 20.0)]


def test_services_save_at_the_end(tmp_path):
    logdir = str(tmp_path / "log")
    step = tf.train.get_or_create_global_step()
    count = tf.assign_add(step, 1)
    supervisor = tf.train.Supervisor(logdir=logdir)
    with supervisor.managed_session() as sess:
        sess.run(count)
    assert tf.train.latest_checkpoint(logdir) is not None


def test_init_function_and_feed():
    p = tf.placeholder(tf.float32, [1])
    v = tf.Variable(p, name="v")
    double = v.assign(v * 2.0)
    supervisor = tf.train.Supervisor(
        logdir=None, init_feed_dict={p: [3.0]}, init_fn=lambda sess: sess.run(double), saver=None
    )
    with supervisor.managed_session() as sess:
        assert sess.run(v).tolist() == [6.0]


def test_errors_of_the_body_come_out():
    supervisor = tf.train.Supervisor(logdir=None, saver=None)
    with pytest.raises(ZeroDivisionError):
        with supervisor.managed_session():
            raise ZeroDivisionError()


def test_loop_calls_until_stop():
    calls = []
    tf.Variable(1.0)
    supervisor = tf.train.Supervisor(logdir=None, saver=None)
    with supervisor.managed_session("") as sess:

        def work():
            calls.append(1)
            if len(calls) == 3:
                supervisor.request_stop()

        supervisor.loop(None, work).join(30)
    assert len(calls) == 3 and sess is not None


def test_graph_is_finalized():
    tf.Variable(1.0)
    supervisor = tf.train.Supervisor(logdir=None, saver=None)
    with supervisor.managed_session(), pytest.raises(RuntimeError):
        tf.constant(0.0)


def test_preparing_initializes_or_restores(tmp_path):
    v = tf.Variable(1.0, name="v")
    saver = tf.train.Saver({"v": v})
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables())
    with manager.prepare_session(
        "", init_op=tf.global_variables_initializer(), saver=saver, checkpoint_dir=str(tmp_path)
    ) as sess:
        assert sess.run(v) == 1.0
        sess.run(v.assign(3.0))
        saver.save(sess, str(tmp_path / "x"))
    with manager.prepare_session(
        "", init_op=tf.global_variables_initializer(), saver=saver, checkpoint_dir=str(tmp_path)
    ) as sess:
        assert sess.run(v) == 3.0
    sess, restored = manager.recover_session("", saver, checkpoint_filename_with_path=str(tmp_path / "x"))
    assert restored and sess.run(v) == 3.0
    with pytest.raises(
        ValueError, match="Can not provide both checkpoint_dir and checkpoint_filename_with_path"
    ):
        manager.recover_session("", saver, checkpoint_dir="a", checkpoint_filename_with_path="b")


def test_init_ops_that_are_not_enough():
    v, w = tf.Variable(1.0, name="v"), tf.Variable(1.0, name="w")
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables())
    with pytest.raises(
        RuntimeError, match="Init operations did not make model ready.*Variables not initialized: w"
    ):
        manager.prepare_session("", init_op=v.initializer)
    with pytest.raises(RuntimeError, match="Model is not initialized and no init_op"):
        manager.prepare_session("", init_op=None)
    assert w is not None


def test_local_init_op_runs_when_the_globals_are_ready():
    v = tf.Variable(1.0, name="v")
    w = tf.Variable(
        v.initialized_value() + 1.0, trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES], name="w"
    )
    manager = tf.train.SessionManager(
        ready_op=tf.report_uninitialized_variables(),
        ready_for_local_init_op=tf.report_uninitialized_variables(tf.global_variables()),
        local_init_op=w.initializer,
    )
    sess = manager.prepare_session("", init_op=v.initializer)
    assert sess.run(w) == 2.0
    sess, restored = manager.recover_session("")
    assert not restored and not sess.run(tf.is_variable_initialized(w))


def test_waiting_for_a_session_ends():
    tf.Variable(1.0)
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables(), recovery_wait_secs=0.01)
    with pytest.raises(tf.errors.DeadlineExceededError, match="Session was not ready after waiting"):
        manager.wait_for_session("", max_wait_secs=0.05)
    assert session_manager_lib.SessionManager is tf.train.SessionManager


CLUSTER = {"worker": ["w0:1", "w1:1"], "ps": ["p0:1", "p1:1"]}


def test_cluster_spec():
    spec = tf.train.ClusterSpec(CLUSTER)
    assert (
        sorted(spec.jobs) == ["ps", "worker"]
        and spec.num_tasks("ps") == 2
        and spec.task_indices("ps") == [0, 1]
    )
    assert spec.task_address("worker", 1) == "w1:1" and spec.job_tasks("ps") == ["p0:1", "p1:1"]
    assert spec.as_dict() == CLUSTER and bool(spec) and not tf.train.ClusterSpec({})
    assert tf.train.ClusterSpec(spec) == spec == tf.train.ClusterSpec(spec.as_cluster_def())
    wanted = cluster_pb2.ClusterDef()
    for job in ("ps", "worker"):
        message = wanted.job.add(name=job)
        for i, address in enumerate(CLUSTER[job]):
            message.tasks[i] = address
    assert spec.as_cluster_def() == wanted
    sparse = tf.train.ClusterSpec({"worker": {3: "w3:1", 0: "w0:1"}})
    assert sparse.task_indices("worker") == [0, 3] and sparse.job_tasks("worker") == [
        "w0:1",
        None,
        None,
        "w3:1",
    ]
    assert sparse.as_dict() == {"worker": {0: "w0:1", 3: "w3:1"}}
    with pytest.raises(ValueError, match="No such job in cluster: 'none'"):
        spec.task_address("none", 0)
    with pytest.raises(ValueError, match="No task with index 2 in job 'ps'"):
        spec.task_address("ps", 2)


def test_wrong_cluster_specs():
    for bad in (["job"], {"a": 3}, {"a": [3]}, {3: ["x"]}):
        with pytest.raises(TypeError):
            tf.train.ClusterSpec(bad)


def test_variables_go_to_parameter_servers_in_turn():
    with tf.device(tf.train.replica_device_setter(cluster=tf.train.ClusterSpec(CLUSTER))):
        v, w, x = (tf.Variable([1.0, 2.0]) for _ in range(3))
        a = v + w
    assert [u.device for u in (v, w, x)] == ["/job:ps/task:%d" % i for i in (0, 1, 0)]
    assert v.initializer.device == "/job:ps/task:0" and a.device == "/job:worker"


def test_device_setter_options():
    with tf.device(
        tf.train.replica_device_setter(ps_tasks=3, worker_device="/job:w/cpu:0", ps_device="/job:p/cpu:1")
    ):
        v = tf.Variable(1.0)
        b = v * 2.0
    assert v.device == "/job:p/task:0/device:CPU:1" and b.device == "/job:w/device:CPU:0"
    assert tf.train.replica_device_setter(0) is None
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, ps_strategy=lambda op: 1)):
        assert [tf.Variable(1.0).device for _ in range(2)] == ["/job:ps/task:1"] * 2


def test_sync_replicas_averages_before_it_applies():
    step = tf.train.get_or_create_global_step()
    v = tf.Variable(10.0)
    p = tf.placeholder(tf.float32, [])
    optimizer = tf.train.SyncReplicasOptimizer(
        tf.train.GradientDescentOptimizer(1.0), replicas_to_aggregate=1, total_num_replicas=1
    )
    train = optimizer.apply_gradients([(p, v)], global_step=step)
    hook = optimizer.make_session_run_hook(is_chief=True)
    with tf.train.MonitoredSession(hooks=[hook], stop_grace_period_secs=5) as sess:
        sess.run(train, {p: 2.0})
        sess.run(train, {p: 3.0})
        value, steps = sess.run([v, step])
    assert steps >= 1 and value in (8.0, 7.5, 5.0)  # when the chief averages is left open
