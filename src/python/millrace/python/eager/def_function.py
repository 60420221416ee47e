# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.function in graphs."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

from millrace.python.eager import function as function_lib
from millrace.python.framework import func_graph, ops
from millrace.python.util import tf_decorator

RUN_FUNCTIONS_EAGERLY = False


def _refuse_variable(next_creator: Any, **kwargs: Any) -> Any:
    raise ValueError("tf.function-decorated function tried to create variables on non-first call.")


@contextmanager
def _creators(creator: Any) -> Iterator[None]:
    """A context in which graphs of functions make variables by a creator."""
    func_graph.CREATORS.append(creator)
    try:
        yield
    finally:
        func_graph.CREATORS.pop()


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Sets whether tf.functions run as plain Python, without tracing, for debugging."""
    global RUN_FUNCTIONS_EAGERLY
    RUN_FUNCTIONS_EAGERLY = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    return RUN_FUNCTIONS_EAGERLY


class Function(function_lib.Function):
    """The result of tf.function.

    Variables may be created in the first call only, outside of the body. Later calls, and the second trace of
    the first call, must not create any.
    """

    _has_variables = False

    def _trace(self, args: Any, kwargs: Any) -> Any:
        if not ops.executing_eagerly_outside_functions():
            return super()._trace(args, kwargs)
        if self._has_variables or self._cache:
            with _creators(_refuse_variable):
                return super()._trace(args, kwargs)
        created: list[Any] = []

        def note(next_creator: Any, **kwargs: Any) -> Any:
            created.append(next_creator(**kwargs))
            return created[-1]

        with _creators(note):
            found = super()._trace(args, kwargs)
        if created:
            self._has_variables = True
            with _creators(_refuse_variable):
                found = super()._trace(args, kwargs)
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if RUN_FUNCTIONS_EAGERLY:
            return self._python_function(*args, **kwargs)
        return super().__call__(*args, **kwargs)


def function(
    func: Any = None, input_signature: Any = None, autograph: bool = True, experimental_autograph_options: Any = None,
    experimental_relax_shapes: bool = False, experimental_compile: Any = None,
) -> Any:  # fmt: skip
    """Decorator: calls of the Python function call a function of the graph's library.

    The Python function is called once for each combination of types and shapes of tensors and of other arguments, and
    adds the operations of the body. Python's `if` and `while` on tensors are not translated: use `tf.cond` and
    `tf.while_loop`. Variables that it creates belong to the surrounding graph.

    Args:
      func: the function; without it the result is a decorator.
      input_signature: TensorSpecs of the arguments: then there is one body.
      autograph, experimental_autograph_options, experimental_relax_shapes, experimental_compile: without effect.
    """
    del autograph, experimental_autograph_options, experimental_relax_shapes, experimental_compile
    if input_signature is not None:
        function_lib.validate_signature(input_signature)

    def decorated(inner_function: Any) -> Any:
        name = getattr(inner_function, "__name__", "function")
        name = "lambda" if name == "<lambda>" else name
        return tf_decorator.make_decorator(inner_function, Function(inner_function, name, input_signature))

    return decorated if func is None else decorated(func)
