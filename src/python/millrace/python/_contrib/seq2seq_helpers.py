# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Helpers of tf.contrib.seq2seq: the inputs of a decoder at each step, and the ids it takes from its
outputs."""
from __future__ import annotations

import abc
from typing import Any

from millrace.python.framework import dtypes, ops, tensor_shape
from millrace.python.layers import base as layers_base
from millrace.python.ops import (
    array_ops,
    control_flow_ops,
    embedding_ops,
    gen_array_ops,
    math_ops,
    random_ops,
    tensor_array_ops,
)
from millrace.python.util import nest


class Helper(metaclass=abc.ABCMeta):
    """The interface: `initialize` returns the first inputs, `sample` ids of outputs, `next_inputs` the
    next inputs."""

    @property
    @abc.abstractmethod
    def batch_size(self) -> Any:
        """A scalar tensor."""

    @property
    @abc.abstractmethod
    def sample_ids_shape(self) -> Any:
        """The shape of an id, without the batch."""

    @property
    @abc.abstractmethod
    def sample_ids_dtype(self) -> Any:
        """The type of ids."""

    @abc.abstractmethod
    def initialize(self, name: Any = None) -> Any:
        """(finished, inputs) of the first step."""

    @abc.abstractmethod
    def sample(self, time: Any, outputs: Any, state: Any, name: Any = None) -> Any:
        """The ids of outputs."""

    @abc.abstractmethod
    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: Any = None) -> Any:
        """(finished, inputs, state) of the next step."""


class CustomHelper(Helper):
    """A helper of three functions."""

    def __init__(
        self, initialize_fn: Any, sample_fn: Any, next_inputs_fn: Any, sample_ids_shape: Any = None,
        sample_ids_dtype: Any = None,
    ) -> None:  # fmt: skip
        self._initialize_fn = initialize_fn
        self._sample_fn = sample_fn
        self._next_inputs_fn = next_inputs_fn
        self._batch_size: Any = None
        self._sample_ids_shape = tensor_shape.TensorShape(sample_ids_shape or [])
        self._sample_ids_dtype = sample_ids_dtype or dtypes.int32

    @property
    def batch_size(self) -> Any:
        if self._batch_size is None:
            raise ValueError("batch_size accessed before initialize was called")
        return self._batch_size

    @property
    def sample_ids_shape(self) -> Any:
        return self._sample_ids_shape

    @property
    def sample_ids_dtype(self) -> Any:
        return self._sample_ids_dtype

    def initialize(self, name: Any = None) -> Any:
        with ops.name_scope(name, "%sInitialize" % type(self).__name__):
            finished, next_inputs = self._initialize_fn()
            if self._batch_size is None:
                self._batch_size = array_ops.size(finished)
        return finished, next_inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: Any = None) -> Any:
        with ops.name_scope(name, "%sSample" % type(self).__name__, (time, outputs, state)):
            return self._sample_fn(time=time, outputs=outputs, state=state)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: Any = None) -> Any:
        with ops.name_scope(name, "%sNextInputs" % type(self).__name__, (time, outputs, state)):
            return self._next_inputs_fn(time=time, outputs=outputs, state=state, sample_ids=sample_ids)


def _transpose_batch_time(x: Any) -> Any:
    from millrace.python.ops import rnn

    return rnn._transpose_batch_time(x)  # type: ignore[attr-defined]


def _unstack_ta(inp: Any) -> Any:
    return tensor_array_ops.TensorArray(
        dtype=inp.dtype, size=array_ops.shape(inp)[0], element_shape=inp.get_shape()[1:]
    ).unstack(inp)


class TrainingHelper(Helper):
    """Feeds given inputs; sampled ids are those of the largest outputs.

    Args:
      inputs: a structure of tensors [batch, time, ...], or [time, batch, ...].
      sequence_length: int32 [batch].
      time_major: whether time is the first dimension.
      name: of the scope.

    Raises:
      ValueError: if `sequence_length` is no vector.
    """

    def __init__(self, inputs: Any, sequence_length: Any, time_major: bool = False, name: Any = None) -> None:
        with ops.name_scope(name, "TrainingHelper", [inputs, sequence_length]):
            inputs = ops.convert_to_tensor(inputs, name="inputs") if not nest.is_sequence(inputs) else inputs
            self._inputs = inputs
            if not time_major:
                inputs = nest.map_structure(_transpose_batch_time, inputs)
            self._input_tas = nest.map_structure(_unstack_ta, inputs)
            self._sequence_length = ops.convert_to_tensor(sequence_length, name="sequence_length")
            if self._sequence_length.get_shape().ndims != 1:
                raise ValueError(
                    "Expected sequence_length to be a vector, but received shape: %s"
                    % self._sequence_length.get_shape()
                )
            self._zero_inputs = nest.map_structure(lambda inp: array_ops.zeros_like(inp[0, :]), inputs)
            self._batch_size = array_ops.size(self._sequence_length)

    @property
    def inputs(self) -> Any:
        """The inputs as they were given."""
        return self._inputs

    @property
    def sequence_length(self) -> Any:
        """The lengths."""
        return self._sequence_length

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    @property
    def sample_ids_shape(self) -> Any:
        return tensor_shape.TensorShape([])

    @property
    def sample_ids_dtype(self) -> Any:
        return dtypes.int32

    def _read(self, all_finished: Any, at: Any) -> Any:
        return control_flow_ops.cond(
            all_finished,
            lambda: self._zero_inputs,
            lambda: nest.map_structure(lambda array: array.read(at), self._input_tas),
        )

    def initialize(self, name: Any = None) -> Any:
        with ops.name_scope(name, "TrainingHelperInitialize"):
            finished = math_ops.equal(0, self._sequence_length)
            return finished, self._read(math_ops.reduce_all(finished), 0)

    def sample(self, time: Any, outputs: Any, state: Any, name: Any = None) -> Any:
        del state
        with ops.name_scope(name, "TrainingHelperSample", [time, outputs]):
            return math_ops.cast(math_ops.argmax(outputs, axis=-1), dtypes.int32)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any = None, name: Any = None
    ) -> Any:
        del sample_ids
        with ops.name_scope(name, "TrainingHelperNextInputs", [time, outputs, state]):
            next_time = time + 1
            finished = next_time >= self._sequence_length
            return finished, self._read(math_ops.reduce_all(finished), next_time), state


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """Feeds given inputs, or with a probability the embedding of an id sampled from the outputs.

    `sample` returns -1 where nothing is sampled.
    """

    def __init__(
        self, inputs: Any, sequence_length: Any, embedding: Any, sampling_probability: Any,
        time_major: bool = False,
        seed: Any = None, scheduling_seed: Any = None, name: Any = None,
    ) -> None:  # fmt: skip
        with ops.name_scope(name, "ScheduledEmbeddingSamplingWrapper", [embedding, sampling_probability]):
            self._embedding_fn = _embedding_function(embedding)
            self._sampling_probability = _probability(sampling_probability)
            self._seed = seed
            self._scheduling_seed = scheduling_seed
            super().__init__(inputs=inputs, sequence_length=sequence_length, time_major=time_major, name=name)

    def initialize(self, name: Any = None) -> Any:
        return super().initialize(name=name)

    def sample(self, time: Any, outputs: Any, state: Any, name: Any = None) -> Any:
        with ops.name_scope(name, "ScheduledEmbeddingTrainingHelperSample", [time, outputs, state]):
            chosen = _bernoulli(self._sampling_probability, self.batch_size, self._scheduling_seed)
            drawn = _categorical(outputs, self._seed)
            return array_ops.where(chosen, drawn, gen_array_ops.fill([self.batch_size], -1))

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any = None, name: Any = None
    ) -> Any:
        with ops.name_scope(
            name, "ScheduledEmbeddingTrainingHelperNextInputs", [time, outputs, state, sample_ids]
        ):
            finished, base, state = super().next_inputs(
                time=time, outputs=outputs, state=state, sample_ids=sample_ids, name=name
            )

            def mixed() -> Any:
                where = math_ops.cast(array_ops.where(sample_ids > -1), dtypes.int32)
                where_not = math_ops.cast(array_ops.where(sample_ids <= -1), dtypes.int32)
                drawn = self._embedding_fn(array_ops.gather_nd(sample_ids, where))
                kept = array_ops.gather_nd(base, where_not)
                shape = array_ops.shape(base)
                return array_ops.scatter_nd(where, drawn, shape) + array_ops.scatter_nd(
                    where_not, kept, shape
                )

            all_finished = math_ops.reduce_all(finished)
            return finished, control_flow_ops.cond(all_finished, lambda: base, mixed), state


class ScheduledOutputTrainingHelper(TrainingHelper):
    """Feeds given inputs, or with a probability the outputs of the previous step.

    Args:
      next_inputs_fn: a function or layer from outputs to inputs.
      auxiliary_inputs: tensors that are concatenated to the inputs.
    """

    def __init__(
        self, inputs: Any, sequence_length: Any, sampling_probability: Any, time_major: bool = False,
        seed: Any = None,
        next_inputs_fn: Any = None, auxiliary_inputs: Any = None, name: Any = None,
    ) -> None:  # fmt: skip
        with ops.name_scope(
            name, "ScheduledOutputTrainingHelper", [inputs, auxiliary_inputs, sampling_probability]
        ):
            self._sampling_probability = _probability(sampling_probability)
            if auxiliary_inputs is None:
                joined = inputs
            else:
                joined = nest.map_structure(
                    lambda x, y: array_ops.concat((x, y), -1), inputs, auxiliary_inputs
                )
                if not time_major:
                    auxiliary_inputs = nest.map_structure(_transpose_batch_time, auxiliary_inputs)
            self._auxiliary = (
                None if auxiliary_inputs is None else nest.map_structure(_unstack_ta, auxiliary_inputs)
            )
            self._seed = seed
            self._next_inputs_fn = next_inputs_fn
            super().__init__(inputs=joined, sequence_length=sequence_length, time_major=time_major, name=name)

    def sample(self, time: Any, outputs: Any, state: Any, name: Any = None) -> Any:
        with ops.name_scope(name, "ScheduledOutputTrainingHelperSample", [time, outputs, state]):
            return _bernoulli(self._sampling_probability, self.batch_size, self._seed)

    @property
    def sample_ids_dtype(self) -> Any:
        return dtypes.bool

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any = None, name: Any = None
    ) -> Any:
        with ops.name_scope(
            name, "ScheduledOutputTrainingHelperNextInputs", [time, outputs, state, sample_ids]
        ):
            finished, base, state = super().next_inputs(
                time=time, outputs=outputs, state=state, sample_ids=sample_ids, name=name
            )
            chosen = math_ops.cast(sample_ids, dtypes.bool)

            def mixed() -> Any:
                own = outputs
                if isinstance(self._next_inputs_fn, layers_base.Layer) or callable(self._next_inputs_fn):
                    own = self._next_inputs_fn(outputs)
                if self._auxiliary is not None:
                    more = nest.map_structure(lambda array: array.read(time + 1), self._auxiliary)
                    own = nest.map_structure(lambda x, y: array_ops.concat((x, y), -1), own, more)
                return nest.map_structure(lambda x, y: array_ops.where(chosen, x, y), own, base)

            idle = math_ops.logical_or(
                math_ops.reduce_all(finished), math_ops.logical_not(math_ops.reduce_any(chosen))
            )
            return finished, control_flow_ops.cond(idle, lambda: base, mixed), state


def _probability(value: Any) -> Any:
    value = ops.convert_to_tensor(value, name="sampling_probability")
    if value.get_shape().ndims not in (0, 1):
        raise ValueError(
            "sampling_probability must be either a scalar or a vector. saw shape: %s" % (value.get_shape())
        )
    return value


def _bernoulli(probability: Any, batch_size: Any, seed: Any) -> Any:
    draws = random_ops.random_uniform([batch_size], seed=seed, dtype=probability.dtype)
    return draws < probability


def _categorical(logits: Any, seed: Any) -> Any:
    flat = random_ops.multinomial(logits, 1, seed=seed)
    return math_ops.cast(array_ops.reshape(flat, [-1]), dtypes.int32)


def _embedding_function(embedding: Any) -> Any:
    if callable(embedding):
        return embedding
    return lambda ids: embedding_ops.embedding_lookup(embedding, ids)


class GreedyEmbeddingHelper(Helper):
    """Feeds the embedding of the id of the largest output, until the end token.

    Args:
      embedding: a function of ids, or the `params` of embedding_lookup.
      start_tokens: int32 [batch].
      end_token: int32 [].

    Raises:
      ValueError: if the tokens have other ranks.
    """

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any) -> None:
        self._embedding_fn = _embedding_function(embedding)
        self._start_tokens = ops.convert_to_tensor(start_tokens, dtype=dtypes.int32, name="start_tokens")
        self._end_token = ops.convert_to_tensor(end_token, dtype=dtypes.int32, name="end_token")
        if self._start_tokens.get_shape().ndims != 1:
            raise ValueError("start_tokens must be a vector")
        self._batch_size = array_ops.size(self._start_tokens)
        if self._end_token.get_shape().ndims != 0:
            raise ValueError("end_token must be a scalar")
        self._start_inputs = self._embedding_fn(self._start_tokens)

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    @property
    def sample_ids_shape(self) -> Any:
        return tensor_shape.TensorShape([])

    @property
    def sample_ids_dtype(self) -> Any:
        return dtypes.int32

    def initialize(self, name: Any = None) -> Any:
        return array_ops.tile([False], [self._batch_size]), self._start_inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: Any = None) -> Any:
        del time, state
        if not isinstance(outputs, ops.Tensor):
            raise TypeError("Expected outputs to be a single Tensor, got: %s" % type(outputs))
        return math_ops.argmax(outputs, axis=-1, output_type=dtypes.int32)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: Any = None) -> Any:
        del time, outputs
        finished = math_ops.equal(sample_ids, self._end_token)
        next_inputs = control_flow_ops.cond(
            math_ops.reduce_all(finished),
            lambda: self._start_inputs,  # has the right shape, and is not used
            lambda: self._embedding_fn(sample_ids),
        )
        return finished, next_inputs, state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """As GreedyEmbeddingHelper, but ids are sampled from outputs divided by `softmax_temperature`."""

    def __init__(
        self,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        softmax_temperature: Any = None,
        seed: Any = None,
    ) -> None:
        super().__init__(embedding, start_tokens, end_token)
        self._softmax_temperature = softmax_temperature
        self._seed = seed

    def sample(self, time: Any, outputs: Any, state: Any, name: Any = None) -> Any:
        del time, state
        if not isinstance(outputs, ops.Tensor):
            raise TypeError("Expected outputs to be a single Tensor, got: %s" % type(outputs))
        logits = outputs if self._softmax_temperature is None else outputs / self._softmax_temperature
        return _categorical(logits, self._seed)


class InferenceHelper(Helper):
    """A helper of functions, for decoding without given inputs."""

    def __init__(
        self, sample_fn: Any, sample_shape: Any, sample_dtype: Any, start_inputs: Any, end_fn: Any,
        next_inputs_fn: Any = None,
    ) -> None:  # fmt: skip
        self._sample_fn = sample_fn
        self._end_fn = end_fn
        self._sample_shape = tensor_shape.TensorShape(sample_shape)
        self._sample_dtype = sample_dtype
        self._next_inputs_fn = next_inputs_fn
        self._batch_size = array_ops.shape(start_inputs)[0]
        self._start_inputs = ops.convert_to_tensor(start_inputs, name="start_inputs")

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    @property
    def sample_ids_shape(self) -> Any:
        return self._sample_shape

    @property
    def sample_ids_dtype(self) -> Any:
        return self._sample_dtype

    def initialize(self, name: Any = None) -> Any:
        return array_ops.tile([False], [self._batch_size]), self._start_inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: Any = None) -> Any:
        del time, state
        return self._sample_fn(outputs)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: Any = None) -> Any:
        del time, outputs
        next_inputs = sample_ids if self._next_inputs_fn is None else self._next_inputs_fn(sample_ids)
        return self._end_fn(sample_ids), next_inputs, state
