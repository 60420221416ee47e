# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Sums of linear operators: pairs are added if the sum is one of the known kinds of operators."""
from __future__ import annotations

import abc
from typing import Any

from millrace.python.framework import ops, tensor_shape
from millrace.python.ops import array_ops, check_ops
from millrace.python.ops.linalg import (
    linear_operator,
    linear_operator_diag,
    linear_operator_full_matrix,
    linear_operator_identity,
    linear_operator_lower_triangular,
)

__all__: list[str] = []

# Kinds of operators, the cheapest first.
_SCALED_IDENTITY = "scaled_identity"
_DIAG = "diag"
_TRIL = "tril"
_MATRIX = "matrix"
_EFFICIENT_ADD_TO_TENSOR = {_MATRIX, _TRIL, _DIAG, _SCALED_IDENTITY}


def add_operators(
    operators: Any, operator_name: Any = None, addition_tiers: Any = None, name: Any = None
) -> Any:
    """Operators whose sum is that of those given, as few as possible.

    Args:
      operators: LinearOperators.
      operator_name: of each sum that is made.
      addition_tiers: lists of _Adder; those of an earlier list are tried first.
      name: of the scope.

    Raises:
      TypeError: an element is no LinearOperator.
      ValueError: their matrices differ in size.
    """
    if addition_tiers is None:
        addition_tiers = _DEFAULT_ADDITION_TIERS
    check_ops.assert_proper_iterable(operators)
    operators = list(reversed(operators))
    if len(operators) < 1:
        raise ValueError("Argument 'operators' must contain at least one operator. Found: %s" % operators)
    if not all(isinstance(op, linear_operator.LinearOperator) for op in operators):
        raise TypeError(
            "Argument 'operators' must contain only LinearOperator instances. Found: %s" % operators
        )
    _static_check_for_same_dimensions(operators)
    _static_check_for_broadcastable_batch_shape(operators)
    with ops.name_scope(name or "add_operators"):
        for tier in addition_tiers:
            rest = list(operators)
            operators = []
            while rest:
                op1 = rest.pop()
                adder, op2 = _first_match(op1, rest, tier)
                if adder is None:
                    operators.append(op1)
                else:
                    rest.remove(op2)
                    rest.append(adder.add(op1, op2, operator_name))
        return operators


def _first_match(op1: Any, others: list[Any], adders: Any) -> tuple[Any, Any]:
    for adder in adders:
        for op2 in others:
            if adder.can_add(op1, op2):
                return adder, op2
    return None, None


def _static_check_for_same_dimensions(operators: list[Any]) -> None:
    if len(operators) < 2:
        return
    for what in ("domain", "range"):
        sizes = [
            (op.name, tensor_shape.dimension_value(getattr(op, what + "_dimension"))) for op in operators
        ]
        known = [pair for pair in sizes if pair[1] is not None]
        if len({size for _, size in known}) > 1:
            raise ValueError("Operators must have the same %s dimension. Found: %s" % (what, known))


def _static_check_for_broadcastable_batch_shape(operators: list[Any]) -> None:
    shape = operators[0].batch_shape
    for op in operators[1:]:
        shape = _broadcast_static_shape(shape, op.batch_shape)


def _broadcast_static_shape(a: Any, b: Any) -> Any:
    return array_ops.broadcast_static_shape(a, b)


class _Hints:
    """The known properties of a sum."""

    def __init__(
        self, is_non_singular: Any = None, is_positive_definite: Any = None, is_self_adjoint: Any = None
    ) -> None:
        self.is_non_singular = is_non_singular
        self.is_positive_definite = is_positive_definite
        self.is_self_adjoint = is_self_adjoint


class _Adder(metaclass=abc.ABCMeta):
    """Adds two operators of certain kinds."""

    @property
    def name(self) -> str:
        """The class's name."""
        return type(self).__name__

    @abc.abstractmethod
    def can_add(self, op1: Any, op2: Any) -> bool:
        """Whether these two can be added."""

    @abc.abstractmethod
    def _add(self, op1: Any, op2: Any, operator_name: Any, hints: _Hints) -> Any:
        """The sum."""

    def _get_hints(self, op1: Any, op2: Any) -> _Hints:
        """The sum of two positive operators is positive, and so on."""
        self_adjoint = op1.is_self_adjoint is True and op2.is_self_adjoint is True
        positive = op1.is_positive_definite is True and op2.is_positive_definite is True
        return _Hints(
            is_non_singular=True if positive and self_adjoint else None,
            is_self_adjoint=True if self_adjoint else None,
            is_positive_definite=True if positive else None,
        )

    def add(self, op1: Any, op2: Any, operator_name: Any, hints: Any = None) -> Any:
        """The sum; `hints` are derived if they are not given."""
        updated = self._get_hints(op1, op2)
        if operator_name is None:
            operator_name = "Add/" + op1.name + "__" + op2.name + "/"
        if hints is not None:
            for key in ("is_non_singular", "is_positive_definite", "is_self_adjoint"):
                if getattr(hints, key) is not None:
                    setattr(updated, key, getattr(hints, key))
        with ops.name_scope(operator_name):
            return self._add(op1, op2, operator_name, updated)

    def _arguments(self, operator_name: Any, hints: _Hints) -> dict[str, Any]:
        return {
            "is_non_singular": hints.is_non_singular,
            "is_self_adjoint": hints.is_self_adjoint,
            "is_positive_definite": hints.is_positive_definite,
            "name": operator_name,
        }


class _AddAndReturnScaledIdentity(_Adder):
    """Two (scaled) identities."""

    def can_add(self, op1: Any, op2: Any) -> bool:
        return {_type(op1), _type(op2)} <= {_SCALED_IDENTITY}

    def _add(self, op1: Any, op2: Any, operator_name: Any, hints: _Hints) -> Any:
        multiplier1, multiplier2 = (
            op.multiplier
            if isinstance(op, linear_operator_identity.LinearOperatorScaledIdentity)
            else array_ops.ones(op.batch_shape_tensor(), dtype=op.dtype)
            for op in (op1, op2)
        )
        return linear_operator_identity.LinearOperatorScaledIdentity(
            num_rows=op1.range_dimension_tensor(),
            multiplier=multiplier1 + multiplier2,
            **self._arguments(operator_name, hints),
        )


class _AddAndReturnDiag(_Adder):
    """Diagonals and (scaled) identities."""

    def can_add(self, op1: Any, op2: Any) -> bool:
        return {_type(op1), _type(op2)} <= {_SCALED_IDENTITY, _DIAG}

    def _add(self, op1: Any, op2: Any, operator_name: Any, hints: _Hints) -> Any:
        return linear_operator_diag.LinearOperatorDiag(
            diag=op1.diag_part() + op2.diag_part(), **self._arguments(operator_name, hints)
        )


class _AddAndReturnTriL(_Adder):
    """A lower triangular matrix, and another one or a diagonal or (scaled) identity."""

    def can_add(self, op1: Any, op2: Any) -> bool:
        types = {_type(op1), _type(op2)}
        return types <= {_SCALED_IDENTITY, _DIAG, _TRIL} and bool(types & {_TRIL})

    def _add(self, op1: Any, op2: Any, operator_name: Any, hints: _Hints) -> Any:
        simple, other = (op1, op2) if _type(op1) in _EFFICIENT_ADD_TO_TENSOR else (op2, op1)
        return linear_operator_lower_triangular.LinearOperatorLowerTriangular(
            tril=simple.add_to_tensor(other.to_dense()), **self._arguments(operator_name, hints)
        )


class _AddAndReturnMatrix(_Adder):
    """Any two operators of known kinds: the sum is a full matrix."""

    def can_add(self, op1: Any, op2: Any) -> bool:
        return isinstance(op1, linear_operator.LinearOperator) and isinstance(
            op2, linear_operator.LinearOperator
        )

    def _add(self, op1: Any, op2: Any, operator_name: Any, hints: _Hints) -> Any:
        simple, other = (op1, op2) if _type(op1) in _EFFICIENT_ADD_TO_TENSOR else (op2, op1)
        return linear_operator_full_matrix.LinearOperatorFullMatrix(
            matrix=simple.add_to_tensor(other.to_dense()), **self._arguments(operator_name, hints)
        )


def _type(operator: Any) -> Any:
    """The kind of an operator; its class if it has no simple kind."""
    if isinstance(operator, linear_operator_diag.LinearOperatorDiag):
        return _DIAG
    if isinstance(operator, linear_operator_lower_triangular.LinearOperatorLowerTriangular):
        return _TRIL
    if isinstance(operator, linear_operator_full_matrix.LinearOperatorFullMatrix):
        return _MATRIX
    if isinstance(
        operator,
        (
            linear_operator_identity.LinearOperatorIdentity,
            linear_operator_identity.LinearOperatorScaledIdentity,
        ),
    ):
        return _SCALED_IDENTITY
    return type(operator)


# Sums that do not make matrices larger come first.
_DEFAULT_ADDITION_TIERS = [
    [_AddAndReturnScaledIdentity()],
    [_AddAndReturnDiag()],
    [_AddAndReturnTriL()],
    [_AddAndReturnMatrix()],
]
