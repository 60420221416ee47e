# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Graphs of functions, with arguments and results in nested structures."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import ops, tensor_spec
from millrace.python.framework._capture_graph import CaptureGraph
from millrace.python.util import nest

WHITELIST_COLLECTIONS = [
    ops.GraphKeys.GLOBAL_VARIABLES,
    ops.GraphKeys.LOCAL_VARIABLES,
    ops.GraphKeys.TRAINABLE_VARIABLES,
]


class UnknownArgument:
    """Stands for arguments that are no tensors."""


class FuncGraph(CaptureGraph):
    """The body of a function.

    Attributes:
      name: of the function.
      inputs: the placeholders: arguments, then captured tensors.
      outputs: the results, flat.
      structured_outputs: the results in their structure.
    """

    def __init__(self, name: str, collections: Any = None, capture_by_value: Any = None) -> None:
        super().__init__(ops.get_default_graph(), bool(capture_by_value))
        self.name = name
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.structured_input_signature: Any = None
        self.structured_outputs: Any = None
        self.control_outputs: list[Any] = []
        self._made_variables: list[Any] = []
        self._weak_variables = self._made_variables
        source = self._outer_graph._collections
        for key, values in (collections if collections is not None else source).items():
            self._collections[key] = values if key in WHITELIST_COLLECTIONS else list(values)

    def _made_variable(self, var: Any) -> None:
        self._made_variables.append(var)

    def _add_argument(self, tensor: Any, outer: Any, name: Any) -> Any:
        argument = super()._add_argument(tensor, outer, name)
        self.inputs.append(argument)
        return argument

    @property
    def variables(self) -> list[Any]:
        """The variables of the function."""
        return self._made_variables

    @property
    def external_captures(self) -> list[Any]:
        """The captured tensors."""
        return self.extra_inputs

    @property
    def internal_captures(self) -> list[Any]:
        """The placeholders of the captured tensors."""
        return self.extra_args

    @property
    def captures(self) -> Any:
        """Pairs of captured tensor and placeholder."""
        return list(zip(self.extra_inputs, self.extra_args))

    @property
    def input_dtypes(self) -> list[Any]:
        return [t.dtype for t in self.inputs]

    @property
    def output_dtypes(self) -> list[Any]:
        return [t.dtype for t in self.outputs]

    @property
    def output_shapes(self) -> list[Any]:
        return [t.shape for t in self.outputs]


def _argument(arg: Any, name: Any) -> Any:
    from millrace.python.ops import array_ops

    if isinstance(arg, tensor_spec.TensorSpec):
        return array_ops.placeholder(arg.dtype, arg.shape, name=arg.name or name)
    if isinstance(arg, ops.Tensor):
        placeholder = array_ops.placeholder(arg.dtype.base_dtype, arg.shape, name=name)
        data = arg._handle_data_tuple()
        if data is not None:
            sizes = data[1]
            placeholder._set_handle_data_tuple(data[0], None if sizes is None else [None if s < 0 else s for s in sizes])
        return placeholder
    return arg


def func_graph_from_py_func(
    name: str, python_func: Any, args: Any, kwargs: Any, signature: Any = None, func_graph: Any = None,
    autograph: bool = False, autograph_options: Any = None, add_control_dependencies: bool = True, arg_names: Any = None,
    op_return_value: Any = None, collections: Any = None, capture_by_value: Any = None, override_flat_arg_shapes: Any = None,
) -> FuncGraph:  # fmt: skip
    """Makes the graph of a Python function.

    Args:
      name: of the function.
      python_func: the function.
      args, kwargs: the arguments: tensors and TensorSpecs become placeholders, others are passed on.
      signature: TensorSpecs that stand for `args`.
      func_graph: a graph to fill; None: a new one.
      add_control_dependencies: run operations with side effects in their order.
      arg_names: names of the arguments.
      op_return_value: a tensor that stands for results that are operations.
      collections, capture_by_value: of the graph.
    """
    if signature is not None:
        args, kwargs = signature, {}
    graph = func_graph or FuncGraph(name, collections, capture_by_value)
    with graph.as_default():
        flat = nest.flatten((args, kwargs))
        placeholders = []
        for i, arg in enumerate(flat):
            argument_name = arg_names[i] if arg_names and i < len(arg_names) else None
            made = _argument(arg, argument_name or "args_%d" % i)
            if made is not arg or isinstance(made, ops.Tensor):
                graph.inputs.append(made)
            placeholders.append(made)
        func_args, func_kwargs = nest.pack_sequence_as((args, kwargs), placeholders)
        from millrace.python.ops import variable_scope as vs

        from millrace.python.framework import auto_control_deps

        scope = vs.get_variable_scope()
        old = scope.use_resource
        scope.set_use_resource(True)
        try:
            with auto_control_deps.context_of(add_control_dependencies) as controls:
                with graph.variable_scope_of(scope):
                    outputs = python_func(*func_args, **func_kwargs)

                def convert(x: Any) -> Any:
                    if x is None:
                        return None
                    if isinstance(x, ops.Operation):
                        with ops.control_dependencies([x]):
                            from millrace.python.framework import constant_op

                            x = constant_op.constant(True) if op_return_value is None else op_return_value
                    converted = ops.convert_to_tensor_or_composite(x)
                    tensors = [graph.capture(t) for t in nest.flatten(converted, expand_composites=True)]
                    converted = nest.pack_sequence_as(converted, tensors, expand_composites=True)
                    return controls.mark_as_return(converted) if controls is not None else converted

                outputs = nest.map_structure(convert, outputs, expand_composites=False)
        finally:
            scope.set_use_resource(old)
        graph.structured_outputs = outputs
        graph.outputs = [t for t in nest.flatten(outputs, expand_composites=True) if t is not None]
        graph.control_outputs = controls.ops_which_must_run_list() if controls is not None else []
    return graph


def maybe_captured(tensor: Any) -> Any:
    """The tensor of the outer graph behind a placeholder of a captured one, or the tensor itself."""
    if isinstance(tensor.graph, CaptureGraph):
        for outer, inner in zip(tensor.graph.extra_inputs, tensor.graph.extra_args):
            if inner is tensor:
                return maybe_captured(outer)
    return tensor


def device_stack_has_callable(device_stack: Any) -> bool:
    """Whether a device scope is a function."""
    return any(callable(spec) for spec in device_stack.peek_objs())


def dismantle_func_graph(func_graph: Any) -> None:
    """Nothing is left to do: the garbage collector frees graphs."""
