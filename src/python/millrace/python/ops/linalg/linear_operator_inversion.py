# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The inverse of any operator."""
from __future__ import annotations

from typing import Any


from millrace.python.framework import ops
from millrace.python.ops.linalg import linear_operator, linear_operator_util

__all__ = ["LinearOperatorInversion"]


class LinearOperatorInversion(linear_operator.LinearOperator):
    """The inverse of `operator`; hints that are None are those of the operator."""

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
        linear_operator_util.check_operator(operator)
        if operator.is_square is False or is_square is False:
            raise ValueError("An operator must be square to have an inverse: is_square hint was False.")
        if operator.is_non_singular is False or is_non_singular is False:
            raise ValueError(
                "operator and supplied hints must have is_non_singular=`True` or `None`.  Found False."
            )
        hints = {}
        for hint, value, text in (
            (
                "is_self_adjoint",
                is_self_adjoint,
                "The operator and its inverse are either both or neither self-adjoint.",
            ),
            (
                "is_positive_definite",
                is_positive_definite,
                "The operator and its inverse are either both or neither positive-definite.",
            ),
        ):
            hints[hint] = linear_operator_util.use_operator_or_provided_hint_unless_contradicting(
                operator, hint, value, text
            )
        if name is None:
            name = operator.name + "_inv"
        with ops.name_scope(name, values=operator.graph_parents):
            super().__init__(
                dtype=operator.dtype,
                graph_parents=operator.graph_parents,
                is_non_singular=True,
                is_square=True,
                name=name,
                **hints,
            )

    @property
    def operator(self) -> Any:
        """The operator whose inverse this is."""
        return self._operator

    def _assert_non_singular(self) -> Any:
        return self.operator.assert_non_singular()

    def _assert_positive_definite(self) -> Any:
        return self.operator.assert_positive_definite()

    def _assert_self_adjoint(self) -> Any:
        return self.operator.assert_self_adjoint()

    def _shape(self) -> Any:
        return self.operator.shape

    def _shape_tensor(self) -> Any:
        return self.operator.shape_tensor()

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self.operator.solve(x, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def _matvec(self, x: Any, adjoint: bool = False) -> Any:
        return self.operator.solvevec(x, adjoint=adjoint)

    def _determinant(self) -> Any:
        return 1.0 / self.operator.determinant()

    def _log_abs_determinant(self) -> Any:
        return -1.0 * self.operator.log_abs_determinant()

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self.operator.matmul(rhs, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def _solvevec(self, rhs: Any, adjoint: bool = False) -> Any:
        return self.operator.matvec(rhs, adjoint=adjoint)
