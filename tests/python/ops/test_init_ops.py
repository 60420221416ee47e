# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Initializers give values of the right shape, type and spread."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf

RNG = np.random.RandomState(1)


def run(fetches: Any) -> Any:
    with tf.Session() as session:
        return session.run(fetches)


def test_constants() -> None:
    assert run(tf.zeros_initializer()([2, 2])).tolist() == [[0, 0]] * 2
    assert run(tf.ones_initializer(tf.int32)([2])).dtype == np.int32
    assert run(tf.constant_initializer(3.0)([2, 2])).tolist() == [[3, 3]] * 2
    assert run(tf.constant_initializer([1, 2, 3, 4])([2, 2])).tolist() == [[1, 2], [3, 4]]
    assert run(tf.constant_initializer([1.0, 2.0])([2, 2])).tolist() == [[1, 2], [2, 2]]
    with pytest.raises(ValueError, match="Too many elements provided. Needed at most 2, but received 3"):
        tf.constant_initializer([1, 2, 3])([2])
    with pytest.raises(TypeError, match="Invalid type for initial value"):
        tf.constant_initializer({1: 2})
    with pytest.raises(TypeError, match="Expected Tensor's shape: \\(3,\\), got \\(2,\\)."):
        tf.constant_initializer([1.0, 2.0], verify_shape=True)([3])
    assert run(tf.initializers.identity(2.0)([2, 3])).tolist() == [[2, 0, 0], [0, 2, 0]]
    with pytest.raises(ValueError, match="Identity matrix initializer can only be used for 2D matrices."):
        tf.initializers.identity()([2])


SPREADS = [
    (tf.random_normal_initializer(1.0, 2.0, seed=1), 1.0, 2.0),
    (tf.random_uniform_initializer(-1.0, 3.0, seed=1), 1.0, 4 / 12**0.5),
    (tf.truncated_normal_initializer(1.0, 1.0, seed=1), 1.0, 0.8796),
    (tf.glorot_uniform_initializer(seed=1), 0.0, (2.0 / 300) ** 0.5),
    (tf.glorot_normal_initializer(seed=1), 0.0, (2.0 / 300) ** 0.5),
    (tf.variance_scaling_initializer(2.0, "fan_in", "uniform", seed=1), 0.0, (2.0 / 100) ** 0.5),
    (tf.variance_scaling_initializer(2.0, "fan_out", "untruncated_normal", seed=1), 0.0, (2.0 / 200) ** 0.5),
    (tf.initializers.he_normal(seed=1), 0.0, (2.0 / 100) ** 0.5),
    (tf.initializers.lecun_uniform(seed=1), 0.0, (1.0 / 100) ** 0.5),
    (tf.uniform_unit_scaling_initializer(seed=1), 0.0, (3.0 / 100) ** 0.5 / 3**0.5),
]


@pytest.mark.parametrize(
    "initializer, mean, std", SPREADS, ids=[str(i) + type(s[0]).__name__ for i, s in enumerate(SPREADS)]
)
def test_spreads(initializer: Any, mean: float, std: float) -> None:
    values = run(initializer([100, 200]))
    assert values.shape == (100, 200) and values.dtype == np.float32
    assert abs(values.mean() - mean) < 0.05 * max(std, 0.1) * 5 and abs(values.std() / std - 1) < 0.05
    again = type(initializer).from_config(initializer.get_config())
    assert again.get_config() == initializer.get_config()
    np.testing.assert_array_equal(run(again([100, 200])), values)


def test_fans_of_kernels() -> None:
    values = run(tf.glorot_uniform_initializer(seed=1)([3, 3, 20, 30]))
    limit = np.sqrt(6.0 / (9 * 20 + 9 * 30))
    assert np.abs(values).max() <= limit and np.abs(values).max() > 0.95 * limit


def test_orthogonal() -> None:
    for shape in ([5, 3], [3, 5], [2, 2, 3, 4]):
        values = run(tf.orthogonal_initializer(2.0, seed=1)(shape)).reshape(-1, shape[-1])
        product = values.T @ values if values.shape[0] >= values.shape[1] else values @ values.T
        np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)
    with pytest.raises(ValueError, match="The tensor to initialize must be at least two-dimensional"):
        tf.orthogonal_initializer()([5])


def test_convolutions_that_keep_norms() -> None:
    from millrace.python.ops import init_ops

    for name, shape in (
        ("ConvolutionDeltaOrthogonal", [3, 3, 4, 4]),
        ("ConvolutionOrthogonal2D", [3, 3, 4, 4]),
        ("ConvolutionOrthogonal1D", [3, 4, 4]),
        ("ConvolutionOrthogonal3D", [3, 3, 3, 4, 4]),
    ):
        assert run(getattr(init_ops, name)(seed=1)(shape)).shape == tuple(shape)
    # A convolution with the kernel, over a torus, keeps the norm.
    kernel = run(init_ops.ConvolutionOrthogonal2D(seed=1)([3, 3, 4, 4]))
    x = RNG.randn(1, 6, 6, 4).astype(np.float32)
    padded = np.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], "wrap")
    y = run(tf.nn.conv2d(padded, kernel, [1, 1, 1, 1], "VALID"))
    np.testing.assert_allclose(np.linalg.norm(y), np.linalg.norm(x), rtol=1e-5)
    delta = run(init_ops.ConvolutionDeltaOrthogonal(seed=1)([3, 3, 4, 4]))
    np.testing.assert_allclose(delta[1, 1].T @ delta[1, 1], np.eye(4), atol=1e-5)
    assert not delta[0].any()


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="`scale` must be positive float."):
        tf.variance_scaling_initializer(-1.0)
    with pytest.raises(ValueError, match="Invalid `mode` argument:"):
        tf.variance_scaling_initializer(mode="x")
    with pytest.raises(ValueError, match="Invalid `distribution` argument:"):
        tf.variance_scaling_initializer(distribution="x")
    with pytest.raises(ValueError, match="Expected floating point type, got <dtype: 'int32'>."):
        tf.truncated_normal_initializer(dtype=tf.int32)


def test_initializers_of_version_2() -> None:
    from millrace.python.ops import init_ops_v2

    assert run(init_ops_v2.Zeros()([2], tf.int32)).dtype == np.int32
    assert run(init_ops_v2.Constant(3)([2], tf.float64)).tolist() == [3, 3]
    assert run(init_ops_v2.Identity(2.0)([2, 2])).tolist() == [[2, 0], [0, 2]]
    values = run(init_ops_v2.GlorotUniform(seed=1)([100, 200]))
    np.testing.assert_array_equal(values, run(tf.glorot_uniform_initializer(seed=1)([100, 200])))
    made = init_ops_v2.VarianceScaling(2.0, "fan_out", "uniform", seed=3)
    again = init_ops_v2.VarianceScaling.from_config(made.get_config())
    assert again.get_config() == made.get_config()
    with pytest.raises(ValueError, match="Expected floating point type, got <dtype: 'int32'>."):
        init_ops_v2.RandomNormal()([2], tf.int32)
    with pytest.raises(ValueError, match="Expected numeric or boolean dtype, got <dtype: 'string'>."):
        init_ops_v2.Ones()([2], tf.string)
