# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The zero operator."""
from __future__ import annotations

from typing import Any


from millrace.python.framework import dtypes, errors, ops, tensor_shape, tensor_util
from millrace.python.ops import array_ops, control_flow_ops
from millrace.python.ops.linalg import linalg_impl as linalg
from millrace.python.ops.linalg import linear_operator, linear_operator_util

__all__ = ["LinearOperatorZeros"]


class LinearOperatorZeros(linear_operator.LinearOperator):
    """Zeros [..., num_rows, num_columns]; `batch_shape` is the leading axes."""

    def __init__(
        self,
        num_rows: Any,
        num_columns: Any = None,
        batch_shape: Any = None,
        dtype: Any = None,
        is_non_singular: Any = False,
        is_self_adjoint: Any = True,
        is_positive_definite: Any = False,
        is_square: Any = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorZeros",
    ) -> None:
        dtype = dtypes.as_dtype(dtype or dtypes.float32)
        self._assert_proper_shapes = assert_proper_shapes
        with ops.name_scope(name):
            if not is_self_adjoint and is_square:
                raise ValueError("A zero operator is always self adjoint.")
            if is_non_singular:
                raise ValueError("A zero operator is always singular.")
            if is_positive_definite:
                raise ValueError("A zero operator is always not positive-definite.")
            super().__init__(
                dtype=dtype,
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=is_square,
                name=name,
            )
            self._num_rows = linear_operator_util.shape_tensor(num_rows, name="num_rows")
            num_columns = num_rows if num_columns is None else num_columns
            self._num_columns = linear_operator_util.shape_tensor(num_columns, name="num_columns")
            self._batch = (
                None
                if batch_shape is None
                else linear_operator_util.shape_tensor(batch_shape, name="batch_shape_arg")
            )
            for value, what, rank in (
                (self._num_rows, "num_rows", 0),
                (self._num_columns, "num_columns", 0),
                (self._batch, "batch_shape", 1),
            ):
                if value is not None:
                    self._check(value, what, rank)

    def _check(self, value: Any, what: str, rank: int) -> None:
        if not value.dtype.is_integer:
            raise TypeError("Argument %s must be integer type.  Found: %s" % (what, value))
        static = tensor_util.constant_value(value)
        if static is None:
            return
        if static.ndim != rank:
            raise ValueError("Argument %s must be a %d-D Tensor.  Found: %s" % (what, rank, static))
        if (static < 0).any():
            raise ValueError("Argument %s must be non-negative.  Found: %s" % (what, static))

    def _shape(self) -> Any:
        sizes = [tensor_util.constant_value(n) for n in (self._num_rows, self._num_columns)]
        matrix_shape = tensor_shape.TensorShape([None if n is None else int(n) for n in sizes])
        if self._batch is None:
            return matrix_shape
        return tensor_util.constant_value_as_shape(self._batch).concatenate(matrix_shape)

    def _shape_tensor(self) -> Any:
        matrix_shape = array_ops.stack((self._num_rows, self._num_columns), axis=0)
        return matrix_shape if self._batch is None else array_ops.concat((self._batch, matrix_shape), 0)

    def _assert_non_singular(self) -> Any:
        raise errors.InvalidArgumentError(  # type: ignore[call-arg]
            node_def=None, op=None, message="Zero operators are always non-invertible."
        )

    def _assert_positive_definite(self) -> Any:
        raise errors.InvalidArgumentError(  # type: ignore[call-arg]
            node_def=None, op=None, message="Zero operators are always non-positive definite."
        )

    def _assert_self_adjoint(self) -> Any:
        return control_flow_ops.no_op("assert_self_adjoint")

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        x = linalg.adjoint(x) if adjoint_arg else x
        m = self._num_columns if adjoint else self._num_rows
        batch = array_ops.shape(x)[:-2]
        if self._batch is not None:
            batch = array_ops.broadcast_dynamic_shape(batch, self._batch)
        result = array_ops.zeros(
            array_ops.concat([batch, [m], [array_ops.shape(x)[-1]]], 0), dtype=self.dtype
        )
        static_batch = (
            x.shape[:-2]
            if self._batch is None
            else array_ops.broadcast_static_shape(x.shape[:-2], self.batch_shape)
        )
        rows = self.domain_dimension if adjoint else self.range_dimension
        result.set_shape(static_batch.concatenate([rows, x.shape[-1]]))
        return result

    def _determinant(self) -> Any:
        return array_ops.zeros(shape=self.batch_shape_tensor(), dtype=self.dtype)

    def _trace(self) -> Any:
        return array_ops.zeros(shape=self.batch_shape_tensor(), dtype=self.dtype)

    def _diag_part(self) -> Any:
        shape = self.shape_tensor()
        from millrace.python.ops import math_ops

        result = array_ops.zeros(
            array_ops.concat([shape[:-2], [math_ops.reduce_min(shape[-2:])]], 0), dtype=self.dtype
        )
        if self.shape.is_fully_defined():
            result.set_shape(self.batch_shape.concatenate([min(self.shape.as_list()[-2:])]))
        return result

    def _to_dense(self) -> Any:
        return array_ops.zeros(self.shape_tensor(), dtype=self.dtype)

    def add_to_tensor(self, mat: Any, name: str = "add_to_tensor") -> Any:
        """Returns `mat`."""
        with self._name_scope(name):
            return ops.convert_to_tensor(mat, name="mat")
