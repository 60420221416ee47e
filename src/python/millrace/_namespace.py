# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The public names: modules `millrace`, `millrace.nn`, ... give each name when it is asked for.

The table `_public_names.txt` has a row for each: "nn.relu millrace.python.ops.gen_nn_ops relu".
"""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from typing import Any

_ROOT = "millrace"
# public module -> {name: "module symbol" or None for a module of public names}
_modules: dict[str, dict[str, str | None]] = {}


def _load() -> None:
    path = os.path.join(os.path.dirname(__file__), "_public_names.txt")
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("#"):
                continue
            public, _, home = line.rstrip("\n").partition(" ")
            module, _, name = public.rpartition(".")
            _add_module(module)
            _modules[module][name] = home


def _add_module(module: str) -> None:
    if module in _modules:
        return
    _modules[module] = {}
    if module:
        parent, _, name = module.rpartition(".")
        _add_module(parent)
        _modules[parent].setdefault(name, None)


_load()


def _split(name: str) -> str:
    """The names of compat.v1 are those of the root."""
    for prefix in ("compat.v1.", "compat.v1"):
        if name.startswith(prefix):
            return name[len(prefix) :]
    return name


def resolve(module: str, name: str) -> Any:
    """The object of a public name; AttributeError when there is none."""
    table = _modules.get(_split(module) if module.startswith("compat.v1") else module, {})
    if name not in table:
        if module == "compat" and name in ("v1", "v2"):
            return importlib.import_module("millrace.compat.v1")
        raise AttributeError("module %r has no attribute %r" % (".".join(filter(None, ["tensorflow", module])), name))
    home = table[name]
    if home is None:
        return importlib.import_module(".".join(filter(None, [_ROOT, module, name])))
    home_module, _, symbol = home.partition(" ")
    found: Any = importlib.import_module(home_module)
    for part in symbol.split(".") if symbol else ():
        try:
            found = getattr(found, part)
        except AttributeError:
            raise AttributeError(
                "module %r has no attribute %r yet: %s is missing in %s"
                % (".".join(filter(None, ["tensorflow", module])), name, symbol, home_module)
            ) from None
    return found


def install(module_name: str, public: str) -> None:
    """Makes a module give the public names of `public`."""
    module = sys.modules[module_name]
    table = _modules.get(_split(public) if public.startswith("compat.v1") else public, {})

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            if name == "__all__":
                return sorted(n for n in table if not n.startswith("_"))
            raise AttributeError(name)
        if not public and name == "contrib":
            return importlib.import_module("millrace.contrib")
        value = resolve(public, name)
        setattr(module, name, value)
        return value

    module.__getattr__ = __getattr__  # type: ignore[method-assign]
    module.__dir__ = lambda: sorted(set(table) | set(module.__dict__))  # type: ignore[method-assign]


class _Loader(importlib.abc.Loader):
    """Makes a module of public names."""

    def __init__(self, public: str) -> None:
        self._public = public

    def create_module(self, spec: Any) -> Any:
        module = types.ModuleType(spec.name)
        module.__path__ = []  # modules of public names may have others in them
        return module

    def exec_module(self, module: Any) -> None:
        install(module.__name__, self._public)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules of public names that have no file."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if not fullname.startswith(_ROOT + "."):
            return None
        public = fullname[len(_ROOT) + 1 :]
        if public.startswith(("python", "core")):
            return None
        key = _split(public) if public.startswith("compat.v1") else public
        if key not in _modules and public not in ("compat", "compat.v1"):
            return None
        return importlib.machinery.ModuleSpec(fullname, _Loader(public), is_package=True)


sys.meta_path.append(_Finder())
