# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The base classes of recurrent cells, and their states of zeros."""
from __future__ import annotations

import collections
from typing import Any

from millrace.python.framework import ops, tensor_shape, tensor_util
from millrace.python.layers import base as base_layer
from millrace.python.ops import array_ops, variable_scope as vs, variables as tf_variables
from millrace.python.util import nest

_BIAS_VARIABLE_NAME = "bias"
_WEIGHTS_VARIABLE_NAME = "kernel"
ASSERT_LIKE_RNNCELL_ERROR_REGEXP = "is not an RNNCell"


def assert_like_rnncell(cell_name: str, cell: Any) -> None:
    """Raises TypeError unless `cell` has output_size, state_size, zero_state or get_initial_state, and can be called."""
    conditions = [
        hasattr(cell, "output_size"),
        hasattr(cell, "state_size"),
        hasattr(cell, "get_initial_state") or hasattr(cell, "zero_state"),
        callable(cell),
    ]
    errors = [
        "'output_size' property is missing",
        "'state_size' property is missing",
        "either 'zero_state' or 'get_initial_state' method is required",
        "is not callable",
    ]
    if not all(conditions):
        missing = [error for error, ok in zip(errors, conditions) if not ok]
        raise TypeError(
            "The argument {!r} ({}) is not an RNNCell: {}.".format(cell_name, cell, ", ".join(missing))
        )


def _concat(prefix: Any, suffix: Any, static: bool = False) -> Any:
    """Joins two shapes (numbers, lists, tensors) to a tensor, or to a static shape."""
    if isinstance(prefix, ops.Tensor):
        p, p_static = prefix, tensor_util.constant_value(prefix)
        if p.shape.ndims == 0:
            p = array_ops.expand_dims(p, 0)
        elif p.shape.ndims != 1:
            raise ValueError("prefix tensor must be either a scalar or vector, but saw tensor: %s" % p)
    else:
        p = tensor_shape.as_shape(prefix)  # type: ignore[assignment]
        p_static = p.as_list() if p.ndims is not None else None
        p = p.as_list() if p.is_fully_defined() else None
    if isinstance(suffix, ops.Tensor):
        s, s_static = suffix, tensor_util.constant_value(suffix)
        if s.shape.ndims == 0:
            s = array_ops.expand_dims(s, 0)
        elif s.shape.ndims != 1:
            raise ValueError("suffix tensor must be either a scalar or vector, but saw tensor: %s" % s)
    else:
        s = tensor_shape.as_shape(suffix)  # type: ignore[assignment]
        s_static = s.as_list() if s.ndims is not None else None
        s = s.as_list() if s.is_fully_defined() else None
    if static:
        shape = tensor_shape.as_shape(p_static).concatenate(tensor_shape.as_shape(s_static))
        return shape.as_list() if shape.ndims is not None else None
    if p is None or s is None:
        raise ValueError("Provided a prefix or suffix of None: %s and %s" % (prefix, suffix))
    if isinstance(p, list) and isinstance(s, list):
        return ops.convert_to_tensor(p + s, dtype="int32")
    parts = [
        ops.convert_to_tensor(part, dtype="int32")
        for part in (p, s)
        if not (isinstance(part, list) and not part)
    ]
    return array_ops.concat(parts, 0) if len(parts) > 1 else parts[0]


def _zero_state_tensors(state_size: Any, batch_size: Any, dtype: Any) -> Any:
    """Returns zeros of shape [batch_size] + size for each size of a structure."""

    def get_state_shape(s: Any) -> Any:
        c = _concat(batch_size, s)
        size = array_ops.zeros(c, dtype=dtype)
        size.set_shape(_concat(batch_size, s, static=True))
        return size

    return nest.map_structure(get_state_shape, state_size)


class RNNCell(base_layer.Layer):
    """A layer that maps (inputs [batch, depth], state) to (outputs, next state).

    A subclass defines `state_size`, `output_size` and `call(inputs, state)`. The variable scope is that in which the cell is
    called, or the one given.
    """

    def __init__(self, trainable: bool = True, name: Any = None, dtype: Any = None, **kwargs: Any):
        super().__init__(trainable=trainable, name=name, dtype=dtype, **kwargs)
        self._is_tf_rnn_cell = True

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:  # type: ignore[override]
        if scope is not None:
            with vs.variable_scope(scope, custom_getter=self._rnn_get_variable) as scope:
                return super().__call__(inputs, state, scope=scope)
        attribute = "rnncell_scope"
        captured = getattr(self, attribute, None)
        if captured is None:
            captured = vs.variable_scope(vs.get_variable_scope(), custom_getter=self._rnn_get_variable)
            object.__setattr__(self, attribute, captured)
        with captured:
            return super().__call__(inputs, state)

    def _rnn_get_variable(self, getter: Any, *args: Any, **kwargs: Any) -> Any:
        variable = getter(*args, **kwargs)
        trainable = getattr(variable, "trainable", None)
        if trainable is None:
            trainable = variable in tf_variables.trainable_variables()
        if not any(variable is v for v in self._trainable_weights + self._non_trainable_weights):
            self._track_weight(variable, trainable)
        return variable

    @property
    def state_size(self) -> Any:
        """Sizes of the state: a number, shape or structure of them."""
        raise NotImplementedError("Abstract method")

    @property
    def output_size(self) -> Any:
        """Size of the outputs."""
        raise NotImplementedError("Abstract method")

    def build(self, _: Any) -> None:
        pass

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """Returns a state of zeros for the batch of `inputs`, or for `batch_size` and `dtype`."""
        if inputs is not None:
            inputs = ops.convert_to_tensor(inputs, name="inputs")
            if batch_size is not None:
                static = (
                    tensor_util.constant_value(batch_size)
                    if tensor_util.is_tensor(batch_size)
                    else batch_size
                )
                known = tensor_shape.dimension_value(inputs.shape[0])
                if static is not None and known is not None and int(static) != known:
                    raise ValueError(
                        "batch size from input tensor is different from the input param. Input tensor batch: {}, "
                        "batch_size: {}".format(inputs.shape[0], batch_size)
                    )
            if dtype is not None and inputs.dtype != dtype:
                raise ValueError(
                    "dtype from input tensor is different from the input param. Input tensor dtype: {}, dtype: {}".format(
                        inputs.dtype, dtype
                    )
                )
            batch_size = tensor_shape.dimension_value(inputs.shape[0]) or array_ops.shape(inputs)[0]
            dtype = inputs.dtype
        if batch_size is None or dtype is None:
            raise ValueError(
                "batch_size and dtype cannot be None while constructing initial state: batch_size={}, dtype={}".format(
                    batch_size, dtype
                )
            )
        return self.zero_state(batch_size, dtype)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Returns a state of zeros, of the structure of `state_size`."""
        with ops.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            return _zero_state_tensors(self.state_size, batch_size, dtype)


class LayerRNNCell(RNNCell):
    """A cell whose variables are in a scope of its own, as those of layers are."""

    def __call__(self, inputs: Any, state: Any, scope: Any = None, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        return base_layer.Layer.__call__(self, inputs, state, *args, scope=scope, **kwargs)


_LSTMStateTuple = collections.namedtuple("LSTMStateTuple", ("c", "h"))  # type: ignore[name-match]


class LSTMStateTuple(_LSTMStateTuple):
    """The state (c, h) of an LSTM cell."""

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """The type of both; TypeError when they differ."""
        (c, h) = self
        if c.dtype != h.dtype:
            raise TypeError("Inconsistent internal state: %s vs %s" % (str(c.dtype), str(h.dtype)))
        return c.dtype
