# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Copies of operations in another graph."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import ops


def lift_to_graph(
    init_tensors: Any, graph: Any, sources: Any = None, disallowed_placeholders: Any = None, add_sources: bool = False,
    handle_captures: bool = False, base_graph: Any = None, op_map: Any = None,
) -> dict[Any, Any]:  # fmt: skip
    """Copies what tensors depend on to another graph.

    Args:
      init_tensors: tensors or operations.
      graph: the graph that gets the copies.
      sources: tensors that become placeholders.

    Returns:
      A dict from originals to copies.
    """
    from millrace.python.ops import array_ops

    mapped: dict[Any, Any] = dict(op_map or {})
    stop = set(sources or ())

    def copy_tensor(t: Any) -> Any:
        if t in mapped:
            return mapped[t]
        if t in stop:
            with graph.as_default():
                mapped[t] = array_ops.placeholder(t.dtype, t.shape, name=t.op.name)
            return mapped[t]
        return copy_op(t.op).outputs[t.value_index]

    def copy_op(op: Any) -> Any:
        if op in mapped:
            return mapped[op]
        inputs = [copy_tensor(t) for t in op.inputs]
        controls = [copy_op(c) for c in op.control_inputs]
        with graph.as_default(), ops.control_dependencies(controls):
            copied = graph._create_op_internal(op.type, inputs, name=op.name, attrs=dict(op.node_def.attr))
        mapped[op] = copied
        for old, new in zip(op.outputs, copied.outputs):
            mapped[old] = new
        return copied

    for item in init_tensors:
        copy_tensor(item) if isinstance(item, ops.Tensor) else copy_op(getattr(item, "op", item))
    return mapped
