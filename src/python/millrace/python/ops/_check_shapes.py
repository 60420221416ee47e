# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Assertions about the ranks and shapes of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.framework import tensor_util
from millrace.python.ops import array_ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import gen_array_ops
from millrace.python.ops import math_ops
from millrace.python.ops._check_types import assert_type

__all__ = [
    "assert_rank",
    "assert_rank_at_least",
    "assert_rank_in",
    "assert_scalar",
    "assert_shapes",
    "ensure_shape",
]


def _name_of(x: Any) -> str:
    return "" if isinstance(x, ops.EagerTensor) else x.name  # type: ignore[no-any-return]


def _assert_rank_condition(x: Any, rank: Any, static: Any, dynamic: Any, data: Any, summarize: Any) -> Any:
    """Checks the rank statically where both are known (ValueError 'static'), else by an op."""
    assert_type(rank, dtypes.int32)
    rank_static = tensor_util.constant_value(rank)
    if rank_static is not None:
        if rank_static.ndim != 0:
            raise ValueError("Rank must be a scalar.")
        x_rank_static = x.get_shape().ndims
        if x_rank_static is not None:
            if not static(x_rank_static, rank_static):
                raise ValueError("Static rank condition failed", x_rank_static, rank_static)
            return control_flow_ops.no_op(name="static_checks_determined_all_ok")
    condition = dynamic(array_ops.rank(x), rank)
    # A given rank must be a scalar.
    this_data = ["Rank must be a scalar. Received rank: ", rank] if rank_static is None else None
    if this_data is not None:
        rank_check = [
            control_flow_ops.Assert(math_ops.equal(array_ops.rank(rank), 0), this_data, summarize=summarize)
        ]
        condition = control_flow_ops.with_dependencies(rank_check, condition)
    return control_flow_ops.Assert(condition, data, summarize=summarize)


def assert_rank(
    x: Any,
    rank: Any,
    data: Any = None,
    summarize: Any = None,
    message: str | None = None,
    name: str | None = None,
) -> Any:
    """Asserts that `x` has the rank `rank`, an int32 scalar; ValueError where that is known to be wrong."""
    with ops.name_scope(name, "assert_rank", (x, rank) + tuple(data or [])):
        x = ops.convert_to_tensor(x, name="x")
        rank = ops.convert_to_tensor(rank, name="rank")
        message = message or ""
        if data is None:
            data = [
                message,
                "Tensor %s must have rank" % _name_of(x),
                rank,
                "Received shape: ",
                array_ops.shape(x),
            ]
        try:
            return _assert_rank_condition(
                x, rank, lambda actual, given: actual == given, math_ops.equal, data, summarize
            )
        except ValueError as e:
            if e.args[0] == "Static rank condition failed":
                raise ValueError(
                    "%s.  Tensor %s must have rank %d.  Received rank %d, shape %s"
                    % (message, _name_of(x), e.args[2], e.args[1], x.get_shape())
                ) from None
            raise


def assert_rank_at_least(
    x: Any,
    rank: Any,
    data: Any = None,
    summarize: Any = None,
    message: str | None = None,
    name: str | None = None,
) -> Any:
    """Asserts that `x` has at least the rank `rank`; ValueError where that is known to be wrong."""
    with ops.name_scope(name, "assert_rank_at_least", (x, rank) + tuple(data or [])):
        x = ops.convert_to_tensor(x, name="x")
        rank = ops.convert_to_tensor(rank, name="rank")
        message = message or ""
        if data is None:
            data = [
                message,
                "Tensor %s must have rank at least" % _name_of(x),
                rank,
                "Received shape: ",
                array_ops.shape(x),
            ]
        try:
            return _assert_rank_condition(
                x, rank, lambda actual, given: actual >= given, math_ops.greater_equal, data, summarize
            )
        except ValueError as e:
            if e.args[0] == "Static rank condition failed":
                raise ValueError(
                    "%s.  Tensor %s must have rank at least %d.  Received rank %d, shape %s"
                    % (message, _name_of(x), e.args[2], e.args[1], x.get_shape())
                ) from None
            raise


def assert_rank_in(
    x: Any,
    ranks: Any,
    data: Any = None,
    summarize: Any = None,
    message: str | None = None,
    name: str | None = None,
) -> Any:
    """Asserts that `x` has one of the ranks `ranks`; ValueError where that is known to be wrong."""
    with ops.name_scope(name, "assert_rank_in", (x,) + tuple(ranks) + tuple(data or [])):
        x = ops.convert_to_tensor(x, name="x")
        ranks = tuple(ops.convert_to_tensor(rank, name="rank") for rank in ranks)
        message = message or ""
        if data is None:
            data = [
                message,
                "Tensor %s must have rank in" % _name_of(x),
                *ranks,
                "Received shape: ",
                array_ops.shape(x),
            ]
        for rank in ranks:
            assert_type(rank, dtypes.int32)
        statics = [tensor_util.constant_value(rank) for rank in ranks]
        if any(r is not None and r.ndim != 0 for r in statics):
            raise ValueError("Rank must be a scalar.")
        x_rank_static = x.get_shape().ndims
        if x_rank_static is not None and all(r is not None for r in statics):
            values = [int(r) for r in statics if r is not None]
            if x_rank_static not in values:
                raise ValueError(
                    "%s.  Tensor %s must have rank in %s.  Received rank %d, shape %s"
                    % (message, _name_of(x), tuple(sorted(values)), x_rank_static, x.get_shape())
                )
            return control_flow_ops.no_op(name="static_checks_determined_all_ok")
        conditions = [math_ops.equal(array_ops.rank(x), rank) for rank in ranks]
        condition = conditions[0]
        for other in conditions[1:]:
            condition = math_ops.logical_or(condition, other)
        return control_flow_ops.Assert(condition, data, summarize=summarize)


def assert_scalar(tensor: Any, name: str | None = None, message: str | None = None) -> Any:
    """Returns the tensor; ValueError unless it is a scalar."""
    with ops.name_scope(name, "assert_scalar", [tensor]) as name_scope:
        tensor = ops.convert_to_tensor(tensor, name=name_scope)
        shape = tensor.get_shape()
        if shape.ndims != 0:
            raise ValueError(
                "%sExpected scalar shape for %s, saw shape: %s." % (message or "", _name_of(tensor), shape)
            )
        return tensor


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Any:
    """Returns `x` with the static shape `shape`; fails if the value has another one."""
    if not isinstance(shape, tensor_shape.TensorShape):
        shape = tensor_shape.TensorShape(shape)
    return gen_array_ops.ensure_shape(x, shape, name=name)


def _symbols_of(shape: Any) -> list[Any]:
    """A shape specification as a list of sizes and symbols."""
    if isinstance(shape, tensor_shape.TensorShape):
        return shape.as_list()  # type: ignore[no-any-return]
    if isinstance(shape, (str, int, np.integer)) or not hasattr(shape, "__iter__"):
        return [shape]
    return list(shape)


def assert_shapes(
    shapes: Any, data: Any = None, summarize: Any = None, message: str | None = None, name: str | None = None
) -> Any:
    """Asserts ranks and sizes of several tensors at once.

    Args:
      shapes: a dict or list of pairs from tensors to shapes, whose entries are sizes, symbols (strings; equal
        symbols represent equal sizes) or None, '.' (any size). '...' or '*' at the start represents any more axes.
      data, summarize, message, name: see the other assertions.

    Raises:
      ValueError: sizes that are known contradict the shapes.
    """
    pairs = list(shapes.items()) if isinstance(shapes, dict) else list(shapes)
    if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        raise ValueError("shapes must be a dict or pairs of tensors and shapes, got: %r" % (shapes,))
    message = message or ""
    with ops.name_scope(name, "assert_shapes", [pair[0] for pair in pairs] + list(data or [])):
        assertions: list[Any] = []
        known: dict[Any, tuple[Any, Any, int]] = {}
        for x, spec in pairs:
            symbols = _symbols_of(spec)
            x = ops.convert_to_tensor(x)
            open_front = bool(symbols) and symbols[0] in ("...", "*", Ellipsis)
            if open_front:
                symbols = symbols[1:]
                assertions.append(assert_rank_at_least(x, len(symbols), data, summarize, message))
            else:
                assertions.append(assert_rank(x, len(symbols), data, summarize, message))
            dims = x.shape.as_list() if x.shape.ndims is not None else None
            for i, symbol in enumerate(symbols):
                if symbol in (None, "."):
                    continue
                axis = i - len(symbols) if open_front else i
                actual = dims[axis] if dims is not None else None
                if actual is None:
                    actual = array_ops.shape(x)[axis]
                source = "Specified explicitly"
                if isinstance(symbol, str) and not symbol.isdigit():
                    expected, origin, place = known.setdefault(symbol, (actual, x, axis))
                    if origin is x and place == axis:
                        continue
                    source = "Specified by tensor %s dimension %s" % (_name_of(origin), place)
                else:
                    expected = int(symbol)
                if isinstance(expected, int) and isinstance(actual, int):
                    if expected != actual:
                        raise ValueError(
                            "%s.  %s.  Tensor %s dimension %s must have size %d.  Received size %d, shape %s"
                            % (message, source, _name_of(x), axis, expected, actual, x.get_shape())
                        )
                    continue
                told = data
                if told is None:
                    told = [
                        message,
                        source,
                        "Tensor",
                        _name_of(x),
                        "dimension",
                        axis,
                        "must have size",
                        expected,
                    ]
                    told += ["received shape: ", array_ops.shape(x)]
                assertions.append(
                    control_flow_ops.Assert(math_ops.equal(actual, expected), told, summarize=summarize)
                )
        return control_flow_ops.group(*assertions)
