# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.function in graphs."""
from __future__ import annotations

from typing import Any

from millrace.python.eager import function as function_lib

RUN_FUNCTIONS_EAGERLY = False
Function = function_lib.Function


def run_functions_eagerly(run_eagerly: bool) -> None:
    """With True, functions are called as they are, without functions of the graph."""
    global RUN_FUNCTIONS_EAGERLY
    RUN_FUNCTIONS_EAGERLY = bool(run_eagerly)


class _Function(function_lib.Function):
    """A function that is traced, or called as it is where `run_functions_eagerly` says so."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if RUN_FUNCTIONS_EAGERLY:
            return self._python_function(*args, **kwargs)
        return super().__call__(*args, **kwargs)


def function(
    func: Any = None, input_signature: Any = None, autograph: bool = True, experimental_autograph_options: Any = None,
    experimental_relax_shapes: bool = False, experimental_compile: Any = None,
) -> Any:  # fmt: skip
    """Decorator: calls of the function add one operation that calls a function of the graph's library.

    Args:
      func: the function; None: a decorator is given.
      input_signature: TensorSpecs of the arguments; None: each kind of arguments gets a function of its own.
      autograph: accepted; Python's control flow runs while the function is traced.
      experimental_autograph_options, experimental_relax_shapes, experimental_compile: accepted, without effect.
    """
    if input_signature is not None:
        function_lib.validate_signature(input_signature)

    def decorated(inner: Any) -> Any:
        return _Function(inner, getattr(inner, "__name__", "function"), input_signature)

    return decorated(func) if func is not None else decorated
