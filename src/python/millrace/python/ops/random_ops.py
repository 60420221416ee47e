# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Random tensors. The seeds of an op come from the graph's seed and the op's, as in TensorFlow."""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework import random_seed
from millrace.python.framework import tensor_util
from millrace.python.ops import array_ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import gen_random_ops
from millrace.python.ops import math_ops

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Names of gen_random_ops that this module does not define."""

else:
    from millrace.python.ops.gen_random_ops import *  # noqa: F401,F403


def _ShapeTensor(shape: Any) -> Any:
    """Converts a shape to a tensor; an empty one to int32."""
    dtype = dtypes.int32 if isinstance(shape, (tuple, list)) and not shape else None
    return ops.convert_to_tensor(shape, dtype=dtype, name="shape")


def random_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    seed: Any = None,
    name: str | None = None,
) -> Any:
    """Returns normal numbers.

    Args:
      shape: the shape, an integer vector.
      mean, stddev: values that broadcast with the shape.
      dtype: a floating point type.
      seed: the op's seed, an integer.
      name: name scope.
    """
    with ops.name_scope(name, "random_normal", [shape, mean, stddev]) as name:
        shape_tensor = _ShapeTensor(shape)
        mean_tensor = ops.convert_to_tensor(mean, dtype=dtype, name="mean")
        stddev_tensor = ops.convert_to_tensor(stddev, dtype=dtype, name="stddev")
        seed1, seed2 = random_seed.get_seed(seed)
        rnd = gen_random_ops.random_standard_normal(shape_tensor, dtype, seed=seed1, seed2=seed2)
        mul = rnd * stddev_tensor
        value = math_ops.add(mul, mean_tensor, name=name)
        tensor_util.maybe_set_static_shape(value, shape)
        return value


def parameterized_truncated_normal(
    shape: Any,
    means: Any = 0.0,
    stddevs: Any = 1.0,
    minvals: Any = -2.0,
    maxvals: Any = 2.0,
    dtype: Any = dtypes.float32,
    seed: Any = None,
    name: str | None = None,
) -> Any:
    """Returns normal numbers between `minvals` and `maxvals`; parameters are scalars or one for each batch."""
    with ops.name_scope(
        name, "parameterized_truncated_normal", [shape, means, stddevs, minvals, maxvals]
    ) as name:
        shape_tensor = _ShapeTensor(shape)
        means_tensor = ops.convert_to_tensor(means, dtype=dtype, name="means")
        stddevs_tensor = ops.convert_to_tensor(stddevs, dtype=dtype, name="stddevs")
        minvals_tensor = ops.convert_to_tensor(minvals, dtype=dtype, name="minvals")
        maxvals_tensor = ops.convert_to_tensor(maxvals, dtype=dtype, name="maxvals")
        seed1, seed2 = random_seed.get_seed(seed)
        rnd = gen_random_ops.parameterized_truncated_normal(
            shape_tensor,
            means_tensor,
            stddevs_tensor,
            minvals_tensor,
            maxvals_tensor,
            seed=seed1,
            seed2=seed2,
        )
        tensor_util.maybe_set_static_shape(rnd, shape)
        return rnd


def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    seed: Any = None,
    name: str | None = None,
) -> Any:
    """Returns normal numbers, drawn again where they are more than two standard deviations from the mean."""
    with ops.name_scope(name, "truncated_normal", [shape, mean, stddev]) as name:
        shape_tensor = _ShapeTensor(shape)
        mean_tensor = ops.convert_to_tensor(mean, dtype=dtype, name="mean")
        stddev_tensor = ops.convert_to_tensor(stddev, dtype=dtype, name="stddev")
        seed1, seed2 = random_seed.get_seed(seed)
        rnd = gen_random_ops.truncated_normal(shape_tensor, dtype, seed=seed1, seed2=seed2)
        mul = rnd * stddev_tensor
        value = math_ops.add(mul, mean_tensor, name=name)
        tensor_util.maybe_set_static_shape(value, shape)
        return value


def random_uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = dtypes.float32,
    seed: Any = None,
    name: str | None = None,
) -> Any:
    """Returns uniform numbers in [minval, maxval); the default of `maxval` is 1 for floating point types.

    Raises:
      ValueError: another type, or an integer type without `maxval`.
    """
    dtype = dtypes.as_dtype(dtype)
    if dtype not in (
        dtypes.float16,
        dtypes.bfloat16,
        dtypes.float32,
        dtypes.float64,
        dtypes.int32,
        dtypes.int64,
    ):
        raise ValueError("Invalid dtype %r" % dtype)
    if maxval is None:
        if dtype.is_integer:
            raise ValueError("Must specify maxval for integer dtype %r" % dtype)
        maxval = 1
    with ops.name_scope(name, "random_uniform", [shape, minval, maxval]) as name:
        shape_tensor = _ShapeTensor(shape)
        minval = ops.convert_to_tensor(minval, dtype=dtype, name="min")
        maxval = ops.convert_to_tensor(maxval, dtype=dtype, name="max")
        seed1, seed2 = random_seed.get_seed(seed)
        if dtype.is_integer:
            result = gen_random_ops.random_uniform_int(
                shape_tensor, minval, maxval, seed=seed1, seed2=seed2, name=name
            )
        else:
            rnd = gen_random_ops.random_uniform(shape_tensor, dtype, seed=seed1, seed2=seed2)
            result = math_ops.add(rnd * (maxval - minval), minval, name=name)
        tensor_util.maybe_set_static_shape(result, shape)
        return result


def random_shuffle(value: Any, seed: Any = None, name: str | None = None) -> Any:
    """Returns the rows of `value` in a random order."""
    seed1, seed2 = random_seed.get_seed(seed)
    return gen_random_ops.random_shuffle(value, seed=seed1, seed2=seed2, name=name)


def random_crop(value: Any, size: Any, seed: Any = None, name: str | None = None) -> Any:
    """Returns a part of `value` of the shape `size` at a random place.

    Fails with InvalidArgumentError where `value` is smaller.
    """
    with ops.name_scope(name, "random_crop", [value, size]) as name:
        value = ops.convert_to_tensor(value, name="value")
        size = ops.convert_to_tensor(size, dtype=dtypes.int32, name="size")
        shape = array_ops.shape(value)
        check = control_flow_ops.Assert(
            math_ops.reduce_all(shape >= size),
            ["Need value.shape >= size, got ", shape, size],
            summarize=1000,
        )
        shape = control_flow_ops.with_dependencies([check], shape)
        limit = shape - size + 1
        offset = (
            random_uniform(array_ops.shape(shape), dtype=size.dtype, maxval=size.dtype.max, seed=seed) % limit
        )
        return array_ops.slice(value, offset, size, name=name)


def multinomial(
    logits: Any, num_samples: Any, seed: Any = None, name: str | None = None, output_dtype: Any = None
) -> Any:
    """Draws `num_samples` classes for each row of `logits`, the logarithms of probabilities up to a constant."""
    with ops.name_scope(name, "multinomial", [logits]):
        return multinomial_categorical_impl(logits, num_samples, output_dtype, seed)


def categorical(
    logits: Any, num_samples: Any, dtype: Any = None, seed: Any = None, name: str | None = None
) -> Any:
    """Draws `num_samples` classes for each row of `logits`; int64 unless `dtype` is int32."""
    with ops.name_scope(name, "categorical", [logits]):
        return multinomial_categorical_impl(logits, num_samples, dtype, seed)


def multinomial_categorical_impl(logits: Any, num_samples: Any, dtype: Any, seed: Any) -> Any:
    """The op that draws classes."""
    logits = ops.convert_to_tensor(logits, name="logits")
    seed1, seed2 = random_seed.get_seed(seed)
    return gen_random_ops.multinomial(
        logits, num_samples, seed=seed1, seed2=seed2, output_dtype=dtypes.int64 if dtype is None else dtype
    )


def random_gamma(
    shape: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = dtypes.float32,
    seed: Any = None,
    name: str | None = None,
) -> Any:
    """Returns numbers of gamma distributions, of the shape `shape` + that of `alpha` and `beta` broadcast."""
    with ops.name_scope(name, "random_gamma", [shape, alpha, beta]):
        shape = ops.convert_to_tensor(shape, name="shape", dtype=dtypes.int32)
        alpha = ops.convert_to_tensor(alpha, name="alpha", dtype=dtype)
        beta = ops.convert_to_tensor(beta if beta is not None else 1, name="beta", dtype=dtype)
        broadcast_shape = array_ops.broadcast_dynamic_shape(array_ops.shape(alpha), array_ops.shape(beta))
        alpha_broadcast = array_ops.broadcast_to(alpha, broadcast_shape)
        seed1, seed2 = random_seed.get_seed(seed)
        tiny = _tiny(alpha.dtype)
        result = math_ops.maximum(
            tiny, gen_random_ops.random_gamma(shape, alpha_broadcast, seed=seed1, seed2=seed2) / beta
        )
        _set_sample_shape(result, shape, alpha.shape, beta.shape)
        return result


def _tiny(dtype: Any) -> Any:
    """The smallest positive normal number of a type."""
    import numpy as np

    return np.finfo(dtype.as_numpy_dtype).tiny


def _set_sample_shape(result: Any, shape: Any, *parameter_shapes: Any) -> None:
    """Sets the static shape of a sample to `shape` + that of the parameters, as far as it is known."""
    batch = parameter_shapes[0]
    for other in parameter_shapes[1:]:
        if batch.ndims is None or other.ndims is None:
            return
        batch = array_ops.broadcast_static_shape(batch, other)
    value = tensor_util.constant_value(shape)
    if value is not None:
        result.set_shape(
            [int(i) for i in value.reshape([-1])] + list(batch.dims or [])
            if batch.ndims is not None
            else None
        )


def random_poisson(
    lam: Any, shape: Any, dtype: Any = dtypes.float32, seed: Any = None, name: str | None = None
) -> Any:
    """Returns numbers of Poisson distributions with the means `lam`, of the shape `shape` + that of `lam`."""
    return random_poisson_v2(shape, lam, dtype, seed, name)


def random_poisson_v2(
    shape: Any, lam: Any, dtype: Any = dtypes.float32, seed: Any = None, name: str | None = None
) -> Any:
    """Returns numbers of Poisson distributions with the means `lam`, of the shape `shape` + that of `lam`."""
    with ops.name_scope(name, "random_poisson", [lam, shape]):
        shape = ops.convert_to_tensor(shape, name="shape", dtype=dtypes.int32)
        seed1, seed2 = random_seed.get_seed(seed)
        result = gen_random_ops.random_poisson_v2(shape, lam, dtype=dtype, seed=seed1, seed2=seed2)
        return result


multinomial_v1 = multinomial
