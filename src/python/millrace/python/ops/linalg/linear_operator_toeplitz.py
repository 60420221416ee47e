# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Toeplitz operators: the elements depend on the distance from the diagonal."""
from __future__ import annotations

from typing import Any


from millrace.python.framework import dtypes, ops
from millrace.python.ops import array_ops, check_ops, math_ops
from millrace.python.ops.linalg import linalg_impl as linalg
from millrace.python.ops.linalg import linear_operator, linear_operator_util
from millrace.python.ops.signal import fft_ops

__all__ = ["LinearOperatorToeplitz"]


class LinearOperatorToeplitz(linear_operator.LinearOperator):
    """The square matrices with the first column `col` [..., n] and the first row `row` [..., n].

    The hints are those of LinearOperator; the first elements of both are the same.
    """

    def __init__(
        self,
        col: Any,
        row: Any,
        is_non_singular: Any = None,
        is_self_adjoint: Any = None,
        is_positive_definite: Any = None,
        is_square: Any = None,
        name: str = "LinearOperatorToeplitz",
    ) -> None:
        with ops.name_scope(name, values=[row, col]):
            self._row = ops.convert_to_tensor(row, name="row")
            self._col = ops.convert_to_tensor(col, name="col")
            self._check_row_col(self._row, self._col)
            if is_square is False:
                raise ValueError("Only square Toeplitz operators currently supported.")
            super().__init__(
                dtype=self._row.dtype,
                graph_parents=[self._row, self._col],
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=True,
                name=name,
            )

    def _check_row_col(self, row: Any, col: Any) -> None:
        row, col = ops.convert_to_tensor(row), ops.convert_to_tensor(col)
        for name, tensor in (("row", row), ("col", col)):
            if tensor.shape.ndims is not None and tensor.shape.ndims < 1:
                raise ValueError(
                    "Argument {} must have at least 1 dimension.  Found: {}".format(name, tensor)
                )
        if row.shape.ndims is not None and col.shape.ndims is not None:
            if not row.shape[-1:].is_compatible_with(col.shape[-1:]):
                raise ValueError("Expected square matrix, got row and col with mismatched dimensions.")

    @property
    def col(self) -> Any:
        """The first column."""
        return self._col

    @property
    def row(self) -> Any:
        """The first row."""
        return self._row

    def _shape(self) -> Any:
        v_shape = array_ops.broadcast_static_shape(self.row.shape, self.col.shape)
        return v_shape.concatenate(v_shape[-1:])

    def _shape_tensor(self) -> Any:
        v_shape = array_ops.broadcast_dynamic_shape(array_ops.shape(self.row), array_ops.shape(self.col))
        return array_ops.concat((v_shape, [v_shape[-1]]), axis=0)

    def _assert_self_adjoint(self) -> Any:
        return check_ops.assert_equal(
            self.row,
            math_ops.conj(self.col),
            message="row and col are not the same, and so this operator is not self-adjoint.",
        )

    def _both(self) -> tuple[Any, Any]:
        """Column and row with the same leading axes."""
        col, row = linear_operator_util.broadcast_matrix_batch_dims(
            [array_ops.expand_dims(self.col, -1), array_ops.expand_dims(self.row, -1)]
        )
        return col[..., 0], row[..., 0]

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        # A circulant operator of twice the size has this one in its corner.
        x = linalg.adjoint(x) if adjoint_arg else x
        static = x.shape
        expanded_x = array_ops.concat([x, array_ops.zeros_like(x)], axis=-2)
        col, row = self._both()
        if adjoint:
            col, row = math_ops.conj(row), math_ops.conj(col)
        circulant = array_ops.concat(
            [col, array_ops.zeros_like(col[..., 0:1]), array_ops.reverse(row[..., 1:], axis=[-1])], axis=-1
        )
        wide = dtypes.complex128 if self.dtype in (dtypes.float64, dtypes.complex128) else dtypes.complex64
        spectrum = fft_ops.fft(math_ops.cast(circulant, wide))
        vectors = fft_ops.fft(math_ops.cast(array_ops.matrix_transpose(expanded_x), wide))
        product = array_ops.matrix_transpose(fft_ops.ifft(array_ops.expand_dims(spectrum, -2) * vectors))
        result = math_ops.cast(product[..., : self.domain_dimension_tensor(), :], self.dtype)
        if static.ndims is not None:
            result.set_shape(
                array_ops.broadcast_static_shape(static[:-2], self.batch_shape).concatenate(
                    [self.domain_dimension, static[-1]]
                )
            )
        return result

    def _trace(self) -> Any:
        return math_ops.cast(self.domain_dimension_tensor(), dtype=self.dtype) * self._both()[0][..., 0]

    def _diag_part(self) -> Any:
        col, _ = self._both()
        return array_ops.ones_like(col) * col[..., :1]

    def _to_dense(self) -> Any:
        col, row = self._both()
        values = array_ops.concat([array_ops.reverse(row[..., 1:], axis=[-1]), col], axis=-1)
        n = self.domain_dimension_tensor()
        i = math_ops.range(n)
        indices = array_ops.expand_dims(i, -1) - i + n - 1
        result = array_ops.gather(values, indices, axis=-1)
        result.set_shape(self.shape)
        return result
