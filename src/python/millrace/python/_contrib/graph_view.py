# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of a graph with inputs and outputs, of tf.contrib.graph_editor."""
from __future__ import annotations

import copy
from typing import Any

from millrace.python._contrib import graph_select as select
from millrace.python.framework import ops


class SubGraphView:
    """Operations with an order of their inputs and outputs.

    Args:
      inside_ops: the operations.
      passthrough_ts: tensors that are inputs and outputs of the view at once.
    """

    def __init__(self, inside_ops: Any = (), passthrough_ts: Any = ()) -> None:
        inside_ops = select.make_list_of_op(inside_ops)
        passthrough_ts = select.make_list_of_t(passthrough_ts)
        either = list(inside_ops) + list(passthrough_ts)
        self._graph = select.get_unique_graph(either, none_if_empty=True) if either else None
        self._ops = inside_ops
        inputs, outputs, _ = select.compute_boundary_ts(inside_ops)
        everything = {id(t) for op in inside_ops for t in list(op.inputs) + list(op.outputs)}
        passing = [t for t in passthrough_ts if id(t) not in everything]
        self._input_ts = inputs + passing
        self._output_ts = outputs + passing
        self._passthrough_ts = passing

    def __copy__(self) -> SubGraphView:
        made = SubGraphView()
        made._graph = self._graph
        made._ops = list(self._ops)
        made._input_ts, made._output_ts = list(self._input_ts), list(self._output_ts)
        made._passthrough_ts = list(self._passthrough_ts)
        return made

    def copy(self) -> SubGraphView:
        """A view of the same operations."""
        return copy.copy(self)

    @property
    def graph(self) -> Any:
        return self._graph

    @property
    def ops(self) -> list[Any]:
        """The operations."""
        return self._ops

    @property
    def inputs(self) -> list[Any]:
        """The input tensors of the view."""
        return list(self._input_ts)

    @property
    def connected_inputs(self) -> list[Any]:
        """The inputs that an operation of the view uses."""
        return [t for t in self._input_ts if not self.is_passthrough(t)]

    @property
    def outputs(self) -> list[Any]:
        """The output tensors of the view."""
        return list(self._output_ts)

    @property
    def connected_outputs(self) -> list[Any]:
        """The outputs that an operation of the view computes."""
        return [t for t in self._output_ts if not self.is_passthrough(t)]

    @property
    def passthroughs(self) -> list[Any]:
        """The tensors that are inputs and outputs of the view at once."""
        return list(self._passthrough_ts)

    def is_passthrough(self, t: Any) -> bool:
        return any(t is other for other in self._passthrough_ts)

    def __bool__(self) -> bool:
        return self._graph is not None

    def __enter__(self) -> SubGraphView:
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        pass

    def __str__(self) -> str:
        lines = ["SubGraphView:"]
        for what, items in (("Ops", self._ops), ("Inputs", self._input_ts), ("Outputs", self._output_ts)):
            lines.append("** %s:" % what)
            lines += ["  " + item.name for item in items] or ["  (none)"]
        return "\n".join(lines)

    def op(self, op_id: int) -> Any:
        """The operation at an index of the list."""
        return self._ops[op_id]

    def find_op_by_name(self, op_name: str) -> Any:
        """The operation of that name.

        Raises:
          ValueError: if there is none.
        """
        found = [op for op in self._ops if op.name == op_name]
        if not found:
            raise ValueError("%s not found in subgraph." % op_name)
        return found[0]

    def input_index(self, t: Any) -> int:
        """The index of a tensor in the inputs."""
        return _index(self._input_ts, t, "Can't find %s in inputs of subgraph %s.")

    def output_index(self, t: Any) -> int:
        """The index of a tensor in the outputs."""
        return _index(self._output_ts, t, "Can't find %s in outputs of subgraph %s.")

    def consumers(self) -> list[Any]:
        """The operations outside that use the outputs."""
        inside = set(self._ops)
        found: list[Any] = []
        for t in self._output_ts:
            select.concatenate_unique(found, [op for op in t.consumers() if op not in inside])
        return found

    def remap_inputs(self, new_input_indices: Any) -> SubGraphView:
        """A view with the inputs at these indices, or of these names."""
        made = self.copy()
        indices = [
            self.input_index(i) if isinstance(i, ops.Tensor) else i for i in _as_list(new_input_indices)
        ]
        _check_within(indices, len(self._input_ts))
        if len(set(indices)) != len(indices):
            raise ValueError("An input index is used twice: %s" % indices)
        made._input_ts = [self._input_ts[i] for i in indices]
        return made

    def remap_outputs(self, new_output_indices: Any) -> SubGraphView:
        """A view with the outputs at these indices; an index may occur several times."""
        made = self.copy()
        indices = [
            self.output_index(i) if isinstance(i, ops.Tensor) else i for i in _as_list(new_output_indices)
        ]
        _check_within(indices, len(self._output_ts))
        made._output_ts = [self._output_ts[i] for i in indices]
        return made

    def remap(self, new_input_indices: Any = None, new_output_indices: Any = None) -> SubGraphView:
        """remap_inputs and remap_outputs."""
        made = self if new_input_indices is None else self.remap_inputs(new_input_indices)
        return made.copy() if new_output_indices is None else made.remap_outputs(new_output_indices)

    def remap_default(self, remove_input_map: bool = True, remove_output_map: bool = True) -> SubGraphView:
        """A view with inputs and outputs in their original order."""
        made = SubGraphView(self._ops, self._passthrough_ts)
        if not remove_input_map:
            made._input_ts = list(self._input_ts)
        if not remove_output_map:
            made._output_ts = list(self._output_ts)
        return made

    def remap_outputs_make_unique(self) -> SubGraphView:
        """A view without duplicate outputs."""
        made = self.copy()
        made._output_ts = list({id(t): t for t in self._output_ts}.values())
        return made

    def remap_outputs_to_consumers(self) -> SubGraphView:
        """A view with an output for each use outside."""
        made = self.copy()
        inside = set(self._ops)
        made._output_ts = [
            t for t in made.remap_outputs_make_unique()._output_ts for op in t.consumers() if op not in inside
        ]
        return made

    def remove_unused_ops(self, control_inputs: bool = True) -> SubGraphView:
        """A view without the operations that no output depends on."""
        made = self.copy()
        needed = set(
            select.get_backward_walk_ops(
                self.connected_outputs, within_ops=self._ops, control_inputs=control_inputs
            )
        )
        made._ops = [op for op in self._ops if op in needed]
        return made


def _as_list(indices: Any) -> list[Any]:
    if isinstance(indices, dict):
        return [indices[i] for i in sorted(indices)]
    return list(indices)


def _check_within(indices: Any, count: int) -> None:
    for i in indices:
        if not 0 <= i < count:
            raise ValueError("Out of bounds index: %s" % i)


def _index(tensors: Any, t: Any, text: str) -> int:
    for i, other in enumerate(tensors):
        if other is t:
            return i
    raise ValueError(text % (t.name, "view"))


def make_view(*args: Any, **kwargs: Any) -> SubGraphView:
    """A view of operations and passthrough tensors, given or selected by patterns: see select_ops_and_ts."""
    if len(args) == 1 and isinstance(args[0], SubGraphView):
        if kwargs:
            raise ValueError("Unexpected keyword arguments: %s" % ", ".join(sorted(kwargs)))
        return args[0]
    chosen_ops, chosen_ts = select.select_ops_and_ts(*args, **kwargs)
    return SubGraphView(chosen_ops, chosen_ts)


def make_view_from_scope(scope: str, graph: Any) -> SubGraphView:
    """A view of the operations of a scope."""
    return SubGraphView(select.get_name_scope_ops(graph, scope))
