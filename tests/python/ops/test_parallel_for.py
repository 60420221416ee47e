# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Loops of independent iterations, and Jacobians."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.python.ops.parallel_for import control_flow_ops, gradients, test_util


def evaluate(fetches: object, feeds: object = None) -> object:
    with tf.Session() as session:
        return session.run(fetches, feeds)


def test_for_loop_and_pfor() -> None:
    x = tf.constant(np.arange(12.0).reshape(4, 3))
    both = control_flow_ops.pfor(lambda i: (tf.gather(x, i) * 2.0, i), 4)
    rows, numbers = evaluate(both)
    np.testing.assert_array_equal(rows, np.arange(12.0).reshape(4, 3) * 2)
    assert numbers.tolist() == [0, 1, 2, 3]
    assert evaluate(control_flow_ops.for_loop(lambda i: i * i, tf.int32, tf.constant(5))).tolist() == [
        0,
        1,
        4,
        9,
        16,
    ]
    with pytest.raises(ValueError, match="must be None or a positive integer"):
        control_flow_ops.pfor(lambda i: i, 3, parallel_iterations=0)


def test_vectorized_map() -> None:
    a, b = np.random.rand(5, 2).astype(np.float32), np.random.rand(5, 2).astype(np.float32)
    made = evaluate(tf.vectorized_map(lambda e: tf.tensordot(e[0], e[1], 1), (a, b)))
    np.testing.assert_allclose(made, (a * b).sum(1), rtol=1e-5)


def test_jacobians() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    y = tf.stack([x[:, 0] * x[:, 1], x[:, 0] + 3.0 * x[:, 1], x[:, 0] ** 2], axis=1)
    full = gradients.jacobian(y, [x, tf.constant(1.0)])
    assert full[0].shape.as_list() == [2, 3, 2, 2] and full[1] is None
    batch = gradients.batch_jacobian(y, x)
    whole, rows = evaluate([full[0], batch])
    want = np.array([[[2.0, 1.0], [1.0, 3.0], [2.0, 0.0]], [[4.0, 3.0], [1.0, 3.0], [6.0, 0.0]]])
    np.testing.assert_allclose(rows, want)
    for i in range(2):
        np.testing.assert_allclose(whole[i, :, i], want[i])
        assert (whole[i, :, 1 - i] == 0).all()


class Compared(test_util.PForTestCase):
    """What the base of tests of pfor compares."""

    def test_equal_loops(self) -> None:
        with self.cached_session(), tf.Graph().as_default() as graph, self.session(graph=graph):
            v = tf.Variable([1.0, 2.0, 3.0])
            self._test_loop_fn(lambda i: tf.gather(v, i) * 3.0, 3, loop_fn_dtypes=tf.float32)

    def test_other_values(self) -> None:
        with tf.Graph().as_default() as graph, self.session(graph=graph):
            with self.assertRaises(AssertionError):
                self.run_and_assert_equal([tf.constant(1.0)], [tf.constant(2.0)])


X = np.random.RandomState(0).rand(4, 3, 5).astype(np.float32)
BODIES: dict[str, Any] = {
    "elementwise": lambda x, i: (tf.tanh(tf.gather(x, i)), tf.cast(tf.gather(x, i) * 3.0, tf.int32)),
    "broadcasting": lambda x, i: tf.gather(x, i) * x[0] - tf.gather(x, i)[0] / 2.0 + tf.cast(i, tf.float32),
    "comparison": lambda x, i: tf.where(tf.gather(x, i) > 0.5, tf.gather(x, i), tf.zeros([3, 5])),
    "chosen rows": lambda x, i: tf.where(tf.gather(x, i)[:, 0] > 0.5, tf.gather(x, i), x[0]),
    "reductions": lambda x, i: (
        tf.reduce_sum(x[i], -1),
        tf.reduce_max(x[i], [0]),
        tf.reduce_mean(x[i]),
        tf.argmax(x[i], 1),
    ),
    "sums": lambda x, i: (
        tf.cumsum(x[i], 1),
        tf.cumprod(x[i], -1),
        tf.add_n([x[i], x[0]]),
        tf.nn.l2_loss(x[i]),
    ),
    "shapes": lambda x, i: (
        tf.shape(x[i]),
        tf.size(x[i]),
        tf.rank(x[i]),
        tf.fill([2], i),
        tf.ones_like(x[i]),
    ),
    "reshaped": lambda x, i: (
        tf.reshape(x[i], [5, -1]),
        tf.transpose(x[i]),
        tf.expand_dims(x[i], 1),
        tf.expand_dims(x[i], -1),
    ),
    "squeezed": lambda x, i: (
        tf.squeeze(x[i][:, :1]),
        tf.squeeze(x[i][:1], [0]),
        tf.squeeze(x[i][:, :1], [-1]),
    ),
    "tiled": lambda x, i: (
        tf.tile(x[i], [2, 1]),
        tf.pad(x[i], [[0, 1], [2, 0]]),
        tf.reverse(x[i], [0]),
        tf.broadcast_to(x[i][0], [2, 5]),
    ),
    "joined": lambda x, i: (
        tf.stack([x[i], x[1]], 1),
        tf.concat([x[i], x[1]], -1),
        tf.concat([x[1], x[i]], 0),
        tf.stack([i, 2]),
    ),
    "split": lambda x, i: (
        tf.split(x[i], 5, 1)[2],
        tf.split(x[i], [1, 2], 0)[1],
        tf.unstack(x[i])[2],
        tf.unstack(x[i], axis=-1)[1],
    ),
    "sliced": lambda x, i: (x[i][1:, ::2], x[i][..., -1], x[i][None, :, 2], tf.slice(x[i], [1, 0], [2, -1])),
    "gathered": lambda x, i: (
        tf.gather(x[i], [2, 0]),
        tf.gather(x[i], [1], axis=1),
        tf.gather(x, i % 3, axis=1),
        tf.gather(x[i], i % 3),
    ),
    "products": lambda x, i: (
        tf.matmul(x[i], x[0], transpose_b=True),
        tf.matmul(x[0], x[i], transpose_a=True),
        tf.matmul(x[i], x[i], transpose_b=True),
        tf.matmul(x[i], x[0], transpose_a=True),
    ),
    "batch products": lambda x, i: tf.matmul(tf.stack([x[i], x[0]]), x[:2], transpose_b=True),
    "bias": lambda x, i: (
        tf.nn.bias_add(x[i], x[0, 0]),
        tf.nn.bias_add(x[0], x[i][0]),
        tf.nn.relu(x[i] - 0.5),
        tf.nn.log_softmax(x[i]),
    ),
    "entropy": lambda x, i: (
        tf.nn.softmax_cross_entropy_with_logits_v2(labels=x[0], logits=x[i]),
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1, 2, 0], logits=x[i]),
    ),
    "matrices": lambda x, i: (
        tf.matrix_diag(x[i]),
        tf.matrix_inverse(x[i][:, :3] + 3.0 * tf.eye(3)),
        tf.matrix_diag_part(x[i]),
    ),
    "images": lambda x, i: (
        tf.nn.conv2d(
            tf.reshape(x[i], [1, 3, 5, 1]), tf.reshape(x[0, :2, :2], [2, 2, 1, 1]), [1, 1, 1, 1], "SAME"
        ),
        tf.nn.max_pool(tf.reshape(x[i], [1, 3, 5, 1]), [1, 2, 2, 1], [1, 1, 1, 1], "VALID"),
    ),
    "segments": lambda x, i: tf.math.unsorted_segment_sum(x[i], tf.constant([0, 2, 0]) + i % 2, 4),
    "the same in all": lambda x, i: (x[0], tf.constant(3.0)),
}


def unrolled(body: Any, x: tf.Tensor) -> list[list[Any]]:
    return [tf.nest.flatten(body(x, tf.constant(i))) for i in range(4)]


@pytest.mark.parametrize("name", BODIES)
def test_one_pass_for_all_iterations(name: str) -> None:
    """What each operation becomes gives what the iterations give one by one, and there is no loop."""
    with tf.Graph().as_default() as graph:
        x = tf.constant(X)
        rows = tf.nest.flatten(control_flow_ops.pfor(lambda i: BODIES[name](x, i), 4))
        assert not any(op.type in ("While", "Enter") for op in graph.get_operations())
        ours, theirs = evaluate((rows, unrolled(BODIES[name], x)))
        for k, ours_k in enumerate(ours):
            assert rows[k].shape.is_compatible_with(ours_k.shape)
            np.testing.assert_allclose(ours_k, [theirs[i][k] for i in range(4)], rtol=1e-5, atol=1e-6)


def test_numbers_of_iterations_that_are_not_known() -> None:
    with tf.Graph().as_default() as graph:
        n, x = tf.placeholder(tf.int32, []), tf.constant(X)
        rows = control_flow_ops.pfor(lambda i: x[i] * 2.0 + tf.reduce_sum(x[i][0]), n)
        assert rows.shape.as_list() == [None, 3, 5]
        assert not any(op.type == "Enter" for op in graph.get_operations())
        for count in (0, 1, 4):
            want = X[:count] * 2 + X[:count, 0].sum(1)[:, None, None]
            np.testing.assert_allclose(evaluate(rows, {n: count}), want, rtol=1e-5)


def test_random_numbers_differ_between_iterations() -> None:
    with tf.Graph().as_default():
        rows = evaluate(control_flow_ops.pfor(lambda i: tf.random_uniform([3]), 50))
        assert rows.shape == (50, 3) and len(np.unique(rows)) > 140


def test_an_op_without_a_converter_is_an_error_unless_the_flag_allows_a_loop() -> None:
    def body(i: tf.Tensor) -> Any:
        return tf.nn.top_k(tf.stack([tf.cast(i, tf.float32), 1.0]), 1)[0]

    with tf.Graph().as_default():
        with pytest.raises(
            ValueError, match="No converter defined for TopKV2(.|\n)*Either add a converter or set"
        ):
            control_flow_ops.pfor(body, 3)
        x = tf.ones([1, 2, 2, 1])
        with pytest.raises(ValueError, match="No converter defined for ResizeBilinearGrad"):
            gradients.jacobian(tf.image.resize_bilinear(x, [3, 3]), x)
        tf.app.flags.FLAGS.op_conversion_fallback_to_while_loop = True
        try:
            assert evaluate(control_flow_ops.pfor(body, 3)).tolist() == [[1], [1], [2]]
        finally:
            tf.app.flags.FLAGS.op_conversion_fallback_to_while_loop = False


@pytest.mark.parametrize("kind", ["loop", "branch", "one_hot"])
def test_what_cannot_be_converted_runs_in_a_loop(kind: str) -> None:
    def body(i: tf.Tensor) -> Any:
        y = tf.cast(i, tf.float32)
        if kind == "loop":
            return tf.while_loop(lambda j, a: j < i, lambda j, a: (j + 1, a + 1.0), [0, y])[1]
        if kind == "branch":
            return tf.cond(i > 1, lambda: y * 2.0, lambda: y * 3.0)
        return tf.reduce_sum(tf.one_hot(i, 4) * [0.0, 1.0, 2.0, 3.0])

    with tf.Graph().as_default():
        want = {"loop": [0, 2, 4, 6], "branch": [0, 3, 4, 6], "one_hot": [0, 1, 2, 3]}[kind]
        assert evaluate(control_flow_ops.pfor(body, 4)).tolist() == want


def test_derivatives_in_one_pass() -> None:
    """A network's derivatives are those of a loop over its outputs."""
    rnd = np.random.RandomState(1)
    with tf.Graph().as_default() as graph:
        x = tf.constant(rnd.rand(6, 4, 4, 1).astype(np.float32))
        kernel = tf.constant(rnd.rand(2, 2, 1, 3).astype(np.float32))
        y = tf.nn.max_pool(tf.nn.conv2d(x, kernel, [1, 1, 1, 1], "SAME"), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
        w = tf.constant(rnd.rand(12, 5).astype(np.float32))
        y = tf.nn.softmax(tf.matmul(tf.tanh(tf.reshape(y, [6, 12])), w))
        full, rows = gradients.jacobian(y, [w, x]), gradients.batch_jacobian(y, x)
        assert not any(op.type == "Enter" for op in graph.get_operations())
        loops = gradients.jacobian(y, [w, x], use_pfor=False), gradients.batch_jacobian(y, x, use_pfor=False)
        for ours, theirs in zip(evaluate([*full, rows]), evaluate([*loops[0], loops[1]])):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_effects_within_functions() -> None:
    """A function does what an iteration does as often as there are iterations."""
    calls: list[int] = []

    def note(i: Any) -> Any:
        calls.append(int(i))
        return i

    @tf.function
    def traced() -> Any:
        return control_flow_ops.pfor(lambda i: tf.py_func(note, [i], tf.int32), 3)

    with tf.Graph().as_default():
        assert evaluate(traced()).tolist() == [0, 1, 2] and sorted(calls) == [0, 1, 2]
