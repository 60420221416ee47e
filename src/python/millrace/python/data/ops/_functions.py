# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Python functions of elements as functions of the graph's library."""
from __future__ import annotations

import warnings
from typing import Any

from millrace.python.data.util import nest, structure
from millrace.python.eager.function import _EagerDefinedFunction
from millrace.python.framework import auto_control_deps, composite_tensor, dtypes, ops, sparse_tensor
from millrace.python.framework._capture_graph import CaptureGraph
from millrace.python.framework.func_graph import FuncGraph
from millrace.python.util import function_utils


def _should_unpack_args(args: Any) -> bool:
    """Whether the components of an element are separate arguments."""
    return type(args) is tuple


def _should_pack_args(args: Any) -> bool:
    return isinstance(args, list)


def _is_dataset(value: Any) -> bool:
    from millrace.python.data.ops import dataset_ops

    return isinstance(value, dataset_ops.DatasetV2)


class StructuredFunctionWrapper:
    """A function of structures of tensors, converted to a function of the graph's library.

    Args:
      func: the Python function.
      transformation_name: name of the transformation, for messages.
      dataset: whose elements are the arguments; or input_classes, input_shapes and input_types, or input_structure.
      add_to_graph: whether the function is added to the library of the default graph now.
      use_legacy_function, defun_kwargs: accepted, but ignored.

    Attributes:
      function: with `name` and `captured_inputs`.
      output_structure: the structure of TypeSpecs of the results.
    """

    def __init__(
        self, func: Any, transformation_name: str, dataset: Any = None, input_classes: Any = None, input_shapes: Any = None,
        input_types: Any = None, input_structure: Any = None, add_to_graph: bool = True, use_legacy_function: bool = False,
        defun_kwargs: Any = None,
    ) -> None:  # fmt: skip
        del use_legacy_function, defun_kwargs
        if input_structure is None:
            if dataset is not None:
                input_structure = dataset.element_spec
            else:
                if input_classes is None or input_shapes is None or input_types is None:
                    raise ValueError(
                        "Either `dataset`, `input_structure` or all of `input_classes`, `input_shapes`, and `input_types` "
                        "must be specified."
                    )
                input_structure = structure.convert_legacy_structure(input_types, input_shapes, input_classes)
        self._input_structure = input_structure
        self._func = func
        self._name = "_".join(
            [transformation_name.replace(".", "_"), function_utils.get_func_name(func)]
        ).translate({ord(c): "_" for c in "<>|\\'^"})
        self._transformation_name = transformation_name
        self._output_structure: Any = None
        self._function = self._define()
        if add_to_graph:
            self._function.add_to_graph(ops.get_default_graph())

    def _call(self, args: list[Any]) -> list[Any]:
        nested = structure.from_compatible_tensor_list(self._input_structure, args)
        ret = self._func(*nested) if _should_unpack_args(nested) else self._func(nested)
        if _should_pack_args(ret):
            ret = tuple(ret)
        try:
            self._output_structure = structure.type_spec_from_value(ret)
        except (ValueError, TypeError):
            raise TypeError(
                "Unsupported return value from function passed to %s: %s." % (self._transformation_name, ret)
            ) from None
        return structure.to_tensor_list(self._output_structure, _as_values(ret))

    def _define(self) -> Any:
        from millrace.python.ops import array_ops
        from millrace.python.ops import variable_scope as vs

        graph = FuncGraph(self._name)
        before = ops.get_default_graph()
        resources = len(before.get_collection(ops.GraphKeys.TABLE_INITIALIZERS))
        outer_scope = vs.get_variable_scope()
        with graph.as_default():
            for i, spec in enumerate(structure.get_flat_tensor_specs(self._input_structure)):
                graph.inputs.append(array_ops.placeholder(spec.dtype, shape=spec.shape, name="args_%d" % i))
            with graph.variable_scope_of(outer_scope):
                results = self._call(list(graph.inputs))
            graph.control_outputs = must_run = auto_control_deps.order(graph._made_ops)
            outputs = []
            for result in results:
                if must_run and result.graph is graph:
                    with ops.control_dependencies([op for op in must_run if op is not result.op]):
                        result = array_ops.identity(result)
                outputs.append(graph.capture(result))
            graph.outputs.extend(outputs)
        for table in graph.get_collection(ops.GraphKeys.TABLE_INITIALIZERS):
            warnings.warn(
                "Failed to capture resource. A resource (%s) that is made within a function of a dataset is not "
                "initialized." % table.name
            )
        del resources
        arguments = [t for t in graph.inputs if id(t) not in {id(a) for a in graph.internal_captures}]
        defined = _EagerDefinedFunction(
            "__inference_%s_" % self._name, graph, arguments + graph.internal_captures, graph.outputs, {}
        )
        defined.captured_inputs = list(graph.external_captures)
        return defined

    @property
    def output_structure(self) -> Any:
        return self._output_structure

    @property
    def output_classes(self) -> Any:
        return nest.map_structure(lambda spec: spec._to_legacy_output_classes(), self._output_structure)

    @property
    def output_shapes(self) -> Any:
        return nest.map_structure(lambda spec: spec._to_legacy_output_shapes(), self._output_structure)

    @property
    def output_types(self) -> Any:
        return nest.map_structure(lambda spec: spec._to_legacy_output_types(), self._output_structure)

    @property
    def function(self) -> Any:
        return self._function


def _as_values(ret: Any) -> Any:
    """The structure that a function returned, with values converted to tensors."""

    def convert(value: Any) -> Any:
        if (
            value is None
            or isinstance(value, (ops.Tensor, composite_tensor.CompositeTensor))
            or _is_dataset(value)
        ):
            return value
        if sparse_tensor.is_sparse(value):
            return sparse_tensor.SparseTensor.from_value(value)
        return ops.convert_to_tensor(value)

    return nest.map_structure(convert, ret)


class DatasetGraph(CaptureGraph):
    """A graph with a copy of the operations of a dataset, the body of a function that returns it.

    Stateful operations are copied only if they belong to the dataset (`dataset_ops`).
    """

    def __init__(self, dataset_ops: Any, seed: Any = None) -> None:
        super().__init__(capture_by_value=True)
        self._dataset_ops = set(dataset_ops)
        self._copies: dict[int, Any] = {}
        self.stateful_ops: list[Any] = []
        self.control_outputs: list[Any] = []
        if seed is not None:
            self.seed = seed

    def _copy_op(self, op: Any) -> Any:
        found = self._copies.get(id(op))
        if found is not None:
            return found
        if op not in self._dataset_ops and op._is_stateful:
            raise ValueError(
                "Cannot capture a stateful node (name:%s, type:%s) by value." % (op.name, op.type)
            )
        if op.type in ("Placeholder", "PlaceholderV2"):
            raise ValueError("Cannot capture a placeholder (name:%s, type:%s) by value." % (op.name, op.type))
        inputs = [self.capture(t) for t in op.inputs]
        with self.as_default(), ops.control_dependencies(None):
            copied = ops.Graph._create_op_internal(
                self, op.type, inputs, name=op.name, attrs=dict(op.node_def.attr)
            )
        self._copies[id(op)] = copied
        return copied


def dataset_factory(dataset: Any) -> Any:
    """A function of the default graph's library without arguments that returns the dataset's variant."""
    from millrace.python.data.util import traverse
    from millrace.python.framework import random_seed

    graph_seed, op_seed = random_seed.get_seed(None)
    seed = None if graph_seed is None else (graph_seed + 87654321 * op_seed) % (2**63 - 1)
    graph = DatasetGraph(traverse.obtain_all_variant_tensor_ops(dataset), seed)
    with graph.as_default():
        variant = graph.capture(dataset._apply_options()._variant_tensor)
    factory = _EagerDefinedFunction("_make_dataset_", graph, [], [variant], {})
    factory.add_to_graph(ops.get_default_graph())
    return factory


def predicate_output_is_bool(wrapper: Any) -> bool:
    """Whether a function returns one bool scalar."""
    from millrace.python.framework import tensor_spec

    return (
        bool(wrapper.output_structure.is_compatible_with(tensor_spec.TensorSpec([], dtypes.bool)))
        if isinstance(wrapper.output_structure, tensor_spec.TensorSpec)
        else False
    )
