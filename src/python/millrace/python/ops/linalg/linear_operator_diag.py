# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Diagonal operators."""
from __future__ import annotations

from typing import Any


from millrace.python.framework import ops
from millrace.python.ops import array_ops, check_ops, math_ops
from millrace.python.ops.linalg import linalg_impl as linalg
from millrace.python.ops.linalg import linear_operator, linear_operator_util

__all__ = ["LinearOperatorDiag"]


class LinearOperatorDiag(linear_operator.LinearOperator):
    """The matrices with the diagonal `diag` [..., n]; the hints are those of LinearOperator."""

    def __init__(
        self,
        diag: Any,
        is_non_singular: Any = None,
        is_self_adjoint: Any = None,
        is_positive_definite: Any = None,
        is_square: Any = None,
        name: str = "LinearOperatorDiag",
    ) -> None:
        with ops.name_scope(name, values=[diag]):
            self._diag = ops.convert_to_tensor(diag, name="diag")
            if self._diag.get_shape().ndims is not None and self._diag.get_shape().ndims < 1:
                raise ValueError("Argument diag must have at least 1 dimension.  Found: %s" % self._diag)
            # A real diagonal is its own adjoint.
            if not self._diag.dtype.is_complex:
                if is_self_adjoint is False:
                    raise ValueError("A real diagonal operator is always self adjoint.")
                is_self_adjoint = True
            if is_square is False:
                raise ValueError("Only square diagonal operators currently supported.")
            super().__init__(
                dtype=self._diag.dtype,
                graph_parents=[self._diag],
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=True,
                name=name,
            )

    @property
    def diag(self) -> Any:
        """The diagonal."""
        return self._diag

    def _shape(self) -> Any:
        d_shape = self._diag.get_shape()
        return d_shape.concatenate(d_shape[-1:])

    def _shape_tensor(self) -> Any:
        d_shape = array_ops.shape(self._diag)
        return array_ops.concat((d_shape, [d_shape[-1]]), axis=0)

    def _assert_non_singular(self) -> Any:
        return linear_operator_util.assert_no_entries_with_modulus_zero(
            self._diag, message="Singular operator:  Diagonal contained zero values."
        )

    def _assert_positive_definite(self) -> Any:
        if self.dtype.is_complex:
            message = "Diagonal operator had diagonal entries with non-positive real part, thus was not positive definite."
        else:
            message = (
                "Real diagonal operator had non-positive diagonal entries, thus was not positive definite."
            )
        return check_ops.assert_positive(math_ops.real(self._diag), message=message)

    def _assert_self_adjoint(self) -> Any:
        return linear_operator_util.assert_zero_imag_part(
            self._diag,
            message="This diagonal operator contained non-zero imaginary values.  Thus it was not self-adjoint.",
        )

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        diag_term = math_ops.conj(self._diag) if adjoint else self._diag
        x = linalg.adjoint(x) if adjoint_arg else x
        return array_ops.expand_dims(diag_term, -1) * x

    def _matvec(self, x: Any, adjoint: bool = False) -> Any:
        return (math_ops.conj(self._diag) if adjoint else self._diag) * x

    def _determinant(self) -> Any:
        return math_ops.reduce_prod(self._diag, axis=[-1])

    def _log_abs_determinant(self) -> Any:
        log_det = math_ops.reduce_sum(math_ops.log(math_ops.abs(self._diag)), axis=[-1])
        return math_ops.cast(log_det, dtype=self.dtype) if self.dtype.is_complex else log_det

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        diag_term = math_ops.conj(self._diag) if adjoint else self._diag
        rhs = linalg.adjoint(rhs) if adjoint_arg else rhs
        return rhs * array_ops.expand_dims(1.0 / diag_term, -1)

    def _to_dense(self) -> Any:
        return array_ops.matrix_diag(self._diag)

    def _diag_part(self) -> Any:
        return self.diag

    def _add_to_tensor(self, x: Any) -> Any:
        if not (x.shape.is_fully_defined() and x.shape[:-2] == self.batch_shape):
            return self.to_dense() + x
        return array_ops.matrix_set_diag(x, array_ops.matrix_diag_part(x) + self._diag)
