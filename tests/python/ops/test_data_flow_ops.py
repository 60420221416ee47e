# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Queues, barriers, stages, accumulators and dynamic partitions."""
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


def test_fifo_queue() -> None:
    q = tf.FIFOQueue(10, [tf.float32, tf.int32], [[], [2]], name="q")
    assert (
        q.dtypes == [tf.float32, tf.int32]
        and q.shapes == [[], [2]]
        and q.name == "q"
        and q.queue_ref.op.type == "FIFOQueueV2"
    )
    with tf.Session() as session:
        session.run(q.enqueue([1.0, [2, 3]]))
        session.run(q.enqueue_many([[4.0, 5.0], [[6, 7], [8, 9]]]))
        assert session.run(q.size()) == 3
        x, y = q.dequeue()
        assert x.shape == [] and y.shape == [2]
        assert [v.tolist() for v in session.run([x, y])] == [1.0, [2, 3]]
        a, b = session.run(q.dequeue_many(2))
        assert a.tolist() == [4, 5] and b.tolist() == [[6, 7], [8, 9]]
        session.run(q.close())
        assert session.run(q.is_closed())
        with pytest.raises(
            tf.errors.OutOfRangeError,
            match="FIFOQueue '.*q' is closed and has insufficient elements \\(requested 1, current size 0\\)",
        ):
            session.run(q.dequeue())
        with pytest.raises(tf.errors.CancelledError, match="is closed"):
            session.run(q.enqueue([1.0, [2, 3]]))


def test_queue_components_by_name() -> None:
    q = tf.FIFOQueue(5, [tf.int32, tf.float32], names=["i", "f"], shapes=[[], []])
    with tf.Session() as session:
        session.run(q.enqueue({"i": 1, "f": 2.0}))
        assert session.run(q.dequeue()) == {"i": 1, "f": 2.0}
    with pytest.raises(ValueError, match="Keys in dictionary to enqueue do not match names of Queue"):
        q.enqueue({"i": 1})
    with pytest.raises(ValueError, match="You must enqueue a dictionary in a Queue with names"):
        q.enqueue([1, 2.0])


def test_errors_of_enqueue() -> None:
    q = tf.FIFOQueue(5, [tf.int32], shapes=[[2]])
    with pytest.raises(ValueError, match="Shapes .* are incompatible|must be equal|not compatible"):
        q.enqueue([[1, 2, 3]])
    with pytest.raises((TypeError, ValueError)):
        q.enqueue([["a", "b"]])
    with pytest.raises(tf.errors.InvalidArgumentError):
        with tf.Session() as session:
            session.run(tf.FIFOQueue(5, [tf.int32]).dequeue_many(2))


def test_other_queues() -> None:
    p = tf.PaddingFIFOQueue(10, [tf.int32], [[None]])
    r = tf.RandomShuffleQueue(10, 0, [tf.int32], [[]], seed=1)
    o = tf.PriorityQueue(10, [tf.string], [[]])
    with tf.Session() as session:
        session.run(p.enqueue([[1]]))
        session.run(p.enqueue([[2, 3]]))
        assert session.run(p.dequeue_many(2)).tolist() == [[1, 0], [2, 3]]
        session.run(r.enqueue_many([list(range(8))]))
        values = session.run(r.dequeue_many(8))
        assert sorted(values) == list(range(8)) and values.tolist() != list(range(8))
        session.run(o.enqueue_many([np.array([3, 1, 2]), ["c", "a", "b"]]))
        assert session.run(o.dequeue_many(3))[1].tolist() == [b"a", b"b", b"c"]
        session.run(p.enqueue([[5]]))
        session.run(p.close())
        assert session.run(p.dequeue_up_to(5)).tolist() == [[5]]
    with pytest.raises(ValueError, match="shapes must be same length as dtypes|Shapes must|shapes"):
        tf.PaddingFIFOQueue(10, [tf.int32, tf.int32], [[None]])


def test_queue_from_list() -> None:
    a, b = (tf.FIFOQueue(5, [tf.int32], [[]], shared_name=n) for n in "ab")
    q = tf.FIFOQueue.from_list(tf.constant(1), [a, b])
    with tf.Session() as session:
        session.run(b.enqueue([7]))
        assert session.run(q.dequeue()) == 7
    with pytest.raises(TypeError, match="A list of queues expected|list of queues"):
        tf.QueueBase.from_list(0, "ab")


def test_barrier() -> None:
    from millrace.python.ops import data_flow_ops

    barrier = data_flow_ops.Barrier((tf.float32, tf.float32), shapes=((), ()), name="B")
    with tf.Session() as session:
        session.run(barrier.insert_many(0, ["a", "b"], [1.0, 2.0]))
        assert session.run([barrier.ready_size(), barrier.incomplete_size()]) == [0, 2]
        session.run(barrier.insert_many(1, ["b"], [20.0]))
        index, key, values = session.run(barrier.take_many(1))
        assert key.tolist() == [b"b"] and [v.tolist() for v in values] == [[2], [20]]
        session.run(barrier.close(cancel_pending_enqueues=True))


def test_barrier_without_shapes() -> None:
    """Its components are scalars."""
    from millrace.python.ops import data_flow_ops

    barrier = data_flow_ops.Barrier((tf.float32, tf.string))
    with tf.Session() as session:
        session.run(barrier.insert_many(0, ["a", "b"], [1.0, 2.0]))
        session.run(barrier.insert_many(1, ["b", "a"], ["y", "x"]))
        _, key, values = session.run(barrier.take_many(2))
        assert key.tolist() == [b"b", b"a"] and [v.tolist() for v in values] == [[2, 1], [b"y", b"x"]]
        with pytest.raises(tf.errors.InvalidArgumentError, match="no elements are not supported"):
            session.run(barrier.insert_many(0, ["a"], np.zeros([1, 0], np.float32)))
        with pytest.raises(tf.errors.InvalidArgumentError, match="Shape mismatch in tuple component 2"):
            session.run(barrier.insert_many(0, ["a"], [[1.0, 2.0]]))


@pytest.mark.parametrize("what", ["Dequeue", "Enqueue"])
def test_closing_the_session_ends_what_waits(what: str) -> None:
    """With the error of the operation that was waiting."""
    import threading
    import time

    queue = tf.FIFOQueue(1, [tf.float32], [[]])
    fill = queue.enqueue(1.0)
    begun = threading.Semaphore(0)
    with tf.control_dependencies([tf.py_func(begun.release, [], [])]):
        enqueue, dequeue, many = queue.enqueue(1.0), queue.dequeue(), queue.dequeue_many(2)
    waiting = [enqueue] if what == "Enqueue" else [dequeue, many]

    def close_while_they_wait() -> list[str]:
        session = tf.Session()
        if what == "Enqueue":
            session.run(fill)
        errors: list[str] = []

        def wait(op: Any) -> None:
            with pytest.raises(tf.errors.CancelledError) as error:
                session.run(op)
            errors.append(error.value.message)

        threads = [threading.Thread(target=wait, args=(op,)) for op in waiting]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert begun.acquire(timeout=60)
        time.sleep(0.05)
        session.close()
        for thread in threads:
            thread.join()
        assert len(errors) == len(waiting)
        return errors

    # On a busy machine a step may be cancelled before it reaches the queue.
    tries = [close_while_they_wait()]
    while len(tries) < 20 and not all(what + " operation was cancelled" in e for e in tries[-1]):
        tries.append(close_while_they_wait())
    assert all(what + " operation was cancelled" in e for e in tries[-1]), tries


def test_accumulators() -> None:
    dense = tf.ConditionalAccumulator(tf.float32, [2])
    sparse = tf.SparseConditionalAccumulator(tf.float32, [3, 2])
    open_ended = tf.SparseConditionalAccumulator(tf.float32, ())
    with tf.Session() as session:
        session.run(dense.apply_grad([1.0, 3.0]))
        session.run(dense.apply_grad([3.0, 5.0]))
        assert session.run(dense.num_accumulated()) == 2
        assert session.run(dense.take_grad(2)).tolist() == [2, 4]
        session.run(dense.set_global_step(5))
        session.run(dense.apply_grad([9.0, 9.0], local_step=1))
        assert session.run(dense.num_accumulated()) == 0
        session.run(sparse.apply_grad([0, 2], [[1.0, 1.0], [2.0, 2.0]]))
        session.run(sparse.apply_indexed_slices_grad(tf.IndexedSlices([[3.0, 3.0]], [0])))
        slices = session.run(sparse.take_indexed_slices_grad(2))
        assert slices.indices.tolist() == [0, 2] and slices.values.tolist() == [[2, 2], [2, 2]]
        # The declared shape is of the first dimensions: () is that of any gradient.
        session.run(open_ended.apply_grad([7], [[1.0, 2.0]]))
        assert session.run(open_ended.take_indexed_slices_grad(1)).values.tolist() == [[1, 2]]


def test_stages() -> None:
    from millrace.python.ops import data_flow_ops

    area = data_flow_ops.StagingArea([tf.float32, tf.int32], [[], [2]])
    ordered = data_flow_ops.MapStagingArea([tf.float32], ordered=True)
    with tf.Session() as session:
        session.run(area.put([tf.constant(1.0), tf.constant([2, 3])]))
        assert session.run(area.size()) == 1
        assert [np.asarray(v).tolist() for v in session.run(area.get())] == [1.0, [2, 3]]
        for key in (5, 3):
            session.run(ordered.put(np.int64(key), [tf.constant(float(key))], [0]))
        key, value = session.run(ordered.get())
        assert key == 3 and np.asarray(value).ravel().tolist() == [3.0]


def test_partition_and_stitch() -> None:
    parts = run(tf.dynamic_partition(np.arange(5) * 10, [0, 1, 0, 1, 1], 2))
    assert [p.tolist() for p in parts] == [[0, 20], [10, 30, 40]]
    assert run(tf.dynamic_stitch([[0, 2], [1, 3]], [[0, 20], [10, 30]])).tolist() == [0, 10, 20, 30]
    assert run(tf.parallel_stack([tf.constant([1, 2]), tf.constant([3, 4])])).tolist() == [[1, 2], [3, 4]]


def test_tensor_arrays() -> None:
    ta = tf.TensorArray(tf.float32, 3)
    ta = ta.write(0, [1.0, 2.0]).write(1, [3.0, 4.0]).write(2, [5.0, 6.0])
    assert run(ta.stack()).tolist() == [[1, 2], [3, 4], [5, 6]] and run(ta.read(1)).tolist() == [3, 4]
    assert run(ta.gather([2, 0])).tolist() == [[5, 6], [1, 2]] and run(ta.concat()).tolist() == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]
    filled = tf.TensorArray(tf.int32, 3).unstack([7, 8, 9])
    assert run([filled.read(2), filled.size()]) == [9, 3]
    assert run(tf.TensorArray(tf.int32, 2, infer_shape=False).split([1, 2, 3], [1, 2]).read(1)).tolist() == [
        2,
        3,
    ]


def test_session_handles() -> None:
    with tf.Session() as session:
        handle = session.run(tf.get_session_handle(tf.constant([1.0, 2.0])))
        holder, value = tf.get_session_tensor(handle.handle, tf.float32)
        assert session.run(value * 2, {holder: handle.handle}).tolist() == [2, 4]
        assert handle.eval().tolist() == [1, 2]
        p = tf.placeholder(tf.float32)
        assert session.run(p + 1, {p: handle}).tolist() == [2, 3]
        handle.delete()
        with pytest.raises(TypeError, match="may have already been deleted"):
            handle.eval()
        with pytest.raises(tf.errors.InvalidArgumentError, match="not in the session store"):
            session.run(value, {holder: handle.handle})
        raw = session.run(tf.get_session_handle(tf.constant(5))).get_raw_handle()
        holder, deleter = tf.delete_session_tensor(raw)
        session.run(deleter, {holder: raw})
    with pytest.raises(TypeError, match="`data` must be of type Tensor."):
        tf.get_session_handle(5)


def test_handles_that_nobody_holds_are_deleted() -> None:
    with tf.Session() as session:
        keep = tf.get_session_handle(tf.constant(1))
        handles = [str(session.run(keep)) for _ in range(12)]
        holder, value = tf.get_session_tensor(handles[0], tf.int32)
        with pytest.raises(tf.errors.InvalidArgumentError, match="not in the session store"):
            session.run(value, {holder: handles[0]})


def test_queue_runners_inside_scopes_come_back_from_a_meta_graph():
    with tf.Graph().as_default(), tf.name_scope("input"):
        queue = tf.FIFOQueue(2, tf.int32, name="queue")
        assert queue.name == "input/queue" and queue.enqueue(1).name == "input/queue_enqueue"
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(1)]))
        meta_graph = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        tf.train.import_meta_graph(meta_graph)
        assert tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)[0].queue.name == "input/queue"
