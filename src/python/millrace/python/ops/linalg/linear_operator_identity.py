# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The identity and its multiples."""
from __future__ import annotations

from typing import Any


import numpy as np

from millrace.python.framework import dtypes, ops, tensor_shape, tensor_util
from millrace.python.ops import array_ops, check_ops, control_flow_ops, linalg_ops, math_ops
from millrace.python.ops.linalg import linalg_impl as linalg
from millrace.python.ops.linalg import linear_operator, linear_operator_util

__all__ = ["LinearOperatorIdentity", "LinearOperatorScaledIdentity"]


class BaseLinearOperatorIdentity(linear_operator.LinearOperator):
    """The common base class: the number of rows."""

    _num_rows: Any
    _num_rows_static: Any
    _assert_proper_shapes: bool

    def _check_num_rows_possibly_add_asserts(self) -> None:
        if self._assert_proper_shapes:
            self._num_rows = control_flow_ops.with_dependencies(
                [
                    check_ops.assert_rank(
                        self._num_rows, 0, message="Argument num_rows must be a 0-D Tensor."
                    ),
                    check_ops.assert_non_negative(
                        self._num_rows, message="Argument num_rows must be non-negative."
                    ),
                ],
                self._num_rows,
            )
        if not self._num_rows.dtype.is_integer:
            raise TypeError("Argument num_rows must be integer type.  Found: %s" % self._num_rows)
        num_rows_static = self._num_rows_static
        if num_rows_static is None:
            return
        if num_rows_static.ndim != 0:
            raise ValueError("Argument num_rows must be a 0-D Tensor.  Found: %s" % num_rows_static)
        if num_rows_static < 0:
            raise ValueError("Argument num_rows must be non-negative.  Found: %s" % num_rows_static)

    def _min_matrix_dim(self) -> Any:
        domain_dim = tensor_shape.dimension_value(self.domain_dimension)
        range_dim = tensor_shape.dimension_value(self.range_dimension)
        return None if domain_dim is None or range_dim is None else min(domain_dim, range_dim)

    def _min_matrix_dim_tensor(self) -> Any:
        return math_ops.reduce_min(self.shape_tensor()[-2:])

    def _ones_diag(self) -> Any:
        if self.shape.is_fully_defined():
            d_shape: Any = self.batch_shape.concatenate([self._min_matrix_dim()])
        else:
            d_shape = array_ops.concat([self.batch_shape_tensor(), [self._min_matrix_dim_tensor()]], axis=0)
        return array_ops.ones(shape=d_shape, dtype=self.dtype)


class LinearOperatorIdentity(BaseLinearOperatorIdentity):
    """The identity [..., n, n].

    Args:
      num_rows: n, an integer scalar.
      batch_shape: the leading axes, an integer vector; None: there are none.
      dtype: type of the elements, float32 by default.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: True.
      assert_proper_shapes: whether shapes are checked when the ops run, too.
      name: of the operator.
    """

    def __init__(
        self,
        num_rows: Any,
        batch_shape: Any = None,
        dtype: Any = None,
        is_non_singular: Any = True,
        is_self_adjoint: Any = True,
        is_positive_definite: Any = True,
        is_square: Any = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorIdentity",
    ) -> None:
        dtype = dtype or dtypes.float32
        self._assert_proper_shapes = assert_proper_shapes
        with ops.name_scope(name):
            dtype = dtypes.as_dtype(dtype)
            for hint, text in (
                (is_self_adjoint, "An identity operator is always self adjoint."),
                (is_non_singular, "An identity operator is always non-singular."),
                (is_positive_definite, "An identity operator is always positive-definite."),
                (is_square, "An identity operator is always square."),
            ):
                if not hint:
                    raise ValueError(text)
            super().__init__(
                dtype=dtype,
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=is_square,
                name=name,
            )
            self._num_rows = linear_operator_util.shape_tensor(num_rows, name="num_rows")
            self._num_rows_static = tensor_util.constant_value(self._num_rows)
            self._check_num_rows_possibly_add_asserts()
            if batch_shape is None:
                self._batch_shape_arg: Any = None
            else:
                self._batch_shape_arg = linear_operator_util.shape_tensor(batch_shape, name="batch_shape_arg")
                self._batch_shape_static = tensor_util.constant_value(self._batch_shape_arg)
                self._check_batch_shape_possibly_add_asserts()

    def _check_batch_shape_possibly_add_asserts(self) -> None:
        if self._assert_proper_shapes:
            self._batch_shape_arg = control_flow_ops.with_dependencies(
                [
                    check_ops.assert_rank(
                        self._batch_shape_arg, 1, message="Argument batch_shape must be a 1-D Tensor."
                    ),
                    check_ops.assert_non_negative(
                        self._batch_shape_arg, message="Argument batch_shape must be non-negative."
                    ),
                ],
                self._batch_shape_arg,
            )
        if not self._batch_shape_arg.dtype.is_integer:
            raise TypeError("Argument batch_shape must be integer type.  Found: %s" % self._batch_shape_arg)
        if self._batch_shape_static is None:
            return
        if self._batch_shape_static.ndim != 1:
            raise ValueError(
                "Argument batch_shape must be a 1-D Tensor.  Found: %s" % self._batch_shape_static
            )
        if np.any(self._batch_shape_static < 0):
            raise ValueError(
                "Argument batch_shape must be non-negative.  Found:%s" % self._batch_shape_static
            )

    def _shape(self) -> Any:
        rows = None if self._num_rows_static is None else int(self._num_rows_static)
        matrix_shape = tensor_shape.TensorShape([rows, rows])
        if self._batch_shape_arg is None:
            return matrix_shape
        return tensor_util.constant_value_as_shape(self._batch_shape_arg).concatenate(matrix_shape)

    def _shape_tensor(self) -> Any:
        matrix_shape = array_ops.stack((self._num_rows, self._num_rows), axis=0)
        return (
            matrix_shape
            if self._batch_shape_arg is None
            else array_ops.concat((self._batch_shape_arg, matrix_shape), 0)
        )

    def _assert_non_singular(self) -> Any:
        return control_flow_ops.no_op("assert_non_singular")

    def _assert_positive_definite(self) -> Any:
        return control_flow_ops.no_op("assert_positive_definite")

    def _assert_self_adjoint(self) -> Any:
        return control_flow_ops.no_op("assert_self_adjoint")

    def _possibly_broadcast_batch_shape(self, x: Any) -> Any:
        """Adds the leading axes of the operator to `x`."""
        if self._batch_shape_arg is None:
            return x
        special_shape = self.batch_shape.concatenate([1, 1])
        if special_shape.is_fully_defined() and x.shape.is_fully_defined():
            if array_ops.broadcast_static_shape(x.shape, special_shape) == x.shape:
                return x
        zeros = array_ops.zeros(array_ops.concat((self.batch_shape_tensor(), [1, 1]), 0), dtype=self.dtype)
        return x + zeros

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        x = linalg.adjoint(x) if adjoint_arg else x
        if self._assert_proper_shapes:
            x = control_flow_ops.with_dependencies(
                [linear_operator_util.assert_compatible_matrix_dimensions(self, x)], x
            )
        return self._possibly_broadcast_batch_shape(x)

    def _determinant(self) -> Any:
        return array_ops.ones(shape=self.batch_shape_tensor(), dtype=self.dtype)

    def _log_abs_determinant(self) -> Any:
        return array_ops.zeros(shape=self.batch_shape_tensor(), dtype=self.dtype)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._matmul(rhs, adjoint_arg=adjoint_arg)

    def _trace(self) -> Any:
        ones = array_ops.ones(shape=self.batch_shape_tensor(), dtype=self.dtype)
        return math_ops.cast(self.domain_dimension_tensor(), self.dtype) * ones

    def _diag_part(self) -> Any:
        return self._ones_diag()

    def add_to_tensor(self, mat: Any, name: str = "add_to_tensor") -> Any:
        """Returns I + mat."""
        with self._name_scope(name):
            mat = ops.convert_to_tensor(mat, name="mat")
            mat_diag = array_ops.matrix_diag_part(mat)
            return array_ops.matrix_set_diag(mat, 1 + mat_diag)


class LinearOperatorScaledIdentity(BaseLinearOperatorIdentity):
    """`multiplier` [...] times the identity with `num_rows` rows; the hints are those of LinearOperator."""

    def __init__(
        self,
        num_rows: Any,
        multiplier: Any,
        is_non_singular: Any = None,
        is_self_adjoint: Any = None,
        is_positive_definite: Any = None,
        is_square: Any = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorScaledIdentity",
    ) -> None:
        self._assert_proper_shapes = assert_proper_shapes
        with ops.name_scope(name, values=[multiplier, num_rows]):
            self._multiplier = ops.convert_to_tensor(multiplier, name="multiplier")
            if not self._multiplier.dtype.is_complex:
                if is_self_adjoint is False:
                    raise ValueError("A real diagonal operator is always self adjoint.")
                is_self_adjoint = True
            if not is_square:
                raise ValueError("A ScaledIdentity operator is always square.")
            super().__init__(
                dtype=self._multiplier.dtype.base_dtype,
                graph_parents=[self._multiplier],
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=is_square,
                name=name,
            )
            self._num_rows = linear_operator_util.shape_tensor(num_rows, name="num_rows")
            self._num_rows_static = tensor_util.constant_value(self._num_rows)
            self._check_num_rows_possibly_add_asserts()
            self._num_rows_cast_to_dtype = math_ops.cast(self._num_rows, self.dtype)

    @property
    def multiplier(self) -> Any:
        """The factor [...]."""
        return self._multiplier

    def _shape(self) -> Any:
        rows = None if self._num_rows_static is None else int(self._num_rows_static)
        return self.multiplier.get_shape().concatenate(tensor_shape.TensorShape([rows, rows]))

    def _shape_tensor(self) -> Any:
        matrix_shape = array_ops.stack((self._num_rows, self._num_rows), axis=0)
        return array_ops.concat((array_ops.shape(self.multiplier), matrix_shape), 0)

    def _assert_non_singular(self) -> Any:
        return check_ops.assert_positive(math_ops.abs(self.multiplier), message="LinearOperator was singular")

    def _assert_positive_definite(self) -> Any:
        return check_ops.assert_positive(
            math_ops.real(self.multiplier), message="LinearOperator was not positive definite."
        )

    def _assert_self_adjoint(self) -> Any:
        return linear_operator_util.assert_zero_imag_part(
            self.multiplier, message="LinearOperator was not self-adjoint"
        )

    def _factor(self, adjoint: bool) -> Any:
        factor = math_ops.conj(self.multiplier) if adjoint else self.multiplier
        return array_ops.expand_dims(array_ops.expand_dims(factor, -1), -1)

    def _checked(self, x: Any, adjoint_arg: bool) -> Any:
        x = linalg.adjoint(x) if adjoint_arg else x
        if self._assert_proper_shapes:
            x = control_flow_ops.with_dependencies(
                [linear_operator_util.assert_compatible_matrix_dimensions(self, x)], x
            )
        return x

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._checked(x, adjoint_arg) * self._factor(adjoint)

    def _determinant(self) -> Any:
        return self.multiplier**self._num_rows_cast_to_dtype

    def _log_abs_determinant(self) -> Any:
        return self._num_rows_cast_to_dtype * math_ops.cast(
            math_ops.log(math_ops.abs(self.multiplier)), self.dtype
        )

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._checked(rhs, adjoint_arg) / self._factor(adjoint)

    def _trace(self) -> Any:
        return self._num_rows_cast_to_dtype * self.multiplier

    def _diag_part(self) -> Any:
        return self._ones_diag() * self.multiplier[..., array_ops.newaxis]

    def _to_dense(self) -> Any:
        return linalg_ops.eye(self._num_rows, dtype=self.dtype) * self._factor(False)

    def add_to_tensor(self, mat: Any, name: str = "add_to_tensor") -> Any:
        """Returns this operator + mat."""
        with self._name_scope(name):
            mat = ops.convert_to_tensor(mat, name="mat")
            return self.to_dense() + mat
