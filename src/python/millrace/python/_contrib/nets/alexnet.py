# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""AlexNet, of Krizhevsky's "One weird trick for parallelizing convolutional neural networks"."""
from __future__ import annotations

from typing import Any

from millrace.python._contrib.arg_scope import arg_scope
from millrace.python._contrib.nets import _common
from millrace.python._contrib.nets._common import conv2d, dropout, fully_connected, max_pool2d, trunc_normal
from millrace.python.ops import init_ops
from millrace.python.ops import variable_scope


def alexnet_v2_arg_scope(weight_decay: float = 0.0005) -> Any:
    """The arguments of the layers of AlexNet."""
    with _common.plain_arg_scope(weight_decay, 0.1):
        with arg_scope([conv2d], padding="SAME"):
            with arg_scope([max_pool2d], padding="VALID") as scope:
                return scope


def alexnet_v2(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True,
    scope: str = "alexnet_v2",
) -> tuple[Any, Any]:
    """Logits [batch, num_classes] of images [batch, 224, 224, channels], and the outputs of the layers."""
    with variable_scope.variable_scope(scope, "alexnet_v2", [inputs]) as sc:
        collection = sc.original_name_scope + "_end_points"
        with arg_scope([conv2d, fully_connected, max_pool2d], outputs_collections=[collection]):
            net = conv2d(inputs, 64, [11, 11], 4, padding="VALID", scope="conv1")
            net = max_pool2d(net, [3, 3], 2, scope="pool1")
            net = conv2d(net, 192, [5, 5], scope="conv2")
            net = max_pool2d(net, [3, 3], 2, scope="pool2")
            net = conv2d(net, 384, [3, 3], scope="conv3")
            net = conv2d(net, 384, [3, 3], scope="conv4")
            net = conv2d(net, 256, [3, 3], scope="conv5")
            net = max_pool2d(net, [3, 3], 2, scope="pool5")
            with arg_scope(
                [conv2d],
                weights_initializer=trunc_normal(0.005),
                biases_initializer=init_ops.constant_initializer(0.1),
            ):
                net = conv2d(net, 4096, [5, 5], padding="VALID", scope="fc6")
                net = dropout(net, dropout_keep_prob, is_training=is_training, scope="dropout6")
                net = conv2d(net, 4096, [1, 1], scope="fc7")
                net = dropout(net, dropout_keep_prob, is_training=is_training, scope="dropout7")
                net = conv2d(
                    net,
                    num_classes,
                    [1, 1],
                    activation_fn=None,
                    normalizer_fn=None,
                    biases_initializer=init_ops.zeros_initializer(),
                    scope="fc8",
                )
        return _common.end_points(collection, sc, net, spatial_squeeze)


alexnet_v2.default_image_size = 224  # type: ignore[attr-defined]
