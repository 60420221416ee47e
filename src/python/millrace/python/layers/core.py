# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Dense layers, dropout and flattening."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import dtypes, sparse_tensor, tensor_shape
from millrace.python.layers import _arguments, base, utils
from millrace.python.framework import ops
from millrace.python.ops import array_ops, gen_math_ops, init_ops, math_ops, nn_ops


class Dense(base.Layer):
    """Computes activation(inputs * kernel + bias); variables "kernel" [in, units] and "bias" [units].

    Inputs of a rank above 2 are multiplied along their last dimension. Raises TypeError for inputs that are not of
    floating point, ValueError when the last dimension is unknown.
    """

    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = init_ops.zeros_initializer(),
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: Any = None,
        **kwargs: Any,
    ):
        super().__init__(trainable=trainable, name=name, activity_regularizer=activity_regularizer, **kwargs)
        try:
            self.units = int(units)
        except OverflowError:
            raise ValueError("units must be an integer, got: %r" % (units,)) from None
        self.activation = _arguments.get_activation(activation)
        self.use_bias = use_bias
        self.kernel_initializer = _arguments.get_initializer(kernel_initializer)
        self.bias_initializer = _arguments.get_initializer(bias_initializer)
        self.kernel_regularizer = kernel_regularizer
        self.bias_regularizer = bias_regularizer
        self.kernel_constraint = kernel_constraint
        self.bias_constraint = bias_constraint
        self.input_spec = base.InputSpec(min_ndim=2)

    def build(self, input_shape: Any) -> None:
        dtype = dtypes.as_dtype(self.dtype or dtypes.float32)
        if not (dtype.is_floating or dtype.is_complex):
            raise TypeError("Unable to build `Dense` layer with non-floating point dtype %s" % (dtype,))
        input_shape = tensor_shape.TensorShape(input_shape)
        last_dim = tensor_shape.dimension_value(input_shape[-1])
        if last_dim is None:
            raise ValueError("The last dimension of the inputs to `Dense` should be defined. Found `None`.")
        self.input_spec = base.InputSpec(min_ndim=2, axes={-1: last_dim})
        self.kernel = self.add_weight(
            "kernel",
            shape=[last_dim, self.units],
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            dtype=self.dtype,
            trainable=True,
        )
        self.bias: Any = None
        if self.use_bias:
            self.bias = self.add_weight(
                "bias",
                shape=[self.units],
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
                dtype=self.dtype,
                trainable=True,
            )
        self.built = True

    def call(self, inputs: Any) -> Any:  # type: ignore[override]
        rank = inputs.shape.ndims
        if isinstance(inputs, sparse_tensor.SparseTensor):
            from millrace.python.ops import sparse_ops

            outputs = sparse_ops.sparse_tensor_dense_matmul(inputs, self.kernel)
        elif rank is not None and rank > 2:
            outputs = math_ops.tensordot(inputs, self.kernel, [[rank - 1], [0]])
            outputs.set_shape(inputs.shape.as_list()[:-1] + [self.units])
        else:
            outputs = gen_math_ops.mat_mul(math_ops.cast(inputs, self.dtype), self.kernel)
        if self.use_bias:
            outputs = nn_ops.bias_add(outputs, self.bias)
        return self.activation(outputs) if self.activation is not None else outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        input_shape = tensor_shape.TensorShape(input_shape).with_rank_at_least(2)
        if tensor_shape.dimension_value(input_shape[-1]) is None:
            raise ValueError(
                "The innermost dimension of input_shape must be defined, but saw: %s" % input_shape
            )
        return input_shape[:-1].concatenate(self.units)


def dense(
    inputs: Any,
    units: int,
    activation: Any = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = init_ops.zeros_initializer(),
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: Any = None,
    reuse: Optional[bool] = None,
) -> Any:
    """Applies a `Dense` layer; `reuse` takes the variables of an earlier one of the same name."""
    layer = Dense(
        units,
        activation=activation,
        use_bias=use_bias,
        kernel_initializer=kernel_initializer,
        bias_initializer=bias_initializer,
        kernel_regularizer=kernel_regularizer,
        bias_regularizer=bias_regularizer,
        activity_regularizer=activity_regularizer,
        kernel_constraint=kernel_constraint,
        bias_constraint=bias_constraint,
        trainable=trainable,
        name=name,
        _scope=name,
        _reuse=reuse,
    )
    return layer.apply(inputs)


class Dropout(base.Layer):
    """Sets inputs to 0 with probability `rate` when `training`, scales others; see `tf.nn.dropout`."""

    def __init__(
        self, rate: Any = 0.5, noise_shape: Any = None, seed: Any = None, name: Any = None, **kwargs: Any
    ):
        super().__init__(name=name, **kwargs)
        self.rate = rate
        self.noise_shape = noise_shape
        self.seed = seed
        self.supports_masking = True

    def _get_noise_shape(self, inputs: Any) -> Any:
        if self.noise_shape is None:
            return None
        shape = array_ops.shape(inputs)
        return [shape[i] if value is None else value for i, value in enumerate(self.noise_shape)]

    def call(self, inputs: Any, training: Any = False) -> Any:  # type: ignore[override]
        def dropped_inputs() -> Any:
            return nn_ops.dropout(
                inputs, noise_shape=self._get_noise_shape(inputs), seed=self.seed, rate=self.rate
            )

        return utils.smart_cond(training, dropped_inputs, lambda: array_ops.identity(inputs))

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape


def dropout(
    inputs: Any,
    rate: Any = 0.5,
    noise_shape: Any = None,
    seed: Any = None,
    training: Any = False,
    name: Any = None,
) -> Any:
    """Applies a `Dropout` layer."""
    layer = Dropout(rate, noise_shape=noise_shape, seed=seed, name=name)
    return layer.apply(inputs, training=training)


class Flatten(base.Layer):
    """Flattens inputs to [batch, features]; channels that come first are moved to the end before."""

    def __init__(self, data_format: Optional[str] = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.data_format = utils.normalize_data_format(data_format)
        self.input_spec = base.InputSpec(min_ndim=1)

    def call(self, inputs: Any) -> Any:  # type: ignore[override]
        inputs = ops.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if self.data_format == "channels_first" and rank is not None and rank > 1:
            inputs = array_ops.transpose(inputs, perm=[0] + list(range(2, rank)) + [1])
        input_shape = inputs.shape
        if rank == 1:
            return array_ops.expand_dims(inputs, axis=-1)
        dims = input_shape.as_list()
        if dims[0] is not None:
            outputs = array_ops.reshape(inputs, (dims[0], -1))
        elif None not in dims[1:]:
            size = 1
            for dim in dims[1:]:
                size *= dim
            outputs = array_ops.reshape(inputs, (-1, size) if size else (array_ops.shape(inputs)[0], 0))
        else:
            outputs = array_ops.reshape(inputs, (array_ops.shape(inputs)[0], -1))
        outputs.set_shape(self.compute_output_shape(input_shape))
        return outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        dims = tensor_shape.TensorShape(input_shape).as_list()
        size: Any = 1
        for dim in dims[1:]:
            size = None if size is None or dim is None else size * dim
        return tensor_shape.TensorShape([dims[0], size])


def flatten(inputs: Any, name: Any = None, data_format: str = "channels_last") -> Any:
    """Applies a `Flatten` layer."""
    return Flatten(name=name, data_format=data_format).apply(inputs)


FullyConnected = Dense
fully_connected = dense
