# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Fused cells of tf.contrib.rnn and the projection of inputs against NumPy."""
from __future__ import annotations

from typing import Any, Tuple

import numpy as np
import pytest

import millrace as tf

rnn = tf.contrib.rnn
_X = np.random.RandomState(0).uniform(-1, 1, [4, 3, 2]).astype(np.float32)
_LENGTHS = np.array([4, 2, 0])


def _reference(x: Any, lengths: Any, kernel: Any, bias: Any, backward: bool) -> Tuple[Any, Any]:
    """Outputs, zero after the end of each sequence, and the state after its last step."""
    outputs, states = np.zeros([4, 3, 5]), np.zeros([3, 5])
    for row, length in enumerate(lengths):
        for t in reversed(range(length)) if backward else range(length):
            states[row] = np.tanh(np.concatenate([x[t, row], states[row]]) @ kernel + bias)
            outputs[t, row] = states[row]
    return outputs, states


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("lengths", [None, _LENGTHS])
@pytest.mark.parametrize("as_list", [False, True])
def test_adaptor(backward: bool, dynamic: bool, lengths: Any, as_list: bool) -> None:
    if backward and as_list and lengths is not None:
        pytest.skip("a list is reversed whole")
    with tf.Graph().as_default(), tf.Session() as sess:
        fused: Any = rnn.FusedRNNCellAdaptor(tf.nn.rnn_cell.BasicRNNCell(5), use_dynamic_rnn=dynamic)
        if backward:
            fused = rnn.TimeReversedFusedRNN(fused)
        assert isinstance(fused, rnn.FusedRNNCell)
        inputs = [tf.constant(x) for x in _X] if as_list else tf.constant(_X)
        outputs, state = fused(inputs, dtype=tf.float32, sequence_length=lengths, scope="s")
        assert isinstance(outputs, list) == as_list
        sess.run(tf.global_variables_initializer())
        assert [v.op.name for v in tf.trainable_variables()] == [
            "s/basic_rnn_cell/kernel",
            "s/basic_rnn_cell/bias",
        ]
        kernel, bias = sess.run(tf.trainable_variables())
        want = _reference(_X, [4] * 3 if lengths is None else lengths, kernel, bias, backward)
        for got, value in zip(sess.run([outputs, state]), want):
            np.testing.assert_allclose(got, value, atol=1e-5)


def test_fused_cell_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        rnn.FusedRNNCell()


def test_input_projection() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        cell = rnn.InputProjectionWrapper(tf.nn.rnn_cell.BasicRNNCell(5), 3, activation=tf.nn.relu)
        assert (cell.state_size, cell.output_size) == (5, 5)
        output, state = cell(tf.constant(_X[0]), tf.constant(np.full([3, 5], 0.5, np.float32)))
        sess.run(tf.global_variables_initializer())
        v = {v.op.name: sess.run(v) for v in tf.trainable_variables()}
        scope = "input_projection_wrapper/"
        x = np.maximum(_X[0] @ v[scope + "kernel"] + v[scope + "bias"], 0)
        joined = np.concatenate([x, np.full([3, 5], 0.5)], 1)
        want = np.tanh(joined @ v[scope + "basic_rnn_cell/kernel"] + v[scope + "basic_rnn_cell/bias"])
        np.testing.assert_allclose(sess.run(output), want, atol=1e-5)
        np.testing.assert_allclose(sess.run(state), want, atol=1e-5)
        with pytest.raises(TypeError):
            rnn.InputProjectionWrapper(3, 3)
