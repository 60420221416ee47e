# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Programs of parameter servers and workers on servers of this machine."""
import socket

import numpy as np
import pytest

import millrace as tf


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("localhost", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture
def cluster():
    """A ps and two workers in this process, which talk to each other through their ports."""
    ports = free_ports(3)
    spec = tf.train.ClusterSpec(
        {"ps": ["localhost:%d" % ports[0]], "worker": ["localhost:%d" % port for port in ports[1:]]}
    )
    servers = {
        (job, task): tf.train.Server(spec, job_name=job, task_index=task)
        for job, task in (("ps", 0), ("worker", 0), ("worker", 1))
    }
    yield spec, servers


def model(spec, task):
    device = tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % task, cluster=spec)
    with tf.device(device):
        x = tf.placeholder(tf.float32, [None, 4])
        y = tf.placeholder(tf.float32, [None, 1])
        w = tf.get_variable("w", [4, 1], initializer=tf.zeros_initializer())
        b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y))
        step = tf.train.get_or_create_global_step()
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
    return x, y, w, b, loss, step, train


def test_variables_live_on_the_parameter_server(cluster):
    spec, servers = cluster
    with tf.Graph().as_default():
        x, y, w, b, loss, step, train = model(spec, 0)
        assert w.device == "/job:ps/task:0" and loss.device == "/job:worker/task:0"
        with tf.Session(servers["worker", 0].target) as session:
            session.run(tf.global_variables_initializer())
            inputs = np.random.RandomState(1).randn(64, 4).astype(np.float32)
            wanted = inputs.dot([[1], [2], [3], [-1]]) + 0.5
            for _ in range(200):
                session.run(train, {x: inputs, y: wanted})
            np.testing.assert_allclose(session.run(w), [[1], [2], [3], [-1]], atol=1e-3)
            assert session.run(step) == 200
    # Another worker sees the same variables.
    with tf.Graph().as_default():
        _, _, w, b, _, step, _ = model(spec, 1)
        with tf.Session(servers["worker", 1].target) as session:
            assert session.run(step) == 200
            np.testing.assert_allclose(session.run(b), [0.5], atol=1e-3)


def test_errors_of_other_tasks_name_operation_and_task(cluster):
    _, servers = cluster
    with tf.Graph().as_default():
        value = tf.placeholder(tf.float32, [])
        with tf.device("/job:ps/task:0"):
            checked = tf.check_numerics(value, "not a number", name="checked")
        with tf.Session(servers["worker", 0].target) as session:
            assert session.run(checked, {value: 2}) == 2
            with pytest.raises(tf.errors.InvalidArgumentError, match="not a number") as caught:
                session.run(checked, {value: np.nan})
            assert caught.value.message.startswith("From /job:ps/replica:0/task:0:")


def test_monitored_training(cluster, tmp_path):
    spec, servers = cluster
    with tf.Graph().as_default():
        x, y, _, _, loss, step, train = model(spec, 0)
        random = np.random.RandomState(0)
        with tf.train.MonitoredTrainingSession(
            master=servers["worker", 0].target,
            is_chief=True,
            checkpoint_dir=str(tmp_path),
            hooks=[tf.train.StopAtStepHook(last_step=50)],
        ) as session:
            while not session.should_stop():
                inputs = random.randn(32, 4)
                session.run(train, {x: inputs, y: inputs.sum(axis=1, keepdims=True)})
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-50")
    assert tf.train.load_variable(str(tmp_path), "global_step") == 50
