# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels whose loops go by blocks of channels or elements, beside plain loops in Python.

Sizes lie on both sides of every block.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import millrace as tf

CHANNELS = [1, 3, 4, 16, 21]


def run(*fetches: Any) -> Any:
    with tf.Session() as session:
        return session.run(fetches if len(fetches) > 1 else fetches[0])


def numbers(*shape: int, seed: int = 1) -> Any:
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype(np.float32)


BOXES = np.asarray(
    [[0, 0, 1, 1], [0.9, 0.8, 0.1, 0.2], [-0.5, 0.2, 0.7, 1.4], [np.nan, 0, 1, 1], [0.3, 0.3, 0.3, 0.3]],
    np.float32,
)
OF_IMAGE = np.asarray([1, 0, 1, 0, 1], np.int32)


def positions(low: Any, high: Any, side: int, crop: int) -> list[float | None]:
    """Where the pixels of a crop lie along a side of the image, in single precision; None outside of it."""
    last, i = np.float32(side - 1), np.arange(crop).astype(np.float32)
    with np.errstate(invalid="ignore"):
        if crop > 1:
            at = low * last + i * ((high - low) * last / np.float32(crop - 1))
        else:
            at = np.float32(0.5) * (low + high) * last + i
    return [float(p) if 0 <= p <= last else None for p in at]


def crop_weights(method: str, shape: tuple[int, ...], crop: tuple[int, int]) -> Any:
    """The matrix from the pixels of the images to those of the crops, and which of the latter lie inside."""
    count, height, width = shape
    weights = np.zeros((len(BOXES), *crop, count, height, width))
    inside = np.zeros((len(BOXES), *crop), bool)
    for b, box in enumerate(BOXES):
        for i, y in enumerate(positions(box[0], box[2], height, crop[0])):
            for j, x in enumerate(positions(box[1], box[3], width, crop[1])):
                if y is None or x is None:
                    continue
                inside[b, i, j] = True
                image = weights[b, i, j, OF_IMAGE[b]]
                if method == "nearest":
                    image[math.floor(y + 0.5), math.floor(x + 0.5)] = 1
                    continue
                dy, dx = y - math.floor(y), x - math.floor(x)
                for row, own in ((math.floor(y), 1 - dy), (math.ceil(y), dy)):
                    image[row, math.floor(x)] += own * (1 - dx)
                    image[row, math.ceil(x)] += own * dx
    return weights, inside


@pytest.mark.parametrize("crop", [(5, 4), (1, 7)])
@pytest.mark.parametrize("method", ["bilinear", "nearest"])
@pytest.mark.parametrize("channels", CHANNELS)
def test_crops_and_their_gradients(channels: int, method: str, crop: tuple[int, int]) -> None:
    images, grads = numbers(2, 6, 7, channels), numbers(len(BOXES), *crop, channels, seed=2)
    weights, inside = crop_weights(method, (2, 6, 7), crop)
    want = np.einsum("bijnhw,nhwc->bijc", weights, images)
    want[~inside] = 7
    got = run(tf.image.crop_and_resize(images, BOXES, OF_IMAGE, list(crop), method, 7.0))
    np.testing.assert_allclose(got, want, atol=1e-5)
    for dtype in (tf.float32, tf.float64, tf.float16):
        spread = tf.raw_ops.CropAndResizeGradImage(
            grads=grads, boxes=BOXES, box_ind=OF_IMAGE, image_size=list(images.shape), T=dtype, method=method
        )
        back = np.einsum("bijnhw,bijc->nhwc", weights, grads)
        np.testing.assert_allclose(run(spread), back, atol=1e-5 if dtype != tf.float16 else 1e-2)


@pytest.mark.parametrize("crop", [(5, 4), (1, 7)])
@pytest.mark.parametrize("channels", CHANNELS)
def test_gradients_of_boxes(channels: int, crop: tuple[int, int]) -> None:
    images, grads = numbers(2, 6, 7, channels), numbers(len(BOXES), *crop, channels, seed=2).astype(
        np.float64
    )
    want = np.zeros((len(BOXES), 4))
    for b, box in enumerate(BOXES):
        image = images[OF_IMAGE[b]].astype(np.float64)
        for i, y in enumerate(positions(box[0], box[2], 6, crop[0])):
            for j, x in enumerate(positions(box[1], box[3], 7, crop[1])):
                if y is None or x is None:
                    continue
                top, bottom, left, right = math.floor(y), math.ceil(y), math.floor(x), math.ceil(x)
                dy, dx = y - top, x - left
                down = (1 - dx) * (image[bottom, left] - image[top, left])
                down += dx * (image[bottom, right] - image[top, right])
                across = (1 - dy) * (image[top, right] - image[top, left])
                across += dy * (image[bottom, right] - image[bottom, left])
                share_y = i / (crop[0] - 1) if crop[0] > 1 else 0.5
                share_x = j / (crop[1] - 1) if crop[1] > 1 else 0.5
                along_y, along_x = grads[b, i, j] @ down * 5, grads[b, i, j] @ across * 6
                want[b] += [
                    along_y * (1 - share_y),
                    along_x * (1 - share_x),
                    along_y * share_y,
                    along_x * share_x,
                ]
    got = run(
        tf.raw_ops.CropAndResizeGradBoxes(
            grads=grads.astype(np.float32), image=images, boxes=BOXES, box_ind=OF_IMAGE
        )
    )
    np.testing.assert_allclose(got, want, atol=3e-4)


def triangle_weights(side: int, out: int, scale: float, shift: float, antialias: bool) -> Any:
    """From the pixels of a side to those of the output."""
    weights = np.zeros((out, side))
    stretch = max(1 / scale, 1) if antialias else 1.0
    for i in range(out):
        centre = (i + 0.5) / scale - shift / scale
        if not 0 <= centre <= side:
            continue
        row = np.maximum(0, 1 - np.abs(np.arange(side) + 0.5 - centre) / stretch)
        if row.sum() > 0:
            weights[i] = row / row.sum()
    return weights


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("scale, shift", [((1, 1), (0, 0)), ((0.4, 2.3), (0.5, -1.5)), ((1.7, 0.3), (-2, 3))])
@pytest.mark.parametrize("channels", CHANNELS)
def test_scaled_images(channels: int, scale: Any, shift: Any, antialias: bool) -> None:
    images, grads = numbers(2, 9, 7, channels), numbers(2, 6, 11, channels, seed=2)
    rows = triangle_weights(9, 6, scale[0], shift[0], antialias)
    columns = triangle_weights(7, 11, scale[1], shift[1], antialias)
    given = {
        "scale": np.asarray(scale, np.float32),
        "translation": np.asarray(shift, np.float32),
        "kernel_type": "triangle",
        "antialias": antialias,
    }
    got = run(tf.raw_ops.ScaleAndTranslate(images=images, size=[6, 11], **given))
    np.testing.assert_allclose(got, np.einsum("ih,jw,nhwc->nijc", rows, columns, images), atol=1e-5)
    back = run(tf.raw_ops.ScaleAndTranslateGrad(grads=grads, original_image=images, **given))
    np.testing.assert_allclose(back, np.einsum("ih,jw,nijc->nhwc", rows, columns, grads), atol=1e-5)


@pytest.mark.parametrize("overlapping", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("channels", [1, 4, 8, 21])
def test_fractional_pools(channels: int, dtype: Any, overlapping: bool) -> None:
    x = np.random.RandomState(3).randint(-4, 5, (2, 9, 8, channels)).astype(dtype)  # with ties
    if dtype in (np.float32, np.float64):
        x[0, ::2, ::3, 0] = np.nan
    given: dict[str, Any] = {"overlapping": overlapping, "deterministic": True, "seed": 1, "seed2": 2}
    ratios = [1.0, 1.6, 1.5, 1.0]
    largest, rows, columns = run(*tf.raw_ops.FractionalMaxPool(value=x, pooling_ratio=ratios, **given))
    means = run(*tf.raw_ops.FractionalAvgPool(value=x, pooling_ratio=ratios, **given))[0]
    grads = np.random.RandomState(4).randint(-9, 10, largest.shape).astype(dtype)
    to_largest, evenly = np.zeros_like(x), np.zeros_like(x)
    for n, i, j, c in np.ndindex(largest.shape):
        more = 1 if overlapping else 0
        h, w = slice(rows[i], rows[i + 1] + more), slice(columns[j], columns[j + 1] + more)
        region = x[n, h, w, c]
        best = region.flat[0]
        at = 0
        for k, value in enumerate(region.flat):  # as `>` has it, of which NaN knows nothing
            if value > best:
                best, at = value, k
        np.testing.assert_array_equal(largest[n, i, j, c], best)
        mean = region.sum() / region.size
        np.testing.assert_allclose(
            means[n, i, j, c], math.trunc(mean) if x.dtype.kind == "i" else mean, rtol=1e-5
        )
        row, column = np.unravel_index(at, region.shape)
        to_largest[n, rows[i] + row, columns[j] + column, c] += grads[n, i, j, c]
        evenly[n, h, w, c] += np.asarray(grads[n, i, j, c] / region.size).astype(dtype)
    ends = {"row_pooling_sequence": rows, "col_pooling_sequence": columns, "overlapping": overlapping}
    got = run(tf.raw_ops.FractionalMaxPoolGrad(orig_input=x, orig_output=largest, out_backprop=grads, **ends))
    np.testing.assert_array_equal(got, to_largest)
    got = run(
        tf.raw_ops.FractionalAvgPoolGrad(orig_input_tensor_shape=list(x.shape), out_backprop=grads, **ends)
    )
    np.testing.assert_allclose(got, evenly, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("boundaries", [0, 1, 4, 16, 17, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_buckets(dtype: Any, boundaries: int) -> None:
    limits = np.sort(np.random.RandomState(5).randint(-9, 10, boundaries)).astype(np.float32)
    x = np.random.RandomState(6).randint(-12, 13, 37).astype(dtype)
    if dtype in (np.float32, np.float64):
        x[:3] = np.inf, -np.inf, np.nan  # which is below no boundary
        x[3] = np.nextafter(x[4], dtype(-100))
        limits[boundaries - 1 :] = np.inf
    got = run(tf.raw_ops.Bucketize(input=x, boundaries=limits.tolist()))
    want = [sum(not float(value) < float(limit) for limit in limits) for value in x]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 97, 128, 200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_places_of_extrema(dtype: Any, length: int) -> None:
    x = np.random.RandomState(length).randint(-3, 4, (40, length)).astype(dtype)
    x[10:20][np.random.RandomState(1).uniform(size=(10, length)) < 0.5] = np.nan
    x[20] = np.nan
    x[21], x[22], x[23] = np.inf, -np.inf, 0.0
    x[24], x[24, length // 2] = np.nan, -np.inf
    x[25:40] = 0
    for row in range(25, 40):
        x[row, (row - 25) * length // 15 :] = 1
    most, least = run(tf.argmax(x, 1), tf.argmin(x, 1))
    for row in range(len(x)):
        some = ~np.isnan(x[row])
        for got, pick in ((most[row], np.argmax), (least[row], np.argmin)):
            want = np.flatnonzero(some)[pick(x[row][some])] if some.any() else 0
            assert got == want, (row, got, want)


@pytest.mark.parametrize("n", [1, 2, 3, 17, 70000])
def test_lines(n: int) -> None:
    for dtype in (np.float32, np.float64):
        start, stop = dtype(-0.3), dtype(12.7)
        got = run(tf.linspace(tf.constant(start), tf.constant(stop), n))
        want = start + (stop - start) / dtype(max(n - 1, 1)) * np.arange(n).astype(dtype)
        want[n - 1 :] = stop if n > 1 else start
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("channels", [1, 3, 7, 96, 130])
def test_contrast(channels: int) -> None:
    x = numbers(2, 9, 11, channels)
    means = x.astype(np.float64).mean(axis=(1, 2), keepdims=True)
    got = run(tf.image.adjust_contrast(x, 1.7))
    np.testing.assert_allclose(got, (x - means) * 1.7 + means, atol=1e-5)


def expect_powers(got: Any, x: Any, y: Any) -> None:
    tiny = np.finfo(np.float32).tiny
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
        want = exact.astype(np.float32)
    # What is not normal counts as zero.
    normal = ((np.abs(x) >= tiny) | (x == 0) | np.isnan(x)) & (
        (np.abs(want) >= tiny) | (exact == 0) | np.isnan(want)
    )
    got, want = got[normal], want[normal]
    some = ~np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), ~some)
    np.testing.assert_array_equal(np.signbit(got[some]), np.signbit(want[some]))
    np.testing.assert_allclose(got, want, rtol=1.2e-7)


def test_powers_of_floats() -> None:
    inf, nan = np.inf, np.nan
    special = [
        0.0,
        -0.0,
        1,
        -1,
        2,
        -2,
        3,
        -3,
        0.5,
        -0.5,
        2.5,
        inf,
        -inf,
        nan,
        1e-42,
        -1e-42,
        1e38,
        -1e38,
        1e-38,
    ]
    special += [16777215, 16777216, -16777217, 3e9, -1e20, 0.99999994, 1.0000001]
    x, y = (a.ravel() for a in np.meshgrid(np.asarray(special, np.float32), np.asarray(special, np.float32)))
    drawn = np.random.RandomState(7)
    x = np.concatenate([x, np.exp(drawn.uniform(-80, 80, 3000)).astype(np.float32)])
    y = np.concatenate([y, drawn.uniform(-3, 3, 3000).astype(np.float32)])
    expect_powers(run(tf.pow(x, y)), x, y)
    for scalar in (3.7, -2.0, 0.0, 2.0, 0.5, -1.0):
        one = np.float32(scalar)
        expect_powers(run(tf.pow(one, y)), np.full_like(y, one), y)
        expect_powers(run(tf.pow(x, one)), x, np.full_like(x, one))


def test_angles() -> None:
    parts = np.asarray([0.0, -0.0, 1, -1, 0.3, -5, np.inf, -np.inf, np.nan, 1e30, 1e-30], np.float32)
    re, im = (a.ravel() for a in np.meshgrid(parts, parts))
    re, im = np.tile(re, 5), np.tile(im, 5)  # more than a block
    x = np.empty(re.shape, np.complex64)
    x.real, x.imag = re, im
    got, want = run(tf.angle(x)), np.arctan2(im, re)
    np.testing.assert_allclose(got, want, rtol=3e-7)
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(want)]), np.signbit(want[~np.isnan(want)]))


def sparse(rank: int, count: int, seed: int, far: int = 0) -> Any:
    """Indices in order, values and a shape."""
    drawn = np.random.RandomState(seed)
    shape = np.asarray([5, 7, 6][:rank], np.int64)
    every = np.stack(np.meshgrid(*[np.arange(d) for d in shape], indexing="ij"), -1).reshape(-1, rank)
    picked = every[np.sort(drawn.choice(len(every), min(count, len(every)), replace=False))].astype(np.int64)
    if far:  # more places than numbers of 64 bits
        picked, shape = picked * far, shape * far
    return picked, drawn.randint(-5, 6, len(picked)).astype(np.float32), shape


def as_dict(indices: Any, values: Any) -> dict[tuple[int, ...], Any]:
    return dict(zip(map(tuple, indices.tolist()), values.tolist(), strict=True))


@pytest.mark.parametrize("far", [0, 1 << 30])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 30, 200])
def test_sparse_parts(count: int, rank: int, far: int) -> None:
    a, b = sparse(rank, count, 1, far), sparse(rank, count // 2, 2, far)
    for axis in range(-1, rank):
        joined = run(tf.sparse_concat(axis, [tf.SparseTensor(*a), tf.SparseTensor(*b), tf.SparseTensor(*a)]))
        want = {}
        for part, (indices, values, shape) in enumerate((a, b, a)):
            moved = indices.copy()
            moved[:, axis] += part * shape[axis]
            want |= as_dict(moved, values)
        assert list(as_dict(joined.indices, joined.values).items()) == sorted(want.items())
        parts = tf.raw_ops.SparseSplit(
            split_dim=axis,
            indices=joined.indices,
            values=joined.values,
            shape=joined.dense_shape,
            num_split=4,
        )
        begin = 0
        for indices, values, shape in zip(*run(*parts), strict=True):
            end = begin + shape[axis]
            own = {k: v for k, v in sorted(want.items()) if begin <= k[axis] < end}
            moved = indices.copy()
            moved[:, axis] += begin
            assert list(as_dict(moved, values).items()) == list(own.items())
            begin = end
        assert begin == joined.dense_shape[axis]
    start, size = a[2] // 3, a[2] // 2
    cut = run(tf.sparse_slice(tf.SparseTensor(*a), start, size))
    inside = ((a[0] >= start) & (a[0] < start + size)).all(axis=1)
    np.testing.assert_array_equal(cut.indices, a[0][inside] - start)
    np.testing.assert_array_equal(cut.values, a[1][inside])


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 30, 200])
def test_sparse_sums(count: int, rank: int) -> None:
    a, b = sparse(rank, count, 1), sparse(rank, count, 2)
    x, y = as_dict(*a[:2]), as_dict(*b[:2])
    for least in (0.0, 3.0):
        sums = run(tf.sparse_add(tf.SparseTensor(*a), tf.SparseTensor(*b), least))
        want = {k: x.get(k, 0) + y.get(k, 0) for k in sorted(x | y)}
        want = {k: v for k, v in want.items() if k not in x or k not in y or abs(v) >= least}
        assert list(as_dict(sums.indices, sums.values).items()) == list(want.items())
    most = run(tf.sparse_maximum(tf.SparseTensor(*a), tf.SparseTensor(*b)))
    want = {k: max(x.get(k, 0), y.get(k, 0)) for k in sorted(x | y)}
    assert list(as_dict(most.indices, most.values).items()) == list(want.items())


@pytest.mark.parametrize("far", [0, 1 << 30])
@pytest.mark.parametrize("count", [2, 3, 50, 210])
def test_indices_are_put_in_order(count: int, far: int) -> None:
    indices, values, shape = sparse(3, count, 3, far)
    order = np.random.RandomState(4).permutation(len(indices))
    order = np.concatenate([order, order[: count // 2]])  # some twice; the first of equal ones stays first
    values = np.arange(len(order), dtype=np.float32)
    got = run(tf.sparse_reorder(tf.SparseTensor(indices[order], values, shape)))
    want = sorted(range(len(order)), key=lambda i: (tuple(indices[order[i]]), i))
    np.testing.assert_array_equal(got.indices, indices[order][want])
    np.testing.assert_array_equal(got.values, values[want])


@pytest.mark.parametrize("lines", [1, 2, 3, 8, 11])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 8, 10, 15, 26, 32, 62, 202, 240, 1000])
def test_transforms_of_real_lines(n: int, lines: int) -> None:
    x = numbers(lines, n)
    spectrum = np.fft.rfft(x.astype(np.float64))
    got = run(tf.signal.rfft(x))
    np.testing.assert_allclose(got, spectrum, atol=1e-5 * n**0.5)
    given = spectrum.astype(np.complex64)
    given[:, 0] += 3j  # what is imaginary there does not count
    if n % 2 == 0:
        given[:, -1] -= 5j
    np.testing.assert_allclose(run(tf.signal.irfft(given, [n])), x, atol=2e-6)
    planes = numbers(2, 3, n)
    twice = np.fft.rfft2(planes.astype(np.float64))
    np.testing.assert_allclose(run(tf.signal.rfft2d(planes)), twice, atol=1e-5 * n**0.5)
    back = run(tf.signal.irfft2d(twice.astype(np.complex64), [3, n]))
    np.testing.assert_allclose(back, planes, atol=2e-6)


@pytest.mark.parametrize("slices", [1, 3, 8, 13])
@pytest.mark.parametrize("window", [2, 5, 16, 25])
def test_spectrograms(window: int, slices: int) -> None:
    samples = numbers((slices - 1) * 3 + window, 2)
    length = 1 << (window - 1).bit_length()
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    parts = np.stack([samples[3 * i : 3 * i + window] for i in range(slices)])
    powers = np.abs(np.fft.rfft(parts * hann[None, :, None], length, axis=1)) ** 2
    for squared in (False, True):
        got = run(
            tf.raw_ops.AudioSpectrogram(
                input=samples, window_size=window, stride=3, magnitude_squared=squared
            )
        )
        want = np.moveaxis(powers if squared else np.sqrt(powers), 2, 0)
        np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("slices", [1, 7, 8, 19])
@pytest.mark.parametrize("channels, coefficients", [(40, 13), (10, 3), (5, 5)])
def test_cepstral_coefficients(slices: int, channels: int, coefficients: int) -> None:
    spectra = np.random.RandomState(9).uniform(0, 4, (2, slices, 129)).astype(np.float32)
    spectra[0, 0] = 0  # which has no logarithm
    got = run(
        tf.raw_ops.Mfcc(
            spectrogram=spectra,
            sample_rate=16000,
            upper_frequency_limit=4000,
            lower_frequency_limit=20,
            filterbank_channel_count=channels,
            dct_coefficient_count=coefficients,
        )
    )
    mel = lambda hertz: 1127 * np.log1p(hertz / 700)  # noqa: E731
    hertz = 8000 / 128
    low, high = mel(20.0), mel(4000.0)
    centers = low + (high - low) / (channels + 1) * np.arange(1, channels + 2)
    energies = np.zeros((2, slices, channels))
    for i in range(int(1.5 + 20 / hertz), int(4000 / hertz) + 1):
        at = mel(i * hertz)
        channel = int(np.searchsorted(centers[:channels], at))
        begin = low if channel == 0 else centers[channel - 1]
        share = (centers[channel] - at) / (centers[channel] - begin)
        size = np.sqrt(spectra[..., i].astype(np.float64))
        if channel > 0:
            energies[..., channel - 1] += size * share
        if channel < channels:
            energies[..., channel] += size * (1 - share)
    angles = np.outer(np.arange(coefficients), np.arange(channels) + 0.5) * np.pi / channels
    want = np.log(np.maximum(energies, 1e-12)) @ (np.sqrt(2 / channels) * np.cos(angles)).T
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("k", [1, 2, 16, 17, 40])
@pytest.mark.parametrize("centers", [1, 15, 16, 33])
@pytest.mark.parametrize("points", [1, 4, 7])
def test_nearest_centers(points: int, centers: int, k: int) -> None:
    x = np.random.RandomState(1).randint(-2, 3, (points, 5)).astype(np.float32)
    y = np.random.RandomState(2).randint(-2, 3, (centers, 5)).astype(np.float32)  # with ties
    y[centers // 2, 0] = np.nan
    places, distances = run(*tf.raw_ops.NearestNeighbors(points=x, centers=y, k=k))
    squares = ((x[:, None] - y[None]) ** 2).sum(axis=2)
    order = np.argsort(np.where(np.isnan(squares), np.inf, squares), axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(distances, np.take_along_axis(squares, order, 1))


@pytest.mark.parametrize("depth", [1, 4, 16, 21])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.float16])
def test_gradients_of_dilations(dtype: Any, depth: int) -> None:
    drawn = np.random.RandomState(1)
    x = drawn.randint(-3, 4, (2, 6, 7, depth)).astype(dtype)  # with ties, of which the first counts
    window = drawn.randint(-2, 3, (3, 2, depth)).astype(dtype)
    grads = drawn.randint(-5, 6, (2, 3, 6, depth)).astype(dtype)
    given = {"strides": [1, 2, 1, 1], "rates": [1, 1, 1, 1], "padding": "VALID"}
    grads = grads[:, :2]
    to_x, to_window = np.zeros_like(x), np.zeros_like(window)
    for n, i, j, c in np.ndindex(grads.shape):
        sums = x[n, 2 * i : 2 * i + 3, j : j + 2, c] + window[..., c]
        h, w = np.unravel_index(np.argmax(sums), sums.shape)
        to_x[n, 2 * i + h, j + w, c] += grads[n, i, j, c]
        to_window[h, w, c] += grads[n, i, j, c]
    inputs = {"input": x, "filter": window, "out_backprop": grads, **given}
    np.testing.assert_array_equal(run(tf.raw_ops.Dilation2DBackpropInput(**inputs)), to_x)
    np.testing.assert_array_equal(run(tf.raw_ops.Dilation2DBackpropFilter(**inputs)), to_window)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("depth", [0, 1, 3, 4, 16, 21])
def test_pools_of_volumes_and_their_gradients(depth: int, dtype: Any) -> None:
    """Each window and each channel by itself; integers, so that all sums are exact. Some maxima stand twice."""
    drawn = np.random.RandomState(depth)
    x = drawn.randint(-6, 7, (2, 3, 4, 5, depth)).astype(dtype)
    shape = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 1, 2, 2, 1], "padding": "VALID"}
    dy = 8 * drawn.randint(-3, 4, (2, 2, 2, 2, depth)).astype(dtype)
    most, mean, to_most, to_mean = np.zeros_like(dy), np.zeros_like(dy), np.zeros_like(x), np.zeros_like(x)
    taken = np.zeros_like(dy)
    for n, d, h, w, c in np.ndindex(dy.shape):
        window = (n, slice(d, d + 2), slice(2 * h, 2 * h + 2), slice(2 * w, 2 * w + 2), c)
        place = np.unravel_index(np.argmax(x[window]), (2, 2, 2))
        most[n, d, h, w, c] = x[window].max()
        mean[n, d, h, w, c] = x[window].astype(np.float64).sum() / 8
        to_most[window][place] += dy[n, d, h, w, c]
        to_mean[window] += dy[n, d, h, w, c] / 8
        taken[n, d, h, w, c] = 2 * x[window][place]
    raw = tf.raw_ops
    np.testing.assert_array_equal(run(raw.MaxPool3D(input=x, **shape)), most)
    np.testing.assert_array_equal(run(raw.AvgPool3D(input=x, **shape)), mean)
    grad = raw.MaxPool3DGrad(orig_input=x, orig_output=most, grad=dy, **shape)
    np.testing.assert_array_equal(run(grad), to_most)
    second = raw.MaxPool3DGradGrad(orig_input=x, orig_output=most, grad=2 * x, **shape)
    np.testing.assert_array_equal(run(second), taken)
    np.testing.assert_array_equal(run(raw.AvgPool3DGrad(orig_input_shape=x.shape, grad=dy, **shape)), to_mean)
