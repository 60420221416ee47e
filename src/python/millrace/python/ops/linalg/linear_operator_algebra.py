# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Operations on linear operators by their classes: adjoint, Cholesky factor, inverse, product and solution."""
from __future__ import annotations

import itertools
from typing import Any, Callable, Optional

from millrace.python.framework import ops
from millrace.python.util import tf_inspect

_ADJOINTS: dict[Any, Any] = {}
_CHOLESKY_DECOMPS: dict[Any, Any] = {}
_INVERSES: dict[Any, Any] = {}
_MATMUL: dict[Any, Any] = {}
_SOLVE: dict[Any, Any] = {}


def _registered_function(type_list: list[Any], registry: dict[Any, Any]) -> Any:
    """The function for the nearest base classes, or None."""
    _load_registrations()
    enumerated = [enumerate(tf_inspect.getmro(t)) for t in type_list]
    best, found = None, None
    for combination in itertools.product(*enumerated):
        distance = sum(order for order, _ in combination)
        function = registry.get(tuple(cls for _, cls in combination))
        if function is not None and (best is None or distance < best):
            best, found = distance, function
    return found


def _registered_adjoint(type_a: Any) -> Any:
    return _registered_function([type_a], _ADJOINTS)


def _registered_cholesky(type_a: Any) -> Any:
    return _registered_function([type_a], _CHOLESKY_DECOMPS)


def _registered_inverse(type_a: Any) -> Any:
    return _registered_function([type_a], _INVERSES)


def _registered_matmul(type_a: Any, type_b: Any) -> Any:
    return _registered_function([type_a, type_b], _MATMUL)


def _registered_solve(type_a: Any, type_b: Any) -> Any:
    return _registered_function([type_a, type_b], _SOLVE)


def _load_registrations() -> None:
    """Registers the classes of the package at the first operation."""
    from millrace.python.ops.linalg import registrations  # noqa: F401


def _need(function: Any, what: str, *operators: Any) -> Any:
    if function is None:
        raise ValueError("No %s registered for %s" % (what, ".".join(str(type(o)) for o in operators)))
    return function


def adjoint(lin_op_a: Any, name: Optional[str] = None) -> Any:
    """Returns the adjoint operator."""
    function = _need(_registered_adjoint(type(lin_op_a)), "adjoint", lin_op_a)
    with ops.name_scope(name, "Adjoint"):
        return function(lin_op_a)


def cholesky(lin_op_a: Any, name: Optional[str] = None) -> Any:
    """Returns the Cholesky factor as an operator."""
    function = _need(_registered_cholesky(type(lin_op_a)), "cholesky decomposition", lin_op_a)
    with ops.name_scope(name, "Cholesky"):
        return function(lin_op_a)


def inverse(lin_op_a: Any, name: Optional[str] = None) -> Any:
    """Returns the inverse operator."""
    function = _need(_registered_inverse(type(lin_op_a)), "inverse", lin_op_a)
    with ops.name_scope(name, "Inverse"):
        return function(lin_op_a)


def matmul(lin_op_a: Any, lin_op_b: Any, name: Optional[str] = None) -> Any:
    """Returns the product of two operators."""
    function = _need(_registered_matmul(type(lin_op_a), type(lin_op_b)), "matmul", lin_op_a, lin_op_b)
    with ops.name_scope(name, "Matmul"):
        return function(lin_op_a, lin_op_b)


def solve(lin_op_a: Any, lin_op_b: Any, name: Optional[str] = None) -> Any:
    """Returns the operator X of A X = B."""
    function = _need(_registered_solve(type(lin_op_a), type(lin_op_b)), "solve", lin_op_a, lin_op_b)
    with ops.name_scope(name, "Solve"):
        return function(lin_op_a, lin_op_b)


class _Register:
    """A decorator that registers a function for classes; ValueError if one is registered already."""

    _registry: dict[Any, Any]
    _what: str

    def __init__(self, *classes: Any) -> None:
        self._key = tuple(classes)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(function):
            raise TypeError("%s_fn must be callable, received: %s" % (self._what, function))
        if self._key in self._registry:
            raise ValueError(
                "%s(%s) has already been registered."
                % (self._what.capitalize(), ", ".join(c.__name__ for c in self._key))
            )
        self._registry[self._key] = function
        return function


class RegisterAdjoint(_Register):
    """Registers the adjoint of a class."""

    _registry, _what = _ADJOINTS, "adjoint"


class RegisterCholesky(_Register):
    """Registers the Cholesky factor of a class."""

    _registry, _what = _CHOLESKY_DECOMPS, "cholesky"


class RegisterInverse(_Register):
    """Registers the inverse of a class."""

    _registry, _what = _INVERSES, "inverse"


class RegisterMatmul(_Register):
    """Registers the product of two classes."""

    _registry, _what = _MATMUL, "matmul"


class RegisterSolve(_Register):
    """Registers the solution for two classes."""

    _registry, _what = _SOLVE, "solve"
