# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.Module: objects that own variables."""
from __future__ import annotations

import re
from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import variables
from millrace.python.training.tracking import tracking
from millrace.python.util import tf_decorator

_VALID_IDENTIFIER = re.compile(r"^[a-zA-Z_]([a-zA-Z0-9_])*$")


def camel_to_snake(value: str) -> str:
    """ "MyModule" -> "my_module"."""
    value = re.sub(r"((?<=[a-z0-9])[A-Z]|(?!^)[A-Z](?=[a-z]))", r"_\1", value)
    return value.lower()


class Module(tracking.AutoTrackable):
    """A named object that finds the variables and modules among its attributes."""

    _TF_MODULE_IGNORED_PROPERTIES = frozenset(
        ("_unconditional_checkpoint_dependencies", "_unconditional_dependency_names")
    )

    def __init__(self, name: Any = None) -> None:
        """Names the module; ValueError if that is not an identifier."""
        if name is None:
            name = camel_to_snake(type(self).__name__)
        elif not _VALID_IDENTIFIER.match(name):
            raise ValueError(
                "%r is not a valid module name. Module names must be valid Python identifiers (e.g. a valid class name)."
                % name
            )
        self._name = name
        with ops.name_scope(name) as scope:
            self._scope_name = scope

    @property
    def name(self) -> str:
        """The name of the module."""
        return self._name

    @property
    def name_scope(self) -> Any:
        """A name scope of the module."""
        return ops.name_scope(self._scope_name)

    @property
    def variables(self) -> tuple[Any, ...]:
        """The variables of this and of inner modules, each once."""
        return tuple(self._flatten(predicate=_is_variable))

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        """Those of them that are trainable."""
        return tuple(self._flatten(predicate=lambda o: _is_variable(o) and getattr(o, "trainable", False)))

    @property
    def submodules(self) -> tuple[Any, ...]:
        """All inner modules."""
        return tuple(self._flatten(predicate=lambda o: isinstance(o, Module)))

    def _flatten(
        self,
        recursive: bool = True,
        predicate: Any = None,
        attribute_traversal_key: Any = None,
        with_path: bool = False,
    ) -> Any:
        """Objects among the attributes that satisfy a predicate, in the order of the attributes' names.

        Those of a module itself come before those of its inner modules.
        """
        seen: set[int] = {id(self)}

        def walk(value: Any, path: tuple[Any, ...], inner: list[Any]) -> Any:
            if isinstance(value, dict):
                for key in sorted(value, key=str):
                    yield from walk(value[key], path + (key,), inner)
                return
            if isinstance(value, (list, tuple)):
                for i, item in enumerate(value):
                    yield from walk(item, path + (i,), inner)
                return
            if id(value) in seen:
                return
            if predicate is None or predicate(value):
                seen.add(id(value))
                yield (path, value) if with_path else value
            if recursive and isinstance(value, Module):
                seen.add(id(value))
                inner.append((value, path))

        def members(module: Any, path: tuple[Any, ...]) -> Any:
            attributes = dict(vars(module))
            inner: list[Any] = []
            for key in sorted(attributes, key=attribute_traversal_key):
                if key not in module._TF_MODULE_IGNORED_PROPERTIES and not key.startswith("_self_"):
                    yield from walk(attributes[key], path + (key,), inner)
            for value, value_path in inner:
                yield from members(value, value_path)

        yield from members(self, ())

    @classmethod
    def with_name_scope(cls, method: Any) -> Any:
        """Decorator: a method runs in the name scope of its module."""

        def method_with_name_scope(self: Any, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        return tf_decorator.make_decorator(method, method_with_name_scope)


def _is_variable(obj: Any) -> bool:
    return isinstance(obj, variables.Variable)
