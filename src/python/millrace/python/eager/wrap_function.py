# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Python functions as functions of the graph's library, with a given signature."""
from __future__ import annotations

from typing import Any

from millrace.python.eager import function
from millrace.python.framework import func_graph


def wrap_function(fn: Any, signature: Any, name: Any = None) -> Any:
    """The ConcreteFunction of `fn` for TensorSpecs `signature`."""
    graph = func_graph.func_graph_from_py_func(name or getattr(fn, "__name__", "wrapped"), fn, signature, {})
    return function.ConcreteFunction(graph)
