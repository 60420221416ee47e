# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Graphs of functions that Python functions make."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import auto_control_deps, ops, tensor_spec, type_spec
from millrace.python.framework._capture_graph import CaptureGraph
from millrace.python.framework import composite_tensor
from millrace.python.util import nest, tf_inspect

WHITELIST_COLLECTIONS = [
    ops.GraphKeys.GLOBAL_VARIABLES,
    ops.GraphKeys.LOCAL_VARIABLES,
    ops.GraphKeys.TRAINABLE_VARIABLES,
    "variable_store",
    ("__variable_scope",),
]


# Creates variables in new graphs of functions; see def_function.
CREATORS: list[Any] = []


class UnknownArgument:
    """Represents an argument that is not a tensor."""


class FuncGraph(CaptureGraph):
    """The body of a function.

    Attributes:
      name: name of the function.
      inputs: placeholders, those of captured tensors at the end.
      outputs: the tensors that it returns.
      structured_outputs: the results of the Python function.
      control_outputs: operations that run in each call.
      variables: the variables that the function uses.
      outer_graph: the graph around it.
    """

    def __init__(self, name: Any, collections: Any = None, capture_by_value: Any = None) -> None:
        super().__init__(capture_by_value=bool(capture_by_value))
        self.name = name
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.control_outputs: list[Any] = []
        self.structured_input_signature: Any = None
        self.structured_outputs: Any = None
        self.capture_by_value = bool(capture_by_value)
        self.stateful_ops: list[Any] = []
        self.extra_vars: list[Any] = []
        self._made_ops: list[Any] = []
        if CREATORS:
            self._variable_creator_stack = [(0, CREATORS[-1])]
        for key in collections if collections is not None else WHITELIST_COLLECTIONS:
            # The body shares the collections of variables with the outer graph.
            self._collections[key] = self._outer_graph.get_collection_ref(key)

    def _made(self, op: Any) -> None:
        self._made_ops.append(op)
        if op._is_stateful:
            self.stateful_ops.append((op.name, op.type))

    def _made_variable(self, var: Any) -> None:
        self.extra_vars.append(var)

    def watch_variable(self, v: Any) -> None:
        """Called for each variable that the body reads."""
        if not any(v is known for known in self.extra_vars):
            self.extra_vars.append(v)
        if not self._outer_is_eager:
            watch = getattr(self._outer_graph, "watch_variable", None)
            if watch is not None:
                watch(v)

    def _add_argument(self, tensor: Any, outer: Any, name: Any) -> Any:
        argument = super()._add_argument(tensor, outer, name)
        self.inputs.append(argument)
        return argument

    @property
    def variables(self) -> list[Any]:
        """The variables whose handles the function takes."""
        handles = {id(t) for t in self.extra_inputs}
        found = {id(v): v for v in self.extra_vars}
        for v in self._outer_graph.get_collection(ops.GraphKeys.GLOBAL_VARIABLES):
            if id(getattr(v, "handle", None)) in handles:
                found[id(v)] = v
        return list(found.values())

    @property
    def trainable_variables(self) -> list[Any]:
        """Those of `variables` that are trained."""
        return [v for v in self.variables if v.trainable]

    @property
    def captures(self) -> list[Any]:
        """Pairs of a tensor of the outer graph and the placeholder that represents it."""
        return list(zip(self.extra_inputs, self.extra_args))

    @property
    def external_captures(self) -> list[Any]:
        """The tensors of the outer graph."""
        return list(self.extra_inputs)

    @property
    def internal_captures(self) -> list[Any]:
        """The placeholders that represent them."""
        return list(self.extra_args)

    @property
    def output_types(self) -> list[Any]:
        return [t.dtype for t in self.outputs]

    @property
    def output_shapes(self) -> list[Any]:
        return [t.shape for t in self.outputs]


def get_tensor_spec(t: Any, include_tensor_ranks_only: bool = False) -> Any:
    """The TensorSpec of a tensor."""
    del include_tensor_ranks_only
    return tensor_spec.TensorSpec(t.shape, t.dtype)


def _placeholder(value: Any, name: Optional[str]) -> Any:
    from millrace.python.ops import array_ops

    name = "".join(c if c.isalnum() or c in "_." else "_" for c in name or "input") or "input"
    placeholder = array_ops.placeholder(value.dtype.base_dtype, shape=value.shape, name=name)
    data = value._handle_data_tuple() if isinstance(value, ops.Tensor) else None
    if data is not None:
        number, sizes = data
        placeholder._set_handle_data_tuple(
            number, None if sizes is None else [None if s < 0 else s for s in sizes]
        )
    return placeholder


def is_tensor_like(value: Any) -> bool:
    """Whether an argument of a function becomes one of its inputs."""
    return isinstance(value, (ops.Tensor, tensor_spec.TensorSpec))


def _inputs_of(structure: Any, names: Any, graph: FuncGraph) -> Any:
    """The structure with placeholders for tensors and TensorSpecs."""

    def one(value: Any, name: Any) -> Any:
        if is_tensor_like(value):
            placeholder = _placeholder(value, getattr(value, "name", None) if name is None else name)
            graph.inputs.append(placeholder)
            return placeholder
        return value

    flat = nest.flatten(structure, expand_composites=True)
    if names is None:
        names = [None] * len(flat)
    return nest.pack_sequence_as(structure, [one(v, n) for v, n in zip(flat, names)], expand_composites=True)


def _names_for(args: Any, arg_names: Any) -> Any:
    """A name for each tensor of the arguments."""
    names: list[Any] = []
    for i, arg in enumerate(args):
        name = arg_names[i] if arg_names and i < len(arg_names) else None
        names += [name] * len(nest.flatten(arg, expand_composites=True))
    return names


def func_graph_from_py_func(
    name: Any, python_func: Any, args: Any, kwargs: Any, signature: Any = None, func_graph: Any = None,
    autograph: bool = False, autograph_options: Any = None, add_control_dependencies: bool = True, arg_names: Any = None,
    op_return_value: Any = None, collections: Any = None, capture_by_value: Any = None,
    override_flat_arg_shapes: Any = None,
) -> FuncGraph:  # fmt: skip
    """Traces a Python function: calls it once in a FuncGraph, which gets the operations that it makes.

    Args:
      name: name of the function.
      python_func: the function, of (structures of) tensors and other values.
      args, kwargs: its arguments; tensors and TensorSpecs become inputs.
      signature: TensorSpecs that replace `args`.
      func_graph: the FuncGraph that gets the operations; None: a new one.
      autograph, autograph_options: ignored; there is no AutoGraph.
      add_control_dependencies: whether operations with side effects run in the order of their creation.
      arg_names: names of the inputs.
      op_return_value: what represents a returned operation.
      collections, capture_by_value: as in FuncGraph.
      override_flat_arg_shapes: shapes of the inputs instead of those of the arguments.

    Raises:
      TypeError: the function returns something that is no tensor.
    """
    del autograph, autograph_options
    from millrace.python.ops import array_ops
    from millrace.python.ops import variable_scope as vs

    graph = func_graph or FuncGraph(name, collections=collections, capture_by_value=capture_by_value)
    outer_scope = vs.get_variable_scope()
    with graph.as_default():
        if signature is not None:
            args, kwargs = signature, {}
        func_args = _inputs_of(args, _names_for(args, arg_names), graph)
        func_kwargs = _inputs_of(kwargs, None, graph)
        if override_flat_arg_shapes is not None:
            for tensor, shape in zip(graph.inputs, override_flat_arg_shapes):
                if shape is not None:
                    tensor.set_shape(shape)
        graph.structured_input_signature = (args, kwargs)
        with graph.variable_scope_of(outer_scope):
            outputs = python_func(*func_args, **func_kwargs)
        if add_control_dependencies:
            graph.control_outputs = auto_control_deps.order(graph._made_ops)

        def convert(x: Any) -> Any:
            if x is None:
                return None
            if isinstance(x, ops.Operation):
                if op_return_value is None:
                    return None
                with ops.control_dependencies([x]):
                    return array_ops.identity(op_return_value)
            try:
                tensor = ops.convert_to_tensor_or_composite(x)
            except (ValueError, TypeError):
                raise TypeError(
                    "To be compatible with tf.contrib.eager.defun, Python functions must return zero or more Tensors; in "
                    "compilation of %s, found return value of type %s, which is not a Tensor."
                    % (str(python_func), type(x))
                ) from None
            if isinstance(tensor, composite_tensor.CompositeTensor):
                return nest.map_structure(convert, tensor, expand_composites=True)
            if add_control_dependencies and graph.control_outputs and tensor.graph is graph:
                with ops.control_dependencies([op for op in graph.control_outputs if op is not tensor.op]):
                    tensor = array_ops.identity(tensor)
            return graph.capture(tensor)

        structured = nest.map_structure(convert, outputs, expand_composites=False)
        graph.structured_outputs = structured
        flat = nest.flatten(structured, expand_composites=True)
        graph.outputs.extend(t for t in flat if t is not None)
    return graph


def function_name(python_func: Any) -> str:
    """The name of a Python function."""
    return getattr(
        tf_inspect.unwrap(python_func) if hasattr(tf_inspect, "unwrap") else python_func,
        "__name__",
        "function",
    )


def spec_of_argument(value: Any) -> Any:
    """The signature of a call: types and shapes of tensors, and the values of other arguments."""
    if isinstance(value, ops.Tensor):
        return (
            "tensor",
            value.dtype,
            tuple(value.shape.as_list()) if value.shape.ndims is not None else None,
        )
    if isinstance(value, type_spec.TypeSpec):
        return ("spec", repr(value))
    try:
        hash(value)
    except TypeError:
        return ("object", id(value))
    return ("value", type(value), value)


def dismantle_func_graph(func_graph: Any) -> None:
    """Does nothing: the garbage collector frees graphs."""


def override_func_graph_name_scope(func_graph: Any, name_scope: str) -> None:
    """Sets the name scope of a graph."""
    func_graph._name_stack = name_scope
