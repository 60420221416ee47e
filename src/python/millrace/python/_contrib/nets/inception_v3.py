# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Inception v3, of Szegedy et al., "Rethinking the Inception architecture for computer vision"."""
from __future__ import annotations

from typing import Any

from millrace.python._contrib.arg_scope import arg_scope
from millrace.python._contrib.nets import _common
from millrace.python._contrib.nets import _inception
from millrace.python._contrib.nets._common import (
    avg_pool2d,
    batch_norm,
    conv2d,
    dropout,
    max_pool2d,
    trunc_normal,
)
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import variable_scope

_HALF = {"stride": 2, "padding": "VALID"}


def _one(scope: str, depth: int) -> Any:
    return ("conv", scope, depth, [1, 1])


def _pooled(depth: int) -> list[Any]:
    return [("avg", "AvgPool_0a_3x3", [3, 3]), _one("Conv2d_0b_1x1", depth)]


def _small(last: int, names: tuple[str, str] = ("Conv2d_0a_1x1", "Conv2d_0b_5x5")) -> list[list[Any]]:
    return [
        [_one("Conv2d_0a_1x1", 64)],
        [_one(names[0], 48), ("conv", names[1], 64, [5, 5])],
        [
            _one("Conv2d_0a_1x1", 64),
            ("conv", "Conv2d_0b_3x3", 96, [3, 3]),
            ("conv", "Conv2d_0c_3x3", 96, [3, 3]),
        ],
        _pooled(last),
    ]


def _long(depth: int) -> list[list[Any]]:
    return [
        [_one("Conv2d_0a_1x1", 192)],
        [
            _one("Conv2d_0a_1x1", depth),
            ("conv", "Conv2d_0b_1x7", depth, [1, 7]),
            ("conv", "Conv2d_0c_7x1", 192, [7, 1]),
        ],
        [
            _one("Conv2d_0a_1x1", depth),
            ("conv", "Conv2d_0b_7x1", depth, [7, 1]),
            ("conv", "Conv2d_0c_1x7", depth, [1, 7]),
            ("conv", "Conv2d_0d_7x1", depth, [7, 1]),
            ("conv", "Conv2d_0e_1x7", 192, [1, 7]),
        ],
        _pooled(192),
    ]


def _forked(column: str) -> list[list[Any]]:
    return [
        [_one("Conv2d_0a_1x1", 320)],
        [
            _one("Conv2d_0a_1x1", 384),
            [("conv", "Conv2d_0b_1x3", 384, [1, 3]), ("conv", column, 384, [3, 1])],
        ],
        [
            _one("Conv2d_0a_1x1", 448),
            ("conv", "Conv2d_0b_3x3", 384, [3, 3]),
            [("conv", "Conv2d_0c_1x3", 384, [1, 3]), ("conv", "Conv2d_0d_3x1", 384, [3, 1])],
        ],
        _pooled(192),
    ]


_LAYERS: list[Any] = [
    ("conv", "Conv2d_1a_3x3", 32, [3, 3], {"stride": 2}),
    ("conv", "Conv2d_2a_3x3", 32, [3, 3]),
    ("conv", "Conv2d_2b_3x3", 64, [3, 3], {"padding": "SAME"}),
    ("max", "MaxPool_3a_3x3", [3, 3], {"stride": 2}),
    ("conv", "Conv2d_3b_1x1", 80, [1, 1]),
    ("conv", "Conv2d_4a_3x3", 192, [3, 3]),
    ("max", "MaxPool_5a_3x3", [3, 3], {"stride": 2}),
]

_MODULES: dict[str, list[list[Any]]] = {
    "Mixed_5b": _small(32),
    "Mixed_5c": _small(64, ("Conv2d_0b_1x1", "Conv_1_0c_5x5")),
    "Mixed_5d": _small(64),
    "Mixed_6a": [
        [("conv", "Conv2d_1a_1x1", 384, [3, 3], _HALF)],
        [
            _one("Conv2d_0a_1x1", 64),
            ("conv", "Conv2d_0b_3x3", 96, [3, 3]),
            ("conv", "Conv2d_1a_1x1", 96, [3, 3], _HALF),
        ],
        [("max", "MaxPool_1a_3x3", [3, 3], _HALF)],
    ],
    "Mixed_6b": _long(128),
    "Mixed_6c": _long(160),
    "Mixed_6d": _long(160),
    "Mixed_6e": _long(192),
    "Mixed_7a": [
        [_one("Conv2d_0a_1x1", 192), ("conv", "Conv2d_1a_3x3", 320, [3, 3], _HALF)],
        [
            _one("Conv2d_0a_1x1", 192),
            ("conv", "Conv2d_0b_1x7", 192, [1, 7]),
            ("conv", "Conv2d_0c_7x1", 192, [7, 1]),
            ("conv", "Conv2d_1a_3x3", 192, [3, 3], _HALF),
        ],
        [("max", "MaxPool_1a_3x3", [3, 3], _HALF)],
    ],
    "Mixed_7b": _forked("Conv2d_0b_3x1"),
    "Mixed_7c": _forked("Conv2d_0c_3x1"),
}


def inception_v3_base(
    inputs: Any,
    final_endpoint: str = "Mixed_7c",
    min_depth: int = 16,
    depth_multiplier: float = 1.0,
    scope: Any = None,
) -> tuple[Any, dict[str, Any]]:
    """The network until `final_endpoint`, and the outputs of its layers; ValueError if there is none."""
    depth = _inception.scaled_depth(min_depth, depth_multiplier)
    with variable_scope.variable_scope(scope, "InceptionV3", [inputs]):
        builder = _inception.Builder(inputs, final_endpoint, depth)
        with arg_scope([conv2d, max_pool2d, avg_pool2d], stride=1, padding="VALID"):
            for layer in _LAYERS:
                if builder.add(layer):
                    return builder.result()
        with arg_scope([conv2d, max_pool2d, avg_pool2d], stride=1, padding="SAME"):
            for name, branches in _MODULES.items():
                if builder.module(name, branches):
                    break
        return builder.result()


def _add_auxiliary_logits(
    end_points: dict[str, Any], num_classes: int, spatial_squeeze: bool, depth: Any
) -> None:
    with arg_scope([conv2d, max_pool2d, avg_pool2d], stride=1, padding="SAME"):
        aux = end_points["Mixed_6e"]
        with variable_scope.variable_scope("AuxLogits"):
            aux = avg_pool2d(aux, [5, 5], stride=3, padding="VALID", scope="AvgPool_1a_5x5")
            aux = conv2d(aux, depth(128), [1, 1], scope="Conv2d_1b_1x1")
            kernel = _common.reduced_kernel_size(aux, [5, 5])
            aux = conv2d(
                aux,
                depth(768),
                kernel,
                weights_initializer=trunc_normal(0.01),
                padding="VALID",
                scope="Conv2d_2a_{}x{}".format(*kernel),
            )
            aux = conv2d(
                aux,
                num_classes,
                [1, 1],
                activation_fn=None,
                normalizer_fn=None,
                weights_initializer=trunc_normal(0.001),
                scope="Conv2d_2b_1x1",
            )
            if spatial_squeeze:
                aux = array_ops.squeeze(aux, [1, 2], name="SpatialSqueeze")
            end_points["AuxLogits"] = aux


def inception_v3(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.8,
    min_depth: int = 16,
    depth_multiplier: float = 1.0,
    prediction_fn: Any = _inception.softmax,
    spatial_squeeze: bool = True,
    reuse: Any = None,
    scope: Any = "InceptionV3",
) -> tuple[Any, dict[str, Any]]:
    """Logits [batch, num_classes] of images [batch, 299, 299, channels], and the outputs of the layers."""
    depth = _inception.scaled_depth(min_depth, depth_multiplier)
    with variable_scope.variable_scope(scope, "InceptionV3", [inputs, num_classes], reuse=reuse) as sc:
        with arg_scope([batch_norm, dropout], is_training=is_training):
            net, end_points = inception_v3_base(
                inputs, scope=sc, min_depth=min_depth, depth_multiplier=depth_multiplier
            )
            _add_auxiliary_logits(end_points, num_classes, spatial_squeeze, depth)
            with variable_scope.variable_scope("Logits"):
                net = _inception.pool_by_size(net, 8)
                end_points["PreLogits"] = net
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


inception_v3.default_image_size = 299  # type: ignore[attr-defined]


def inception_v3_arg_scope(
    weight_decay: float = 0.00004,
    batch_norm_var_collection: str = "moving_vars",
    batch_norm_decay: float = 0.9997,
    batch_norm_epsilon: float = 0.001,
    updates_collections: Any = ops.GraphKeys.UPDATE_OPS,
    use_fused_batchnorm: bool = True,
) -> Any:
    """The arguments of the layers of Inception v3."""
    return _inception.inception_arg_scope(
        weight_decay,
        True,
        batch_norm_var_collection,
        batch_norm_decay,
        batch_norm_epsilon,
        updates_collections,
        use_fused_batchnorm,
    )
