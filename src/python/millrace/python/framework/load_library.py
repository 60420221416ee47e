# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Loads libraries of ops and kernels."""
from __future__ import annotations

import errno
import glob
import os
import sys
import types
from typing import Any

from millrace.python import _engine
from millrace.python.framework import _op_specs, op_def_library, op_def_registry
from millrace.python.framework._op_functions import OpFunction


def _function_of(op_def: Any, tools: Any) -> Any:
    spec = _op_specs.spec_of_op_def(op_def)
    required = [
        a.name for a in op_def.attr if a.name not in spec.inferred and not a.HasField("default_value")
    ]
    optional = [a.name for a in op_def.attr if a.name not in spec.inferred and a.HasField("default_value")]
    names = [arg.name for arg in spec.inputs] + required + optional + ["name"]

    result_type = OpFunction.of_spec(spec, []).result_type

    def function(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(names):
            raise TypeError(
                "%s() takes at most %d arguments, %d were given" % (op_def.name, len(names), len(args))
            )
        values = dict(zip(names, args))
        values.update(kwargs)
        values = {k: v for k, v in values.items() if v is not None or k not in optional}
        if _engine.executing_eagerly():
            given = [name for name in required + optional if name in values]
            inputs = [values.get(arg.name) for arg in spec.inputs]
            execute = OpFunction.of_spec(spec, given).slow_eager
            return execute(*inputs, *[values[name] for name in given], values.get("name"))
        result = op_def_library.apply_op(op_def.name, **values)
        return result if result_type is None else result_type._make(result)

    function.__name__ = tools(op_def.name)
    function.__doc__ = op_def.summary or "The op %s, with the arguments %s." % (op_def.name, ", ".join(names))
    return function


def snake_case(name: str) -> str:
    """ "ZeroOut" -> "zero_out"."""
    result = ""
    for i, c in enumerate(name):
        if c.isupper() and i > 0 and (name[i - 1].islower() or name[i + 1 : i + 2].islower()):
            result += "_"
        result += c.lower()
    return result


def load_op_library(library_filename: Any) -> Any:
    """Loads a library of ops; returns a module with a function for each.

    Raises:
      NotFoundError, or another error of the engine: if it cannot be loaded.
    """
    from millrace.core.framework import op_def_pb2

    op_list = op_def_pb2.OpList.FromString(_engine.load_library(os.fspath(library_filename)))
    module = types.ModuleType("millrace_op_library_%x" % (hash(str(library_filename)) & 0xFFFFFFFF))
    for op_def in op_list.op:
        _op_specs._ALL.pop(op_def.name, None)
        op_def_registry.get_registered_ops().setdefault(op_def.name, op_def)
        setattr(module, snake_case(op_def.name), _function_of(op_def, snake_case))
    module.OP_LIST = op_list  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    return module


def load_file_system_library(library_filename: Any) -> None:
    """Loads a library that adds file systems."""
    _engine.load_library(os.fspath(library_filename))


def load_library(library_location: Any) -> None:
    """Loads a library, or all libraries of a folder, for their kernels."""
    if os.path.isfile(library_location):
        libraries = [library_location]
    elif os.path.isdir(library_location):
        libraries = sorted(glob.glob(os.path.join(library_location, "*.so")))
        if not libraries:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), library_location)
    else:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), library_location)
    for library in libraries:
        _engine.load_library(library)
