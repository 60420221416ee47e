# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Modules of the parts of TensorFlow that are not implemented: they can be imported; their use raises an error.

A program that imports `tensorflow.python.keras.layers`, among other modules, runs until it uses the module.
"""
from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
import types
from typing import Any

_PREFIX = "millrace.python."
# Packages below millrace.python, and the closest alternatives.
_ABSENT = {
    "autograph": "tf.cond and tf.while_loop",
    "compiler": "tf.ConfigProto",
    "debug": "tf_debug.LocalCLIDebugWrapperSession and tf_debug.DumpingDebugWrapperSession",
    "distribute": "tf.train.replica_device_setter and tf.train.SyncReplicasOptimizer",
    "estimator": "tf.train.MonitoredTrainingSession",
    "feature_column": "tf.io.parse_example and tf.nn.embedding_lookup_sparse",
    "keras": "tf.layers, tf.losses, tf.metrics and tf.train",
    "lite": "tf.graph_util",
    "ops.distributions": "tf.random",
    "ops.ragged": "tf.SparseTensor",
    "profiler": "tf.RunMetadata",
    "tpu": "tf.device",
}


class _Missing(type):
    """The class of names that are not implemented: such a name may be a base class, calls of it are errors."""

    _text = ""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(cls._text)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotImplementedError(cls._text)


def _package_of(name: str) -> str | None:
    for package in _ABSENT:
        if name == package or name.startswith(package + "."):
            return package
    return None


def _missing(module: str, name: str) -> Any:
    shown = "tensorflow.python.%s.%s" % (module, name)
    package = _package_of(module) or ""
    text = "%s: Millrace does not implement tensorflow.python.%s. Use %s instead" % (
        shown, package, _ABSENT[package],
    )  # fmt: skip
    return _Missing(name, (), {"_text": text, "__doc__": text, "__module__": _PREFIX + module})


class _Loader(importlib.abc.Loader):
    """Makes a module whose names are all missing."""

    def create_module(self, spec: Any) -> Any:
        module = types.ModuleType(spec.name, "Not implemented.")
        module.__path__ = []
        return module

    def exec_module(self, module: Any) -> None:
        below = module.__name__[len(_PREFIX) :]

        def __getattr__(name: str) -> Any:
            if (
                name.startswith("__")
                or name[:1].islower()
                and name not in _FUNCTIONS
                and _may_be_module(name)
            ):
                raise AttributeError("module %r has no attribute %r" % (module.__name__, name))
            return _missing(below, name)

        module.__getattr__ = __getattr__  # type: ignore[method-assign]


# Names in lower case that programs call, not import as modules.
_FUNCTIONS = frozenset(("constant", "enable_v1_layers", "placeholder"))


def _may_be_module(name: str) -> bool:
    """Within an import of names from a package the import system looks for a module after this."""
    frame = sys._getframe(2)
    return frame.f_code.co_name == "_handle_fromlist" or "importlib" in frame.f_code.co_filename


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that are not implemented, and have no file."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if not fullname.startswith(_PREFIX):
            return None
        below = fullname[len(_PREFIX) :]
        if _package_of(below) is None:
            return None
        base = os.path.join(os.path.dirname(__file__), "python", *below.split("."))
        if os.path.exists(base + ".py") or os.path.isdir(base):
            return None
        return importlib.machinery.ModuleSpec(fullname, _Loader(), is_package=True)


sys.meta_path.append(_Finder())
