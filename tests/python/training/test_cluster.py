# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Programs of parameter servers and workers on servers of this machine."""
import os
import threading
import time

import numpy as np
import pytest

import millrace as tf
from millrace.python.training import chief_lease


@pytest.fixture
def cluster(free_ports):
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


def train_synchronously(spec, server, task, folder, last_step, wait=0.0):
    """One replica of a between-graph program as it is usually written; what the last step was."""
    with tf.Graph().as_default():
        device = tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % task, cluster=spec)
        with tf.device(device):
            w = tf.get_variable("w", [4], initializer=tf.zeros_initializer())
            loss = tf.reduce_sum(tf.square(w - [1.0, 2.0, 3.0, 4.0]))
            step = tf.train.get_or_create_global_step()
            optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 2, 2)
            train = optimizer.minimize(loss, global_step=step)
        time.sleep(wait)
        with tf.train.MonitoredTrainingSession(
            master=server.target,
            is_chief=task == 0,
            checkpoint_dir=folder if task == 0 else None,
            hooks=[optimizer.make_session_run_hook(task == 0), tf.train.StopAtStepHook(last_step=last_step)],
            config=tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % task]),
        ) as session:
            last = 0
            while not session.should_stop():
                _, last = session.run([train, step])
        return last


@pytest.mark.parametrize("late", [0, 1])
def test_synchronous_replicas_end_soon(cluster, tmp_path, late):
    """The chief's thread waits for gradients that no replica hands in any more, and a replica for the chief."""
    spec, servers = cluster
    last = [None, None]

    def body(task):
        last[task] = train_synchronously(
            spec, servers["worker", task], task, str(tmp_path), 20, 1.5 if task == late else 0
        )

    threads = [threading.Thread(target=body, args=(task,), daemon=True) for task in range(2)]
    started = time.time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert None not in last and max(last) >= 19, "the step before the update that ended it"
    assert time.time() - started < 30
    assert tf.train.load_variable(str(tmp_path), "global_step") >= 20


def test_the_next_in_line_becomes_the_chief(cluster, tmp_path):
    """The first worker gives up; the second one continues with its variables, and saves."""
    spec, servers = cluster

    def make(task, folder, lease_secs):
        x, y, _, _, _, step, train = model(spec, task)
        target = servers["worker", task].target
        config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % task])
        lease = chief_lease.ChiefLease(target, task, config, lease_secs=lease_secs)
        session = tf.train.MonitoredTrainingSession(
            master=target, is_chief=lease, checkpoint_dir=folder, config=config, save_checkpoint_steps=5
        )
        feed = {x: np.ones([2, 4]), y: np.ones([2, 1])}
        return lease, session, lambda: session.run([step, train], feed)[0]

    with tf.Graph().as_default():
        first, session, run = make(0, str(tmp_path / "first"), 5)  # renewed each second
        for _ in range(7):
            run()
        assert first.is_chief()
    with tf.Graph().as_default():
        second, session2, run2 = make(1, str(tmp_path / "second"), 2)  # waits for three
        assert run2() >= 7, "the variables are those of the first worker"
        assert not second.is_chief() and not os.path.exists(str(tmp_path / "second" / "checkpoint"))
        first.close()
        started = time.time()
        while not second.is_chief() and time.time() - started < 60:
            run2()
        assert second.is_chief()
        for _ in range(10):
            last = run2()
        saved = tf.train.load_variable(str(tmp_path / "second"), "global_step")
        assert 7 < saved <= last + 1
        session2.close()
        second.close()
    session.close()


def test_a_lease_needs_a_time_and_a_place(cluster):
    _, servers = cluster
    for task, seconds in ((-1, 1.0), (0, 0.0), (0, float("nan"))):
        with pytest.raises(ValueError, match="There is no lease"):
            chief_lease.ChiefLease(servers["worker", 0].target, task, lease_secs=seconds)


def steps_of(target, spec, towers, partitions):
    """Trains a table of rows and a weight by in-graph replicas; the values of all parts after each step."""
    with tf.Graph().as_default():
        setter = tf.train.replica_device_setter(cluster=spec) if spec else None
        with tf.device(setter):
            partitioner = tf.fixed_size_partitioner(partitions) if partitions else None
            table = tf.get_variable(
                "table", [9, 2], initializer=tf.zeros_initializer(), partitioner=partitioner
            )
            w = tf.get_variable("w", [2], initializer=tf.ones_initializer())
        parts = list(table) if partitions else [table]
        devices = {part.device for part in parts}
        found = []
        for tower in range(2):
            with tf.device("/job:worker/task:%d" % tower if towers else None):
                rows = tf.constant([[0, 4, 8], [1, 4, 7]][tower])
                looked_up = tf.nn.embedding_lookup(table, rows, partition_strategy="div")
                loss = tf.reduce_sum(tf.square(looked_up * w - [[1.0, 2.0]]))
                found.append(tf.gradients(loss, parts + [w]))
        optimizer = tf.train.GradientDescentOptimizer(0.05)
        means = [
            (tf.add_n([tf.convert_to_tensor(g) for g in gradients]) / 2, v)
            for gradients, v in zip(zip(*found), parts + [w])
        ]
        train = optimizer.apply_gradients(means)
        with tf.Session(target) as session:
            session.run(tf.global_variables_initializer())
            values = []
            for _ in range(5):
                session.run(train)
                values.append(np.concatenate([np.ravel(v) for v in session.run(parts + [w])]))
    return values, devices


def test_in_graph_replicas_and_parts_on_two_parameter_servers(free_ports):
    ports = ["localhost:%d" % port for port in free_ports(4)]
    spec = tf.train.ClusterSpec({"ps": ports[:2], "worker": ports[2:]})
    servers = [
        tf.train.Server(spec, job_name=job, task_index=i) for job in ("ps", "worker") for i in range(2)
    ]
    values, devices = steps_of(servers[2].target, spec, towers=True, partitions=3)
    assert devices == {"/job:ps/task:0", "/job:ps/task:1"}
    wanted, _ = steps_of("", None, towers=False, partitions=None)
    np.testing.assert_array_equal(values, wanted)
