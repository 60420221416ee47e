# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Hints of results of operations on linear operators."""
from __future__ import annotations

from typing import Any


def combined_commuting_self_adjoint_hint(operator_a: Any, operator_b: Any) -> Any:
    """Whether the product of two operators that commute is its own adjoint."""
    if operator_a.is_self_adjoint is True and operator_b.is_self_adjoint is True:
        return True
    if (operator_a.is_self_adjoint is True and operator_b.is_self_adjoint is False) or (
        operator_a.is_self_adjoint is False and operator_b.is_self_adjoint is True
    ):
        return False
    return None


def is_square(operator_a: Any, operator_b: Any) -> Any:
    """Whether the product is square."""
    if operator_a.is_square and operator_b.is_square:
        return True
    if (operator_a.is_square is False and operator_b.is_square is True) or (
        operator_a.is_square is True and operator_b.is_square is False
    ):
        return False
    if operator_a.domain_dimension is not None and operator_b.range_dimension is not None:
        m, n = operator_a.range_dimension, operator_b.domain_dimension
        if m.value is not None and n.value is not None:
            return m == n
    return None


def combined_commuting_positive_definite_hint(operator_a: Any, operator_b: Any) -> Any:
    """Whether the product of two operators that commute is positive definite."""
    if operator_a.is_positive_definite is True and operator_b.is_positive_definite is True:
        return True
    return None


def combined_non_singular_hint(operator_a: Any, operator_b: Any) -> Any:
    """Whether the product can be inverted: when both can."""
    if operator_a.is_non_singular is False or operator_b.is_non_singular is False:
        return False
    return operator_a.is_non_singular and operator_b.is_non_singular
