# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Activations and initializers that may be given to layers by name."""
from __future__ import annotations

from typing import Any


def get_activation(value: Any) -> Any:
    """Returns a function for a name such as "relu", the function given, or None; ValueError for unknown names."""
    if value is None or callable(value):
        return value
    from millrace.python.ops import math_ops, nn_impl, nn_ops

    names = {
        "linear": None,
        "relu": nn_ops.relu,
        "relu6": nn_ops.relu6,
        "elu": nn_ops.elu,
        "selu": nn_ops.selu,
        "softmax": nn_ops.softmax,
        "softplus": nn_ops.softplus,
        "softsign": nn_ops.softsign,
        "swish": nn_impl.swish,
        "sigmoid": math_ops.sigmoid,
        "tanh": math_ops.tanh,
        "exponential": math_ops.exp,
    }
    if isinstance(value, str) and value in names:
        return names[value]
    raise ValueError("Unknown activation function:" + str(value))


def get_initializer(value: Any) -> Any:
    """Returns the initializer of a name such as "zeros" or "glorot_uniform"; other values unchanged."""
    if not isinstance(value, (str, dict)):
        return value
    from millrace.python.layers import _layer_config
    from millrace.python.ops import init_ops

    if isinstance(value, dict):
        return _layer_config.deserialize(value, (init_ops,))

    names = {
        "zeros": "Zeros",
        "ones": "Ones",
        "constant": "Constant",
        "random_uniform": "RandomUniform",
        "uniform": "RandomUniform",
        "random_normal": "RandomNormal",
        "normal": "RandomNormal",
        "truncated_normal": "TruncatedNormal",
        "orthogonal": "Orthogonal",
        "identity": "Identity",
        "variance_scaling": "VarianceScaling",
        "glorot_uniform": "GlorotUniform",
        "glorot_normal": "GlorotNormal",
        "lecun_normal": "lecun_normal",
        "lecun_uniform": "lecun_uniform",
        "he_normal": "he_normal",
        "he_uniform": "he_uniform",
    }
    name = names.get(value, value)
    found = getattr(init_ops, name, None)
    if found is None:
        raise ValueError("Unknown initializer: " + value)
    return found()
