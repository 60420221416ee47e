# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Learning-rate schedules and moving averages against their formulas."""

import math

import numpy as np
import pytest

import millrace as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def values(make, steps, dtype=np.int64):
    step = tf.placeholder(dtype, [])
    rate = make(step)
    rate = rate() if callable(rate) else rate
    with tf.Session() as sess:
        return [float(sess.run(rate, {step: s})) for s in steps]


STEPS = [0, 1, 5, 9, 10, 15, 25]


def cosine(p):
    return 0.5 * (1 + math.cos(math.pi * min(p, 1.0)))


def restarts(step, first, t_mul, m_mul, alpha):
    length, scale, start = first, 1.0, 0.0
    while step >= start + length:
        start, length, scale = start + length, length * t_mul, scale * m_mul
    p = (step - start) / length
    return (1 - alpha) * scale * 0.5 * (1 + math.cos(math.pi * p)) + alpha


CASES = {
    "exponential": (lambda s: tf.train.exponential_decay(0.1, s, 10, 0.5), lambda t: 0.1 * 0.5 ** (t / 10)),
    "staircase": (
        lambda s: tf.train.exponential_decay(0.1, s, 10, 0.5, staircase=True),
        lambda t: 0.1 * 0.5 ** (t // 10),
    ),
    "natural": (
        lambda s: tf.train.natural_exp_decay(0.1, s, 10, 0.5),
        lambda t: 0.1 * math.exp(-0.5 * t / 10),
    ),
    "natural_staircase": (
        lambda s: tf.train.natural_exp_decay(0.1, s, 10, 0.5, staircase=True),
        lambda t: 0.1 * math.exp(-0.5 * (t // 10)),
    ),
    "inverse": (lambda s: tf.train.inverse_time_decay(0.1, s, 10, 0.5), lambda t: 0.1 / (1 + 0.5 * t / 10)),
    "inverse_staircase": (
        lambda s: tf.train.inverse_time_decay(0.1, s, 10, 0.5, staircase=True),
        lambda t: 0.1 / (1 + 0.5 * (t // 10)),
    ),
    "polynomial": (
        lambda s: tf.train.polynomial_decay(0.1, s, 10, 0.01, power=2.0),
        lambda t: 0.09 * (1 - min(t, 10) / 10) ** 2 + 0.01,
    ),
    "polynomial_cycle": (
        lambda s: tf.train.polynomial_decay(0.1, s, 10, 0.01, cycle=True),
        lambda t: 0.09 * (1 - t / (10 * max(1, math.ceil(t / 10)))) + 0.01,
    ),
    "cosine": (
        lambda s: tf.train.cosine_decay(0.1, s, 20, 0.2),
        lambda t: 0.1 * (0.8 * cosine(t / 20) + 0.2),
    ),
    "restarts": (
        lambda s: tf.train.cosine_decay_restarts(0.1, s, 4, t_mul=2.0, m_mul=0.5, alpha=0.1),
        lambda t: 0.1 * restarts(t, 4, 2.0, 0.5, 0.1),
    ),
    "restarts_equal": (
        lambda s: tf.train.cosine_decay_restarts(0.1, s, 4, t_mul=1.0, m_mul=0.5),
        lambda t: 0.1 * restarts(t, 4, 1.0, 0.5, 0.0),
    ),
    "linear_cosine": (
        lambda s: tf.train.linear_cosine_decay(0.1, s, 20, num_periods=0.75, alpha=0.1, beta=0.01),
        lambda t: 0.1
        * ((0.1 + 1 - min(t, 20) / 20) * 0.5 * (1 + math.cos(math.pi * 2 * 0.75 * min(t, 20) / 20)) + 0.01),
    ),
    "piecewise": (
        lambda s: tf.train.piecewise_constant(s, [5, 10], [1.0, 0.5, 0.1]),
        lambda t: 1.0 if t <= 5 else 0.5 if t <= 10 else 0.1,
    ),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_schedule(name):
    make, formula = CASES[name]
    np.testing.assert_allclose(values(make, STEPS), [formula(t) for t in STEPS], rtol=1e-5)


def test_noisy_schedule_without_noise_is_the_linear_cosine():
    make = lambda s: tf.train.noisy_linear_cosine_decay(0.1, s, 20, initial_variance=0.0)  # noqa: E731
    plain = lambda s: tf.train.linear_cosine_decay(0.1, s, 20)  # noqa: E731
    np.testing.assert_allclose(values(make, STEPS), values(plain, STEPS), rtol=1e-5)


def test_piecewise_types_must_agree():
    step = tf.placeholder(tf.int32, [])
    with pytest.raises(ValueError):
        tf.train.piecewise_constant(step, [1.5, 2], [1.0, 0.5, 0.1])
    with pytest.raises(ValueError):
        tf.train.piecewise_constant(step, [1, 2], [1, 0.5, 0.1])
    got = values(
        lambda s: tf.train.piecewise_constant(s, [1.0, 2.0], [7, 8, 9]), [0.5, 1.0, 1.5, 3.0], tf.float32
    )
    assert got == [7, 7, 8, 9]


def test_global_step_is_required():
    with pytest.raises(ValueError, match="global_step is required"):
        tf.train.exponential_decay(0.1, None, 10, 0.5)


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
@pytest.mark.parametrize("num_updates", [None, 1], ids=["plain", "num_updates"])
def test_moving_averages_of_variables(num_updates, resource):
    ema = tf.train.ExponentialMovingAverage(0.25, num_updates=num_updates)
    decay = 0.25 if num_updates is None else min(0.25, 2 / 11)
    v0 = tf.Variable([10.0, 20.0], name="v0", use_resource=resource)
    v1 = tf.Variable(3.0, name="v1", use_resource=resource)
    t = tf.add(v1, 1.0, name="t")
    update = ema.apply([v0, v1, t])
    assert ema.average(v0).op.name == ema.average_name(v0) == "v0/ExponentialMovingAverage"
    assert ema.average(tf.constant(1.0)) is None
    assert tf.moving_average_variables() == [v0, v1]
    assert ema.average(v0) in tf.global_variables() and ema.average(v0) not in tf.trainable_variables()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        wanted = [np.array([10.0, 20.0]), 3.0, 0.0]
        for value in (1.0, 2.0):
            sess.run([v0.assign([value, -value]), v1.assign(value)])
            sess.run(update)
            now = [np.array([value, -value]), value, value + 1]
            wanted = [decay * w + (1 - decay) * n for w, n in zip(wanted, now)]
            for x, w in zip((v0, v1, t), wanted):
                np.testing.assert_allclose(sess.run(ema.average(x)), w, rtol=1e-6)


def test_zero_debias():
    ema = tf.train.ExponentialMovingAverage(0.9, zero_debias=True)
    x = tf.placeholder_with_default(tf.constant([1.0, 2.0]), [2])
    update = ema.apply([x])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        biased = np.zeros(2)
        for n, value in enumerate(([1.0, 2.0], [3.0, -1.0], [0.0, 5.0]), 1):
            sess.run(update, {x: value})
            biased = 0.9 * biased + 0.1 * np.array(value)
            np.testing.assert_allclose(sess.run(ema.average(x)), biased / (1 - 0.9**n), rtol=1e-5)


def test_assign_moving_average():
    from millrace.python.training import moving_averages

    var = tf.Variable([10.0, 11.0])
    update = moving_averages.assign_moving_average(var, tf.constant([1.0, 2.0]), 0.25, zero_debias=False)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(update)
        np.testing.assert_allclose(sess.run(var), [10 * 0.25 + 0.75, 11 * 0.25 + 2 * 0.75])


def test_weighted_moving_average():
    from millrace.python.training import moving_averages

    value, weight = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    average = moving_averages.weighted_moving_average(value, 0.5, weight)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        numerator = denominator = 0.0
        for v, w in ((1.0, 1.0), (3.0, 2.0)):
            numerator, denominator = 0.5 * numerator + 0.5 * v * w, 0.5 * denominator + 0.5 * w
            assert sess.run(average, {value: v, weight: w}) == pytest.approx(numerator / denominator)


def test_averages_of_integers_are_refused():
    with pytest.raises(TypeError, match="must be half, float, or double"):
        tf.train.ExponentialMovingAverage(0.9).apply([tf.Variable(1)])


def test_variables_to_restore():
    ema = tf.train.ExponentialMovingAverage(0.9)
    v = tf.Variable(1.0, name="v")
    other = tf.Variable(1.0, name="other", trainable=False)
    ema.apply([v])
    found = ema.variables_to_restore()
    assert found["v/ExponentialMovingAverage"] is v and found["other"] is other and len(found) == 2


def test_global_step():
    assert tf.train.get_global_step() is None
    step = tf.train.create_global_step()
    assert tf.train.get_global_step() is step and tf.train.get_or_create_global_step() is step
    assert step.dtype.base_dtype == tf.int64 and step.name == "global_step:0" and not step.trainable
    with pytest.raises(ValueError, match="already exists"):
        tf.train.create_global_step()
    with tf.Session() as sess:
        sess.run(step.assign(17))
        assert tf.train.global_step(sess, step) == 17
    with pytest.raises(TypeError):
        tf.train.assert_global_step(tf.Variable([1.0]))
