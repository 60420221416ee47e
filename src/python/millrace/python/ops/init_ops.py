# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Initializers: callables (shape, dtype=None, partition_info=None) that return initial values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from millrace.python.framework import constant_op
from millrace.python.framework import dtypes
from millrace.python.ops import array_ops
from millrace.python.ops import gen_linalg_ops
from millrace.python.ops import linalg_ops_impl
from millrace.python.ops import math_ops
from millrace.python.ops import random_ops


class Initializer:
    """Base of initializers; those of one class and configuration return equal values for equal seeds."""

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        """Returns a tensor of `shape` and `dtype` (by default the initializer's)."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, as a dict of values for JSON."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The initializer that `get_config` described."""
        return cls(**config)


class Zeros(Initializer):
    """Zeros."""

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        return array_ops.zeros(shape, self.dtype if dtype is None else dtype)

    def get_config(self) -> dict[str, Any]:
        return {"dtype": self.dtype.name}


class Ones(Initializer):
    """Ones."""

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        return array_ops.ones(shape, self.dtype if dtype is None else dtype)

    def get_config(self) -> dict[str, Any]:
        return {"dtype": self.dtype.name}


class Constant(Initializer):
    """One number, or the numbers of a list; the last one is repeated if the shape has more elements."""

    def __init__(self, value: Any = 0, dtype: Any = dtypes.float32, verify_shape: bool = False) -> None:
        if not (np.isscalar(value) or isinstance(value, (list, tuple, np.ndarray))):
            raise TypeError(
                "Invalid type for initial value: %s (expected Python scalar, list or tuple of values, or numpy.ndarray)."
                % type(value)
            )
        self.value = value
        self.dtype = dtypes.as_dtype(dtype)
        self._verify_shape = verify_shape

    def __call__(
        self, shape: Any, dtype: Any = None, partition_info: Any = None, verify_shape: Any = None
    ) -> Any:
        return constant_op.constant_v1(
            self.value,
            dtype=self.dtype if dtype is None else dtype,
            shape=shape,
            verify_shape=self._verify_shape if verify_shape is None else verify_shape,
        )

    def get_config(self) -> dict[str, Any]:
        # A list or array must not be shared with the configuration.
        return {"value": self.value, "dtype": self.dtype.name}


class RandomUniform(Initializer):
    """Uniform numbers from `minval` to `maxval`."""

    def __init__(
        self, minval: Any = 0, maxval: Any = None, seed: Any = None, dtype: Any = dtypes.float32
    ) -> None:
        self.minval = minval
        self.maxval = maxval
        self.seed = seed
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        dtype = self.dtype if dtype is None else dtype
        return random_ops.random_uniform(shape, self.minval, self.maxval, dtype, seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        return {"minval": self.minval, "maxval": self.maxval, "seed": self.seed, "dtype": self.dtype.name}


class RandomNormal(Initializer):
    """Normal numbers."""

    def __init__(
        self, mean: Any = 0.0, stddev: Any = 1.0, seed: Any = None, dtype: Any = dtypes.float32
    ) -> None:
        self.mean = mean
        self.stddev = stddev
        self.seed = seed
        self.dtype = _assert_float_dtype(dtypes.as_dtype(dtype))

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        dtype = self.dtype if dtype is None else dtype
        return random_ops.random_normal(shape, self.mean, self.stddev, dtype, seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        return {"mean": self.mean, "stddev": self.stddev, "seed": self.seed, "dtype": self.dtype.name}


class TruncatedNormal(Initializer):
    """Normal numbers, drawn again where they are more than two standard deviations from the mean."""

    def __init__(
        self, mean: Any = 0.0, stddev: Any = 1.0, seed: Any = None, dtype: Any = dtypes.float32
    ) -> None:
        self.mean = mean
        self.stddev = stddev
        self.seed = seed
        self.dtype = _assert_float_dtype(dtypes.as_dtype(dtype))

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        dtype = self.dtype if dtype is None else dtype
        return random_ops.truncated_normal(shape, self.mean, self.stddev, dtype, seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        return {"mean": self.mean, "stddev": self.stddev, "seed": self.seed, "dtype": self.dtype.name}


class UniformUnitScaling(Initializer):
    """Uniform numbers that keep the scale of a product: up to `factor` sqrt(3 / input size)."""

    def __init__(self, factor: float = 1.0, seed: Any = None, dtype: Any = dtypes.float32) -> None:
        self.factor = factor
        self.seed = seed
        self.dtype = _assert_float_dtype(dtypes.as_dtype(dtype))

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        dtype = self.dtype if dtype is None else dtype
        scale_shape = shape if partition_info is None else partition_info.full_shape
        input_size = 1.0
        for dim in scale_shape[:-1]:
            input_size *= float(dim)
        # An empty variable has no scale.
        input_size = max(input_size, 1.0)
        max_val = math.sqrt(3 / input_size) * self.factor
        return random_ops.random_uniform(shape, -max_val, max_val, dtype, seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        return {"factor": self.factor, "seed": self.seed, "dtype": self.dtype.name}


class VarianceScaling(Initializer):
    """Random numbers with the variance `scale` / n; n: the number of inputs, outputs, or their mean."""

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: Any = None,
        dtype: Any = dtypes.float32,
    ) -> None:
        """Checks the arguments.

        Args:
          scale: a positive number.
          mode: fan_in, fan_out or fan_avg.
          distribution: uniform, truncated_normal (also: normal) or untruncated_normal.
          seed: seed of the random numbers.
          dtype: a floating point type.

        Raises:
          ValueError: another value.
        """
        if scale <= 0.0:
            raise ValueError("`scale` must be positive float.")
        if mode not in {"fan_in", "fan_out", "fan_avg"}:
            raise ValueError("Invalid `mode` argument:", mode)
        distribution = distribution.lower()
        if distribution not in {"normal", "uniform", "truncated_normal", "untruncated_normal"}:
            raise ValueError("Invalid `distribution` argument:", distribution)
        self.scale = scale
        self.mode = mode
        self.distribution = distribution
        self.seed = seed
        self.dtype = _assert_float_dtype(dtypes.as_dtype(dtype))

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        dtype = self.dtype if dtype is None else dtype
        scale = self.scale
        fan_in, fan_out = _compute_fans(shape if partition_info is None else partition_info.full_shape)
        if self.mode == "fan_in":
            scale /= max(1.0, fan_in)
        elif self.mode == "fan_out":
            scale /= max(1.0, fan_out)
        else:
            scale /= max(1.0, (fan_in + fan_out) / 2.0)
        if self.distribution in ("normal", "truncated_normal"):
            # The standard deviation of a standard normal distribution truncated at two standard deviations.
            stddev = math.sqrt(scale) / 0.87962566103423978
            return random_ops.truncated_normal(shape, 0.0, stddev, dtype, seed=self.seed)
        if self.distribution == "untruncated_normal":
            return random_ops.random_normal(shape, 0.0, math.sqrt(scale), dtype, seed=self.seed)
        limit = math.sqrt(3.0 * scale)
        return random_ops.random_uniform(shape, -limit, limit, dtype, seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        return {
            "scale": self.scale,
            "mode": self.mode,
            "distribution": self.distribution,
            "seed": self.seed,
            "dtype": self.dtype.name,
        }


class Orthogonal(Initializer):
    """An orthogonal matrix, or one with orthogonal rows or columns, made by a QR decomposition."""

    def __init__(self, gain: float = 1.0, seed: Any = None, dtype: Any = dtypes.float32) -> None:
        self.gain = gain
        self.dtype = _assert_float_dtype(dtypes.as_dtype(dtype))
        self.seed = seed

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        dtype = self.dtype if dtype is None else dtype
        if len(shape) < 2:
            raise ValueError("The tensor to initialize must be at least two-dimensional")
        num_rows = 1
        for dim in shape[:-1]:
            num_rows *= dim
        num_rows = int(num_rows)
        num_cols = int(shape[-1])
        flat_shape = (num_rows, num_cols) if num_rows >= num_cols else (num_cols, num_rows)
        a = random_ops.random_normal(flat_shape, dtype=dtype, seed=self.seed)
        q, r = gen_linalg_ops.qr(a, full_matrices=False)
        # With a positive diagonal of R the distribution is uniform.
        q *= math_ops.sign(array_ops.matrix_diag_part(r))
        if num_rows < num_cols:
            q = array_ops.matrix_transpose(q)
        return self.gain * array_ops.reshape(q, shape)

    def get_config(self) -> dict[str, Any]:
        return {"gain": self.gain, "seed": self.seed, "dtype": self.dtype.name}


class ConvolutionDeltaOrthogonal(Initializer):
    """A kernel of a convolution that is an orthogonal matrix at its center and zero elsewhere."""

    def __init__(self, gain: float = 1.0, seed: Any = None, dtype: Any = dtypes.float32) -> None:
        self.gain = gain
        self.dtype = _assert_float_dtype(dtypes.as_dtype(dtype))
        self.seed = seed

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        dtype = self.dtype if dtype is None else dtype
        if len(shape) < 3 or len(shape) > 5:
            raise ValueError(
                "The tensor to initialize must be at least three-dimensional and at most five-dimensional"
            )
        if shape[-2] > shape[-1]:
            raise ValueError("In_filters cannot be greater than out_filters.")
        a = random_ops.random_normal([shape[-1], shape[-1]], dtype=dtype, seed=self.seed)
        q, r = gen_linalg_ops.qr(a, full_matrices=False)
        q *= math_ops.sign(array_ops.diag_part(r))
        q = q[: shape[-2], :]
        q *= math_ops.cast(self.gain, dtype=dtype)
        middle = [[(size - 1) // 2 for size in shape[:-2]]]
        return array_ops.scatter_nd(middle, array_ops.expand_dims(q, 0), shape)

    def get_config(self) -> dict[str, Any]:
        return {"gain": self.gain, "seed": self.seed, "dtype": self.dtype.name}


class Identity(Initializer):
    """The identity matrix times `gain`, for two-dimensional variables."""

    def __init__(self, gain: float = 1.0, dtype: Any = dtypes.float32) -> None:
        self.gain = gain
        self.dtype = _assert_float_dtype(dtypes.as_dtype(dtype))

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        full_shape = shape if partition_info is None else partition_info.full_shape
        if len(full_shape) != 2:
            raise ValueError("Identity matrix initializer can only be used for 2D matrices.")
        dtype = self.dtype if dtype is None else dtype
        if isinstance(full_shape, (tuple, list)) or hasattr(full_shape, "as_list"):
            initializer = linalg_ops_impl.eye(*[int(d) for d in full_shape], dtype=dtype)  # type: ignore[arg-type, misc]
        else:
            initializer = linalg_ops_impl.eye(*full_shape, dtype=dtype)  # type: ignore[misc]
        if partition_info is not None:
            initializer = array_ops.slice(initializer, partition_info.var_offset, shape)
        return self.gain * initializer

    def get_config(self) -> dict[str, Any]:
        return {"gain": self.gain, "dtype": self.dtype.name}


class GlorotUniform(VarianceScaling):
    """Uniform numbers up to sqrt(6 / (inputs + outputs)) (Glorot and Bengio, 2010)."""

    def __init__(self, seed: Any = None, dtype: Any = dtypes.float32) -> None:
        super().__init__(scale=1.0, mode="fan_avg", distribution="uniform", seed=seed, dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        return {"seed": self.seed, "dtype": self.dtype.name}


class GlorotNormal(VarianceScaling):
    """Truncated normal numbers with the variance 2 / (inputs + outputs) (Glorot and Bengio, 2010)."""

    def __init__(self, seed: Any = None, dtype: Any = dtypes.float32) -> None:
        super().__init__(scale=1.0, mode="fan_avg", distribution="truncated_normal", seed=seed, dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        return {"seed": self.seed, "dtype": self.dtype.name}


def lecun_normal(seed: Any = None) -> VarianceScaling:
    """Truncated normal numbers with the variance 1 / inputs."""
    return VarianceScaling(scale=1.0, mode="fan_in", distribution="truncated_normal", seed=seed)


def lecun_uniform(seed: Any = None) -> VarianceScaling:
    """Uniform numbers up to sqrt(3 / inputs)."""
    return VarianceScaling(scale=1.0, mode="fan_in", distribution="uniform", seed=seed)


def he_normal(seed: Any = None) -> VarianceScaling:
    """Truncated normal numbers with the variance 2 / inputs (He et al., 2015)."""
    return VarianceScaling(scale=2.0, mode="fan_in", distribution="truncated_normal", seed=seed)


def he_uniform(seed: Any = None) -> VarianceScaling:
    """Uniform numbers up to sqrt(6 / inputs) (He et al., 2015)."""
    return VarianceScaling(scale=2.0, mode="fan_in", distribution="uniform", seed=seed)


def _compute_fans(shape: Any) -> tuple[Any, Any]:
    """The numbers of inputs and outputs of a unit of a layer with weights of `shape`."""
    if len(shape) < 1:
        fan_in = fan_out = 1
    elif len(shape) == 1:
        fan_in = fan_out = shape[0]
    elif len(shape) == 2:
        fan_in, fan_out = shape[0], shape[1]
    else:
        receptive_field_size = 1.0
        for dim in shape[:-2]:
            receptive_field_size *= dim
        fan_in = shape[-2] * receptive_field_size
        fan_out = shape[-1] * receptive_field_size
    return fan_in, fan_out


def _assert_float_dtype(dtype: Any) -> Any:
    """Returns a floating point type; ValueError for another one."""
    if not dtype.is_floating:
        raise ValueError("Expected floating point type, got %s." % dtype)
    return dtype


zeros_initializer = Zeros
ones_initializer = Ones
constant_initializer = Constant
random_uniform_initializer = RandomUniform
random_normal_initializer = RandomNormal
truncated_normal_initializer = TruncatedNormal
uniform_unit_scaling_initializer = UniformUnitScaling
variance_scaling_initializer = VarianceScaling
glorot_uniform_initializer = GlorotUniform
glorot_normal_initializer = GlorotNormal
orthogonal_initializer = Orthogonal
identity_initializer = Identity
convolutional_delta_orthogonal = ConvolutionDeltaOrthogonal

# The lower-case names are aliases of the classes above.
_ORTHOGONAL = (
    "ConvolutionOrthogonal",
    "ConvolutionOrthogonal1D",
    "ConvolutionOrthogonal2D",
    "ConvolutionOrthogonal3D",
)
_ORTHOGONAL_ALIASES = {"convolutional_orthogonal_%dd" % n: "ConvolutionOrthogonal%dD" % n for n in (1, 2, 3)}


def __getattr__(name: str) -> Any:
    name = _ORTHOGONAL_ALIASES.get(name, name)
    if name in _ORTHOGONAL:
        from millrace.python.ops import _init_orthogonal

        return getattr(_init_orthogonal, name)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
