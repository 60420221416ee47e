# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions: parts of graphs that operations call by name."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import dtypes, ops
from millrace.python.framework._defined_function import (  # noqa: F401
    _DefinedFunction,
    _FuncGraph,
    _from_definition,
    _from_library,
    _get_func_name,
    _OverloadedFunction,
    _parse_kwargs_as_attrs,
    _type_list_to_str,
    call_function,
    function_def_from_tf_function,
    get_extra_args,
    get_extra_inputs,
    get_extra_vars,
)
from millrace.python.util import tf_inspect

_call = call_function


class Defun:
    """Decorator: makes a function of the graph's library from a Python function of tensors.

    Calls of the result add one operation. Its body is made when it is first needed; tensors of the surrounding graph
    that it uses become further arguments.

    Args:
      *input_types: the types of the arguments; without them, a definition is made for each combination of
        types in calls.
      **kwargs: func_name: its name; grad_func: a function with its gradient; python_grad_func: a Python function
        (op, *grads) that makes it; out_names: names of the results; shape_func: a Python function of the operation that
        returns the shapes of the results; noinline, and other attributes of the function.
    """

    def __init__(self, *input_types: Any, **kwargs: Any) -> None:
        self._input_types = input_types
        self._func_name = kwargs.pop("func_name", None)
        self._grad_func = kwargs.pop("grad_func", None)
        self._python_grad_func = kwargs.pop("python_grad_func", None)
        self._out_names = kwargs.pop("out_names", None)
        self._extra_kwargs = kwargs

    def __call__(self, func: Any) -> Any:
        if not callable(func):
            raise ValueError("function %s must be callable" % func)
        argspec = tf_inspect.getfullargspec(func)
        if argspec.varkw or argspec.defaults:
            raise ValueError(
                "function with argument defaults or keywords arguments are not supported. {} has defaults {} and "
                "keywords {}.".format(func, argspec.defaults, argspec.varkw)
            )
        names = list(argspec.args)
        fewest = len(names)
        most = 1000000 if argspec.varargs else fewest
        if tf_inspect.ismethod(func):
            fewest -= 1
            names = names[1:]
        if self._input_types:
            count = len(self._input_types)
            if count < fewest or count > most:
                raise ValueError("The function has fewer arguments than the number of specified input types.")
            return self._defined(func, names, self._input_types)
        if fewest == 0 and most == 0:
            return self._defined(func, [], [])
        return _OverloadedFunction(
            func, names, self._func_name, self._grad_func, self._python_grad_func, out_names=self._out_names,
            **self._extra_kwargs,
        )  # fmt: skip

    def _defined(self, func: Any, names: Any, types: Any) -> _DefinedFunction:
        return _DefinedFunction(
            func, names, types, self._func_name, self._grad_func, self._python_grad_func, out_names=self._out_names,
            **self._extra_kwargs,
        )  # fmt: skip


class Declare:
    """A function that is defined elsewhere: its name and the types of its arguments and results.

    Args:
      func_name: its name.
      inputs: pairs of name and type.
      outputs: pairs of name and type.
    """

    def __init__(self, func_name: str, inputs: Any, outputs: Any) -> None:
        from millrace.core.framework import op_def_pb2

        self._sig = op_def_pb2.OpDef(name=func_name)
        for target, pairs in ((self._sig.input_arg, inputs), (self._sig.output_arg, outputs)):
            for name, dtype in pairs:
                target.add(name=name, type=dtypes.as_dtype(dtype).as_datatype_enum)

    @property
    def name(self) -> str:
        return self._sig.name

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        inputs = tuple(ops.convert_to_tensor(item) for item in inputs)
        return call_function(self._sig, *inputs, **kwargs)[0]


def get_function(name: str, graph: Optional[Any] = None) -> Any:
    """The function of a graph with this name, or None."""
    return (graph or ops.get_default_graph())._get_function(name)
