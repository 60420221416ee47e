# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Lower triangular operators."""
from __future__ import annotations

from typing import Any


from millrace.python.framework import ops
from millrace.python.ops import array_ops, math_ops
from millrace.python.ops.linalg import linalg_impl as linalg
from millrace.python.ops.linalg import linear_operator, linear_operator_util

__all__ = ["LinearOperatorLowerTriangular"]


class LinearOperatorLowerTriangular(linear_operator.LinearOperator):
    """The lower triangle of `tril` [..., n, n]; elements above it are ignored."""

    def __init__(
        self,
        tril: Any,
        is_non_singular: Any = None,
        is_self_adjoint: Any = None,
        is_positive_definite: Any = None,
        is_square: Any = None,
        name: str = "LinearOperatorLowerTriangular",
    ) -> None:
        if is_square is False:
            raise ValueError("Only square lower triangular operators supported at this time.")
        with ops.name_scope(name, values=[tril]):
            self._tril = ops.convert_to_tensor(tril, name="tril")
            if self._tril.get_shape().ndims is not None and self._tril.get_shape().ndims < 2:
                raise ValueError("Argument tril must have at least 2 dimensions.  Found: %s" % self._tril)
            self._tril = array_ops.matrix_band_part(self._tril, -1, 0)
            self._diag = array_ops.matrix_diag_part(self._tril)
            super().__init__(
                dtype=self._tril.dtype,
                graph_parents=[self._tril],
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=True,
                name=name,
            )

    def _shape(self) -> Any:
        return self._tril.get_shape()

    def _shape_tensor(self) -> Any:
        return array_ops.shape(self._tril)

    def _assert_non_singular(self) -> Any:
        return linear_operator_util.assert_no_entries_with_modulus_zero(
            self._diag, message="Singular operator:  Diagonal contained zero values."
        )

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return math_ops.matmul(self._tril, x, adjoint_a=adjoint, adjoint_b=adjoint_arg)

    def _determinant(self) -> Any:
        return math_ops.reduce_prod(self._diag, axis=[-1])

    def _log_abs_determinant(self) -> Any:
        return math_ops.reduce_sum(math_ops.log(math_ops.abs(self._diag)), axis=[-1])

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        rhs = linalg.adjoint(rhs) if adjoint_arg else rhs
        return linear_operator_util.matrix_triangular_solve_with_broadcast(
            self._tril, rhs, lower=True, adjoint=adjoint
        )

    def _to_dense(self) -> Any:
        return self._tril

    def _diag_part(self) -> Any:
        return self._diag
