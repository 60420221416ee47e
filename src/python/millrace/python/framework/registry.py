# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A registry of objects by name."""
from __future__ import annotations

import traceback
from typing import Any

_LOCATION_TAG = "location"
_TYPE_TAG = "type"


class Registry:
    """A table in which each name is entered once."""

    def __init__(self, name: str) -> None:
        """`name` is used in errors."""
        self._name = name
        self._registry: dict[Any, Any] = {}

    def register(self, candidate: Any, name: Any = None) -> None:
        """Enters `candidate` under `name` or its own name.

        Raises:
          KeyError: if the name is taken.
        """
        name = name or candidate.__name__
        if name in self._registry:
            frame = self._registry[name][_LOCATION_TAG]
            raise KeyError(
                "Registering two %s with name '%s'! (Previous registration was in %s %s:%d)"
                % (self._name, name, frame.name, frame.filename, frame.lineno)
            )
        stack = traceback.extract_stack(limit=3)
        self._registry[name] = {
            _TYPE_TAG: candidate,
            _LOCATION_TAG: stack[-2] if len(stack) > 1 else stack[-1],
        }

    def list(self) -> Any:
        """The names."""
        return self._registry.keys()

    def lookup(self, name: Any) -> Any:
        """The registered entry; LookupError if there is none."""
        name = name.decode() if isinstance(name, bytes) else name
        if name in self._registry:
            return self._registry[name][_TYPE_TAG]
        raise LookupError("%s registry has no entry for: %s" % (self._name, name))
