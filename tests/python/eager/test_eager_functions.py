# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.function, defun and wrap_function where ops are executed at once."""
import millrace as tf
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("eager")


def test_one_body_for_each_kind_of_arguments():
    calls = []

    @tf.function
    def f(x, times=2):
        calls.append(None)
        assert not tf.executing_eagerly()
        return {"scaled": x * times, "list": [x, None]}

    assert f(tf.constant(3.0))["scaled"].numpy() == 6.0
    assert f(tf.constant(4.0))["list"][0].numpy() == 4.0 and len(calls) == 1
    assert f(tf.constant(4.0))["list"][1] is None
    f(tf.constant(4))
    f(tf.constant([4.0]))
    assert f(tf.constant(4.0), times=3)["scaled"].numpy() == 12.0
    assert len(calls) == 4
    assert f(np.float32(5.0))["scaled"].numpy() == 10.0 and len(calls) == 4


def test_signature():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def f(x):
        assert x.shape.as_list() == [None]
        return tf.reduce_sum(x)

    assert f([1.0, 2.0]).numpy() == 3.0 and f(tf.ones([5])).numpy() == 5.0
    concrete = f.get_concrete_function()
    assert concrete(tf.constant([4.0])).numpy() == 4.0
    with pytest.raises(ValueError, match="Python inputs incompatible with input_signature"):
        f(tf.constant([1, 2]))
    with pytest.raises(
        ValueError, match="Structure of Python function inputs does not match input_signature"
    ):
        f(tf.ones([2]), tf.ones([2]))


def test_captures():
    c, v = tf.constant([1.0, 2.0]), tf.Variable(10.0)

    @tf.function
    def f(x):
        return x * c + v

    assert f(tf.constant(2.0)).numpy().tolist() == [12, 14]
    v.assign(0.0)
    assert f(tf.constant(2.0)).numpy().tolist() == [2, 4]
    concrete = f.get_concrete_function(tf.constant(2.0))
    assert list(concrete.variables) == [v] and len(concrete.captured_inputs) == 2


def test_effects_happen_once_and_in_order():
    v = tf.Variable(1.0)

    @tf.function
    def f():
        v.assign_add(1.0)
        first = v.read_value()
        v.assign(v * 10.0)
        return first, v.read_value()

    assert [t.numpy() for t in f()] == [2.0, 20.0] and v.numpy() == 20.0

    @tf.function
    def only():
        v.assign(5.0)

    assert only() is None and v.numpy() == 5.0


def test_gradients_through_functions():
    v = tf.Variable(3.0)

    @tf.function
    def f(x):
        return x * x * v

    x = tf.constant(2.0)
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        y = f(x) + x
    assert t.gradient(y, [x, v])[0].numpy() == 13.0 and t.gradient(y, v).numpy() == 4.0
    with tf.GradientTape() as t2:
        t2.watch(x)
        with tf.GradientTape() as t1:
            t1.watch(x)
            y = f(x)
        g = t1.gradient(y, x)
    assert g.numpy() == 12.0 and t2.gradient(g, x).numpy() == 6.0


def test_effects_and_random_numbers_are_not_repeated():
    v = tf.Variable(0.0)

    @tf.function
    def f(x):
        v.assign_add(1.0)
        return tf.random_normal([3]) * x

    x = tf.constant(2.0)
    with tf.GradientTape() as t:
        t.watch(x)
        y = f(x)
    np.testing.assert_allclose(t.gradient(y, x).numpy(), y.numpy().sum() / 2.0, rtol=1e-5)
    assert v.numpy() == 1.0


def test_control_flow_inside():
    @tf.function
    def power(x, n):
        return tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s * x), [0, tf.ones([])])[1]

    @tf.function
    def branch(x):
        return tf.cond(x > 0.0, lambda: x * x, lambda: -x)

    x = tf.constant(2.0)
    with tf.GradientTape() as t:
        t.watch(x)
        y = power(x, tf.constant(5))
    assert y.numpy() == 32.0 and t.gradient(y, x).numpy() == 80.0
    for value, result, slope in [(3.0, 9.0, 6.0), (-3.0, 3.0, -1.0)]:
        x = tf.constant(value)
        with tf.GradientTape() as t:
            t.watch(x)
            y = branch(x)
        assert y.numpy() == result and t.gradient(y, x).numpy() == slope


def test_tape_inside():
    v = tf.Variable(3.0)

    @tf.function
    def f(x):
        with tf.GradientTape() as t:
            t.watch(x)
            y = x * x * v
        return t.gradient(y, [x, v])

    assert [g.numpy() for g in f(tf.constant(2.0))] == [12.0, 4.0]


def test_rows_of_tables():
    table = tf.Variable(np.ones([4, 2], np.float32))

    @tf.function
    def f(ids):
        return tf.reduce_sum(tf.nn.embedding_lookup(table, ids))

    with tf.GradientTape() as t:
        y = f(tf.constant([3, 3, 1]))
    g = t.gradient(y, table)
    assert isinstance(g, tf.IndexedSlices)
    assert tf.convert_to_tensor(g).numpy()[:, 0].tolist() == [0, 1, 0, 2]


def test_training_inside():
    w, optimizer = tf.Variable(tf.zeros([2])), tf.train.MomentumOptimizer(0.1, 0.5)

    @tf.function
    def step(x):
        with tf.GradientTape() as t:
            loss = tf.reduce_sum((w - x) ** 2)
        optimizer.apply_gradients([(t.gradient(loss, w), w)])
        return loss

    x = np.array([1.0, -2.0])
    value, moment, losses = np.zeros(2), np.zeros(2), []
    for _ in range(4):
        losses.append(((value - x) ** 2).sum())
        moment = 0.5 * moment + 2 * (value - x)
        value = value - 0.1 * moment
    got = [step(tf.constant(x, tf.float32)).numpy() for _ in range(4)]
    np.testing.assert_allclose(got, losses, rtol=1e-5)
    np.testing.assert_allclose(w.numpy(), value, rtol=1e-5)


def test_variables_are_made_once():
    class Model:
        v = None

        @tf.function
        def __call__(self, x):
            if self.v is None:
                self.v = tf.Variable(2.0)
            return self.v * x

    model = Model()
    assert model(tf.constant(3.0)).numpy() == 6.0
    model.v.assign(5.0)
    assert model(tf.constant([3.0])).numpy().tolist() == [15.0]

    @tf.function
    def careless(x):
        return tf.Variable(1.0) * x

    with pytest.raises(
        ValueError, match="tf.function-decorated function tried to create variables on non-first call."
    ):
        careless(tf.constant(1.0))


def test_functions_call_functions():
    @tf.function
    def inner(x):
        return x * x

    @tf.function
    def outer(x):
        return inner(x) + inner(x + 1.0)

    x = tf.constant(2.0)
    with tf.GradientTape() as t:
        t.watch(x)
        y = outer(x)
    assert y.numpy() == 13.0 and t.gradient(y, x).numpy() == 10.0


def test_errors_in_functions():
    @tf.function
    def f(x):
        return tf.matmul(x, x)

    with pytest.raises(ValueError, match="Dimensions must be equal"):
        f(tf.ones([2, 3]))

    @tf.function
    def g(x):
        with tf.control_dependencies([tf.Assert(x > 0.0, [x])]):
            return tf.identity(x)

    assert g(tf.constant(1.0)).numpy() == 1.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed: .-1."):
        g(tf.constant(-1.0))

    @tf.function
    def bad(x):
        return object()

    with pytest.raises(TypeError, match="Python functions must return zero or more Tensors"):
        bad(tf.constant(1.0))


def test_defun_and_methods():
    class Scale:
        def __init__(self, by):
            self.by = by

        @tf.contrib.eager.defun
        def apply(self, x):
            return x * self.by

    assert Scale(2.0).apply(tf.constant(3.0)).numpy() == 6.0
    assert Scale(5.0).apply(tf.constant(3.0)).numpy() == 15.0


def test_run_functions_eagerly():
    seen = []

    @tf.function
    def f(x):
        seen.append(tf.executing_eagerly())
        return x

    from millrace.python.eager import def_function

    def_function.run_functions_eagerly(True)
    try:
        f(tf.constant(1))
    finally:
        def_function.run_functions_eagerly(False)
    f(tf.constant(1))
    assert seen == [True, False]


def test_wrap_function():
    def model(x):
        v = tf.get_variable("w", [], initializer=tf.constant_initializer(3.0), use_resource=True)
        return tf.multiply(x, v, name="product")

    f = tf.compat.v1.wrap_function(model, [tf.TensorSpec([], tf.float32)])
    assert f(tf.constant(2.0)).numpy() == 6.0 and len(f.variables) == 1
    f.variables[0].assign(10.0)
    assert f(tf.constant(2.0)).numpy() == 20.0

    def graph(x):
        y = tf.add(x, 1.0, name="plus")
        return tf.multiply(y, 2.0)

    g = tf.compat.v1.wrap_function(graph, [tf.TensorSpec([], tf.float32)])
    pruned = g.prune(feeds=[g.inputs[0]], fetches="plus:0")
    assert pruned(tf.constant(4.0)).numpy() == 5.0


def test_datasets_inside_are_those_outside():
    @tf.function
    def double(x):
        return x * 2

    data = tf.data.Dataset.range(3).map(double)
    assert [e.numpy() for e in data] == [0, 2, 4]


def test_function_in_a_graph():
    @tf.function
    def f(x):
        return x * x

    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(3.0)
        y = f(x)
        assert session.run([y, tf.gradients(y, x)[0]]) == [9.0, 6.0]
    assert f(tf.constant(4.0)).numpy() == 16.0


def test_gradients_of_ones_own_inside():
    @tf.custom_gradient
    def scaled(x):
        return x * x, lambda dy: dy * x * 7.0

    @tf.function
    def f(x):
        return scaled(x) + x

    @tf.function
    def g(x):
        return tf.py_function(lambda a: a * a, [x], tf.float32) * 2.0

    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        y, z = f(x), g(x)
    assert (y.numpy(), z.numpy()) == (12.0, 18.0)
    assert t.gradient(y, x).numpy() == 22.0 and t.gradient(z, x).numpy() == 12.0


def test_structures_of_arguments():
    @tf.function
    def f(d, sparse):
        return {"sum": d["x"] + d["y"][0], "dense": tf.sparse.to_dense(sparse)}

    sparse = tf.SparseTensor([[0, 1]], [5.0], [1, 2])
    result = f({"x": tf.constant(1.0), "y": (tf.constant(2.0),)}, sparse)
    assert result["sum"].numpy() == 3.0 and result["dense"].numpy().tolist() == [[0.0, 5.0]]


def test_recurrent_network_inside():
    cell = tf.nn.rnn_cell.GRUCell(3)
    x = tf.constant(np.random.RandomState(0).randn(2, 4, 2), tf.float32)

    def run(x):
        return tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)[0]

    with tf.GradientTape() as t:
        eager = run(x)
    expected = t.gradient(eager, cell.trainable_variables)
    traced = tf.function(run)
    with tf.GradientTape() as t:
        y = traced(x)
    np.testing.assert_allclose(y.numpy(), eager.numpy(), rtol=1e-5, atol=1e-6)
    for got, want in zip(t.gradient(y, cell.trainable_variables), expected):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)


def test_functional_control_flow_inside():
    @tf.function
    def f(x):
        s = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * x), [0, 1.0])[1]
        return tf.cond(s > 1.0, lambda: s * 2.0, lambda: s)

    x = tf.constant(2.0)
    tf.compat.v1.enable_control_flow_v2()
    try:
        with tf.GradientTape() as t:
            t.watch(x)
            y = f(x)
        assert y.numpy() == 16.0 and t.gradient(y, x).numpy() == 24.0
    finally:
        tf.compat.v1.disable_control_flow_v2()


def test_variables_of_a_function_become_constants() -> None:
    from millrace.python.framework import convert_to_constants

    weights, scale = tf.Variable([[1.0, 2.0], [3.0, 4.0]]), tf.Variable(3.0)
    table = tf.Variable([[1.0], [2.0], [3.0]])

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec([None], tf.int32)])
    def f(x, rows):
        return tf.matmul(x, weights) * scale, tf.gather(table, rows)

    frozen = convert_to_constants.convert_variables_to_constants_v2(f.get_concrete_function())
    weights.assign(tf.zeros([2, 2]))
    types = {node.op for node in frozen.graph.as_graph_def().node}
    assert not types & {"VarHandleOp", "ReadVariableOp", "ResourceGather"}
    assert [t.name for t in frozen.inputs] == ["x:0", "rows:0"]
    product, gathered = frozen(tf.constant([[1.0, 1.0]]), tf.constant([2, 0]))
    assert product.numpy().tolist() == [[12.0, 18.0]]
    assert gathered.numpy().tolist() == [[3.0], [1.0]]
