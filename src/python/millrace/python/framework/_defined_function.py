# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The functions that Defun makes."""
from __future__ import annotations

import collections
from typing import Any

from millrace.python.framework import dtypes, errors_impl, ops
from millrace.python.framework._capture_graph import CaptureGraph
from millrace.python.util import tf_decorator, tf_inspect

_DTYPE_TO_STR = {
    dtypes.float16: "f16", dtypes.float32: "f32", dtypes.float64: "f64", dtypes.int32: "i32", dtypes.uint8: "i8",
    dtypes.uint16: "u16", dtypes.uint32: "u32", dtypes.uint64: "u64", dtypes.int16: "i16", dtypes.int8: "i8",
    dtypes.string: "s", dtypes.complex64: "c64", dtypes.complex128: "c128", dtypes.int64: "i64", dtypes.bool: "b",
    dtypes.qint8: "qi8", dtypes.quint8: "qu8", dtypes.qint16: "qi16", dtypes.quint16: "qu16", dtypes.qint32: "qi32",
    dtypes.bfloat16: "b16",
}  # fmt: skip


def _type_list_to_str(types: Any) -> str:
    for t in types:
        if t not in _DTYPE_TO_STR:
            raise ValueError("Unsupported dtype: %s" % t)
    return "".join(_DTYPE_TO_STR[t] for t in types)


def _get_func_name(func: Any) -> str:
    _, func = tf_decorator.unwrap(func)
    if callable(func):
        if tf_inspect.isfunction(func) or tf_inspect.ismethod(func):
            return func.__name__
        if hasattr(func, "func"):
            return _get_func_name(func.func)
        return type(func).__name__
    raise ValueError("Argument must be callable")


class _FuncGraph(CaptureGraph):
    """The body of a function that Defun makes."""

    def __init__(self, name: Any, capture_by_value: Any = False, outer_graph: Any = None) -> None:
        super().__init__(outer_graph, bool(capture_by_value))
        self.name = name
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.extra_vars: list[Any] = []
        self.stateful_ops: list[Any] = []

    def _made(self, op: Any) -> None:
        if op._is_stateful:
            self.stateful_ops.append((op.name, op.type))

    def _made_variable(self, var: Any) -> None:
        self.extra_vars.append(var)


class _DefinedFunction:
    """A function with known types: `name`, `definition` and calls."""

    def __init__(
        self, func: Any, argnames: Any, input_types: Any, func_name: Any = None, grad_func: Any = None,
        python_grad_func: Any = None, out_names: Any = None, shape_func: Any = None, capture_by_value: Any = False,
        whitelisted_stateful_ops: Any = None, capture_resource_var_by_value: bool = True, **kwargs: Any,
    ) -> None:  # fmt: skip
        del whitelisted_stateful_ops, capture_resource_var_by_value
        self._func = func
        self._func_name = func_name
        self._grad_func = grad_func
        self._python_grad_func = python_grad_func
        self._out_names = out_names
        self._shape_func = shape_func
        self._capture_by_value = capture_by_value
        self._extra_kwargs = kwargs
        self._input_types = [dtypes.as_dtype(t) for t in input_types]
        self._arg_names = list(argnames)
        self._definition: Any = None
        self._graph: Any = None
        self._making = False
        self.outer_graph = ops.get_default_graph()

    @property
    def name(self) -> str:
        """The name of the function in the library."""
        self._create_definition_if_needed()
        return self._definition.signature.name

    @property
    def definition(self) -> Any:
        """The FunctionDef."""
        self._create_definition_if_needed()
        return self._definition

    @property
    def _signature(self) -> Any:
        self._create_definition_if_needed()
        return self._definition.signature

    def set_grad_func(self, grad_func: Any) -> None:
        """Sets the function that computes the gradient of this one."""
        assert not self._grad_func
        assert isinstance(grad_func, _DefinedFunction)
        self._grad_func = grad_func

    @property
    def grad_func_name(self) -> Any:
        """The name of the gradient function, or None."""
        return self._grad_func.name if self._grad_func else None

    @property
    def python_grad_func(self) -> Any:
        """The Python function that makes the gradient, or None."""
        return self._python_grad_func

    @property
    def declared_input_types(self) -> Any:
        """The types of the arguments."""
        return self._input_types

    @property
    def captured_inputs(self) -> list[Any]:
        """The tensors of the surrounding graph that are further arguments."""
        self._create_definition_if_needed()
        return self._graph.extra_inputs if self._graph is not None else []

    @property
    def _extra_inputs(self) -> list[Any]:
        return self.captured_inputs

    @property
    def stateful_ops(self) -> list[Any]:
        """(name, type) of the operations of the body that have state."""
        self._create_definition_if_needed()
        return self._graph.stateful_ops if self._graph is not None else []

    @property
    def graph(self) -> Any:
        """The body."""
        self._create_definition_if_needed()
        return self._graph

    def _create_definition_if_needed(self) -> None:
        if self._definition is None:
            if self._making:
                raise ValueError("The function %s calls itself" % self._func_name)
            self._making = True
            try:
                self._create_definition()
            finally:
                self._making = False

    def _create_definition(self) -> None:
        from millrace.python.ops import array_ops
        from millrace.python.ops import variable_scope as vs

        graph = _FuncGraph(_get_func_name(self._func), self._capture_by_value)
        outer_scope = vs.get_variable_scope()
        with graph.as_default():
            inputs = []
            for i, dtype in enumerate(self._input_types):
                name = self._arg_names[i] if i < len(self._arg_names) else "%s_%d" % ("arg", i)
                inputs.append(array_ops.placeholder(dtype, name=name))
            graph.inputs = inputs
            with graph.variable_scope_of(outer_scope):
                outputs = self._func(*inputs)
            # A function with one result may return it without a list.
            if outputs is None:
                outputs = []
            elif not isinstance(outputs, (list, tuple)):
                outputs = [outputs]
            if any(t is None for t in outputs):
                raise ValueError("Function %s can not return None." % graph.name)
            outputs = [
                graph.capture(ops.convert_to_tensor(t)) for t in outputs if not isinstance(t, ops.Operation)
            ]
        graph.outputs = outputs
        if self._out_names and len(self._out_names) != len(outputs):
            raise errors_impl.InvalidArgumentError(  # type: ignore[call-arg]
                None, None,
                "output names must be either empty or equal in size to outputs. output names size = %d outputs size = %d"
                % (len(self._out_names), len(outputs)),
            )  # fmt: skip
        arguments = inputs + graph.extra_args
        self._definition = definition_of_graph(
            graph, self._func_name or _get_func_name(self._func), self._func_name is None, arguments, outputs,
            self._out_names, self._func.__doc__ if isinstance(getattr(self._func, "__doc__", None), str) else None,
            _parse_kwargs_as_attrs(graph.name, **self._extra_kwargs),
        )  # fmt: skip
        self._graph = graph

    def add_to_graph(self, g: Any) -> None:
        """Adds the function, and those that it calls, to a graph's library."""
        self._create_definition_if_needed()
        if g._get_function(self.name) is not None:
            return
        if self._graph is not None:
            for function in self._graph._functions.values():
                if function is not self and g._get_function(function.name) is None:
                    function.add_to_graph(g)
        if self._grad_func:
            self._grad_func.add_to_graph(g)
        g._add_function(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.add_to_graph(ops.get_default_graph())
        tensors = [ops.convert_to_tensor(a) for a in args] + self.captured_inputs
        result, op = call_function(self._signature, *tensors, **kwargs)
        if self._shape_func is not None:
            for output, shape in zip(op.outputs, self._shape_func(op)):
                output.set_shape(shape)
        return result


class _OverloadedFunction:
    """A function that is defined anew for each combination of input types of its calls."""

    def __init__(
        self, func: Any, argnames: Any, func_name: Any = None, grad_func: Any = None, python_grad_func: Any = None,
        out_names: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        self._func = func
        self._argnames = argnames
        self._func_name = func_name
        assert grad_func is None or isinstance(grad_func, _OverloadedFunction)
        self._grad_func = grad_func
        self._python_grad_func = python_grad_func
        self._out_names = out_names
        self._extra_kwargs = kwargs
        self._overload: dict[str, _DefinedFunction] = {}

    def instantiate(self, input_types: Any) -> _DefinedFunction:
        """The function for arguments of these types."""
        key = _type_list_to_str(input_types)
        defined = self._overload.get(key)
        if defined is None:
            name = self._func_name
            if name is not None:
                name = "_".join([name, key])
            defined = _DefinedFunction(
                self._func, self._argnames, input_types, name, None, self._python_grad_func, out_names=self._out_names,
                **self._extra_kwargs,
            )  # fmt: skip
            if self._grad_func:
                output_types = [dtypes.DType(arg.type) for arg in defined._signature.output_arg]
                defined._grad_func = self._grad_func.instantiate(list(input_types) + output_types)
            self._overload[key] = defined
        return defined

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = []
        types = []
        for arg in args:
            tensor = ops.convert_to_tensor(arg)
            tensors.append(tensor)
            types.append(tensor.dtype.base_dtype)
        return self.instantiate(types)(*tensors, **kwargs)


def definition_of_graph(
    graph: Any,
    name: str,
    append_hash: bool,
    inputs: Any,
    outputs: Any,
    out_names: Any,
    description: Any,
    attrs: Any = None,
) -> Any:
    """The FunctionDef of a graph; `attrs` are AttrValues of the function."""
    from millrace.core.framework import function_pb2

    arguments = set(id(t.op) for t in inputs)
    body = [op for op in graph.get_operations() if id(op) not in arguments]
    controls = list(getattr(graph, "control_outputs", ()))
    data = graph._to_function(
        name, append_hash, body, list(inputs), list(outputs), list(out_names) if out_names else None, controls,
        [op.name for op in controls], description,
    )  # fmt: skip
    definition = function_pb2.FunctionDef.FromString(data)
    for key, value in (attrs or {}).items():
        definition.attr[key].CopyFrom(value)
    return definition


def _parse_kwargs_as_attrs(func_name: str, **kwargs: Any) -> dict[str, Any]:
    """AttrValues of a function from keyword arguments."""
    from millrace.core.framework import attr_value_pb2

    attrs = {}
    noinline = kwargs.pop("noinline", None)
    if noinline is not None:
        attrs["_noinline"] = attr_value_pb2.AttrValue(b=bool(noinline))
    kwargs.pop("compiled", None)  # ignored: there is no XLA
    kwargs.pop("separate_compiled_gradients", None)
    attrs.update({k: kwargs.pop(k) for k in list(kwargs) if k.startswith("experimental_")})
    if kwargs:
        raise ValueError("Unknown keyword arguments: %s" % kwargs.keys())
    return {k: v if hasattr(v, "SerializeToString") else _attr_value(v) for k, v in attrs.items()}


def _attr_value(value: Any) -> Any:
    from millrace.python.framework import _attributes

    return _attributes.attr_value_of_any(value)


def call_function(sig: Any, *inputs: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Adds an operation that calls a function of the graph's library; returns the results and the operation.

    Raises:
      ValueError: if the number of arguments is wrong.
    """
    if len(inputs) != len(sig.input_arg):
        raise ValueError("Expected number of arguments: %d, received: %d" % (len(sig.input_arg), len(inputs)))
    name = kwargs.pop("name", None)
    g = ops.get_default_graph()
    func_name = sig.name
    attrs = _parse_kwargs_as_attrs(func_name, **kwargs)
    op = g._create_op_internal(func_name, list(inputs), name=name or func_name, attrs=attrs)
    if op.outputs:
        return (op.outputs[0] if len(op.outputs) == 1 else tuple(op.outputs)), op
    return op, op


class _ImportedFunction(_DefinedFunction):
    """A function of an imported graph."""

    def __init__(self, definition: Any, grad_func: Any) -> None:
        super().__init__(None, [], [arg.type for arg in definition.signature.input_arg], grad_func=grad_func)
        self._definition = definition
        self._stateful = [(n.name, n.op) for n in definition.node_def if _is_stateful(n.op)]

    @property
    def captured_inputs(self) -> list[Any]:
        return []

    @property
    def stateful_ops(self) -> list[Any]:
        return self._stateful


def _is_stateful(op: str) -> bool:
    from millrace.python.framework import op_def_registry

    op_def = op_def_registry.get(op)
    return op_def is not None and bool(op_def.is_stateful)


def _from_definition(fdef: Any, grad_func: Any = None) -> _DefinedFunction:
    """The function of a FunctionDef."""
    return _ImportedFunction(fdef, grad_func)


def _from_library(lib: Any) -> list[_DefinedFunction]:
    """The functions of a FunctionDefLibrary, gradients before the functions they belong to.

    Raises:
      ValueError: if the library is not valid.
    """
    if not lib.function and not lib.gradient:
        return []
    definitions = {f.signature.name: f for f in lib.function}
    for gradient in lib.gradient:
        if gradient.gradient_func not in definitions:
            raise ValueError(
                "FunctionDefLibrary missing '%s' FunctionDef\n%s" % (gradient.gradient_func, lib)
            )
        if gradient.function_name not in definitions:
            raise ValueError(
                "FunctionDefLibrary missing '%s' FunctionDef\n%s" % (gradient.function_name, lib)
            )
    gradients: dict[str, str] = {}
    for gradient in lib.gradient:
        gradients[gradient.function_name] = gradient.gradient_func
    made: dict[str, _DefinedFunction] = collections.OrderedDict()

    def make(name: str, under: frozenset[str]) -> _DefinedFunction:
        if name not in made:
            if name in under:
                raise ValueError(
                    "There is a cyclic-dependency between functions. Could not initialize %s." % sorted(under)
                )
            gradient = gradients.get(name)
            grad_func = make(gradient, under | {name}) if gradient is not None else None
            made[name] = _from_definition(definitions[name], grad_func)
        return made[name]

    for name in definitions:
        make(name, frozenset())
    return list(made.values())


def function_def_from_tf_function(c_func: Any) -> Any:
    """The FunctionDef of a function."""
    return c_func.definition


def get_extra_vars() -> list[Any]:
    """The variables that the function whose body is made uses; [] outside of one."""
    g = ops.get_default_graph()
    return g.extra_vars if isinstance(g, _FuncGraph) else []


def get_extra_inputs() -> list[Any]:
    """The tensors of the surrounding graph that the function whose body is made uses; [] outside of one."""
    g = ops.get_default_graph()
    return g.extra_inputs if isinstance(g, _FuncGraph) else []


def get_extra_args() -> list[Any]:
    """The arguments that represent `get_extra_inputs()`."""
    g = ops.get_default_graph()
    return g.extra_args if isinstance(g, _FuncGraph) else []
