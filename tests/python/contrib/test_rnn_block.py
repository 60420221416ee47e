# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The cells of tf.contrib.rnn that are one op, against NumPy."""
from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

import millrace as tf

rnn = tf.contrib.rnn


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lstm_step(
    x: np.ndarray, c: np.ndarray, h: np.ndarray, v: Dict[str, np.ndarray], bias: float = 1.0, clip: float = 0
) -> Tuple[np.ndarray, np.ndarray]:
    i, j, f, o = np.split(np.concatenate([x, h], 1) @ v["kernel"] + v["bias"], 4, 1)
    i = _sigmoid(i + c * v.get("w_i_diag", 0))
    f = _sigmoid(f + bias + c * v.get("w_f_diag", 0))
    c = f * c + i * np.tanh(j)
    if clip:
        c = np.clip(c, -clip, clip)
    o = _sigmoid(o + c * v.get("w_o_diag", 0))
    return c, o * np.tanh(c)


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed + sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def _fill(sess: Any) -> Dict[str, np.ndarray]:
    """Gives each variable other random values; returns them by the last parts of their names."""
    values = {}
    for n, v in enumerate(tf.trainable_variables()):
        value = _random(*v.shape.as_list(), seed=n)
        v.load(value, sess)
        values[v.op.name.split("/", 1)[-1]] = value
    return values


def _gradient_error(tensors: List[Any], values: List[np.ndarray], y: Any) -> float:
    """The largest difference between the gradients of `y` and differences of it."""
    return max(
        tf.test.compute_gradient_error(
            t,
            list(v.shape),
            y,
            y.shape.as_list(),
            x_init_value=v,
            delta=1e-2,
            extra_feed_dict=dict(zip(tensors, values)),
        )
        for t, v in zip(tensors, values)
    )


@pytest.mark.parametrize("peephole,clip", [(False, None), (True, None), (True, 0.3)])
def test_lstm_block_cell(peephole: bool, clip: Any) -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        x, c, h = (tf.constant(_random(2, n, seed=n)) for n in (3, 4, 4))
        cell = rnn.LSTMBlockCell(4, forget_bias=0.5, cell_clip=clip, use_peephole=peephole)
        assert tuple(cell.state_size) == (4, 4) and cell.output_size == 4
        out, state = cell(x, (c, h))
        diagonals = ["w_i_diag", "w_f_diag", "w_o_diag"] if peephole else []
        assert [v.op.name for v in cell.variables] == [
            "lstm_cell/" + n for n in ["kernel", "bias"] + diagonals
        ]
        sess.run(tf.global_variables_initializer())
        assert not np.any(sess.run(cell.variables[1]))
        values = _fill(sess)
        got = sess.run([state.c, state.h, out, x, c, h])
        want_c, want_h = lstm_step(*got[3:], v=values, bias=0.5, clip=clip or 0)
        np.testing.assert_allclose(got[0], want_c, atol=1e-6)
        np.testing.assert_allclose(got[1], want_h, atol=1e-6)
        np.testing.assert_array_equal(got[1], got[2])
        if clip is None:  # a clipped value has a gradient in the op
            tensors = [x, c, h] + [v.value() for v in cell.variables]
            both = tf.concat([state.c, out], 1)
            assert _gradient_error(tensors, got[3:] + list(values.values()), both) < 2e-3


def test_lstm_block_cell_takes_the_variables_of_lstm_cell() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.constant(_random(2, 5, 3))
        with tf.variable_scope("m") as scope:
            block, _ = tf.nn.dynamic_rnn(rnn.LSTMBlockCell(4), x, [5, 2], dtype=tf.float32)
            scope.reuse_variables()
            plain, _ = tf.nn.dynamic_rnn(rnn.LSTMCell(4), x, [5, 2], dtype=tf.float32)
        assert [v.op.name for v in tf.global_variables()] == [
            "m/rnn/lstm_cell/kernel",
            "m/rnn/lstm_cell/bias",
        ]
        sess.run(tf.global_variables_initializer())
        np.testing.assert_allclose(*sess.run([block, plain]), atol=1e-6)
        kernel = tf.global_variables()[0]
        np.testing.assert_allclose(
            *sess.run([tf.gradients(y, kernel)[0] for y in (block, plain)]), rtol=1e-4, atol=1e-5
        )


def test_lstm_block_cell_errors() -> None:
    with tf.Graph().as_default():
        state = (tf.zeros([2, 4]), tf.zeros([2, 4]))
        with pytest.raises(ValueError, match="Expecting state to be a tuple with length 2"):
            rnn.LSTMBlockCell(4)(tf.zeros([2, 3]), state + state[:1])
        with pytest.raises(ValueError, match=r"Expecting inputs_shape\[1\] to be set"):
            rnn.LSTMBlockCell(4)(tf.placeholder(tf.float32, [2, None]), state)
        with pytest.raises(ValueError, match="ndim"):
            rnn.LSTMBlockCell(4)(tf.zeros([2, 3, 1]), state)


@pytest.mark.parametrize("peephole", [False, True])
@pytest.mark.parametrize("lengths", [None, [4, 2, 0], [1, 0, 2]])
def test_lstm_block_fused_cell(peephole: bool, lengths: Any) -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.constant(_random(4, 3, 2))
        c, h = tf.constant(_random(3, 5)), tf.constant(_random(3, 5, seed=9))
        cell = rnn.LSTMBlockFusedCell(5, use_peephole=peephole)
        out, state = cell(x, (c, h), sequence_length=lengths)
        assert [v.op.name for v in cell.variables[:2]] == ["lstm_fused_cell/kernel", "lstm_fused_cell/bias"]
        sess.run(tf.global_variables_initializer())
        values = _fill(sess)
        got_out, got_c, got_h, xs, want_c, want_h = sess.run([out, state.c, state.h, x, c, h])
        initial = [want_c, want_h]
        for t in range(4):
            runs = np.array([[t < n] for n in lengths or [4] * 3])
            next_c, next_h = lstm_step(xs[t], want_c, want_h, values)
            np.testing.assert_allclose(got_out[t], next_h * runs, atol=1e-6)
            want_c, want_h = np.where(runs, next_c, want_c), np.where(runs, next_h, want_h)
        np.testing.assert_allclose(got_c, want_c, atol=1e-6)
        np.testing.assert_allclose(got_h, want_h, atol=1e-6)
        both = tf.concat([tf.reshape(out, [-1, 5]), state.c, state.h], 0)
        tensors = [x, c, h] + [v.value() for v in cell.variables]
        assert _gradient_error(tensors, [xs] + initial + list(values.values()), both) < 5e-3


def test_lstm_block_fused_cell_unknown_sizes() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        x = _random(4, 3, 2)
        cell = rnn.LSTMBlockFusedCell(5)
        whole, state = cell(tf.constant(x), dtype=tf.float32)
        fed = tf.placeholder(tf.float32, [None, None, 2])
        unknown, last = cell(fed, dtype=tf.float32, sequence_length=tf.constant([4, 4, 4]))
        sess.run(tf.global_variables_initializer())
        a, b, c, d = sess.run([whole, unknown, state.c, last.c], {fed: x})
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(c, d)


def test_lstm_block_fused_cell_errors() -> None:
    with tf.Graph().as_default():
        x = tf.zeros([4, 3, 2])
        with pytest.raises(ValueError, match="Either initial_state or dtype needs to be specified"):
            rnn.LSTMBlockFusedCell(5)(x)
        with pytest.raises(ValueError, match="Expecting initial_state to be a tuple with length 2 or None"):
            rnn.LSTMBlockFusedCell(5)(x, (tf.zeros([3, 5]),))
        with pytest.raises(ValueError, match=r"Expecting inputs_shape\[2\] to be set"):
            rnn.LSTMBlockFusedCell(5)(tf.placeholder(tf.float32, [4, 3, None]), dtype=tf.float32)
        with pytest.raises(ValueError, match="ndim"):
            rnn.LSTMBlockFusedCell(5)(x[0], dtype=tf.float32)
