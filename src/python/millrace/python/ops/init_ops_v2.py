# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Initializers of version 2: the type of the values is an argument of the call, not of the initializer."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes
from millrace.python.ops import array_ops, init_ops


class Initializer:
    """Makes the initial value of a variable of a shape."""

    def __call__(self, shape: Any, dtype: Any = dtypes.float32) -> Any:
        """Returns the value."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that the initializer was made with."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Returns an initializer with the arguments of another."""
        config.pop("dtype", None)
        return cls(**config)


def _numeric(dtype: Any) -> Any:
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_numpy_compatible or dtype == dtypes.string:
        raise ValueError("Expected numeric or boolean dtype, got %s." % dtype)
    return dtype


class Zeros(Initializer):
    """Zeros."""

    def __call__(self, shape: Any, dtype: Any = dtypes.float32) -> Any:
        return array_ops.zeros(shape, _numeric(dtype))


class Ones(Initializer):
    """Ones."""

    def __call__(self, shape: Any, dtype: Any = dtypes.float32) -> Any:
        return array_ops.ones(shape, _numeric(dtype))


class Constant(Initializer):
    """One number, or a list or array of as many numbers as the shape has elements."""

    def __init__(self, value: Any = 0) -> None:
        import numpy as np

        if not (np.isscalar(value) or isinstance(value, (list, tuple, np.ndarray))):
            raise TypeError(
                "Invalid type for initial value: %s (expected Python scalar, list or tuple of values, or numpy.ndarray)."
                % type(value)
            )
        self.value = value

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        from millrace.python.framework import constant_op

        if dtype is not None:
            dtype = dtypes.as_dtype(dtype)
        return constant_op.constant_v2(self.value, dtype=dtype, shape=shape)

    def get_config(self) -> dict[str, Any]:
        return {"value": self.value}


class _Wrapped(Initializer):
    """Base of initializers whose values come from one of version 1."""

    _class: Any

    def __init__(self, **config: Any) -> None:
        self._config = config
        for name, value in config.items():
            setattr(self, name, value)

    def __call__(self, shape: Any, dtype: Any = dtypes.float32) -> Any:
        dtype = init_ops._assert_float_dtype(dtypes.as_dtype(dtype))
        return self._class(dtype=dtype, **self._config)(shape, dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        return dict(self._config)


class RandomUniform(_Wrapped):
    """Uniform numbers in [minval, maxval)."""

    _class = init_ops.RandomUniform

    def __init__(self, minval: Any = -0.05, maxval: Any = 0.05, seed: Any = None) -> None:
        super().__init__(minval=minval, maxval=maxval, seed=seed)

    def __call__(self, shape: Any, dtype: Any = dtypes.float32) -> Any:
        dtype = dtypes.as_dtype(dtype)
        if not dtype.is_floating and not dtype.is_integer:
            raise ValueError("Expected float or integer dtype, got %s." % dtype)
        return self._class(dtype=dtype, **self._config)(shape, dtype=dtype)


class RandomNormal(_Wrapped):
    """Normal numbers."""

    _class = init_ops.RandomNormal

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: Any = None) -> None:
        super().__init__(mean=mean, stddev=stddev, seed=seed)


class TruncatedNormal(_Wrapped):
    """Normal numbers within two standard deviations."""

    _class = init_ops.TruncatedNormal

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: Any = None) -> None:
        super().__init__(mean=mean, stddev=stddev, seed=seed)


class VarianceScaling(_Wrapped):
    """Random numbers with the variance `scale` / n; n: the number of inputs, outputs, or their mean."""

    _class = init_ops.VarianceScaling

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: Any = None,
    ) -> None:
        if scale <= 0.0:
            raise ValueError("`scale` must be positive float.")
        if mode not in {"fan_in", "fan_out", "fan_avg"}:
            raise ValueError("Invalid `mode` argument:", mode)
        distribution = distribution.lower()
        if distribution == "normal":
            distribution = "truncated_normal"
        if distribution not in {"uniform", "truncated_normal", "untruncated_normal"}:
            raise ValueError("Invalid `distribution` argument:", distribution)
        super().__init__(scale=scale, mode=mode, distribution=distribution, seed=seed)


class Orthogonal(_Wrapped):
    """Orthogonal matrices times `gain`."""

    _class = init_ops.Orthogonal

    def __init__(self, gain: float = 1.0, seed: Any = None) -> None:
        super().__init__(gain=gain, seed=seed)


class Identity(_Wrapped):
    """The identity matrix times `gain`."""

    _class = init_ops.Identity

    def __init__(self, gain: float = 1.0) -> None:
        super().__init__(gain=gain)


class GlorotUniform(VarianceScaling):
    """Uniform numbers up to sqrt(6 / (inputs + outputs))."""

    def __init__(self, seed: Any = None) -> None:
        super().__init__(scale=1.0, mode="fan_avg", distribution="uniform", seed=seed)

    def get_config(self) -> dict[str, Any]:
        return {"seed": self._config["seed"]}


class GlorotNormal(VarianceScaling):
    """Truncated normal numbers with the variance 2 / (inputs + outputs)."""

    def __init__(self, seed: Any = None) -> None:
        super().__init__(scale=1.0, mode="fan_avg", distribution="truncated_normal", seed=seed)

    def get_config(self) -> dict[str, Any]:
        return {"seed": self._config["seed"]}


def lecun_normal(seed: Any = None) -> VarianceScaling:
    """Truncated normal numbers with the variance 1 / inputs."""
    return VarianceScaling(scale=1.0, mode="fan_in", distribution="truncated_normal", seed=seed)


def lecun_uniform(seed: Any = None) -> VarianceScaling:
    """Uniform numbers up to sqrt(3 / inputs)."""
    return VarianceScaling(scale=1.0, mode="fan_in", distribution="uniform", seed=seed)


def he_normal(seed: Any = None) -> VarianceScaling:
    """Truncated normal numbers with the variance 2 / inputs."""
    return VarianceScaling(scale=2.0, mode="fan_in", distribution="truncated_normal", seed=seed)


def he_uniform(seed: Any = None) -> VarianceScaling:
    """Uniform numbers up to sqrt(6 / inputs)."""
    return VarianceScaling(scale=2.0, mode="fan_in", distribution="uniform", seed=seed)


zeros_initializer = Zeros
ones_initializer = Ones
constant_initializer = Constant
_assert_float_dtype = init_ops._assert_float_dtype
