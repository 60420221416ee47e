# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels that write rows by blocks, beside plain NumPy: rows of every length around a block, with others behind them or none."""
import numpy as np
import pytest

import millrace as tf


def _run(outputs):
    with tf.compat.v1.Session() as session:
        return session.run(outputs)


def _splits(lengths):
    return np.concatenate([[0], np.cumsum(lengths)])


LENGTHS = [
    [0],
    [1],
    [3, 0, 1, 2, 5, 4],
    list(range(40)),
    list(range(39, -1, -1)),
    [8] * 30,
    [16, 17] * 7,
    [300, 1, 0, 257],
]


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("splits_type", [np.int32, np.int64])
def test_ragged_range(lengths, splits_type):
    lengths = np.asarray(lengths)
    for dtype in (np.int32, np.int64, np.float32):
        for delta in (1, 3, -2):
            starts = np.arange(len(lengths)) * 5 - 7
            limits = starts + lengths * delta
            splits, values = _run(
                tf.raw_ops.RaggedRange(
                    starts=tf.constant(starts.astype(dtype)),
                    limits=tf.constant(limits.astype(dtype)),
                    deltas=tf.constant(np.asarray(delta, dtype)),
                    Tsplits=splits_type,
                )
            )
            wanted = [np.arange(n) * delta + s for s, n in zip(starts, lengths, strict=True)]
            assert splits.dtype == splits_type
            np.testing.assert_array_equal(splits, _splits(lengths))
            np.testing.assert_array_equal(values, np.concatenate(wanted).astype(dtype))


def test_ragged_range_at_the_ends_of_integers():
    for dtype in (np.int32, np.int64):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        values = _run(
            tf.raw_ops.RaggedRange(
                starts=tf.constant(np.asarray([high - 9, low, low], dtype)),
                limits=tf.constant(np.asarray([high, low + 3, high], dtype)),
                deltas=tf.constant(np.asarray([1, 1, high], dtype)),
            )
        )[1]
        wanted = [high - 9 + i for i in range(9)] + [low, low + 1, low + 2] + [low, low + high, low + 2 * high]
        np.testing.assert_array_equal(values, np.asarray(wanted, dtype))


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("splits_type", [np.int32, np.int64])
def test_ragged_tensor_to_sparse(lengths, splits_type):
    values = np.arange(sum(lengths), dtype=np.float32)
    indices, out, shape = _run(
        tf.raw_ops.RaggedTensorToSparse(
            rt_nested_splits=[_splits(lengths).astype(splits_type)], rt_dense_values=values
        )
    )
    wanted = [(row, k) for row, n in enumerate(lengths) for k in range(n)]
    np.testing.assert_array_equal(indices, np.asarray(wanted, np.int64).reshape(-1, 2))
    np.testing.assert_array_equal(out, values)
    np.testing.assert_array_equal(shape, [len(lengths), max(lengths)])


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("inner", [(), (3,)])
@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.complex128])
def test_ragged_gather(lengths, inner, dtype):
    random = np.random.RandomState(1)
    splits = _splits(lengths)
    values = random.randint(-99, 99, (sum(lengths), *inner)).astype(dtype)
    for indices in (
        random.randint(0, len(lengths), 50),
        np.arange(len(lengths)),
        np.arange(len(lengths))[::-1],
        np.zeros(0, int),
    ):
        out_splits, out = _run(
            tf.raw_ops.RaggedGather(
                params_nested_splits=[splits],
                params_dense_values=values,
                indices=indices.astype(np.int64),
                OUTPUT_RAGGED_RANK=1,
            )
        )
        rows = [values[splits[i] : splits[i + 1]] for i in indices]
        np.testing.assert_array_equal(out_splits[0], _splits([len(row) for row in rows]))
        np.testing.assert_array_equal(out, np.concatenate([*rows, values[:0]]))


def test_ragged_gather_of_two_depths():
    outer, inner = np.asarray([0, 2, 2, 5, 6]), _splits([3, 0, 9, 1, 20, 2])
    values = np.arange(35)
    for indices in ([3, 0, 2], [1], [2, 2, 1, 0]):
        out_splits, out = _run(
            tf.raw_ops.RaggedGather(
                params_nested_splits=[outer, inner],
                params_dense_values=values,
                indices=np.asarray(indices, np.int32),
                OUTPUT_RAGGED_RANK=2,
            )
        )
        rows = [range(outer[i], outer[i + 1]) for i in indices]
        taken = [row for group in rows for row in group]
        np.testing.assert_array_equal(out_splits[0], _splits([len(row) for row in rows]))
        np.testing.assert_array_equal(out_splits[1], _splits([inner[row + 1] - inner[row] for row in taken]))
        wanted = [values[inner[row] : inner[row + 1]] for row in taken]
        np.testing.assert_array_equal(out, np.concatenate([*wanted, values[:0]]))
