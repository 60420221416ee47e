# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The public names: modules `millrace`, `millrace.nn`, ... resolve each name when it is first used.

The table `_public_names.txt` has a row for each: "nn.relu millrace.python.ops.gen_nn_ops relu"; a row without
symbol is for a module. `_contrib_names.txt` has those of `contrib`, written by hand: "rnn.GRUCell
nn.rnn_cell.GRUCell". `_v2_names.txt` has those of `compat.v2` in the same form.
"""
from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import types
from typing import Any, Iterator

_ROOT = "millrace"
_V1 = "compat.v1"
_V2 = "compat.v2"
# Public module -> {name: "module symbol", or None for a module of public names}.
_modules: dict[str, dict[str, str | None]] = {}

# Names of TensorFlow 1.15 that this package does not implement, and the closest alternatives.
_ABSENT = {
    "keras": "tf.layers, tf.losses, tf.metrics and tf.train",
    "estimator": "tf.train.MonitoredTrainingSession",
    "feature_column": "tf.io.parse_example and tf.nn.embedding_lookup_sparse",
    "distribute": "tf.train.replica_device_setter and tf.train.SyncReplicasOptimizer",
    "autograph": "tf.cond and tf.while_loop",
    "lite": "tf.graph_util",
    "tpu": "tf.device",
    "xla": "tf.ConfigProto",
    "ragged": "tf.SparseTensor",
    "distributions": "tf.random",
    "profiler": "tf.RunMetadata",
}


def _rows(file_name: str) -> Iterator[tuple[str, str]]:
    path = os.path.join(os.path.dirname(__file__), file_name)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line[0] not in "#\n":
                    public, _, home = line.rstrip("\n").partition(" ")
                    yield public, home


def _add(public: str, home: str) -> None:
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


for _public, _home in _rows("_public_names.txt"):
    _add(_public, _home)
_add_module(_V1)
_add_module(_V2)
_add_module("raw_ops")
_RAW_OPS = ("raw_ops", _V1 + ".raw_ops", _V2 + ".raw_ops")


@functools.lru_cache(maxsize=None)
def _second_version() -> tuple[dict[str, dict[str, str | None]], frozenset[str]]:
    """The tables of compat.v2 by module below it, and the modules that have the names of version 1
    besides."""
    tables: dict[str, dict[str, str | None]] = {"": {}}
    whole = set()
    for public, home in _rows("_v2_names.txt"):
        module, _, name = public.rpartition(".")
        parts = module.split(".") if module else []
        for i, part in enumerate(parts):
            tables.setdefault(".".join(parts[: i + 1]), {})
            tables[".".join(parts[:i])].setdefault(part, None)
        if name == "*":
            whole.add(module)
        else:
            tables[module][name] = home
    return tables, frozenset(whole)


def _names_of_second_version(module: str) -> dict[str, str | None] | None:
    tables, whole = _second_version()
    parts = module.split(".")
    if any(".".join(parts[:i]) in whole for i in range(1, len(parts) + 1)):
        return {**(_names_of(module) or {}), **tables.get(module, {})}
    return tables.get(module)


def _names_of(module: str) -> dict[str, str | None] | None:
    """The names of a public module; those of compat.v1 are those of the root."""
    if module.startswith("contrib") and "contrib" not in _modules:
        _add_module("contrib")
        for public, home in _rows("_contrib_names.txt"):
            _add("contrib." + public, home)
    if module == _V2 or module.startswith(_V2 + "."):
        return _names_of_second_version(module[len(_V2) + 1 :])
    if module.startswith(_V1):
        rest = module[len(_V1) :]
        if not rest:
            return {**_modules[""], **_modules["compat"], **_modules[_V1]}
        if rest[0] == "." and rest[1:] != _V1:
            return _names_of(rest[1:])
    if module.startswith("contrib.") and module not in _modules:
        return _names_of_contrib_file(module)
    return _modules.get(module)


def _names_of_contrib_file(module: str) -> dict[str, str | None] | None:
    """The names of a module that defined a part of a package of tf.contrib: those of the package or of its part.

    `contrib.slim.python.slim.learning` has those of `contrib.slim.learning`, `contrib.rnn.python.ops.lstm_ops` those
    of `contrib.rnn`.
    """
    parts = module.split(".")
    package = ".".join(parts[:2])
    if package not in _modules or "nets" in parts:
        return None
    if parts[2] != "python" and module != "contrib.lookup.lookup_ops":
        return None
    for begin in range(3, len(parts)):
        part = "%s.%s" % (package, ".".join(parts[begin:]))
        if part in _modules:
            return _modules[part]
    return _modules[package]


def _shown(module: str, name: str = "") -> str:
    return ".".join(filter(None, ["tensorflow", module, name]))


def _missing(module: str, name: str) -> AttributeError:
    """The error for a missing name: what is missing, and what to use instead."""
    public = ".".join(filter(None, [module, name]))
    plain = public[len(_V1) + 1 :] if public.startswith((_V1 + ".", _V2 + ".")) else public
    if plain in _ABSENT:
        return AttributeError(
            "module %r has no attribute %r: Millrace does not implement tf.%s. Use %s instead"
            % (_shown(module), name, plain, _ABSENT[plain])
        )
    if public.startswith("contrib"):
        return _missing_contrib(module, name)
    return AttributeError("module %r has no attribute %r" % (_shown(module), name))


def _missing_contrib(module: str, name: str) -> AttributeError:
    import difflib

    by_last: dict[str, list[str]] = {}
    for where, table in _modules.items():
        if not where.startswith(("contrib", "raw_ops")):
            for symbol in table:
                by_last.setdefault(symbol.lower(), []).append("tf." + ".".join(filter(None, [where, symbol])))
    near: list[str] = []
    for key in difflib.get_close_matches(name.lower(), by_last, n=3, cutoff=0.6):
        near += sorted(by_last[key], key=lambda n: (n.rpartition(".")[2] != name, n.count("."), n))[:1]
    return AttributeError(
        "module %r has no attribute %r: Millrace implements only a part of tf.contrib. %s"
        % (
            _shown(module),
            name,
            "Similar names in core: " + ", ".join(near) if near else "Core has no similar name",
        )
    )


def _raw_op(name: str) -> Any:
    """The function of an op that takes its arguments by keyword only."""
    from millrace.python.ops import _op_index

    if name not in _op_index.OPS:
        return None
    module, symbol = _op_index.OPS[name]
    function = getattr(importlib.import_module("millrace.python.ops." + module), symbol)

    def raw_op(**kwargs: Any) -> Any:
        return function(**kwargs)

    raw_op.__name__ = raw_op.__qualname__ = name
    raw_op.__doc__ = function.__doc__
    raw_op.__signature__ = _keyword_only(function)  # type: ignore[attr-defined]
    return raw_op


def _keyword_only(function: Any) -> Any:
    import inspect

    signature = inspect.signature(function)
    kind = inspect.Parameter.KEYWORD_ONLY
    return signature.replace(parameters=[p.replace(kind=kind) for p in signature.parameters.values()])


def resolve(module: str, name: str) -> Any:
    """The object of a public name; AttributeError if there is none."""
    table = _names_of(module)
    if module in _RAW_OPS:
        found = _raw_op(name)
        if found is None:
            raise _missing(module, name)
        return found
    if not module and name == "contrib":
        return importlib.import_module(_ROOT + ".contrib")
    if table is None or name not in table:
        raise _missing(module, name)
    home = table[name]
    if home is None:
        return importlib.import_module(".".join(filter(None, [_ROOT, module, name])))
    home_module, _, symbol = home.partition(" ")
    own = tuple("%s.%s." % (_ROOT, folder) for folder in ("python", "core", "examples"))
    if module.startswith(("contrib", _V2)) and not home.startswith(own):
        outer, _, inner = home.rpartition(".")
        return resolve(outer, inner)
    found = importlib.import_module(home_module)
    for part in symbol.split(".") if symbol else ():
        try:
            found = getattr(found, part)
        except AttributeError:
            raise AttributeError(
                "module %r has no attribute %r yet: %s is missing in %s"
                % (_shown(module), name, symbol, home_module)
            ) from None
    return found


def install(module_name: str, public: str) -> None:
    """Makes a module resolve the public names of `public`."""
    module = sys.modules[module_name]

    def names() -> set[str]:
        if public in _RAW_OPS:
            from millrace.python.ops import _op_index

            return set(_op_index.OPS)
        return set(_names_of(public) or {})

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            if name == "__all__":
                return sorted(n for n in names() if not n.startswith("_"))
            raise AttributeError("module %r has no attribute %r" % (module_name, name))
        value = resolve(public, name)
        setattr(module, name, value)
        return value

    module.__getattr__ = __getattr__  # type: ignore[assignment, method-assign]
    module.__dir__ = lambda: sorted(names() | set(module.__dict__))  # type: ignore[assignment, method-assign]


class _Loader(importlib.abc.Loader):
    """Makes a module of public names."""

    def __init__(self, public: str) -> None:
        self._public = public

    def create_module(self, spec: Any) -> Any:
        module = types.ModuleType(spec.name, "The names of tf.%s." % self._public)
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
        if public.partition(".")[0] in ("python", "core", "stream_executor"):
            return None
        if _names_of(public) is None:
            parent, _, name = public.rpartition(".")
            if parent.startswith("contrib") and name not in (_names_of(parent) or {}):
                raise ModuleNotFoundError(str(_missing(parent, name)))
            home = (_names_of(parent) or {}).get(name)
            if home is None or " " in home or parent.startswith("contrib"):
                return None
            # A name of a module of the package, as tf.flags.
            return importlib.machinery.ModuleSpec(fullname, _ModuleAlias(home), is_package=True)
        return importlib.machinery.ModuleSpec(fullname, _Loader(public), is_package=True)


class _ModuleAlias(importlib.abc.Loader):
    """Loads an existing module under another name."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._spec: Any = None

    def create_module(self, spec: Any) -> Any:
        module = importlib.import_module(self._home)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: Any) -> None:
        module.__spec__ = self._spec


sys.meta_path.append(_Finder())
