# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Forms of functions that TensorFlow 2 took over, old summaries, staging, in-place ops and lists, against NumPy."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf

from millrace.python.ops import (
    array_ops, check_ops, control_flow_ops, data_flow_ops, embedding_ops, gradients_impl, image_ops, init_ops_v2, inplace_ops,
    linalg_ops, list_ops, logging_ops, math_ops, numerics, sparse_ops, stateful_random_ops, string_ops,
)  # fmt: skip


def _run(value: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        return session.run(value, feeds)


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_arrays() -> None:
    for got, want in (
        (array_ops.boolean_mask_v2(X, [True, False, True], axis=1), X[:, [0, 2]]),
        (array_ops.gather_v2(X, [2, 0], axis=1), X[:, [2, 0]]),
        (array_ops.gather_nd_v2(X, [[[0], [2]], [[1], [1]]], batch_dims=1), X[[[0, 0], [1, 1]], [[0, 2], [1, 1]]]),
        (array_ops.transpose_v2(X, [2, 0, 1]), X.transpose(2, 0, 1)),
        (array_ops.squeeze_v2(X[:1], [0]), X[0]),
        (array_ops.pad_v2(X, [[0, 0], [1, 0], [0, 2]], constant_values=7), np.pad(X, [(0, 0), (1, 0), (0, 2)], constant_values=7)),
        (array_ops.shape_v2(X), [2, 3, 4]),
        (array_ops.size_v2(X), 24),
        (array_ops.zeros_like_v2(X, tf.int32), np.zeros_like(X)),
        (array_ops.ones_like_v2(X), np.ones_like(X)),
        (array_ops.reverse_sequence_v2(X, [1, 2], seq_axis=1, batch_axis=0), np.stack([X[0], X[1][[1, 0, 2]]])),
        (array_ops.space_to_batch_v2(np.ones([1, 2, 2, 1]), [2, 2], [[0, 0], [0, 0]]), np.ones([4, 1, 1, 1])),
        (array_ops.batch_to_space_v2(np.ones([4, 1, 1, 1]), [2, 2], [[0, 0], [0, 0]]), np.ones([1, 2, 2, 1])),
        (array_ops.space_to_depth_v2(np.ones([1, 2, 2, 1]), 2), np.ones([1, 1, 1, 4])),
        (array_ops.depth_to_space_v2(np.ones([1, 1, 1, 4]), 2), np.ones([1, 2, 2, 1])),
        (array_ops.where_v2(X > 5, X, 0.0), np.where(X > 5, X, 0)),
        (math_ops.reduce_sum(X, [0, 2], keepdims=True), X.sum((0, 2), keepdims=True)),
        (linalg_ops.norm_v2(X, axis=[1, 2]), np.sqrt((X**2).sum((1, 2)))),
        (linalg_ops.norm_v2(X, ord=1, axis=-1), np.abs(X).sum(-1)),
        (tf.setdiff1d([1, 2, 3], [2])[0], [1, 3]),
        (array_ops.listdiff([1, 2, 3], [2])[1], [0, 2]),
    ):  # fmt: skip
        np.testing.assert_allclose(_run(got), want, rtol=1e-6)
    assert array_ops.get_positive_axis(-1, 3) == 2
    with pytest.raises(ValueError, match="axis=-4 out of bounds"):
        array_ops.get_positive_axis(-4, 3)
    quantized = _run(array_ops.quantize_v2([0.0, 1.0], 0.0, 1.0, tf.quint8)[0])
    assert quantized.astype(int).tolist() == [0, 255]


def test_texts() -> None:
    assert _run(string_ops.string_length_v2(["aé", "b"], unit="UTF8_CHAR")).tolist() == [2, 1]
    assert _run(string_ops.substr_v2(["hello"], [1], [3])).tolist() == [b"ell"]
    assert _run(string_ops.reduce_join_v2([["a", "b"], ["c", "d"]], axis=1)).tolist() == [b"ab", b"cd"]
    assert _run(string_ops.reduce_join_v2([["a", "b"], ["c", "d"]])) == b"abcd"


def test_segments_of_sparse_rows() -> None:
    ids, segments = [0, 1, 1], [0, 0, 2]
    rows = X[0]
    for function, reduce in (
        (math_ops.sparse_segment_sum_v2, lambda r: r.sum(0)),
        (math_ops.sparse_segment_mean_v2, lambda r: r.mean(0)),
        (math_ops.sparse_segment_sqrt_n_v2, lambda r: r.sum(0) / np.sqrt(len(r))),
    ):
        want = np.zeros([4, 4], np.float32)
        want[0], want[2] = reduce(rows[[0, 1]]), reduce(rows[[1]])
        np.testing.assert_allclose(_run(function(rows, ids, segments, num_segments=4)), want, rtol=1e-5)


def test_types_by_name() -> None:
    x = tf.constant([1.5, -2.5])
    for function, dtype in (
        (tf.to_double, tf.float64), (tf.to_int32, tf.int32), (tf.to_int64, tf.int64), (tf.to_float, tf.float32),
        (tf.to_bfloat16, tf.bfloat16), (tf.to_complex64, tf.complex64), (tf.to_complex128, tf.complex128),
    ):  # fmt: skip
        assert function(x).dtype == dtype
    assert _run(tf.to_int32(x)).tolist() == [1, -2]
    up = _run(tf.math.nextafter(np.float32([1, 0]), np.float32([2, -1])))
    assert up.tolist() == np.nextafter(np.float32([1, 0]), np.float32([2, -1])).tolist()


def test_checks() -> None:
    x = tf.placeholder(tf.float32)
    with tf.Session() as session:
        session.run(check_ops.assert_near_v2(x, 1.0, rtol=0.1), {x: 1.05})
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(check_ops.assert_near_v2(x, 1.0, rtol=0.1), {x: 1.5})
        session.run(check_ops.assert_rank_in_v2(x, [0, 1]), {x: [1.0]})
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(check_ops.assert_rank_in_v2(x, [0, 1]), {x: [[1.0]]})
        with pytest.raises(ValueError):
            check_ops.assert_rank_in_v2(tf.zeros([1, 1]), [0, 1])
        checked = numerics.verify_tensor_all_finite_v2(x, "is bad")
        assert session.run(checked, {x: 2.0}) == 2.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="is bad : Tensor had NaN"):
            session.run(checked, {x: np.nan})
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32)
        tf.negative(x)
        everything = tf.add_check_numerics_ops()
        session.run(everything, {x: 1.0})
        with pytest.raises(tf.errors.InvalidArgumentError, match="Inf"):
            session.run(everything, {x: np.inf})


def test_control_flow() -> None:
    x = tf.placeholder(tf.int32, [])
    with tf.Session() as session:
        chosen = control_flow_ops.cond_for_tf_v2(x > 0, lambda: 1, lambda: 2)
        assert [session.run(chosen, {x: v}) for v in (1, -1)] == [1, 2]
        cases = control_flow_ops.case_v2([(x < 1, lambda: 1), (x > 5, lambda: 2)], default=lambda: 3)
        assert [session.run(cases, {x: v}) for v in (0, 9, 3)] == [1, 2, 3]
    y = tf.constant([1.0, 2.0])
    unknown = tf.UnconnectedGradients.ZERO
    gradients = gradients_impl.gradients_v2(y * y, [y, tf.constant([5.0])], unconnected_gradients=unknown)
    assert [g.tolist() for g in _run(gradients)] == [[2.0, 4.0], [0.0]]
    hessian = _run(gradients_impl.HessiansV2(tf.reduce_sum(y**3), y))
    np.testing.assert_allclose(hessian[0], [[6.0, 0.0], [0.0, 12.0]])


def test_embeddings() -> None:
    table = np.arange(10, dtype=np.float32).reshape(5, 2)
    ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], np.array([1, 3, 4], np.int64), [3, 2])
    want = np.stack([table[[1, 3]].mean(0), [0, 0], table[4]])
    assert _run(embedding_ops.embedding_lookup_v2(table, [4, 0])).tolist() == table[[4, 0]].tolist()
    safe = _run(embedding_ops.safe_embedding_lookup_sparse_v2(table, ids))
    np.testing.assert_allclose(safe, want)
    weights = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], [1.0, 3.0, -1.0], [3, 2])
    weighted = _run(embedding_ops.safe_embedding_lookup_sparse_v2(table, ids, weights))
    np.testing.assert_allclose(weighted, [(table[1] + 3 * table[3]) / 4, [0, 0], [0, 0]])
    dense = tf.SparseTensor([[0, 0], [1, 0]], np.array([1, 3], np.int64), [2, 1])
    np.testing.assert_allclose(
        _run(embedding_ops.embedding_lookup_sparse_v2(table, dense, None, combiner="sum")), table[[1, 3]]
    )


def test_images() -> None:
    image = np.random.RandomState(0).rand(1, 4, 4, 1).astype(np.float32)
    assert (
        _run(image_ops.resize_images_v2(image, [2, 2], method="nearest")).ravel().tolist()
        == image[0, 1::2, 1::2].ravel().tolist()
    )
    half = _run(image_ops.resize_images_v2(image, [2, 2]))
    np.testing.assert_allclose(half[0, :, :, 0], image.reshape(2, 2, 2, 2).mean(axis=(1, 3)), rtol=1e-5)
    padded = _run(image_ops.resize_image_with_pad_v2(image, 4, 8))
    assert padded.shape == (1, 4, 8, 1) and not padded[0, :, :2].any() and not padded[0, :, 6:].any()
    crop = _run(image_ops.crop_and_resize_v2(image, [[0.0, 0.0, 1.0, 1.0]], [0], [4, 4]))
    np.testing.assert_allclose(crop, image, rtol=1e-6)


def test_initializers_of_the_second_form() -> None:
    for made, check in (
        (init_ops_v2.Constant(3), lambda v: np.all(v == 3)),
        (init_ops_v2.RandomUniform(1, 2, seed=1), lambda v: np.all((v >= 1) & (v < 2))),
        (init_ops_v2.TruncatedNormal(0, 1, seed=1), lambda v: np.all(np.abs(v) <= 2)),
        (init_ops_v2.Orthogonal(seed=1), lambda v: np.allclose(v.T @ v, np.eye(4), atol=1e-5)),
        (init_ops_v2.GlorotNormal(seed=1), lambda v: v.std() < 1),
        (init_ops_v2.GlorotUniform(seed=1), lambda v: np.all(np.abs(v) <= np.sqrt(6 / 12))),
        (init_ops_v2.lecun_normal(seed=1), lambda v: v.std() < 1),
        (init_ops_v2.he_uniform(seed=1), lambda v: np.all(np.abs(v) <= np.sqrt(6 / 8))),
        (init_ops_v2.Identity(2.0), lambda v: v[0, 0] == 2 and v[0, 1] == 0),
    ):
        value = _run(made([8, 4]))
        assert value.shape == (8, 4) and check(value), made
        assert type(made).from_config(made.get_config()).get_config() == made.get_config()
    with pytest.raises(ValueError):
        init_ops_v2.GlorotUniform()([2, 2], dtype=tf.int32)


def test_summaries_of_old_programs() -> None:
    x = tf.constant([1.0, 2.0])
    logging_ops.scalar_summary(["a", "b"], x)
    logging_ops.histogram_summary("h", x)
    logging_ops.image_summary("i", tf.zeros([1, 2, 2, 1]), max_images=1)
    logging_ops.audio_summary("s", tf.zeros([1, 10]), 100.0)
    merged = logging_ops.merge_all_summaries()
    summary = tf.Summary.FromString(_run(merged))
    assert [v.tag for v in summary.value] == ["a", "b", "h", "i/image", "s/audio"] or len(summary.value) == 5
    assert [v.simple_value for v in summary.value[:2]] == [1.0, 2.0]
    assert logging_ops.get_summary_op() is not None
    assert _run(logging_ops.timestamp()) > 1.5e9


def test_staging_areas() -> None:
    area = data_flow_ops.StagingArea([tf.float32, tf.int32], shapes=[[2], []], names=["x", "y"], capacity=3)
    put = area.put({"x": tf.constant([1.0, 2.0]), "y": tf.constant(3)})
    assert area.names == ["x", "y"] and area.dtypes == [tf.float32, tf.int32] and area.capacity == 3
    peek, get, size, clear = area.peek(0), area.get(), area.size(), area.clear()
    with tf.Session() as session:
        session.run(put), session.run(put)
        assert (
            session.run(size) == 2
            and session.run(peek)["y"] == 3
            and session.run(get)["x"].tolist() == [1.0, 2.0]
        )
        session.run(clear)
        assert session.run(size) == 0
    table = data_flow_ops.MapStagingArea([tf.float32], ordered=True)
    put = table.put(tf.placeholder_with_default(np.int64(5), []), [tf.constant(7.0)], [0])
    with tf.Session() as session:
        session.run(put)
        assert session.run([table.size(), table.incomplete_size()]) == [1, 0]
        key, value = session.run(table.get())
        assert key == 5 and np.ravel(value)[0] == 7.0
        session.run(table.clear())


def test_rows_in_place() -> None:
    x = tf.constant(X[0])
    one = np.ones(4, np.float32)
    changed = X[0].copy()
    changed[1] = 1
    np.testing.assert_allclose(_run(inplace_ops.inplace_update(x, [1], [one])), changed)
    np.testing.assert_allclose(_run(inplace_ops.alias_inplace_update(tf.identity(x), 1, one)), changed)
    np.testing.assert_allclose(_run(inplace_ops.inplace_add(x, None, tf.ones([3, 4]))), X[0] + 1)
    np.testing.assert_allclose(_run(inplace_ops.inplace_sub(x, [0], [one])), X[0] - [[1], [0], [0]])
    assert _run(inplace_ops.empty_like(x, init=True)).tolist() == np.zeros([3, 4]).tolist()


def test_lists_of_tensors() -> None:
    empty = list_ops.empty_tensor_list([2], tf.float32)
    pushed = list_ops.tensor_list_push_back(list_ops.tensor_list_push_back(empty, [1.0, 2.0]), [3.0, 4.0])
    assert _run(list_ops.tensor_list_length(pushed)) == 2
    assert _run(list_ops.tensor_list_stack(pushed, tf.float32)).tolist() == [[1, 2], [3, 4]]
    split = list_ops.tensor_list_split(tf.constant([[1.0], [2.0], [3.0]]), [-1, 1], [1, 2])
    assert _run(list_ops.tensor_list_get_item(split, 1, tf.float32)).tolist() == [[2.0], [3.0]]
    scattered = list_ops.tensor_list_scatter(tf.constant([[1.0], [2.0]]), [1, 0], [1])
    assert _run(list_ops.tensor_list_stack(scattered, tf.float32)).tolist() == [[2.0], [1.0]]
    x = tf.constant([[1.0], [2.0], [3.0]])
    handle = list_ops.tensor_list_from_tensor(x, [1])
    y = list_ops.tensor_list_get_item(handle, 2, tf.float32) * 5.0
    assert _run(tf.gradients(y, x)[0]).tolist() == [[0.0], [0.0], [5.0]]


def test_sparse_functions() -> None:
    a = tf.SparseTensor([[0, 0], [1, 1]], [1.0, 2.0], [2, 2])
    summed = _run(sparse_ops.sparse_dense_cwise_add(a, tf.constant([[10.0, 0.0], [0.0, 20.0]])))
    assert summed.values.tolist() == [11.0, 22.0]
    doubled = _run(sparse_ops.map_values(tf.multiply, a, 2.0)) if hasattr(sparse_ops, "map_values") else None
    assert doubled is None or doubled.values.tolist() == [2.0, 4.0]
    serialized = tf.serialize_sparse(a)
    again = _run(tf.deserialize_many_sparse([serialized], tf.float32))
    assert again.dense_shape.tolist() == [1, 2, 2]
    again = _run(sparse_ops.deserialize_sparse(serialized, tf.float32))
    assert again.values.tolist() == [1.0, 2.0] and again.dense_shape.tolist() == [2, 2]
    handle = sparse_ops._add_many_sparse_to_tensors_map(a, shared_name="m")
    taken = _run(sparse_ops._take_many_sparse_from_tensors_map(handle.op, handle, rank=2))
    assert taken.values.tolist() == [1.0, 2.0]


def test_generators_of_random_numbers() -> None:
    with tf.Graph().as_default():
        made = stateful_random_ops.Generator.from_seed(7, alg="philox")
        same = stateful_random_ops.Generator.from_state(
            stateful_random_ops.create_rng_state(7, "philox"), "philox"
        )
        first, second, other = made.normal([3]), made.uniform([3]), same.normal([3])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            a = session.run(first)
            b = session.run(other)
            assert a.tolist() == b.tolist() and np.all(session.run(second) < 1)
            whole = session.run(made.uniform([100], 0, 10, dtype=tf.int32))
            assert whole.min() >= 0 and whole.max() < 10
            assert np.abs(session.run(made.truncated_normal([100]))).max() <= 2
        assert made.algorithm == 1 and made.state.shape.as_list() == [3]
