# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""More layers of tf.contrib.layers: normalizations, biases, embeddings and encodings."""
from __future__ import annotations

from typing import Any

from millrace.python._contrib import framework
from millrace.python._contrib.arg_scope import add_arg_scope
from millrace.python._contrib.layers import _collect, _collections_of
from millrace.python.framework import dtypes, ops, sparse_tensor, tensor_shape
from millrace.python.ops import (
    array_ops,
    embedding_ops,
    init_ops,
    math_ops,
    nn,
    variable_scope,
)

_zeros = init_ops.zeros_initializer()
_ones = init_ops.ones_initializer()


def _parameter(
    name: str,
    shape: Any,
    dtype: Any,
    initializer: Any,
    collections: Any,
    trainable: bool,
    regularizer: Any = None,
) -> Any:
    return framework.model_variable(
        name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer,
        collections=_collections_of(collections, name), trainable=trainable,
    )  # fmt: skip


@add_arg_scope
def bias_add(
    inputs: Any, activation_fn: Any = None, initializer: Any = _zeros, regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
) -> Any:  # fmt: skip
    """Adds a variable "biases" to the channels."""
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    with variable_scope.variable_scope(scope, "BiasAdd", [inputs], reuse=reuse) as sc:
        inputs = ops.convert_to_tensor(inputs)
        rank = inputs.get_shape().ndims
        if rank is None:
            raise ValueError("Dims of shape must be known but is None")
        if rank != 4 and data_format == "NCHW":
            raise ValueError("Data format NCHW only supports 4D Tensor")
        size = inputs.shape[1 if data_format == "NCHW" else -1].value
        biases = _parameter(
            "biases",
            [size],
            inputs.dtype.base_dtype,
            initializer,
            variables_collections,
            trainable,
            regularizer,
        )
        outputs = nn.bias_add(inputs, biases, data_format=data_format if rank == 4 else None)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return _collect(outputs_collections, sc.name, outputs)


@add_arg_scope
def layer_norm(
    inputs: Any, center: bool = True, scale: bool = True, activation_fn: Any = None, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
    begin_norm_axis: int = 1, begin_params_axis: int = -1, scope: Any = None,
) -> Any:  # fmt: skip
    """Normalises over the axes from `begin_norm_axis` on; variables "beta" and "gamma" have the axes from
    `begin_params_axis` on.

    Raises:
      ValueError: if the rank or a size of the parameters is not known, or an axis is out of range.
    """
    with variable_scope.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as sc:
        inputs = ops.convert_to_tensor(inputs)
        shape = inputs.shape
        rank = shape.ndims
        if rank is None:
            raise ValueError("Inputs %s has undefined rank." % inputs.name)
        if begin_norm_axis < 0:
            begin_norm_axis = rank + begin_norm_axis
        if begin_params_axis >= rank or begin_norm_axis >= rank:
            raise ValueError(
                "begin_params_axis (%d) and begin_norm_axis (%d) must be < rank(inputs) (%d)"
                % (begin_params_axis, begin_norm_axis, rank)
            )
        params_shape = shape[begin_params_axis:]
        if not params_shape.is_fully_defined():
            raise ValueError(
                "Inputs %s: shape(inputs)[%s:] is not fully defined: %s"
                % (inputs.name, begin_params_axis, shape)
            )
        dtype = inputs.dtype.base_dtype
        beta = gamma = None
        if center:
            beta = _parameter("beta", params_shape, dtype, _zeros, variables_collections, trainable)
        if scale:
            gamma = _parameter("gamma", params_shape, dtype, _ones, variables_collections, trainable)
        mean, variance = nn.moments(inputs, list(range(begin_norm_axis, rank)), keep_dims=True)
        epsilon = 1e-3 if dtype == dtypes.float16 else 1e-12
        outputs = nn.batch_normalization(
            inputs, mean, variance, offset=beta, scale=gamma, variance_epsilon=epsilon
        )
        outputs.set_shape(shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return _collect(outputs_collections, sc.name, outputs)


@add_arg_scope
def instance_norm(
    inputs: Any, center: bool = True, scale: bool = True, epsilon: float = 1e-6, activation_fn: Any = None,
    param_initializers: Any = None, reuse: Any = None, variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True, data_format: str = "NHWC", scope: Any = None,
) -> Any:  # fmt: skip
    """Normalises each channel of each image separately.

    Raises:
      ValueError: if `data_format`, the rank or the number of channels is unknown.
    """
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    inputs = ops.convert_to_tensor(inputs)
    rank = inputs.shape.ndims
    if rank is None:
        raise ValueError("Inputs %s has undefined rank." % inputs.name)
    with variable_scope.variable_scope(scope, "InstanceNorm", [inputs], reuse=reuse) as sc:
        axis = 1 if data_format == "NCHW" else rank - 1
        size = inputs.shape[axis].value
        if size is None:
            raise ValueError("Inputs %s has undefined channels dimension %s." % (inputs.name, inputs.shape))
        initializers = param_initializers or {}
        dtype = inputs.dtype.base_dtype
        wide = [1] * rank
        wide[axis] = size

        def parameter(name: str, initializer: Any) -> Any:
            made = _parameter(
                name, [size], dtype, initializers.get(name, initializer), variables_collections, trainable
            )
            return array_ops.reshape(made, wide) if data_format == "NCHW" else made

        beta = parameter("beta", _zeros) if center else None
        gamma = parameter("gamma", _ones) if scale else None
        axes = [a for a in range(1, rank) if a != axis]
        mean, variance = nn.moments(inputs, axes, keep_dims=True)
        outputs = nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
        outputs.set_shape(inputs.shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return _collect(outputs_collections, sc.original_name_scope, outputs)


@add_arg_scope
def group_norm(
    inputs: Any, groups: int = 32, channels_axis: int = -1, reduction_axes: Any = (-3, -2),
    center: bool = True,
    scale: bool = True, epsilon: float = 1e-6, activation_fn: Any = None, param_initializers: Any = None,
    reuse: Any = None, variables_collections: Any = None, outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None, mean_close_to_zero: bool = False,
) -> Any:  # fmt: skip
    """Normalises groups of channels of each image.

    Raises:
      ValueError: if the rank or the number of channels is unknown, or `groups` does not divide it.
    """
    del mean_close_to_zero
    inputs = ops.convert_to_tensor(inputs)
    rank = inputs.shape.ndims
    if rank is None:
        raise ValueError("Inputs %s has undefined rank." % inputs.name)
    axis = channels_axis + rank if channels_axis < 0 else channels_axis
    axes = sorted(a + rank if a < 0 else a for a in reduction_axes)
    if axis in axes:
        raise ValueError("reduction_axes must not contain channels_axis")
    size = inputs.shape[axis].value
    if size is None:
        raise ValueError("Inputs %s has undefined channel dimension: %d." % (inputs.name, axis))
    if groups > size:
        raise ValueError("Invalid groups %d for %d channels." % (groups, size))
    if size % groups:
        raise ValueError("%d channels is not commensurate with %d groups." % (size, groups))
    with variable_scope.variable_scope(scope, "GroupNorm", [inputs], reuse=reuse) as sc:
        shape = array_ops.shape(inputs)
        parts = array_ops.concat([shape[:axis], [groups, size // groups], shape[axis + 1 :]], 0)
        grouped = array_ops.reshape(inputs, parts)
        moved = [a if a < axis else a + 1 for a in axes] + [axis + 1]
        mean, variance = nn.moments(grouped, moved, keep_dims=True)
        wide = [1] * (rank + 1)
        wide[axis : axis + 2] = [groups, size // groups]
        initializers = param_initializers or {}

        def parameter(name: str, initializer: Any) -> Any:
            made = _parameter(
                name,
                [size],
                inputs.dtype.base_dtype,
                initializers.get(name, initializer),
                variables_collections,
                trainable,
            )
            return array_ops.reshape(made, wide)

        beta = parameter("beta", _zeros) if center else None
        gamma = parameter("gamma", _ones) if scale else None
        outputs = array_ops.reshape(
            nn.batch_normalization(grouped, mean, variance, beta, gamma, epsilon), shape
        )
        outputs.set_shape(inputs.shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return _collect(outputs_collections, sc.original_name_scope, outputs)


@add_arg_scope
def unit_norm(inputs: Any, dim: int, epsilon: float = 1e-7, scope: Any = None) -> Any:
    """Divides by the Euclidean norm along one axis; ValueError if the axis is out of range."""
    with variable_scope.variable_scope(scope, "UnitNorm", [inputs]):
        if not inputs.get_shape():
            raise ValueError("The input rank must be known.")
        rank = len(inputs.get_shape().as_list())
        if dim < 0 or dim >= rank:
            raise ValueError("dim must be positive but smaller than the input rank.")
        lengths = math_ops.sqrt(epsilon + math_ops.reduce_sum(math_ops.square(inputs), dim, True))
        return math_ops.divide(inputs, lengths)


@add_arg_scope
def maxout(inputs: Any, num_units: int, axis: int = -1, scope: Any = None) -> Any:
    """The largest value of each of `num_units` groups of channels; ValueError if their number is no
    multiple."""
    with ops.name_scope(scope, "MaxOut", [inputs]):
        inputs = ops.convert_to_tensor(inputs)
        shape = inputs.get_shape().as_list()
        size = shape[axis]
        if size is None or size % num_units:
            raise ValueError(
                "number of features({}) is not a multiple of num_units({})".format(size, num_units)
            )
        axis = axis + len(shape) if axis < 0 else axis
        sizes = [-1 if s is None else s for s in shape]
        split = sizes[:axis] + [num_units, size // num_units] + sizes[axis + 1 :]
        return math_ops.reduce_max(array_ops.reshape(inputs, split), axis + 1)


@add_arg_scope
def dense_to_sparse(
    tensor: Any, eos_token: Any = 0, outputs_collections: Any = None, scope: Any = None
) -> Any:
    """A SparseTensor of the entries other than `eos_token`."""
    with variable_scope.variable_scope(scope, "dense_to_sparse", [tensor]) as sc:
        tensor = ops.convert_to_tensor(tensor)
        indices = array_ops.where(math_ops.not_equal(tensor, ops.convert_to_tensor(eos_token, tensor.dtype)))
        shape = array_ops.shape(tensor, out_type=dtypes.int64)
        outputs = sparse_tensor.SparseTensor(indices, array_ops.gather_nd(tensor, indices), shape)
        return _collect(outputs_collections, sc.name, outputs)


def embed_sequence(
    ids: Any, vocab_size: Any = None, embed_dim: Any = None, unique: bool = False, initializer: Any = None,
    regularizer: Any = None, trainable: bool = True, scope: Any = None, reuse: Any = None,
) -> Any:  # fmt: skip
    """The rows of a variable "embeddings" for ids [batch, time].

    Raises:
      ValueError: if the sizes are missing although no variable is reused.
    """
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError(
            "Must specify vocab size and embedding dimension when not reusing. Got vocab_size=%s and "
            "embed_dim=%s" % (vocab_size, embed_dim)
        )
    with variable_scope.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim]
        if reuse and vocab_size is None or embed_dim is None:
            shape = None  # type: ignore[assignment]
        embeddings = framework.model_variable(
            "embeddings", shape=shape, initializer=initializer, regularizer=regularizer, trainable=trainable
        )
        if unique:
            return embedding_lookup_unique(embeddings, ids)
        return embedding_ops.embedding_lookup(embeddings, ids)


def embedding_lookup_unique(params: Any, ids: Any, partition_strategy: str = "mod", name: Any = None) -> Any:
    """`tf.nn.embedding_lookup` that reads each distinct row once."""
    with ops.name_scope(name, "EmbeddingLookupUnique", [params, ids]):
        ids = ops.convert_to_tensor(ids)
        shape = array_ops.shape(ids)
        unique_ids, idx = array_ops.unique(array_ops.reshape(ids, [-1]))
        rows = embedding_ops.embedding_lookup(params, unique_ids, partition_strategy)
        gathered = array_ops.gather(rows, idx)
        result = array_ops.reshape(gathered, array_ops.concat([shape, array_ops.shape(rows)[1:]], 0))
        result.set_shape(ids.get_shape().concatenate(rows.get_shape()[1:]))
        return result


def bow_encoder(
    ids: Any, vocab_size: int, embed_dim: int, sparse_lookup: bool = True, initializer: Any = None,
    regularizer: Any = None, trainable: bool = True, scope: Any = None, reuse: Any = None,
) -> Any:  # fmt: skip
    """The mean embedding of ids [batch, time]."""
    with variable_scope.variable_scope(scope, "bow_encoder", [ids], reuse=reuse):
        embeddings = framework.model_variable(
            "embeddings",
            shape=[vocab_size, embed_dim],
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
        )
        if sparse_lookup:
            sparse_ids = ids if isinstance(ids, sparse_tensor.SparseTensor) else dense_to_sparse(ids)
            return embedding_ops.safe_embedding_lookup_sparse(
                [embeddings], sparse_ids, None, combiner="mean", default_id=0
            )
        if isinstance(ids, sparse_tensor.SparseTensor):
            raise TypeError("ids are expected to be dense Tensor, got: %s" % ids)
        return math_ops.reduce_mean(embedding_ops.embedding_lookup(embeddings, ids), axis=1)


def scale_gradient(inputs: Any, gradient_multiplier: float) -> Any:
    """Returns the inputs; their gradient is multiplied by `gradient_multiplier`."""
    return inputs * gradient_multiplier + array_ops.stop_gradient(inputs) * (1 - gradient_multiplier)


@add_arg_scope
def spatial_softmax(
    features: Any, temperature: Any = None, name: Any = None, variables_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
) -> Any:  # fmt: skip
    """The expected (x, y) position of each channel, [batch, 2 * channels], in [-1, 1]."""
    with variable_scope.variable_scope(name, "spatial_softmax"):
        shape = array_ops.shape(features)
        static = features.shape
        if data_format == "NHWC":
            height, width, channels = shape[1], shape[2], static[3]
        elif data_format == "NCHW":
            channels, height, width = static[1], shape[2], shape[3]
        else:
            raise ValueError("data_format has to be either NCHW or NHWC.")
        if channels.value is None:
            raise ValueError(
                "The num_channels dimension of the inputs to `spatial_softmax` should be defined. Found "
                "`None`."
            )
        with ops.name_scope("spatial_softmax_op"):
            pos_x, pos_y = array_ops.meshgrid(
                math_ops.lin_space(-1.0, 1.0, num=height),
                math_ops.lin_space(-1.0, 1.0, num=width),
                indexing="ij",
            )
            pos_x = array_ops.reshape(pos_x, [height * width])
            pos_y = array_ops.reshape(pos_y, [height * width])
            if temperature is None:
                temperature = _parameter(
                    "temperature", (), dtypes.float32, _ones, variables_collections, trainable
                )
            if data_format == "NHWC":
                features = array_ops.transpose(features, [0, 3, 1, 2])
            weights = nn.softmax(array_ops.reshape(features, [-1, height * width]) / temperature)
            expected = [math_ops.reduce_sum(p * weights, [1], keepdims=True) for p in (pos_x, pos_y)]
            points = array_ops.reshape(array_ops.concat(expected, 1), [-1, channels.value * 2])
            points.set_shape(tensor_shape.TensorShape([None, channels.value * 2]))
            return points
