# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Code that the Inception networks share: modules of branches from tables, the arguments of layers, the logits."""
from __future__ import annotations

from typing import Any, Callable

from millrace.python._contrib import layers
from millrace.python._contrib.arg_scope import arg_scope
from millrace.python._contrib.initializers import l2_regularizer, variance_scaling_initializer
from millrace.python._contrib.nets import _common
from millrace.python._contrib.nets._common import (
    avg_pool2d,
    batch_norm,
    conv2d,
    dropout,
    fully_connected,
    max_pool2d,
)
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import nn_ops
from millrace.python.ops import variable_scope

_UPDATE_OPS = ops.GraphKeys.UPDATE_OPS

# A layer of a branch: ("conv", scope, channels, [height, width], further arguments) or
# ("max" or "avg", scope, [height, width], further arguments). A list of layers in a branch is a fork whose
# ends are concatenated.
Layer = Any


class Builder:
    """Adds layers and modules of branches to a network up to the final one, and keeps their outputs."""

    def __init__(self, net: Any, final_endpoint: str, depth: Callable[[int], int]) -> None:
        self.net = net
        self.end_points: dict[str, Any] = {}
        self._final = final_endpoint
        self._depth = depth

    def add(self, layer: Layer) -> bool:
        """Adds a layer; returns whether it is the last one."""
        return self.keep(layer[1], self._apply(self.net, layer))

    def module(self, name: str, branches: list[list[Layer]]) -> bool:
        """Adds a module, whose branches are concatenated; returns whether it is the last one."""
        with variable_scope.variable_scope(name):
            ends = []
            for i, branch in enumerate(branches):
                with variable_scope.variable_scope("Branch_%d" % i):
                    end = self.net
                    for layer in branch:
                        end = self._apply(end, layer)
                    ends.append(end)
            return self.keep(name, array_ops.concat(ends, 3))

    def keep(self, name: str, net: Any) -> bool:
        """Records the output of a layer; returns whether it is the last one."""
        self.net = self.end_points[name] = net
        return name == self._final

    def result(self) -> tuple[Any, dict[str, Any]]:
        """The network until the last layer, and the outputs of all."""
        if self._final not in self.end_points:
            raise ValueError("Unknown final endpoint %s" % self._final)
        return self.net, self.end_points

    def _apply(self, net: Any, layer: Layer) -> Any:
        if isinstance(layer, list):
            return array_ops.concat([self._apply(net, each) for each in layer], 3)
        kind, scope = layer[:2]
        if kind == "conv":
            more = layer[4] if len(layer) > 4 else {}
            return conv2d(net, self._depth(layer[2]), layer[3], scope=scope, **more)
        more = layer[3] if len(layer) > 3 else {}
        return (max_pool2d if kind == "max" else avg_pool2d)(net, layer[2], scope=scope, **more)


def scaled_depth(min_depth: int, depth_multiplier: float) -> Callable[[int], int]:
    """The number of channels of a network `depth_multiplier` times as wide; ValueError unless above 0."""
    if depth_multiplier <= 0:
        raise ValueError("depth_multiplier is not greater than zero.")
    return lambda depth: max(int(depth * depth_multiplier), min_depth)


def inception_arg_scope(
    weight_decay: float = 0.00004,
    use_batch_norm: bool = True,
    batch_norm_var_collection: str = "moving_vars",
    batch_norm_decay: float = 0.9997,
    batch_norm_epsilon: float = 0.001,
    updates_collections: Any = _UPDATE_OPS,
    use_fused_batchnorm: Any = None,
) -> Any:
    """The arguments of the layers of the Inception networks."""
    moving = [batch_norm_var_collection]
    params: dict[str, Any] = {
        "decay": batch_norm_decay,
        "epsilon": batch_norm_epsilon,
        "updates_collections": updates_collections,
        "variables_collections": {
            "beta": None,
            "gamma": None,
            "moving_mean": moving,
            "moving_variance": moving,
        },
    }
    if use_fused_batchnorm is not None:
        params["fused"] = use_fused_batchnorm
    with arg_scope([conv2d, fully_connected], weights_regularizer=l2_regularizer(weight_decay)):
        with arg_scope(
            [conv2d],
            weights_initializer=variance_scaling_initializer(),
            activation_fn=nn_ops.relu,
            normalizer_fn=batch_norm if use_batch_norm else None,
            normalizer_params=params if use_batch_norm else {},
        ) as scope:
            return scope


def add_logits(
    net: Any,
    end_points: dict[str, Any],
    num_classes: int,
    keep_prob: float,
    spatial_squeeze: bool,
    names: tuple[str, str],
) -> tuple[Any, dict[str, Any]]:
    """Dropout and the logits of a pooled network, in the open scope "Logits"; `names` are theirs."""
    net = dropout(net, keep_prob=keep_prob, scope=names[0])
    if "PreLogits" in end_points:
        end_points["PreLogits"] = net
    logits = conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope=names[1])
    if spatial_squeeze:
        logits = array_ops.squeeze(logits, [1, 2], name="SpatialSqueeze")
    end_points["Logits"] = logits
    return logits, end_points


def pool_by_size(net: Any, size: int) -> Any:
    """The average of images of up to `size` rows and columns."""
    kernel = _common.reduced_kernel_size(net, [size, size])
    return avg_pool2d(net, kernel, padding="VALID", scope="AvgPool_1a_{}x{}".format(*kernel))


softmax = layers.softmax
