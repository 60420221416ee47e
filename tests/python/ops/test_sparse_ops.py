# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Sparse ops do what NumPy does to the dense arrays."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.python.ops import sparse_ops

RNG = np.random.RandomState(1)


def run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.local_variables_initializer())
        session.run(tf.tables_initializer())
        return session.run(fetches, feed)


DENSE = np.array([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]])
SPARSE = tf.SparseTensorValue(
    np.array([[0, 1], [1, 0], [1, 2]], np.int64), np.array([2.0, 3.0, 4.0]), np.array([2, 3], np.int64)
)


def make() -> Any:
    return tf.SparseTensor.from_value(SPARSE)


def dense_of(value: Any) -> Any:
    result = np.zeros(value.dense_shape, value.values.dtype)
    for index, x in zip(value.indices, value.values):
        result[tuple(index)] = x
    return result


def test_to_and_from_dense() -> None:
    np.testing.assert_array_equal(run(tf.sparse.to_dense(make())), DENSE)
    np.testing.assert_array_equal(run(tf.sparse_tensor_to_dense(make(), default_value=-1.0))[0], [-1, 2, -1])
    np.testing.assert_array_equal(dense_of(run(tf.sparse.from_dense(DENSE))), DENSE)
    np.testing.assert_array_equal(run(tf.sparse_to_dense([[0, 1]], [2, 2], 5)), [[0, 5], [0, 0]])
    assert tf.sparse.to_dense(make()).shape == [2, 3]


def test_sparse_tensor_itself() -> None:
    sp = make()
    assert sp.shape == [2, 3] and sp.dtype == tf.float64 and sp.get_shape() == [2, 3]
    value = sp.eval(session=tf.Session())
    assert isinstance(value, tf.SparseTensorValue) and value.values.tolist() == [2, 3, 4]
    with pytest.raises(ValueError):
        tf.SparseTensor([[0, 0]], [1.0, 2.0], [2])
    with pytest.raises(TypeError):
        tf.convert_to_tensor(sp)


def test_products_of_elements(need: Any) -> None:
    need("SparseDenseCwiseMul", "SparseDenseCwiseDiv")
    sp = make()
    scaled = run(sp * np.array([[2.0], [3.0]]))
    assert scaled.values.tolist() == [4, 9, 12]
    assert run(sp / 2.0).values.tolist() == [1, 1.5, 2]


def test_add_and_extremes(need: Any) -> None:
    need("SparseAdd", "SparseTensorDenseAdd", "SparseSparseMaximum", "SparseSparseMinimum")
    other = tf.SparseTensor([[0, 1], [0, 2]], np.array([-2.0, 5.0]), [2, 3])
    result = run(tf.sparse_add(make(), other, 0.1))
    np.testing.assert_array_equal(dense_of(result), [[0, 0, 5], [3, 0, 4]])
    assert len(result.values) == 3
    np.testing.assert_array_equal(run(tf.sparse_add(make(), DENSE)), 2 * DENSE)
    np.testing.assert_array_equal(run(tf.sparse.add(DENSE, make())), 2 * DENSE)
    np.testing.assert_array_equal(dense_of(run(tf.sparse.maximum(make(), other))), [[0, 2, 5], [3, 0, 4]])
    np.testing.assert_array_equal(dense_of(run(tf.sparse.minimum(make(), other))), [[0, -2, 0], [0, 0, 0]])
    with pytest.raises(TypeError, match="At least one input should be SparseTensor"):
        tf.sparse_add(DENSE, DENSE)


def test_products() -> None:
    b = RNG.randn(3, 4)
    np.testing.assert_allclose(run(tf.sparse_tensor_dense_matmul(make(), b)), DENSE @ b)
    np.testing.assert_allclose(run(tf.sparse.matmul(make(), b[:2], adjoint_a=True)), DENSE.T @ b[:2])
    np.testing.assert_allclose(run(tf.sparse.matmul(make(), b.T, adjoint_b=True)), DENSE @ b)


def test_reductions(need: Any) -> None:
    need("SparseReduceSum", "SparseReduceMax", "SparseReduceSumSparse", "SparseReduceMaxSparse")
    for axis in (None, 0, 1, [0, 1], -1):
        want = np.sum(DENSE, axis=tuple(axis) if isinstance(axis, list) else axis)
        np.testing.assert_allclose(run(tf.sparse_reduce_sum(make(), axis)), want)
        np.testing.assert_allclose(
            run(tf.sparse.reduce_max(make(), axis)),
            np.max(DENSE, axis=tuple(axis) if isinstance(axis, list) else axis) if axis != 0 else [3, 2, 4],
        )
    np.testing.assert_allclose(run(tf.sparse_reduce_sum(make(), 1, keepdims=True)), [[2], [7]])
    assert run(tf.sparse_reduce_sum_sparse(make(), 1)).values.tolist() == [2, 7]
    assert run(tf.sparse.reduce_max_sparse(make(), 1)).values.tolist() == [2, 4]


def test_shapes() -> None:
    np.testing.assert_array_equal(dense_of(run(tf.sparse_reshape(make(), [3, -1]))), DENSE.reshape(3, 2))
    assert tf.sparse_reshape(make(), [3, -1]).shape == [3, 2]
    with pytest.raises(
        ValueError, match="Cannot reshape a tensor with 6 elements to shape \\[5, 2\\] \\(10 elements\\)"
    ):
        tf.sparse_reshape(make(), [5, 2])
    with pytest.raises(
        ValueError, match=r"Cannot reshape a tensor with 6 elements to shape \[4, -1\] \(4 elements\)"
    ):
        tf.sparse_reshape(make(), [4, -1])
    np.testing.assert_array_equal(dense_of(run(tf.sparse_transpose(make()))), DENSE.T)
    np.testing.assert_array_equal(dense_of(run(tf.sparse.expand_dims(make(), 0))), DENSE[None])
    np.testing.assert_array_equal(dense_of(run(tf.sparse_slice(make(), [0, 1], [2, 2]))), DENSE[:, 1:])
    np.testing.assert_array_equal(
        dense_of(run(tf.sparse_concat(1, [make(), make()]))), np.concatenate([DENSE] * 2, 1)
    )
    np.testing.assert_array_equal(
        dense_of(run(tf.sparse_concat(0, [make(), make()]))), np.concatenate([DENSE] * 2, 0)
    )
    parts = run(tf.sparse_split(sp_input=make(), num_split=3, axis=1))
    np.testing.assert_array_equal(dense_of(parts[0]), DENSE[:, :1])
    np.testing.assert_array_equal(dense_of(run(tf.sparse_reset_shape(make(), [3, 4])))[:2, :3], DENSE)
    assert run(tf.sparse_reset_shape(tf.SparseTensor([[0, 1]], [1.0], [5, 5]))).dense_shape.tolist() == [1, 2]
    np.testing.assert_array_equal(dense_of(run(tf.sparse.eye(2, 3))), np.eye(2, 3))


def test_rows_and_choices() -> None:
    result, empty = run(tf.sparse_fill_empty_rows(tf.SparseTensor([[0, 1], [2, 0]], [5, 6], [3, 2]), -1))
    assert result.values.tolist() == [5, -1, 6] and empty.tolist() == [False, True, False]
    assert run(tf.sparse_retain(make(), [True, False, True])).values.tolist() == [2, 4]
    reordered = run(tf.sparse_reorder(tf.SparseTensor([[1, 0], [0, 1]], [7, 8], [2, 2])))
    assert reordered.values.tolist() == [8, 7]
    ids = tf.SparseTensor([[0, 0], [1, 0], [1, 1]], np.array([2, 0, 1], np.int64), [2, 2])
    assert run(tf.sparse_to_indicator(ids, 3)).tolist() == [[False, False, True], [True, True, False]]
    merged = run(tf.sparse_merge(ids, tf.SparseTensor([[0, 0], [1, 0], [1, 1]], [1.0, 2.0, 3.0], [2, 2]), 3))
    np.testing.assert_array_equal(dense_of(merged), [[0, 0, 1], [2, 3, 0]])
    slices = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([3, 5]), tf.constant([6, 1]))
    assert run(tf.sparse_mask(slices, [3])).indices.tolist() == [5]


def test_softmax(need: Any) -> None:
    need("SparseSoftmax")
    soft = run(tf.sparse_softmax(tf.SparseTensor([[0, 0], [0, 2]], [1.0, 1.0], [1, 3])))
    np.testing.assert_allclose(soft.values, [0.5, 0.5])


def test_cross() -> None:
    crossed = run(
        tf.sparse.cross(
            [tf.SparseTensor([[0, 0]], ["a"], [1, 1]), tf.SparseTensor([[0, 0], [0, 1]], ["b", "c"], [1, 2])]
        )
    )
    assert crossed.values.tolist() == [b"a_X_b", b"a_X_c"]
    hashed = run(
        tf.sparse.cross_hashed(
            [tf.SparseTensor([[0, 0]], ["a"], [1, 1]), tf.constant([["b"]])], num_buckets=10
        )
    )
    assert hashed.values.dtype == np.int64 and 0 <= hashed.values[0] < 10


def test_serialization() -> None:
    serialized = tf.serialize_many_sparse(make())
    back = run(tf.deserialize_many_sparse(serialized, tf.float64))
    np.testing.assert_array_equal(dense_of(back), DENSE)
    one = tf.serialize_sparse(make())
    assert one.shape == [3]
    back = run(tf.deserialize_many_sparse(tf.stack([one, one]), tf.float64, rank=2))
    np.testing.assert_array_equal(dense_of(back), [DENSE, DENSE])


def test_sets(need: Any) -> None:
    need("DenseToDenseSetOperation", "SetSize")
    a, b = np.array([[1, 2, 3], [4, 5, 5]]), np.array([[2, 3, 9], [5, 7, 8]])
    assert run(tf.sets.intersection(a, b)).values.tolist() == [2, 3, 5]
    assert run(tf.sets.difference(a, b)).values.tolist() == [1, 4]
    assert run(tf.sets.difference(a, b, aminusb=False)).values.tolist() == [9, 7, 8]
    assert run(tf.sets.union(a, b)).values.tolist() == [1, 2, 3, 9, 4, 5, 7, 8]
    assert run(tf.sets.size(tf.sets.union(a, b))).tolist() == [4, 4]
    with pytest.raises(TypeError, match="Types don't match"):
        tf.sets.union(a, b.astype(np.int32))
    with pytest.raises(TypeError, match="Expected `SparseTensor`"):
        tf.sets.size(a)


def test_reductions_of_absent_dimensions_fail_in_the_step() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        for axis in (2, -3):
            reduced = tf.sparse_reduce_sum(tf.SparseTensor([[0, 1]], [1.0], [2, 3]), axis)
            text = "Invalid reduction dimension %d, for input with 2 dimensions." % axis
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                session.run(reduced)


def test_reductions_and_serialisation_in_second_forms() -> None:
    sp = tf.SparseTensor([[0, 0], [0, 2], [1, 1]], [1.0, 5.0, 2.0], [2, 3])
    with tf.Session() as session:
        assert session.run(tf.compat.v2.sparse.reduce_max(sp, 1)).tolist() == [5, 2]
        assert session.run(tf.compat.v2.sparse.reduce_sum(sp, 1, keepdims=True)).tolist() == [[6], [2]]
        found = session.run(tf.compat.v2.sparse.reduce_sum(sp, axis=0, output_is_sparse=True))
        assert found.values.tolist() == [1, 2, 5] and found.dense_shape.tolist() == [3]
        assert session.run(sparse_ops.serialize_sparse_v2(sp)).shape == (3,)
        assert session.run(sparse_ops.serialize_many_sparse_v2(sp)).shape == (2, 3)
        assert sparse_ops.serialize_sparse_v2(sp, tf.variant).dtype == tf.variant
