# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions: life, defaults, errors, callables, partial runs, options, threads."""
from __future__ import annotations

import json
import threading

import numpy as np
import pytest

import millrace as tf
from millrace.core.protobuf import config_pb2
from millrace.python.client import timeline


def test_life() -> None:
    a = tf.constant(1)
    session = tf.Session()
    assert session.run(a) == 1 and session.graph is a.graph and session.sess_str == b""
    session.close()
    session.close()
    with pytest.raises(RuntimeError, match="Attempted to use a closed Session."):
        session.run(a)
    with pytest.raises(
        RuntimeError,
        match="The Session graph is empty.  Add operations to the graph before calling run\\(\\).",
    ):
        tf.Session(graph=tf.Graph()).run([])
    with pytest.raises(TypeError, match="graph must be a tf.Graph, but got <class 'str'>"):
        tf.Session(graph="x")
    with pytest.raises(TypeError, match="target must be a string, but got <class 'int'>"):
        tf.Session(37)
    with pytest.raises(TypeError, match="config must be a tf.ConfigProto, but got <class 'str'>"):
        tf.Session(config="proto")
    with pytest.raises(tf.errors.NotFoundError):
        tf.Session("no://such.target")


def test_default_sessions() -> None:
    assert tf.get_default_session() is None
    with tf.Session() as one:
        assert tf.get_default_session() is one
        with tf.Session(graph=tf.Graph()) as two:
            assert tf.get_default_session() is two and tf.get_default_graph() is two.graph
            with one.as_default():
                assert tf.get_default_session() is one and tf.get_default_graph() is two.graph
    assert tf.get_default_session() is None
    session = tf.Session()
    with session.as_default():
        pass
    assert session.run(tf.constant(2)) == 2
    session.close()
    interactive = tf.InteractiveSession()
    assert tf.constant(5.0).eval() == 5.0 and tf.get_default_session() is interactive
    interactive.close()
    assert tf.get_default_session() is None
    with pytest.raises(RuntimeError, match="context manager is not re-entrant|not re-entrant"):
        session = tf.Session()
        with session:
            with session:
                pass


def test_graphs_grow_between_runs() -> None:
    with tf.Session() as session:
        a = tf.constant(1.0)
        assert session.run(a) == 1.0
        b = a + 1.0
        assert session.run(b) == 2.0
        for i in range(50):
            b = b + 1.0
            assert session.run(b) == 3.0 + i
        assert session.run(b, {a: 10.0}) == 61.0


def test_errors_have_the_operation_and_the_line() -> None:
    x = tf.placeholder(tf.float32, [None, None], name="x")
    bad = tf.matmul(x, tf.ones([2, 3]), name="bad")
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(bad, {x: np.ones([1, 5])})
    error = caught.value
    assert (
        error.op is bad.op and error.node_def.name == "bad" and error.error_code == tf.errors.INVALID_ARGUMENT
    )
    assert "Matrix size-incompatible: In[0]: [1,5], In[1]: [2,3]" in error.message
    assert __file__ in str(error) and 'name="bad"' in str(error)


def test_operations_run_once_each_step() -> None:
    counter = tf.Variable(0)
    bump = tf.assign_add(counter, 1)
    with tf.Session() as session:
        session.run(counter.initializer)
        assert session.run([bump, bump, bump.op]) == [1, 1, None] and session.run(counter) == 1
        session.run(bump.op)
        assert session.run(counter) == 2
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="Attempting to use uninitialized value"):
            session.run(counter)


def test_callables() -> None:
    a, b = tf.placeholder(tf.float32, [], name="a"), tf.placeholder(tf.float32, name="b")
    total = a + b
    with tf.Session() as session:
        add = session.make_callable(total, [a, b])
        assert add(1.0, 2.0) == 3.0 and add(np.float32(4), 5) == 9.0
        both = session.make_callable([total, {"a": a}], feed_list=[a, b])
        assert both(1, 2) == [3.0, {"a": 1.0}]
        assert session.make_callable(total.op, [a, b])(1, 2) is None
        assert session.make_callable(tf.constant(3))() == 3
        with pytest.raises(TypeError, match="`feed_list` must be a list or tuple."):
            session.make_callable(total, {a: 1})
        with pytest.raises((TypeError, ValueError)):
            add(1.0)
        # As in TensorFlow, callables leave shapes to the kernels.
        assert add([1.0, 2.0], 1.0).tolist() == [2.0, 3.0]
        options, metadata = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), tf.RunMetadata()
        timed = session.make_callable(total, [a, b], accept_options=True)
        assert timed(1, 2, options=options, run_metadata=metadata) == 3.0 and metadata.step_stats.dev_stats
        with pytest.raises((ValueError, KeyError)):
            session.make_callable("nothing:0")
    with pytest.raises((RuntimeError, tf.errors.OpError)):
        add(1.0, 2.0)


def test_partial_runs() -> None:
    a, b, c = (tf.placeholder(tf.float32, [], name=n) for n in "abc")
    r1 = a + b
    r2 = r1 * c
    with tf.Session() as session:
        handle = session.partial_run_setup([r1, r2], [a, b, c])
        assert session.partial_run(handle, r1, {a: 1, b: 2}) == 3.0
        assert session.partial_run(handle, [r2], {c: 17}) == [51.0]
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
            session.partial_run(handle, r1)
        handle = session.partial_run_setup([r1, r2, r2.op], [a, b, c])
        assert session.partial_run(handle, r2, {a: 2, b: 2, c: 3}) == 12.0
        with pytest.raises(KeyError, match="Cannot interpret feed_list key as Tensor"):
            session.partial_run_setup([r1], [tf.constant(1.0), "nothing:0"])
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="specify at least one target to fetch or execute."
        ):
            session.partial_run_setup(fetches=[], feeds=[a])
        handle = session.partial_run_setup([r1], [a, b])
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match="was not specified in partial_run_setup.$|not specified in partial_run_setup",
        ):
            session.partial_run(handle, r1, {c: 3})


def test_run_options_and_metadata() -> None:
    fed = tf.placeholder(tf.float32, [4, 4])
    x = tf.matmul(tf.ones([4, 4]), fed, name="mul")
    feeds = {fed: np.eye(4)}
    with tf.Session() as session:
        metadata = tf.RunMetadata()
        session.run(
            x, feeds, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata
        )
        names = {node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats}
        assert "mul" in names
        assert '"name": "MatMul"' in timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()
        with pytest.raises(
            TypeError, match="options must be a tf.RunOptions, but got <class 'int'>|Expected serialized"
        ):
            session.run(x, feeds, options=3)
        metadata = tf.RunMetadata()
        session.run(x, feeds, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
        assert metadata.partition_graphs


def test_timeouts() -> None:
    queue = tf.FIFOQueue(1, [tf.float32])
    with tf.Session() as session:
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(queue.dequeue(), options=tf.RunOptions(timeout_in_ms=100))
    config = tf.ConfigProto(operation_timeout_in_ms=100)
    with tf.Session(config=config) as session:
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(queue.dequeue())


def test_closing_cancels_runs() -> None:
    queue = tf.FIFOQueue(1, [tf.float32])
    started = threading.Event()
    with tf.control_dependencies([tf.py_func(started.set, [], [])]):
        dequeue = queue.dequeue()
    session = tf.Session()
    errors = []

    def wait() -> None:
        try:
            session.run(dequeue)
        except tf.errors.OpError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert started.wait(60)
    session.close()
    thread.join(60)
    assert not thread.is_alive() and isinstance(errors[0], tf.errors.CancelledError)


def test_many_threads() -> None:
    x = tf.placeholder(tf.float32, [])
    y = x * x
    with tf.Session() as session:
        results: dict[int, list[float]] = {}

        def work(number: int) -> None:
            results[number] = [float(session.run(y, {x: float(number + i)})) for i in range(50)]

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert results == {n: [float((n + i) ** 2) for i in range(50)] for n in range(8)}


def test_configuration() -> None:
    config = config_pb2.ConfigProto(device_count={"CPU": 3}, intra_op_parallelism_threads=1)
    with tf.Session(config=config) as session:
        devices = session.list_devices()
        assert [d.name for d in devices if d.device_type == "CPU"] == [
            "/job:localhost/replica:0/task:0/device:CPU:%d" % i for i in range(3)
        ]
        with tf.device("/cpu:2"):
            a = tf.constant(1.0)
        assert session.run(a) == 1.0
        with tf.device("/cpu:7"):
            b = tf.identity(a)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Cannot assign a device for operation"):
            session.run(b)
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 1}, allow_soft_placement=True)) as session:
        assert session.run(b) == 1.0


def test_servers() -> None:
    server = tf.train.Server.create_local_server()
    counter = tf.Variable(0, name="counter")
    bump = tf.assign_add(counter, 1)
    with tf.Session(server.target) as session:
        session.run(counter.initializer)
        assert session.run(bump) == 1
        assert any(d.device_type == "CPU" for d in session.list_devices())
    with tf.Session(server.target) as session:
        assert session.run(bump) == 2
    open_session = tf.Session(server.target)
    assert open_session.run(counter) == 2
    tf.Session.reset(server.target)
    with pytest.raises(tf.errors.AbortedError, match="is not found. Possibly, this master has restarted."):
        open_session.run(counter)
    open_session.close()
    with tf.Session(server.target) as session:
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(bump)


def test_what_may_not_be_run_does_not_slow_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a branch in the graph, whose tensors are not for all to fetch, others still take the short way."""
    x = tf.placeholder(tf.float32, [None])
    inside: list[tf.Tensor] = []

    def branch() -> tf.Tensor:
        inside.append(x * 2.0)
        return inside[0]

    y = tf.cond(tf.constant(True), branch, lambda: x)
    z = x + 1.0
    graph = tf.get_default_graph()
    graph.prevent_feeding(y)
    assert graph._unfetchable_ops
    with tf.Session() as session:
        with pytest.raises(ValueError, match="has been marked as not fetchable"):
            session.run(inside[0], {x: [1.0]})
        with pytest.raises(ValueError, match="may not be fed"):
            session.run(z, {y: [1.0], x: [1.0]})
        monkeypatch.setattr(session, "_run", None)
        assert session.run(z, {x: np.ones(2, np.float32)}).tolist() == [2.0, 2.0]
        assert session.run([y, z.op], {x: np.ones(1, np.float32)})[0].tolist() == [2.0]
        with pytest.raises(TypeError):
            session.run([y, inside[0]], {x: np.ones(1, np.float32)})


def test_a_timeline_has_the_memory_of_each_tensor():
    with tf.Graph().as_default(), tf.Session() as session:
        first, second = tf.get_variable("num1", []), tf.get_variable("num2", [])
        total = tf.add(first, second, name="sum")
        session.run(tf.global_variables_initializer())
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run(total, options=options, run_metadata=metadata)
    analysis = timeline.Timeline(metadata.step_stats).analyze_step_stats()
    most = analysis.allocator_maximums["cpu"]
    assert most.num_bytes >= 8 and most.timestamp > 0
    assert {"num1", "num2", "sum"} <= most.tensors
    events = json.loads(analysis.chrome_trace.format_to_string())["traceEvents"]
    made = {e["name"]: e["ts"] for e in events if e["ph"] == "N"}
    gone = {e["name"]: e["ts"] for e in events if e["ph"] == "D"}
    assert set(made) == set(gone) >= {"num1/read", "sum"}
    assert all(made[name] <= gone[name] for name in made)
    assert made["sum"] <= gone["num1/read"]
