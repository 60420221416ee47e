# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Code that the networks share: the start and the end of a network, and layers from tables."""
from __future__ import annotations

from typing import Any

from millrace.python._contrib import conv_layers, layer_utils, layers
from millrace.python._contrib.arg_scope import arg_scope
from millrace.python._contrib.initializers import l2_regularizer
from millrace.python.ops import array_ops
from millrace.python.ops import init_ops
from millrace.python.ops import nn_ops

conv2d = layers.conv2d
fully_connected = layers.fully_connected
max_pool2d = layers.max_pool2d
avg_pool2d = layers.avg_pool2d
dropout = layers.dropout
batch_norm = layers.batch_norm
separable_conv2d = conv_layers.separable_conv2d


def trunc_normal(stddev: float) -> Any:
    """An initializer with truncated normal values."""
    return init_ops.truncated_normal_initializer(0.0, stddev)


def plain_arg_scope(weight_decay: float, bias: float) -> Any:
    """An arg_scope of convolutions with ReLU, weight decay and biases that start at `bias`."""
    return arg_scope(
        [conv2d, fully_connected],
        activation_fn=nn_ops.relu,
        weights_regularizer=l2_regularizer(weight_decay),
        biases_initializer=init_ops.constant_initializer(bias) if bias else init_ops.zeros_initializer(),
    )


def end_points(collection: str, scope: Any, net: Any, spatial_squeeze: bool) -> tuple[Any, Any]:
    """The results of a network whose last layer is "fc8": the logits, and the outputs of all layers."""
    points = layer_utils.convert_collection_to_dict(collection)
    if spatial_squeeze:
        net = array_ops.squeeze(net, [1, 2], name="fc8/squeezed")
        points[scope.name + "/fc8"] = net
    return net, points


def reduced_kernel_size(tensor: Any, kernel_size: list[int]) -> list[int]:
    """The size of a kernel, at most that of the image where it is known."""
    shape = tensor.get_shape().as_list()
    if shape[1] is None or shape[2] is None:
        return kernel_size
    return [min(shape[1], kernel_size[0]), min(shape[2], kernel_size[1])]
