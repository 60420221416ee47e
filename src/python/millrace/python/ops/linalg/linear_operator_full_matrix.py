# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Operators that are dense matrices."""
from __future__ import annotations

from typing import Any


from millrace.python.framework import dtypes, ops
from millrace.python.ops import array_ops, math_ops
from millrace.python.ops.linalg import linear_operator

__all__ = ["LinearOperatorFullMatrix"]


class LinearOperatorFullMatrix(linear_operator.LinearOperator):
    """The matrices `matrix` [..., m, n]; the hints are those of LinearOperator."""

    def __init__(
        self,
        matrix: Any,
        is_non_singular: Any = None,
        is_self_adjoint: Any = None,
        is_positive_definite: Any = None,
        is_square: Any = None,
        name: str = "LinearOperatorFullMatrix",
    ) -> None:
        with ops.name_scope(name, values=[matrix]):
            self._matrix = ops.convert_to_tensor(matrix, name="matrix")
            self._check_matrix(self._matrix)
            super().__init__(
                dtype=self._matrix.dtype,
                graph_parents=[self._matrix],
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=is_square,
                name=name,
            )

    def _check_matrix(self, matrix: Any) -> None:
        allowed = [dtypes.float16, dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128]
        dtype = matrix.dtype
        if dtype not in allowed:
            raise TypeError("Argument matrix must have dtype in %s.  Found: %s" % (allowed, dtype))
        if matrix.get_shape().ndims is not None and matrix.get_shape().ndims < 2:
            raise ValueError("Argument matrix must have at least 2 dimensions.  Found: %s" % matrix)

    def _shape(self) -> Any:
        return self._matrix.get_shape()

    def _shape_tensor(self) -> Any:
        return array_ops.shape(self._matrix)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return math_ops.matmul(self._matrix, x, adjoint_a=adjoint, adjoint_b=adjoint_arg)

    def _to_dense(self) -> Any:
        return self._matrix
