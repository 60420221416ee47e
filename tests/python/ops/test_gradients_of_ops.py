# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients of ops on arrays, matrices and images agree with differences of their values."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf

X = np.random.RandomState(0).rand(3, 4)
ARRAYS = [
    lambda t: tf.tile(t, [2, 3]),
    lambda t: tf.pad(t, [[1, 1], [0, 2]]),
    lambda t: tf.pad(t, [[1, 1], [2, 1]], "REFLECT"),
    lambda t: tf.transpose(t),
    lambda t: tf.gather(t, [2, 0, 2]),
    lambda t: tf.gather(t, [1, 1], axis=1),
    lambda t: tf.gather_nd(t, [[0, 1], [2, 2]]),
    lambda t: tf.concat([t, t], 1),
    lambda t: tf.stack([t, t]),
    lambda t: tf.split(t, 2, 1)[1],
    lambda t: t[1:, ::2],
    lambda t: tf.reverse(t, [0]),
    lambda t: tf.cumsum(t, 1),
    lambda t: tf.cumprod(t, 1),
    lambda t: tf.segment_sum(t, [0, 0, 1]),
    lambda t: tf.unsorted_segment_max(t, [0, 1, 0], 2),
    lambda t: tf.matrix_diag(t),
    lambda t: tf.matrix_band_part(t, 1, 1),
    lambda t: tf.reduce_prod(t, 1),
    lambda t: tf.reduce_max(t, 0),
    lambda t: tf.reduce_logsumexp(t, 0),
    lambda t: tf.tensordot(t, t, [[1], [1]]),
    lambda t: tf.where(t > 0.5, t, -t),
    lambda t: tf.boolean_mask(t, X > 0.3),
    lambda t: tf.clip_by_norm(t, 0.5),
    lambda t: tf.manip.roll(t, [1], [0]),
    lambda t: tf.space_to_batch_nd(tf.reshape(t, [1, 3, 4, 1]), [3, 2], [[0, 0], [0, 0]]),
    lambda t: tf.depth_to_space(tf.reshape(t, [1, 1, 3, 4]), 2),
    lambda t: tf.broadcast_to(t, [2, 3, 4]),
    lambda t: tf.sparse_tensor_dense_matmul(tf.SparseTensor([[0, 1], [1, 2]], np.float64([2, 3]), [2, 3]), t),
    lambda t: tf.extract_image_patches(
        tf.reshape(t, [1, 3, 4, 1]), [1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], "VALID"
    ),
    lambda t: tf.nn.l2_normalize(t, 1),
    lambda t: tf.math.xlogy(t, t + 1),
    lambda t: tf.scatter_nd([[0], [2], [0]], t, [4, 4]),
    lambda t: tf.dynamic_partition(t, [0, 1, 0], 2)[0],
    lambda t: tf.dynamic_stitch([[0, 2], [1]], [t[:2], t[2:]]),
    lambda t: tf.signal.overlap_and_add(t, 2),
    lambda t: tf.map_fn(lambda r: r * r, t),
    lambda t: tf.tensor_scatter_update(t, [[1]], [[1.0] * 4]),
    lambda t: tf.sort(t),
    lambda t: tf.nn.top_k(t, 2)[0],
]
MATRICES = [
    lambda m: tf.cholesky(tf.matmul(m, m, transpose_b=True)),
    tf.matrix_inverse,
    tf.matrix_determinant,
    lambda m: tf.matrix_solve(m, np.ones([3, 1])),
    lambda m: tf.matrix_triangular_solve(m, np.ones([3, 1])),
    lambda m: tf.linalg.expm(m / 10.0),
    lambda m: tf.svd(m, compute_uv=False),
    lambda m: tf.self_adjoint_eigvals((m + tf.transpose(m)) / 2),
    lambda m: tf.linalg.logdet(tf.matmul(m, m, transpose_b=True)),
    lambda m: tf.linalg.slogdet(m)[1],
    lambda m: tf.qr(m)[1],
    tf.norm,
    lambda m: tf.einsum("ij,jk->ik", m, m),
]
IMAGES = [
    lambda t: tf.image.resize_bilinear(t, [2, 3]),
    lambda t: tf.image.resize_bilinear(t, [8, 9], align_corners=True),
    lambda t: tf.image.resize_bicubic(t, [3, 3]),
    lambda t: tf.image.resize_nearest_neighbor(t, [2, 3]),
    lambda t: tf.image.crop_and_resize(t, [[0.1, 0.1, 0.9, 0.9]], [0], [3, 3]),
    lambda t: tf.image.resize_image_with_crop_or_pad(t, 6, 3),
]


def check(function: Any, value: Any, delta: float, limit: float) -> None:
    with tf.Session() as session:
        x = tf.constant(value)
        y = function(x)
        shape = session.run(y).shape
        assert (
            tf.test.compute_gradient_error(x, list(value.shape), y, shape, x_init_value=value, delta=delta)
            < limit
        )


@pytest.mark.parametrize("function", ARRAYS, ids=range(len(ARRAYS)))
def test_arrays(function: Any) -> None:
    check(function, X, 1e-5, 1e-4)


@pytest.mark.parametrize("function", MATRICES, ids=range(len(MATRICES)))
def test_matrices(function: Any) -> None:
    a = np.random.RandomState(0).randn(3, 3)
    check(function, a @ a.T + 3 * np.eye(3), 1e-6, 1e-3)


@pytest.mark.parametrize("function", IMAGES, ids=range(len(IMAGES)))
def test_images(function: Any) -> None:
    check(function, np.random.RandomState(0).rand(1, 4, 6, 1).astype(np.float32), 1 / 8, 1e-2)
