# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Broadcasting of weights: a dimension of weights is 1 or that of the values."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import ops, tensor_util
from millrace.python.ops import array_ops, control_flow_ops, math_ops, sets

_ASSERT_BROADCASTABLE_ERROR_PREFIX = "weights can not be broadcast to values."


def _has_valid_dims(weights_shape: Any, values_shape: Any) -> Any:
    with ops.name_scope(None, "has_invalid_dims", (weights_shape, values_shape)) as scope:
        values_shape_2d = array_ops.expand_dims(values_shape, -1)
        valid_dims = array_ops.concat((values_shape_2d, array_ops.ones_like(values_shape_2d)), axis=1)
        weights_shape_2d = array_ops.expand_dims(weights_shape, -1)
        invalid_dims = sets.set_difference(weights_shape_2d, valid_dims)
        num_invalid_dims = array_ops.size(invalid_dims.values, name="num_invalid_dims")
        return math_ops.equal(0, num_invalid_dims, name=scope)


def _has_valid_nonscalar_shape(
    weights_rank: Any, weights_shape: Any, values_rank: Any, values_shape: Any
) -> Any:
    with ops.name_scope(
        None, "has_valid_nonscalar_shape", (weights_rank, weights_shape, values_rank, values_shape)
    ) as scope:
        is_same_rank = math_ops.equal(values_rank, weights_rank, name="is_same_rank")
        return control_flow_ops.cond(
            is_same_rank,
            lambda: _has_valid_dims(weights_shape, values_shape),
            lambda: is_same_rank,
            name=scope,
        )


def assert_broadcastable(weights: Any, values: Any) -> Any:
    """Returns an op that fails unless `weights` is a scalar or has the rank of `values` and dimensions 1 or the same.

    Raises ValueError when the static shapes say so already.
    """
    with ops.name_scope(None, "assert_broadcastable", (weights, values)) as scope:
        with ops.name_scope(None, "weights", (weights,)) as weights_scope:
            weights = ops.convert_to_tensor(weights, name=weights_scope)
            weights_shape = array_ops.shape(weights, name="shape")
            weights_rank = array_ops.rank(weights, name="rank")
        weights_rank_static = tensor_util.constant_value(weights_rank)
        with ops.name_scope(None, "values", (values,)) as values_scope:
            values = ops.convert_to_tensor(values, name=values_scope)
            values_shape = array_ops.shape(values, name="shape")
            values_rank = array_ops.rank(values, name="rank")
        values_rank_static = tensor_util.constant_value(values_rank)
        if weights_rank_static is not None and values_rank_static is not None:
            if weights_rank_static == 0:
                return control_flow_ops.no_op(name="static_scalar_check_success")
            if weights_rank_static != values_rank_static:
                raise ValueError(
                    "%s values.rank=%s. weights.rank=%s. values.shape=%s. weights.shape=%s."
                    % (
                        _ASSERT_BROADCASTABLE_ERROR_PREFIX,
                        values_rank_static,
                        weights_rank_static,
                        values.shape,
                        weights.shape,
                    )
                )
            weights_shape_static = tensor_util.constant_value(weights_shape)
            values_shape_static = tensor_util.constant_value(values_shape)
            if weights_shape_static is not None and values_shape_static is not None:
                for i, (wanted, got) in enumerate(zip(values_shape_static, weights_shape_static)):
                    if got not in (1, wanted):
                        raise ValueError(
                            "%s Mismatch at dim %s. values.shape=%s. weights.shape=%s."
                            % (
                                _ASSERT_BROADCASTABLE_ERROR_PREFIX,
                                i,
                                values_shape_static,
                                weights_shape_static,
                            )
                        )
                return control_flow_ops.no_op(name="static_dims_check_success")
        is_scalar = math_ops.equal(0, weights_rank, name="is_scalar")
        data = (
            _ASSERT_BROADCASTABLE_ERROR_PREFIX,
            "weights.shape=",
            weights.name,
            weights_shape,
            "values.shape=",
            values.name,
            values_shape,
            "is_scalar=",
            is_scalar,
        )
        is_valid_shape = control_flow_ops.cond(
            is_scalar,
            lambda: is_scalar,
            lambda: _has_valid_nonscalar_shape(weights_rank, weights_shape, values_rank, values_shape),
            name="is_valid_shape",
        )
        return control_flow_ops.Assert(is_valid_shape, data, name=scope)


def broadcast_weights(weights: Any, values: Any) -> Any:
    """Returns `weights` broadcast to the shape of `values`; errors as `assert_broadcastable`."""
    with ops.name_scope(None, "broadcast_weights", (weights, values)) as scope:
        values = ops.convert_to_tensor(values, name="values")
        weights = ops.convert_to_tensor(weights, dtype=values.dtype.base_dtype, name="weights")
        weights_shape, values_shape = weights.get_shape(), values.get_shape()
        if weights_shape.is_fully_defined() and values_shape.is_fully_defined():
            if weights_shape.as_list() == values_shape.as_list():
                return weights
        with ops.control_dependencies((assert_broadcastable(weights, values),)):
            return math_ops.multiply(weights, array_ops.ones_like(values), name=scope)
