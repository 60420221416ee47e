# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""More layers of tf.contrib.layers: convolutions of other ranks and kinds, pooling."""
from __future__ import annotations

from typing import Any

from millrace.python._contrib import framework
from millrace.python._contrib.arg_scope import add_arg_scope
from millrace.python._contrib.initializers import xavier_initializer
from millrace.python._contrib.layers import _collect, _collections_of, _finish, _pair, _Variables, conv2d
from millrace.python.framework import ops
from millrace.python.layers import convolutional as convolutional_layers
from millrace.python.layers import pooling
from millrace.python.ops import array_ops, init_ops, nn, nn_ops, variable_scope

_zeros = init_ops.zeros_initializer()
_xavier = xavier_initializer()


def _sizes(value: Any, rank: int) -> list[int]:
    return [value] * rank if isinstance(value, int) else [int(v) for v in value]


def _channels(inputs: Any, data_format: Any) -> tuple[int, bool]:
    first = bool(data_format) and data_format.startswith("NC")
    channels = inputs.shape[1 if first else -1].value
    if channels is None:
        raise ValueError("The channel dimension of the inputs should be defined. Found `None`.")
    return int(channels), first


@add_arg_scope
def convolution(
    inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
    data_format: Any = None,
    rate: Any = 1, activation_fn: Any = nn_ops.relu, normalizer_fn: Any = None, normalizer_params: Any = None,
    weights_initializer: Any = _xavier, weights_regularizer: Any = None, biases_initializer: Any = _zeros,
    biases_regularizer: Any = None, reuse: Any = None, variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True, scope: Any = None, conv_dims: Any = None,
) -> Any:  # fmt: skip
    """A convolution of sequences, images or volumes with variables "weights" and "biases".

    Raises:
      ValueError: `data_format` is unknown, or the inputs have another rank than `conv_dims` + 2 or 3 to 5.
    """
    if data_format not in (None, "NWC", "NCW", "NHWC", "NCHW", "NDHWC", "NCDHW"):
        raise ValueError("Invalid data_format: %r" % (data_format,))
    with variable_scope.variable_scope(scope, "Conv", [inputs], reuse=reuse) as sc:
        inputs = ops.convert_to_tensor(inputs)
        rank = inputs.get_shape().ndims
        if conv_dims is not None and conv_dims + 2 != rank:
            raise ValueError("Convolution expects input with rank %d, got %d" % (conv_dims + 2, rank))
        if rank not in (3, 4, 5):
            raise ValueError("Convolution not supported for input with rank", rank)
        channels, first = _channels(inputs, data_format)
        variables = _Variables(inputs, trainable, variables_collections)
        shape = _sizes(kernel_size, rank - 2) + [channels, num_outputs]
        weights = variables.make("weights", shape, weights_initializer, weights_regularizer)
        outputs = nn_ops.convolution(
            inputs, weights, padding.upper(), strides=_sizes(stride, rank - 2),
            dilation_rate=_sizes(rate, rank - 2),
            data_format=data_format,
        )  # fmt: skip
        bias = None
        if normalizer_fn is None and biases_initializer is not None:
            biases = variables.make("biases", [num_outputs], biases_initializer, biases_regularizer)

            def bias(x: Any) -> Any:
                if first:
                    return x + array_ops.reshape(biases, [1, num_outputs] + [1] * (rank - 2))
                return x + biases if rank != 4 else nn_ops.bias_add(x, biases)

        return _finish(
            outputs,
            activation_fn,
            normalizer_fn,
            normalizer_params,
            bias,
            outputs_collections,
            sc.original_name_scope,
        )


@add_arg_scope
def convolution1d(inputs: Any, num_outputs: int, kernel_size: Any, *args: Any, **kwargs: Any) -> Any:
    """A convolution of sequences [batch, time, channels]; see `convolution`."""
    return convolution(inputs, num_outputs, kernel_size, *args, conv_dims=1, **kwargs)


@add_arg_scope
def convolution3d(inputs: Any, num_outputs: int, kernel_size: Any, *args: Any, **kwargs: Any) -> Any:
    """A convolution of volumes; see `convolution`."""
    return convolution(inputs, num_outputs, kernel_size, *args, conv_dims=3, **kwargs)


def _own_variables(layer: Any, variables_collections: Any) -> None:
    """Adds the variables of a layer of core to the collections of model variables."""
    for variable in layer.variables:
        framework.add_model_variable(variable)
        name = {"kernel": "weights", "bias": "biases"}.get(variable.op.name.rsplit("/", 1)[-1], "")
        ops.add_to_collections(_collections_of(variables_collections, name) or [], variable)


def _renaming_getter(**names: str) -> Any:
    """A custom getter that sets the contrib names of variables of core's layers."""

    def renamed(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        outer, _, last = name.rpartition("/")
        return getter("/".join(filter(None, [outer, names.get(last, last)])), *args, **kwargs)

    return renamed


@add_arg_scope
def convolution2d_transpose(
    inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
    data_format: str = "NHWC",
    activation_fn: Any = nn_ops.relu, normalizer_fn: Any = None, normalizer_params: Any = None,
    weights_initializer: Any = _xavier, weights_regularizer: Any = None, biases_initializer: Any = _zeros,
    biases_regularizer: Any = None, reuse: Any = None, variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True, scope: Any = None,
) -> Any:  # fmt: skip
    """The transpose of a convolution of images, with variables "weights" and "biases".

    Raises:
      ValueError: `data_format` is neither "NHWC" nor "NCHW".
    """
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    getter = _renaming_getter(kernel="weights", bias="biases")
    with variable_scope.variable_scope(
        scope, "Conv2d_transpose", [inputs], reuse=reuse, custom_getter=getter
    ) as sc:
        inputs = ops.convert_to_tensor(inputs)
        layer = convolutional_layers.Convolution2DTranspose(
            filters=num_outputs, kernel_size=kernel_size, strides=stride, padding=padding, activation=None,
            data_format="channels_first" if data_format == "NCHW" else "channels_last",
            use_bias=not normalizer_fn and biases_initializer is not None,
            kernel_initializer=weights_initializer,
            bias_initializer=biases_initializer, kernel_regularizer=weights_regularizer,
            bias_regularizer=biases_regularizer, trainable=trainable, name=sc.name,
            dtype=inputs.dtype.base_dtype,
            _scope=sc, _reuse=reuse,
        )  # fmt: skip
        outputs = layer.apply(inputs)
        _own_variables(layer, variables_collections)
        return _finish(
            outputs,
            activation_fn,
            normalizer_fn,
            normalizer_params,
            None,
            outputs_collections,
            sc.original_name_scope,
        )


@add_arg_scope
def convolution3d_transpose(
    inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
    data_format: str = "NDHWC",
    activation_fn: Any = nn_ops.relu, normalizer_fn: Any = None, normalizer_params: Any = None,
    weights_initializer: Any = _xavier, weights_regularizer: Any = None, biases_initializer: Any = _zeros,
    biases_regularizer: Any = None, reuse: Any = None, variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True, scope: Any = None,
) -> Any:  # fmt: skip
    """The transpose of a convolution of volumes, with variables "weights" and "biases"."""
    if data_format not in ("NCDHW", "NDHWC"):
        raise ValueError("data_format has to be either NCDHW or NDHWC.")
    getter = _renaming_getter(kernel="weights", bias="biases")
    with variable_scope.variable_scope(
        scope, "Conv3d_transpose", [inputs], reuse=reuse, custom_getter=getter
    ) as sc:
        inputs = ops.convert_to_tensor(inputs)
        layer = convolutional_layers.Convolution3DTranspose(
            filters=num_outputs, kernel_size=kernel_size, strides=stride, padding=padding, activation=None,
            data_format="channels_first" if data_format == "NCDHW" else "channels_last",
            use_bias=not normalizer_fn and biases_initializer is not None,
            kernel_initializer=weights_initializer,
            bias_initializer=biases_initializer, kernel_regularizer=weights_regularizer,
            bias_regularizer=biases_regularizer, trainable=trainable, name=sc.name,
            dtype=inputs.dtype.base_dtype,
            _scope=sc, _reuse=reuse,
        )  # fmt: skip
        outputs = layer.apply(inputs)
        _own_variables(layer, variables_collections)
        return _finish(
            outputs,
            activation_fn,
            normalizer_fn,
            normalizer_params,
            None,
            outputs_collections,
            sc.original_name_scope,
        )


@add_arg_scope
def separable_convolution2d(
    inputs: Any, num_outputs: Any, kernel_size: Any, depth_multiplier: int = 1, stride: Any = 1,
    padding: str = "SAME",
    data_format: str = "NHWC", rate: Any = 1, activation_fn: Any = nn_ops.relu, normalizer_fn: Any = None,
    normalizer_params: Any = None, weights_initializer: Any = _xavier, pointwise_initializer: Any = None,
    weights_regularizer: Any = None, biases_initializer: Any = _zeros, biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
    scope: Any = None,
) -> Any:  # fmt: skip
    """A depthwise convolution, and a 1 x 1 convolution of its result unless `num_outputs` is None.

    The variables are "depthwise_weights", "pointwise_weights" and "biases".

    Raises:
      ValueError: `data_format` is neither "NHWC" nor "NCHW".
    """
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    with variable_scope.variable_scope(scope, "SeparableConv2d", [inputs], reuse=reuse) as sc:
        inputs = ops.convert_to_tensor(inputs)
        channels, first = _channels(inputs, data_format)
        variables = _Variables(inputs, trainable, variables_collections)
        depthwise = variables.make(
            "depthwise_weights",
            _pair(kernel_size) + [channels, depth_multiplier],
            weights_initializer,
            weights_regularizer,
        )
        strides = [1, 1] + _pair(stride) if first else [1] + _pair(stride) + [1]
        outputs = nn.depthwise_conv2d(
            inputs, depthwise, strides, padding.upper(), rate=_pair(rate), data_format=data_format
        )
        size = depth_multiplier * channels
        if num_outputs is not None:
            pointwise = variables.make(
                "pointwise_weights", [1, 1, size, num_outputs], pointwise_initializer or weights_initializer,
                weights_regularizer,
            )  # fmt: skip
            outputs = nn_ops.conv2d(outputs, pointwise, [1, 1, 1, 1], "VALID", data_format=data_format)
            size = num_outputs
        bias = None
        if normalizer_fn is None and biases_initializer is not None:
            biases = variables.make("biases", [size], biases_initializer, biases_regularizer)

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


@add_arg_scope
def convolution2d_in_plane(
    inputs: Any, kernel_size: Any, stride: Any = 1, padding: str = "SAME", activation_fn: Any = nn_ops.relu,
    normalizer_fn: Any = None, normalizer_params: Any = None, weights_initializer: Any = _xavier,
    weights_regularizer: Any = None, biases_initializer: Any = _zeros, biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
    scope: Any = None,
) -> Any:  # fmt: skip
    """Convolves each channel of images with the same filter."""
    with variable_scope.variable_scope(scope, "ConvInPlane", [inputs], reuse=reuse) as sc:
        inputs = ops.convert_to_tensor(inputs)
        channels, _ = _channels(inputs, None)
        variables = _Variables(inputs, trainable, variables_collections)
        weights = variables.make(
            "weights", _pair(kernel_size) + [1, 1], weights_initializer, weights_regularizer
        )
        outputs = nn.depthwise_conv2d(
            inputs, array_ops.tile(weights, [1, 1, channels, 1]), [1] + _pair(stride) + [1], padding.upper()
        )
        bias = None
        if normalizer_fn is None and biases_initializer is not None:
            biases = variables.make("biases", [channels], biases_initializer, biases_regularizer)

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


def _pool3d(kind: Any, default: str) -> Any:
    @add_arg_scope
    def pool(
        inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str = "NDHWC",
        outputs_collections: Any = None, scope: Any = None,
    ) -> Any:  # fmt: skip
        """Maxima or means of windows of volumes."""
        if data_format not in ("NDHWC", "NCDHW"):
            raise ValueError("data_format has to be either NCDHW or NDHWC.")
        with ops.name_scope(scope, default, [inputs]) as sc:
            inputs = ops.convert_to_tensor(inputs)
            layout = "channels_first" if data_format == "NCDHW" else "channels_last"
            layer = kind(
                pool_size=kernel_size, strides=stride, padding=padding, data_format=layout, _scope=sc
            )
            return _collect(outputs_collections, sc, layer.apply(inputs))

    pool.__name__ = "max_pool3d" if default == "MaxPool3D" else "avg_pool3d"
    return pool


max_pool3d = _pool3d(pooling.MaxPooling3D, "MaxPool3D")
avg_pool3d = _pool3d(pooling.AveragePooling3D, "AvgPool3D")


@add_arg_scope
def pool(
    inputs: Any, kernel_size: Any, pooling_type: str, padding: str = "VALID", data_format: Any = None,
    dilation_rate: Any = 1, stride: Any = 1, outputs_collections: Any = None, scope: Any = None,
) -> Any:  # fmt: skip
    """`tf.nn.pool` over sequences, images or volumes; ValueError for inputs of unknown rank."""
    with ops.name_scope(scope, "%s_pool" % pooling_type.lower(), [inputs]) as sc:
        inputs = ops.convert_to_tensor(inputs)
        rank = inputs.get_shape().ndims
        if rank is None:
            raise ValueError("Rank of inputs must be known")
        if rank < 3:
            raise ValueError("Rank of inputs must be >= 3")
        outputs = nn_ops.pool(
            input=inputs, window_shape=_sizes(kernel_size, rank - 2), pooling_type=pooling_type,
            padding=padding,
            data_format=data_format, dilation_rate=_sizes(dilation_rate, rank - 2),
            strides=_sizes(stride, rank - 2),
        )  # fmt: skip
        return _collect(outputs_collections, sc, outputs)


conv1d = convolution1d
conv3d = convolution3d
conv2d_transpose = convolution2d_transpose
conv3d_transpose = convolution3d_transpose
conv2d_in_plane = convolution2d_in_plane
separable_conv2d = separable_convolution2d
__all__ = ["conv1d", "conv2d", "conv3d", "conv2d_transpose", "conv3d_transpose", "separable_conv2d", "pool"]
