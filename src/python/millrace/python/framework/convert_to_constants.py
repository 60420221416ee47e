# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Conversion of a function's variables to constants."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes, graph_util_impl


def convert_variables_to_constants_v2(func: Any, lower_control_flow: bool = True) -> Any:
    """The function with constants instead of the variables and tensors that it captures.

    Args:
      func: a ConcreteFunction, made in eager mode.
      lower_control_flow: whether functional control flow may be lowered; it is never lowered here.

    Returns:
      A ConcreteFunction with the other arguments of `func`.

    Raises:
      RuntimeError: if a captured tensor has no value.
    """
    from millrace.python.eager import wrap_function
    from millrace.python.framework import ops

    del lower_control_flow
    graph = func.graph
    values: dict[str, Any] = {}
    handles: dict[str, int] = {}
    graph_def = graph.as_graph_def()
    captures = dict(zip((t.op.name for t in graph.internal_captures), func.captured_inputs))
    for name, outer in captures.items():
        if not isinstance(outer, ops.EagerTensor):
            raise RuntimeError(
                "The captured tensor %s has no value: make the function in eager mode." % outer
            )
        if outer.dtype == dtypes.resource:
            variable = next((v for v in func.graph.variables if v.handle is outer), None)
            if variable is not None:
                handles[name] = variable.dtype.base_dtype.as_datatype_enum
                values[name] = variable.numpy()
        else:
            values[name] = outer.numpy()
    for node in graph_def.node:
        if node.name in handles:  # the placeholder of a variable in a function
            node.op = "VarHandleOp"
            node.attr["dtype"].type = handles[node.name]
    converted = graph_util_impl.replace_variables(graph_def, values, handles)
    inner = {t.op.name for t in graph.internal_captures}
    arguments = [t.name for t in func.inputs if t.op.name not in inner]
    made = wrap_function.function_from_graph_def(converted, arguments, [t.name for t in func.outputs])
    made._arg_keywords, made._num_positional_args = func._arg_keywords, func._num_positional_args
    return made
