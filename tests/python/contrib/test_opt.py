# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Optimizers of tf.contrib.opt beside NumPy."""
from __future__ import annotations

import sys
import types
from typing import Any
from unittest import mock

import numpy as np
import pytest

import millrace as tf

START = np.array([[1.0, -2.0], [3.0, 0.5], [-1.5, 2.0]])
DENSE = np.array([[0.1, -0.2], [0.3, 0.4], [0.0, -0.5]])
ROWS, ROW_VALUES = np.array([2, 0]), np.array([[0.5, -0.5], [0.25, 1.0]])
RATE, B1, B2, EPS = 0.01, 0.9, 0.999, 1e-8


def trained(make: Any, sparse: bool, resource: bool, steps: int = 3) -> np.ndarray[Any, Any]:
    with tf.Graph().as_default(), tf.Session() as session:
        var = tf.get_variable("v", initializer=tf.constant(START), use_resource=resource)
        gradient: Any = tf.constant(DENSE)
        if sparse:
            gradient = tf.IndexedSlices(tf.constant(ROW_VALUES), tf.constant(ROWS), tf.constant([3, 2]))
        step = make(var).apply_gradients([(gradient, var)])
        session.run(tf.global_variables_initializer())
        for _ in range(steps):
            session.run(step)
        return np.asarray(session.run(var))


def moments(kind: str, sparse: bool, steps: int = 3) -> np.ndarray[Any, Any]:
    """The variable after steps of a kind of Adam: "adam", "lazy", "nadam" or "max"."""
    var, m, v = START.copy(), np.zeros_like(START), np.zeros_like(START)
    grad = DENSE
    if sparse:
        grad = np.zeros_like(START)
        grad[ROWS] = ROW_VALUES
    rows: Any = ROWS if sparse and kind != "adam" else slice(None)
    for t in range(1, steps + 1):
        decayed: Any = rows if kind in ("lazy", "max") else slice(None)
        m[decayed] = B1 * m[decayed] + (1 - B1) * grad[decayed]
        if kind == "max":
            v[decayed] = np.maximum(B2 * v[decayed], np.abs(grad[decayed]))
            var[rows] -= RATE / (1 - B1**t) * m[rows] / (v[rows] + EPS)
            continue
        v[decayed] = B2 * v[decayed] + (1 - B2) * grad[decayed] ** 2
        mean = B1 * m + (1 - B1) * grad if kind == "nadam" else m
        rate = RATE * np.sqrt(1 - B2**t) / (1 - B1**t)
        var[rows] -= rate * mean[rows] / (np.sqrt(v[rows]) + EPS)
    return var


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_kinds_of_adam(sparse: bool, resource: bool):
    opt = tf.contrib.opt
    for kind, make in (
        ("lazy", opt.LazyAdamOptimizer), ("nadam", opt.NadamOptimizer), ("max", opt.AdaMaxOptimizer),
    ):  # fmt: skip
        found = trained(lambda var, make=make: make(RATE), sparse, resource)
        np.testing.assert_allclose(found, moments(kind, sparse), rtol=1e-6)


@pytest.mark.parametrize("resource", [False, True])
def test_weights_decay(resource: bool):
    opt = tf.contrib.opt

    def decayed(steps: int, sparse: bool) -> np.ndarray[Any, Any]:
        var, accumulated = START.copy(), np.zeros_like(START)
        rows: Any = ROWS if sparse else slice(None)
        for _ in range(steps):
            accumulated[rows] = 0.5 * accumulated[rows] + (ROW_VALUES if sparse else DENSE)
            var[rows] -= 0.1 * var[rows]
            var[rows] -= RATE * accumulated[rows]
        return var

    extended = opt.extend_with_decoupled_weight_decay(tf.train.MomentumOptimizer)
    for make in (lambda v: opt.MomentumWOptimizer(0.1, RATE, 0.5), lambda v: extended(0.1, RATE, 0.5),
                 lambda v: opt.MomentumWOptimizer(lambda: 0.1, RATE, momentum=0.5)):  # fmt: skip
        for sparse in (False, True):
            np.testing.assert_allclose(trained(make, sparse, resource), decayed(3, sparse), rtol=1e-6)
    adam = trained(lambda v: opt.AdamWOptimizer(0.0, RATE), False, resource)
    np.testing.assert_allclose(adam, moments("adam", False), rtol=1e-6)

    with tf.Graph().as_default(), tf.Session() as session:
        first, second = (tf.get_variable(name, initializer=2.0, use_resource=resource) for name in "ab")
        optimizer = opt.MomentumWOptimizer(0.5, 0.0, 0.0)
        step = optimizer.minimize(first + second, decay_var_list=[first])
        session.run(tf.global_variables_initializer())
        session.run(step)
        assert session.run([first, second]) == [1.0, 2.0]


@pytest.mark.parametrize("resource", [False, True])
def test_averages_are_saved_in_place_of_variables(tmp_path: Any, resource: bool):
    with tf.Graph().as_default(), tf.Session() as session:
        var = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=resource)
        inner = tf.train.MomentumOptimizer(2.0, 0.0)
        optimizer = tf.contrib.opt.MovingAverageOptimizer(inner, average_decay=0.5)
        with pytest.raises(RuntimeError, match="Must call apply_gradients or minimize"):
            optimizer.swapping_saver()
        step = optimizer.minimize(tf.reduce_sum(var))
        assert optimizer.get_slot(var, "momentum") is not None and optimizer.get_slot_names() == ["momentum"]
        saver = optimizer.swapping_saver()
        with pytest.raises(ValueError, match="is not part of variables to save"):
            optimizer.swapping_saver([var])
        session.run(tf.global_variables_initializer())
        session.run(step)
        assert session.run(var).tolist() == [-1.0, 0.0]
        path = saver.save(session, str(tmp_path / "m"))
    reader = tf.train.load_checkpoint(path)
    (average,) = [
        name for name, _ in tf.train.list_variables(path) if name.endswith("ExponentialMovingAverage")
    ]
    assert reader.get_tensor("v").tolist() == [0.0, 1.0] and reader.get_tensor(average).tolist() == [
        -1.0,
        0.0,
    ]


def test_external_optimizers():
    class Descent(tf.contrib.opt.ExternalOptimizerInterface):
        def _minimize(self, initial_val: Any, loss_grad_func: Any, packed_bounds: Any, step_callback: Any,
                      equality_funcs: Any, equality_grad_funcs: Any, **kwargs: Any) -> Any:  # fmt: skip
            x = initial_val
            assert packed_bounds == [(0.0, 5.0), (0.0, 5.0), (-np.inf, np.inf)]
            assert equality_funcs[0](x) == 2.0 and equality_grad_funcs[0](x).tolist() == [1.0, 0.0, 0.0]
            for _ in range(kwargs["optimizer_kwargs"]["steps"]):
                x = x - 0.25 * loss_grad_func(x)[1]
                step_callback(x)
            return x

    with tf.Graph().as_default(), tf.Session():
        a, b = tf.Variable([2.0, 3.0]), tf.Variable(4.0)
        target = tf.placeholder(tf.float32, [])
        loss = tf.reduce_sum(tf.square(a - target)) + tf.square(b)
        tf.global_variables_initializer().run()
        losses: list[float] = []
        steps: list[Any] = []
        optimizer = Descent(loss, equalities=[a[0]], var_to_bounds={a: (0, 5)}, steps=30)
        optimizer.minimize(
            feed_dict={target: 1.0}, fetches=[loss], loss_callback=losses.append, step_callback=steps.append
        )
        np.testing.assert_allclose(a.eval(), [1.0, 1.0], atol=1e-5)
        np.testing.assert_allclose(b.eval(), 0.0, atol=1e-5)
        assert losses[0] == 21.0 and len(losses) == len(steps) == 30
        with pytest.raises(NotImplementedError, match="subclass from it"):
            tf.contrib.opt.ExternalOptimizerInterface(loss).minimize(feed_dict={target: 1.0})


def test_scipy_is_called():
    calls: list[Any] = []

    def minimize(function: Any, initial: Any, **kwargs: Any) -> Any:
        calls.append((function(initial), kwargs))
        result = {"x": np.array([7.0])}
        return type("Result", (dict,), {"message": "done", "fun": 0.0, "nit": 1, "nfev": 1})(result)

    scipy, optimize = types.ModuleType("scipy"), types.ModuleType("scipy.optimize")
    scipy.optimize, optimize.minimize = optimize, minimize  # type: ignore[attr-defined]
    with mock.patch.dict(sys.modules, {"scipy": scipy, "scipy.optimize": optimize}):
        with tf.Graph().as_default(), tf.Session():
            x = tf.Variable([3.0])
            loss = tf.reduce_sum(x * x)
            optimizer = tf.contrib.opt.ScipyOptimizerInterface(
                loss, inequalities=[x[0]], options={"maxiter": 5}
            )
            tf.global_variables_initializer().run()
            optimizer.minimize()
            assert x.eval().tolist() == [7.0]
            ((value, gradient), kwargs) = calls[0]
            assert value == 9.0 and gradient.dtype == np.float64 and gradient.tolist() == [6.0]
            assert (
                kwargs["method"] == "L-BFGS-B"
                and kwargs["options"] == {"maxiter": 5}
                and kwargs["jac"] is True
            )
            assert [c["type"] for c in kwargs["constraints"]] == ["ineq"]
            with pytest.raises(ValueError, match="'?jac'? is set automatically"):
                tf.contrib.opt.ScipyOptimizerInterface(loss, jac=False).minimize()


def test_mnist_has_the_name_of_learn():
    from millrace.contrib.learn.python.learn.datasets import base, mnist
    from millrace.examples.tutorials.mnist import input_data

    assert mnist.read_data_sets is tf.contrib.learn.datasets.mnist.read_data_sets is input_data.read_data_sets
    assert base.maybe_download is input_data.maybe_download
