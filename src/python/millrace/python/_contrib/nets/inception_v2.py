# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Inception v2, of Ioffe and Szegedy, "Batch normalization", with a separable convolution first."""
from __future__ import annotations

from typing import Any

from millrace.python._contrib.arg_scope import arg_scope
from millrace.python._contrib.nets import _inception
from millrace.python._contrib.nets._common import (
    avg_pool2d,
    batch_norm,
    conv2d,
    dropout,
    max_pool2d,
    separable_conv2d,
    trunc_normal,
)
from millrace.python.framework import ops
from millrace.python.ops import variable_scope

_NARROW = {"weights_initializer": trunc_normal(0.09)}
_LAST = {"weights_initializer": trunc_normal(0.1)}

# Channels of a module: of the branches with one, two and three convolutions, and behind the pooling.
_MODULES = {
    "Mixed_3b": (64, (64, 64), (64, 96, 96), 32),
    "Mixed_3c": (64, (64, 96), (64, 96, 96), 64),
    "Mixed_4b": (224, (64, 96), (96, 128, 128), 128),
    "Mixed_4c": (192, (96, 128), (96, 128, 128), 128),
    "Mixed_4d": (160, (128, 160), (128, 160, 160), 96),
    "Mixed_4e": (96, (128, 192), (160, 192, 192), 96),
    "Mixed_5b": (352, (192, 320), (160, 224, 224), 128),
    "Mixed_5c": (352, (192, 320), (192, 224, 224), 128),
}
# Of those that halve the size: of the branches with two and three convolutions.
_REDUCTIONS = {"Mixed_4a": ((128, 160), (64, 96, 96)), "Mixed_5a": ((128, 192), (192, 256, 256))}


def _branches(name: str) -> list[list[Any]]:
    if name in _REDUCTIONS:
        two, three = _REDUCTIONS[name]
        return [
            [
                ("conv", "Conv2d_0a_1x1", two[0], [1, 1], _NARROW),
                ("conv", "Conv2d_1a_3x3", two[1], [3, 3], {"stride": 2}),
            ],
            [
                ("conv", "Conv2d_0a_1x1", three[0], [1, 1], _NARROW),
                ("conv", "Conv2d_0b_3x3", three[1], [3, 3]),
                ("conv", "Conv2d_1a_3x3", three[2], [3, 3], {"stride": 2}),
            ],
            [("max", "MaxPool_1a_3x3", [3, 3], {"stride": 2})],
        ]
    one, pair, triple, last = _MODULES[name]
    pool = ("max", "MaxPool_0a_3x3", [3, 3]) if name == "Mixed_5c" else ("avg", "AvgPool_0a_3x3", [3, 3])
    return [
        [("conv", "Conv2d_0a_1x1", one, [1, 1])],
        [
            ("conv", "Conv2d_0a_1x1", pair[0], [1, 1], _NARROW),
            ("conv", "Conv2d_0b_3x3", pair[1], [3, 3]),
        ],
        [
            ("conv", "Conv2d_0a_1x1", triple[0], [1, 1], _NARROW),
            ("conv", "Conv2d_0b_3x3", triple[1], [3, 3]),
            ("conv", "Conv2d_0c_3x3", triple[2], [3, 3]),
        ],
        [pool, ("conv", "Conv2d_0b_1x1", last, [1, 1], _LAST)],
    ]


_LAYERS: list[Any] = [
    ("max", "MaxPool_2a_3x3", [3, 3], {"stride": 2}),
    ("conv", "Conv2d_2b_1x1", 64, [1, 1], _LAST),
    ("conv", "Conv2d_2c_3x3", 192, [3, 3]),
    ("max", "MaxPool_3a_3x3", [3, 3], {"stride": 2}),
    "Mixed_3b",
    "Mixed_3c",
    "Mixed_4a",
    "Mixed_4b",
    "Mixed_4c",
    "Mixed_4d",
    "Mixed_4e",
    "Mixed_5a",
    "Mixed_5b",
    "Mixed_5c",
]


def inception_v2_base(
    inputs: Any,
    final_endpoint: str = "Mixed_5c",
    min_depth: int = 16,
    depth_multiplier: float = 1.0,
    scope: Any = None,
) -> tuple[Any, dict[str, Any]]:
    """The network until `final_endpoint`, and the outputs of its layers; ValueError if there is none."""
    depth = _inception.scaled_depth(min_depth, depth_multiplier)
    with variable_scope.variable_scope(scope, "InceptionV2", [inputs]):
        scoped = [conv2d, max_pool2d, avg_pool2d, separable_conv2d]
        with arg_scope(scoped, stride=1, padding="SAME"):
            builder = _inception.Builder(inputs, final_endpoint, depth)
            net = separable_conv2d(
                inputs,
                depth(64),
                [7, 7],
                depth_multiplier=min(int(depth(64) / 3), 8),
                stride=2,
                weights_initializer=trunc_normal(1.0),
                scope="Conv2d_1a_7x7",
            )
            if builder.keep("Conv2d_1a_7x7", net):
                return builder.result()
            for layer in _LAYERS:
                last = (
                    builder.module(layer, _branches(layer)) if isinstance(layer, str) else builder.add(layer)
                )
                if last:
                    break
            return builder.result()


def inception_v2(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.8,
    min_depth: int = 16,
    depth_multiplier: float = 1.0,
    prediction_fn: Any = _inception.softmax,
    spatial_squeeze: bool = True,
    reuse: Any = None,
    scope: Any = "InceptionV2",
) -> tuple[Any, dict[str, Any]]:
    """Logits [batch, num_classes] of images [batch, 224, 224, channels], and the outputs of the layers."""
    _inception.scaled_depth(min_depth, depth_multiplier)
    with variable_scope.variable_scope(scope, "InceptionV2", [inputs, num_classes], reuse=reuse) as sc:
        with arg_scope([batch_norm, dropout], is_training=is_training):
            net, end_points = inception_v2_base(
                inputs, scope=sc, min_depth=min_depth, depth_multiplier=depth_multiplier
            )
            with variable_scope.variable_scope("Logits"):
                net = _inception.pool_by_size(net, 7)
                logits, end_points = _inception.add_logits(
                    net,
                    end_points,
                    num_classes,
                    dropout_keep_prob,
                    spatial_squeeze,
                    ("Dropout_1b", "Conv2d_1c_1x1"),
                )
                end_points["Predictions"] = prediction_fn(logits, scope="Predictions")
    return logits, end_points


inception_v2.default_image_size = 224  # type: ignore[attr-defined]


def inception_v2_arg_scope(
    weight_decay: float = 0.00004,
    batch_norm_var_collection: str = "moving_vars",
    batch_norm_decay: float = 0.9997,
    batch_norm_epsilon: float = 0.001,
    updates_collections: Any = ops.GraphKeys.UPDATE_OPS,
    use_fused_batchnorm: bool = True,
) -> Any:
    """The arguments of the layers of Inception v2."""
    return _inception.inception_arg_scope(
        weight_decay,
        True,
        batch_norm_var_collection,
        batch_norm_decay,
        batch_norm_epsilon,
        updates_collections,
        use_fused_batchnorm,
    )
