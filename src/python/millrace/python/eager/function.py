# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Python functions that become functions of the graph's library: one for each kind of arguments."""
from __future__ import annotations

import functools
from typing import Any

from millrace.python.eager import _eager_calls, context, tape
from millrace.python.framework import _defined_function, func_graph as func_graph_module
from millrace.python.framework import ops, tensor_spec
from millrace.python.framework.func_graph import func_graph_from_py_func
from millrace.python.util import nest, tf_decorator, tf_inspect

FORWARD_FUNCTION_ATTRIBUTE_NAME = "forward_function_name"
BACKWARD_FUNCTION_ATTRIBUTE_NAME = "backward_function_name"
IMPLEMENTS_ATTRIBUTE_NAME = "_implements"
# Stateful ops without side effects.
_READS = frozenset(
    "VarHandleOp ReadVariableOp ResourceGather ResourceGatherNd VariableShape VarIsInitializedOp".split()
)


class _EagerDefinedFunction:
    """A FunctionDef made of a graph, which calls refer to by name."""

    def __init__(self, name: str, graph: Any, inputs: Any, outputs: Any, attrs: Any) -> None:
        self._graph = graph
        self._body_inputs, self._body_outputs = list(inputs), list(outputs)
        self.definition = _defined_function.definition_of_graph(
            graph, name, True, inputs, outputs, None, None, attrs
        )
        self.stateful_ops = graph.stateful_ops
        self.captured_inputs: list[Any] = []
        self.declared_input_types = [t.dtype for t in inputs]
        self._grad_func = self._python_grad_func = None

    @property
    def name(self) -> str:
        return self.definition.signature.name

    @property
    def signature(self) -> Any:
        return self.definition.signature

    def add_to_graph(self, g: Any) -> None:
        """Adds the function, and those that it calls, to a graph's library."""
        if g is None or g._get_function(self.name) is not None:
            return
        for function in self._graph._functions.values():
            if g._get_function(function.name) is None:
                function.add_to_graph(g)
        g._add_function(self)


class ConcreteFunction:
    """A function with known types and structures of arguments and results."""

    def __init__(self, func_graph: Any, attrs: Any = None, signature: Any = None) -> None:
        self._func_graph = func_graph
        self._captured_inputs = list(func_graph.external_captures)
        self._attrs = _defined_function._parse_kwargs_as_attrs(func_graph.name, **(attrs or {}))
        self._signature = signature
        arguments = self._ordered_inputs()
        self._num_arguments = len(arguments) - len(func_graph.internal_captures)
        self._defined = _EagerDefinedFunction(
            "__inference_%s_" % func_graph.name, func_graph, arguments, func_graph.outputs, self._attrs
        )
        # For calls by keyword: the names of the arguments, and the number of positional ones.
        self._arg_keywords: Any = None
        self._num_positional_args: Any = None
        self._differentiable: Any = None  # made for the first tape that needs it

    def _ordered_inputs(self) -> list[Any]:
        """The arguments of the library function: those of the Python function, then captured tensors."""
        graph = self._func_graph
        captured = {id(a) for a in graph.internal_captures}
        return [t for t in graph.inputs if id(t) not in captured] + graph.internal_captures

    @property
    def name(self) -> str:
        """The name of the function in the library."""
        return self._defined.name

    @property
    def graph(self) -> Any:
        """The body."""
        return self._func_graph

    @property
    def inputs(self) -> list[Any]:
        return self._func_graph.inputs

    @property
    def outputs(self) -> list[Any]:
        return self._func_graph.outputs

    @property
    def structured_outputs(self) -> Any:
        return self._func_graph.structured_outputs

    @property
    def structured_input_signature(self) -> Any:
        return self._func_graph.structured_input_signature

    @property
    def captured_inputs(self) -> list[Any]:
        """The tensors of the surrounding graph that are further arguments."""
        return self._captured_inputs

    @property
    def variables(self) -> Any:
        return self._func_graph.variables

    @property
    def trainable_variables(self) -> Any:
        return self._func_graph.trainable_variables

    @property
    def function_def(self) -> Any:
        return self._defined.definition

    @property
    def output_dtypes(self) -> Any:
        return nest.map_structure(
            lambda x: x.dtype if x is not None else None, self._func_graph.structured_outputs
        )

    @property
    def output_shapes(self) -> Any:
        return nest.map_structure(
            lambda x: x.shape if x is not None else None, self._func_graph.structured_outputs
        )

    def add_to_graph(self, g: Any = None) -> None:
        self._defined.add_to_graph(g or ops.get_default_graph())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function with tensors in the order of its inputs, signatures of models with tensors by names.

        Raises:
          ValueError: another number of arguments.
          TypeError: arguments of a signature are missing, not known or given twice.
        """
        if self._arg_keywords is not None:
            return self._call_flat(self._by_keyword(args, kwargs))
        flat = nest.flatten((args, kwargs), expand_composites=True)
        return self._call_flat(
            [t for t in flat if isinstance(t, ops.Tensor) or not isinstance(t, (str, bytes))]
        )

    def _by_keyword(self, args: Any, kwargs: Any) -> list[Any]:
        """The arguments of a signature in order."""
        if len(args) > self._num_positional_args:
            raise TypeError(
                "Expected at most {} positional arguments (and the rest keywords, of {}), got {}. When calling a concrete "
                "function, positional arguments may not be bound to Tensors within nested structures.".format(
                    self._num_positional_args, self._arg_keywords, args
                )
            )
        given = dict(zip(self._arg_keywords, args))
        for name in kwargs:
            if name in given:
                raise TypeError("Got two values for keyword '{}'.".format(name))
        given.update(kwargs)
        missing = [name for name in self._arg_keywords if name not in given]
        if missing:
            raise TypeError(
                "Expected argument names {} but got values for {}. Missing: {}.".format(
                    list(self._arg_keywords), list(given), missing
                )
            )
        if len(given) > len(self._arg_keywords):
            raise TypeError(
                "Got unexpected keyword arguments: {}.".format(
                    ", ".join(set(given) - set(self._arg_keywords))
                )
            )
        inputs = self._ordered_inputs()
        return [
            ops.convert_to_tensor(given[name], dtype=inner.dtype)
            for name, inner in zip(self._arg_keywords, inputs)
        ]

    def _filtered_call(self, args: Any, kwargs: Any) -> Any:
        """Calls the function with the arguments of the Python function: only the tensors count."""
        flat = nest.flatten((args, kwargs), expand_composites=True)
        return self._call_flat([t for t in flat if isinstance(t, ops.Tensor)])

    def _call_flat(self, tensors: Any, captured_inputs: Any = None) -> Any:
        from millrace.python.ops import _function_gradients, functional_ops

        if len(tensors) != self._num_arguments:
            raise ValueError(
                "Arguments and signature arguments do not match. got: %s, expected: %s "
                % (len(tensors), self._num_arguments)
            )
        inputs = [ops.convert_to_tensor(t) for t in tensors] + list(captured_inputs or self._captured_inputs)
        if context.executing_eagerly():
            return self._build(None, _eager_calls.call(self, inputs))
        inputs = [ops.convert_to_tensor(t) for t in inputs]
        for v in self._func_graph.variables:
            tape.variable_accessed(v)
        if self._has_effects() and not _function_gradients.is_needed(self._func_graph, self._defined):
            return self._inline(inputs)
        self.add_to_graph()
        results = functional_ops.partitioned_call(inputs, self._defined)
        if isinstance(results, ops.Operation):
            return self._build(results, [])
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        for result, inner in zip(results, self._func_graph.outputs):
            result.set_shape(inner.shape)
        return self._build(None, results)

    def _has_effects(self) -> bool:
        """Whether the body has side effects, so that it must not be run again for gradients."""
        return any(kind not in _READS for _, kind in self._func_graph.stateful_ops)

    def _inline(self, inputs: list[Any]) -> Any:
        """Adds a copy of the body to the graph, so that its gradient uses the same random numbers."""
        from millrace.python.framework import importer
        from millrace.python.ops import array_ops, control_flow_ops

        graph = self._func_graph
        own = self._ordered_inputs()
        elements = [t.name for t in graph.outputs] + [op.name for op in graph.control_outputs]
        body = graph.as_graph_def()
        importer.remove_missing_groups(body)
        with ops.name_scope(graph.name) as scope:
            made = importer.import_graph_def(
                body, {t.name: value for t, value in zip(own, inputs)}, elements, name=scope
            )
        results, effects = made[: len(graph.outputs)], made[len(graph.outputs) :]
        with ops.control_dependencies(effects):
            if self._func_graph.structured_outputs is None:
                return control_flow_ops.no_op()  # type: ignore[misc]
            results = [array_ops.identity(t) for t in results]
        for result, inner in zip(results, graph.outputs):
            result.set_shape(inner.shape)
        return self._build(None, results)

    def _build(self, op: Any, results: list[Any]) -> Any:
        structure = self._func_graph.structured_outputs
        if structure is None:
            return op
        remaining = iter(results)
        flat = nest.flatten(structure, expand_composites=True)
        return nest.pack_sequence_as(
            structure, [None if t is None else next(remaining) for t in flat], expand_composites=True
        )


class Function:
    """A Python function that becomes a ConcreteFunction for each kind of arguments it is called with."""

    def __init__(
        self, python_function: Any, name: Any, input_signature: Any = None, attributes: Any = None, autograph: bool = True,
        autograph_options: Any = None, experimental_relax_shapes: bool = False, capture_by_value: Any = None,
    ) -> None:  # fmt: skip
        del autograph, autograph_options, experimental_relax_shapes
        self._python_function = python_function
        self._name = name
        if input_signature is not None and not isinstance(input_signature, (tuple, list)):
            raise TypeError(
                "input_signature must be either a tuple or a list, received " + str(type(input_signature))
            )
        self._input_signature = None if input_signature is None else tuple(input_signature)
        self._attributes = attributes
        self._capture_by_value = capture_by_value
        self._cache: dict[Any, ConcreteFunction] = {}
        self._of_values: dict[
            Any, ConcreteFunction
        ] = {}  # by types and shapes of arguments that all have values
        spec = tf_inspect.getfullargspec(python_function)
        self._fullargspec = spec
        self._arg_names = list(spec.args)
        if tf_inspect.ismethod(python_function):
            self._arg_names = self._arg_names[1:]

    @property
    def python_function(self) -> Any:
        return self._python_function

    @property
    def _is_method(self) -> bool:
        """Whether the first argument of the Python function is bound."""
        return tf_inspect.ismethod(self._python_function)

    def _bodies_to_save(self) -> list[ConcreteFunction]:
        """The functions that were traced in eager mode."""
        if self._input_signature is not None:
            return [self.get_concrete_function()]
        return [f for (graph, _, _), f in self._cache.items() if graph == id(None)]

    @property
    def input_signature(self) -> Any:
        return self._input_signature

    def _canonical(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """All named arguments without `*` by position, converted to tensors if a signature requires it."""
        args = list(args)
        kwargs = dict(kwargs)
        defaults = self._fullargspec.defaults or ()
        with_default = dict(zip(self._arg_names[len(self._arg_names) - len(defaults) :], defaults))
        for name in self._arg_names[len(args) :]:
            if name in kwargs:
                args.append(kwargs.pop(name))
            elif name in with_default and self._input_signature is None:
                args.append(with_default[name])
            else:
                break
        if self._input_signature is not None:
            args = self._with_signature(args, kwargs)
        return _convert_arrays(tuple(args)), _convert_arrays(kwargs)

    def _with_signature(self, args: Any, kwargs: Any) -> Any:
        if kwargs:
            raise ValueError(
                "Cannot define a TensorFlow function from a Python function with keyword arguments when input_signature is provided."
            )
        signature = nest.flatten(self._input_signature)
        try:
            flat = nest.flatten_up_to(self._input_signature, tuple(args))
        except (ValueError, TypeError):
            raise ValueError(
                "Structure of Python function inputs does not match input_signature: inputs (%s), input_signature(%s)"
                % (str(args), str(self._input_signature))
            ) from None
        flat = [ops.convert_to_tensor(t, dtype_hint=s.dtype) for t, s in zip(flat, signature)]
        if any(not s.is_compatible_with(t) for t, s in zip(flat, signature)):
            raise ValueError(
                "Python inputs incompatible with input_signature: inputs (%s), input_signature (%s)"
                % (str(args), str(self._input_signature))
            )
        return nest.pack_sequence_as(self._input_signature, flat)

    def _trace(self, args: Any, kwargs: Any) -> ConcreteFunction:
        """Calls the Python function once."""
        made = func_graph_from_py_func(
            self._name, self._python_function, args, kwargs, self._input_signature, arg_names=self._arg_names,
            capture_by_value=self._capture_by_value,
        )  # fmt: skip
        return ConcreteFunction(made, self._attributes)

    def _concrete(self, args: Any, kwargs: Any) -> ConcreteFunction:
        graph = None if context.executing_eagerly() else ops.get_default_graph()
        flat = nest.flatten((args, sorted(kwargs.items())), expand_composites=True)
        structure = repr(
            nest.map_structure(lambda x: type(x).__name__ if hasattr(x, "_type_spec") else 0, (args, kwargs))
        )
        specs = self._input_signature if self._input_signature is not None else flat
        key = (
            id(graph),
            structure,
            tuple(func_graph_module.spec_of_argument(v) for v in nest.flatten(specs)),
        )
        found = self._cache.get(key)
        if found is None or graph is not None and found.graph.outer_graph is not graph:
            found = self._cache[key] = self._trace(args, kwargs)
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        key = None
        if not kwargs and len(args) == len(self._arg_names) and context.executing_eagerly():
            if self._input_signature is None and all(type(t) is ops.EagerTensor for t in args):
                key = tuple([(t.dtype._type_enum, t._shape_tuple()) for t in args])
                found = self._of_values.get(key)
                if found is not None:
                    return found._call_flat(args)
        args, kwargs = self._canonical(args, kwargs)
        concrete = self._concrete(args, kwargs)
        if key is not None:
            self._of_values[key] = concrete
        return concrete._filtered_call(args, kwargs)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The ConcreteFunction for arguments or TensorSpecs of them."""
        if self._input_signature is not None and not args and not kwargs:
            args = self._input_signature
            return self._concrete(tuple(args), {})
        args, kwargs = self._canonical(args, kwargs)
        return self._concrete(args, kwargs)

    _get_concrete_function_internal = get_concrete_function
    _get_concrete_function_garbage_collected = get_concrete_function

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return self
        bound = self._python_function.__get__(instance, owner)
        name = "_function_of_" + getattr(self._python_function, "__name__", "call")
        found = instance.__dict__.get(name) if hasattr(instance, "__dict__") else None
        if found is None:
            found = type(self)(bound, self._name, self._input_signature, self._attributes)
            if hasattr(instance, "__dict__"):
                instance.__dict__[name] = found
        return found


def _convert_arrays(structure: Any) -> Any:
    import numpy as np

    def one(value: Any) -> Any:
        if isinstance(value, (np.ndarray, np.generic)):
            return ops.convert_to_tensor(value)
        if not isinstance(value, (ops.Tensor, tensor_spec.TensorSpec)) and hasattr(
            value, "_dense_var_to_tensor"
        ):
            return value
        return value

    return nest.map_structure(one, structure, expand_composites=True)


def register(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Adds a Function to the default graph without calling it; returns its ConcreteFunction."""
    if not isinstance(func, Function):
        raise ValueError("Only defun function is allowed to be registered. Got type: %s" % type(func))
    concrete = func.get_concrete_function(*args, **kwargs)
    concrete.add_to_graph()
    return concrete


def defun(
    func: Any = None, input_signature: Any = None, autograph: bool = True, experimental_autograph_options: Any = None,
    experimental_relax_shapes: bool = False,
) -> Any:  # fmt: skip
    """Decorator: calls of the Python function call a function of the graph's library.

    Args:
      func: the function; without it the result is a decorator.
      input_signature: TensorSpecs of the arguments.
      autograph, experimental_autograph_options, experimental_relax_shapes: without effect.
    """
    return defun_with_attributes(
        func, input_signature, None, autograph, experimental_autograph_options, experimental_relax_shapes
    )


def defun_with_attributes(
    func: Any = None, input_signature: Any = None, attributes: Any = None, autograph: bool = True,
    experimental_autograph_options: Any = None, experimental_relax_shapes: bool = False,
) -> Any:  # fmt: skip
    """`defun` whose functions have attributes."""
    del autograph, experimental_autograph_options, experimental_relax_shapes

    def decorated(function: Any) -> Any:
        name = getattr(function, "__name__", "function")
        if name == "<lambda>":
            name = "lambda"
        return tf_decorator.make_decorator(function, Function(function, name, input_signature, attributes))

    return decorated if func is None else decorated(func)


def validate_signature(signature: Any) -> None:
    """Raises TypeError where a signature is not made of TensorSpecs."""
    if any(
        not isinstance(arg, tensor_spec.TensorSpec) for arg in nest.flatten(signature, expand_composites=True)
    ):
        raise TypeError(
            "Invalid input_signature %s; input_signature must be a possibly nested sequence of TensorSpec objects."
            % (signature,)
        )


class_method_to_instance_method = functools.partial
