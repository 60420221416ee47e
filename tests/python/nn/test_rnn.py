# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells and loops against NumPy."""

import numpy as np
import pytest

import millrace as tf

RNG = np.random.RandomState(3)
BATCH, TIME, DEPTH, UNITS = 3, 5, 4, 6
X = RNG.randn(BATCH, TIME, DEPTH).astype(np.float32)
LENGTHS = np.array([5, 2, 0])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def run(fetch, feed=None):
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        return sess.run(fetch, feed)


def basic(x, state, kernel, bias):
    h = np.tanh(np.concatenate([x, state], 1) @ kernel + bias)
    return h, h


def gru(x, h, gate_kernel, gate_bias, kernel, bias):
    r, u = np.split(sigmoid(np.concatenate([x, h], 1) @ gate_kernel + gate_bias), 2, 1)
    c = np.tanh(np.concatenate([x, r * h], 1) @ kernel + bias)
    new = u * h + (1 - u) * c
    return new, new


def lstm(x, state, kernel, bias, forget=1.0):
    c, h = state
    i, j, f, o = np.split(np.concatenate([x, h], 1) @ kernel + bias, 4, 1)
    c = c * sigmoid(f + forget) + sigmoid(i) * np.tanh(j)
    h = np.tanh(c) * sigmoid(o)
    return h, (c, h)


CELLS = {
    "basic": (lambda: tf.nn.rnn_cell.BasicRNNCell(UNITS), basic, lambda: np.zeros((BATCH, UNITS))),
    "gru": (lambda: tf.nn.rnn_cell.GRUCell(UNITS), gru, lambda: np.zeros((BATCH, UNITS))),
    "basic_lstm": (
        lambda: tf.nn.rnn_cell.BasicLSTMCell(UNITS),
        lstm,
        lambda: (np.zeros((BATCH, UNITS)), np.zeros((BATCH, UNITS))),
    ),
    "lstm": (
        lambda: tf.nn.rnn_cell.LSTMCell(UNITS),
        lstm,
        lambda: (np.zeros((BATCH, UNITS)), np.zeros((BATCH, UNITS))),
    ),
}


def reference(step, state, weights, lengths=None):
    outputs = []
    for t in range(TIME):
        out, new = step(X[:, t], state, *weights)
        if lengths is not None:
            live = (t < lengths)[:, None]
            out = np.where(live, out, 0)
            keep = lambda a, b: np.where(live, a, b)  # noqa: E731
            new = (
                tuple(keep(a, b) for a, b in zip(new, state)) if isinstance(new, tuple) else keep(new, state)
            )
        outputs.append(out)
        state = new
    return np.stack(outputs, 1), state


def weights_of(sess):
    return [sess.run(v) for v in tf.trainable_variables()]


def close(a, b):
    for x, y in zip(a if isinstance(a, tuple) else (a,), b if isinstance(b, tuple) else (b,)):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(CELLS))
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
@pytest.mark.parametrize("time_major", [False, True], ids=["batch", "time"])
def test_dynamic_rnn(name, lengths, time_major):
    make, step, start = CELLS[name]
    x = tf.placeholder(tf.float32, [None, None, DEPTH])
    outputs, state = tf.nn.dynamic_rnn(
        make(), x, sequence_length=lengths, dtype=tf.float32, time_major=time_major
    )
    assert outputs.get_shape().as_list()[2] == UNITS and outputs.get_shape().ndims == 3
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        got, last = sess.run([outputs, state], {x: X.transpose(1, 0, 2) if time_major else X})
        wanted, wanted_state = reference(step, start(), weights_of(sess), lengths)
    close(got.transpose(1, 0, 2) if time_major else got, wanted)
    close(tuple(last) if isinstance(last, tuple) else last, wanted_state)


@pytest.mark.parametrize("name", sorted(CELLS))
def test_static_rnn_is_the_same(name):
    make, step, start = CELLS[name]
    outputs, state = tf.nn.static_rnn(
        make(), tf.unstack(tf.constant(X), axis=1), dtype=tf.float32, sequence_length=LENGTHS
    )
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        got, last = sess.run([outputs, state])
        wanted, wanted_state = reference(step, start(), weights_of(sess), LENGTHS)
    close(np.stack(got, 1), wanted)
    close(tuple(last) if isinstance(last, tuple) else last, wanted_state)


def test_names_of_weights():
    for make, names in (
        (CELLS["basic"][0], ["kernel", "bias"]),
        (CELLS["gru"][0], ["gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias"]),
        (CELLS["lstm"][0], ["kernel", "bias"]),
    ):
        with tf.Graph().as_default():
            cell = make()
            tf.nn.dynamic_rnn(cell, X, dtype=tf.float32)
            prefix = {"BasicRNNCell": "basic_rnn_cell", "GRUCell": "gru_cell", "LSTMCell": "lstm_cell"}[
                type(cell).__name__
            ]
            assert [v.op.name for v in tf.trainable_variables()] == ["rnn/%s/%s" % (prefix, n) for n in names]


def test_gradients_through_the_loop():
    x = tf.constant(X)
    outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(UNITS), x, LENGTHS, dtype=tf.float32)
    loss = tf.reduce_sum(outputs * tf.constant(RNG.randn(BATCH, TIME, UNITS).astype(np.float32)))
    variables = tf.trainable_variables()
    grads = tf.gradients(loss, [x] + variables)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        got = sess.run(grads)
        assert not got[0][2].any() and not got[0][1, 2:].any() and got[0][0].all()
        kernel, value, epsilon = variables[0], sess.run(variables[0]), 1e-2
        for at in ((0, 0), (DEPTH + 1, 7)):
            moved = []
            for sign in (1, -1):
                changed = value.copy()
                changed[at] += sign * epsilon
                kernel.load(changed, sess)
                moved.append(sess.run(loss))
            kernel.load(value, sess)
            np.testing.assert_allclose(
                got[1][at], (moved[0] - moved[1]) / (2 * epsilon), rtol=2e-2, atol=1e-3
            )


def test_lstm_with_peepholes_projection_and_clipping():
    cell = tf.nn.rnn_cell.LSTMCell(UNITS, use_peepholes=True, num_proj=2, cell_clip=0.5, proj_clip=0.3)
    assert cell.state_size == tf.nn.rnn_cell.LSTMStateTuple(UNITS, 2) and cell.output_size == 2
    outputs, state = tf.nn.dynamic_rnn(cell, X, dtype=tf.float32)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        got, last = sess.run([outputs, state])
        w = {
            v.op.name.rsplit("/", 2)[-2]
            if v.op.name.endswith("projection/kernel")
            else v.op.name.rsplit("/", 1)[-1]: sess.run(v)
            for v in tf.trainable_variables()
        }
    c, h = np.zeros((BATCH, UNITS)), np.zeros((BATCH, 2))
    for t in range(TIME):
        i, j, f, o = np.split(np.concatenate([X[:, t], h], 1) @ w["kernel"] + w["bias"], 4, 1)
        c = sigmoid(f + 1 + w["w_f_diag"] * c) * c + sigmoid(i + w["w_i_diag"] * c) * np.tanh(j)
        c = np.clip(c, -0.5, 0.5)
        h = np.clip((sigmoid(o + w["w_o_diag"] * c) * np.tanh(c)) @ w["projection"], -0.3, 0.3)
        np.testing.assert_allclose(got[:, t], h, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last.c, c, rtol=1e-4, atol=1e-5)


def test_bidirectional():
    fw, bw = tf.nn.rnn_cell.GRUCell(UNITS), tf.nn.rnn_cell.GRUCell(UNITS)
    (out_fw, out_bw), (last_fw, last_bw) = tf.nn.bidirectional_dynamic_rnn(
        fw, bw, X, LENGTHS, dtype=tf.float32
    )
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        found = sess.run([out_fw, out_bw, last_fw, last_bw])
        weights = weights_of(sess)
    assert [v.op.name.split("/")[1] for v in tf.trainable_variables()] == ["fw"] * 4 + ["bw"] * 4
    wanted, last = reference(gru, np.zeros((BATCH, UNITS)), weights[:4], LENGTHS)
    close(found[0], wanted)
    close(found[2], last)
    for b, length in enumerate(LENGTHS):
        h = np.zeros((1, UNITS))
        for t in reversed(range(length)):
            h, _ = gru(X[b : b + 1, t], h, *weights[4:])
            np.testing.assert_allclose(found[1][b, t], h[0], rtol=1e-4, atol=1e-5)
        assert not found[1][b, length:].any()
        np.testing.assert_allclose(found[3][b], h[0], rtol=1e-4, atol=1e-5)
    with tf.Graph().as_default():
        outputs, _, _ = tf.nn.static_bidirectional_rnn(
            tf.nn.rnn_cell.GRUCell(2),
            tf.nn.rnn_cell.GRUCell(3),
            tf.unstack(tf.constant(X), axis=1),
            dtype=tf.float32,
        )
        assert len(outputs) == TIME and outputs[0].get_shape().as_list() == [BATCH, 5]


def test_stacked_cells_and_wrappers():
    cells = [tf.nn.rnn_cell.BasicRNNCell(UNITS), tf.nn.rnn_cell.BasicRNNCell(2)]
    stack = tf.nn.rnn_cell.MultiRNNCell(cells)
    assert stack.state_size == (UNITS, 2) and stack.output_size == 2
    outputs, state = tf.nn.dynamic_rnn(stack, X, dtype=tf.float32)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        got, last, weights = sess.run([outputs, state, tf.trainable_variables()])
    one, two = np.zeros((BATCH, UNITS)), np.zeros((BATCH, 2))
    for t in range(TIME):
        one, _ = basic(X[:, t], one, *weights[:2])
        two, _ = basic(one, two, *weights[2:])
        np.testing.assert_allclose(got[:, t], two, rtol=1e-4, atol=1e-5)
    close(last, (one, two))
    assert [v.op.name for v in tf.trainable_variables()][
        2
    ] == "rnn/multi_rnn_cell/cell_1/basic_rnn_cell/kernel"


def test_residual_device_and_dropout_wrappers():
    residual = tf.nn.rnn_cell.ResidualWrapper(tf.nn.rnn_cell.BasicRNNCell(DEPTH))
    placed = tf.nn.rnn_cell.DeviceWrapper(tf.nn.rnn_cell.BasicRNNCell(DEPTH), "/cpu:0")
    x, h = tf.constant(X[:, 0]), tf.zeros([BATCH, DEPTH])
    out, state = residual(x, h)
    placed_out, _ = placed(x, h)
    assert placed_out.device.lower().endswith("cpu:0")
    kept = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.BasicRNNCell(UNITS), output_keep_prob=0.5, seed=1)
    dropped, _ = kept(x, tf.zeros([BATCH, UNITS]))
    everything = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.BasicRNNCell(UNITS), 1.0, 1.0, 1.0)
    full, _ = everything(x, tf.zeros([BATCH, UNITS]))
    got_out, got_state, got_dropped, got_full = run([out, state, dropped, full])
    np.testing.assert_allclose(got_out, got_state + X[:, 0], rtol=1e-5)
    assert 0 < (got_dropped == 0).sum() < got_dropped.size and not (got_full == 0).any()


def test_raw_rnn_is_dynamic_rnn():
    cell = tf.nn.rnn_cell.LSTMCell(UNITS)
    inputs = tf.TensorArray(tf.float32, TIME).unstack(X.transpose(1, 0, 2))

    def loop_fn(time, cell_output, cell_state, loop_state):
        next_state = cell.zero_state(BATCH, tf.float32) if cell_output is None else cell_state
        finished = time >= LENGTHS
        done = tf.reduce_all(finished)
        next_input = tf.cond(done, lambda: tf.zeros([BATCH, DEPTH]), lambda: inputs.read(time))
        return finished, next_input, next_state, cell_output, None

    outputs_ta, final, _ = tf.nn.raw_rnn(cell, loop_fn)
    outputs = outputs_ta.stack()
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        tf.get_variable_scope()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        got, last, weights = sess.run([outputs, final, tf.trainable_variables()])
    wanted, wanted_state = reference(
        lstm, (np.zeros((BATCH, UNITS)), np.zeros((BATCH, UNITS))), weights, LENGTHS
    )
    close(got.transpose(1, 0, 2), wanted)
    close(tuple(last), wanted_state)


def test_custom_cell_with_nested_state():
    class Adder(tf.nn.rnn_cell.RNNCell):
        @property
        def state_size(self):
            return {"total": DEPTH, "count": tf.TensorShape([])}

        @property
        def output_size(self):
            return DEPTH

        def __call__(self, inputs, state, scope=None):
            total = state["total"] + inputs
            return total, {"total": total, "count": state["count"] + 1.0}

    outputs, state = tf.nn.dynamic_rnn(Adder(), X, dtype=tf.float32)
    got, last = run([outputs, state])
    np.testing.assert_allclose(got, X.cumsum(1), rtol=1e-5, atol=1e-6)
    assert last["count"].tolist() == [TIME] * BATCH


def test_wrong_arguments():
    cell = tf.nn.rnn_cell.GRUCell(UNITS)
    with pytest.raises(ValueError, match="If there is no initial_state, you must give a dtype"):
        tf.nn.dynamic_rnn(cell, X)
    with pytest.raises(TypeError):
        tf.nn.static_rnn(cell, X, dtype=tf.float32)
    with pytest.raises(ValueError):
        tf.nn.static_rnn(cell, [], dtype=tf.float32)
    with pytest.raises(TypeError):
        tf.nn.dynamic_rnn(object(), X, dtype=tf.float32)
    with pytest.raises(TypeError):
        tf.nn.rnn_cell.MultiRNNCell(cell)
    with pytest.raises(ValueError):
        tf.nn.rnn_cell.MultiRNNCell([])
    with pytest.raises(ValueError):
        tf.nn.rnn_cell.DropoutWrapper(cell, 1.5)
    lengths = tf.placeholder(tf.int32, [None])
    outputs, _ = tf.nn.dynamic_rnn(cell, X, lengths, dtype=tf.float32)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError):
            sess.run(outputs, {lengths: [1, 2]})
