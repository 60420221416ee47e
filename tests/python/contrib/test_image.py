# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.contrib.image and tf.contrib.sparsemax beside NumPy."""
import numpy as np
import pytest

import millrace as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def run(fetches):
    with tf.Session() as session:
        return session.run(fetches)


def test_quarter_turns():
    image = np.arange(16, dtype=np.float32).reshape(4, 4)
    for turns in range(4):
        rotated = run(tf.contrib.image.rotate(image, turns * np.pi / 2))
        np.testing.assert_array_equal(rotated, np.rot90(image, turns))
    batch = np.stack([image, image])[..., None]
    rotated = run(tf.contrib.image.rotate(batch, [0.0, np.pi]))
    np.testing.assert_array_equal(rotated[1, :, :, 0], np.rot90(image, 2))


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float16, np.float32, np.float64])
def test_translations(dtype):
    image = np.arange(1, 13).reshape(3, 4, 1).astype(dtype)
    moved = run(tf.contrib.image.translate(image, [1, -1]))
    expected = np.zeros_like(image)
    expected[:-1, 1:] = image[1:, :-1]
    np.testing.assert_array_equal(moved, expected)
    assert moved.dtype == dtype


def test_transforms():
    image = tf.constant(np.arange(16, dtype=np.float32).reshape(4, 4))
    identity = [1, 0, 0, 0, 1, 0, 0, 0]
    np.testing.assert_array_equal(run(tf.contrib.image.transform(image, identity)), run(image))
    smaller = tf.contrib.image.transform(image, identity, output_shape=[2, 3])
    np.testing.assert_array_equal(run(smaller), run(image)[:2, :3])
    half = tf.contrib.image.transform(image, [1, 0, 0.5, 0, 1, 0, 0, 0], interpolation="BILINEAR")
    np.testing.assert_allclose(run(half)[:, :3], run(image)[:, :3] + 0.5)
    with pytest.raises(TypeError, match="Invalid dtype"):
        tf.contrib.image.transform(tf.constant(["a"]), identity)
    with pytest.raises(TypeError, match="Images should have rank between 2 and 4."):
        tf.contrib.image.transform(tf.constant([1.0]), identity)
    with pytest.raises(TypeError, match="Transforms should have rank 1 or 2."):
        tf.contrib.image.transform(image, [[identity]])
    with pytest.raises(ValueError, match="output_shape must be a 1-D Tensor of 2 elements"):
        tf.contrib.image.transform(image, identity, output_shape=[1, 2, 3])


def test_composed_transforms():
    turn = tf.contrib.image.angles_to_projective_transforms(0.3, 5, 7)
    move = tf.contrib.image.translations_to_projective_transforms([2.0, 1.0])
    composed = tf.contrib.image.compose_transforms(turn, move)
    matrices = [run(tf.contrib.image.flat_transforms_to_matrices(t))[0] for t in (turn, move, composed)]
    np.testing.assert_allclose(matrices[2], matrices[0] @ matrices[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        run(tf.contrib.image.matrices_to_flat_transforms(2 * matrices[0]))[0], run(turn)[0]
    )


def test_warped_by_a_flow():
    image = np.arange(24, dtype=np.float32).reshape(1, 4, 6, 1)
    flow = np.zeros((1, 4, 6, 2), np.float32)
    flow[..., 1] = -0.5
    warped = run(tf.contrib.image.dense_image_warp(image, flow))
    np.testing.assert_allclose(warped[0, :, :5, 0], image[0, :, :5, 0] + 0.5)
    np.testing.assert_allclose(warped[0, :, 5, 0], image[0, :, 5, 0])  # moved to the border


def nearest_of_simplex(z):
    """The projection onto the simplex, by trying each size of its support."""
    ordered = np.sort(z)[::-1]
    for k in range(len(z), 0, -1):
        threshold = (ordered[:k].sum() - 1) / k
        if ordered[k - 1] > threshold:
            return np.maximum(z - threshold, 0)
    raise AssertionError


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_sparsemax(dtype):
    z = np.random.RandomState(1).uniform(-3, 3, (20, 10))
    p = run(tf.contrib.sparsemax.sparsemax(z.astype(dtype)))
    np.testing.assert_allclose(
        p, [nearest_of_simplex(row) for row in z], atol=1e-2 if dtype == np.float16 else 1e-5
    )
    assert p.dtype == dtype


def test_sparsemax_of_infinities():
    nan, inf = np.nan, np.inf
    rows = np.array([[0, 0, -inf], [-inf, 0, -inf], [nan, 0, 0], [inf, 0, 0], [-inf] * 3], np.float32)
    p = run(tf.contrib.sparsemax.sparsemax(rows))
    np.testing.assert_array_equal(p, [[0.5, 0.5, 0], [0, 1, 0], [nan] * 3, [nan] * 3, [nan] * 3])


def test_sparsemax_loss():
    z = tf.constant(np.random.RandomState(2).uniform(-3, 3, (8, 5)))
    labels = tf.one_hot([0, 1, 2, 3, 4, 0, 1, 2], 5, dtype=tf.float64)
    p = tf.contrib.sparsemax.sparsemax(z)
    loss = tf.contrib.sparsemax.sparsemax_loss(z, p, labels)
    values, gradient, difference = run([loss, tf.gradients(loss, z)[0], p - labels])
    assert (values >= 0).all()
    np.testing.assert_allclose(gradient, difference, atol=1e-12)  # its definition
