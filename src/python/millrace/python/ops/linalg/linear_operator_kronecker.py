# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Kronecker products of operators."""
from __future__ import annotations

from typing import Any


import functools

from millrace.python.framework import errors, ops, tensor_shape
from millrace.python.ops import array_ops, control_flow_ops, math_ops
from millrace.python.ops.linalg import linalg_impl as linalg
from millrace.python.ops.linalg import linear_operator, linear_operator_util

__all__ = ["LinearOperatorKronecker"]


class LinearOperatorKronecker(linear_operator.LinearOperator):
    """The Kronecker product of `operators`, each applied to its own axis."""

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
        if not operators:
            raise ValueError("Expected a list of >=1 operators. Found: %s" % operators)
        dtype = linear_operator_util.check_operators(operators)
        self._operators = operators
        if is_square is None and all(operator.is_square for operator in operators):
            is_square = True
        hints = {
            "is_non_singular": is_non_singular,
            "is_self_adjoint": is_self_adjoint,
            "is_positive_definite": is_positive_definite,
        }
        for hint, what in (
            ("is_non_singular", "non-singular"),
            ("is_self_adjoint", "self-adjoint"),
            ("is_positive_definite", "positive-definite"),
        ):
            if all(getattr(operator, hint) for operator in operators):
                if hints[hint] is False:
                    raise ValueError("The Kronecker product of %s operators is always %s." % (what, what))
                hints[hint] = True
        if name is None:
            name = operators[0].name + "".join("_x_" + operator.name for operator in operators[1:])
        graph_parents = [t for operator in operators for t in operator.graph_parents]
        with ops.name_scope(name, values=graph_parents):
            super().__init__(
                dtype=dtype, graph_parents=graph_parents, is_square=is_square, name=name, **hints
            )

    @property
    def operators(self) -> Any:
        """The factors."""
        return self._operators

    def _shape(self) -> Any:
        domain_dimension = self.operators[0].domain_dimension
        range_dimension = self.operators[0].range_dimension
        batch_shape = self.operators[0].batch_shape
        for operator in self.operators[1:]:
            domain_dimension *= operator.domain_dimension
            range_dimension *= operator.range_dimension
            batch_shape = array_ops.broadcast_static_shape(batch_shape, operator.batch_shape)
        return batch_shape.concatenate(tensor_shape.TensorShape([range_dimension, domain_dimension]))

    def _shape_tensor(self) -> Any:
        domain = self.operators[0].domain_dimension_tensor()
        range_ = self.operators[0].range_dimension_tensor()
        batch = self.operators[0].batch_shape_tensor()
        for operator in self.operators[1:]:
            domain *= operator.domain_dimension_tensor()
            range_ *= operator.range_dimension_tensor()
            batch = array_ops.broadcast_dynamic_shape(batch, operator.batch_shape_tensor())
        return array_ops.concat((batch, array_ops.stack([range_, domain])), 0)

    def _apply(self, x: Any, method: str, adjoint: bool, adjoint_arg: bool) -> Any:
        """Applies each operator to its axis of `x` [..., n1 n2 ..., r]: the axis comes first and is put last."""
        x = linalg.adjoint(x) if adjoint_arg else x
        batch = self.batch_shape_tensor()
        x_shape = array_ops.shape(x)
        batch = array_ops.broadcast_dynamic_shape(batch, x_shape[:-2])
        static_batch = array_ops.broadcast_static_shape(self.batch_shape, x.shape[:-2])
        columns = x_shape[-1]
        output = array_ops.broadcast_to(x, array_ops.concat([batch, x_shape[-2:]], 0))
        for operator in self.operators:
            size = (
                operator.range_dimension_tensor()
                if adjoint or method == "solve"
                else operator.domain_dimension_tensor()
            )
            if adjoint and method == "solve":
                size = operator.domain_dimension_tensor()
            # [..., n, rest] -> apply -> [..., rest, m]
            output = array_ops.reshape(output, array_ops.concat([batch, [size, -1]], 0))
            output = getattr(operator, method)(output, adjoint=adjoint)
            if operator is not self.operators[-1] or len(self.operators) > 1:
                shape = array_ops.shape(output)
                rest = shape[-1] // columns
                # The columns of the argument stay last: the axis goes before them.
                output = array_ops.reshape(output, array_ops.concat([batch, [shape[-2], rest, columns]], 0))
                output = _swap(output)
        rows = self.domain_dimension if adjoint != (method == "solve") else self.range_dimension
        output = array_ops.reshape(output, array_ops.concat([batch, [-1, columns]], 0))
        output.set_shape(static_batch.concatenate([rows, x.shape[-1]]))
        return output

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._apply(x, "matmul", adjoint, adjoint_arg)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._apply(rhs, "solve", adjoint, adjoint_arg)

    def _determinant(self) -> Any:
        total = self.domain_dimension_tensor()
        parts = [
            operator.determinant()
            ** math_ops.cast(total / operator.domain_dimension_tensor(), operator.dtype)
            for operator in self.operators
        ]
        return functools.reduce(math_ops.multiply, parts)

    def _log_abs_determinant(self) -> Any:
        total = self.domain_dimension_tensor()
        parts = [
            operator.log_abs_determinant()
            * math_ops.cast(total / operator.domain_dimension_tensor(), operator.dtype)
            for operator in self.operators
        ]
        return functools.reduce(math_ops.add, parts)

    def _trace(self) -> Any:
        return functools.reduce(math_ops.multiply, [operator.trace() for operator in self.operators])

    def _diag_part(self) -> Any:
        diag_part = self.operators[0].diag_part()
        for operator in self.operators[1:]:
            product = diag_part[..., :, array_ops.newaxis] * operator.diag_part()[..., array_ops.newaxis, :]
            diag_part = array_ops.reshape(product, array_ops.concat([array_ops.shape(product)[:-2], [-1]], 0))
        size = self.shape[-1] if self.is_square else None
        diag_part.set_shape(self.batch_shape.concatenate([size]))
        return diag_part

    def _to_dense(self) -> Any:
        product = self.operators[0].to_dense()
        for operator in self.operators[1:]:
            other = operator.to_dense()
            product = product[..., :, array_ops.newaxis, :, array_ops.newaxis]
            product = product * other[..., array_ops.newaxis, :, array_ops.newaxis, :]
            shape = array_ops.shape(product)
            product = array_ops.reshape(
                product, array_ops.concat([shape[:-4], [shape[-4] * shape[-3], shape[-2] * shape[-1]]], 0)
            )
        product.set_shape(self.shape)
        return product

    def _assert_non_singular(self) -> Any:
        if all(operator.is_square for operator in self.operators):
            return control_flow_ops.group([operator.assert_non_singular() for operator in self.operators])
        raise errors.InvalidArgumentError(  # type: ignore[call-arg]
            node_def=None,
            op=None,
            message="All Kronecker factors must be square for the product to be invertible.",
        )

    def _assert_self_adjoint(self) -> Any:
        if all(operator.is_square for operator in self.operators):
            return control_flow_ops.group([operator.assert_self_adjoint() for operator in self.operators])
        raise errors.InvalidArgumentError(  # type: ignore[call-arg]
            node_def=None,
            op=None,
            message="All Kronecker factors must be square for the product to be self adjoint.",
        )


def _swap(x: Any) -> Any:
    """[..., a, b, c] -> [..., b, a, c]."""
    rank = array_ops.rank(x)
    order = array_ops.concat([math_ops.range(rank - 3), [rank - 2, rank - 3, rank - 1]], 0)
    return array_ops.transpose(x, order)
