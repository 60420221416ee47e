# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Conversion of graphs to functions."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import ops


def graph_to_function_def(
    graph: Any, operations: Any, inputs: Any, outputs: Any, out_names: Any = None
) -> Any:
    """The FunctionDef of some operations of a graph.

    Args:
      graph: the graph.
      operations: those of the body; the placeholders of the arguments are left out.
      inputs: tensors that become arguments.
      outputs: tensors that are returned.
      out_names: names of the results.

    Raises:
      ValueError: another number of names than of results.
    """
    from millrace.core.framework import function_pb2

    if out_names and len(out_names) != len(outputs):
        raise ValueError(
            "Length of out_names (%d) does not match number of outputs (%d): %s"
            % (len(out_names), len(outputs), ", ".join(out_names))
        )
    arguments = {id(t.op) for t in inputs}
    body = [op for op in operations if isinstance(op, ops.Operation) and id(op) not in arguments]
    data = graph._to_function(
        "_", False, body, list(inputs), list(outputs), list(out_names) if out_names else None, [], [], None
    )
    definition = function_pb2.FunctionDef.FromString(data)
    definition.signature.name = ""
    return definition
