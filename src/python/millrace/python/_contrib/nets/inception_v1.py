# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Inception v1 (GoogLeNet), of Szegedy et al., "Going deeper with convolutions"."""
from __future__ import annotations

from typing import Any

from millrace.python._contrib.arg_scope import arg_scope
from millrace.python._contrib.nets import _inception
from millrace.python._contrib.nets._common import (
    avg_pool2d,
    batch_norm,
    conv2d,
    dropout,
    fully_connected,
    max_pool2d,
    trunc_normal,
)
from millrace.python.ops import variable_scope

# Channels of a module: of the first branch, of the two convolutions of the next two, and of the last one.
_MODULES = {
    "Mixed_3b": (64, 96, 128, 16, 32, 32),
    "Mixed_3c": (128, 128, 192, 32, 96, 64),
    "Mixed_4b": (192, 96, 208, 16, 48, 64),
    "Mixed_4c": (160, 112, 224, 24, 64, 64),
    "Mixed_4d": (128, 128, 256, 24, 64, 64),
    "Mixed_4e": (112, 144, 288, 32, 64, 64),
    "Mixed_4f": (256, 160, 320, 32, 128, 128),
    "Mixed_5b": (256, 160, 320, 32, 128, 128),
    "Mixed_5c": (384, 192, 384, 48, 128, 128),
}


def _branches(name: str) -> list[list[Any]]:
    first, second, wide, third, narrow, last = _MODULES[name]
    # The checkpoints have another name for one convolution.
    odd = "Conv2d_0a_3x3" if name == "Mixed_5b" else "Conv2d_0b_3x3"
    return [
        [("conv", "Conv2d_0a_1x1", first, [1, 1])],
        [("conv", "Conv2d_0a_1x1", second, [1, 1]), ("conv", "Conv2d_0b_3x3", wide, [3, 3])],
        [("conv", "Conv2d_0a_1x1", third, [1, 1]), ("conv", odd, narrow, [3, 3])],
        [("max", "MaxPool_0a_3x3", [3, 3]), ("conv", "Conv2d_0b_1x1", last, [1, 1])],
    ]


_LAYERS: list[Any] = [
    ("conv", "Conv2d_1a_7x7", 64, [7, 7], {"stride": 2}),
    ("max", "MaxPool_2a_3x3", [3, 3], {"stride": 2}),
    ("conv", "Conv2d_2b_1x1", 64, [1, 1]),
    ("conv", "Conv2d_2c_3x3", 192, [3, 3]),
    ("max", "MaxPool_3a_3x3", [3, 3], {"stride": 2}),
    "Mixed_3b",
    "Mixed_3c",
    ("max", "MaxPool_4a_3x3", [3, 3], {"stride": 2}),
    "Mixed_4b",
    "Mixed_4c",
    "Mixed_4d",
    "Mixed_4e",
    "Mixed_4f",
    ("max", "MaxPool_5a_2x2", [2, 2], {"stride": 2}),
    "Mixed_5b",
    "Mixed_5c",
]


def inception_v1_base(
    inputs: Any, final_endpoint: str = "Mixed_5c", scope: Any = "InceptionV1"
) -> tuple[Any, dict[str, Any]]:
    """The network until `final_endpoint`, and the outputs of its layers; ValueError if there is none."""
    with variable_scope.variable_scope(scope, "InceptionV1", [inputs]):
        with arg_scope([conv2d, fully_connected], weights_initializer=trunc_normal(0.01)):
            with arg_scope([conv2d, max_pool2d], stride=1, padding="SAME"):
                builder = _inception.Builder(inputs, final_endpoint, int)
                for layer in _LAYERS:
                    last = (
                        builder.module(layer, _branches(layer))
                        if isinstance(layer, str)
                        else builder.add(layer)
                    )
                    if last:
                        break
                return builder.result()


def inception_v1(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.8,
    prediction_fn: Any = _inception.softmax,
    spatial_squeeze: bool = True,
    reuse: Any = None,
    scope: Any = "InceptionV1",
) -> tuple[Any, dict[str, Any]]:
    """Logits [batch, num_classes] of images [batch, 224, 224, channels], and the outputs of the layers."""
    with variable_scope.variable_scope(scope, "InceptionV1", [inputs, num_classes], reuse=reuse) as sc:
        with arg_scope([batch_norm, dropout], is_training=is_training):
            net, end_points = inception_v1_base(inputs, scope=sc)
            with variable_scope.variable_scope("Logits"):
                net = avg_pool2d(net, [7, 7], stride=1, scope="MaxPool_0a_7x7")
                logits, end_points = _inception.add_logits(
                    net,
                    end_points,
                    num_classes,
                    dropout_keep_prob,
                    spatial_squeeze,
                    ("Dropout_0b", "Conv2d_0c_1x1"),
                )
                end_points["Predictions"] = prediction_fn(logits, scope="Predictions")
    return logits, end_points


inception_v1.default_image_size = 224  # type: ignore[attr-defined]


def inception_v1_arg_scope(
    weight_decay: float = 0.00004, use_batch_norm: bool = True, batch_norm_var_collection: str = "moving_vars"
) -> Any:
    """The arguments of the layers of Inception v1."""
    return _inception.inception_arg_scope(weight_decay, use_batch_norm, batch_norm_var_collection)
