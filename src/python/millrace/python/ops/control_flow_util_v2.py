# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Helpers of functional conditions and loops."""
from __future__ import annotations

from typing import Any

from millrace.python.eager import function
from millrace.python.framework import function_def_to_graph
from millrace.python.framework import ops
from millrace.python.framework.func_graph import FuncGraph


def in_defun() -> bool:
    """Whether the default graph is the body of a function."""
    return isinstance(ops.get_default_graph(), FuncGraph)


def in_while_loop_defun(graph: Any) -> bool:
    """Whether a graph is the body or the condition of a functional loop."""
    from millrace.python.ops import control_flow_v2_func_graphs as graphs

    return isinstance(graph, (graphs.WhileCondFuncGraph, graphs.WhileBodyFuncGraph))


def create_new_tf_function(func_graph: FuncGraph) -> str:
    """Adds the function of a graph to the outer graph; returns its name."""
    made = function._EagerDefinedFunction(
        func_graph.name, func_graph, func_graph.inputs, func_graph.outputs, None
    )
    made.add_to_graph(func_graph.outer_graph)
    return made.name


def unique_fn_name(scope: str, name: str) -> str:
    """A name for a function in a scope that no other one has."""
    return ("%s%s_%s" % (scope, name, ops.uid())).replace("/", "_")


def unique_grad_fn_name(forward_name: str) -> str:
    """A name for the gradient of a function."""
    return "%s_grad_%s" % (forward_name, ops.uid())


def maybe_set_lowering_attr(op: Any) -> None:
    """Does nothing: the engine runs If and While without lowering."""


def maybe_propagate_compile_time_consts_in_xla(op: Any) -> None:
    """Does nothing: there is no XLA."""


def get_func_graph(op: Any, input_shapes: Any, func_name: str) -> FuncGraph:
    """The body of a function that an operation calls."""
    definition = op.graph._get_function(func_name).definition
    with op.graph.as_default():
        return function_def_to_graph.function_def_to_graph(definition, input_shapes)
