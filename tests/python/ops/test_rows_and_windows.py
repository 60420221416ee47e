# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels that go through rows by vectors, or treat windows that are apart by themselves, beside plain loops.

Sizes lie on both sides of every block.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf


def run(*fetches: Any) -> Any:
    with tf.Session() as session:
        return session.run(fetches if len(fetches) > 1 else fetches[0])


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch, classes", [(1, 1), (3, 5), (63, 8), (64, 17), (130, 40)])
def test_greedy_decoding(batch: int, classes: int, dtype: Any, merge: bool) -> None:
    drawn = np.random.RandomState(batch)
    scores = drawn.randint(-3, 4, (6, batch, classes)).astype(dtype)  # with ties, of which the first counts
    scores[drawn.uniform(size=scores.shape) < 0.1] = np.nan
    lengths = drawn.randint(0, 7, batch).astype(np.int32)
    lengths[0] = 6
    indices, values, shape, sums = run(
        *tf.raw_ops.CTCGreedyDecoder(inputs=scores, sequence_length=lengths, merge_repeated=merge)
    )
    want = []
    for b in range(batch):
        last, total, count = -1, 0.0, 0
        for t in range(lengths[b]):
            row = scores[t, b]
            best = 0  # NaN is found only at the begin
            for c in range(classes):
                if row[c] > row[best]:
                    best = c
            total -= row[best]
            if best != classes - 1 and not (merge and best == last):
                want.append((b, count, best))
                count += 1
            last = best
        np.testing.assert_array_equal(sums[b, 0], total)
    assert [(*map(int, at), int(v)) for at, v in zip(indices, values, strict=True)] == want
    assert shape.tolist() == [batch, max([k + 1 for _, k, _ in want], default=0)]


@pytest.mark.parametrize("n", [0, 1, 5, 16, 33, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.int64, np.uint8])
def test_cross_products(dtype: Any, n: int) -> None:
    drawn = np.random.RandomState(n)
    a, b = drawn.randint(-9, 10, (n, 3)), drawn.randint(-9, 10, (n, 3))
    with np.errstate(invalid="ignore"):
        want = np.stack([a[:, i - 2] * b[:, i - 1] - a[:, i - 1] * b[:, i - 2] for i in range(3)], 1)
    got = run(tf.raw_ops.Cross(a=a.astype(dtype), b=b.astype(dtype)))
    np.testing.assert_array_equal(got, want.astype(dtype))


def shared_area(a: Any, b: Any) -> Any:
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    both = np.prod(np.maximum(high - low, np.float32(0)))
    return both / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - both)


@pytest.mark.parametrize("most", [0, 3, 10000])
@pytest.mark.parametrize("n", [0, 1, 40, 256, 257, 700])
def test_suppression(n: int, most: int) -> None:
    drawn = np.random.RandomState(n)
    scores = (drawn.randint(-20, 200, n) / 8).astype(np.float32)  # of equal ones the first box counts
    scores[drawn.uniform(size=n) < 0.05] = np.nan
    scores[drawn.uniform(size=n) < 0.05] = -0.0
    overlaps = drawn.uniform(0, 1.2, (n, n)).astype(np.float32)
    corners = drawn.uniform(0, 4, (n, 2)).astype(np.float32)
    boxes = np.concatenate([corners, corners + drawn.uniform(0.1, 2, (n, 2)).astype(np.float32)], 1)
    for least in (-1.0, 0.0, 9.0):
        order = sorted((i for i in range(n) if scores[i] > least), key=lambda i: (-scores[i], i))
        kept: list[int] = []
        by_area: list[int] = []
        for i in order:
            if len(kept) < most and all(overlaps[i, j] <= 1.1 for j in kept):
                kept.append(i)
            if len(by_area) < most and all(shared_area(boxes[i], boxes[j]) <= 0.25 for j in by_area):
                by_area.append(i)
        given = {"scores": scores, "max_output_size": most, "score_threshold": least}
        got = run(
            tf.raw_ops.NonMaxSuppressionWithOverlaps(overlaps=overlaps, overlap_threshold=1.1, **given),
            tf.raw_ops.NonMaxSuppressionV3(boxes=boxes, iou_threshold=0.25, **given),
        )
        assert got[0].tolist() == kept
        assert got[1].tolist() == by_area


def test_suppression_with_overlaps_that_are_not_numbers() -> None:
    """A box whose overlap with a selected one is NaN stays, with a score of zero."""
    nan = np.float32(np.nan)
    overlaps = np.asarray([[1, 0, 0], [nan, 1, 0], [0, 0, 1]], np.float32)
    given = {"overlaps": overlaps, "scores": np.asarray([3, 2, 1], np.float32), "max_output_size": 3}
    for least, want in ((-1.0, [0, 2, 1]), (0.5, [0, 2])):
        got = run(
            tf.raw_ops.NonMaxSuppressionWithOverlaps(overlap_threshold=0.5, score_threshold=least, **given)
        )
        assert got.tolist() == want


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("parts", [1, 2, 5, 6, 7, 20])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_sparse_splits(rank: int, parts: int, in_order: bool) -> None:
    shape = np.asarray([23, 21, 20][:rank], np.int64)
    drawn = np.random.RandomState(rank)
    indices = np.argwhere(drawn.uniform(size=shape) < 0.3)
    if not in_order:
        indices = indices[drawn.permutation(len(indices))]
    values = np.arange(len(indices), dtype=np.float64)
    for axis in range(rank):
        got = run(
            *tf.raw_ops.SparseSplit(
                split_dim=axis, indices=indices, values=values, shape=shape, num_split=parts
            )
        )
        begin = 0
        for i in range(parts):
            size = shape[axis] // parts + (i < shape[axis] % parts)
            own = (indices[:, axis] >= begin) & (indices[:, axis] < begin + size)
            moved, resized = indices[own].copy(), shape.copy()
            moved[:, axis] -= begin
            resized[axis] = size
            np.testing.assert_array_equal(got[0][i], moved)
            np.testing.assert_array_equal(got[1][i], values[own])
            np.testing.assert_array_equal(got[2][i], resized)
            begin += size


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_gradients_of_sparse_sums(rank: int) -> None:
    drawn = np.random.RandomState(rank)
    a, b, kept = (np.argwhere(drawn.uniform(size=(9, 7, 5)[:rank]) < p) for p in (0.5, 0.3, 0.8))
    grads = drawn.randint(1, 100, len(kept)).astype(np.float32)
    of = {tuple(at): grad for at, grad in zip(kept.tolist(), grads, strict=True)}
    got = run(
        *tf.raw_ops.SparseAddGrad(backprop_val_grad=grads, a_indices=a, b_indices=b, sum_indices=kept)
    )
    for indices, found in zip((a, b), got, strict=True):
        np.testing.assert_array_equal(found, [of.get(tuple(at), 0) for at in indices.tolist()])


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
@pytest.mark.parametrize("strides", [(2, 2, 2), (2, 3, 2), (4, 2, 3), (1, 2, 2)])
@pytest.mark.parametrize("depth", [1, 8, 21])
def test_gradients_of_pools_of_volumes(depth: int, strides: tuple[int, int, int], padding: str) -> None:
    """Windows of 2 x 2 x 2 that are apart, with and without gaps, and that overlap."""
    drawn = np.random.RandomState(depth)
    x = drawn.randint(-6, 7, (2, 5, 4, 7, depth)).astype(np.float32)  # with ties, of which the first counts
    given = {"ksize": [1, 2, 2, 2, 1], "strides": [1, *strides, 1], "padding": padding}
    most = run(tf.raw_ops.MaxPool3D(input=x, **given))
    dy = 8 * drawn.randint(-3, 4, most.shape).astype(np.float32)
    before = [0, 0, 0]
    if padding == "SAME":
        sizes = zip(most.shape[1:4], strides, x.shape[1:4], strict=True)
        before = [max((o - 1) * s + 2 - i, 0) // 2 for o, s, i in sizes]
    to_most, to_mean = np.zeros_like(x), np.zeros_like(x)
    for n, d, h, w, c in np.ndindex(dy.shape):
        starts = [o * s - p for o, s, p in zip((d, h, w), strides, before, strict=True)]
        sides = [slice(max(start, 0), start + 2) for start in starts]
        window = (n, *sides, c)
        place = np.unravel_index(np.argmax(x[window]), x[window].shape)
        assert most[n, d, h, w, c] == x[window][place]
        to_most[window][place] += dy[n, d, h, w, c]
        to_mean[window] += dy[n, d, h, w, c] / x[window].size
    grad = tf.raw_ops.MaxPool3DGrad(orig_input=x, orig_output=most, grad=dy, **given)
    np.testing.assert_array_equal(run(grad), to_most)
    grad = tf.raw_ops.AvgPool3DGrad(orig_input_shape=x.shape, grad=dy, **given)
    np.testing.assert_array_equal(run(grad), to_mean)


@pytest.mark.parametrize("k", [1, 2, 5, 16, 17])
@pytest.mark.parametrize("columns", [17, 64, 130, 600])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_largest_of_rows(dtype: Any, columns: int, k: int) -> None:
    """NaN is below every number; of equal ones the first comes first."""
    x = np.random.RandomState(columns).randint(-30, 30, (37, columns)).astype(dtype)
    if dtype != np.int32:
        x[::3, 1::4] = np.nan
        x[5] = np.nan
        x[6, 3:] = np.nan
        x[7] = -np.inf
        x[8, ::2], x[8, 1] = -0.0, np.inf
    values, indices = run(*tf.raw_ops.TopKV2(input=x, k=k))
    for row, value, index in zip(x, values, indices, strict=True):
        want = sorted(range(columns), key=lambda c: (np.isnan(row[c]), -row[c], c))  # noqa: B023
        nan = [c for c in range(columns) if np.isnan(row[c])]
        want = [c for c in want if not np.isnan(row[c])] + nan
        assert index.tolist() == want[:k]
        np.testing.assert_array_equal(value, row[want[:k]])


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
@pytest.mark.parametrize(
    "window, strides", [((2, 2, 2), (2, 2, 2)), ((1, 3, 4), (3, 1, 2)), ((3, 2, 1), (1, 1, 1))]
)
@pytest.mark.parametrize("depth", [1, 3, 8])
def test_patches_of_volumes(depth: int, window: Any, strides: Any, padding: str) -> None:
    x = np.random.RandomState(1).randint(1, 100, (2, 4, 5, 6, depth)).astype(np.float32)
    got = run(
        tf.raw_ops.ExtractVolumePatches(
            input=x, ksizes=[1, *window, 1], strides=[1, *strides, 1], padding=padding
        )
    )
    before = [0, 0, 0]
    if padding == "SAME":
        sizes = zip(got.shape[1:4], strides, window, x.shape[1:4], strict=True)
        before = [max((o - 1) * s + k - i, 0) // 2 for o, s, k, i in sizes]
    wide = np.pad(x, [(0, 0), *[(p, 9) for p in before], (0, 0)])
    for n, d, h, w in np.ndindex(got.shape[:4]):
        sides = [slice(o * s, o * s + k) for o, s, k in zip((d, h, w), strides, window, strict=True)]
        np.testing.assert_array_equal(got[n, d, h, w], wide[(n, *sides)].ravel())


@pytest.mark.parametrize("depth", [1, 16, 21])
@pytest.mark.parametrize("columns", [2, 3, 4])
def test_dilations_by_rows_of_three(columns: int, depth: int) -> None:
    drawn = np.random.RandomState(depth)
    x = drawn.randint(-3, 4, (2, 6, 7, depth)).astype(np.float32)  # with ties, of which the first counts
    window = drawn.randint(-2, 3, (3, columns, depth)).astype(np.float32)
    given = {"input": x, "filter": window, "strides": [1, 1, 1, 1], "rates": [1, 2, 1, 1], "padding": "SAME"}
    grads = drawn.randint(-5, 6, x.shape).astype(np.float32)
    want, to_x, to_window = np.zeros_like(x), np.zeros_like(x), np.zeros_like(window)
    for n, i, j, c in np.ndindex(x.shape):
        best, at = -np.inf, None
        for a, b in np.ndindex(3, columns):
            h, w = i - 2 + 2 * a, j - (columns - 1) // 2 + b
            if 0 <= h < 6 and 0 <= w < 7 and x[n, h, w, c] + window[a, b, c] > best:
                best, at = x[n, h, w, c] + window[a, b, c], (h, w, a, b)
        assert at is not None
        want[n, i, j, c] = best
        to_x[n, at[0], at[1], c] += grads[n, i, j, c]
        to_window[at[2], at[3], c] += grads[n, i, j, c]
    got = run(
        tf.raw_ops.Dilation2D(**given),
        tf.raw_ops.Dilation2DBackpropInput(out_backprop=grads, **given),
        tf.raw_ops.Dilation2DBackpropFilter(out_backprop=grads, **given),
    )
    for found, expected in zip(got, (want, to_x, to_window), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("width", [1, 5, 16, 33, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_of_means_of_sparse_segments(dtype: Any, width: int) -> None:
    drawn = np.random.RandomState(width)
    grads = drawn.randint(-9, 10, (6, width)).astype(dtype)
    segments = np.asarray([0, 0, 2, 2, 2, 2, 3, 5], np.int32)
    indices = np.asarray([4, 4, 0, 1, 6, 0, 2, 4], np.int64)
    given = {"grad": grads, "indices": indices, "segment_ids": segments, "output_dim0": 8}
    for op, power in ((tf.raw_ops.SparseSegmentMeanGrad, 1.0), (tf.raw_ops.SparseSegmentSqrtNGrad, 0.5)):
        want = np.zeros((8, width))
        for segment, index in zip(segments, indices, strict=True):
            want[index] += grads[segment] / np.count_nonzero(segments == segment) ** power
        np.testing.assert_allclose(run(op(**given)), want, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64])
def test_counts_of_bits(dtype: Any) -> None:
    x = np.frombuffer(np.random.RandomState(1).bytes(8 * 133), dtype)
    size = np.iinfo(dtype).bits
    want = [bin(int(value) & (1 << size) - 1).count("1") for value in x]
    np.testing.assert_array_equal(run(tf.raw_ops.PopulationCount(x=x)), want)


@pytest.mark.parametrize("n", [0, 1, 15, 33, 3000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8])
def test_bounds_slopes_and_distances(dtype: Any, n: int) -> None:
    drawn = np.random.RandomState(n)
    x, y = drawn.randint(0, 9, n).astype(dtype), drawn.randint(0, 9, n).astype(dtype)
    real = dtype in (np.float32, np.float64)
    if real:
        x -= 4
        x[::5], y[::7] = np.nan, np.inf
    low, high = dtype(2), dtype(5)
    want = np.where(x > high, high, np.where(x < low, low, x))
    got = run(tf.raw_ops.ClipByValue(t=x, clip_value_min=low, clip_value_max=high))
    np.testing.assert_array_equal(got, want)
    doubled = run(
        tf.raw_ops.ClipByValue(t=tf.raw_ops.AddV2(x=x, y=x), clip_value_min=low, clip_value_max=high)
    )
    np.testing.assert_array_equal(doubled, np.where(x + x > high, high, np.where(x + x < low, low, x + x)))
    with np.errstate(invalid="ignore"):
        near = np.abs(x.astype(np.float64) - y.astype(np.float64)) < 1.5
    np.testing.assert_array_equal(run(tf.raw_ops.ApproximateEqual(x=x, y=y, tolerance=1.5)), near)
    if real:
        want = np.where(x > 0, x, x * dtype(0.5))
        np.testing.assert_array_equal(run(tf.raw_ops.LeakyRelu(features=x, alpha=0.5)), want)
        want = np.where(x > 0, y, y * dtype(0.5))
        np.testing.assert_array_equal(
            run(tf.raw_ops.LeakyReluGrad(gradients=y, features=x, alpha=0.5)), want
        )


@pytest.mark.parametrize("mode", ["REFLECT", "SYMMETRIC"])
@pytest.mark.parametrize("before, after", [(0, 0), (0, 3), (2, 0), (4, 3)])
@pytest.mark.parametrize("columns", [5, 16, 40])
def test_mirrored_rows(columns: int, before: int, after: int, mode: str) -> None:
    x = np.arange(3 * columns, dtype=np.float32).reshape(3, columns)
    paddings = [(1, 2), (before, after)]
    kind = mode.lower()
    want = np.pad(x, paddings, kind)
    np.testing.assert_array_equal(run(tf.raw_ops.MirrorPad(input=x, paddings=paddings, mode=mode)), want)
    grads = np.random.RandomState(1).randint(-9, 10, want.shape).astype(np.float32)
    places = np.pad(np.arange(x.size).reshape(x.shape), paddings, kind)
    sums = np.bincount(places.ravel(), grads.ravel(), x.size).reshape(x.shape)
    got = run(tf.raw_ops.MirrorPadGrad(input=grads, paddings=paddings, mode=mode))
    np.testing.assert_array_equal(got, sums)


@pytest.mark.parametrize("columns", [1, 8, 31, 32, 33, 63, 64, 65, 100, 200])
def test_any_and_all_of_rows(columns: int) -> None:
    x = np.zeros((2 * columns + 2, columns), bool)
    x[np.arange(columns), np.arange(columns)] = True  # one that is, at each place
    x[columns : 2 * columns] = ~x[:columns]  # one that is not
    x[-1] = True
    np.testing.assert_array_equal(run(tf.reduce_any(x, 1)), x.any(1))
    np.testing.assert_array_equal(run(tf.reduce_all(x, 1)), x.all(1))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_gradients_of_sparse_slices(rank: int) -> None:
    drawn = np.random.RandomState(rank)
    indices = np.argwhere(drawn.uniform(size=(9, 7, 5)[:rank]) < 0.5)
    start = np.asarray([2, 3, 1][:rank], np.int64)
    inside = (indices >= start).all(1)
    grads = drawn.randint(1, 100, np.count_nonzero(inside)).astype(np.float32)
    want = np.zeros(len(indices), np.float32)
    want[inside] = grads
    got = tf.raw_ops.SparseSliceGrad(
        backprop_val_grad=grads,
        input_indices=indices,
        input_start=start,
        output_indices=indices[inside] - start,
    )
    np.testing.assert_array_equal(run(got), want)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_sparse_values_beside_dense_ones(rank: int) -> None:
    drawn = np.random.RandomState(rank)
    shape = (4, 6, 5)[:rank]
    indices = np.argwhere(drawn.uniform(size=shape) < 0.5)
    values = drawn.randint(1, 9, len(indices)).astype(np.float32)
    for sides in (shape, (1, *shape[1:]), (*shape[:-1], 1), shape[1:]):
        dense = drawn.randint(1, 5, sides).astype(np.float32)
        picked = np.broadcast_to(dense, shape)[tuple(indices.T)]
        given = {"sp_indices": indices, "sp_values": values, "sp_shape": list(shape), "dense": dense}
        np.testing.assert_array_equal(run(tf.raw_ops.SparseDenseCwiseAdd(**given)), values + picked)
        np.testing.assert_array_equal(run(tf.raw_ops.SparseDenseCwiseMul(**given)), values * picked)
        np.testing.assert_array_equal(run(tf.raw_ops.SparseDenseCwiseDiv(**given)), values / picked)


@pytest.mark.parametrize(
    "dims, dtype",
    [
        ([], np.int32),
        ([7], np.int32),
        ([3, 1, 1000], np.int32),
        ([2, 2**30 - 1], np.int32),
        ([2**31 - 1], np.int32),
        ([64, 64], np.int64),
        ([3, 2**20, 2**30], np.int64),  # just below the numbers that are exact as double
        ([2**26, 2**26], np.int64),
        ([3, 5, 2**57], np.int64),
        ([2**62 - 1, 2], np.int64),
    ],
)
def test_coordinates_of_indices(dims: list[int], dtype: Any) -> None:
    size = int(np.prod(np.asarray(dims, object))) if dims else 1
    drawn = np.random.default_rng(len(dims))
    indices = [0, size - 1, size // 2, *(int(x) for x in drawn.integers(0, size, 600))]
    want = np.zeros((len(dims), len(indices)), dtype)
    for i, index in enumerate(indices):
        for d in reversed(range(len(dims))):
            index, want[d, i] = divmod(index, dims[d])
    got = run(tf.unravel_index(tf.constant(indices, dtype), tf.constant(dims, dtype)))
    np.testing.assert_array_equal(got, want)
    for wrong in (-1, size):
        if wrong <= np.iinfo(dtype).max:
            with pytest.raises(tf.errors.InvalidArgumentError, match="index is out of bound as with dims"):
                run(tf.unravel_index(tf.constant([0, wrong], dtype), tf.constant(dims, dtype)))
