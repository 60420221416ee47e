# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Python functions run as ops, with values, types, order and errors."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf

RNG = np.random.RandomState(1)


def run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.local_variables_initializer())
        return session.run(fetches, feed)


def test_values_of_all_types() -> None:
    for value in (
        np.float32([1, 2]),
        np.int64(3),
        np.array([True]),
        np.array([b"a", b"bc"], dtype=object),
        np.complex64([1j]),
    ):
        dtype = tf.as_dtype(value.dtype) if value.dtype != object else tf.string
        result = tf.py_func(lambda x: x, [tf.constant(value)], dtype)
        np.testing.assert_array_equal(run(result), value)


def test_several_results_and_none() -> None:
    a, b = tf.py_func(lambda x, y: (x + y, x * y), [1.0, 2.0], [tf.float32, tf.float32])
    assert run([a, b]) == [3, 2]
    calls: list[int] = []
    op = tf.py_func(lambda: calls.append(1), [], [])
    assert isinstance(op, tf.Operation)
    run(op)
    assert calls == [1]


def test_text_and_lists() -> None:
    assert run(tf.py_func(lambda s: s + b"!", [tf.constant("a")], tf.string)) == b"a!"
    assert run(tf.py_func(lambda: "\u00e9", [], tf.string)) == "\u00e9".encode()
    assert run(tf.py_func(lambda: ["x", "yz"], [], [tf.string, tf.string])) == [b"x", b"yz"]
    assert run(tf.py_func(lambda: [[1.0, 2.0]], [], [tf.float64]))[0].tolist() == [1, 2]


def test_errors_keep_their_class_and_text() -> None:
    for error, wanted in (
        (ValueError("bad value"), tf.errors.InvalidArgumentError),
        (TypeError("bad type"), tf.errors.InvalidArgumentError),
        (StopIteration("done"), tf.errors.OutOfRangeError),
        (MemoryError("no memory"), tf.errors.ResourceExhaustedError),
        (NotImplementedError("not there"), tf.errors.UnimplementedError),
        (KeyError("other"), tf.errors.UnknownError),
    ):

        def fail(error: Any = error) -> Any:
            raise error

        with pytest.raises(wanted, match=str(error).strip("'")):
            run(tf.py_func(fail, [], tf.float32))
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="0-th value returned by pyfunc_\\d+ is double, but expects int64",
    ):
        run(tf.py_func(lambda: np.float64(1.5), [], tf.int64))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="pyfunc_\\d+ returns 2 values, but expects to see 1 values."
    ):
        run(tf.py_func(lambda: (1, 2), [], [tf.int64]))
    with pytest.raises(ValueError, match="Expected func to be callable, got func of type"):
        tf.py_func(5, [], tf.float32)


def test_functions_live_as_long_as_their_graph() -> None:
    import gc
    import weakref

    class Function:
        def __call__(self) -> Any:
            return np.float32(1)

    graph = tf.Graph()
    function = Function()
    alive = weakref.ref(function)
    with graph.as_default():
        result = tf.py_func(function, [], tf.float32)
    del function
    gc.collect()
    with tf.Session(graph=graph) as session:
        assert session.run(result) == 1
    del graph, result, session
    gc.collect()
    assert alive() is None


def test_numpy_function_and_stateless() -> None:
    assert run(tf.numpy_function(np.sinh, [tf.constant(1.0)], tf.float32)) == pytest.approx(np.sinh(1))
    assert tf.py_func(lambda: 1, [], tf.int64, stateful=False).op.type == "PyFuncStateless"
    assert tf.py_func(lambda: 1, [], tf.int64).op.type == "PyFunc"


def test_scalars_are_scalars_of_numpy() -> None:
    seen: list[Any] = []
    run(tf.py_func(lambda *args: seen.extend(args), [1.5, tf.constant("a"), [1]], []))
    assert isinstance(seen[0], np.float32) and seen[1] == b"a" and isinstance(seen[2], np.ndarray)


def test_calls_in_loops_and_threads() -> None:
    total = tf.while_loop(
        lambda i, s: i < 5,
        lambda i, s: (i + 1, s + tf.reshape(tf.py_func(lambda x: x, [i], tf.int32), [])),
        [0, 0],
    )
    assert run(total) == [5, 10] or run(total) == (5, 10)
    many = [tf.py_func(lambda x: x + x, [float(k)], tf.float32) for k in range(20)]
    assert run(many) == [2.0 * k for k in range(20)]


def test_functions_of_a_step_may_wait_for_each_other():
    import queue

    values = queue.Queue()
    got = tf.py_func(lambda: np.int64(values.get(timeout=120)), [], tf.int64)
    put = tf.py_func(lambda x: values.put(int(x)) or np.int64(1), [tf.constant(7, tf.int64)], tf.int64)
    config = tf.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
    for options in (None, config):
        with tf.Session(config=options) as sess:
            for _ in range(20):
                assert sess.run([got, put]) == [7, 1]
                assert sess.run([put, got]) == [1, 7]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_iterations_may_wait_for_each_other(threads):
    """The calls of one node, in the iterations of a loop that run at the same time, meet in twos."""
    import threading

    meeting = threading.Barrier(2)

    def meet(i):
        meeting.wait(timeout=120)
        return np.int32(i)

    _, met = tf.while_loop(
        lambda i, s: i < 8,
        lambda i, s: (i + 1, s + tf.reshape(tf.py_func(meet, [i], tf.int32), [])),
        [0, 0],
        parallel_iterations=4,
    )
    config = tf.ConfigProto(inter_op_parallelism_threads=threads, intra_op_parallelism_threads=threads)
    with tf.Session(config=config) as sess:
        for _ in range(3):
            assert sess.run(met) == sum(range(8))


def test_functions_wait_for_nodes_behind_others():
    """A function that waits does not keep the nodes from running that would end its wait."""
    import threading

    for threads in (1, 2):
        reached = threading.Event()
        waits = tf.py_func(lambda: np.int64(reached.wait(timeout=120)), [], tf.int64)
        first = tf.py_func(lambda x: x, [tf.constant(2, tf.int64)], tf.int64)
        sets = tf.py_func(lambda x: reached.set() or x, [tf.square(first) + 1], tf.int64)
        config = tf.ConfigProto(inter_op_parallelism_threads=threads, intra_op_parallelism_threads=threads)
        with tf.Session(config=config) as sess:
            for _ in range(3):
                reached.clear()
                assert sess.run([waits, sets]) == [1, 5]


def test_a_loop_may_wait_for_a_function():
    """The loop has no end until the function has run, and there is one thread for nodes."""
    value = tf.Variable(0, use_resource=True, trainable=False)
    assign = value.assign(tf.reshape(tf.py_func(lambda: np.int32(5), [], tf.int32), []))
    turns = tf.while_loop(
        lambda i: tf.equal(value.read_value(), 0), lambda i: i + 1, [tf.constant(0)], back_prop=False
    )
    config = tf.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
    with tf.Session(config=config) as sess:
        for _ in range(10):
            sess.run(value.initializer)
            assert sess.run([assign, turns])[0] == 5
