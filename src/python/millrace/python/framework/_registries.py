# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Registries by the name of an op: gradients, shape functions, statistics."""
from __future__ import annotations

from typing import Any, Callable, Optional

from millrace.python.framework._gradient_registry import GradientRegistry, registration_place


class Registry:
    """Objects by name; each name once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._registry: dict[str, Any] = {}
        self._places: dict[str, str] = {}

    def register(self, candidate: Any, name: Optional[str] = None) -> None:
        name = name or str(candidate.__name__)
        if name in self._registry:
            raise KeyError(
                "Registering two %s with name '%s'! (Previous registration was in %s)"
                % (self._name, name, self._places[name])
            )
        self._registry[name] = candidate
        self._places[name] = registration_place()

    def list(self) -> Any:
        return self._registry.keys()

    def lookup(self, name: Any) -> Any:
        """The entry of `name`; LookupError if there is none."""
        key = name.decode() if isinstance(name, bytes) else name
        if key in self._registry:
            return self._registry[key]
        raise LookupError("%s registry has no entry for: %s" % (self._name, key))


_gradient_registry = GradientRegistry()
_shape_registry = Registry("shape functions")
_default_shape_function_registry = Registry("default shape functions")
_stats_registry = Registry("statistical functions")


class RegisterGradient:
    """Decorator: `function(op, *grads)` computes the gradient of ops of a type, instead of the engine's."""

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string")
        self._op_type = op_type

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        _gradient_registry.register(f, self._op_type)
        return f


def no_gradient(op_type: str) -> None:
    """Declares ops of a type as not differentiable."""
    if not isinstance(op_type, str):
        raise TypeError("op_type must be a string")
    _gradient_registry.register(None, op_type)


NotDifferentiable = NoGradient = no_gradient


def get_gradient_function(op: Any) -> Any:
    """The function that computes an operation's gradient, `function(op, *grads)`.

    None for operations without inputs and non-differentiable ones; LookupError if there is no gradient.
    """
    if not op.inputs:
        return None
    try:
        op_type = op.get_attr("_gradient_op_type")
    except ValueError:
        op_type = op.type
    name = op_type.decode() if isinstance(op_type, bytes) else op_type
    functions = getattr(op.graph, "_gradient_functions", None)
    if functions and name in functions:
        return functions[name]
    return _gradient_registry.lookup(name)


class RegisterShape:
    """Decorator without effect: the engine has the shape functions."""

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string")
        self._op_type = op_type

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return f


def set_shape_and_handle_data_for_outputs(op: Any) -> None:
    """Does nothing: the engine infers shapes when an operation is made."""


class OpStats:
    """A statistic of an operation: its name and its value."""

    def __init__(self, statistic_type: str, value: Any = None) -> None:
        self.statistic_type = statistic_type
        self.value = value

    @property
    def statistic_type(self) -> str:
        return self._statistic_type

    @statistic_type.setter
    def statistic_type(self, statistic_type: str) -> None:
        self._statistic_type = statistic_type

    @property
    def value(self) -> Any:
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        self._value = value

    def __iadd__(self, other: OpStats) -> OpStats:
        if other.statistic_type != self.statistic_type:
            raise ValueError(
                "Can't add an OpStat of type %s to one of %s." % (self.statistic_type, other.statistic_type)
            )
        if self.value is None:
            self.value = other.value
        elif other.value is not None:
            self._value += other.value
        return self


class RegisterStatistics:
    """Decorator: `function(graph, node)` computes a statistic of ops of a type."""

    def __init__(self, op_type: str, statistic_type: str) -> None:
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string.")
        if "," in op_type:
            raise TypeError("op_type must not contain a comma.")
        self._op_type = op_type
        if not isinstance(statistic_type, str):
            raise TypeError("statistic_type must be a string.")
        if "," in statistic_type:
            raise TypeError("statistic_type must not contain a comma.")
        self._statistic_type = statistic_type

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        _stats_registry.register(f, self._op_type + "," + self._statistic_type)
        return f


def get_stats_for_node_def(graph: Any, node: Any, statistic_type: str) -> OpStats:
    """The statistic of a node; without a value when none is registered."""
    try:
        function = _stats_registry.lookup(node.op + "," + statistic_type)
        return function(graph, node)
    except LookupError:
        return OpStats(statistic_type)
