# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels whose plain loops are compiled for several instruction sets: beside NumPy at sizes on both sides of
every vector, and the same bits with each set."""
from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import millrace as tf

R = tf.raw_ops
SIZES = [0, 1, 7, 16, 33, 1000]
BYTES = np.arange(256)


def run(*fetches: Any) -> Any:
    with tf.Session() as session:
        out = session.run([plain(t) for t in fetches])
    return out if len(out) > 1 else out[0]


def plain(tensor: Any) -> Any:
    kinds = {tf.quint8: tf.uint8, tf.qint8: tf.int8, tf.qint32: tf.int32}
    return tf.bitcast(tensor, kinds[tensor.dtype]) if tensor.dtype in kinds else tensor


def codes(*shape: int, seed: int = 1) -> Any:
    return np.random.RandomState(seed).randint(0, 256, shape).astype(np.uint8)


def q8(values: Any) -> Any:
    return tf.constant(values, dtype=tf.quint8)


def floats(*shape: int, seed: int = 1) -> Any:
    drawn = np.random.RandomState(seed).uniform(-2, 2, shape).astype(np.float32)
    if drawn.size > 5:
        drawn.reshape(-1)[[0, 3, 4]] = np.nan, np.inf, -np.inf
    return drawn


def half_away(x: Any) -> Any:
    return np.trunc(x + np.copysign(np.where(np.abs(x) % 1 == 0.5, 0.5, 0.5 - 1e-9), x))


@pytest.mark.parametrize("n", SIZES)
def test_quantize_and_back(n: int) -> None:
    x = floats(n)
    held = np.clip(np.where(np.isnan(x), -1, x).astype(np.float64), -1, 1)
    got = run(R.QuantizeV2(input=x, min_range=-1.0, max_range=1.0, T=tf.quint8).output)
    np.testing.assert_array_equal(got, half_away((held + 1) * 127.5))
    for rounding, function in (("HALF_TO_EVEN", np.rint), ("HALF_AWAY_FROM_ZERO", half_away)):
        out = R.QuantizeV2(
            input=x, min_range=-1.0, max_range=1.0, T=tf.qint8, mode="SCALED", round_mode=rounding
        )
        inside = np.clip(np.where(np.isnan(x), -2, x).astype(np.float64), -128 / 127, 1)
        want = np.clip(function(inside * 127), -128, 127)
        np.testing.assert_array_equal(run(out.output), want)
    back = run(R.Dequantize(input=q8(codes(n)), min_range=-1.0, max_range=3.0))
    np.testing.assert_allclose(back, codes(n) * (4 / 255) - 1, rtol=1e-6, atol=1e-7)
    got = run(R.QuantizeAndDequantizeV2(input=x, input_min=-1.0, input_max=1.0, range_given=True))
    steps = np.rint(np.clip(x.astype(np.float64), -128 / 127, 1) * 127) / 127
    np.testing.assert_allclose(got, steps, rtol=1e-6)


@pytest.mark.parametrize("n", SIZES)
def test_requantize(n: int) -> None:
    x = np.random.RandomState(2).randint(-(2**31), 2**31, n).astype(np.int32)
    q = tf.constant(x, dtype=tf.qint32)
    numbers = x * (4.0 / 2**32)
    out = R.Requantize(
        input=q,
        input_min=-2.0,
        input_max=2.0,
        requested_output_min=-1.0,
        requested_output_max=1.0,
        out_type=tf.quint8,
    )
    np.testing.assert_array_equal(run(out.output), np.clip(np.floor((numbers + 1) * 127.5 + 0.5), 0, 255))
    low, high = run(*R.RequantizationRange(input=q, input_min=-2.0, input_max=2.0))
    if n:
        np.testing.assert_allclose([low, high], [min(0, numbers.min()), numbers.max()], rtol=1e-5, atol=1e-6)
    depth = 16 if n == 16 else 11
    if n >= depth:
        ends = np.linspace(1, 3, depth).astype(np.float32)
        rows = x[: n // depth * depth].reshape(-1, depth)
        out = R.RequantizePerChannel(
            input=tf.constant(rows, dtype=tf.qint32),
            input_min=-ends,
            input_max=ends,
            requested_output_min=-1.0,
            requested_output_max=1.0,
            out_type=tf.qint8,
        )
        want = np.clip(np.rint(rows * (127 * ends.astype(np.float64) / 2**31)), -128, 127)
        np.testing.assert_array_equal(run(out.output), want)
        spread = R.RequantizationRangePerChannel(
            input=tf.constant(rows, dtype=tf.qint32), input_min=-ends, input_max=ends, clip_value_max=2.5
        )
        used = min(2.5, (ends * (np.abs(rows.astype(np.int64)).max(0) / 2**31)).max())
        np.testing.assert_allclose(run(*spread), [-used, used], rtol=1e-6)


SHAPES = [
    ((5,), (5,)),
    ((3, 7), (7,)),
    ((3, 1), (1, 33)),
    ((2, 3, 16), (3, 1)),
    ((0, 4), (4,)),
    ((), (9,)),
    ((), ()),
]


@pytest.mark.parametrize("shapes", SHAPES)
def test_quantized_sums_and_products(shapes: Any) -> None:
    x, y = codes(*shapes[0]), codes(*shapes[1], seed=2)
    ends = {"min_x": 0.0, "max_x": 255.0, "min_y": -128.0, "max_y": 127.0}
    product, low, high = R.QuantizedMul(x=q8(x), y=q8(y), **ends)
    np.testing.assert_array_equal(run(product), x.astype(np.int32) * (y.astype(np.int32) - 128))
    total, low, high = R.QuantizedAdd(x=q8(x), y=q8(y), **ends)
    numbers = run(R.Dequantize(input=total, min_range=low, max_range=high))
    np.testing.assert_allclose(numbers, x + (y - 128.0), atol=0.05)


@pytest.mark.parametrize("rows,depth", [(0, 4), (3, 1), (5, 7), (4, 33)])
def test_quantized_rows(rows: int, depth: int) -> None:
    x, bias = codes(rows, depth), codes(depth, seed=2)
    out, low, high = R.QuantizedBiasAdd(
        input=q8(x),
        bias=q8(bias),
        min_input=0.0,
        max_input=255.0,
        min_bias=-10.0,
        max_bias=10.0,
        out_type=tf.qint32,
    )
    numbers = run(R.Dequantize(input=out, min_range=low, max_range=high))
    np.testing.assert_allclose(numbers, x + (bias * (20 / 255) - 10), atol=0.05)
    np.testing.assert_array_equal(
        run(R.QuantizedRelu6(features=q8(x), min_features=-10.0, max_features=245.0)[0]), np.clip(x, 10, 16)
    )
    ends = {"input_mins": [0.0, 0.0], "input_maxes": [255.0, 510.0]}
    both = run(R.QuantizedConcat(concat_dim=1, values=[q8(x), q8(x)], **ends)[0])
    np.testing.assert_array_equal(both[:, depth:], x)
    np.testing.assert_allclose(both[:, :depth], x / 2, atol=0.51)


@pytest.mark.parametrize(
    "m,k,n", [(1, 1, 1), (8, 600, 16), (139, 37, 17), (3, 1300, 5), (0, 3, 2), (2, 0, 3)]
)
@pytest.mark.parametrize("low", [-128.0, 0.0, 1e6])
def test_quantized_products(m: int, k: int, n: int, low: float) -> None:
    """Sums of more terms than floats add exactly, and a range far from 0, whose factors are larger."""
    a, b = codes(m, k), codes(k, n, seed=2)
    a[:, : k // 2] = 255
    zero = int(-low)
    for transposed in (False, True):
        out = R.QuantizedMatMul(
            a=q8(a.T if transposed else a),
            b=q8(b),
            min_a=low,
            max_a=low + 255,
            min_b=0.0,
            max_b=255.0,
            transpose_a=transposed,
        )
        want = (a.astype(np.int64) - zero) @ b.astype(np.int64)
        np.testing.assert_array_equal(run(out.out), want.astype(np.int32))


@pytest.mark.parametrize("m,k,n", [(1, 1, 1), (70, 37, 17), (9, 1100, 4), (3, 2, 33)])
@pytest.mark.parametrize("mode", ["SCALED", "MIN_FIRST"])
def test_quantized_products_with_bias(m: int, k: int, n: int, mode: str) -> None:
    a, b = codes(m, k), codes(k, n, seed=2).astype(np.int8)
    a[0, 0], b[0, 0] = 255, 127
    low = 0.0 if mode == "SCALED" else -51.0
    bias = np.linspace(-2000, 2000, n).astype(np.float32)
    for turned in (False, True):
        out = R.QuantizedMatMulWithBias(
            a=q8(a.T if turned else a),
            b=tf.constant(b.T if turned else b, dtype=tf.qint8),
            bias=bias,
            min_a=low,
            max_a=low + 255.0,
            min_b=-127.0,
            max_b=127.0,
            transpose_a=turned,
            transpose_b=turned,
            input_quant_mode=mode,
        )
        want = (a.astype(np.float64) + low) @ b.astype(np.float64) + bias
        np.testing.assert_allclose(run(out.out), want, atol=1.01)


@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1), (2, 5, 3, 7), (2, 4, 4, 16), (1, 6, 7, 33), (1, 300, 250, 1)]
)
def test_quantized_instance_norm(shape: Any) -> None:
    x = codes(*shape)
    x[0, :, :, 0] = 9 if shape[0] == 2 else x[0, :, :, 0]  # a channel without a deviation
    numbers = x * (4.0 / 255) - 1
    means, spread = numbers.mean((1, 2), keepdims=True), numbers.var((1, 2), keepdims=True)
    want = (numbers - means) / np.sqrt(spread + 1e-5)
    low, high = want.min(), max(want.max(), want.min() + 1e-3)
    for given in (False, True):
        y, y_min, y_max = run(
            *R.QuantizedInstanceNorm(
                x=q8(x), x_min=-1.0, x_max=3.0, output_range_given=given, given_y_min=-0.75, given_y_max=1.5
            )
        )
        ends = (-0.75, 1.5) if given else (low, high)
        np.testing.assert_allclose([y_min, y_max], ends, rtol=1e-5, atol=1e-6)
        steps = (want - ends[0]) * 255 / (ends[1] - ends[0])
        np.testing.assert_allclose(y, np.clip(steps, 0, 255), atol=0.501)


@pytest.mark.parametrize(
    "depth,filters,size,stride", [(1, 1, 5, 1), (16, 17, 9, 2), (70, 3, 6, 1), (3, 16, 11, 3)]
)
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_quantized_convolutions(depth: int, filters: int, size: int, stride: int, padding: str) -> None:
    x, f = codes(2, size, size + 1, depth), codes(3, 2, depth, filters, seed=2)
    strides = [1, stride, stride, 1]
    out = R.QuantizedConv2D(
        input=q8(x),
        filter=q8(f),
        min_input=-3.0,
        max_input=252.0,
        min_filter=0.0,
        max_filter=255.0,
        strides=strides,
        padding=padding,
    )
    want = tf.nn.conv2d(x.astype(np.float64) - 3, f.astype(np.float64), strides=strides, padding=padding)
    np.testing.assert_array_equal(*run(out.output, want))


@pytest.mark.parametrize("shape", [(2, 5, 4, 1), (1, 4, 7, 17), (2, 3, 3, 16)])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_quantized_pools(shape: Any, padding: str) -> None:
    x = codes(*shape)
    window: Any = {"ksize": [1, 3, 2, 1], "strides": [1, 2, 1, 1], "padding": padding}
    ends = {"min_input": 0.0, "max_input": 255.0}
    means = run(
        R.QuantizedAvgPool(input=q8(x), **ends, **window)[0], R.AvgPool(value=x.astype(np.float64), **window)
    )
    np.testing.assert_array_equal(means[0], np.floor(means[1] + 1e-9))
    most = run(
        R.QuantizedMaxPool(input=q8(x), **ends, **window)[0], R.MaxPool(input=x.astype(np.float32), **window)
    )
    np.testing.assert_array_equal(*most)


@pytest.mark.parametrize("n", SIZES)
def test_gradients_of_fake_quantization(n: int) -> None:
    x, dy = floats(n), np.arange(n, dtype=np.float32)
    low, high = np.float32(-128 / 255 * 2), np.float32(127 / 255 * 2)  # 0 is a step
    dx, below, above = run(*R.FakeQuantWithMinMaxVarsGradient(gradients=dy, inputs=x, min=low, max=high))
    np.testing.assert_array_equal(dx, np.where((x >= low) & (x <= high), dy, 0))
    np.testing.assert_allclose([below, above], [dy[x < low].sum(), dy[x > high].sum()])
    rows = x[: n // 16 * 16].reshape(-1, 16)
    scale = np.arange(1, 17, dtype=np.float32)
    scale[5] = 0  # a channel without a range
    got = run(
        *R.FakeQuantWithMinMaxVarsPerChannelGradient(
            gradients=rows * 0 + 1, inputs=rows, min=low * scale, max=high * scale
        )
        if n and not np.isnan(rows).any()
        else [tf.zeros([1])] * 3
    )
    if n and not np.isnan(rows).any():
        inside = (rows >= low * scale) & (rows <= high * scale) | (scale == 0)
        np.testing.assert_array_equal(got[0], inside)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.uint8])
@pytest.mark.parametrize("depth,size", [(1, (3, 2)), (3, (3, 2)), (8, (2, 3)), (23, (3, 2)), (17, (9, 8))])
def test_dilation_and_its_gradients(dtype: Any, depth: int, size: tuple[int, int]) -> None:
    """The gradient of a linear function of the output is the sum of weights at the first largest places."""
    random = np.random.RandomState(depth)
    x = random.randint(0, 4, (2, 5, 6, depth)).astype(dtype)  # with ties
    f = random.randint(0, 2, (*size, depth)).astype(dtype)
    dy = random.randint(1, 4, x.shape).astype(dtype)
    how: Any = {"strides": [1, 1, 1, 1], "rates": [1, 1, 2, 1], "padding": "SAME"}
    dilated, dx, df = run(
        R.Dilation2D(input=x, filter=f, **how),
        R.Dilation2DBackpropInput(input=x, filter=f, out_backprop=dy, **how),
        R.Dilation2DBackpropFilter(input=x, filter=f, out_backprop=dy, **how),
    )
    want, want_x, want_f = np.zeros_like(x), np.zeros_like(x), np.zeros_like(f)
    top, left = (size[0] - 1) // 2, (size[1] - 1) * 2 // 2
    for b, y, c, d in np.ndindex(*x.shape):
        places = [(y - top + i, c - left + 2 * j, i, j) for i in range(size[0]) for j in range(size[1])]
        places = [p for p in places if 0 <= p[0] < 5 and 0 <= p[1] < 6]
        best = max(places, key=lambda p: float(x[b, p[0], p[1], d] + f[p[2], p[3], d]))
        want[b, y, c, d] = x[b, best[0], best[1], d] + f[best[2], best[3], d]
        want_x[b, best[0], best[1], d] += dy[b, y, c, d]
        want_f[best[2], best[3], d] += dy[b, y, c, d]
    np.testing.assert_array_equal(dilated, want)
    np.testing.assert_array_equal(dx, want_x)
    np.testing.assert_array_equal(df, want_f)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.int32])
@pytest.mark.parametrize("columns", [1, 7, 16, 33])
def test_sparse_times_dense(dtype: Any, columns: int) -> None:
    random = np.random.RandomState(columns)
    a = random.randint(-3, 4, (5, 6)) * (random.rand(5, 6) < 0.5)
    at = np.argwhere(a)
    b = (random.randint(-9, 9, (6, columns)) * (1 + (1j if dtype == np.complex64 else 0))).astype(dtype)
    for index in (np.int32, np.int64):
        parts: Any = {"a_indices": at.astype(index), "a_values": a[a != 0].astype(dtype), "a_shape": [5, 6]}
        got = run(
            R.SparseTensorDenseMatMul(**parts, b=b),
            R.SparseTensorDenseMatMul(**parts, b=b.conj().T.copy(), adjoint_b=True),
            R.SparseTensorDenseMatMul(**parts, b=b[:5].copy(), adjoint_a=True),
        )
        np.testing.assert_allclose(got[0], a @ b, rtol=1e-6)
        np.testing.assert_allclose(got[1], a @ b, rtol=1e-6)
        np.testing.assert_allclose(got[2], a.T @ b[:5], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("n,k", [(1, 1), (2, 3), (5, 17), (33, 8)])
def test_three_diagonals(dtype: Any, n: int, k: int) -> None:
    random = np.random.RandomState(n)
    tolerance = 1e-4 if dtype in (np.float32, np.complex64) else 1e-10
    # The second matrix has its large elements beside the diagonal, so that rows are exchanged.
    for main, beside in ((3, 0), (0, 3)):
        parts = (random.rand(3, n) + [[beside], [main], [beside]]).astype(dtype)
        if dtype in (np.complex64, np.complex128):
            parts = parts * np.exp(1j * random.rand(3, n)).astype(dtype)
        x = random.rand(n, k).astype(dtype)
        matrix = np.diag(parts[1]) + np.diag(parts[0, :-1], 1) + np.diag(parts[2, 1:], -1)
        product = R.TridiagonalMatMul(superdiag=parts[:1], maindiag=parts[1:2], subdiag=parts[2:], rhs=x)
        np.testing.assert_allclose(run(product), matrix @ x, rtol=tolerance)
        for pivoting in (True, False) if main == 3 else (True,):
            solved = run(R.TridiagonalSolve(diagonals=parts, rhs=x, partial_pivoting=pivoting))
            np.testing.assert_allclose(matrix @ solved, x, rtol=tolerance * 10, atol=tolerance)


def test_lines_side_by_side_are_transformed_as_alone() -> None:
    random = np.random.RandomState(5)
    for n in (2, 4, 6, 12, 16, 30, 64):
        lines = random.randn(8, n) + 1j * random.randn(8, n)
        many = run(tf.signal.fft(tf.constant(lines)))
        alone = [run(tf.signal.fft(tf.constant(lines[i]))) for i in range(8)]
        np.testing.assert_array_equal(many, np.stack(alone))


def digest() -> str:
    """Of the results of all these kernels."""
    bits = hashlib.sha256()
    x, rows, images = floats(1000), np.nan_to_num(floats(20, 17)), codes(2, 7, 6, 19)
    ends = {"min_x": -1.0, "max_x": 3.0, "min_y": -2.0, "max_y": 2.0}
    in_ends, volume = {"min_input": -3.0, "max_input": 7.0}, np.nan_to_num(floats(1, 4, 4, 5, 11))
    small = codes(3, 3, 19, 18)
    how: Any = {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "SAME"}
    cube: Any = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 1, 2, 1, 1], "padding": "SAME"}
    pooled = R.AvgPool3D(input=volume, **cube)
    results = [
        R.QuantizeV2(input=x, min_range=-1.0, max_range=1.5, T=tf.quint8),
        R.Dequantize(input=q8(images), min_range=-1.1, max_range=3.3),
        R.QuantizeAndDequantizeV2(input=x, input_min=-1.0, input_max=1.3, range_given=True),
        R.FakeQuantWithMinMaxArgs(inputs=x, min=-1.0, max=1.3),
        R.FakeQuantWithMinMaxVarsGradient(gradients=np.nan_to_num(x), inputs=x, min=-1.0, max=1.3),
        R.QuantizedAdd(x=q8(images), y=q8(images[0]), **ends),
        R.QuantizedBiasAdd(
            input=q8(images),
            bias=q8(images[0, 0, 0]),
            min_bias=-1.0,
            max_bias=1.0,
            out_type=tf.qint32,
            **in_ends,
        ),
        R.QuantizedConv2D(
            input=q8(images),
            filter=q8(small),
            min_filter=-1.0,
            max_filter=1.0,
            **in_ends,
            strides=[1] * 4,
            padding="SAME",
        ),
        R.QuantizedInstanceNorm(x=q8(images), x_min=-1.0, x_max=3.0),
        R.QuantizedResizeBilinear(images=q8(images), size=[5, 9], min=-1.0, max=1.0),
        R.Dilation2DBackpropFilter(
            input=rows.reshape(1, 4, 5, 17),
            filter=rows[:4].reshape(2, 2, 17),
            out_backprop=rows.reshape(1, 4, 5, 17),
            **how,
        ),
        pooled,
        R.AvgPool3DGrad(orig_input_shape=volume.shape, grad=pooled, **cube),
        R.SparseTensorDenseMatMul(a_indices=[[0, 1], [1, 3]], a_values=rows[0, :2], a_shape=[2, 20], b=rows),
        R.TridiagonalSolve(diagonals=np.abs(rows[:3, :]) + [[1], [9], [1]], rhs=rows[:17].astype(np.float64)),
        R.NearestNeighbors(points=rows, centers=rows[::3] + 1, k=3),
        R.KmeansPlusPlusInitialization(points=rows, num_to_sample=5, seed=3, num_retries_per_sample=2),
    ]
    for n in (12, 16, 17, 30):  # one line, and many side by side
        for lines in (tf.constant(rows[:1].astype(np.float64)), tf.constant(rows.astype(np.float64))):
            wave = tf.complex(lines, lines[:, ::-1])
            results.append(tf.signal.fft(tf.tile(wave, [1, 2])[:, :n]))
            results.append(tf.signal.rfft(tf.cast(lines, tf.float32), [n]))
            results.append(tf.signal.irfft(tf.cast(wave, tf.complex64), [n]))
    for result in results:
        for part in result if isinstance(result, tuple) else [result]:
            bits.update(np.ascontiguousarray(run(part)).tobytes())
    return bits.hexdigest()


def test_every_instruction_set_gives_the_same_bits() -> None:
    found = set()
    for name in ("baseline", "avx2", "avx512"):
        environment = {**os.environ, "MILLRACE_CPU_ISA": name}
        out = subprocess.run(
            [sys.executable, __file__], env=environment, capture_output=True, text=True, check=True
        )
        found.add(out.stdout.split()[-1])
    assert len(found) == 1


if __name__ == "__main__":
    print(digest())
