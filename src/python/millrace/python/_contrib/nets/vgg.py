# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The VGG networks, of Simonyan and Zisserman, "Very deep convolutional networks"."""
from __future__ import annotations

from typing import Any

from millrace.python._contrib import layers
from millrace.python._contrib.arg_scope import arg_scope
from millrace.python._contrib.nets import _common
from millrace.python._contrib.nets._common import conv2d, dropout, fully_connected, max_pool2d
from millrace.python.ops import variable_scope


def vgg_arg_scope(weight_decay: float = 0.0005) -> Any:
    """The arguments of the layers of the VGG networks."""
    with _common.plain_arg_scope(weight_decay, 0.0):
        with arg_scope([conv2d], padding="SAME") as scope:
            return scope


def _vgg(
    repetitions: list[int],
    name: str,
    inputs: Any,
    num_classes: int,
    is_training: Any,
    keep_prob: float,
    spatial_squeeze: bool,
    scope: str,
) -> tuple[Any, Any]:
    with variable_scope.variable_scope(scope, name, [inputs]) as sc:
        collection = sc.original_name_scope + "_end_points"
        with arg_scope([conv2d, fully_connected, max_pool2d], outputs_collections=collection):
            net = inputs
            for i, (count, depth) in enumerate(zip(repetitions, (64, 128, 256, 512, 512)), 1):
                net = layers.repeat(net, count, conv2d, depth, [3, 3], scope="conv%d" % i)
                net = max_pool2d(net, [2, 2], scope="pool%d" % i)
            # Fully connected layers as convolutions, so that images may be larger.
            net = conv2d(net, 4096, [7, 7], padding="VALID", scope="fc6")
            net = dropout(net, keep_prob, is_training=is_training, scope="dropout6")
            net = conv2d(net, 4096, [1, 1], scope="fc7")
            net = dropout(net, keep_prob, is_training=is_training, scope="dropout7")
            net = conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="fc8")
        return _common.end_points(collection, sc, net, spatial_squeeze)


def vgg_a(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True,
    scope: str = "vgg_a",
) -> tuple[Any, Any]:
    """Logits [batch, num_classes] of images [batch, 224, 224, channels] by 11 layers, and their outputs."""
    return _vgg(
        [1, 1, 2, 2, 2], "vgg_a", inputs, num_classes, is_training, dropout_keep_prob, spatial_squeeze, scope
    )


def vgg_16(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True,
    scope: str = "vgg_16",
) -> tuple[Any, Any]:
    """Logits [batch, num_classes] of images [batch, 224, 224, channels] by 16 layers, and their outputs."""
    return _vgg(
        [2, 2, 3, 3, 3], "vgg_16", inputs, num_classes, is_training, dropout_keep_prob, spatial_squeeze, scope
    )


def vgg_19(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True,
    scope: str = "vgg_19",
) -> tuple[Any, Any]:
    """Logits [batch, num_classes] of images [batch, 224, 224, channels] by 19 layers, and their outputs."""
    return _vgg(
        [2, 2, 4, 4, 4], "vgg_19", inputs, num_classes, is_training, dropout_keep_prob, spatial_squeeze, scope
    )


for _network in (vgg_a, vgg_16, vgg_19):
    _network.default_image_size = 224  # type: ignore[attr-defined]

vgg_d = vgg_16
vgg_e = vgg_19
