# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Python functions of tensors that become functions of graphs."""
from __future__ import annotations

import functools
from typing import Any

from millrace.python.framework import func_graph as func_graph_module
from millrace.python.framework import ops, tensor_spec
from millrace.python.framework._defined_function import _DefinedFunction, definition_of_graph
from millrace.python.util import nest, tf_inspect


class _GraphFunction(_DefinedFunction):
    """The function of the library behind a FuncGraph."""

    def __init__(self, graph: Any, attrs: Any = None) -> None:
        super().__init__(None, [], [t.dtype.base_dtype for t in graph.inputs])
        self._definition = definition_of_graph(graph, "__inference_" + graph.name, True, graph.inputs, graph.outputs, None, None)
        for key, value in (attrs or {}).items():
            from millrace.python.framework import _attributes

            made = value if hasattr(value, "SerializeToString") else _attributes.attr_value_of_any(value)
            self._definition.attr[key].CopyFrom(made)
        self._graph = graph

    @property
    def stateful_ops(self) -> list[Any]:
        return [(op.name, op.type) for op in self._graph.get_operations() if op._is_stateful]


class ConcreteFunction:
    """A function with arguments of known types."""

    def __init__(self, func_graph: Any, attrs: Any = None, signature: Any = None) -> None:
        self._func_graph = func_graph
        self._function = _GraphFunction(func_graph, attrs)
        self._signature = signature
        self._num_captures = len(func_graph.extra_inputs)

    @property
    def name(self) -> str:
        """The name in the graph's library."""
        return self._function.name

    @property
    def graph(self) -> Any:
        """The body."""
        return self._func_graph

    @property
    def inputs(self) -> list[Any]:
        """The placeholders of the body."""
        return self._func_graph.inputs

    @property
    def outputs(self) -> list[Any]:
        """The results in the body, flat."""
        return self._func_graph.outputs

    @property
    def structured_outputs(self) -> Any:
        """The results in the body."""
        return self._func_graph.structured_outputs

    @property
    def captured_inputs(self) -> list[Any]:
        """The tensors of the surrounding graph that are arguments."""
        return self._func_graph.extra_inputs

    @property
    def variables(self) -> list[Any]:
        return self._func_graph.variables

    @property
    def trainable_variables(self) -> list[Any]:
        return [v for v in self._func_graph.variables if v.trainable]

    @property
    def function_def(self) -> Any:
        """The FunctionDef."""
        return self._function.definition

    @property
    def output_dtypes(self) -> Any:
        return nest.map_structure(lambda x: x.dtype if x is not None else None, self.structured_outputs)

    @property
    def output_shapes(self) -> Any:
        return nest.map_structure(lambda x: x.shape if x is not None else None, self.structured_outputs)

    def add_to_graph(self, g: Any = None, register_gradient_functions: bool = False) -> None:
        """Adds the function to a graph's library."""
        self._function.add_to_graph(g or ops.get_default_graph())

    def _call_flat(self, args: Any, captured_inputs: Any = None) -> Any:
        from millrace.python.ops import functional_ops

        graph = ops.get_default_graph()
        self._function.add_to_graph(graph)
        captured = self.captured_inputs if captured_inputs is None else captured_inputs
        tensors = [ops.convert_to_tensor(a) for a in args] + list(captured)
        results = functional_ops.partitioned_call(tensors, self._function, [t.dtype.base_dtype for t in self.outputs])
        return self._pack(results)

    def _pack(self, results: Any) -> Any:
        if self.structured_outputs is None:
            return results if isinstance(results, ops.Operation) else None
        flat = list(results) if isinstance(results, (list, tuple)) else [results]
        if isinstance(results, ops.Operation):
            flat = []
        for made, inner in zip(flat, self.outputs):
            made.set_shape(inner.shape)
        rest = iter(flat)
        tensors = [
            None if t is None else next(rest) for t in nest.flatten(self.structured_outputs, expand_composites=True)
        ]
        return nest.pack_sequence_as(self.structured_outputs, tensors, expand_composites=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        flat = [a for a in nest.flatten((args, kwargs), expand_composites=True) if _is_tensor(a)]
        return self._call_flat(flat)


def _is_tensor(value: Any) -> bool:
    import numpy as np

    return isinstance(value, (ops.Tensor, np.ndarray)) or hasattr(value, "_as_graph_element") or isinstance(value, (int, float))


class Function:
    """What `function` and `defun` give: a callable that makes one function of the graph for each kind of arguments."""

    def __init__(
        self, python_function: Any, name: str = "", input_signature: Any = None, attributes: Any = None,
        autograph: Any = None, autograph_options: Any = None, capture_by_value: Any = None,
    ) -> None:  # fmt: skip
        self._python_function = python_function
        self._name = name or getattr(python_function, "__name__", "function")
        self._input_signature = None if input_signature is None else tuple(input_signature)
        self._attributes = attributes
        self._capture_by_value = capture_by_value
        self._cache: dict[Any, ConcreteFunction] = {}
        functools.update_wrapper(self, python_function)

    @property
    def python_function(self) -> Any:
        """The function that was decorated."""
        return self._python_function

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return self
        bound = self.__dict__.setdefault("_bound", {})
        key = id(instance)
        if key not in bound:
            bound[key] = Function(
                self._python_function.__get__(instance, owner), self._name, self._input_signature, self._attributes
            )
        return bound[key]

    def _canonical(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Arguments by position, with defaults."""
        try:
            bound = tf_inspect.signature(self._python_function).bind(*args, **kwargs)
        except (TypeError, ValueError, AttributeError):
            return args, kwargs
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def _convert(self, args: Any, kwargs: Any) -> tuple[Any, Any, list[Any]]:
        """(args, kwargs, tensors): arrays become tensors."""
        import numpy as np

        args, kwargs = self._canonical(args, kwargs)
        if self._input_signature is not None:
            flat = [
                ops.convert_to_tensor(a, dtype=s.dtype)
                for a, s in zip(nest.flatten(args), nest.flatten(self._input_signature))
            ]
            args = nest.pack_sequence_as(args, flat)
            return args, kwargs, flat

        def convert(value: Any) -> Any:
            return ops.convert_to_tensor(value) if isinstance(value, np.ndarray) else value

        args, kwargs = nest.map_structure(convert, (args, kwargs))
        return args, kwargs, [a for a in nest.flatten((args, kwargs)) if isinstance(a, ops.Tensor)]

    def _key(self, args: Any, kwargs: Any) -> Any:
        parts: list[Any] = [id(ops.get_default_graph())]
        for value in nest.flatten((args, kwargs)):
            if isinstance(value, ops.Tensor):
                parts.append((value.dtype.as_datatype_enum, str(value.shape)))
            else:
                try:
                    hash(value)
                    parts.append((type(value), value))
                except TypeError:
                    parts.append(id(value))
        return tuple(parts)

    def _concrete(self, args: Any, kwargs: Any) -> ConcreteFunction:
        key = self._key(args, kwargs)
        found = self._cache.get(key)
        if found is None:
            graph = func_graph_module.func_graph_from_py_func(
                self._name, self._python_function, args, kwargs, capture_by_value=self._capture_by_value
            )
            found = self._cache[key] = ConcreteFunction(graph, self._attributes)
        return found

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The function for arguments like these: tensors or TensorSpecs."""
        if not args and not kwargs and self._input_signature is not None:
            args = self._input_signature
        key_args, key_kwargs = self._canonical(args, kwargs)
        graph = func_graph_module.func_graph_from_py_func(self._name, self._python_function, key_args, key_kwargs)
        return ConcreteFunction(graph, self._attributes)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs, tensors = self._convert(args, kwargs)
        return self._concrete(args, kwargs)._call_flat(tensors)


def defun(
    func: Any = None, input_signature: Any = None, autograph: bool = True, experimental_autograph_options: Any = None
) -> Any:
    """Decorator: calls of the function add one operation that calls a function of the graph's library."""
    return defun_with_attributes(func=func, input_signature=input_signature)


def defun_with_attributes(
    func: Any = None, input_signature: Any = None, attributes: Any = None, autograph: bool = True,
    experimental_autograph_options: Any = None,
) -> Any:  # fmt: skip
    """As `defun`, with attributes for the function."""
    if input_signature is not None and not isinstance(input_signature, (tuple, list)):
        raise TypeError("input_signature must be either a tuple or a list, received " + str(type(input_signature)))

    def decorated(function: Any) -> Function:
        return Function(function, getattr(function, "__name__", "function"), input_signature, attributes)

    return decorated(func) if func is not None else decorated


def register(func: Any, *args: Any, **kwargs: Any) -> ConcreteFunction:
    """Adds the function for arguments like these to the default graph's library."""
    if not isinstance(func, Function):
        raise ValueError("Only defun function is allowed to be registered. Got type: %s" % type(func))
    concrete = func.get_concrete_function(*args, **kwargs)
    concrete.add_to_graph()
    return concrete


def validate_signature(signature: Any) -> None:
    """TypeError unless all are TensorSpecs."""
    if any(not isinstance(arg, tensor_spec.TensorSpec) for arg in nest.flatten(signature)):
        raise TypeError("Invalid input_signature %s; input_signature must be a possibly nested sequence of TensorSpec objects." % (signature,))
