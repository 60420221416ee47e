# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Python functions that make graphs as functions with a given signature."""
from __future__ import annotations

from typing import Any

from millrace.python.eager import function
from millrace.python.framework import func_graph, ops
from millrace.python.util import nest


class VariableHolder:
    """Keeps the variables that a wrapped function creates."""

    def __init__(self, fn: Any = None, share_variables: bool = False) -> None:
        self._fn = fn
        self._share_variables = share_variables
        self._variables_by_name: dict[str, Any] = {}

    @property
    def variables(self) -> dict[str, Any]:
        return self._variables_by_name

    def variable_creator_scope(self, next_creator: Any, **kwargs: Any) -> Any:
        """Makes a variable, or finds the one of that name."""
        name = kwargs.get("name")
        if self._share_variables and name in self._variables_by_name:
            return self._variables_by_name[name]
        made = next_creator(**kwargs)
        self._variables_by_name[made._shared_name if name is None else name] = made
        return made

    def call_with_variable_creator_scope(self, fn: Any) -> Any:
        """`fn`, whose variables are kept here."""

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with ops.get_default_graph()._variable_creator_scope(self.variable_creator_scope):
                return fn(*args, **kwargs)

        return wrapped


class WrappedFunction(function.ConcreteFunction):
    """A ConcreteFunction made of a function that builds a graph."""

    def __init__(self, fn_graph: Any, variable_holder: Any, attrs: Any = None, signature: Any = None) -> None:
        self._variable_holder = variable_holder
        super().__init__(fn_graph, attrs, signature)

    def prune(self, feeds: Any, fetches: Any, name: Any = None, input_signature: Any = None) -> Any:
        """The function from some tensors of the body to others.

        Raises:
          ValueError: a feed or fetch is not of the body.
        """
        del input_signature
        graph = self.graph
        flat_feeds = [graph.as_graph_element(f) for f in nest.flatten(feeds)]
        flat_fetches = [graph.as_graph_element(f) for f in nest.flatten(fetches)]
        if any(f.graph is not graph for f in flat_feeds + flat_fetches):
            raise ValueError("Can only prune function whose feeds and fetches are from this graph.")
        from millrace.python.framework import importer

        pruned = func_graph.FuncGraph(name or "pruned")
        by_name = {f.name: f.op.name for f in flat_feeds if f.op.type == "Placeholder"}
        captures = dict(zip(map(id, graph.internal_captures), graph.external_captures))
        with pruned.as_default():
            stand_ins: dict[str, Any] = {}
            for i, feed in enumerate(flat_feeds):
                placeholder = func_graph._placeholder(feed, by_name.get(feed.name, "feed_%d" % i))
                pruned.inputs.append(placeholder)
                stand_ins[feed.name] = placeholder
            for inner in graph.internal_captures:
                if inner.name not in stand_ins:
                    stand_ins[inner.name] = pruned.capture(captures[id(inner)])
            body = graph.as_graph_def()
            replaced = {t.op.name for t in graph.inputs if t.name in stand_ins} | set(by_name.values())
            kept = [node for node in body.node if node.name not in replaced]
            del body.node[:]
            body.node.extend(kept)
            made = importer.import_graph_def(body, stand_ins, [f.name for f in flat_fetches], name="")
        pruned.outputs.extend(t for t in made if isinstance(t, ops.Tensor))
        pruned.control_outputs = [t for t in made if isinstance(t, ops.Operation)]
        remaining = iter(made)
        pruned.structured_outputs = nest.map_structure(
            lambda f: t if isinstance(t := next(remaining), ops.Tensor) else None, fetches
        )
        return WrappedFunction(pruned, self._variable_holder)


def wrap_function(fn: Any, signature: Any, name: Any = None) -> Any:
    """Wraps `fn`, which may be written for graphs, as a function that keeps the variables it creates.

    Args:
      fn: a Python function.
      signature: TensorSpecs of its arguments.
      name: of the function.

    Returns:
      A ConcreteFunction with `prune(feeds, fetches)`.
    """
    holder = VariableHolder(fn)
    graph = func_graph.func_graph_from_py_func(
        name or "wrapped_function", holder.call_with_variable_creator_scope(fn), signature, {},
        add_control_dependencies=False, collections={},
    )  # fmt: skip
    return WrappedFunction(graph, holder)


def function_from_graph_def(graph_def: Any, inputs: Any, outputs: Any) -> Any:
    """The function that a GraphDef computes.

    Args:
      graph_def: the GraphDef.
      inputs: names of the tensors that are arguments, in any structure.
      outputs: names of the results.

    Returns:
      A ConcreteFunction.
    """
    from millrace.python.framework import importer

    wrapped = wrap_function(lambda: importer.import_graph_def(graph_def, name=""), [])
    element = wrapped.graph.as_graph_element
    return wrapped.prune(nest.map_structure(element, inputs), nest.map_structure(element, outputs))
