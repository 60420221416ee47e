# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Residual networks of He et al., "Deep residual learning for image recognition"."""
from __future__ import annotations

from typing import Any

from millrace.python._contrib import layer_utils, layers
from millrace.python._contrib.arg_scope import add_arg_scope, arg_scope
from millrace.python._contrib.nets import resnet_utils
from millrace.python._contrib.nets._common import batch_norm, conv2d
from millrace.python._contrib.nets.resnet_utils import resnet_arg_scope  # noqa: F401
from millrace.python.ops import math_ops
from millrace.python.ops import nn_ops
from millrace.python.ops import variable_scope


@add_arg_scope
def bottleneck(
    inputs: Any,
    depth: int,
    depth_bottleneck: int,
    stride: int,
    rate: int = 1,
    outputs_collections: Any = None,
    scope: Any = None,
) -> Any:
    """A unit: three convolutions and a shortcut; the result has `depth` channels."""
    with variable_scope.variable_scope(scope, "bottleneck_v1", [inputs]) as sc:
        depth_in = layer_utils.last_dimension(inputs.get_shape(), min_rank=4)
        if depth == depth_in:
            shortcut = resnet_utils.subsample(inputs, stride, "shortcut")
        else:
            shortcut = conv2d(inputs, depth, [1, 1], stride=stride, activation_fn=None, scope="shortcut")
        residual = conv2d(inputs, depth_bottleneck, [1, 1], stride=1, scope="conv1")
        residual = resnet_utils.conv2d_same(residual, depth_bottleneck, 3, stride, rate=rate, scope="conv2")
        residual = conv2d(residual, depth, [1, 1], stride=1, activation_fn=None, scope="conv3")
        output = nn_ops.relu(shortcut + residual)
        return layer_utils.collect_named_outputs(outputs_collections, sc.name, output)


def resnet_v1(
    inputs: Any,
    blocks: Any,
    num_classes: Any = None,
    is_training: Any = True,
    global_pool: bool = True,
    output_stride: Any = None,
    include_root_block: bool = True,
    reuse: Any = None,
    scope: Any = None,
) -> tuple[Any, Any]:
    """A network of blocks on images [batch, height, width, channels].

    Args:
      inputs: the images.
      blocks: a list of `resnet_utils.Block`.
      num_classes: the number of logits; None leaves them out.
      is_training: whether batch normalization uses the moments of the batch.
      global_pool: whether to average over the image before the logits.
      output_stride: the ratio of the sizes of the image and of the result; None for that of the blocks.
      include_root_block: whether a convolution and a pooling come first.
      reuse: whether to reuse the variables of the scope.
      scope: the variable scope.

    Returns:
      The result, and a dictionary of the outputs of the layers and of "predictions".

    Raises:
      ValueError: the blocks cannot produce `output_stride`.
    """
    with variable_scope.variable_scope(scope, "resnet_v1", [inputs], reuse=reuse) as sc:
        collection = sc.original_name_scope + "_end_points"
        collecting = [conv2d, bottleneck, resnet_utils.stack_blocks_dense]
        with arg_scope(collecting, outputs_collections=collection):
            with arg_scope([batch_norm], is_training=is_training):
                net = inputs
                if include_root_block:
                    net, output_stride = resnet_utils.root(net, output_stride)
                net = resnet_utils.stack_blocks_dense(net, blocks, output_stride)
                if global_pool:
                    net = math_ops.reduce_mean(net, [1, 2], name="pool5", keepdims=True)
                if num_classes is not None:
                    net = conv2d(
                        net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="logits"
                    )
        points = layer_utils.convert_collection_to_dict(collection)
        if num_classes is not None:
            points["predictions"] = layers.softmax(net, scope="predictions")
        return net, points


resnet_v1.default_image_size = 224  # type: ignore[attr-defined]


def resnet_v1_block(scope: str, base_depth: int, num_units: int, stride: int) -> Any:
    """A block of `num_units` units with 4 * `base_depth` channels; the last unit has the stride."""
    return resnet_utils.bottleneck_block(bottleneck, scope, base_depth, num_units, stride)


resnet_v1_50 = resnet_utils.imagenet_network(resnet_v1, resnet_v1_block, "resnet_v1_50", (3, 4, 6, 3))
resnet_v1_101 = resnet_utils.imagenet_network(resnet_v1, resnet_v1_block, "resnet_v1_101", (3, 4, 23, 3))
resnet_v1_152 = resnet_utils.imagenet_network(resnet_v1, resnet_v1_block, "resnet_v1_152", (3, 8, 36, 3))
resnet_v1_200 = resnet_utils.imagenet_network(resnet_v1, resnet_v1_block, "resnet_v1_200", (3, 24, 36, 3))
