# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Wrappers of cells of tf.contrib.rnn, and the linear map that they share with decoders."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.ops import array_ops, embedding_ops, init_ops, math_ops, nn_ops, variable_scope as vs
from millrace.python.ops._rnn_cell_base import (
    _BIAS_VARIABLE_NAME,
    _WEIGHTS_VARIABLE_NAME,
    RNNCell,
    assert_like_rnncell,
)
from millrace.python.platform import tf_logging as logging


def linear(inputs: Any, output_size: Any) -> Any:
    """The concatenated inputs, each [batch, depth], times `kernel`, plus `bias`, of the variable scope."""
    joined = array_ops.concat(inputs, 1) if isinstance(inputs, list) else inputs
    depth = joined.get_shape().with_rank(2).as_list()[1]
    if depth is None:
        raise ValueError("linear expects shape[1] to be provided for shape %s" % joined.get_shape())
    kernel = vs.get_variable(_WEIGHTS_VARIABLE_NAME, [depth, output_size], dtype=joined.dtype)
    bias = vs.get_variable(
        _BIAS_VARIABLE_NAME, [output_size], dtype=joined.dtype, initializer=init_ops.zeros_initializer()
    )
    return nn_ops.bias_add(math_ops.matmul(joined, kernel), bias)


class _Wrapper(RNNCell):
    """A cell with the state and the output of another."""

    def __init__(self, cell: Any, reuse: Optional[bool]):
        super().__init__(_reuse=reuse)
        assert_like_rnncell("cell", cell)
        self._cell = cell

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        return self._cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        return self._cell.zero_state(batch_size, dtype)


class EmbeddingWrapper(_Wrapper):
    """Runs a cell on rows of the variable `embedding` [classes, size], looked up by ids [batch].

    Args:
      cell: an RNNCell.
      embedding_classes, embedding_size: shape of the variable.
      initializer: of the variable; None: that of the variable scope, or else uniform in [-sqrt(3), sqrt(3)].
      reuse: whether variables of the scope may exist already.

    Raises:
      TypeError: `cell` is no RNNCell.
      ValueError: a size is not positive.
    """

    def __init__(
        self, cell: Any, embedding_classes: int, embedding_size: int, initializer: Any = None,
        reuse: Optional[bool] = None,
    ):  # fmt: skip
        super().__init__(cell, reuse)
        if embedding_classes <= 0 or embedding_size <= 0:
            raise ValueError(
                "Both embedding_classes and embedding_size must be > 0: %d, %d."
                % (embedding_classes, embedding_size)
            )
        self._shape = [embedding_classes, embedding_size]
        self._initializer = initializer

    def call(self, inputs: Any, state: Any) -> Any:  # type: ignore[override]
        initializer = self._initializer or vs.get_variable_scope().initializer
        if not initializer:
            bound = 3**0.5  # a variance of 1
            initializer = init_ops.random_uniform_initializer(-bound, bound)
        dtype = (state[0] if isinstance(state, tuple) else state).dtype
        embedding = vs.get_variable("embedding", self._shape, initializer=initializer, dtype=dtype)
        return self._cell(embedding_ops.embedding_lookup(embedding, array_ops.reshape(inputs, [-1])), state)


class InputProjectionWrapper(_Wrapper):
    """Maps the inputs of a cell to `num_proj` by the variables `kernel` and `bias`.

    Args:
      cell: an RNNCell.
      num_proj: size of the inputs that the cell sees.
      activation: of those inputs; None: linear.
      input_size: ignored.
      reuse: whether variables of the scope may exist already.

    Raises:
      TypeError: `cell` is no RNNCell.
    """

    def __init__(
        self, cell: Any, num_proj: int, activation: Any = None, input_size: Any = None,
        reuse: Optional[bool] = None,
    ):  # fmt: skip
        super().__init__(cell, reuse)
        if input_size is not None:
            logging.warn("%s: The input_size parameter is deprecated.", self)
        self._num_proj = num_proj
        self._activation = activation

    def call(self, inputs: Any, state: Any) -> Any:  # type: ignore[override]
        projected = linear(inputs, self._num_proj)
        return self._cell(self._activation(projected) if self._activation else projected, state)


class OutputProjectionWrapper(_Wrapper):
    """Maps the outputs of a cell to `output_size` by the variables `kernel` and `bias`.

    Args:
      cell: an RNNCell.
      output_size: size of the outputs.
      activation: of the outputs; None: linear.
      reuse: whether variables of the scope may exist already.

    Raises:
      TypeError: `cell` is no RNNCell.
      ValueError: `output_size` is not positive.
    """

    def __init__(
        self, cell: Any, output_size: int, activation: Any = None, reuse: Optional[bool] = None
    ):  # fmt: skip
        super().__init__(cell, reuse)
        if output_size < 1:
            raise ValueError("Parameter output_size must be > 0: %d." % output_size)
        self._output_size = output_size
        self._activation = activation

    @property
    def output_size(self) -> Any:
        return self._output_size

    def call(self, inputs: Any, state: Any) -> Any:  # type: ignore[override]
        output, state = self._cell(inputs, state)
        projected = linear(output, self._output_size)
        return (self._activation(projected) if self._activation else projected), state
