# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Random tensors that are a function of a seed, a pair of integers."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import gen_stateless_random_ops
from millrace.python.ops import math_ops
from millrace.python.ops.random_ops import _ShapeTensor


def stateless_random_uniform(
    shape: Any,
    seed: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Any:
    """Returns uniform numbers in [minval, maxval).

    Args:
      shape: the shape, an integer vector.
      seed: two integers.
      minval, maxval: bounds; `maxval` is 1 by default for floating point types and needed for integers.
      dtype: float16, float32, float64, int32 or int64.
      name: name scope.

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
    with ops.name_scope(name, "stateless_random_uniform", [shape, seed, minval, maxval]) as name:
        shape = _ShapeTensor(shape)
        minval = ops.convert_to_tensor(minval, dtype=dtype, name="min")
        maxval = ops.convert_to_tensor(maxval, dtype=dtype, name="max")
        if dtype.is_integer:
            return gen_stateless_random_ops.stateless_random_uniform_int(
                shape, seed=seed, minval=minval, maxval=maxval, name=name
            )
        rnd = gen_stateless_random_ops.stateless_random_uniform(shape, seed=seed, dtype=dtype)
        return math_ops.add(rnd * (maxval - minval), minval, name=name)


def _scaled(
    fn: Any, scope: str, shape: Any, seed: Any, mean: Any, stddev: Any, dtype: Any, name: str | None
) -> Any:
    with ops.name_scope(name, scope, [shape, seed, mean, stddev]) as name:
        shape = _ShapeTensor(shape)
        mean = ops.convert_to_tensor(mean, dtype=dtype, name="mean")
        stddev = ops.convert_to_tensor(stddev, dtype=dtype, name="stddev")
        rnd = fn(shape, seed, dtype)
        return math_ops.add(rnd * stddev, mean, name=name)


def stateless_random_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Any:
    """Returns normal numbers."""
    fn = gen_stateless_random_ops.stateless_random_normal
    return _scaled(fn, "stateless_random_normal", shape, seed, mean, stddev, dtype, name)


def stateless_truncated_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Any:
    """Returns normal numbers within two standard deviations from the mean."""
    fn = gen_stateless_random_ops.stateless_truncated_normal
    return _scaled(fn, "stateless_truncated_normal", shape, seed, mean, stddev, dtype, name)


def stateless_multinomial(
    logits: Any, num_samples: Any, seed: Any, output_dtype: Any = dtypes.int64, name: str | None = None
) -> Any:
    """Draws `num_samples` classes for each row of `logits`."""
    with ops.name_scope(name, "stateless_multinomial", [logits, seed]):
        return stateless_multinomial_categorical_impl(logits, num_samples, output_dtype, seed)


def stateless_categorical(
    logits: Any, num_samples: Any, seed: Any, dtype: Any = dtypes.int64, name: str | None = None
) -> Any:
    """Draws `num_samples` classes for each row of `logits`."""
    with ops.name_scope(name, "stateless_categorical", [logits, seed]):
        return stateless_multinomial_categorical_impl(logits, num_samples, dtype, seed)


def stateless_multinomial_categorical_impl(logits: Any, num_samples: Any, dtype: Any, seed: Any) -> Any:
    """The op that draws classes."""
    logits = ops.convert_to_tensor(logits, name="logits")
    return gen_stateless_random_ops.stateless_multinomial(logits, num_samples, seed, output_dtype=dtype)
