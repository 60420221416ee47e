# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Generators of random numbers whose state is in a variable."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from millrace.python.framework import dtypes, ops, tensor_shape
from millrace.python.ops import array_ops, gen_stateful_random_ops, math_ops, resource_variable_ops
from millrace.python.training.tracking import tracking

SEED_TYPE = "int64"
STATE_TYPE = SEED_TYPE
SEED_BIT_SIZE = 1024
SEED_SIZE = 16  # elements of SEED_TYPE
SEED_TYPE_BITS = 64
SEED_MIN_VALUE = np.iinfo(np.int64).min
SEED_MAX_VALUE = np.iinfo(np.int64).max
SEED_UINT_MAX_VALUE = np.iinfo(np.uint64).max
RNG_ALG_PHILOX = 1
RNG_ALG_THREEFRY = 2
DEFAULT_ALGORITHM = RNG_ALG_PHILOX
PHILOX_STATE_SIZE = 3
THREEFRY_STATE_SIZE = 2


def non_deterministic_ints(shape: Any, dtype: Any = dtypes.int64) -> Any:
    """Returns non-deterministic random integers of the whole range of `dtype`."""
    return gen_stateful_random_ops.non_deterministic_ints(shape=_shape_tensor(shape), dtype=dtype)


def _shape_tensor(shape: Any) -> Any:
    return ops.convert_to_tensor(
        shape, dtype=dtypes.int64 if isinstance(shape, (list, tuple)) and not shape else None
    )


def _uint_to_int(n: Any) -> Any:
    return n - (1 << SEED_TYPE_BITS) if isinstance(n, int) and n > SEED_MAX_VALUE else n


def _get_state_size(alg: int) -> int:
    if alg == RNG_ALG_PHILOX:
        return PHILOX_STATE_SIZE
    if alg == RNG_ALG_THREEFRY:
        return THREEFRY_STATE_SIZE
    raise ValueError("Unsupported algorithm id: %s" % alg)


def _make_1d_state(state_size: int, seed: Any) -> Any:
    """Returns int64 [state_size] of a seed: an integer of any size, or a tensor, padded with 0 on the left."""
    if isinstance(seed, (int, np.integer)):
        seed = int(seed)
        parts = []
        for _ in range(state_size):
            parts.append(seed & SEED_UINT_MAX_VALUE)
            seed >>= SEED_TYPE_BITS
        seed = parts
    if isinstance(seed, (list, tuple)):
        seed = [_uint_to_int(int(n)) if not isinstance(n, ops.Tensor) else n for n in seed]
    elif isinstance(seed, np.ndarray) and seed.dtype == np.uint64:
        seed = seed.astype(np.int64)
    seed = math_ops.cast(
        ops.convert_to_tensor(seed, dtype=dtypes.int64 if isinstance(seed, list) else None), dtypes.int64
    )
    seed = array_ops.reshape(seed, [-1])[0:state_size]
    seed_size = tensor_shape.dimension_value(seed.shape[0])
    if seed_size is None:
        seed_size = array_ops.shape(seed)[0]
    padding_size = math_ops.maximum(state_size - seed_size, 0)
    seed = array_ops.concat([array_ops.zeros([padding_size], seed.dtype), seed], axis=0)
    seed.set_shape([state_size])
    return seed


def _convert_alg_to_int(alg: Any) -> int:
    """Returns the number of an algorithm that is given by number or name."""
    if isinstance(alg, int):
        return alg
    if alg == "philox":
        return RNG_ALG_PHILOX
    if alg == "threefry":
        return RNG_ALG_THREEFRY
    raise ValueError("Unknown algorithm name: %s" % alg)


def create_rng_state(seed: Any, algorithm: Any) -> Any:
    """Returns the state, int64 [n], of a generator for a seed: an integer or a vector of them.

    Raises:
      ValueError: an unknown algorithm.
    """
    return _make_1d_state(_get_state_size(_convert_alg_to_int(algorithm)), seed)


class Generator(tracking.AutoTrackable):
    """A generator of random numbers whose state is a variable, which each use advances.

    Args:
      copy_from: a generator to copy.
      state: a vector of integers, see `create_rng_state`.
      alg: the algorithm, a number or "philox" or "threefry".
    """

    def __init__(self, copy_from: Any = None, state: Any = None, alg: Any = None):
        if copy_from is not None:
            if not (state is None and alg is None):
                raise ValueError("copy_from is mutually exclusive with state and alg.")
            if not isinstance(copy_from, Generator):
                raise TypeError("copy_from must be a Generator, got: %r" % (copy_from,))
            alg, state = copy_from.algorithm, copy_from.state.read_value()
            self._alg = alg
        else:
            if not (state is not None and alg is not None):
                raise ValueError("state and alg are both needed when copy_from is not given.")
            self._alg = _convert_alg_to_int(alg)
            state = _make_1d_state(_get_state_size(self._alg), state)
        self._state_var: Any = resource_variable_ops.ResourceVariable(
            initial_value=state, trainable=False, dtype=STATE_TYPE
        )

    @classmethod
    def from_state(cls, state: Any, alg: Any) -> Any:
        """Returns a generator with a state."""
        return cls(alg=alg, state=state)

    @classmethod
    def from_seed(cls, seed: Any, alg: Any = None) -> Any:
        """Returns a generator for a seed."""
        alg = DEFAULT_ALGORITHM if alg is None else _convert_alg_to_int(alg)
        return cls(state=create_rng_state(seed, alg), alg=alg)

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Any:
        """Returns a generator with a non-deterministic state."""
        alg = DEFAULT_ALGORITHM if alg is None else _convert_alg_to_int(alg)
        return cls(state=non_deterministic_ints([_get_state_size(alg)], dtypes.int64), alg=alg)

    @classmethod
    def from_key_counter(cls, key: Any, counter: Any, alg: Any) -> Any:
        """Returns a generator with a key and a counter."""
        alg = _convert_alg_to_int(alg)
        return cls(state=_concat(counter, key), alg=alg)

    @property
    def algorithm(self) -> int:
        """The number of the algorithm."""
        return self._alg

    @property
    def state(self) -> Any:
        """The variable with the state."""
        return self._state_var

    @property
    def key(self) -> Any:
        """The key, a scalar."""
        if self._alg in (RNG_ALG_PHILOX, RNG_ALG_THREEFRY):
            return self._state_var[-1]
        raise ValueError("Unsupported algorithm id: %s" % self._alg)

    def reset(self, state: Any) -> Any:
        """Returns the op that sets the state."""
        return self._state_var.assign(_make_1d_state(_get_state_size(self._alg), state))

    def reset_from_seed(self, seed: Any) -> Any:
        """Returns the op that sets the state by a seed."""
        return self._state_var.assign(create_rng_state(seed, self._alg))

    def reset_from_key_counter(self, key: Any, counter: Any) -> Any:
        """Returns the op that sets key and counter."""
        return self._state_var.assign(_concat(counter, key))

    def skip(self, delta: Any) -> Any:
        """Returns the op that advances the counter by `delta` numbers."""
        return gen_stateful_random_ops.rng_skip(
            self._state_var.handle, math_ops.cast(self._alg, dtypes.int64), math_ops.cast(delta, dtypes.int64)
        )

    def _call(self, op: Any, shape: Any, *args: Any, **kwargs: Any) -> Any:
        return op(
            self._state_var.handle,
            math_ops.cast(self._alg, dtypes.int64),
            _shape_tensor(shape),
            *args,
            **kwargs,
        )

    def normal(
        self,
        shape: Any,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        dtype: Any = dtypes.float32,
        name: Optional[str] = None,
    ) -> Any:
        """Returns normal numbers."""
        with ops.name_scope(name, "stateful_normal", [shape, mean, stddev]) as name:
            mean = ops.convert_to_tensor(mean, dtype=dtype, name="mean")
            stddev = ops.convert_to_tensor(stddev, dtype=dtype, name="stddev")
            rnd = self._call(gen_stateful_random_ops.stateful_standard_normal_v2, shape, dtype=dtype)
            return math_ops.add(rnd * stddev, mean, name=name)

    def truncated_normal(
        self,
        shape: Any,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        dtype: Any = dtypes.float32,
        name: Optional[str] = None,
    ) -> Any:
        """Returns normal numbers within two standard deviations."""
        with ops.name_scope(name, "truncated_normal", [shape, mean, stddev]) as name:
            mean = ops.convert_to_tensor(mean, dtype=dtype, name="mean")
            stddev = ops.convert_to_tensor(stddev, dtype=dtype, name="stddev")
            rnd = self._call(gen_stateful_random_ops.stateful_truncated_normal, shape, dtype=dtype)
            return math_ops.add(rnd * stddev, mean, name=name)

    def uniform(
        self,
        shape: Any,
        minval: Any = 0,
        maxval: Any = None,
        dtype: Any = dtypes.float32,
        name: Optional[str] = None,
    ) -> Any:
        """Returns numbers in [minval, maxval); ValueError for integers without `maxval`."""
        dtype = dtypes.as_dtype(dtype)
        if maxval is None:
            if dtype.is_integer:
                raise ValueError("Must specify maxval for integer dtype %r" % dtype)
            maxval = 1
        with ops.name_scope(name, "stateful_uniform", [shape, minval, maxval]) as name:
            minval = ops.convert_to_tensor(minval, dtype=dtype, name="min")
            maxval = ops.convert_to_tensor(maxval, dtype=dtype, name="max")
            if dtype.is_integer:
                return self._call(
                    gen_stateful_random_ops.stateful_uniform_int,
                    shape,
                    minval=minval,
                    maxval=maxval,
                    name=name,
                )
            rnd = self._call(gen_stateful_random_ops.stateful_uniform, shape, dtype=dtype)
            return math_ops.add(rnd * (maxval - minval), minval, name=name)

    def uniform_full_int(self, shape: Any, dtype: Any = dtypes.uint64, name: Optional[str] = None) -> Any:
        """Returns integers of the whole range of `dtype`."""
        with ops.name_scope(name, "stateful_uniform_full_int", [shape]) as name:
            return self._call(
                gen_stateful_random_ops.stateful_uniform_full_int, shape, dtype=dtype, name=name
            )

    def binomial(
        self, shape: Any, counts: Any, probs: Any, dtype: Any = dtypes.int32, name: Optional[str] = None
    ) -> Any:
        """Returns how many of `counts` trials succeed with probability `probs`."""
        dtype = dtypes.as_dtype(dtype)
        with ops.name_scope(name, "binomial", [shape, counts, probs]) as name:
            counts = ops.convert_to_tensor(counts, name="counts")
            probs = ops.convert_to_tensor(probs, name="probs")
            return self._call(
                gen_stateful_random_ops.stateful_random_binomial,
                shape,
                counts=counts,
                probs=probs,
                dtype=dtype,
                name=name,
            )

    def _make_int64_keys(self, shape: Any = ()) -> Any:
        return self.uniform_full_int(shape=list(shape), dtype=dtypes.int64)

    def make_seeds(self, count: int = 1) -> Any:
        """Returns seeds, int64 [2, count], for stateless ops."""
        if self._alg not in (RNG_ALG_PHILOX, RNG_ALG_THREEFRY):
            raise ValueError("Unsupported algorithm id: %s" % self._alg)
        keys = self._make_int64_keys(shape=[count])
        return array_ops.stack([keys, array_ops.zeros_like(keys)])

    def split(self, count: int = 1) -> list[Any]:
        """Returns `count` generators that depend on this one."""
        if self._alg not in (RNG_ALG_PHILOX, RNG_ALG_THREEFRY):
            raise ValueError("Unsupported algorithm id: %s" % self._alg)
        keys = self._make_int64_keys(shape=[count])
        return [
            Generator(
                state=_concat(array_ops.zeros([self._counter_size()], dtypes.int64), key), alg=self._alg
            )
            for key in array_ops.unstack(keys, num=count)
        ]

    def _counter_size(self) -> int:
        return _get_state_size(self._alg) - 1


def _concat(counter: Any, key: Any) -> Any:
    counter = math_ops.cast(ops.convert_to_tensor(counter), dtypes.int64)
    key = math_ops.cast(ops.convert_to_tensor(key), dtypes.int64)
    return array_ops.concat([array_ops.reshape(counter, [-1]), array_ops.reshape(key, [-1])], axis=0)


_global_generator: Any = None


def get_global_generator() -> Any:
    """Returns the generator that functions without one use; made at the first call."""
    global _global_generator
    if _global_generator is None:
        _global_generator = Generator.from_non_deterministic_state()
    return _global_generator


def set_global_generator(generator: Any) -> None:
    """Makes `generator` the one that `get_global_generator` returns."""
    global _global_generator
    _global_generator = generator
