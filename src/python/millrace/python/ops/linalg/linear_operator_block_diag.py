# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Operators in blocks along the diagonal."""
from __future__ import annotations

from typing import Any


from millrace.python.framework import ops, tensor_shape
from millrace.python.ops import array_ops, control_flow_ops
from millrace.python.ops.linalg import linalg_impl as linalg
from millrace.python.ops.linalg import linear_operator, linear_operator_util

__all__ = ["LinearOperatorBlockDiag"]


class LinearOperatorBlockDiag(linear_operator.LinearOperator):
    """The matrix with square `operators` along its diagonal and 0 elsewhere."""

    def __init__(
        self,
        operators: Any,
        is_non_singular: Any = None,
        is_self_adjoint: Any = None,
        is_positive_definite: Any = None,
        is_square: Any = True,
        name: Any = None,
    ) -> None:
        operators = list(operators)
        dtype = linear_operator_util.check_operators(operators)
        self._operators = operators
        hints = {
            "is_non_singular": is_non_singular,
            "is_self_adjoint": is_self_adjoint,
            "is_positive_definite": is_positive_definite,
        }
        for hint, what in (
            ("is_non_singular", "non-singular"),
            ("is_self_adjoint", "self-adjoint"),
            ("is_positive_definite", "positive definite"),
        ):
            if all(getattr(operator, hint) for operator in operators):
                if hints[hint] is False:
                    raise ValueError("The direct sum of %s operators is always %s." % (what, what))
                hints[hint] = True
        if not (is_square and all(operator.is_square is not False for operator in operators)):
            raise ValueError("Can only represent a block diagonal of square matrices.")
        if name is None:
            name = "_ds_".join(operator.name for operator in operators)
        graph_parents = [t for operator in operators for t in operator.graph_parents]
        with ops.name_scope(name, values=graph_parents):
            super().__init__(dtype=dtype, graph_parents=graph_parents, is_square=True, name=name, **hints)

    @property
    def operators(self) -> Any:
        """The blocks."""
        return self._operators

    def _shape(self) -> Any:
        domain_dimension = self.operators[0].domain_dimension
        range_dimension = self.operators[0].range_dimension
        batch_shape = self.operators[0].batch_shape
        for operator in self.operators[1:]:
            domain_dimension += operator.domain_dimension
            range_dimension += operator.range_dimension
            batch_shape = array_ops.broadcast_static_shape(batch_shape, operator.batch_shape)
        return batch_shape.concatenate(tensor_shape.TensorShape([domain_dimension, range_dimension]))

    def _shape_tensor(self) -> Any:
        size = self.operators[0].domain_dimension_tensor()
        batch = self.operators[0].batch_shape_tensor()
        for operator in self.operators[1:]:
            size += operator.domain_dimension_tensor()
            batch = array_ops.broadcast_dynamic_shape(batch, operator.batch_shape_tensor())
        return array_ops.concat((batch, array_ops.stack([size, size])), 0)

    def _parts(self, x: Any, axis: int) -> Any:
        sizes = [tensor_shape.dimension_value(operator.domain_dimension) for operator in self.operators]
        if None in sizes:
            sizes = [operator.domain_dimension_tensor() for operator in self.operators]
        return array_ops.split(x, sizes, axis=axis)

    def _on_parts(self, x: Any, method: str, adjoint: bool, adjoint_arg: bool) -> Any:
        x = linalg.adjoint(x) if adjoint_arg else x
        results = [
            getattr(operator, method)(part, adjoint=adjoint)
            for operator, part in zip(self.operators, self._parts(x, -2))
        ]
        return array_ops.concat(linear_operator_util.broadcast_matrix_batch_dims(results), axis=-2)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._on_parts(x, "matmul", adjoint, adjoint_arg)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._on_parts(rhs, "solve", adjoint, adjoint_arg)

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

    def _diag_part(self) -> Any:
        diags = [array_ops.expand_dims(operator.diag_part(), -1) for operator in self.operators]
        diags = linear_operator_util.broadcast_matrix_batch_dims(diags)
        return array_ops.squeeze(array_ops.concat(diags, axis=-2), axis=-1)

    def _trace(self) -> Any:
        result = self.operators[0].trace()
        for operator in self.operators[1:]:
            result += operator.trace()
        return result

    def _to_dense(self) -> Any:
        rows = []
        blocks = linear_operator_util.broadcast_matrix_batch_dims(
            [operator.to_dense() for operator in self.operators]
        )
        for i, block in enumerate(blocks):
            shape = array_ops.shape(block)

            def zeros(other: Any, shape: Any = shape) -> Any:
                return array_ops.zeros(
                    array_ops.concat([shape[:-1], [array_ops.shape(other)[-1]]], 0), dtype=self.dtype
                )

            rows.append(
                array_ops.concat([block if j == i else zeros(other) for j, other in enumerate(blocks)], -1)
            )
        result = array_ops.concat(rows, axis=-2)
        result.set_shape(self.shape)
        return result

    def _assert_non_singular(self) -> Any:
        return control_flow_ops.group([operator.assert_non_singular() for operator in self.operators])

    def _assert_self_adjoint(self) -> Any:
        return control_flow_ops.group([operator.assert_self_adjoint() for operator in self.operators])

    def _assert_positive_definite(self) -> Any:
        return control_flow_ops.group([operator.assert_positive_definite() for operator in self.operators])
