# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions of graphs out of code that makes variables."""
from __future__ import annotations

from typing import Any

from millrace.python.eager import function
from millrace.python.framework import func_graph


def wrap_function(fn: Any, signature: Any, name: Any = None) -> function.ConcreteFunction:
    """The function of a Python function for arguments of these TensorSpecs.

    Args:
      fn: the Python function.
      signature: TensorSpecs of its arguments.
      name: of the function.
    """
    name = name or getattr(fn, "__name__", "wrapped_function")
    graph = func_graph.func_graph_from_py_func(name, fn, tuple(signature), {}, add_control_dependencies=False)
    return function.ConcreteFunction(graph, signature=signature)
