# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""GRUBlockCell and GRUBlockCellV2 of tf.contrib.rnn, against NumPy."""
from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

import millrace as tf

rnn = tf.contrib.rnn


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _gru(
    x: np.ndarray, h: np.ndarray, w_ru: np.ndarray, b_ru: np.ndarray, w_c: np.ndarray, b_c: np.ndarray
) -> np.ndarray:
    r, u = np.split(_sigmoid(np.concatenate([x, h], 1) @ w_ru + b_ru), 2, 1)
    return u * h + (1 - u) * np.tanh(np.concatenate([x, r * h], 1) @ w_c + b_c)


_NAMES = ["w_ru", "b_ru", "w_c", "b_c"]
_NAMES_V2 = ["gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias"]


@pytest.mark.parametrize("cell_class,names", [("GRUBlockCell", _NAMES), ("GRUBlockCellV2", _NAMES_V2)])
def test_values_and_gradients(cell_class: str, names: List[str]) -> None:
    random = np.random.RandomState(3)
    with tf.Graph().as_default(), tf.Session() as sess:
        values: Any = [random.uniform(-1, 1, (2, n)).astype(np.float32) for n in (3, 4)]
        x, h = (tf.constant(v) for v in values)
        cell = getattr(rnn, cell_class)(4)
        assert cell.state_size == 4 and cell.output_size == 4
        out, state = cell(x, h)
        assert out is state
        assert [v.op.name for v in cell.variables] == ["gru_cell/" + n for n in names]
        sess.run(tf.global_variables_initializer())
        first = sess.run(cell.variables)
        np.testing.assert_array_equal(first[1], np.ones(8))
        np.testing.assert_array_equal(first[3], np.zeros(4))
        assert np.abs(first[0]).max() > 0
        for v in cell.variables:
            values.append(random.uniform(-1, 1, v.shape.as_list()).astype(np.float32))
            v.load(values[-1], sess)
        np.testing.assert_allclose(sess.run(out), _gru(*values), atol=1e-6)
        tensors = [x, h] + [v.value() for v in cell.variables]
        for t, v in zip(tensors, values):
            error = tf.test.compute_gradient_error(
                t, v.shape, out, [2, 4], v, 1e-2, extra_feed_dict=dict(zip(tensors, values))
            )
            assert error < 2e-3


def test_v2_takes_the_variables_of_gru_cell() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.constant(np.random.RandomState(0).normal(size=(2, 5, 3)).astype(np.float32))
        with tf.variable_scope("m") as scope:
            block, _ = tf.nn.dynamic_rnn(rnn.GRUBlockCellV2(cell_size=4), x, [5, 2], dtype=tf.float32)
            scope.reuse_variables()
            plain, _ = tf.nn.dynamic_rnn(rnn.GRUCell(4), x, [5, 2], dtype=tf.float32)
        assert len(tf.global_variables()) == 4
        sess.run(tf.global_variables_initializer())
        np.testing.assert_allclose(*sess.run([block, plain]), atol=1e-6)


def test_errors() -> None:
    with tf.Graph().as_default():
        for arguments in ((), (4, 4)):
            with pytest.raises(ValueError, match="Exactly one of num_units or cell_size must be provided"):
                rnn.GRUBlockCell(*arguments)
        with pytest.raises(ValueError, match="Expecting input_size to be set"):
            rnn.GRUBlockCell(4)(tf.placeholder(tf.float32, [2, None]), tf.zeros([2, 4]))
        with pytest.raises(ValueError, match=r"Shape of h_prev\[1\] incorrect: cell_size 4 vs 5"):
            rnn.GRUBlockCell(4)(tf.zeros([2, 3]), tf.zeros([2, 5]))
