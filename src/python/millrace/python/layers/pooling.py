# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Pooling layers."""
from __future__ import annotations

from typing import Any, Callable

from millrace.python.framework import tensor_shape
from millrace.python.layers import base, utils
from millrace.python.ops import array_ops, nn_ops


class _Pooling(base.Layer):
    """A pool of `rank` dimensions."""

    rank = 0

    def __init__(
        self,
        pool_function: Callable[..., Any],
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: Any = None,
        **kwargs: Any,
    ):
        if strides is None:
            strides = pool_size
        super().__init__(name=name, **kwargs)
        self.pool_function = pool_function
        self.pool_size: Any = utils.normalize_tuple(pool_size, self.rank, "pool_size")
        self.strides: Any = utils.normalize_tuple(strides, self.rank, "strides")
        self.padding = utils.normalize_padding(padding)
        self.data_format = utils.normalize_data_format(data_format)
        self.input_spec = base.InputSpec(ndim=self.rank + 2)

    def call(self, inputs: Any) -> Any:  # type: ignore[override]
        first = self.data_format == "channels_first"
        if self.rank == 1:
            axis = 2 if first else 1
            inputs = array_ops.expand_dims(inputs, axis)
        size = ((1,) if self.rank == 1 else ()) + tuple(self.pool_size)
        steps = ((1,) if self.rank == 1 else ()) + tuple(self.strides)
        outputs = self.pool_function(
            inputs,
            ksize=(1, 1) + size if first else (1,) + size + (1,),
            strides=(1, 1) + steps if first else (1,) + steps + (1,),
            padding=self.padding.upper(),
            data_format=utils.convert_data_format(self.data_format, max(self.rank, 2) + 2),
        )
        return array_ops.squeeze(outputs, axis) if self.rank == 1 else outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        dims = tensor_shape.TensorShape(input_shape).as_list()
        start = 2 if self.data_format == "channels_first" else 1
        for i in range(self.rank):
            dims[start + i] = utils.conv_output_length(
                dims[start + i], self.pool_size[i], self.padding, self.strides[i]
            )
        return tensor_shape.TensorShape(dims)


class AveragePooling1D(_Pooling):
    """Averages windows of sequences [batch, steps, channels], or with channels before the spatial dimensions."""

    rank = 1

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: Any = None,
        **kwargs: Any,
    ):
        super().__init__(nn_ops.avg_pool, pool_size, strides, padding, data_format, name, **kwargs)


def average_pooling1d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: Any = None,
) -> Any:
    """Applies a layer of `AveragePooling1D`."""
    layer = AveragePooling1D(pool_size, strides, padding=padding, data_format=data_format, name=name)
    return layer.apply(inputs)


class AveragePooling2D(_Pooling):
    """Averages windows of images [batch, height, width, channels], or with channels before the spatial dimensions."""

    rank = 2

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: Any = None,
        **kwargs: Any,
    ):
        super().__init__(nn_ops.avg_pool, pool_size, strides, padding, data_format, name, **kwargs)


def average_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: Any = None,
) -> Any:
    """Applies a layer of `AveragePooling2D`."""
    layer = AveragePooling2D(pool_size, strides, padding=padding, data_format=data_format, name=name)
    return layer.apply(inputs)


class AveragePooling3D(_Pooling):
    """Averages windows of volumes [batch, depth, height, width, channels], or with channels before the spatial dimensions."""

    rank = 3

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: Any = None,
        **kwargs: Any,
    ):
        super().__init__(nn_ops.avg_pool3d, pool_size, strides, padding, data_format, name, **kwargs)


def average_pooling3d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: Any = None,
) -> Any:
    """Applies a layer of `AveragePooling3D`."""
    layer = AveragePooling3D(pool_size, strides, padding=padding, data_format=data_format, name=name)
    return layer.apply(inputs)


class MaxPooling1D(_Pooling):
    """Takes the maxima of windows of sequences [batch, steps, channels], or with channels before the spatial dimensions."""

    rank = 1

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: Any = None,
        **kwargs: Any,
    ):
        super().__init__(nn_ops.max_pool, pool_size, strides, padding, data_format, name, **kwargs)


def max_pooling1d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: Any = None,
) -> Any:
    """Applies a layer of `MaxPooling1D`."""
    layer = MaxPooling1D(pool_size, strides, padding=padding, data_format=data_format, name=name)
    return layer.apply(inputs)


class MaxPooling2D(_Pooling):
    """Takes the maxima of windows of images [batch, height, width, channels], or with channels before the spatial dimensions."""

    rank = 2

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: Any = None,
        **kwargs: Any,
    ):
        super().__init__(nn_ops.max_pool, pool_size, strides, padding, data_format, name, **kwargs)


def max_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: Any = None,
) -> Any:
    """Applies a layer of `MaxPooling2D`."""
    layer = MaxPooling2D(pool_size, strides, padding=padding, data_format=data_format, name=name)
    return layer.apply(inputs)


class MaxPooling3D(_Pooling):
    """Takes the maxima of windows of volumes [batch, depth, height, width, channels], or with channels before the spatial dimensions."""

    rank = 3

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: Any = None,
        **kwargs: Any,
    ):
        super().__init__(nn_ops.max_pool3d, pool_size, strides, padding, data_format, name, **kwargs)


def max_pooling3d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: Any = None,
) -> Any:
    """Applies a layer of `MaxPooling3D`."""
    layer = MaxPooling3D(pool_size, strides, padding=padding, data_format=data_format, name=name)
    return layer.apply(inputs)


AvgPool2D = AveragePooling2D
MaxPool2D = MaxPooling2D
max_pool2d = max_pooling2d
avg_pool2d = average_pooling2d
