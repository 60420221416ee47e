# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Blocks of residual networks."""
from __future__ import annotations

import collections
from typing import Any

from millrace.python._contrib import layer_utils
from millrace.python._contrib.arg_scope import add_arg_scope, arg_scope
from millrace.python._contrib.initializers import l2_regularizer, variance_scaling_initializer
from millrace.python._contrib.nets._common import batch_norm, conv2d, max_pool2d
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import nn_ops
from millrace.python.ops import variable_scope


class Block(collections.namedtuple("Block", ["scope", "unit_fn", "args"])):
    """A block: its scope, the function of a unit, and a dictionary of arguments for each unit."""


def subsample(inputs: Any, factor: int, scope: Any = None) -> Any:
    """Each `factor`-th row and column of images."""
    if factor == 1:
        return inputs
    return max_pool2d(inputs, [1, 1], stride=factor, scope=scope)


def conv2d_same(
    inputs: Any, num_outputs: int, kernel_size: int, stride: int, rate: int = 1, scope: Any = None
) -> Any:
    """A convolution with padding that depends on the kernel only, so strides do not shift its result."""
    if stride == 1:
        return conv2d(inputs, num_outputs, kernel_size, stride=1, rate=rate, padding="SAME", scope=scope)
    total = kernel_size + (kernel_size - 1) * (rate - 1) - 1
    before = total // 2
    after = total - before
    inputs = array_ops.pad(inputs, [[0, 0], [before, after], [before, after], [0, 0]])
    return conv2d(inputs, num_outputs, kernel_size, stride=stride, rate=rate, padding="VALID", scope=scope)


@add_arg_scope
def stack_blocks_dense(
    net: Any, blocks: Any, output_stride: Any = None, outputs_collections: Any = None
) -> Any:
    """Applies blocks one after another; beyond `output_stride` strides become rates of dilated convolutions.

    Raises:
      ValueError: the strides of the units cannot produce `output_stride`.
    """
    current_stride = 1
    rate = 1
    for block in blocks:
        with variable_scope.variable_scope(block.scope, "block", [net]) as sc:
            for i, unit in enumerate(block.args):
                if output_stride is not None and current_stride > output_stride:
                    raise ValueError("The target output_stride cannot be reached.")
                with variable_scope.variable_scope("unit_%d" % (i + 1), values=[net]):
                    if output_stride is not None and current_stride == output_stride:
                        net = block.unit_fn(net, rate=rate, **dict(unit, stride=1))
                        rate *= unit.get("stride", 1)
                    else:
                        net = block.unit_fn(net, rate=1, **unit)
                        current_stride *= unit.get("stride", 1)
            net = layer_utils.collect_named_outputs(outputs_collections, sc.name, net)
    if output_stride is not None and current_stride != output_stride:
        raise ValueError("The target output_stride cannot be reached.")
    return net


def resnet_arg_scope(
    weight_decay: float = 0.0001,
    batch_norm_decay: float = 0.997,
    batch_norm_epsilon: float = 1e-5,
    batch_norm_scale: bool = True,
) -> Any:
    """The arguments of the layers of residual networks."""
    params = {
        "decay": batch_norm_decay,
        "epsilon": batch_norm_epsilon,
        "scale": batch_norm_scale,
        "updates_collections": ops.GraphKeys.UPDATE_OPS,
    }
    with arg_scope(
        [conv2d],
        weights_regularizer=l2_regularizer(weight_decay),
        weights_initializer=variance_scaling_initializer(),
        activation_fn=nn_ops.relu,
        normalizer_fn=batch_norm,
        normalizer_params=params,
    ):
        with arg_scope([batch_norm], **params):
            with arg_scope([max_pool2d], padding="SAME") as scope:
                return scope


def root(net: Any, output_stride: Any) -> tuple[Any, Any]:
    """The first convolution and pooling, and the remaining output stride."""
    if output_stride is not None:
        if output_stride % 4 != 0:
            raise ValueError("The output_stride needs to be a multiple of 4.")
        output_stride /= 4
    net = conv2d_same(net, 64, 7, stride=2, scope="conv1")
    return max_pool2d(net, [3, 3], stride=2, scope="pool1"), output_stride


def bottleneck_block(unit_fn: Any, scope: str, base_depth: int, num_units: int, stride: int) -> Any:
    """A block of `num_units` units with 4 * `base_depth` channels; the last unit has the stride."""
    unit = {"depth": base_depth * 4, "depth_bottleneck": base_depth, "stride": 1}
    return Block(scope, unit_fn, [unit] * (num_units - 1) + [dict(unit, stride=stride)])


def imagenet_network(network: Any, block: Any, name: str, counts: tuple[int, ...]) -> Any:
    """The function of a network for ImageNet: `network` with a block of that number of units for each of `counts`."""

    def made(
        inputs: Any,
        num_classes: Any = None,
        is_training: Any = True,
        global_pool: bool = True,
        output_stride: Any = None,
        reuse: Any = None,
        scope: Any = name,
    ) -> tuple[Any, Any]:
        strides = (2, 2, 2, 1)
        blocks = [
            block("block%d" % (i + 1), 64 * 2**i, count, strides[i]) for i, count in enumerate(counts)
        ]
        return network(  # type: ignore[no-any-return]
            inputs, blocks, num_classes, is_training, global_pool, output_stride, True, reuse, scope
        )

    made.__name__ = made.__qualname__ = name
    made.__doc__ = "The network of %s layers; see `%s`." % (name.split("_")[-1], network.__name__)
    made.default_image_size = network.default_image_size  # type: ignore[attr-defined]
    return made
