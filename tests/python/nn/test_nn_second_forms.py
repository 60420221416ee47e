# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Pools, convolutions and losses in their second forms and for other dimensions, against NumPy."""
from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.python.ops import ctc_ops, gradient_checker, nn_impl, nn_ops


def _run(value: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(value, feeds)


def _windows(x: np.ndarray, size: int, stride: int, reduce: Any) -> np.ndarray:
    """Pools of the second axis, VALID."""
    starts = range(0, x.shape[1] - size + 1, stride)
    return np.stack([reduce(x[:, s : s + size], axis=1) for s in starts], axis=1)


def test_pools_of_one_dimension() -> None:
    x = np.random.RandomState(0).rand(2, 7, 3).astype(np.float32)
    np.testing.assert_allclose(_run(tf.nn.max_pool1d(x, 3, 2, "VALID")), _windows(x, 3, 2, np.max))
    np.testing.assert_allclose(
        _run(tf.nn.avg_pool1d(x, 3, 2, "VALID")), _windows(x, 3, 2, np.mean), rtol=1e-6
    )
    first = np.transpose(x, [0, 2, 1])
    if tf.test.is_gpu_available():  # the engine for CPUs pools with channels last
        np.testing.assert_allclose(
            _run(tf.nn.max_pool1d(first, 3, 2, "VALID", data_format="NCW")),
            np.transpose(_windows(x, 3, 2, np.max), [0, 2, 1]),
        )


def test_pools_of_any_rank() -> None:
    x = np.random.RandomState(1).rand(1, 4, 4, 4, 2).astype(np.float32)
    want = x.reshape(1, 2, 2, 2, 2, 2, 2, 2)
    np.testing.assert_allclose(_run(tf.nn.max_pool3d(x, 2, 2, "VALID")), want.max(axis=(2, 4, 6)))
    np.testing.assert_allclose(_run(nn_ops.max_pool_v2(x, 2, 2, "VALID")), want.max(axis=(2, 4, 6)))
    np.testing.assert_allclose(
        _run(nn_ops.avg_pool_v2(x, 2, 2, "VALID")), want.mean(axis=(2, 4, 6)), rtol=1e-5
    )
    flat = x[:, :, :, 0]
    want2 = flat.reshape(1, 2, 2, 2, 2, 2)
    np.testing.assert_allclose(_run(nn_ops.max_pool2d(flat, 2, 2, "VALID")), want2.max(axis=(2, 4)))
    np.testing.assert_allclose(
        _run(nn_ops.avg_pool2d(flat, 2, 2, "VALID")), want2.mean(axis=(2, 4)), rtol=1e-5
    )
    pooled = _run(nn_ops.pool_v2(flat, [2, 2], "MAX", strides=[2, 2], padding="VALID"))
    np.testing.assert_allclose(pooled, want2.max(axis=(2, 4)))
    dilated = _run(tf.nn.pool(flat, [2, 2], "MAX", "VALID", dilation_rate=[2, 2]))
    want3 = np.max([flat[:, i : i + 2, j : j + 2] for i in (0, 2) for j in (0, 2)], axis=0)
    np.testing.assert_allclose(dilated, want3)


def test_places_of_maxima() -> None:
    x = np.array([[[[1.0], [5.0]], [[3.0], [2.0]]], [[[9.0], [0.0]], [[1.0], [4.0]]]], np.float32)
    value, place = _run(tf.nn.max_pool_with_argmax(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"))
    assert value.ravel().tolist() == [5, 9] and place.ravel().tolist() == [1, 0]
    value, place = _run(
        nn_ops.max_pool_with_argmax_v2(x, 2, 2, "VALID", output_dtype=tf.int32, include_batch_in_index=True)
    )
    assert place.dtype == np.int32 and place.ravel().tolist() == [1, 4]


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_fractional_pools(kind: str) -> None:
    x = np.random.RandomState(2).rand(2, 9, 9, 3).astype(np.float32)
    first = {"max": tf.nn.fractional_max_pool, "avg": tf.nn.fractional_avg_pool}[kind]
    second = {"max": nn_ops.fractional_max_pool_v2, "avg": nn_ops.fractional_avg_pool_v2}[kind]
    for made in (
        first(x, [1.0, 1.5, 1.8, 1.0], seed=1, deterministic=True),
        second(x, [1.0, 1.5, 1.8, 1.0], seed=7),
    ):
        y, rows, columns = _run(list(made))
        assert y.shape == (2, 6, 5, 3) and rows[0] == 0 and rows[-1] == 9
        for i in range(6):
            for j in range(5):
                cell = x[:, rows[i] : rows[i + 1], columns[j] : columns[j + 1]]
                want = cell.max(axis=(1, 2)) if kind == "max" else cell.mean(axis=(1, 2))
                np.testing.assert_allclose(y[:, i, j], want, rtol=1e-5)


def _dilation(x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    rows, columns = x.shape[0] - kernel.shape[0] + 1, x.shape[1] - kernel.shape[1] + 1
    shifted = [
        x[i : i + rows, j : j + columns] + kernel[i, j]
        for i in range(kernel.shape[0])
        for j in range(kernel.shape[1])
    ]
    return np.max(shifted, axis=0)


def test_dilation_and_erosion() -> None:
    random = np.random.RandomState(3)
    x, k = random.rand(5, 5, 2).astype(np.float32), random.rand(2, 3, 2).astype(np.float32)
    one = [1, 1, 1, 1]
    want = _dilation(x, k)[None]
    np.testing.assert_allclose(_run(tf.nn.dilation2d(x[None], k, one, one, "VALID")), want, rtol=1e-6)
    np.testing.assert_allclose(
        _run(nn_ops.dilation2d_v2(x[None], k, one, "VALID", "NHWC", one)), want, rtol=1e-6
    )
    eroded = -_dilation(-x, k[::-1, ::-1])[None]
    np.testing.assert_allclose(_run(tf.nn.erosion2d(x[None], k, one, one, "VALID")), eroded, rtol=1e-6)
    np.testing.assert_allclose(
        _run(nn_ops.erosion2d_v2(x[None], k, one, "VALID", "NHWC", one)), eroded, rtol=1e-6
    )


def test_convolutions_and_what_turns_them_round() -> None:
    random = np.random.RandomState(4)
    x, w = random.rand(2, 6, 3).astype(np.float32), random.rand(2, 3, 4).astype(np.float32)
    want = np.stack([np.tensordot(x[:, i : i + 2], w, [[1, 2], [0, 1]]) for i in range(5)], axis=1)
    np.testing.assert_allclose(_run(nn_ops.conv1d_v2(x, w, 1, "VALID")), want, rtol=1e-5)
    np.testing.assert_allclose(_run(nn_ops.convolution_v2(x, w, padding="VALID")), want, rtol=1e-5)
    y = random.rand(*want.shape).astype(np.float32)
    turned = _run(tf.nn.conv1d_transpose(y, w, [2, 6, 3], 1, "VALID"))
    np.testing.assert_allclose(np.sum(turned * x), np.sum(y * want), rtol=1e-4)  # the adjoint
    np.testing.assert_allclose(_run(nn_ops.conv_transpose(y, w, [2, 6, 3], 1, "VALID")), turned, rtol=1e-5)
    image, k = random.rand(1, 5, 5, 2).astype(np.float32), random.rand(3, 3, 2, 2).astype(np.float32)
    out = tf.nn.conv2d(image, k, 1, "VALID")
    np.testing.assert_allclose(_run(nn_ops.conv2d_v2(image, k, 1, "VALID")), _run(out), rtol=1e-6)
    np.testing.assert_allclose(
        _run(nn_ops.conv2d_v2(image, k, [1, 1], [[0, 0], [1, 1], [1, 1], [0, 0]])),
        _run(tf.nn.conv2d(image, k, [1, 1, 1, 1], "SAME")), rtol=1e-5,
    )  # fmt: skip
    grad = random.rand(1, 3, 3, 2).astype(np.float32)
    inner = np.sum(_run(out) * grad)
    back = _run(tf.nn.conv2d_backprop_input([1, 5, 5, 2], k, grad, [1, 1, 1, 1], "VALID"))
    np.testing.assert_allclose(np.sum(back * image), inner, rtol=1e-4)
    filters = _run(tf.nn.conv2d_backprop_filter(image, [3, 3, 2, 2], grad, [1, 1, 1, 1], "VALID"))
    np.testing.assert_allclose(np.sum(filters * k), inner, rtol=1e-4)
    atrous = _run(tf.nn.atrous_conv2d(image, k[:2, :2], 2, "VALID"))
    np.testing.assert_allclose(
        atrous, _run(nn_ops.conv2d_v2(image, k[:2, :2], 1, "VALID", dilations=2)), rtol=1e-5
    )
    turned = _run(tf.nn.atrous_conv2d_transpose(atrous, k[:2, :2], [1, 5, 5, 2], 2, "VALID"))
    np.testing.assert_allclose(np.sum(turned * image), np.sum(atrous * atrous), rtol=1e-4)


def test_three_dimensions() -> None:
    random = np.random.RandomState(5)
    x, w = random.rand(1, 3, 3, 3, 2).astype(np.float32), random.rand(2, 2, 2, 2, 3).astype(np.float32)
    y = _run(tf.nn.conv3d(x, w, [1, 1, 1, 1, 1], "VALID"))
    want = sum(
        np.tensordot(x[:, i : i + 2, j : j + 2, k : k + 2], w[i, j, k], [[4], [0]])
        for i in range(2) for j in range(2) for k in range(2)
    )  # fmt: skip
    np.testing.assert_allclose(y, want, rtol=1e-5)
    np.testing.assert_allclose(_run(nn_ops.conv3d_v2(x, w, [1] * 5, "VALID")), want, rtol=1e-5)
    back = _run(tf.nn.conv3d_backprop_filter_v2(x, [2, 2, 2, 2, 3], y, [1] * 5, "VALID"))
    np.testing.assert_allclose(np.sum(back * w), np.sum(y * y), rtol=1e-4)


def test_separable_and_depthwise_second_forms() -> None:
    random = np.random.RandomState(6)
    x, d, p = (random.rand(*s).astype(np.float32) for s in ((1, 4, 4, 2), (2, 2, 2, 3), (1, 1, 6, 5)))
    depth = _run(tf.nn.depthwise_conv2d(x, d, [1, 1, 1, 1], "VALID"))
    np.testing.assert_allclose(
        _run(nn_impl.depthwise_conv2d_v2(x, d, [1, 1, 1, 1], "VALID")), depth, rtol=1e-6
    )
    np.testing.assert_allclose(
        _run(nn_impl.separable_conv2d_v2(x, d, p, [1, 1, 1, 1], "VALID")), depth @ p[0, 0], rtol=1e-5
    )


def test_losses_and_norms_in_second_forms() -> None:
    random = np.random.RandomState(7)
    logits, labels = random.randn(4, 3).astype(np.float32), np.eye(3, dtype=np.float32)[[0, 2, 1, 1]]
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(_run(nn_ops.log_softmax_v2(logits)), log_p, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(_run(nn_ops.softmax_v2(logits.T, axis=0)), np.exp(log_p).T, rtol=1e-4)
    np.testing.assert_allclose(
        _run(nn_ops.sparse_softmax_cross_entropy_with_logits_v2(np.array([0, 2, 1, 1]), logits)),
        -(labels * log_p).sum(axis=1), rtol=1e-4,
    )  # fmt: skip
    want = np.maximum(logits, 0) - logits * labels + np.log1p(np.exp(-np.abs(logits)))
    np.testing.assert_allclose(
        _run(nn_impl.sigmoid_cross_entropy_with_logits_v2(labels=labels, logits=logits)), want, rtol=1e-4
    )
    mean, variance = _run(nn_impl.moments_v2(logits, [0], keepdims=True))
    np.testing.assert_allclose(mean, logits.mean(0, keepdims=True), rtol=1e-4)
    np.testing.assert_allclose(variance, logits.var(0, keepdims=True), rtol=1e-4)
    weights = np.array([[1.0], [2.0], [0.0], [1.0]], np.float32)
    mean, variance = _run(nn_impl.weighted_moments_v2(logits, [0], weights))
    np.testing.assert_allclose(mean, np.average(logits, axis=0, weights=weights[:, 0]), rtol=1e-4)
    count, total, squares, shift = nn_impl.sufficient_statistics_v2(logits, [0])
    assert shift is None
    np.testing.assert_allclose(_run([total, squares]), [logits.sum(0), (logits**2).sum(0)], rtol=1e-4)
    x = random.rand(2, 3, 3, 2).astype(np.float32)
    m, v, beta, gamma = (random.rand(2).astype(np.float32) for _ in range(4))
    normal = _run(tf.nn.batch_norm_with_global_normalization(x, m, v, beta, gamma, 1e-3, True))
    np.testing.assert_allclose(normal, (x - m) / np.sqrt(v + 1e-3) * gamma + beta, rtol=1e-4)
    with pytest.raises(
        ValueError, match="Only call `sigmoid_cross_entropy_with_logits` with named arguments"
    ):
        tf.nn.sigmoid_cross_entropy_with_logits(labels)


def test_small_functions() -> None:
    x = np.array([[1.0, -2.0], [-3.0, 4.0]], np.float32)
    w, b = np.array([[1.0, 0.0], [2.0, -1.0]], np.float32), np.array([0.5, 1.0], np.float32)
    np.testing.assert_allclose(_run(nn_ops.xw_plus_b_v1(x, w, b)), x @ w + b)
    np.testing.assert_allclose(_run(nn_ops.bias_add_v1(x, b)), x + b)
    np.testing.assert_allclose(_run(nn_ops.crelu_v2(x)), np.maximum(np.concatenate([x, -x], 1), 0))
    np.testing.assert_allclose(_run(nn_ops.nth_element(x, 0)), x.min(axis=1))
    np.testing.assert_allclose(_run(nn_ops.nth_element(x, 0, reverse=True)), x.max(axis=1))
    assert _run(nn_ops.in_top_k_v2([0, 0], x, 1)).tolist() == [True, False]
    assert _run(tf.nn.weighted_moments(x, [0], [[1.0], [0.0]], keep_dims=True))[0].tolist() == [[1.0, -2.0]]


def test_ctc_loss_of_dense_labels_is_that_of_sparse_ones() -> None:
    random = np.random.RandomState(8)
    logits = random.randn(6, 2, 5).astype(np.float32)  # time, batch, classes; the last one is blank
    labels, lengths = np.array([[0, 1, 1], [3, 2, 0]]), np.array([3, 2])
    times = np.array([6, 5])
    sparse = tf.SparseTensor(
        np.array([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1]]), np.array([0, 1, 1, 3, 2], np.int32), [2, 3]
    )
    want = _run(tf.nn.ctc_loss(sparse, logits, times))
    dense = tf.nn.ctc_loss_v2(labels, logits, lengths, times, blank_index=4)
    np.testing.assert_allclose(_run(dense), want, rtol=1e-4)
    through = tf.nn.ctc_loss_v2(sparse, logits, None, times, blank_index=-1)
    np.testing.assert_allclose(_run(through), want, rtol=1e-4)
    unique = ctc_ops.ctc_unique_labels(labels)
    with_unique = ctc_ops.ctc_loss_dense(labels, logits, lengths, times, blank_index=4, unique=unique)
    np.testing.assert_allclose(_run(with_unique), want, rtol=1e-4)
    variable = tf.constant(logits)
    loss = ctc_ops.ctc_loss_dense(labels, variable, lengths, times, blank_index=4)
    other = tf.nn.ctc_loss(sparse, variable, times)
    np.testing.assert_allclose(
        _run(tf.gradients(loss, variable)[0]), _run(tf.gradients(other, variable)[0]), atol=1e-4
    )
    collapsed, counts = _run(tf.nn.collapse_repeated([[1, 1, 2, 2, 1], [3, 3, 3, 0, 0]], [5, 3]))
    assert collapsed.tolist() == [[1, 2, 1], [3, 0, 0]] and counts.tolist() == [3, 1]


def test_gradients_of_pools() -> None:
    # No two values are near each other: the numeric gradient steps over what is.
    at = (np.random.RandomState(9).permutation(16).reshape(1, 4, 4, 1) / 16).astype(np.float32)
    x = tf.constant(at)
    with tf.Session():
        for y in (
            tf.nn.max_pool_with_argmax(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")[0],
            tf.nn.dilation2d(x, tf.zeros([2, 2, 1]), [1] * 4, [1] * 4, "VALID"),
        ):
            error = gradient_checker.compute_gradient_error(x, [1, 4, 4, 1], y, y.shape.as_list(), at)
            assert error < 1e-2


def test_states_of_labels() -> None:
    states = np.log(np.random.RandomState(3).rand(3, 2, 10)).astype(np.float32)
    labels = np.array([[3, 4, 3, 4], [1, 1, 1, 0]])
    want = np.zeros([3, 2, 8])
    for batch, row in enumerate(labels):
        for place, label in enumerate(row):
            if label:
                want[:, batch, label] += np.exp(states[:, batch, place + 1])
        want[:, batch, 0] = np.exp(states[:, batch, 5:]).sum(-1)
    got = np.exp(_run(ctc_ops._state_to_olabel(labels, 8, states)))
    np.testing.assert_allclose(got, want, rtol=1e-5)
    unique = ctc_ops.ctc_unique_labels(tf.constant(labels))
    np.testing.assert_allclose(
        np.exp(_run(ctc_ops._state_to_olabel_unique(labels, 8, states, unique))), want, rtol=1e-5
    )
    idx = [[0, 1, 0, 1], [0, 0, 0, 1]]
    sums = np.exp(_run(ctc_ops._sum_states(idx, states[:, :, :4])))
    given = np.exp(states)
    np.testing.assert_allclose(sums[:, 0, 1], given[:, 0, 1] + given[:, 0, 3], rtol=1e-5)
    np.testing.assert_allclose(sums[:, 1, 0], given[:, 1, :3].sum(-1), rtol=1e-5)
    assert not sums[:, :, 2:].any()


def test_scan_with_its_start() -> None:
    elems = tf.constant([1.0, 2.0, 3.0])

    def add(a: Any, e: Any) -> Any:
        return a + e

    assert _run(ctc_ops._scan(add, elems, 23.0)).tolist() == [24, 26, 29]
    assert _run(ctc_ops._scan(add, elems, 23.0, inclusive=True)).tolist() == [23, 24, 26, 29]
    assert _run(ctc_ops._scan(add, elems, 23.0, reverse=True)).tolist() == [29, 28, 26]
    assert _run(ctc_ops._scan(add, elems, 23.0, reverse=True, inclusive=True)).tolist() == [29, 28, 26, 23]
    assert _run(ctc_ops._scan(add, elems, 23.0, final_only=True)) == 29
    both = ctc_ops._scan(lambda a, e: (a[0] + e, a[1] * e), elems, (23.0, tf.constant([1.0, 2.0])))
    assert [r.tolist() for r in _run(both)] == [[24, 26, 29], [[1, 2], [2, 4], [6, 12]]]


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("is_training", [True, False])
def test_gradient_of_batch_norm_from_other_operations(data_format: str, is_training: bool) -> None:
    from millrace.python.ops import nn_grad

    rng = np.random.RandomState(1)
    x, grad_y = (tf.constant(rng.randn(2, 3, 4, 5), tf.float32) for _ in range(2))
    channels = 5 if data_format == "NHWC" else 3
    scale, offset, mean, variance = (tf.constant(rng.rand(channels) + 0.5, tf.float32) for _ in range(4))
    statistics = {} if is_training else {"mean": mean, "variance": variance}
    y, _, _ = tf.nn.fused_batch_norm(
        x, scale, offset, data_format=data_format, is_training=is_training, epsilon=1e-3, **statistics
    )
    want = tf.gradients(y, [x, scale, offset], grad_y)
    got = nn_grad._BatchNormGrad(grad_y, x, scale, mean, variance, 1e-3, data_format, is_training)
    for a, b in zip(_run(list(got)), _run(want)):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("module", "array control_flow data_flow functional io linalg list logging lookup math nn "
                         "parsing resource_variable state string".split())  # fmt: skip
def test_modules_have_what_is_generated(module: str) -> None:
    generated = importlib.import_module("millrace.python.ops.gen_%s_ops" % module)
    there = importlib.import_module("millrace.python.ops.%s_ops" % module)
    names = [n for n in dir(generated) if not n.startswith("_") and inspect.isfunction(getattr(generated, n))]
    assert len(names) > 3 and [n for n in names if not hasattr(there, n)] == []


def test_places_in_other_layouts() -> None:
    assert _run(nn_ops.data_format_dim_map([0, 1, 2, 3, -1, -4])).tolist() == [0, 2, 3, 1, 1, 0]
    assert _run(nn_ops.data_format_vec_permute([7, 4, 9, 3])).tolist() == [7, 3, 4, 9]
