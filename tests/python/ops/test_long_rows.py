# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels with vectors for long rows or many elements, beside NumPy: sizes on both sides of every block."""
from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
import pytest

import millrace as tf

LENGTHS = [1, 7, 8, 9, 17, 67]  # of rows; vectors begin at 8
NUMBERS = [np.float16, np.float32, np.float64, np.int8, np.int32, np.int64, np.complex64]
REALS = NUMBERS[:-1]


def run(*fetches: Any) -> Any:
    with tf.Session() as session:
        return session.run(fetches if len(fetches) > 1 else fetches[0])


def values(dtype: Any, *shape: int) -> Any:
    drawn = np.random.RandomState(3).randint(1, 6, shape)
    signs = np.where(np.arange(drawn.size).reshape(shape) % 3 == 0, -1, 1)
    return (drawn * signs).astype(dtype)


SCATTERS: dict[str, Any] = {
    "ScatterAdd": lambda a, b: a + b,
    "ScatterSub": lambda a, b: a - b,
    "ScatterMul": lambda a, b: a * b,
    "ScatterMin": np.minimum,
    "ScatterMax": np.maximum,
}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_scatters_of_rows(length: int, dtype: Any) -> None:
    start, updates = values(dtype, 9, length), values(dtype, 6, length)[::-1].copy()
    indices = [4, 0, 4, 8, 1, 0]  # some rows twice
    with tf.Session() as session:
        for name, function in SCATTERS.items():
            if dtype in (np.complex64, np.int8) and name in ("ScatterMin", "ScatterMax"):  # no such types
                continue
            for scalar in (False, True):
                variable = tf.Variable(start, use_resource=False)
                session.run(variable.initializer)
                given = dtype(3) if scalar else updates
                got = session.run(
                    getattr(tf.raw_ops, name)(ref=variable._ref(), indices=indices, updates=given)
                )
                want = start.copy()
                for row, index in enumerate(indices):
                    want[index] = function(want[index], given if scalar else updates[row])
                np.testing.assert_array_equal(got, want, err_msg=f"{name} scalar={scalar}")


def test_scattered_maxima_pass_over_nan() -> None:
    start, updates = np.zeros((2, 20), np.float32), np.ones((2, 20), np.float32)
    start[0, 3], updates[0, 5] = np.nan, np.nan
    with tf.Session() as session:
        variable = tf.Variable(start, use_resource=False)
        session.run(variable.initializer)
        got = session.run(tf.raw_ops.ScatterMax(ref=variable._ref(), indices=[0, 1], updates=updates))
    want = np.where(start < updates, updates, start)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", REALS)
def test_segments_of_rows(length: int, dtype: Any) -> None:
    data, ids = values(dtype, 7, length), np.asarray([0, 0, 0, 2, 3, 3, 3])
    functions = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}
    for name, function in functions.items():
        want = np.full((4, length), 1 if name == "prod" else 0, dtype)
        for segment in (0, 2, 3):
            want[segment] = function(data[ids == segment], axis=0)
        np.testing.assert_array_equal(run(getattr(tf, f"segment_{name}")(data, ids)), want, err_msg=name)
        shuffled = np.asarray([3, 6, 0, 5, 1, 4, 2])
        got = run(getattr(tf, f"unsorted_segment_{name}")(data[shuffled], ids[shuffled], 4))
        np.testing.assert_array_equal(got[[0, 2, 3]], want[[0, 2, 3]], err_msg=name)


@pytest.mark.parametrize("length", LENGTHS)
def test_sparse_segments_of_rows(length: int) -> None:
    data = values(np.float32, 9, length)
    indices, ids = [8, 0, 0, 3, 5, 7], np.asarray([0, 0, 0, 1, 3, 3])
    sums = np.stack([data[np.asarray(indices)[ids == segment]].sum(axis=0) for segment in range(4)])
    counts = np.asarray([3, 1, 1, 2], np.float32).reshape(-1, 1)
    np.testing.assert_array_equal(run(tf.sparse_segment_sum(data, indices, ids)), sums)
    np.testing.assert_allclose(run(tf.sparse_segment_mean(data, indices, ids)), sums / counts, rtol=1e-6)
    np.testing.assert_allclose(
        run(tf.sparse_segment_sqrt_n(data, indices, ids)), sums / counts**0.5, rtol=1e-6
    )


@pytest.mark.parametrize("length", [1, 7, 8, 9, 23, 64])
def test_all_and_any_of_rows(length: int) -> None:
    for at in {0, length // 2, length - 1}:
        one = np.zeros((2, length), bool)
        one[1, at] = True
        assert run(tf.reduce_any(one, 1)).tolist() == [False, True]
        assert run(tf.reduce_all(~one, 1)).tolist() == [True, False]


@pytest.mark.parametrize("n", [0, 1, 5, 64, 1000])
def test_where_bounds_and_buckets(n: int) -> None:
    drawn = np.random.RandomState(n).randint(0, 50, n)
    np.testing.assert_array_equal(run(tf.where(drawn % 3 == 0)), np.argwhere(drawn % 3 == 0))
    ordered, wanted = np.sort(drawn), np.arange(-1, 52)
    for side in ("left", "right"):
        got = run(tf.searchsorted(ordered, wanted, side=side))
        np.testing.assert_array_equal(got, np.searchsorted(ordered, wanted, side))
    limits = [0.0, 10.0, 10.0, 49.5]
    buckets = run(tf.raw_ops.Bucketize(input=drawn, boundaries=limits))
    np.testing.assert_array_equal(buckets, np.searchsorted(limits, drawn, "right"))


@pytest.mark.parametrize("distinct", [1, 31, 33, 5000])
def test_unique_numbers(distinct: int) -> None:
    drawn = np.random.RandomState(1).randint(-distinct, distinct, 3 * distinct)
    for x in (drawn, drawn.astype(np.float32), drawn.astype(np.int8)):
        y, index, counts = run(*tf.unique_with_counts(x))
        _, first = np.unique(x, return_index=True)
        np.testing.assert_array_equal(y, x[np.sort(first)])
        np.testing.assert_array_equal(y[index], x)
        np.testing.assert_array_equal(counts, [(x == value).sum() for value in y])
    special = np.asarray([0.0, np.nan, -0.0, np.nan, 1.0], np.float32)
    y, index = run(*tf.unique(special))  # a NaN equals nothing, and -0 is 0
    assert index.tolist() == [0, 1, 0, 2, 3]


@pytest.mark.parametrize("k", [1, 3, 16, 17, 40])
def test_the_largest_come_first_and_of_equal_ones_the_first(k: int) -> None:
    x = np.random.RandomState(2).randint(0, 9, (5, 40)).astype(np.float32)
    x[1, ::7] = np.nan
    got, index = run(*tf.nn.top_k(x, k))
    order = np.argsort(-np.where(np.isnan(x), -np.inf, x), axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(index, order)
    np.testing.assert_array_equal(got, np.take_along_axis(x, order, 1))


@pytest.mark.parametrize("pixels", [1, 63, 64, 65, 200])
def test_colours(pixels: int) -> None:
    rgb = np.random.RandomState(4).uniform(0, 1, (pixels, 3))
    rgb[0] = rgb[0, 0]  # grey
    hsv = np.asarray([colorsys.rgb_to_hsv(*color) for color in rgb])
    np.testing.assert_allclose(run(tf.image.rgb_to_hsv(tf.constant(rgb))), hsv, atol=1e-12)
    np.testing.assert_allclose(run(tf.image.hsv_to_rgb(tf.constant(hsv))), rgb, atol=1e-12)
    turned = [colorsys.hsv_to_rgb((h - 0.4) % 1, s, v) for h, s, v in hsv]
    image = rgb.astype(np.float32).reshape(1, -1, 3)
    np.testing.assert_allclose(run(tf.image.adjust_hue(image, -0.4))[0], turned, atol=1e-5)
    pale = [colorsys.hsv_to_rgb(h, min(1, 1.7 * s), v) for h, s, v in hsv]
    np.testing.assert_allclose(run(tf.image.adjust_saturation(image, 1.7))[0], pale, atol=1e-5)


@pytest.mark.parametrize("depth", [1, 3, 16])
def test_places_of_maxima(depth: int) -> None:
    x = np.random.RandomState(5).randint(0, 4, (2, 4, 6, depth)).astype(np.float32)
    got, places = run(*tf.nn.max_pool_with_argmax(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"))
    for n, i, j, c in np.ndindex(got.shape):
        window = x[n, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2, c]
        row, column = np.unravel_index(np.argmax(window), (2, 2))  # the first
        assert got[n, i, j, c] == window.max()
        assert places[n, i, j, c] == ((2 * i + row) * 6 + 2 * j + column) * depth + c


def test_volumes_keep_nan() -> None:
    x = np.random.RandomState(6).uniform(-1, 1, (1, 2, 2, 2, 9)).astype(np.float32)
    x[0, 1, 0, 1, 4] = np.nan
    got = run(tf.nn.max_pool3d(x, [1, 2, 2, 2, 1], [1, 2, 2, 2, 1], "VALID"))
    np.testing.assert_array_equal(got.reshape(-1), x.max(axis=(1, 2, 3)).reshape(-1))


@pytest.mark.parametrize("depth", [1, 5, 16, 33])
def test_fake_quantised_channels(depth: int) -> None:
    x = np.random.RandomState(7).uniform(-2, 2, (11, depth)).astype(np.float32)
    low, high = np.full(depth, -1, np.float32), np.full(depth, 1, np.float32)
    low[0] = high[0] = 0  # no range
    scale = np.where(high > low, (high - low) / 255, 1)
    zero = np.round(-low / scale)
    want = (
        np.floor((np.clip(x, -zero * scale, (255 - zero) * scale) + zero * scale) / scale + 0.5) * scale
        - zero * scale
    )
    got = run(tf.fake_quant_with_min_max_vars_per_channel(x, low, high))
    want[:, 0] = 0
    np.testing.assert_allclose(got, want, atol=1e-5)
    np.testing.assert_allclose(got / scale, np.round(got / scale + zero) - zero, atol=1e-4)


def test_reversed_sequences_of_both_orders() -> None:
    lengths = [0, 3, 5, 9]
    for dtype in (np.float32, np.int64, np.int8):
        x = np.arange(4 * 9 * 2).reshape(4, 9, 2).astype(dtype)
        want = x.copy()
        for row, length in enumerate(lengths):
            want[row, :length] = x[row, :length][::-1]
        np.testing.assert_array_equal(run(tf.reverse_sequence(x, lengths, seq_axis=1, batch_axis=0)), want)
        turned = np.swapaxes(x, 0, 1)
        got = run(tf.reverse_sequence(turned, lengths, seq_axis=0, batch_axis=1))
        np.testing.assert_array_equal(got, np.swapaxes(want, 0, 1))
        flat, flat_want = x[:, :, 0], want[:, :, 0]
        np.testing.assert_array_equal(run(tf.reverse_sequence(flat, lengths, seq_axis=1)), flat_want)


def test_cubic_gradients_are_those_of_the_resizing() -> None:
    x = np.random.RandomState(8).uniform(size=(1, 5, 4, 3)).astype(np.float32)
    grads = np.random.RandomState(9).uniform(size=(1, 8, 9, 3)).astype(np.float32)
    for resize in (tf.image.resize_bicubic, tf.image.resize_bilinear):
        image = tf.placeholder(tf.float32, x.shape)
        resized = resize(image, [8, 9])
        gradient = tf.gradients(resized, image, tf.constant(grads))[0]
        with tf.Session() as session:
            got = session.run(gradient, {image: x})
            # Resizing is linear: <grads, resize(y)> is <gradient, y> for each y of one pixel.
            for at in np.ndindex(x.shape):
                y = np.zeros_like(x)
                y[at] = 1
                want = float((session.run(resized, {image: y}) * grads).sum())
                assert abs(got[at] - want) < 1e-5
