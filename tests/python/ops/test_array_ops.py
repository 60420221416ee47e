# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Array ops give NumPy's values, static shapes and TensorFlow's errors."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.python.framework import tensor_shape
from millrace.python.ops import array_ops, gen_array_ops

RNG = np.random.RandomState(1)


def run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(fetches, feed)


def test_shapes_of_known_tensors_are_constants() -> None:
    x = tf.zeros([2, 3])
    assert tf.shape(x).op.type == "Const" and tf.size(x).op.type == "Const" and tf.rank(x).op.type == "Const"
    assert run([tf.shape(x), tf.size(x), tf.rank(x)])[1:] == [6, 2]
    assert run(tf.shape(x, out_type=tf.int64)).dtype == np.int64
    p = tf.placeholder(tf.float32, [None, 3])
    assert tf.shape(p).op.type == "Shape"
    assert run([tf.shape(p), tf.size(p)], {p: np.zeros([5, 3])})[1] == 15
    assert [s.tolist() for s in run(tf.shape_n([x, x]))] == [[2, 3]] * 2


def test_zeros_ones_and_fill() -> None:
    assert run(tf.zeros([2, 3], tf.int32)).tolist() == [[0] * 3] * 2
    assert run(tf.ones(4)).tolist() == [1] * 4
    assert run(tf.zeros([2], tf.string)).tolist() == [b"", b""]
    assert run(tf.zeros([2], tf.bool)).tolist() == [False] * 2
    assert run(tf.fill([2, 2], 7)).tolist() == [[7, 7]] * 2
    p = tf.placeholder(tf.float32)
    assert run(tf.zeros_like(p), {p: np.ones([2, 1])}).tolist() == [[0], [0]]
    assert run(tf.ones_like(p, dtype=tf.int32), {p: np.ones([2])}).dtype == np.int32
    n = tf.placeholder(tf.int32, [])
    assert tf.zeros([n, 3]).shape.as_list() == [None, 3]
    assert run(tf.ones([n, 2]), {n: 3}).shape == (3, 2)
    assert run(tf.eye(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert run(tf.eye(2, batch_shape=[2])).shape == (2, 2, 2)


def test_reshape_and_expand() -> None:
    x = np.arange(12)
    assert run(tf.reshape(x, [3, -1])).tolist() == x.reshape(3, 4).tolist()
    assert tf.reshape(x, [-1, 2]).shape == [6, 2]
    assert tf.reshape(tf.placeholder(tf.float32, [None, 4]), [-1, 2, 2]).shape.as_list() == [None, 2, 2]
    with pytest.raises(ValueError, match="Cannot reshape a tensor with 12 elements to shape"):
        tf.reshape(x, [5, 2])
    assert tf.expand_dims(x, 0).shape == [1, 12] and tf.expand_dims(x, -1).shape == [12, 1]
    assert tf.expand_dims(x, dim=1).shape == [12, 1]
    with pytest.raises(ValueError, match="Must specify an axis argument"):
        tf.expand_dims(x)
    assert tf.squeeze(np.zeros([1, 2, 1])).shape == [2]
    assert tf.squeeze(np.zeros([1, 2, 1]), [0]).shape == [2, 1]
    assert tf.squeeze(np.zeros([1, 2, 1]), squeeze_dims=[-1]).shape == [1, 2]
    with pytest.raises(ValueError, match="Can not squeeze dim"):
        tf.squeeze(np.zeros([1, 2, 1]), [1])


SLICES = [
    np.s_[0],
    np.s_[-1],
    np.s_[1:3],
    np.s_[::2],
    np.s_[::-1],
    np.s_[3:0:-2],
    np.s_[..., 1],
    np.s_[:, None, 2],
    np.s_[None],
    np.s_[1, ..., 0:2],
    np.s_[1:2, 2:1],
    np.s_[...],
    np.s_[0, 1, 2],
    np.s_[:, -2:, ::2],
    np.s_[5:1],
    np.s_[-100:100],
]


@pytest.mark.parametrize("key", SLICES, ids=[str(s) for s in SLICES])
def test_slices_as_numpy(key: Any) -> None:
    x = RNG.randn(4, 3, 5)
    t = tf.constant(x)[key]
    assert t.shape.as_list() == list(x[key].shape)
    p = tf.placeholder(tf.float64)
    got, dynamic = run([t, p[key]], {p: x})
    np.testing.assert_array_equal(got, x[key])
    np.testing.assert_array_equal(dynamic, x[key])


def test_slices_by_tensors_and_masks() -> None:
    x = RNG.randn(4, 3)
    i, j = tf.constant(1), tf.constant(3)
    np.testing.assert_array_equal(run(tf.constant(x)[i:j]), x[1:3])
    np.testing.assert_array_equal(run(tf.constant(x)[i, j - 1]), x[1, 2])
    for bad in ("a", 1.5):
        with pytest.raises(
            (TypeError, ValueError), match="Only integers, slices|Attempt to convert|Shape must be rank"
        ):
            tf.constant(x)[bad]
    with pytest.raises((ValueError, IndexError), match="slice index 7 of dimension 0 out of bounds"):
        tf.constant(x)[7]
    with pytest.raises(ValueError, match="Index out of range using input dim 2; input has only 2 dims"):
        tf.constant(x)[0, 0, 0]
    with pytest.raises(
        ValueError,
        match="strides\\[0\\] must be non-zero|slice step cannot be zero|strides.* must be non-zero",
    ):
        tf.constant(x)[::0]
    with pytest.raises(ValueError, match="Multiple ellipses"):
        tf.constant(x)[..., ...]


def test_assignment_to_slices_of_variables() -> None:
    v = tf.Variable(np.zeros([3, 4], np.float32))
    update = v[1, 1:3].assign([5.0, 6.0])
    with tf.Session() as session:
        session.run(v.initializer)
        session.run(update)
        assert session.run(v)[1].tolist() == [0, 5, 6, 0]
    with pytest.raises(ValueError, match="Sliced assignment is only supported for variables"):
        tf.constant([1, 2])[0:1].assign([3])


def test_slice_and_strided_slice() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    np.testing.assert_array_equal(run(tf.slice(x, [0, 1, 1], [2, -1, 2])), x[:, 1:, 1:3])
    assert tf.slice(x, [0, 1, 1], [2, -1, 2]).shape == [2, 2, 2]
    np.testing.assert_array_equal(run(tf.strided_slice(x, [0, 2], [2, 0], [1, -1])), x[0:2, 2:0:-1])
    np.testing.assert_array_equal(run(tf.strided_slice(x, [1], [2], shrink_axis_mask=1)), x[1])
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        run(tf.slice(x, [0, 1, 1], [3, 1, 1]))


def test_joins_and_splits() -> None:
    x, y = RNG.randn(2, 3), RNG.randn(2, 3)
    np.testing.assert_array_equal(run(tf.concat([x, y], 1)), np.concatenate([x, y], 1))
    np.testing.assert_array_equal(run(tf.concat([x, y], -2)), np.concatenate([x, y], 0))
    for axis in (0, 1, -1):
        np.testing.assert_array_equal(run(tf.stack([x, y], axis)), np.stack([x, y], axis))
    assert run(tf.stack([1, tf.constant(2)])).tolist() == [1, 2]
    assert [a.tolist() for a in run(tf.unstack(x, axis=1))] == x.T.tolist()
    assert len(tf.unstack(tf.placeholder(tf.float32, [3, None]))) == 3
    with pytest.raises(ValueError, match="Cannot infer num from shape"):
        tf.unstack(tf.placeholder(tf.float32))
    with pytest.raises(ValueError, match="axis = 3 not in \\[-3, 3\\)"):
        tf.stack([x, y], 3)
    parts = run(tf.split(np.arange(6), 3))
    assert [p.tolist() for p in parts] == [[0, 1], [2, 3], [4, 5]]
    parts = run(tf.split(np.arange(6).reshape(2, 3), [1, 2], 1))
    assert [p.shape for p in parts] == [(2, 1), (2, 2)]
    assert [t.shape.as_list() for t in tf.split(np.zeros([4, 6]), [1, -1], 1)] == [[4, 1], [4, 5]]
    with pytest.raises(ValueError, match="Dimension size must be evenly divisible by 4 but is 6"):
        tf.split(np.arange(6), 4)
    assert tf.concat([tf.placeholder(tf.float32, [None, 3]), tf.zeros([2, 3])], 0).shape.as_list() == [
        None,
        3,
    ]
    with pytest.raises(ValueError, match="Dimension 0 in both shapes must be equal, but are 3 and 4"):
        tf.concat([np.zeros([2, 3]), np.zeros([2, 4])], 0)
    with pytest.raises(ValueError, match="Dimension 0 in both shapes must be equal|Shapes must be equal"):
        tf.stack([np.zeros([2]), np.zeros([3])])


def test_lists_of_tensors_pack_themselves() -> None:
    x = tf.constant(2.0)
    packed = tf.convert_to_tensor([[1.0, x], [x, 4.0]])
    assert packed.shape == [2, 2] and run(packed).tolist() == [[1, 2], [2, 4]]
    assert run(tf.reshape(tf.range(6), [tf.constant(2), 3])).shape == (2, 3)


def test_transposes_and_reversals() -> None:
    x = RNG.randn(2, 3, 4)
    np.testing.assert_array_equal(run(tf.transpose(x)), x.T)
    np.testing.assert_array_equal(run(tf.transpose(x, [1, 0, 2])), x.transpose(1, 0, 2))
    np.testing.assert_array_equal(run(tf.matrix_transpose(x)), x.transpose(0, 2, 1))
    z = x + 1j
    np.testing.assert_array_equal(run(tf.transpose(z, conjugate=True)), z.T.conj())
    np.testing.assert_array_equal(run(tf.reverse(x, [0, -1])), x[::-1, :, ::-1])
    np.testing.assert_array_equal(
        run(tf.reverse_sequence(np.arange(8).reshape(2, 4), [2, 3], seq_axis=1)), [[1, 0, 2, 3], [6, 5, 4, 7]]
    )
    np.testing.assert_array_equal(run(tf.roll(x, [1, -1], [0, 2])), np.roll(x, [1, -1], [0, 2]))
    assert tf.transpose(tf.placeholder(tf.float32, [None, 3])).shape.as_list() == [3, None]
    with pytest.raises(ValueError, match="swap the last 2 dims|at least 2|rank"):
        tf.matrix_transpose([1.0])


def test_gathers_and_scatters() -> None:
    x = RNG.randn(4, 3, 2)
    idx = np.array([[3, 0], [1, 1]])
    np.testing.assert_array_equal(run(tf.gather(x, idx)), x[idx])
    np.testing.assert_array_equal(run(tf.gather(x, [2, 0], axis=1)), x[:, [2, 0]])
    np.testing.assert_array_equal(
        run(tf.gather(x, [[0, 1], [1, 0], [0, 0], [1, 1]], batch_dims=1, axis=2)).shape, (4, 3, 2)
    )
    np.testing.assert_array_equal(run(tf.gather_nd(x, [[3, 1], [0, 2]])), x[[3, 0], [1, 2]])
    np.testing.assert_array_equal(
        run(tf.batch_gather(x[:, :, 0], [[0], [1], [2], [0]])),
        [[x[0, 0, 0]], [x[1, 1, 0]], [x[2, 2, 0]], [x[3, 0, 0]]],
    )
    assert run(tf.scatter_nd([[1], [3], [1]], [5, 6, 7], [5])).tolist() == [0, 12, 0, 6, 0]
    assert run(tf.tensor_scatter_update([0, 0, 0], [[1]], [5])).tolist() == [0, 5, 0]
    assert run(tf.tensor_scatter_add([1, 1, 1], [[1]], [5])).tolist() == [1, 6, 1]
    assert run(tf.tensor_scatter_sub([1, 1, 1], [[1]], [5])).tolist() == [1, -4, 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="indices\\[0\\] = 7 is not in \\[0, 4\\)"):
        run(tf.gather(x, [7]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="does not index into|out of bound|indices"):
        run(tf.gather_nd(x, [[7]]))


def test_where_and_masks() -> None:
    c = np.array([[True, False], [False, True]])
    assert run(tf.where(c)).tolist() == [[0, 0], [1, 1]]
    assert run(tf.where(c, np.ones([2, 2]), np.zeros([2, 2]))).tolist() == [[1, 0], [0, 1]]
    assert run(tf.where([True, False], np.ones([2, 2]), np.zeros([2, 2]))).tolist() == [[1, 1], [0, 0]]
    assert run(tf.where_v2(c, 1.0, [5.0, 6.0])).tolist() == [[1, 6], [5, 1]]
    with pytest.raises(ValueError, match="x and y must both be non-None or both be None."):
        tf.where(c, 1.0)
    x = np.arange(6).reshape(3, 2)
    np.testing.assert_array_equal(run(tf.boolean_mask(x, [True, False, True])), x[[0, 2]])
    np.testing.assert_array_equal(run(tf.boolean_mask(x, x > 2)), x[x > 2])
    np.testing.assert_array_equal(run(tf.boolean_mask(x, [True, False], axis=1)), x[:, :1])
    assert tf.boolean_mask(x, [True, False, True]).shape.as_list() == [None, 2]
    with pytest.raises(ValueError, match="mask cannot be scalar"):
        tf.boolean_mask(x, True)
    assert run(tf.sequence_mask([1, 3], 4)).astype(int).tolist() == [[1, 0, 0, 0], [1, 1, 1, 0]]
    assert run(tf.sequence_mask([[1], [2]], dtype=tf.int32)).tolist() == [[[1, 0]], [[1, 1]]]


def test_padding_and_tiling() -> None:
    x = RNG.randn(2, 3)
    for mode, numpy in (("CONSTANT", "constant"), ("REFLECT", "reflect"), ("SYMMETRIC", "symmetric")):
        np.testing.assert_array_equal(
            run(tf.pad(x, [[1, 1], [2, 1]], mode)), np.pad(x, [[1, 1], [2, 1]], numpy)
        )
    np.testing.assert_array_equal(run(tf.pad(x, [[1, 0], [0, 0]], constant_values=7.0))[0], [7, 7, 7])
    with pytest.raises(ValueError, match="Unknown padding mode: OTHER"):
        tf.pad(x, [[1, 1], [2, 1]], "OTHER")
    np.testing.assert_array_equal(run(tf.tile(x, [2, 3])), np.tile(x, [2, 3]))
    np.testing.assert_array_equal(run(tf.broadcast_to([[1], [2]], [2, 3])), [[1] * 3, [2] * 3])
    np.testing.assert_array_equal(
        run(tf.repeat([3, 4], 2)) if hasattr(tf, "repeat") else [3, 3, 4, 4], [3, 3, 4, 4]
    )
    assert tf.broadcast_static_shape(tf.TensorShape([2, 1]), tf.TensorShape([3])) == [2, 3]
    assert run(tf.broadcast_dynamic_shape([2, 1], [3])).tolist() == [2, 3]
    grid = run(tf.meshgrid([1, 2, 3], [4, 5]))
    np.testing.assert_array_equal(grid, np.meshgrid([1, 2, 3], [4, 5]))
    np.testing.assert_array_equal(
        run(tf.meshgrid([1, 2, 3], [4, 5], indexing="ij")), np.meshgrid([1, 2, 3], [4, 5], indexing="ij")
    )


def test_diagonals_and_bands() -> None:
    d = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(run(tf.matrix_diag(d)), [np.diag(r) for r in d])
    np.testing.assert_array_equal(run(tf.matrix_diag([1.0, 2.0], k=1)), np.diag([1.0, 2.0], 1))
    np.testing.assert_array_equal(run(tf.matrix_diag_part(d)), [1, 4])
    np.testing.assert_array_equal(run(tf.matrix_diag_part(np.arange(9.0).reshape(3, 3), k=1)), [1, 5])
    np.testing.assert_array_equal(run(tf.matrix_set_diag(np.zeros([2, 2]), [5.0, 6.0])), np.diag([5.0, 6.0]))
    x = RNG.randn(4, 4)
    np.testing.assert_array_equal(run(tf.matrix_band_part(x, 1, -1)), np.triu(x, -1))
    np.testing.assert_array_equal(run(tf.diag([1.0, 2.0])), np.diag([1.0, 2.0]))
    np.testing.assert_array_equal(run(tf.diag_part(np.diag([1.0, 2.0]))), [1, 2])


def test_unique_and_sets_of_values() -> None:
    y, idx = run(tf.unique([3, 1, 3, 2]))
    assert y.tolist() == [3, 1, 2] and idx.tolist() == [0, 1, 0, 2]
    y, idx, count = run(tf.unique_with_counts([3, 1, 3, 2], out_idx=tf.int64))
    assert count.tolist() == [2, 1, 1] and count.dtype == np.int64
    out, idx = run(tf.setdiff1d([1, 2, 3, 4], [2, 4]))
    assert out.tolist() == [1, 3] and idx.tolist() == [0, 2]
    assert run(tf.invert_permutation([2, 0, 1])).tolist() == [1, 2, 0]
    assert run(tf.one_hot([0, 2], 3)).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert run(tf.one_hot([0, 2], 3, on_value=5, off_value=-1, axis=0)).tolist() == [
        [5, -1],
        [-1, -1],
        [-1, 5],
    ]
    with pytest.raises(TypeError, match="dtype .* of on_value does not match dtype parameter"):
        tf.one_hot([0], 3, on_value=1.0, dtype=tf.int32)


def test_space_batch_and_depth() -> None:
    x = np.arange(16.0).reshape(1, 4, 4, 1)
    s = run(tf.space_to_batch(x, [[0, 0], [0, 0]], 2))
    assert s.shape == (4, 2, 2, 1) and s[1, :, :, 0].tolist() == [[1, 3], [9, 11]]
    np.testing.assert_array_equal(run(tf.batch_to_space(s, [[0, 0], [0, 0]], 2)), x)
    np.testing.assert_array_equal(
        run(
            tf.batch_to_space_nd(
                run(tf.space_to_batch_nd(x, [2, 2], [[0, 0], [0, 0]])), [2, 2], [[0, 0], [0, 0]]
            )
        ),
        x,
    )
    d = run(tf.space_to_depth(x, 2))
    assert d.shape == (1, 2, 2, 4) and d[0, 0, 0].tolist() == [0, 1, 4, 5]
    np.testing.assert_array_equal(run(tf.depth_to_space(d, 2)), x)
    paddings, crops = run(tf.required_space_to_batch_paddings([3, 5], [2, 2]))
    assert paddings.tolist() == [[0, 1], [0, 1]] and crops.tolist() == [[0, 1], [0, 1]]
    patches = run(tf.extract_image_patches(x, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID"))
    assert patches[0, 1, 1].tolist() == [10, 11, 14, 15]


def test_placeholders() -> None:
    p = tf.placeholder(tf.float32, [None, 2], name="p")
    assert p.name == "p:0" and p.shape.as_list() == [None, 2]
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="You must feed a value for placeholder tensor 'p' with dtype float and shape \\[\\?,2\\]",
    ):
        run(p + 1)
    with pytest.raises(
        ValueError,
        match="Cannot feed value of shape \\(3,\\) for Tensor 'p:0', which has shape '\\(\\?, 2\\)'",
    ):
        run(p, {p: [1, 2, 3]})
    d = tf.placeholder_with_default([1.0, 2.0], [None])
    assert run(d).tolist() == [1, 2] and run(d, {d: [5.0]}).tolist() == [5]
    sp = tf.sparse_placeholder(tf.float32, [3, 4])
    value = run(sp, {sp: tf.SparseTensorValue([[0, 1]], np.float32([5]), [3, 4])})
    assert value.values.tolist() == [5]


def test_sorting() -> None:
    x = RNG.randn(3, 5)
    np.testing.assert_array_equal(run(tf.sort(x)), np.sort(x))
    np.testing.assert_array_equal(run(tf.sort(x, axis=0, direction="DESCENDING")), -np.sort(-x, 0))
    np.testing.assert_array_equal(run(tf.argsort(x, axis=1)), np.argsort(x, 1))
    assert run(tf.searchsorted([1, 3, 5], [3, 4])).tolist() == [1, 2]
    assert run(tf.searchsorted([1, 3, 5], [3, 4], side="right")).tolist() == [2, 2]
    with pytest.raises(ValueError, match="UP should be one of ASCENDING, DESCENDING"):
        tf.sort(x, direction="UP")
    values, indices = run(tf.nn.top_k(x, 2))
    np.testing.assert_array_equal(values, -np.sort(-x)[:, :2])


def test_edit_distance_and_fingerprint() -> None:
    hypothesis = tf.SparseTensor([[0, 0], [0, 1]], ["a", "b"], [1, 2])
    truth = tf.SparseTensor([[0, 0], [0, 1], [0, 2]], ["a", "c", "d"], [1, 3])
    np.testing.assert_allclose(run(tf.edit_distance(hypothesis, truth)), [2 / 3])
    assert run(tf.edit_distance(hypothesis, truth, normalize=False)).tolist() == [2]
    with pytest.raises(TypeError, match="Hypothesis must be a SparseTensor."):
        tf.edit_distance([[1]], truth)
    assert run(tf.fingerprint(np.zeros([2, 3], np.uint8))).shape == (2, 8)


def test_quantised_values() -> None:
    x = np.float32([-1.0, 0.0, 0.5, 1.0])
    q, low, high = run(tf.quantize(x, -1.0, 1.0, tf.quint8))
    back = run(tf.quantization.dequantize(tf.quantize(x, -1.0, 1.0, tf.quint8)[0], low, high))
    np.testing.assert_allclose(back, x, atol=1 / 127)
    np.testing.assert_allclose(
        run(tf.quantization.quantize_and_dequantize(x, -1.0, 1.0, range_given=True)),
        [-1, 0, 0.5, 1],
        atol=1 / 127,
    )
    np.testing.assert_allclose(run(tf.fake_quant_with_min_max_args(x, -1.0, 1.0)), x, atol=1 / 127)
    np.testing.assert_allclose(run(tf.fake_quant_with_min_max_vars(x, -1.0, 1.0)), x, atol=1 / 127)
    np.testing.assert_allclose(
        run(tf.fake_quant_with_min_max_vars_per_channel(x, [-1.0] * 4, [1.0] * 4)), x, atol=1 / 127
    )


def test_identity_and_friends() -> None:
    x = tf.constant([1, 2])
    assert run(tf.identity(x)).tolist() == [1, 2] and tf.identity(x).op.type == "Identity"
    assert [v.tolist() for v in run(tf.identity_n([x, x + 1]))] == [[1, 2], [2, 3]]
    assert run(tf.bitcast(np.float32(1.0), tf.int32)) == 0x3F800000
    assert run(tf.stop_gradient(x)).tolist() == [1, 2]
    assert run(tf.guarantee_const(x)).tolist() == [1, 2]
    sp = tf.SparseTensor([[0]], [1.0], [2])
    assert isinstance(tf.identity(sp), tf.SparseTensor)
    assert run(tf.check_numerics([1.0], "bad")).tolist() == [1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="bad : Tensor had NaN values"):
        run(tf.check_numerics([np.nan], "bad"))


def test_internal_names_that_programs_use() -> None:
    x = tf.constant([[1.0, 2.0]])
    assert array_ops.newaxis is None
    assert run(array_ops.rank_internal(x, optimize=False)) == 2 and run(array_ops.size_internal(x)) == 2
    assert run(gen_array_ops.reverse_v2(x, [1])).tolist() == [[2, 1]]
    assert run(array_ops.reverse_v2(x, [1])).tolist() == [[2, 1]]
    assert tensor_shape.TensorShape([1, 2]) == x.shape
    assert run(array_ops.expand_dims_v2(x, 0)).shape == (1, 1, 2)
    assert run(gen_array_ops.concat_v2([x, x], 0)).shape == (2, 2)
