# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Products of operators."""
from __future__ import annotations

from typing import Any


from millrace.python.framework import ops, tensor_shape
from millrace.python.ops import array_ops
from millrace.python.ops.linalg import linear_operator, linear_operator_util

__all__ = ["LinearOperatorComposition"]


class LinearOperatorComposition(linear_operator.LinearOperator):
    """The product of `operators`, the last of which is applied first."""

    def __init__(
        self,
        operators: Any,
        is_non_singular: Any = None,
        is_self_adjoint: Any = None,
        is_positive_definite: Any = None,
        is_square: Any = None,
        name: Any = None,
    ) -> None:
        operators = list(operators)
        dtype = linear_operator_util.check_operators(operators)
        self._operators = operators
        if all(operator.is_non_singular for operator in operators):
            if is_non_singular is False:
                raise ValueError("The composition of non-singular operators is always non-singular.")
            is_non_singular = True
        if name is None:
            name = "_o_".join(operator.name for operator in operators)
        graph_parents = [t for operator in operators for t in operator.graph_parents]
        with ops.name_scope(name, values=graph_parents):
            super().__init__(
                dtype=dtype,
                graph_parents=graph_parents,
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=is_square,
                name=name,
            )

    @property
    def operators(self) -> Any:
        """The factors."""
        return self._operators

    def _shape(self) -> Any:
        domain_dimension = self.operators[0].domain_dimension
        for operator in self.operators[1:]:
            domain_dimension.assert_is_compatible_with(operator.range_dimension)
            domain_dimension = operator.domain_dimension
        matrix_shape = tensor_shape.TensorShape([self.operators[0].range_dimension, domain_dimension])
        batch_shape = self.operators[0].batch_shape
        for operator in self.operators[1:]:
            batch_shape = array_ops.broadcast_static_shape(batch_shape, operator.batch_shape)
        return batch_shape.concatenate(matrix_shape)

    def _shape_tensor(self) -> Any:
        batch = self.operators[0].batch_shape_tensor()
        for operator in self.operators[1:]:
            batch = array_ops.broadcast_dynamic_shape(batch, operator.batch_shape_tensor())
        sizes = [self.operators[0].range_dimension_tensor(), self.operators[-1].domain_dimension_tensor()]
        return array_ops.concat((batch, array_ops.stack(sizes)), 0)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        order = self.operators if adjoint else list(reversed(self.operators))
        result = order[0].matmul(x, adjoint=adjoint, adjoint_arg=adjoint_arg)
        for operator in order[1:]:
            result = operator.matmul(result, adjoint=adjoint)
        return result

    def _determinant(self) -> Any:
        result = self.operators[0].determinant()
        for operator in self.operators[1:]:
            result *= operator.determinant()
        return result

    def _log_abs_determinant(self) -> Any:
        result = self.operators[0].log_abs_determinant()
        for operator in self.operators[1:]:
            result += operator.log_abs_determinant()
        return result

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        order = list(reversed(self.operators)) if adjoint else self.operators
        solution = order[0].solve(rhs, adjoint=adjoint, adjoint_arg=adjoint_arg)
        for operator in order[1:]:
            solution = operator.solve(solution, adjoint=adjoint)
        return solution

    def _to_dense(self) -> Any:
        result = self.operators[-1].to_dense()
        for operator in reversed(self.operators[:-1]):
            result = operator.matmul(result)
        return result
