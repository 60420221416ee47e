# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Variables, reference and resource: values, assignments, scatters, operators, collections."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.python.ops import resource_variable_ops

RNG = np.random.RandomState(1)


@pytest.fixture(params=[False, True], ids=["reference", "resource"])
def make(request: Any) -> Any:
    """Makes a variable of one of the two kinds."""

    def factory(value: Any, **kwargs: Any) -> Any:
        return tf.Variable(value, use_resource=request.param, **kwargs)

    return factory


def test_values_and_properties(make: Any) -> None:
    v = make(np.float32([1, 2]), name="v")
    assert v.name == "v:0" and v.op.name == "v" and v.dtype.base_dtype == tf.float32 and v.shape == [2]
    assert v.trainable and v in tf.trainable_variables() and v in tf.global_variables()
    assert v.initializer.name == "v/Assign" and v.graph is tf.get_default_graph() and v.device == ""
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(v)
        session.run(v.initializer)
        assert session.run(v).tolist() == [1, 2] and v.eval().tolist() == [1, 2]
        assert session.run(v.read_value()).tolist() == [1, 2] and session.run(v.value()).tolist() == [1, 2]
        v.load([7.0, 8.0], session)
        assert session.run(v).tolist() == [7, 8]
    assert make(1.0, trainable=False) not in tf.trainable_variables()
    assert make(1.0, collections=["mine"]) in tf.get_collection("mine")


def test_assignments(make: Any) -> None:
    v = make([1.0, 2.0])
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(v.assign([3.0, 4.0])).tolist() == [3, 4]
        assert session.run(v.assign_add([1.0, 1.0])).tolist() == [4, 5]
        assert session.run(tf.assign_sub(v, [2.0, 2.0])).tolist() == [2, 3]
        assert session.run(tf.assign(v, [0.0, 0.0])).tolist() == [0, 0]
        assert session.run(tf.assign_add(v, [1.0, 2.0])).tolist() == [1, 2]
        session.run(v[1:].assign([9.0]))
        assert session.run(v).tolist() == [1, 9]
    with pytest.raises(
        ValueError,
        match="Shapes \\(2,\\) and \\(3,\\) are incompatible|Dimension 0 in both shapes must be equal",
    ):
        v.assign([1.0, 2.0, 3.0])


SCATTERS = [
    ("update", lambda old, new: new),
    ("add", np.add),
    ("sub", np.subtract),
    ("mul", np.multiply),
    ("div", np.divide),
    ("min", np.minimum),
    ("max", np.maximum),
]


@pytest.mark.parametrize("name, numpy", SCATTERS, ids=[s[0] for s in SCATTERS])
def test_scatters(make: Any, name: str, numpy: Any) -> None:
    start = np.float32([[1, 2], [3, 4], [5, 6]])
    v = make(start)
    updates = np.float32([[4, 4], [2, 2]])
    with tf.Session() as session:
        session.run(v.initializer)
        session.run(getattr(tf, "scatter_" + name)(v, [2, 0], updates))
        want = start.copy()
        want[2], want[0] = numpy(start[2], updates[0]), numpy(start[0], updates[1])
        assert session.run(v).tolist() == want.tolist()


def test_scatters_by_coordinates(make: Any) -> None:
    v = make(np.zeros([4], np.float32))
    with tf.Session() as session:
        session.run(v.initializer)
        session.run(tf.scatter_nd_update(v, [[1], [3]], [5.0, 6.0]))
        assert session.run(v).tolist() == [0, 5, 0, 6]
        session.run(tf.scatter_nd_add(v, [[1]], [1.0]))
        session.run(tf.scatter_nd_sub(v, [[3]], [1.0]))
        assert session.run(v).tolist() == [0, 6, 0, 5]
        session.run(v.scatter_sub(tf.IndexedSlices(tf.constant([1.0]), tf.constant([1]))))
        session.run(v.scatter_nd_update([[0]], [9.0]))
        assert session.run(v).tolist() == [9, 5, 0, 5]
        with pytest.raises(tf.errors.InvalidArgumentError, match="indices\\[0\\] = 9 is not in \\[0, 4\\)"):
            session.run(tf.scatter_update(v, [9], [1.0]))
    b = make(np.zeros([2, 2], np.float32))
    with tf.Session() as session:
        session.run(b.initializer)
        session.run(tf.batch_scatter_update(b, [[0], [1]], [[5.0], [6.0]]))
        assert session.run(b).tolist() == [[5, 0], [0, 6]]


def test_operators(make: Any) -> None:
    v = make([1.0, 2.0])
    with tf.Session() as session:
        session.run(v.initializer)
        results = session.run(
            [v + 1, 1 + v, v * v, -v, v / 2, v**2, v[0], v > 1, tf.reduce_sum(v), abs(-v)]
        )
    wants = [[2, 3], [2, 3], [1, 4], [-1, -2], [0.5, 1], [1, 4], 1, [False, True], 3, [1, 2]]
    for result, want in zip(results, wants):
        assert np.asarray(result).tolist() == want
    assert isinstance(np.float32([1, 2]) + v, tf.Tensor)
    with pytest.raises(TypeError, match="'Variable' object is not iterable.|object is not iterable"):
        iter(v)


def test_initial_values(make: Any) -> None:
    a = make(tf.constant([1.0, 2.0]), name="a")
    b = make(a.initialized_value() * 2)
    c = make(lambda: tf.ones([3]), dtype=tf.float32)
    unknown = make(tf.placeholder_with_default([1.0], None), validate_shape=False)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(b).tolist() == [2, 4] and session.run(c).tolist() == [1, 1, 1]
        assert session.run(unknown).tolist() == [1]
    with pytest.raises(ValueError, match="initial_value must be specified."):
        make(None)
    with pytest.raises(ValueError, match="initial_value must have a shape specified"):
        tf.Variable(tf.placeholder(tf.float32), use_resource=False)


def test_initialization_ops(make: Any) -> None:
    a, b = make(1.0, name="a"), make(2.0, name="b")
    with tf.Session() as session:
        session.run(tf.variables_initializer([a]))
        assert session.run([tf.is_variable_initialized(a), tf.is_variable_initialized(b)]) == [True, False]
        assert session.run(tf.report_uninitialized_variables()).tolist() == [b"b"]
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(tf.assert_variables_initialized())
        session.run(tf.global_variables_initializer())
        session.run(tf.assert_variables_initialized())


def test_counting(make: Any) -> None:
    v = make(0)
    with tf.Session() as session:
        session.run(v.initializer)
        count = v.count_up_to(2)
        assert [session.run(count), session.run(count)] == [0, 1]
        with pytest.raises(tf.errors.OutOfRangeError, match="Reached limit of 2"):
            session.run(count)


def test_protos(make: Any) -> None:
    from millrace.python.ops import variables

    v = make([1.0, 2.0], name="v")
    proto = v.to_proto()
    assert proto.variable_name == "v:0" and proto.initializer_name == "v/Assign"
    again = variables.Variable.from_proto(proto)
    assert again.name == v.name
    with tf.Session() as session:
        session.run(again.initializer)
        assert session.run(again).tolist() == [1, 2]


def test_caching_device_and_colocation(make: Any) -> None:
    v = make(1.0, caching_device="/cpu:0")
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(v + 1) == 2
    with tf.colocate_with(v.op):
        t = tf.constant(1)
    assert t.op.colocation_groups() == [b"loc:@" + v.op.name.encode()]


def test_gather_of_variables(make: Any) -> None:
    v = make(np.arange(6.0).reshape(3, 2))
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(tf.gather(v, [2, 0])).tolist() == [[4, 5], [0, 1]]
        assert session.run(tf.nn.embedding_lookup(v, [1])).tolist() == [[2, 3]]


def test_gather_nd_of_variables(make: Any, need: Any) -> None:
    need("ResourceGatherNd")
    v = make(np.arange(6.0).reshape(3, 2))
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(tf.gather_nd(v, [[1, 1]])).tolist() == [3]


def test_control_dependencies_of_initial_values() -> None:
    with tf.Graph().as_default():
        v = tf.Variable(1.0)
        with tf.control_dependencies([v.assign(2.0)]):
            w = tf.Variable(3.0)
        with tf.Session() as session:
            session.run([v.initializer, w.initializer])
            assert session.run([v, w]) == [1, 3]


def test_resource_variables_by_name() -> None:
    v = resource_variable_ops.ResourceVariable([1.0, 2.0], name="r")
    assert isinstance(v, resource_variable_ops.ResourceVariable) and v.handle.dtype == tf.resource
    with tf.Session() as session:
        session.run(v.initializer)
        session.run(resource_variable_ops.assign_add_variable_op(v.handle, [1.0, 1.0]))
        assert session.run(resource_variable_ops.read_variable_op(v.handle, tf.float32)).tolist() == [2, 3]
        assert session.run(v.sparse_read([1])).tolist() == [3]
        session.run(resource_variable_ops.destroy_resource_op(v.handle))
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(v)


def test_aliases_in_collections() -> None:
    local = tf.Variable(1.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    model = tf.Variable(1.0, collections=[tf.GraphKeys.MODEL_VARIABLES])
    assert tf.local_variables() == [local] and tf.model_variables() == [model]
    average = tf.train.ExponentialMovingAverage(0.9)
    trained = tf.Variable(1.0)
    average.apply([trained])
    assert tf.moving_average_variables() == [trained]
    assert len(tf.all_variables()) >= 1


def test_what_is_behind_a_handle_is_a_message() -> None:
    from millrace.python.eager import context

    for mode in (context.graph_mode, context.eager_mode):
        with mode():
            v = resource_variable_ops.ResourceVariable([[1, 2]], name="v")
            data = resource_variable_ops.get_eager_safe_handle_data(v.handle)
            assert data.is_set and len(data.shape_and_type) == 1
            assert data.shape_and_type[0].dtype == tf.int32.as_datatype_enum
            assert tf.TensorShape(data.shape_and_type[0].shape) == [1, 2]
            assert not resource_variable_ops.get_resource_handle_data(tf.constant(1)).is_set


def loop_results(condition: Any, body: Any, start: Any, variables: list[Any]) -> Any:
    loop = tf.while_loop(condition, body, [start], parallel_iterations=1)
    with tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=60000)) as session:
        session.run(tf.global_variables_initializer())
        session.run(loop)
        return session.run(variables)


def test_loops_see_updates_of_variables_from_outside() -> None:
    """A read of a reference variable is its memory: what runs after an update sees the update."""
    with tf.Graph().as_default():
        a, b = tf.Variable(0, use_resource=False), tf.Variable(0, use_resource=False)

        def count(_: Any) -> Any:
            with tf.control_dependencies([tf.assign_add(a, 1), tf.assign_add(b, 1)]):
                return tf.identity(b)

        assert loop_results(lambda _: tf.less(b, 10), count, b, [a, b]) == [10, 10]
    with tf.Graph().as_default():
        a, b = tf.Variable(0, use_resource=False), tf.Variable(0, use_resource=False)

        def add(i: Any) -> Any:
            with tf.control_dependencies([tf.assign_add(a, 1)]):
                sum_so_far = tf.assign_add(b, a)
            with tf.control_dependencies([sum_so_far]):
                return tf.add(i, 1)

        assert loop_results(lambda i: tf.less(i, 10), add, tf.constant(0), [a, b]) == [10, 55]
    with tf.Graph().as_default():
        rows = tf.Variable([3.0, 4.0, 5.0], use_resource=False)

        def fill(i: Any, _: Any) -> Any:
            return [i + 1, tf.scatter_update(rows, i, 10.0)]

        last = tf.while_loop(lambda i, _: i < 3, fill, [0, tf.identity(rows)], parallel_iterations=1)[1]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run(last).tolist() == [10, 10, 10]


@pytest.mark.parametrize("taken", [True, False])
def test_branches_and_later_nodes_see_updates(taken: bool) -> None:
    with tf.Graph().as_default():
        v = tf.Variable(2.0, use_resource=False)
        chosen = tf.placeholder(tf.bool, [])

        def branch() -> Any:
            with tf.control_dependencies([tf.assign_add(v, 5.0)]):
                return v * 1.0

        value = tf.cond(chosen, branch, lambda: v * 10.0)
        old = v.value()
        before = old * 1.0
        with tf.control_dependencies([value, before]):
            update = tf.assign_sub(v, 1.0)
        with tf.control_dependencies([update]):
            after = old * 1.0
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run([value, after], {chosen: taken}) == ([7.0, 6.0] if taken else [20.0, 1.0])


def test_training_reads_weights_before_they_change() -> None:
    """Nodes without an order to the update keep what was read, as the gradient and the loss of a step do."""
    with tf.Graph().as_default():
        w = tf.Variable([[1.0]], use_resource=False)
        x = tf.constant([[3.0]])
        loss = tf.reduce_sum(tf.matmul(x, w))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.control_dependencies([train]):
            after = tf.reduce_sum(tf.matmul(x, w))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            values = session.run([loss, after])
            np.testing.assert_allclose(values, [3.0, 3.0 - 0.9], rtol=1e-6)


def test_values_read_in_another_type() -> None:
    plain = tf.Variable(1.5, use_resource=True)
    for kind in (tf.float16, tf.float32):
        mixed = resource_variable_ops._MixedPrecisionVariable(plain, kind)
        other = tf.float64
        assert mixed.dtype == tf.float32 and mixed.read_dtype == kind
        assert mixed._dense_var_to_tensor(dtype=other) is NotImplemented
        assert mixed._dense_var_to_tensor(as_ref=True) is NotImplemented
        read = mixed._dense_var_to_tensor()
        assert read.dtype == kind
        with tf.Session() as session:
            session.run(plain.initializer)
            assert session.run(read) == 1.5 and session.run(mixed.assign_add(1.0)) == 2.5
    with pytest.raises(ValueError):
        resource_variable_ops._MixedPrecisionVariable(tf.constant(1.0), tf.float16)
