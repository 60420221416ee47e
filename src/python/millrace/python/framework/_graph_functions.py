# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The parts of Graph about functions and collections."""
from __future__ import annotations

import collections
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Iterator

if TYPE_CHECKING:  # members of the class of graphs that are defined elsewhere
    from millrace.python._engine import GraphBase as _Base
else:
    _Base = object


class GraphFunctions(_Base):
    """Base of Graph."""

    def _init_functions(self) -> None:
        self._functions: Any = collections.OrderedDict()

    # --- Functions

    def _get_function(self, name: Any) -> Any:
        return self._functions.get(_text(name), None)

    def _add_function(self, function: Any) -> None:
        """Adds a function to the graph: an object with `name`, `definition` and perhaps a gradient."""
        name = _text(function.name)
        if (
            getattr(function, "_grad_func", None) is not None
            and getattr(function, "_python_grad_func", None) is not None
        ):
            raise ValueError("Gradient defined twice for function %s" % name)
        gradient = getattr(function, "_grad_func", None)
        gradient_bytes = None
        if gradient is not None:
            gradient_bytes = gradient.definition.SerializeToString()
        self._copy_function(function.definition.SerializeToString(), gradient_bytes)
        self._functions[name] = function
        self._op_defs.pop(name, None)

    def _adopt_functions(self) -> None:
        """Registers functions that the engine has added to the library."""
        from millrace.core.framework import function_pb2
        from millrace.python.framework import _defined_function

        for data in self._function_defs():
            definition = function_pb2.FunctionDef.FromString(data)
            name = definition.signature.name
            if name not in self._functions:
                self._functions[name] = _defined_function._from_definition(definition)

    def _is_function(self, name: Any) -> bool:
        return _text(name) in self._functions

    # --- Collections

    def add_to_collection(self, name: Any, value: Any) -> None:
        """Adds a value to a collection; values may be repeated."""
        self._check_not_finalized()
        with self._lock:
            self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Any, value: Any) -> None:
        """Adds a value to each of several collections, named by a string or by something that can be iterated."""
        names = (names,) if isinstance(names, (str, bytes)) else set(names)
        for name in names:
            self.add_to_collection(name, value)

    def get_collection_ref(self, name: Any) -> list[Any]:
        """The list of a collection itself, which is made if there is none."""
        with self._lock:
            return self._collections.setdefault(name, [])

    def get_collection(self, name: Any, scope: Any = None) -> list[Any]:
        """A copy of a collection: items whose names `scope`, a regular expression, matches at their beginning."""
        import re

        with self._lock:
            collection = self._collections.get(name)
            if collection is None:
                return []
            if scope is None:
                return list(collection)
            regex = re.compile(scope)
            return [item for item in collection if hasattr(item, "name") and regex.match(item.name)]

    def get_all_collection_keys(self) -> list[Any]:
        """The names of the collections."""
        with self._lock:
            return [name for name in self._collections if isinstance(name, str)]

    @property
    def collections(self) -> list[Any]:
        """The names of the collections."""
        return list(self._collections)

    def clear_collection(self, name: Any) -> None:
        """Removes a collection."""
        self._check_not_finalized()
        with self._lock:
            self._collections.pop(name, None)

    @contextmanager
    def as_default(self) -> Iterator[Any]:
        """Makes this the default graph of the thread in the context."""
        from millrace.python.framework import ops

        with ops._default_graph_stack.get_controller(self) as graph:
            yield graph


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else name
