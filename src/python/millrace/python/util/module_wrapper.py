# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Modules that load public names on first use and warn of deprecated ones."""
from __future__ import annotations

import importlib
import sys
import types
from typing import Any, Dict, Set

from millrace.python.platform import tf_logging
from millrace.tools.compatibility import all_renames_v2

_PER_MODULE_WARNING_LIMIT = 1


def _call_location() -> str:
    frame: Any = sys._getframe(3)
    return "%s:%d" % (frame.f_code.co_filename, frame.f_lineno)


def contains_deprecation_decorator(decorators: Any) -> bool:
    """Whether one of the decorators, as `tf_decorator.unwrap` returns them, is of `deprecation`."""
    return any(decorator.decorator_name == "deprecated" for decorator in decorators)


def has_deprecation_decorator(symbol: Any) -> bool:
    """Whether a function, or the constructor of a class, warns of its deprecation."""
    from millrace.python.util import tf_decorator

    if contains_deprecation_decorator(tf_decorator.unwrap(symbol)[0]):
        return True
    constructor = getattr(symbol, "__init__", None) if isinstance(symbol, type) else None
    return constructor is not None and contains_deprecation_decorator(tf_decorator.unwrap(constructor)[0])


class TFModuleWrapper(types.ModuleType):
    """A module with the names of another one that loads those of `public_apis` on first use.

    Args:
      wrapped: the module.
      module_name: its name in the API, below `tf.`.
      public_apis: for each public name the module that has it and its name there; an empty module name means that
        the name is itself a module.
      deprecation: whether a warning is logged for names that have another one in `all_renames_v2`.
    """

    def __init__(
        self,
        wrapped: Any,
        module_name: str,
        public_apis: Any = None,
        deprecation: bool = True,
        has_lite: bool = False,
    ) -> None:
        super().__init__(wrapped.__name__)
        self.__dict__.update(wrapped.__dict__)
        self._tfmw_wrapped_module = wrapped
        self._tfmw_module_name = module_name
        self._tfmw_public_apis: Dict[str, Any] = public_apis or {}
        self._tfmw_print_deprecation_warnings = deprecation
        self._tfmw_deprecated_checked: Set[str] = set()
        self._tfmw_warning_count = 0
        public = [name for name in wrapped.__dict__ if not name.startswith("_")]
        self.__all__ = list(getattr(wrapped, "__all__", None) or public) + [
            name for name in self._tfmw_public_apis if not name.startswith("_")
        ]

    def _tfmw_warn(self, name: str) -> None:
        if name in self._tfmw_deprecated_checked or name.startswith("_"):
            return
        full_name = "tf.%s.%s" % (self._tfmw_module_name, name) if self._tfmw_module_name else "tf." + name
        renamed = all_renames_v2.symbol_renames.get(full_name)
        self._tfmw_deprecated_checked.add(name)
        if renamed is None or has_deprecation_decorator(self.__dict__.get(name)):
            return
        tf_logging.warning(
            "From %s: The name %s is deprecated. Please use %s instead.\n",
            _call_location(),
            full_name,
            renamed,
        )

    def __getattribute__(self, name: str) -> Any:
        own = super().__getattribute__
        if name.startswith("_") or "_tfmw_deprecated_checked" not in own("__dict__"):
            return own(name)
        value = own(name)
        if own("_tfmw_print_deprecation_warnings"):
            own("_tfmw_warn")(name)
        return value

    def __getattr__(self, name: str) -> Any:
        public = self.__dict__.get("_tfmw_public_apis", {})
        if name not in public:
            raise AttributeError("module '%s' has no attribute '%s'" % (self.__name__, name))
        module, symbol = public[name]
        loaded = importlib.import_module(module or symbol)
        value = getattr(loaded, symbol) if module else loaded
        setattr(self._tfmw_wrapped_module, name, value)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name.startswith(("_tfmw_", "__")):
            return
        setattr(self._tfmw_wrapped_module, name, value)
        if name not in self.__all__ and not name.startswith("_"):
            self.__all__.append(name)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        if hasattr(self._tfmw_wrapped_module, name):
            delattr(self._tfmw_wrapped_module, name)

    def __dir__(self) -> Any:
        return sorted(set(dir(self._tfmw_wrapped_module)) | set(self._tfmw_public_apis))

    def __repr__(self) -> str:
        return repr(self._tfmw_wrapped_module)

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)
