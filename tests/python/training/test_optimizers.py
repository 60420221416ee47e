# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Each optimizer's update against its formula in NumPy, for dense and sparse gradients."""

import numpy as np
import pytest

import millrace as tf
from millrace.python.eager import context

STEPS = 3
START = np.array([[1.0, 2.0], [3.0, -4.0], [5.0, 6.0]])
DENSE = np.array([[0.1, -0.2], [0.3, 0.4], [-0.5, 0.01]])
ROWS = np.array([0, 2, 0])
SLICES = np.array([[0.1, 0.2], [0.3, -0.4], [0.05, 0.06]])


class Rows:
    """Which rows a reference update touches: all, or those with a gradient."""

    def __init__(self, sparse):
        self.at = np.array([0, 2]) if sparse else np.arange(3)
        if sparse:
            full = np.zeros_like(START)
            np.add.at(full, ROWS, SLICES)
            self.grad = full[self.at]
        else:
            self.grad = DENSE


def descent(rows, dtype):
    var = START.copy()
    for _ in range(STEPS):
        var[rows.at] -= 0.5 * rows.grad
    return var


def momentum(rows, dtype, nesterov=False):
    var, accum = START.copy(), np.zeros_like(START)
    for _ in range(STEPS):
        accum[rows.at] = 0.9 * accum[rows.at] + rows.grad
        step = rows.grad + 0.9 * accum[rows.at] if nesterov else accum[rows.at]
        var[rows.at] -= 0.1 * step
    return var


def adam(rows, dtype):
    var, m, v = START.copy(), np.zeros_like(START), np.zeros_like(START)
    grad = np.zeros_like(START)
    grad[rows.at] = rows.grad
    for t in range(1, STEPS + 1):
        m = 0.9 * m + 0.1 * grad
        v = 0.99 * v + 0.01 * grad * grad
        rate = 0.1 * np.sqrt(1 - 0.99**t) / (1 - 0.9**t)
        var = var - rate * m / (np.sqrt(v) + 1e-4)
    return var


def adagrad(rows, dtype):
    var, accum = START.copy(), np.full_like(START, 0.1)
    for _ in range(STEPS):
        accum[rows.at] += rows.grad**2
        var[rows.at] -= 0.5 * rows.grad / np.sqrt(accum[rows.at])
    return var


def adagrad_da(rows, dtype):
    var, g, gg = START.copy(), np.zeros_like(START), np.full_like(START, 0.2)
    for _ in range(STEPS):
        g[rows.at] += rows.grad
        gg[rows.at] += rows.grad**2
        # The step of the variable `step` is zero all the time: the rule sees one.
        shrunk = np.sign(g[rows.at]) * np.maximum(np.abs(g[rows.at]) - 0.01, 0)
        var[rows.at] = -0.5 * shrunk / (0.02 * 0.5 + np.sqrt(gg[rows.at]))
    return var


def adadelta(rows, dtype):
    var, accum, update = START.copy(), np.zeros_like(START), np.zeros_like(START)
    for _ in range(STEPS):
        accum[rows.at] = 0.9 * accum[rows.at] + 0.1 * rows.grad**2
        step = np.sqrt(update[rows.at] + 1e-2) / np.sqrt(accum[rows.at] + 1e-2) * rows.grad
        update[rows.at] = 0.9 * update[rows.at] + 0.1 * step**2
        var[rows.at] -= 0.5 * step
    return var


def rmsprop(rows, dtype, centered=False):
    var, ms, mom, mg = START.copy(), np.ones_like(START), np.zeros_like(START), np.zeros_like(START)
    for _ in range(STEPS):
        g = rows.grad
        ms[rows.at] = 0.8 * ms[rows.at] + 0.2 * g * g
        mg[rows.at] = 0.8 * mg[rows.at] + 0.2 * g
        scale = ms[rows.at] - mg[rows.at] ** 2 if centered else ms[rows.at]
        mom[rows.at] = 0.3 * mom[rows.at] + 0.1 * g / np.sqrt(scale + 1e-2)
        var[rows.at] -= mom[rows.at]
    return var


def ftrl(rows, dtype, shrinkage=0.0):
    var, accum, linear = START.copy(), np.full_like(START, 0.1), np.zeros_like(START)
    for _ in range(STEPS):
        g = rows.grad + 2 * shrinkage * var[rows.at]
        new = accum[rows.at] + rows.grad**2
        linear[rows.at] += g - (np.sqrt(new) - np.sqrt(accum[rows.at])) / 0.5 * var[rows.at]
        accum[rows.at] = new
        quadratic = np.sqrt(new) / 0.5 + 2 * 0.02
        pruned = np.sign(linear[rows.at]) * 0.01 - linear[rows.at]
        var[rows.at] = np.where(np.abs(linear[rows.at]) > 0.01, pruned / quadratic, 0.0)
    return var


def proximal(var, step):
    shrunk = np.maximum(np.abs(var) - step * 0.01, 0)
    return np.sign(var) * shrunk / (1 + step * 0.02)


def proximal_descent(rows, dtype):
    var = START.copy()
    for _ in range(STEPS):
        var[rows.at] = proximal(var[rows.at] - 0.5 * rows.grad, 0.5)
    return var


def proximal_adagrad(rows, dtype):
    var, accum = START.copy(), np.full_like(START, 0.1)
    for _ in range(STEPS):
        accum[rows.at] += rows.grad**2
        rate = 0.5 / np.sqrt(accum[rows.at])
        var[rows.at] = proximal(var[rows.at] - rate * rows.grad, rate)
    return var


def make_adagrad_da():
    step = tf.Variable(0, dtype=tf.int64, trainable=False)
    return tf.train.AdagradDAOptimizer(
        0.5,
        step,
        initial_gradient_squared_accumulator_value=0.2,
        l1_regularization_strength=0.01,
        l2_regularization_strength=0.02,
    )


OPTIMIZERS = {
    "descent": (lambda: tf.train.GradientDescentOptimizer(0.5), descent),
    "momentum": (lambda: tf.train.MomentumOptimizer(0.1, 0.9), momentum),
    "nesterov": (
        lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        lambda rows, dtype: momentum(rows, dtype, True),
    ),
    "adam": (lambda: tf.train.AdamOptimizer(0.1, 0.9, 0.99, 1e-4), adam),
    "adagrad": (lambda: tf.train.AdagradOptimizer(0.5), adagrad),
    "adagrad_da": (make_adagrad_da, adagrad_da),
    "adadelta": (lambda: tf.train.AdadeltaOptimizer(0.5, 0.9, 1e-2), adadelta),
    "rmsprop": (lambda: tf.train.RMSPropOptimizer(0.1, 0.8, 0.3, 1e-2), rmsprop),
    "rmsprop_centered": (
        lambda: tf.train.RMSPropOptimizer(0.1, 0.8, 0.3, 1e-2, centered=True),
        lambda rows, dtype: rmsprop(rows, dtype, True),
    ),
    "ftrl": (
        lambda: tf.train.FtrlOptimizer(0.5, l1_regularization_strength=0.01, l2_regularization_strength=0.02),
        ftrl,
    ),
    "ftrl_shrinkage": (
        lambda: tf.train.FtrlOptimizer(
            0.5,
            l1_regularization_strength=0.01,
            l2_regularization_strength=0.02,
            l2_shrinkage_regularization_strength=0.1,
        ),
        lambda rows, dtype: ftrl(rows, dtype, 0.1),
    ),
    "proximal_descent": (
        lambda: tf.train.ProximalGradientDescentOptimizer(
            0.5, l1_regularization_strength=0.01, l2_regularization_strength=0.02
        ),
        proximal_descent,
    ),
    "proximal_adagrad": (
        lambda: tf.train.ProximalAdagradOptimizer(
            0.5, l1_regularization_strength=0.01, l2_regularization_strength=0.02
        ),
        proximal_adagrad,
    ),
}


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_update_is_that_of_the_formula(name, sparse, resource, dtype):
    make, reference = OPTIMIZERS[name]
    with tf.Graph().as_default(), tf.Session() as sess:
        var = tf.Variable(START, dtype=dtype, use_resource=resource)
        if sparse:
            grad = tf.IndexedSlices(tf.constant(SLICES, dtype), tf.constant(ROWS), tf.constant([3, 2]))
        else:
            grad = tf.constant(DENSE, dtype)
        update = make().apply_gradients([(grad, var)])
        sess.run(tf.global_variables_initializer())
        for _ in range(STEPS):
            sess.run(update)
        tolerance = 2e-5 if dtype == tf.float32 else 1e-6  # hyperparameters are float32 tensors
        np.testing.assert_allclose(
            sess.run(var), reference(Rows(sparse), dtype), rtol=tolerance, atol=tolerance
        )


SLOTS = {
    "momentum": ["momentum"],
    "adam": ["m", "v"],
    "adagrad": ["accumulator"],
    "adagrad_da": ["gradient_accumulator", "gradient_squared_accumulator"],
    "adadelta": ["accum", "accum_update"],
    "rmsprop": ["momentum", "rms"],
    "rmsprop_centered": ["mg", "momentum", "rms"],
    "ftrl": ["accum", "linear"],
    "proximal_adagrad": ["accumulator"],
    "descent": [],
}


@pytest.mark.parametrize("name", sorted(SLOTS))
def test_slots_have_tensorflows_names_and_are_not_trained(name):
    with tf.Graph().as_default():
        var = tf.Variable(START, dtype=tf.float32, name="var")
        opt = OPTIMIZERS[name][0]()
        opt.apply_gradients([(tf.zeros_like(var), var)])
        assert opt.get_slot_names() == SLOTS[name]
        for slot in SLOTS[name]:
            variable = opt.get_slot(var, slot)
            assert variable.name.startswith("var/") and variable.get_shape() == var.get_shape()
            assert variable not in tf.trainable_variables() and variable in tf.global_variables()
            assert variable in opt.variables()
        assert opt.get_slot(var, "none") is None


def test_slot_names_in_checkpoints():
    with tf.Graph().as_default():
        var = tf.Variable(START, dtype=tf.float32, name="var")
        tf.train.AdamOptimizer().apply_gradients([(tf.zeros_like(var), var)])
        names = sorted(v.op.name for v in tf.global_variables())
        assert names == ["beta1_power", "beta2_power", "var", "var/Adam", "var/Adam_1"]


def test_global_step_is_raised_after_the_update():
    for resource in (False, True):
        with tf.Graph().as_default(), tf.Session() as sess:
            step = tf.Variable(7, dtype=tf.int64, trainable=False, use_resource=resource)
            var = tf.Variable(1.0)
            train = tf.train.GradientDescentOptimizer(1.0).apply_gradients([(tf.constant(0.25), var)], step)
            assert train.name == "GradientDescent" and isinstance(train, tf.Operation)
            assert tf.get_collection(tf.GraphKeys.TRAIN_OP) == [train]
            sess.run(tf.global_variables_initializer())
            sess.run(train)
            assert sess.run([step, var]) == [8, 0.75]


def test_rates_may_be_tensors_and_callables():
    with tf.Graph().as_default(), tf.Session() as sess:
        rate = tf.placeholder(tf.float32, [])
        var = tf.Variable(1.0)
        train = tf.train.GradientDescentOptimizer(lambda: rate).apply_gradients([(tf.constant(1.0), var)])
        sess.run(tf.global_variables_initializer())
        sess.run(train, {rate: 0.5})
        sess.run(train, {rate: 0.25})
        assert sess.run(var) == 0.25


def test_constraint_is_applied_after_the_update():
    for resource in (False, True):
        with tf.Graph().as_default(), tf.Session() as sess:
            var = tf.Variable(
                [1.0, 2.0], constraint=lambda v: tf.clip_by_value(v, 0.0, 1.0), use_resource=resource
            )
            train = tf.train.GradientDescentOptimizer(1.0).apply_gradients([(tf.constant([3.0, 0.5]), var)])
            sess.run(tf.global_variables_initializer())
            sess.run(train)
            assert sess.run(var).tolist() == [0.0, 1.0]


def test_wrong_arguments():
    with tf.Graph().as_default():
        var = tf.Variable(1.0)
        opt = tf.train.GradientDescentOptimizer(1.0)
        with pytest.raises(ValueError, match="No variables provided"):
            opt.apply_gradients([])
        with pytest.raises(ValueError, match="No gradients provided for any variable"):
            opt.apply_gradients([(None, var)])
        with pytest.raises(TypeError, match="Gradient must be"):
            opt.apply_gradients([(object(), var)])
        with pytest.raises(ValueError, match="gate_gradients must be one of"):
            opt.compute_gradients(var * 2.0, gate_gradients=17)
        with pytest.raises(ValueError, match="Invalid type"):
            opt.compute_gradients(tf.constant(1))
        with pytest.raises(ValueError, match="Must specify the optimizer name"):
            tf.train.Optimizer(False, "")
        with pytest.raises(ValueError, match="needs to be positive or zero"):
            tf.train.FtrlOptimizer(1.0, l1_regularization_strength=-1.0)
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="No variables to optimize"):
            tf.train.GradientDescentOptimizer(1.0).compute_gradients(tf.constant(1.0))


def test_eager_tensors_are_differentiated_by_but_not_updated():
    with context.eager_mode():
        x = tf.constant(3.0)
        optimizer = tf.train.GradientDescentOptimizer(1.0)
        ((gradient, source),) = optimizer.compute_gradients(lambda: x * x, [x])
        assert source is x
        assert gradient.numpy() == 6.0
        with pytest.raises(NotImplementedError, match="Trying to update a Tensor"):
            optimizer.apply_gradients([(gradient, x)])
