# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The networks of tf.contrib.slim.nets: numbers of parameters as published, names, shapes, results."""
from __future__ import annotations

from typing import Any, Iterator

import numpy as np
import pytest

import millrace as tf

slim = tf.contrib.slim
nets = slim.nets


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        yield


def parameters() -> int:
    return sum(v.shape.num_elements() for v in tf.trainable_variables())


@pytest.mark.parametrize(
    "network, scope, size, count",
    [
        (nets.alexnet.alexnet_v2, nets.alexnet.alexnet_v2_arg_scope, 224, 50_303_912),
        (nets.overfeat.overfeat, nets.overfeat.overfeat_arg_scope, 231, 145_704_424),
        (nets.vgg.vgg_a, nets.vgg.vgg_arg_scope, 224, 132_863_336),
        (nets.vgg.vgg_16, nets.vgg.vgg_arg_scope, 224, 138_357_544),
        (nets.vgg.vgg_19, nets.vgg.vgg_arg_scope, 224, 143_667_240),
        (nets.resnet_v1.resnet_v1_50, nets.resnet_utils.resnet_arg_scope, 224, 25_557_032),
        (nets.resnet_v1.resnet_v1_101, nets.resnet_utils.resnet_arg_scope, 224, 44_549_160),
    ],
)
def test_parameters(network: Any, scope: Any, size: int, count: int) -> None:
    with slim.arg_scope(scope()):
        logits, end_points = network(tf.zeros([3, size, size, 3]), 1000)
    assert parameters() == count and network.default_image_size == size
    assert logits.shape.as_list()[0] == 3 and logits.shape.as_list()[-1] == 1000
    assert all(name.startswith(network.__name__) or name == "predictions" for name in end_points)


@pytest.mark.parametrize(
    "version, size, count, last",
    [
        (1, 224, 5_607_184, "Mixed_5c"),
        (2, 224, 10_173_112, "Mixed_5c"),
        (3, 299, 21_802_784, "Mixed_7c"),
    ],
)
def test_inception(version: int, size: int, count: int, last: str) -> None:
    base = getattr(nets.inception, "inception_v%d_base" % version)
    with slim.arg_scope(getattr(nets.inception, "inception_v%d_arg_scope" % version)()):
        net, end_points = base(tf.zeros([5, size, size, 3]))
    variables = slim.get_model_variables()
    assert sum(v.shape.num_elements() for v in variables) == count
    assert list(end_points)[-1] == last
    assert net.shape.as_list() == [5, 8, 8, 2048] if version == 3 else [5, 7, 7, 1024]
    with pytest.raises(ValueError, match="Unknown final endpoint nothing"):
        base(tf.zeros([1, size, size, 3]), "nothing", scope="other")


def test_what_inception_computes() -> None:
    x = tf.random_uniform([2, 224, 224, 3])
    with slim.arg_scope(nets.inception.inception_v1_arg_scope()):
        logits, end_points = nets.inception.inception_v1(x, 7, is_training=False)
    assert logits.op.name == "InceptionV1/Logits/SpatialSqueeze"
    assert end_points["Predictions"].op.name.startswith("InceptionV1/Logits/Predictions")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        predictions = session.run(end_points["Predictions"])
    np.testing.assert_allclose(predictions.sum(1), [1.0, 1.0], rtol=1e-5)


def small(version: int, x: Any, **kwargs: Any) -> tuple[Any, Any]:
    module = getattr(nets, "resnet_v%d" % version)
    block = getattr(module, "resnet_v%d_block" % version)
    blocks = [
        block("block1", 1, 3, 2),
        block("block2", 2, 3, 2),
        block("block3", 4, 3, 2),
        block("block4", 8, 2, 1),
    ]
    network = getattr(module, "resnet_v%d" % version)
    return network(x, blocks, 10, scope="resnet", **kwargs)


@pytest.mark.parametrize("version", [1, 2])
def test_strides_become_rates(version: int) -> None:
    """A result with another output stride, subsampled, is that of the network as it is."""
    x = tf.constant(np.random.RandomState(0).rand(2, 81, 81, 3).astype(np.float32))
    with slim.arg_scope(nets.resnet_utils.resnet_arg_scope()):
        nominal, end_points = small(version, x, is_training=False, global_pool=False)
        dense, _ = small(version, x, is_training=False, global_pool=False, output_stride=8, reuse=True)
        with pytest.raises(ValueError, match="The target output_stride cannot be reached."):
            small(version, x, global_pool=False, output_stride=64, reuse=True)
        with pytest.raises(ValueError, match="The output_stride needs to be a multiple of 4."):
            small(version, x, global_pool=False, output_stride=3, reuse=True)
    unit = "resnet/block2/unit_1/bottleneck_v%d" % version
    assert {unit, unit + "/conv2", "resnet/block4", "resnet/logits", "predictions"} <= set(end_points)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        whole, few = session.run([nets.resnet_utils.subsample(dense, 4), nominal])
    np.testing.assert_allclose(whole, few, atol=1e-4, rtol=1e-4)


def test_modules_that_defined_them() -> None:
    from millrace.contrib.slim.python.slim.nets import resnet_v2, vgg

    assert resnet_v2.resnet_v2_50 is nets.resnet_v2.resnet_v2_50 and vgg.vgg_d is vgg.vgg_16
