# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Layers of tf.contrib.layers, made of core's; names of variables are compatible with its checkpoints."""
from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python._contrib import framework
from millrace.python._contrib.arg_scope import add_arg_scope
from millrace.python._contrib.initializers import xavier_initializer
from millrace.python.framework import ops
from millrace.python.layers import normalization as normalization_layers
from millrace.python.layers import pooling
from millrace.python.ops import array_ops
from millrace.python.ops import init_ops
from millrace.python.ops import math_ops
from millrace.python.ops import nn
from millrace.python.ops import nn_ops
from millrace.python.ops import variable_scope

_zeros = init_ops.zeros_initializer()
_xavier = xavier_initializer()


def _collect(collections: Any, name: str, outputs: Any) -> Any:
    """Adds the outputs of a layer to collections, with an alias."""
    if collections:
        outputs.aliases = getattr(outputs, "aliases", []) + [name]
        ops.add_to_collections(collections, outputs)
    return outputs


def _collections_of(variables_collections: Any, name: str) -> Any:
    if isinstance(variables_collections, dict):
        return variables_collections.get(name)
    return variables_collections


def _finish(
    outputs: Any,
    activation_fn: Any,
    normalizer_fn: Any,
    normalizer_params: Any,
    bias: Any,
    collections: Any,
    name: str,
) -> Any:
    """Applies the normalizer or the bias, and the activation; adds the outputs to collections."""
    if normalizer_fn is not None:
        outputs = normalizer_fn(outputs, **(normalizer_params or {}))
    elif bias is not None:
        outputs = bias(outputs)
    if activation_fn is not None:
        outputs = activation_fn(outputs)
    return _collect(collections, name, outputs)


class _Variables:
    """Makes the variables of a layer."""

    def __init__(self, inputs: Any, trainable: bool, collections: Any) -> None:
        self._dtype = inputs.dtype.base_dtype
        self._trainable = trainable
        self._collections = collections

    def make(self, name: str, shape: Any, initializer: Any, regularizer: Any) -> Any:
        return framework.model_variable(
            name, shape=shape, dtype=self._dtype, initializer=initializer, regularizer=regularizer,
            trainable=self._trainable, collections=_collections_of(self._collections, name),
        )  # fmt: skip


@add_arg_scope
def fully_connected(
    inputs: Any, num_outputs: int, activation_fn: Any = nn_ops.relu, normalizer_fn: Any = None,
    normalizer_params: Any = None, weights_initializer: Any = _xavier, weights_regularizer: Any = None,
    biases_initializer: Any = _zeros, biases_regularizer: Any = None, reuse: Any = None, variables_collections: Any = None,
    outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
) -> Any:  # fmt: skip
    """A matrix product with variables "weights" and "biases": [..., n] to [..., num_outputs].

    Raises:
      ValueError: `num_outputs` is not a number, or the last size of the inputs is unknown.
    """
    if isinstance(num_outputs, bool) or not isinstance(num_outputs, int):
        raise ValueError("num_outputs type should be one of %s, got %s." % ([int], type(num_outputs)))
    with variable_scope.variable_scope(scope, "fully_connected", [inputs], reuse=reuse) as sc:
        inputs = ops.convert_to_tensor(inputs)
        size = inputs.shape[-1].value if inputs.shape.ndims else None
        if size is None:
            raise ValueError("The last dimension of the inputs to `Dense` should be defined. Found `None`.")
        variables = _Variables(inputs, trainable, variables_collections)
        weights = variables.make("weights", [size, num_outputs], weights_initializer, weights_regularizer)
        if inputs.shape.ndims == 2:
            outputs = math_ops.matmul(inputs, weights)
        else:
            outputs = math_ops.tensordot(inputs, weights, [[inputs.shape.ndims - 1], [0]])
        bias = None
        if normalizer_fn is None and biases_initializer is not None:
            biases = variables.make("biases", [num_outputs], biases_initializer, biases_regularizer)

            def bias(x: Any) -> Any:
                return nn_ops.bias_add(x, biases)

        return _finish(
            outputs,
            activation_fn,
            normalizer_fn,
            normalizer_params,
            bias,
            outputs_collections,
            sc.original_name_scope,
        )


def _pair(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else [int(v) for v in value]


@add_arg_scope
def convolution2d(
    inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME", data_format: Any = None,
    rate: Any = 1, activation_fn: Any = nn_ops.relu, normalizer_fn: Any = None, normalizer_params: Any = None,
    weights_initializer: Any = _xavier, weights_regularizer: Any = None, biases_initializer: Any = _zeros,
    biases_regularizer: Any = None, reuse: Any = None, variables_collections: Any = None, outputs_collections: Any = None,
    trainable: bool = True, scope: Any = None,
) -> Any:  # fmt: skip
    """A convolution of images with variables "weights" and "biases".

    Raises:
      ValueError: `data_format` is neither "NHWC" nor "NCHW", or the number of channels is not known.
    """
    if data_format not in (None, "NHWC", "NCHW"):
        raise ValueError("Invalid data_format: %r" % (data_format,))
    with variable_scope.variable_scope(scope, "Conv", [inputs], reuse=reuse) as sc:
        inputs = ops.convert_to_tensor(inputs)
        first = data_format == "NCHW"
        channels = inputs.shape[1 if first else -1].value
        if channels is None:
            raise ValueError("The channel dimension of the inputs should be defined. Found `None`.")
        variables = _Variables(inputs, trainable, variables_collections)
        shape = _pair(kernel_size) + [channels, num_outputs]
        weights = variables.make("weights", shape, weights_initializer, weights_regularizer)
        outputs = nn_ops.convolution(
            inputs,
            weights,
            padding.upper(),
            strides=_pair(stride),
            dilation_rate=_pair(rate),
            data_format=data_format,
        )
        bias = None
        if normalizer_fn is None and biases_initializer is not None:
            biases = variables.make("biases", [num_outputs], biases_initializer, biases_regularizer)

            def bias(x: Any) -> Any:
                return nn_ops.bias_add(x, biases, data_format=data_format)

        return _finish(
            outputs,
            activation_fn,
            normalizer_fn,
            normalizer_params,
            bias,
            outputs_collections,
            sc.original_name_scope,
        )


conv2d = convolution2d


def _pool(kind: Any, default: str) -> Any:
    @add_arg_scope
    def pool(
        inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str = "NHWC",
        outputs_collections: Any = None, scope: Any = None,
    ) -> Any:  # fmt: skip
        """Maxima or means of windows of images."""
        if data_format not in ("NHWC", "NCHW"):
            raise ValueError("data_format has to be either NCHW or NHWC.")
        with ops.name_scope(scope, default, [inputs]) as sc:
            inputs = ops.convert_to_tensor(inputs)
            layout = "channels_first" if data_format == "NCHW" else "channels_last"
            layer = kind(
                pool_size=kernel_size, strides=stride, padding=padding, data_format=layout, _scope=sc
            )
            return _collect(outputs_collections, sc, layer.apply(inputs))

    pool.__name__ = "max_pool2d" if default == "MaxPool2D" else "avg_pool2d"
    return pool


max_pool2d = _pool(pooling.MaxPooling2D, "MaxPool2D")
avg_pool2d = _pool(pooling.AveragePooling2D, "AvgPool2D")


@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: Any = None) -> Any:
    """Returns a matrix [batch, k]: all axes but the first are merged."""
    with ops.name_scope(scope, "Flatten", [inputs]) as sc:
        inputs = ops.convert_to_tensor(inputs)
        if inputs.shape.ndims == 1:
            return _collect(outputs_collections, sc, array_ops.expand_dims(inputs, 1))
        sizes = inputs.shape[1:].as_list() if inputs.shape.ndims is not None else [None]
        first = inputs.shape[0].value if inputs.shape.ndims else None
        if None not in sizes:
            shape: Any = [-1, int(np.prod(sizes))]
        else:
            shape = [array_ops.shape(inputs)[0] if first is None else first, -1]
        return _collect(outputs_collections, sc, array_ops.reshape(inputs, shape))


@add_arg_scope
def dropout(
    inputs: Any, keep_prob: Any = 0.5, noise_shape: Any = None, is_training: Any = True, outputs_collections: Any = None,
    scope: Any = None, seed: Any = None,
) -> Any:  # fmt: skip
    """`tf.nn.dropout` when `is_training`, else the inputs."""
    from millrace.python.layers import core as core_layers

    with variable_scope.variable_scope(scope, "Dropout", [inputs]) as sc:
        inputs = ops.convert_to_tensor(inputs)
        layer = core_layers.Dropout(
            rate=1 - keep_prob, noise_shape=noise_shape, seed=seed, name=sc.name, _scope=sc
        )
        outputs = layer.apply(inputs, training=is_training)
        return _collect(outputs_collections, sc.original_name_scope, outputs)


@add_arg_scope
def batch_norm(
    inputs: Any, decay: float = 0.999, center: bool = True, scale: bool = False, epsilon: float = 0.001,
    activation_fn: Any = None, param_initializers: Any = None, param_regularizers: Any = None,
    updates_collections: Any = ops.GraphKeys.UPDATE_OPS, is_training: Any = True, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True, batch_weights: Any = None,
    fused: Any = None, data_format: str = "NHWC", zero_debias_moving_mean: bool = False, scope: Any = None,
    renorm: bool = False, renorm_clipping: Any = None, renorm_decay: float = 0.99, adjustment: Any = None,
) -> Any:  # fmt: skip
    """Batch normalization with variables "beta", "gamma", "moving_mean" and "moving_variance".

    Raises:
      ValueError: `data_format` is neither "NHWC" nor "NCHW", or an argument is not supported.
    """
    if batch_weights is not None or zero_debias_moving_mean:
        raise ValueError(
            "batch_weights and zero_debias_moving_mean are not implemented; see tf.layers.batch_normalization"
        )
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    initializers = {"beta": _zeros, "gamma": init_ops.ones_initializer(), "moving_mean": _zeros}
    initializers["moving_variance"] = init_ops.ones_initializer()
    initializers.update(param_initializers or {})
    regularizers = param_regularizers or {}
    with variable_scope.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as sc:
        inputs = ops.convert_to_tensor(inputs)
        layer = normalization_layers.BatchNormalization(
            axis=1 if data_format == "NCHW" else -1, momentum=decay, epsilon=epsilon, center=center, scale=scale,
            beta_initializer=initializers["beta"], gamma_initializer=initializers["gamma"],
            moving_mean_initializer=initializers["moving_mean"],
            moving_variance_initializer=initializers["moving_variance"],
            beta_regularizer=regularizers.get("beta"), gamma_regularizer=regularizers.get("gamma"), trainable=trainable,
            renorm=renorm, renorm_clipping=renorm_clipping, renorm_momentum=renorm_decay, adjustment=adjustment,
            name=sc.name, _scope=sc, _reuse=reuse, fused=fused,
        )  # fmt: skip
        before = set(map(id, ops.get_collection(ops.GraphKeys.UPDATE_OPS)))
        outputs = layer.apply(inputs, training=is_training)
        for variable in layer.variables:  # type: ignore[has-type]
            framework.add_model_variable(variable)
            name = variable.op.name.rsplit("/", 1)[-1]
            ops.add_to_collections(_collections_of(variables_collections, name) or [], variable)
        outputs = _with_updates(layer, before, updates_collections, outputs)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return _collect(outputs_collections, sc.original_name_scope, outputs)


def _with_updates(layer: Any, before: set[int], collections: Any, outputs: Any) -> Any:
    """Adds the updates of moving averages to collections, or makes the outputs depend on them."""
    found: Any = layer.updates
    updates = list(found)
    own = ops.get_collection_ref(ops.GraphKeys.UPDATE_OPS)
    own[:] = [op for op in own if id(op) in before or op not in updates]
    if collections is None:
        with ops.control_dependencies(updates):
            return array_ops.identity(outputs)
    for update in updates:
        ops.add_to_collections(collections, update)
    return outputs


@add_arg_scope
def one_hot_encoding(
    labels: Any, num_classes: int, on_value: float = 1.0, off_value: float = 0.0, outputs_collections: Any = None,
    scope: Any = None,
) -> Any:  # fmt: skip
    """`tf.one_hot` of labels."""
    with ops.name_scope(scope, "OneHotEncoding", [labels, num_classes]) as sc:
        labels = math_ops.cast(ops.convert_to_tensor(labels), "int64")
        outputs = array_ops.one_hot(labels, num_classes, on_value=on_value, off_value=off_value)
        return _collect(outputs_collections, sc, outputs)


@add_arg_scope
def softmax(logits: Any, scope: Any = None) -> Any:
    """`tf.nn.softmax` over the last axis."""
    with variable_scope.variable_scope(scope, "softmax", [logits]):
        return nn.softmax(logits)


def stack(inputs: Any, layer: Any, stack_args: Any, **kwargs: Any) -> Any:
    """Applies a layer repeatedly, each time with the next of `stack_args`."""
    scope = kwargs.pop("scope", None)
    if not isinstance(stack_args, (list, tuple)):
        raise ValueError("stack_args need to be a list or tuple")
    with variable_scope.variable_scope(scope, "Stack", [inputs]):
        name = getattr(layer, "__name__", "layer")
        outputs = inputs
        for i, args in enumerate(stack_args):
            kwargs["scope"] = "%s_%d" % (name, i + 1)
            outputs = layer(outputs, *(args if isinstance(args, (list, tuple)) else [args]), **kwargs)
        return outputs


def repeat(inputs: Any, repetitions: int, layer: Any, *args: Any, **kwargs: Any) -> Any:
    """Applies a layer `repetitions` times with the same arguments."""
    scope = kwargs.pop("scope", None)
    with variable_scope.variable_scope(scope, "Repeat", [inputs]):
        inputs = ops.convert_to_tensor(inputs)
        name = getattr(layer, "__name__", "repeat")
        name = scope or name
        outputs = inputs
        for i in range(repetitions):
            kwargs["scope"] = "%s_%d" % (name, i + 1)
            outputs = layer(outputs, *args, **kwargs)
        return outputs


def _without_activation() -> Any:
    def linear(*args: Any, **kwargs: Any) -> Any:
        """`fully_connected` without an activation."""
        return fully_connected(*args, **{"activation_fn": None, **kwargs})

    return linear


linear = _without_activation()
