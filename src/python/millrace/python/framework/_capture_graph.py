# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A graph that becomes the body of a function: tensors of outer graphs become arguments."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator, Optional

from millrace.python.framework import ops


def random_seed_of(graph: Any) -> Any:
    """The seed of the graph around a function."""
    if graph._outer_is_eager:
        from millrace.python.eager import context

        return context.global_seed()
    return graph._outer_graph.seed


class CaptureGraph(ops.Graph):
    """A graph whose operations may have inputs of outer graphs, which become further arguments.

    Attributes:
      extra_inputs: the tensors of the outer graph.
      extra_args: the placeholders that represent them.
    """

    def __init__(self, outer_graph: Any = None, capture_by_value: bool = False) -> None:
        super().__init__()
        self._building_function = True
        self._outer_graph = outer_graph if outer_graph is not None else ops.get_default_graph()
        self._outer_is_eager = ops.executing_eagerly() and outer_graph is None
        self._capture_by_value = capture_by_value
        self._container = getattr(self._outer_graph, "_container", "")
        self.seed = random_seed_of(self)
        self._captured: dict[int, Any] = {}  # id of the outer tensor -> placeholder
        self._kept_values: list[Any] = []
        self.extra_inputs: list[Any] = []
        self.extra_args: list[Any] = []
        # Every operation is made by _make_operation, which captures.
        self._slow_reasons += 1
        for function in self._outer_graph._functions.values():
            self._add_function(function)

    @property
    def outer_graph(self) -> Any:
        """The graph that was the default one when this one was made."""
        return self._outer_graph

    def _make_operation(
        self,
        op_type: str,
        name: Optional[str],
        inputs: list[Any],
        attrs: list[Any],
        compute_device: bool = True,
    ) -> Any:
        own = []
        for item in inputs:
            if isinstance(item, (list, tuple)):
                own.append([self.capture(t) for t in item])
            else:
                own.append(self.capture(item))
        op = super()._make_operation(op_type, name, own, attrs, compute_device)
        self._made(op)
        return op

    def _made(self, op: Any) -> None:
        """Called with each new operation."""

    def create_op(self, op_type: str, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        return super().create_op(op_type, [self.capture(t) for t in inputs], *args, **kwargs)

    def _create_op_internal(self, op_type: str, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        return super()._create_op_internal(op_type, [self.capture(t) for t in inputs], *args, **kwargs)

    def control_dependencies(self, control_inputs: Any) -> Any:
        """As Graph's; operations of outer graphs are left out, since calls of the function depend on them."""
        if control_inputs is None:
            return super().control_dependencies(None)
        own = []
        for c in control_inputs:
            graph = getattr(c, "graph", self)
            if graph is self:
                own.append(c)
            elif not self._is_outer(graph):
                own.append(c)  # raises the usual error
        return super().control_dependencies(own)

    def _is_outer(self, graph: Any) -> bool:
        outer = self._outer_graph
        while outer is not None:
            if outer is graph:
                return True
            outer = getattr(outer, "_outer_graph", None)
        return False

    def capture(self, tensor: Any, name: Any = None) -> Any:
        """The tensor of this graph that represents `tensor`.

        Raises:
          ValueError: if `tensor` is of a graph that does not surround this one.
        """
        if isinstance(tensor, ops.EagerTensor):
            return self._capture_value(tensor, name)
        if not isinstance(tensor, ops.Tensor) or tensor.graph is self:
            return tensor
        found = self._captured.get(id(tensor))
        if found is not None:
            return found
        if not self._is_outer(tensor.graph):
            raise ValueError(
                "Cannot capture a tensor (name:%s) of a graph that does not surround the function."
                % tensor.name
            )
        if self._capture_by_value:
            copied = self._copy_op(tensor.op).outputs[tensor.value_index]
            self._captured[id(tensor)] = copied
            return copied
        outer = tensor
        if isinstance(self._outer_graph, CaptureGraph):
            outer = self._outer_graph.capture(tensor)
            found = self._captured.get(id(outer))
            if found is not None:
                self._captured[id(tensor)] = found
                return found
        return self._add_argument(tensor, outer, name)

    def _capture_value(self, tensor: Any, name: Any) -> Any:
        """The tensor in this graph that represents an eager tensor."""
        found = self._captured.get(id(tensor))
        if found is not None:
            return found
        if self._capture_by_value and tensor.dtype.is_numpy_compatible:
            from millrace.python.framework import constant_op

            with self.as_default(), ops.control_dependencies(None):
                found = constant_op.constant(tensor.numpy(), tensor.dtype)
            self._captured[id(tensor)] = found
            self._kept_values.append(tensor)
            return found
        outer = tensor
        if isinstance(self._outer_graph, CaptureGraph) and not self._outer_is_eager:
            outer = self._outer_graph.capture(tensor)
        return self._add_argument(tensor, outer, name)

    def _add_argument(self, tensor: Any, outer: Any, name: Any) -> Any:
        from millrace.python.ops import array_ops

        if isinstance(tensor, ops.EagerTensor):
            self._kept_values.append(tensor)  # keeps it alive, so that its id stays unique
            name = "capture"
        with self.as_default(), ops.control_dependencies(None), ops.colocate_with(None, ignore_existing=True):
            argument = array_ops.placeholder(
                tensor.dtype.base_dtype, shape=tensor.shape, name=name or tensor.op.name
            )
        data = tensor._handle_data_tuple()
        if data is not None:
            number, sizes = data
            argument._set_handle_data_tuple(
                number, None if sizes is None else [None if s < 0 else s for s in sizes]
            )
        # An enclosing function gets an argument for the tensor as well.
        self._captured[id(tensor)] = self._captured[id(outer)] = argument
        self.extra_inputs.append(outer)
        self.extra_args.append(argument)
        return argument

    def _copy_op(self, op: Any) -> Any:
        """A copy of an operation of an outer graph and of its transitive inputs."""
        if op._is_stateful and not (op.type == "VarHandleOp"):
            raise ValueError(
                "Cannot capture a stateful node (name:%s, type:%s) by value." % (op.name, op.type)
            )
        if op.type in ("Placeholder", "PlaceholderV2"):
            raise ValueError("Cannot capture a placeholder (name:%s, type:%s) by value." % (op.name, op.type))
        inputs = [self.capture(t) for t in op.inputs]
        with self.as_default(), ops.control_dependencies(None):
            return super()._create_op_internal(op.type, inputs, name=op.name, attrs=dict(op.node_def.attr))

    @property
    def captured_inputs(self) -> list[Any]:
        """The tensors of the outer graph that are arguments."""
        return self.extra_inputs

    @contextmanager
    def variable_scope_of(self, outer_scope: Any) -> Iterator[None]:
        """Variables made in the context are made in the outer graph, in its scope."""
        from millrace.python.ops import variable_scope as vs

        own = self

        def capturing_getter(getter: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
            return own._get_outer_variable(outer_scope, name, kwargs)

        scope = vs.get_variable_scope()
        old = scope.custom_getter
        scope.set_custom_getter(capturing_getter)
        try:
            yield
        finally:
            scope.set_custom_getter(old)

    def _get_outer_variable(self, outer_scope: Any, name: str, arguments: dict[str, Any]) -> Any:
        from millrace.python.ops import variable_scope as vs

        kept = {
            key: value
            for key, value in arguments.items()
            if key
            in (
                "shape",
                "dtype",
                "initializer",
                "trainable",
                "collections",
                "use_resource",
                "regularizer",
                "reuse",
            )
        }
        if kept.get("reuse") is None:
            kept["reuse"] = outer_scope.reuse
        around = ops.init_scope() if self._outer_is_eager else self._outer_graph.as_default()
        with around, ops.control_dependencies(None):
            prefix = outer_scope.name + "/" if outer_scope.name else ""
            if prefix and name.startswith(prefix):
                name = name[len(prefix) :]
            reuse = kept.pop("reuse", None)
            with vs.variable_scope(outer_scope, reuse=True if reuse is True else None):
                var = vs.get_variable(name, **kept)
        self._made_variable(var)
        return var

    def _made_variable(self, var: Any) -> None:
        """Called with each new variable."""
