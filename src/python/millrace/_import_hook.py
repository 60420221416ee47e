# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Makes `tensorflow.anything` mean `millrace.anything`: the same objects.

Only the module `tensorflow` itself is another one than `millrace`, because its `__version__` is another.
"""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from typing import Any

_NAME = "tensorflow"


class _Root(importlib.abc.Loader):
    """Makes the module `tensorflow`."""

    def create_module(self, spec: Any) -> Any:
        import millrace

        module = types.ModuleType(_NAME, millrace.__doc__)
        module.__file__ = millrace.__file__
        module.__path__ = list(millrace.__path__)
        return module

    def exec_module(self, module: Any) -> None:
        import millrace
        from millrace.python.framework import versions

        module.__version__ = versions.VERSION
        for name in ("__git_version__", "__compiler_version__", "__cxx11_abi_flag__", "__monolithic_build__"):
            setattr(module, name, getattr(versions, name))

        def __getattr__(name: str) -> Any:
            value = getattr(millrace, name)
            if name != "__all__":
                setattr(module, name, value)
            return value

        module.__getattr__ = __getattr__
        module.__dir__ = lambda: sorted(set(dir(millrace)) | set(module.__dict__))


class _Alias(importlib.abc.Loader):
    """Loads an existing module under another name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: Any = None

    def create_module(self, spec: Any) -> Any:
        module = importlib.import_module(self._name)
        self._spec = getattr(module, "__spec__", None)
        return module

    def exec_module(self, module: Any) -> None:
        # The import system has set the spec of the alias: the module keeps its own.
        if self._spec is not None:
            module.__spec__ = self._spec


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname == _NAME:
            return importlib.machinery.ModuleSpec(fullname, _Root(), is_package=True)
        if not fullname.startswith(_NAME + "."):
            return None
        name = "millrace" + fullname[len(_NAME) :]
        if importlib.util.find_spec(name) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Alias(name), is_package=True)


def install() -> None:
    """Gives the name `tensorflow` to Millrace in this process."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
