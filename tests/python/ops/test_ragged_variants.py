# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Ragged tensors as elements of variant tensors."""
import numpy as np
import pytest

import millrace as tf
from millrace.python.ops import gen_ragged_ops

# [[[1, 2], [3]], [], [[4, 5, 6]]]
OUTER, INNER, VALUES = [0, 2, 2, 3], [0, 2, 3, 6], [1, 2, 3, 4, 5, 6]


def to_variant(splits, values, batched, splits_type=tf.int64):
    splits = [tf.constant(s, splits_type) for s in splits]
    return gen_ragged_ops.ragged_tensor_to_variant(
        splits, tf.convert_to_tensor(values), batched_input=batched
    )


def from_variant(encoded, input_rank, output_rank, values=tf.int32, splits=tf.int64):
    out = gen_ragged_ops.ragged_tensor_from_variant(
        encoded, input_ragged_rank=input_rank, output_ragged_rank=output_rank, Tvalues=values, Tsplits=splits
    )
    return list(out.output_nested_splits) + [out.output_dense_values]


def run(tensors):
    with tf.Session() as sess:
        return [v.tolist() for v in sess.run(tensors)]


@pytest.mark.parametrize("splits", [tf.int32, tf.int64])
def test_there_and_back(splits):
    whole = to_variant([OUTER, INNER], VALUES, False, splits)
    assert whole.shape.as_list() == []
    assert run(from_variant(whole, 2, 2, splits=splits)) == [OUTER, INNER, VALUES]
    rows = to_variant([OUTER, INNER], VALUES, True, splits)
    assert rows.shape.as_list() == [3]
    assert run(from_variant(rows, 1, 2, splits=splits)) == [OUTER, INNER, VALUES]
    assert run(from_variant(rows, -1, 2, splits=splits)) == [OUTER, INNER, VALUES]


def test_one_row():
    rows = to_variant([OUTER, INNER], VALUES, True)
    assert run(from_variant(rows[2], 1, 1)) == [[0, 3], [4, 5, 6]]
    assert run(from_variant(rows[1], 1, 1)) == [[0], []]
    flat = to_variant([OUTER], [[1.5, 2], [3, 4], [5, 6]], True)
    assert run(from_variant(flat, 0, 1, tf.float32)) == [OUTER, [[1.5, 2], [3, 4], [5, 6]]]


def test_batches_of_batches():
    # Two by two ragged tensors of one ragged dimension each.
    encoded = tf.stack([to_variant([[0, n, n + 1]], ["a"] * (n + 1), False) for n in range(4)])
    assert run(from_variant(tf.reshape(encoded, [2, 2]), 1, 3, tf.string)) == [
        [0, 2, 4],
        [0, 2, 4, 6, 8],
        [0, 0, 1, 2, 3, 5, 6, 9, 10],
        [b"a"] * 10,
    ]


def test_no_rows():
    rows = to_variant([[0], [0]], np.zeros([0], np.int32), True)
    assert run(from_variant(rows, 1, 2)) == [[0], [0], []]


@pytest.mark.parametrize(
    "encoded, ranks, message",
    [
        (
            lambda: to_variant([OUTER], [1, 2, 3], False),
            (2, 2),
            r"must hold either input_ragged_rank \+ 1 Tensors",
        ),
        (
            lambda: to_variant([OUTER], [1, 2, 3], False, tf.int32),
            (1, 1),
            "Expected row_splits Tensor dtype: int64",
        ),
        (lambda: to_variant([OUTER], [1.0, 2, 3], False), (1, 1), "Expected values Tensor dtype: int32"),
        (lambda: tf.placeholder_with_default(to_variant([OUTER], [1, 2, 3], False), None), (-1, 1), None),
        (
            lambda: tf.placeholder_with_default(
                tf.reshape(to_variant([OUTER], [1, 2, 3], True), [3, 1]), None
            ),
            (-1, 1),
            "Inferred input_ragged_rank",
        ),
        (
            lambda: tf.placeholder_with_default(to_variant([OUTER], [1, 2, 3], True), None),
            (1, 1),
            "output_ragged_rank must be equal to input_ragged_rank",
        ),
        (lambda: to_variant([[0, 2, 1]], [1, 2, 3], True), (0, 1), "Invalid split argument"),
        (lambda: to_variant([[0, 9]], [1, 2, 3], True), (0, 1), "Invalid split argument"),
        (lambda: to_variant([[0, 9], [0, 1, 2]], [1, 2, 3], True), (1, 2), "Invalid split argument"),
        (
            lambda: tf.stack([to_variant([[0, 1]], v, False) for v in ([[1]], [[1, 2]])]),
            (1, 2),
            "flat_values must have compatible shapes",
        ),
        (lambda: tf.data.Dataset.range(3)._variant_tensor, (1, 1), "index 0 doesn't hold a Tensor"),
    ],
)
def test_wrong_encodings(encoded, ranks, message):
    tensors = from_variant(encoded(), *ranks)
    if message is None:
        assert run(tensors) == [OUTER, [1, 2, 3]]
        return
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        run(tensors)


def test_tables_hold_variants():
    keys = tf.constant([3, 5], tf.int64)
    values = tf.stack([to_variant([OUTER], [1, 2, 3], False), to_variant([[0, 1]], [7], False)])
    from millrace.python.ops import gen_lookup_ops

    table = gen_lookup_ops.mutable_hash_table_v2(key_dtype=tf.int64, value_dtype=tf.variant, shared_name="t")
    empty = to_variant([[0]], np.zeros([0], np.int32), False)
    with tf.Session() as sess:
        sess.run(gen_lookup_ops.lookup_table_insert_v2(table, keys, values))
        found = gen_lookup_ops.lookup_table_find_v2(table, tf.constant([5, 3, 4], tf.int64), empty)
        got = sess.run([from_variant(found[i], 1, 1)[1] for i in range(3)])
    assert [v.tolist() for v in got] == [[7], [1, 2, 3], []]
