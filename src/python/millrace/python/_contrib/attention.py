# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Attention mechanisms of tf.contrib.seq2seq."""
from __future__ import annotations

import functools
import math
from typing import Any, Callable

import numpy as np

from millrace.python.framework import dtypes, ops, tensor_shape
from millrace.python.layers import core as layers_core
from millrace.python.ops import (
    array_ops,
    check_ops,
    clip_ops,
    functional_ops,
    init_ops,
    math_ops,
    nn_ops,
    random_ops,
    variable_scope,
)
from millrace.python.util import nest


class AttentionMechanism:
    """The interface of mechanisms."""

    @property
    def alignments_size(self) -> Any:
        """The number of entries of the memory."""
        raise NotImplementedError

    @property
    def state_size(self) -> Any:
        """The size of the mechanism's state."""
        raise NotImplementedError


def _prepare_memory(memory: Any, memory_sequence_length: Any, check_inner_dims_defined: bool) -> Any:
    """The memory, with zeros after the end of each sequence."""
    memory = nest.map_structure(lambda m: ops.convert_to_tensor(m, name="memory"), memory)
    if memory_sequence_length is not None:
        memory_sequence_length = ops.convert_to_tensor(memory_sequence_length, name="memory_sequence_length")
    if check_inner_dims_defined:
        for m in nest.flatten(memory):
            if not m.get_shape()[2:].is_fully_defined():
                raise ValueError(
                    "Expected memory %s to have fully defined inner dims, but saw shape: %s"
                    % (m.name, m.get_shape())
                )
    if memory_sequence_length is None:
        return memory
    first = nest.flatten(memory)[0]
    mask = array_ops.sequence_mask(
        memory_sequence_length, maxlen=array_ops.shape(first)[1], dtype=first.dtype
    )

    def masked(m: Any) -> Any:
        rank = m.get_shape().ndims
        ones = array_ops.ones([(rank if rank is not None else array_ops.rank(m)) - 2], dtype=dtypes.int32)
        return m * array_ops.reshape(mask, array_ops.concat((array_ops.shape(mask), ones), 0))

    return nest.map_structure(masked, memory)


def _maybe_mask_score(score: Any, memory_sequence_length: Any, score_mask_value: Any) -> Any:
    if memory_sequence_length is None:
        return score
    positive = check_ops.assert_positive(
        memory_sequence_length, message="All values in memory_sequence_length must greater than zero."
    )
    with ops.control_dependencies([positive]):
        mask = array_ops.sequence_mask(memory_sequence_length, maxlen=array_ops.shape(score)[1])
        return array_ops.where(mask, score, score_mask_value * array_ops.ones_like(score))


class _BaseAttentionMechanism(AttentionMechanism):
    """A mechanism with a memory: `keys` are compared with queries, `values` are read."""

    def __init__(
        self, query_layer: Any, memory: Any, probability_fn: Callable[[Any, Any], Any],
        memory_sequence_length: Any = None,
        memory_layer: Any = None, check_inner_dims_defined: bool = True, score_mask_value: Any = None,
        custom_key_value_fn: Any = None, name: Any = None,
    ) -> None:  # fmt: skip
        for layer in (query_layer, memory_layer):
            if layer is not None and not hasattr(layer, "apply"):
                raise TypeError("%s is not a Layer: %s" % ("layer", type(layer).__name__))
        self._query_layer = query_layer
        self._memory_layer = memory_layer
        self.dtype = memory_layer.dtype if memory_layer is not None else nest.flatten(memory)[0].dtype
        if not callable(probability_fn):
            raise TypeError("probability_fn must be callable, saw type: %s" % type(probability_fn).__name__)
        if score_mask_value is None:
            score_mask_value = dtypes.as_dtype(self.dtype).as_numpy_dtype(-np.inf)
        self._probability_fn: Any = lambda score, prev: probability_fn(
            _maybe_mask_score(score, memory_sequence_length, score_mask_value), prev
        )
        with ops.name_scope(name, "BaseAttentionMechanismInit", nest.flatten(memory)):
            self._values = _prepare_memory(memory, memory_sequence_length, check_inner_dims_defined)
            self._keys = self.memory_layer(self._values) if self.memory_layer else self._values
            if custom_key_value_fn is not None:
                self._keys, self._values = custom_key_value_fn(self._keys, self._values)
            keys = self._keys
            static = keys.shape.dims[0].value if keys.shape.ndims else None
            self._batch_size = static or array_ops.shape(keys)[0]
            static = keys.shape.dims[1].value if keys.shape.ndims else None
            self._alignments_size = static or array_ops.shape(keys)[1]

    @property
    def memory_layer(self) -> Any:
        """The layer that makes keys of the memory, or None."""
        return self._memory_layer

    @property
    def query_layer(self) -> Any:
        """The layer applied to queries, or None."""
        return self._query_layer

    @property
    def values(self) -> Any:
        """The values, whose weighted sum is the attention."""
        return self._values

    @property
    def keys(self) -> Any:
        """The keys, with which queries are compared."""
        return self._keys

    @property
    def batch_size(self) -> Any:
        """The size of the batch."""
        return self._batch_size

    @property
    def alignments_size(self) -> Any:
        return self._alignments_size

    @property
    def state_size(self) -> Any:
        return self._alignments_size

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """Zeros [batch, memory]."""
        zero_state = rnn_zero_state(self._alignments_size, batch_size, dtype)
        return zero_state

    def initial_state(self, batch_size: Any, dtype: Any) -> Any:
        """The state of the first step: its alignments."""
        return self.initial_alignments(batch_size, dtype)

    def _scores(self, query: Any) -> Any:
        raise NotImplementedError

    def __call__(self, query: Any, state: Any) -> Any:
        """(alignments, next state) for a query."""
        alignments = self._probability_fn(self._scores(query), state)
        return alignments, alignments


def rnn_zero_state(size: Any, batch_size: Any, dtype: Any) -> Any:
    """Zeros [batch, size] with whatever is known of the shape."""
    zeros = array_ops.zeros(array_ops.stack([batch_size, size]), dtype=dtype)
    known = [d if isinstance(d, int) else None for d in (batch_size, size)]
    zeros.set_shape(tensor_shape.TensorShape(known))
    return zeros


def _luong_score(query: Any, keys: Any, scale: bool) -> Any:
    depth, key_units = query.get_shape()[-1], keys.get_shape()[-1]
    if depth != key_units:
        raise ValueError(
            "Incompatible or unknown inner dimensions between query and keys.  Query (%s) has units: %s.  "
            "Keys (%s) have "
            "units: %s.  Perhaps you need to set num_units to the keys' dimension (%s)?"
            % (query, depth, keys, key_units, key_units)
        )
    score = array_ops.squeeze(math_ops.matmul(array_ops.expand_dims(query, 1), keys, transpose_b=True), [1])
    if scale:
        score = (
            variable_scope.get_variable(
                "attention_g", dtype=query.dtype, initializer=init_ops.ones_initializer, shape=()
            )
            * score
        )
    return score


def _bahdanau_score(processed_query: Any, keys: Any, normalize: bool) -> Any:
    dtype = processed_query.dtype
    num_units = keys.shape[2].value or array_ops.shape(keys)[2]
    query = array_ops.expand_dims(processed_query, 1)
    v = variable_scope.get_variable("attention_v", [num_units], dtype=dtype)
    if not normalize:
        return math_ops.reduce_sum(v * math_ops.tanh(keys + query), [2])
    g = variable_scope.get_variable(
        "attention_g",
        dtype=dtype,
        initializer=init_ops.constant_initializer(math.sqrt(1.0 / num_units)),
        shape=(),
    )
    b = variable_scope.get_variable(
        "attention_b", [num_units], dtype=dtype, initializer=init_ops.zeros_initializer()
    )
    normed_v = g * v * math_ops.rsqrt(math_ops.reduce_sum(math_ops.square(v)))
    return math_ops.reduce_sum(normed_v * math_ops.tanh(keys + query + b), [2])


def _memory_layer(num_units: int, dtype: Any) -> Any:
    return layers_core.Dense(num_units, name="memory_layer", use_bias=False, dtype=dtype)


def _query_layer(num_units: int, dtype: Any) -> Any:
    return layers_core.Dense(num_units, name="query_layer", use_bias=False, dtype=dtype)


class LuongAttention(_BaseAttentionMechanism):
    """Luong attention: scores are products of queries and keys, times a variable if `scale`.

    Args:
      num_units: the size of keys; that of queries must be the same.
      memory: [batch, time, ...].
      memory_sequence_length: int32 [batch], or None.
      scale: whether scores are multiplied by a variable.
      probability_fn: a function from scores to probabilities; softmax by default.
      score_mask_value: the score of positions after the end of a sequence.
      dtype: type of the layer.
      custom_key_value_fn: a function from (keys, values) to the keys and values to use.
      name: name scope.
    """

    def __init__(
        self, num_units: int, memory: Any, memory_sequence_length: Any = None, scale: bool = False,
        probability_fn: Any = None,
        score_mask_value: Any = None, dtype: Any = None, custom_key_value_fn: Any = None,
        name: str = "LuongAttention",
    ) -> None:  # fmt: skip
        probability_fn = nn_ops.softmax if probability_fn is None else probability_fn
        super().__init__(
            query_layer=None, memory_layer=_memory_layer(num_units, dtype or dtypes.float32), memory=memory,
            probability_fn=lambda score, _: probability_fn(score),
            memory_sequence_length=memory_sequence_length,
            score_mask_value=score_mask_value, custom_key_value_fn=custom_key_value_fn, name=name,
        )  # fmt: skip
        self._num_units = num_units
        self._scale = scale
        self._name = name

    def _scores(self, query: Any) -> Any:
        with variable_scope.variable_scope(None, "luong_attention", [query]):
            return _luong_score(query, self._keys, self._scale)


class BahdanauAttention(_BaseAttentionMechanism):
    """Bahdanau attention: scores are weighted sums of tanh(query + key); `normalize`: normalised weights.

    The arguments are those of LuongAttention.
    """

    def __init__(
        self, num_units: int, memory: Any, memory_sequence_length: Any = None, normalize: bool = False,
        probability_fn: Any = None, score_mask_value: Any = None, dtype: Any = None,
        custom_key_value_fn: Any = None,
        name: str = "BahdanauAttention",
    ) -> None:  # fmt: skip
        probability_fn = nn_ops.softmax if probability_fn is None else probability_fn
        dtype = dtype or dtypes.float32
        super().__init__(
            query_layer=_query_layer(num_units, dtype), memory_layer=_memory_layer(num_units, dtype),
            memory=memory,
            probability_fn=lambda score, _: probability_fn(score), custom_key_value_fn=custom_key_value_fn,
            memory_sequence_length=memory_sequence_length, score_mask_value=score_mask_value, name=name,
        )  # fmt: skip
        self._num_units = num_units
        self._normalize = normalize
        self._name = name

    def _scores(self, query: Any) -> Any:
        with variable_scope.variable_scope(None, "bahdanau_attention", [query]):
            processed_query = self.query_layer(query) if self.query_layer else query
            return _bahdanau_score(processed_query, self._keys, self._normalize)


def safe_cumprod(x: Any, *args: Any, **kwargs: Any) -> Any:
    """Cumulative products, as exp of cumulative sums of logarithms; numbers are clipped to [tiny, 1]."""
    with ops.name_scope(None, "SafeCumprod", [x]):
        x = ops.convert_to_tensor(x, name="x")
        tiny = np.finfo(x.dtype.as_numpy_dtype).tiny
        return math_ops.exp(
            math_ops.cumsum(math_ops.log(clip_ops.clip_by_value(x, tiny, 1)), *args, **kwargs)
        )


def monotonic_attention(p_choose_i: Any, previous_attention: Any, mode: str) -> Any:
    """The distribution of monotonic attention, whose position only moves forward.

    Args:
      p_choose_i: [batch, memory], the probabilities of stopping at an entry.
      previous_attention: [batch, memory], the distribution of the step before.
      mode: "recursive" (exact, a loop), "parallel" (sums of logarithms) or "hard" (probabilities are 0 or 1).

    Raises:
      ValueError: for another mode.
    """
    p_choose_i = ops.convert_to_tensor(p_choose_i, name="p_choose_i")
    previous_attention = ops.convert_to_tensor(previous_attention, name="previous_attention")
    if mode == "recursive":
        batch_size = p_choose_i.shape.dims[0].value or array_ops.shape(p_choose_i)[0]
        ones = array_ops.ones((batch_size, 1), dtype=p_choose_i.dtype)
        shifted = array_ops.concat([ones, 1 - p_choose_i[:, :-1]], 1)
        scanned = functional_ops.scan(
            lambda x, yz: array_ops.reshape(yz[0] * x + yz[1], (batch_size,)),
            [array_ops.transpose(shifted), array_ops.transpose(previous_attention)],
            array_ops.zeros((batch_size,), dtype=p_choose_i.dtype),
        )
        return p_choose_i * array_ops.transpose(scanned)
    if mode == "parallel":
        cumprod = safe_cumprod(1 - p_choose_i, axis=1, exclusive=True)
        sums = math_ops.cumsum(previous_attention / clip_ops.clip_by_value(cumprod, 1e-10, 1.0), axis=1)
        return p_choose_i * cumprod * sums
    if mode == "hard":
        p_choose_i = p_choose_i * math_ops.cumsum(previous_attention, axis=1)
        return p_choose_i * math_ops.cumprod(1 - p_choose_i, axis=1, exclusive=True)
    raise ValueError("mode must be 'recursive', 'parallel', or 'hard'.")


def _monotonic_probability_fn(
    score: Any, previous_alignments: Any, sigmoid_noise: float, mode: str, seed: Any = None
) -> Any:
    if sigmoid_noise > 0:
        score += sigmoid_noise * random_ops.random_normal(
            array_ops.shape(score), dtype=score.dtype, seed=seed
        )
    if mode == "hard":
        p_choose_i = math_ops.cast(score > 0, score.dtype)
    else:
        p_choose_i = math_ops.sigmoid(score)
    return monotonic_attention(p_choose_i, previous_alignments, mode)


class _MonotonicMixin(_BaseAttentionMechanism):
    """The initial alignments of monotonic attention: 1 at the first entry."""

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        return array_ops.one_hot(
            array_ops.zeros((batch_size,), dtype=dtypes.int32), self._alignments_size, dtype=dtype
        )


class BahdanauMonotonicAttention(_MonotonicMixin):
    """Monotonic BahdanauAttention; a variable that begins as `score_bias_init` is added to scores."""

    def __init__(
        self, num_units: int, memory: Any, memory_sequence_length: Any = None, normalize: bool = False,
        score_mask_value: Any = None, sigmoid_noise: float = 0.0, sigmoid_noise_seed: Any = None,
        score_bias_init: float = 0.0, mode: str = "parallel", dtype: Any = None,
        name: str = "BahdanauMonotonicAttention",
    ) -> None:  # fmt: skip
        dtype = dtype or dtypes.float32
        wrapped = functools.partial(
            _monotonic_probability_fn, sigmoid_noise=sigmoid_noise, mode=mode, seed=sigmoid_noise_seed
        )
        super().__init__(
            query_layer=_query_layer(num_units, dtype), memory_layer=_memory_layer(num_units, dtype),
            memory=memory,
            probability_fn=wrapped, memory_sequence_length=memory_sequence_length,
            score_mask_value=score_mask_value,
            name=name,
        )  # fmt: skip
        self._num_units = num_units
        self._normalize = normalize
        self._name = name
        self._score_bias_init = score_bias_init

    def _scores(self, query: Any) -> Any:
        with variable_scope.variable_scope(None, "bahdanau_monotonic_attention", [query]):
            processed_query = self.query_layer(query) if self.query_layer else query
            score = _bahdanau_score(processed_query, self._keys, self._normalize)
            return score + _score_bias(processed_query.dtype, self._score_bias_init)


def _score_bias(dtype: Any, initial: float) -> Any:
    return variable_scope.get_variable(
        "attention_score_bias", dtype=dtype, initializer=math_ops.cast(initial, dtype)
    )


class LuongMonotonicAttention(_MonotonicMixin):
    """Monotonic LuongAttention; a variable that begins as `score_bias_init` is added to scores."""

    def __init__(
        self, num_units: int, memory: Any, memory_sequence_length: Any = None, scale: bool = False,
        score_mask_value: Any = None, sigmoid_noise: float = 0.0, sigmoid_noise_seed: Any = None,
        score_bias_init: float = 0.0, mode: str = "parallel", dtype: Any = None,
        name: str = "LuongMonotonicAttention",
    ) -> None:  # fmt: skip
        wrapped = functools.partial(
            _monotonic_probability_fn, sigmoid_noise=sigmoid_noise, mode=mode, seed=sigmoid_noise_seed
        )
        super().__init__(
            query_layer=None, memory_layer=_memory_layer(num_units, dtype or dtypes.float32), memory=memory,
            probability_fn=wrapped, memory_sequence_length=memory_sequence_length,
            score_mask_value=score_mask_value,
            name=name,
        )  # fmt: skip
        self._num_units = num_units
        self._scale = scale
        self._score_bias_init = score_bias_init
        self._name = name

    def _scores(self, query: Any) -> Any:
        with variable_scope.variable_scope(None, "luong_monotonic_attention", [query]):
            score = _luong_score(query, self._keys, self._scale)
            return score + _score_bias(query.dtype, self._score_bias_init)


def hardmax(logits: Any, name: Any = None) -> Any:
    """One at the greatest entry of the last axis, zero elsewhere."""
    with ops.name_scope(name, "Hardmax", [logits]):
        logits = ops.convert_to_tensor(logits, name="logits")
        depth = logits.get_shape()[-1].value
        if depth is None:
            depth = array_ops.shape(logits)[-1]
        return array_ops.one_hot(math_ops.argmax(logits, -1), depth, dtype=logits.dtype)
