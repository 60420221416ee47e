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


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64, np.str_])
@pytest.mark.parametrize("width", [1, 17, 64, 65, 300])
def test_sets_of_every_type_and_width_are_those_of_python(need: Any, dtype: Any, width: int) -> None:
    need("DenseToDenseSetOperation")
    signed = dtype in (np.int8, np.int16, np.int32, np.int64)
    rng = np.random.RandomState(width)
    a, b = (rng.randint(-100 if signed else 0, 100, (5, n)).astype(dtype) for n in (width, 2 * width))
    operations = {"union": set.union, "intersection": set.intersection, "difference": set.difference}
    for name, combine in operations.items():
        found = run(getattr(tf.sets, name)(a, b))
        for row in range(len(a)):
            expected = sorted(combine(set(a[row].tolist()), set(b[row].tolist())))
            values = found.values[found.indices[:, 0] == row].tolist()
            assert [v.decode() if isinstance(v, bytes) else v for v in values] == expected
            assert found.indices[found.indices[:, 0] == row][:, 1].tolist() == list(range(len(expected)))


def test_sets_of_rows_in_any_order_are_those_of_python(need: Any) -> None:
    need("SparseToSparseSetOperation")
    rng = np.random.RandomState(3)
    shape = np.array([3, 4, 50], np.int64)
    places = [rng.permutation(600)[:count] for count in (200, 90)]
    indices = [np.stack(np.unravel_index(at, shape), 1).astype(np.int64) for at in places]
    values = [rng.randint(0, 20, len(at)) for at in places]
    found = run(
        tf.raw_ops.SparseToSparseSetOperation(
            set1_indices=indices[0],
            set1_values=values[0],
            set1_shape=shape,
            set2_indices=indices[1],
            set2_values=values[1],
            set2_shape=shape,
            set_operation="a-b",
            validate_indices=False,
        )
    )
    expected = []
    for row in np.ndindex(3, 4):
        sets = [set(v[(at[:, :2] == row).all(1)].tolist()) for at, v in zip(indices, values)]
        expected += [(*row, i, v) for i, v in enumerate(sorted(sets[0] - sets[1]))]
    assert np.column_stack([found[0], found[1]]).tolist() == [list(e) for e in expected]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("dtype", [np.bool_, np.int16, np.float32, np.complex128])
def test_joined_sparse_tensors_are_joined_dense_ones(need: Any, axis: int, ordered: bool, dtype: Any) -> None:
    need("SparseConcat")
    rng = np.random.RandomState(5)
    shapes = [[4, 5, 6], [4, 5, 6], [4, 5, 6]]
    for shape, size in zip(shapes, (3, 1, 7)):
        shape[axis] = size
    dense = [(rng.uniform(size=shape) < 0.4) * rng.randint(1, 9, shape) for shape in shapes]
    dense = [part.astype(dtype) for part in dense]
    parts = []
    for part in dense:
        indices = np.argwhere(part)
        if not ordered:
            indices = rng.permutation(indices)
        parts.append(tf.SparseTensor(indices.astype(np.int64), part[tuple(indices.T)], part.shape))
    found = run(
        tf.raw_ops.SparseConcat(
            indices=[p.indices for p in parts],
            values=[p.values for p in parts],
            shapes=[p.dense_shape for p in parts],
            concat_dim=axis,
        )
    )
    joined = np.concatenate(dense, axis)
    assert found[0].tolist() == np.argwhere(joined).tolist()
    assert found[1].tolist() == joined[joined != 0].tolist()
    assert found[2].tolist() == list(joined.shape)


@pytest.mark.parametrize("ordered", [True, False])
def test_sparse_softmax_is_that_of_what_is_there(need: Any, ordered: bool) -> None:
    need("SparseSoftmax")
    rng = np.random.RandomState(6)
    at = rng.permutation(20 * 30)[:250]
    indices = np.stack([at // 30, at % 30], 1)
    if ordered:
        indices = indices[np.lexsort(indices.T[::-1])]
    values = rng.normal(size=len(indices))
    found = run(tf.raw_ops.SparseSoftmax(sp_indices=indices, sp_values=values, sp_shape=[20, 30]))
    exponentials = np.exp(values)
    sums = np.bincount(indices[:, 0], exponentials, 20)
    np.testing.assert_allclose(found, exponentials / sums[indices[:, 0]], rtol=1e-12)


@pytest.mark.parametrize("width", [1, 3, 8, 20, 700])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_rows_of_ragged_tensors_are_gathered_and_padded(need: Any, width: int, index: Any) -> None:
    need("RaggedGather", "RaggedTensorToTensor")
    rng = np.random.RandomState(7)
    lengths = rng.randint(0, width + 1, 30)
    splits = np.concatenate([[0], np.cumsum(lengths)]).astype(index)
    values = rng.normal(size=splits[-1]).astype(np.float32)
    rows = rng.randint(0, 30, 50)
    found = run(
        tf.raw_ops.RaggedGather(
            params_nested_splits=[splits], params_dense_values=values, indices=rows, OUTPUT_RAGGED_RANK=1
        )
    )
    lists = [values[splits[r] : splits[r + 1]].tolist() for r in range(30)]
    assert np.diff(found[0][0]).tolist() == [len(lists[r]) for r in rows]
    assert found[1].tolist() == [v for r in rows for v in lists[r]]
    for size in (-1, width // 2 + 1, width + 5):
        dense = run(
            tf.raw_ops.RaggedTensorToTensor(
                shape=[28, size],
                values=values,
                default_value=np.float32(-1),
                row_partition_tensors=[splits],
                row_partition_types=["ROW_SPLITS"],
            )
        )
        expected = np.full([28, size if size >= 0 else max(lengths)], -1, np.float32)
        for r in range(28):
            part = lists[r][: expected.shape[1]]
            expected[r, : len(part)] = part
        assert dense.tolist() == expected.tolist()


@pytest.mark.parametrize("classes", [1, 5, 16, 33])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_greedy_decoder_takes_the_first_of_the_best(need: Any, classes: int, dtype: Any) -> None:
    need("CTCGreedyDecoder")
    scores = np.random.RandomState(8).randint(0, 4, (40, 3, classes)).astype(dtype)
    lengths = np.array([40, 0, 7], np.int32)
    for merge in (False, True):
        found = run(
            tf.raw_ops.CTCGreedyDecoder(inputs=scores, sequence_length=lengths, merge_repeated=merge)
        )
        expected = []
        for b, length in enumerate(lengths):
            best = scores[:length, b].argmax(1).tolist()
            kept = [
                c
                for t, c in enumerate(best)
                if c != classes - 1 and not (merge and t > 0 and best[t - 1] == c)
            ]
            expected += [[b, i, c] for i, c in enumerate(kept)]
        assert np.column_stack([found[0], found[1]]).tolist() == expected
        sums = [-scores[:length, b].max(1).sum() for b, length in enumerate(lengths)]
        np.testing.assert_allclose(found[3][:, 0], sums)


def test_sets_of_unequal_groups_are_refused_when_the_graph_is_built(need: Any) -> None:
    need("DenseToDenseSetOperation")
    x = tf.placeholder(tf.int32, [2, None])
    for shape in ([3, 2], [2, 2, 2]):
        with pytest.raises(ValueError):
            tf.sets.intersection(x, tf.zeros(shape, tf.int32))
    assert tf.sets.intersection(x, tf.placeholder(tf.int32, [None, 4])).indices.shape.as_list() == [None, 2]


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
