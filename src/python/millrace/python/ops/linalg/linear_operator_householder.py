# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Reflections."""
from __future__ import annotations

from typing import Any


from millrace.python.framework import errors, ops
from millrace.python.ops import array_ops, control_flow_ops, math_ops
from millrace.python.ops.linalg import linalg_impl as linalg
from millrace.python.ops.linalg import linear_operator

__all__ = ["LinearOperatorHouseholder"]


class LinearOperatorHouseholder(linear_operator.LinearOperator):
    """I - 2 v v^H / |v|^2, the reflection along `reflection_axis` [..., n]."""

    def __init__(
        self,
        reflection_axis: Any,
        is_non_singular: Any = None,
        is_self_adjoint: Any = None,
        is_positive_definite: Any = None,
        is_square: Any = None,
        name: str = "LinearOperatorHouseholder",
    ) -> None:
        with ops.name_scope(name, values=[reflection_axis]):
            self._reflection_axis = ops.convert_to_tensor(reflection_axis, name="reflection_axis")
            if self._reflection_axis.shape.ndims is not None and self._reflection_axis.shape.ndims < 1:
                raise ValueError(
                    "Argument reflection_axis must have at least 1 dimension.  Found: %s"
                    % self._reflection_axis
                )
            for hint, wrong, text in (
                (is_self_adjoint, False, "A Householder operator is always self adjoint."),
                (is_positive_definite, True, "A Householder operator is always non-positive definite."),
                (is_square, False, "A Householder operator is always square."),
                (is_non_singular, False, "A Householder operator is always non-singular."),
            ):
                if hint is wrong:
                    raise ValueError(text)
            super().__init__(
                dtype=self._reflection_axis.dtype,
                graph_parents=[self._reflection_axis],
                is_non_singular=True,
                is_self_adjoint=True,
                is_positive_definite=False,
                is_square=True,
                name=name,
            )

    @property
    def reflection_axis(self) -> Any:
        """The axis along which it reflects."""
        return self._reflection_axis

    def _shape(self) -> Any:
        d_shape = self._reflection_axis.shape
        return d_shape.concatenate(d_shape[-1:])

    def _shape_tensor(self) -> Any:
        d_shape = array_ops.shape(self._reflection_axis)
        return array_ops.concat([d_shape, [d_shape[-1]]], axis=0)

    def _assert_non_singular(self) -> Any:
        return control_flow_ops.no_op("assert_non_singular")

    def _assert_positive_definite(self) -> Any:
        raise errors.InvalidArgumentError(  # type: ignore[call-arg]
            node_def=None, op=None, message="Householder operators are always non-positive definite."
        )

    def _assert_self_adjoint(self) -> Any:
        return control_flow_ops.no_op("assert_self_adjoint")

    def _unit(self) -> Any:
        axis = self.reflection_axis
        norm = math_ops.sqrt(
            math_ops.reduce_sum(math_ops.real(axis * math_ops.conj(axis)), axis=-1, keepdims=True)
        )
        return axis / math_ops.cast(norm, axis.dtype)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        x = linalg.adjoint(x) if adjoint_arg else x
        mat = array_ops.expand_dims(self._unit(), -1)
        return x - 2 * math_ops.matmul(mat, math_ops.matmul(mat, x, adjoint_a=True))

    def _trace(self) -> Any:
        shape = self.shape_tensor()
        return math_ops.cast(self.domain_dimension_tensor() - 2, self.dtype) * array_ops.ones(
            shape=shape[:-2], dtype=self.dtype
        )

    def _determinant(self) -> Any:
        return -array_ops.ones(shape=self.batch_shape_tensor(), dtype=self.dtype)

    def _log_abs_determinant(self) -> Any:
        return array_ops.zeros(shape=self.batch_shape_tensor(), dtype=self.dtype)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._matmul(rhs, adjoint, adjoint_arg)

    def _to_dense(self) -> Any:
        unit = self._unit()
        mat = array_ops.expand_dims(unit, -1)
        matrix = -2 * math_ops.matmul(mat, mat, adjoint_b=True)
        return array_ops.matrix_set_diag(matrix, 1.0 + array_ops.matrix_diag_part(matrix))

    def _diag_part(self) -> Any:
        unit = self._unit()
        return 1.0 - 2 * unit * math_ops.conj(unit)
