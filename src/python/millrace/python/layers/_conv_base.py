# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The convolutional layer of any dimension."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import tensor_shape
from millrace.python.layers import _arguments, base, utils
from millrace.python.ops import init_ops, nn_ops


class _Conv(base.Layer):
    """Convolves inputs with `filters` kernels; variables "kernel" (sizes + [in, filters]) and "bias" [filters].

    Raises ValueError when the channels of the inputs are unknown.
    """

    def __init__(
        self,
        rank: int,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
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
        self.rank = rank
        self.filters = filters
        self.kernel_size = utils.normalize_tuple(kernel_size, rank, "kernel_size")
        self.strides = utils.normalize_tuple(strides, rank, "strides")
        self.padding = utils.normalize_padding(padding)
        self.data_format = utils.normalize_data_format(data_format)
        self.dilation_rate = utils.normalize_tuple(dilation_rate, rank, "dilation_rate")
        self.activation = _arguments.get_activation(activation)
        self.use_bias = use_bias
        self.kernel_initializer = _arguments.get_initializer(kernel_initializer)
        self.bias_initializer = _arguments.get_initializer(bias_initializer)
        self.kernel_regularizer = kernel_regularizer
        self.bias_regularizer = bias_regularizer
        self.kernel_constraint = kernel_constraint
        self.bias_constraint = bias_constraint
        self.input_spec = base.InputSpec(ndim=rank + 2)
        if self.padding == "causal" and rank != 1:
            raise ValueError("Causal padding is only supported for `Conv1D` and ``SeparableConv1D`.")

    @property
    def _channel_axis(self) -> int:
        return 1 if self.data_format == "channels_first" else -1

    def _input_channels(self, input_shape: Any) -> int:
        dim = tensor_shape.dimension_value(input_shape[self._channel_axis])
        if dim is None:
            raise ValueError("The channel dimension of the inputs should be defined. Found `None`.")
        return int(dim)

    def _kernel_shape(self, input_dim: int) -> Any:
        return self.kernel_size + (input_dim, self.filters)

    def _add_bias(self) -> Any:
        if not self.use_bias:
            return None
        return self.add_weight(
            name="bias",
            shape=(self.filters,),
            initializer=self.bias_initializer,
            regularizer=self.bias_regularizer,
            constraint=self.bias_constraint,
            trainable=True,
            dtype=self.dtype,
        )

    def build(self, input_shape: Any) -> None:
        input_shape = tensor_shape.TensorShape(input_shape)
        input_dim = self._input_channels(input_shape)
        self.kernel = self.add_weight(
            name="kernel",
            shape=self._kernel_shape(input_dim),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            trainable=True,
            dtype=self.dtype,
        )
        self.bias = self._add_bias()
        self.input_spec = base.InputSpec(ndim=self.rank + 2, axes={self._channel_axis: input_dim})
        self._make_op(input_shape)
        self.built = True

    def _make_op(self, input_shape: Any) -> None:
        padding = "valid" if self.padding == "causal" else self.padding
        self._convolution_op: Any = nn_ops.Convolution(
            self._padded_shape(input_shape),
            filter_shape=self.kernel.get_shape(),
            dilation_rate=self.dilation_rate,
            strides=self.strides,
            padding=padding.upper() if isinstance(padding, str) else padding,
            data_format=utils.convert_data_format(self.data_format, self.rank + 2),
        )

    def _padded_shape(self, input_shape: Any) -> Any:
        return input_shape

    def _finish(self, outputs: Any) -> Any:
        if self.use_bias:
            layout = "NCHW" if self.data_format == "channels_first" else "NHWC"
            outputs = nn_ops.bias_add(outputs, self.bias, data_format=layout)
        return self.activation(outputs) if self.activation is not None else outputs

    def call(self, inputs: Any) -> Any:  # type: ignore[override]
        return self._finish(self._convolution_op(inputs, self.kernel))

    def compute_output_shape(self, input_shape: Any) -> Any:
        dims = tensor_shape.TensorShape(input_shape).as_list()
        first = self.data_format == "channels_first"
        space = dims[2:] if first else dims[1:-1]
        new_space = [
            utils.conv_output_length(
                space[i], self.kernel_size[i], self.padding, self.strides[i], self.dilation_rate[i]
            )
            for i in range(self.rank)
        ]
        if first:
            return tensor_shape.TensorShape([dims[0], self.filters] + new_space)
        return tensor_shape.TensorShape([dims[0]] + new_space + [self.filters])

    def _causal_paddings(self) -> Any:
        left = self.dilation_rate[0] * (self.kernel_size[0] - 1)
        if self.data_format == "channels_last":
            return [[0, 0], [left, 0], [0, 0]]
        return [[0, 0], [0, 0], [left, 0]]


class _ConvTranspose(_Conv):
    """The transposed convolution; the kernel is sizes + [filters, in]."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.input_spec = base.InputSpec(ndim=self.rank + 2)

    def _kernel_shape(self, input_dim: int) -> Any:
        return self.kernel_size + (self.filters, input_dim)

    def _make_op(self, input_shape: Any) -> None:
        self._convolution_op = None

    def _transpose_op(self) -> Any:
        return nn_ops.conv2d_transpose if self.rank == 2 else nn_ops.conv3d_transpose

    def call(self, inputs: Any) -> Any:  # type: ignore[override]
        from millrace.python.ops import array_ops

        first = self.data_format == "channels_first"
        static = inputs.shape.as_list()
        dynamic = array_ops.shape(inputs)
        start = 2 if first else 1
        sizes = [
            utils.deconv_output_length(
                static[start + i] if static[start + i] is not None else dynamic[start + i],
                self.kernel_size[i],
                padding=self.padding,
                stride=self.strides[i],
            )
            for i in range(self.rank)
        ]
        strides = tuple(self.strides)
        batch = dynamic[0]
        output_shape = (batch, self.filters, *sizes) if first else (batch, *sizes, self.filters)
        outputs = self._transpose_op()(
            inputs,
            self.kernel,
            output_shape=array_ops.stack(output_shape),
            strides=(1, 1) + strides if first else (1,) + strides + (1,),
            padding=self.padding.upper(),
            data_format=utils.convert_data_format(self.data_format, ndim=self.rank + 2),
        )
        outputs.set_shape(self.compute_output_shape(inputs.shape))
        return self._finish(outputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        dims = tensor_shape.TensorShape(input_shape).as_list()
        first = self.data_format == "channels_first"
        start = 2 if first else 1
        dims[1 if first else -1] = self.filters
        for i in range(self.rank):
            dims[start + i] = utils.deconv_output_length(
                dims[start + i], self.kernel_size[i], padding=self.padding, stride=self.strides[i]
            )
        return tensor_shape.TensorShape(dims)


class _SeparableConv(_Conv):
    """A depthwise and a pointwise convolution; variables "depthwise_kernel", "pointwise_kernel" and "bias"."""

    def __init__(
        self,
        rank: int,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
        depth_multiplier: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = None,
        pointwise_initializer: Any = None,
        bias_initializer: Any = init_ops.zeros_initializer(),
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: Any = None,
        **kwargs: Any,
    ):
        super().__init__(
            rank,
            filters,
            kernel_size,
            strides=strides,
            padding=padding,
            data_format=data_format,
            dilation_rate=dilation_rate,
            activation=activation,
            use_bias=use_bias,
            bias_initializer=bias_initializer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            bias_constraint=bias_constraint,
            trainable=trainable,
            name=name,
            **kwargs,
        )
        self.depth_multiplier = depth_multiplier
        self.depthwise_initializer = _arguments.get_initializer(depthwise_initializer)
        self.pointwise_initializer = _arguments.get_initializer(pointwise_initializer)
        self.depthwise_regularizer = depthwise_regularizer
        self.pointwise_regularizer = pointwise_regularizer
        self.depthwise_constraint = depthwise_constraint
        self.pointwise_constraint = pointwise_constraint

    def build(self, input_shape: Any) -> None:
        input_shape = tensor_shape.TensorShape(input_shape)
        input_dim = self._input_channels(input_shape)
        self.input_spec = base.InputSpec(ndim=self.rank + 2, axes={self._channel_axis: input_dim})
        self.depthwise_kernel = self.add_weight(
            name="depthwise_kernel",
            shape=self.kernel_size + (input_dim, self.depth_multiplier),
            initializer=self.depthwise_initializer,
            regularizer=self.depthwise_regularizer,
            constraint=self.depthwise_constraint,
            trainable=True,
            dtype=self.dtype,
        )
        self.pointwise_kernel = self.add_weight(
            name="pointwise_kernel",
            shape=(1,) * self.rank + (self.depth_multiplier * input_dim, self.filters),
            initializer=self.pointwise_initializer,
            regularizer=self.pointwise_regularizer,
            constraint=self.pointwise_constraint,
            trainable=True,
            dtype=self.dtype,
        )
        self.bias = self._add_bias()
        self.built = True

    def call(self, inputs: Any) -> Any:  # type: ignore[override]
        from millrace.python.ops import array_ops, nn_impl

        first = self.data_format == "channels_first"
        depthwise, pointwise = self.depthwise_kernel, self.pointwise_kernel
        steps, rate = tuple(self.strides), tuple(self.dilation_rate)
        padding = self.padding
        if self.rank == 1:
            if padding == "causal":
                inputs, padding = array_ops.pad(inputs, self._causal_paddings()), "valid"
            axis = 2 if first else 1
            inputs = array_ops.expand_dims(inputs, axis)
            depthwise, pointwise = array_ops.expand_dims(depthwise, 0), array_ops.expand_dims(pointwise, 0)
            steps, rate = steps * 2, (1,) + rate
        outputs = nn_impl.separable_conv2d(
            inputs,
            depthwise,
            pointwise,
            strides=(1, 1) + steps if first else (1,) + steps + (1,),
            padding=padding.upper(),
            rate=rate,
            data_format=utils.convert_data_format(self.data_format, ndim=4),
        )
        if self.rank == 1:
            if self.use_bias:
                outputs = nn_ops.bias_add(outputs, self.bias, data_format="NCHW" if first else "NHWC")
            outputs = array_ops.squeeze(outputs, [axis])
            return self.activation(outputs) if self.activation is not None else outputs
        return self._finish(outputs)
