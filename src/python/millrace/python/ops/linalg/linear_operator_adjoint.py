# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The adjoint of any operator."""
from __future__ import annotations

from typing import Any


from millrace.python.framework import ops
from millrace.python.ops import array_ops, math_ops
from millrace.python.ops.linalg import linalg_impl as linalg
from millrace.python.ops.linalg import linear_operator, linear_operator_util

__all__ = ["LinearOperatorAdjoint"]


class LinearOperatorAdjoint(linear_operator.LinearOperator):
    """The adjoint of `operator`; hints that are None are those of the operator."""

    def __init__(
        self,
        operator: Any,
        is_non_singular: Any = None,
        is_self_adjoint: Any = None,
        is_positive_definite: Any = None,
        is_square: Any = None,
        name: Any = None,
    ) -> None:
        self._operator = operator
        hints = {}
        for hint, value, text in (
            ("is_square", is_square, "An operator is square if and only if its adjoint is square."),
            (
                "is_non_singular",
                is_non_singular,
                "An operator is non-singular if and only if its adjoint is non-singular.",
            ),
            (
                "is_self_adjoint",
                is_self_adjoint,
                "An operator is self-adjoint if and only if its adjoint is self-adjoint.",
            ),
            (
                "is_positive_definite",
                is_positive_definite,
                "An operator is positive-definite if and only if its adjoint is positive-definite.",
            ),
        ):
            hints[hint] = linear_operator_util.use_operator_or_provided_hint_unless_contradicting(
                operator, hint, value, text
            )
        if name is None:
            name = operator.name + "_adjoint"
        with ops.name_scope(name, values=operator.graph_parents):
            super().__init__(dtype=operator.dtype, graph_parents=operator.graph_parents, name=name, **hints)

    @property
    def operator(self) -> Any:
        """The operator whose adjoint this is."""
        return self._operator

    def _assert_non_singular(self) -> Any:
        return self.operator.assert_non_singular()

    def _assert_positive_definite(self) -> Any:
        return self.operator.assert_positive_definite()

    def _assert_self_adjoint(self) -> Any:
        return self.operator.assert_self_adjoint()

    def _shape(self) -> Any:
        shape = self.operator.shape
        return shape if shape.ndims is None else shape[:-2].concatenate([shape[-1], shape[-2]])

    def _shape_tensor(self) -> Any:
        shape = self.operator.shape_tensor()
        return array_ops.concat((shape[:-2], [shape[-1], shape[-2]]), axis=-1)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self.operator.matmul(x, adjoint=not adjoint, adjoint_arg=adjoint_arg)

    def _matvec(self, x: Any, adjoint: bool = False) -> Any:
        return self.operator.matvec(x, adjoint=not adjoint)

    def _determinant(self) -> Any:
        if self.is_self_adjoint:
            return self.operator.determinant()
        return math_ops.conj(self.operator.determinant())

    def _log_abs_determinant(self) -> Any:
        return self.operator.log_abs_determinant()

    def _trace(self) -> Any:
        return self.operator.trace() if self.is_self_adjoint else math_ops.conj(self.operator.trace())

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self.operator.solve(rhs, adjoint=not adjoint, adjoint_arg=adjoint_arg)

    def _solvevec(self, rhs: Any, adjoint: bool = False) -> Any:
        return self.operator.solvevec(rhs, adjoint=not adjoint)

    def _to_dense(self) -> Any:
        return self.operator.to_dense() if self.is_self_adjoint else linalg.adjoint(self.operator.to_dense())
