# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Variables, optimizers and checkpoints where ops are executed at once."""
import copy
import gc

import millrace as tf
import numpy as np
import pytest
from millrace.python.eager import context

pytestmark = pytest.mark.usefixtures("eager")


def test_values():
    v = tf.Variable([1.0, 2.0], name="v")
    assert v.name == "v:0" and v.shape == (2,) and v.dtype == tf.float32 and v.trainable
    assert v.numpy().tolist() == [1, 2] and (v + 1.0).numpy().tolist() == [2, 3]
    assert v.assign([3.0, 4.0]).numpy().tolist() == [3, 4]
    assert v.assign_add([1.0, 1.0]).numpy().tolist() == [4, 5]
    v.assign_sub([1.0, 0.0], read_value=False)
    assert v.read_value().numpy().tolist() == [3, 5] and v[1].numpy() == 5
    assert np.array(v).tolist() == [3, 5] and len(v.numpy()) == 2
    assert v.sparse_read([1]).numpy().tolist() == [5]
    with pytest.raises(ValueError, match="Shapes .2,. and .3,. are incompatible"):
        v.assign([1.0, 2.0, 3.0])


def test_python_conversions():
    assert int(tf.Variable(3)) == 3 and float(tf.Variable(1.5)) == 1.5 and bool(tf.Variable(True))
    with pytest.raises(TypeError, match="Non-integer variable can't be converted to integer."):
        int(tf.Variable(1.5))
    v = tf.Variable(2.0)
    assert repr(v) == "<tf.Variable 'Variable:0' shape=() dtype=float32, numpy=2.0>"
    twin = copy.deepcopy(v)
    twin.assign(5.0)
    assert v.numpy() == 2.0 and twin.numpy() == 5.0


def test_what_belongs_to_graphs():
    v = tf.Variable(1.0)
    with pytest.raises(AttributeError, match="Tensor.graph is meaningless"):
        v.graph
    with pytest.raises(RuntimeError, match="Trying to eval in EAGER mode"):
        v.eval()
    with pytest.raises(RuntimeError, match="initial_value not supported in EAGER mode."):
        v.initial_value
    with context.graph_mode(), pytest.raises(
        NotImplementedError, match="numpy\\(\\) is only available when eager"
    ):
        v.numpy()


def test_variables_of_one_name_are_apart():
    a, b = tf.Variable(1.0, name="x"), tf.Variable(2.0, name="x")
    a.assign(5.0)
    assert b.numpy() == 2.0


def test_slices_are_assigned():
    v = tf.Variable([1, 2, 3])
    v[1].assign(9)
    assert v.numpy().tolist() == [1, 9, 3]
    v.scatter_add(tf.IndexedSlices([10, 20], [0, 2]))
    assert v.numpy().tolist() == [11, 9, 23]
    tf.scatter_update(v, [1], [0])
    assert v.numpy().tolist() == [11, 0, 23]


def test_memory_goes_with_the_object():
    v = tf.Variable(np.zeros(10))
    handle = v.handle
    assert tf.raw_ops.VarIsInitializedOp(resource=handle).numpy()
    del v
    gc.collect()
    assert not tf.raw_ops.VarIsInitializedOp(resource=handle).numpy()


def test_get_variable():
    a = tf.get_variable("w", [2], initializer=tf.ones_initializer())
    b = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
    assert a.numpy().tolist() == [1, 1] and b.numpy().tolist() == [0, 0] and a.name == "w:0"
    with tf.variable_scope("s"):
        assert tf.get_variable("w", [1]).name == "s/w:0"


def test_variable_store():
    store = tf.contrib.eager.EagerVariableStore()
    with store.as_default():
        a = tf.get_variable("w", [], initializer=tf.constant_initializer(3.0))
        b = tf.get_variable("w", [], initializer=tf.constant_initializer(4.0))
        tf.get_variable("n", [], trainable=False)
    assert a is b and [v.name for v in store.variables()] == ["n:0", "w:0"]
    assert [v.name for v in store.trainable_variables()] == ["w:0"]
    assert [v.name for v in store.non_trainable_variables()] == ["n:0"]
    other = store.copy()
    a.assign(9.0)
    assert other.trainable_variables()[0].numpy() == 3.0


def minimized(optimizer, steps=3):
    v = tf.Variable([1.0, -2.0])
    for _ in range(steps):
        optimizer.minimize(lambda: tf.reduce_sum((v - 3.0) ** 2))
    return v.numpy()


def in_a_graph(make, steps=3):
    """The same training as `minimized` in a session."""
    with context.graph_mode(), tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable([1.0, -2.0], use_resource=True)
        train = make().minimize(tf.reduce_sum((v - 3.0) ** 2))
        session.run(tf.global_variables_initializer())
        for _ in range(steps):
            session.run(train)
        return session.run(v)


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.train.GradientDescentOptimizer(0.1),
        lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        lambda: tf.train.AdamOptimizer(0.1),
        lambda: tf.train.AdagradOptimizer(0.1),
        lambda: tf.train.AdadeltaOptimizer(0.1),
        lambda: tf.train.RMSPropOptimizer(0.1, centered=True),
        lambda: tf.train.FtrlOptimizer(0.1),
        lambda: tf.train.ProximalAdagradOptimizer(0.1),
    ],
)
def test_optimizers_train_as_in_graphs(make):
    np.testing.assert_allclose(minimized(make()), in_a_graph(make), rtol=1e-6)


def test_gradient_descent_in_closed_form():
    got = minimized(tf.train.GradientDescentOptimizer(0.1), 4)
    np.testing.assert_allclose(got, 3 + (np.array([1.0, -2.0]) - 3) * 0.8**4, rtol=1e-6)


def test_optimizer_arguments():
    v = tf.Variable(1.0)
    optimizer = tf.train.AdamOptimizer(learning_rate=lambda: tf.constant(0.5))
    with pytest.raises(
        RuntimeError, match="`loss` passed to Optimizer.compute_gradients should be a function"
    ):
        optimizer.minimize(v * v)
    ((grad, var),) = optimizer.compute_gradients(lambda: v * v)
    assert grad.numpy() == 2.0 and var is v
    step = tf.train.get_or_create_global_step()
    assert optimizer.apply_gradients([(grad, var)], global_step=step) is None
    assert step.numpy() == 1 and tf.train.get_global_step() is step
    assert {s.name for s in optimizer.variables()} == {
        "Variable/Adam:0", "Variable/Adam_1:0", "beta1_power:0", "beta2_power:0",
    }  # fmt: skip
    assert optimizer.get_slot(v, "m").numpy() == pytest.approx(0.2)


def test_rows_are_trained():
    table = tf.Variable(np.ones([4, 2], np.float32))
    tf.train.GradientDescentOptimizer(0.5).minimize(
        lambda: tf.reduce_sum(tf.nn.embedding_lookup(table, [2, 2, 0]))
    )
    assert table.numpy()[:, 0].tolist() == [0.5, 1.0, 0.0, 1.0]


def test_checkpoints(tmp_path):
    v, optimizer = tf.Variable(1.0), tf.train.AdamOptimizer(0.1)
    optimizer.minimize(lambda: v * v)
    checkpoint = tf.train.Checkpoint(v=v, optimizer=optimizer)
    path = checkpoint.save(str(tmp_path / "model"))
    assert path.endswith("model-1") and tf.train.latest_checkpoint(str(tmp_path)) == path
    saved = v.numpy(), optimizer.get_slot(v, "m").numpy()
    optimizer.minimize(lambda: v * v)
    assert v.numpy() != saved[0]
    checkpoint.restore(path).assert_consumed()
    assert (v.numpy(), optimizer.get_slot(v, "m").numpy()) == saved
    assert checkpoint.save(str(tmp_path / "model")).endswith("model-2")
    # Objects that are made after restoring get their values, too.
    w, fresh = tf.Variable(0.0), tf.train.AdamOptimizer(0.1)
    status = tf.train.Checkpoint(v=w, optimizer=fresh).restore(path)
    status.initialize_or_restore()
    assert w.numpy() == saved[0]
    fresh.minimize(lambda: w * 0.0, var_list=[w])
    np.testing.assert_allclose(fresh.get_slot(w, "m").numpy(), saved[1] * 0.9, rtol=1e-6)
    status.assert_consumed()


def test_saver(tmp_path):
    a, b = tf.Variable(1.0, name="a"), tf.Variable([2.0, 3.0], name="b")
    with pytest.raises(RuntimeError, match="`var_list` must specify a list or dict of variables to save"):
        tf.train.Saver()
    saver = tf.train.Saver([a, b])
    path = saver.save(None, str(tmp_path / "model"), global_step=7)
    a.assign(0.0)
    b.assign([0.0, 0.0])
    saver.restore(None, path)
    assert a.numpy() == 1.0 and b.numpy().tolist() == [2, 3]
    assert dict(tf.train.list_variables(path)) == {"a": [], "b": [2]}
    # A checkpoint of a Saver is found by names.
    a.assign(5.0)
    tf.train.Checkpoint(thing=a).restore(path)
    assert a.numpy() == 1.0


def test_moving_averages():
    v = tf.Variable(0.0)
    average = tf.train.ExponentialMovingAverage(0.5)
    average.apply([v])
    v.assign(8.0)
    average.apply([v])
    assert average.average(v).numpy() == 4.0
