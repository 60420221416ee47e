# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""FunctionDefs of graphs."""
from __future__ import annotations

from typing import Any


def graph_to_function_def(graph: Any, operations: Any, inputs: Any, outputs: Any, out_names: Any = None) -> Any:
    """The FunctionDef of a part of a graph; it has no name yet.

    Args:
      graph: the graph.
      operations: the operations of the body.
      inputs, outputs: tensors.
      out_names: names of the results.

    Raises:
      ValueError: if the number of names is not that of the results.
    """
    from millrace.core.framework import function_pb2

    if out_names is not None and len(out_names) != len(outputs):
        raise ValueError(
            "Length of out_names (%d) does not match number of outputs (%d): %s"
            % (len(out_names), len(outputs), ", ".join(out_names))
        )
    arguments = {id(t.op) for t in inputs}
    body = [op for op in operations if id(op) not in arguments]
    data = graph._to_function("function", False, body, list(inputs), list(outputs), out_names, [], [], None)
    definition = function_pb2.FunctionDef.FromString(data)
    definition.signature.name = ""
    return definition
