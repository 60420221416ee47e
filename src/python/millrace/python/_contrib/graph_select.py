# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Selections of operations and tensors, of tf.contrib.graph_editor."""
from __future__ import annotations

import re
from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import op_selector
from millrace.python.ops.op_selector import (  # noqa: F401
    check_graphs,
    concatenate_unique,
    get_consuming_ops,
    get_generating_ops,
    get_unique_graph,
    is_iterable,
    make_list_of_op,
    make_list_of_t,
)

_OPS, _TENSORS = "(?#ops)", "(?#ts)"


class ControlOutputs:
    """The operations that have a given operation as control input."""

    def __init__(self, graph: Any) -> None:
        if not isinstance(graph, ops.Graph):
            raise TypeError("Expected a tf.Graph, got: %s" % type(graph))
        self._graph = graph
        self._version: Any = None
        self._control_outputs: dict[Any, list[Any]] = {}
        self.update()

    def update(self) -> ControlOutputs:
        """Reads the graph again if it has changed."""
        if self._version != self._graph.version:
            self._version = self._graph.version
            self._control_outputs = {}
            for op in self._graph.get_operations():
                for before in op.control_inputs:
                    self._control_outputs.setdefault(before, []).append(op)
        return self

    def get_all(self) -> dict[Any, list[Any]]:
        """A dict from operations to those that have them as control inputs."""
        return self._control_outputs

    def get(self, op: Any) -> tuple[Any, ...]:
        """The operations that have `op` as control input."""
        return tuple(self._control_outputs.get(op, ()))

    @property
    def graph(self) -> Any:
        return self._graph


def _regex(pattern: Any) -> Any:
    if isinstance(pattern, re.Pattern):
        return pattern
    if isinstance(pattern, str):
        return re.compile(pattern)
    return None


def _can_be_regex(value: Any) -> bool:
    return isinstance(value, (str, re.Pattern))


def filter_ts(ops_: Any, positive_filter: Any) -> list[Any]:
    """The outputs of operations for which a function returns True; True: all."""
    found: list[Any] = []
    for op in make_list_of_op(ops_):
        concatenate_unique(found, [t for t in op.outputs if positive_filter is True or positive_filter(t)])
    return found


def filter_ts_from_regex(ops_: Any, regex: Any) -> list[Any]:
    """The outputs of operations in whose names the pattern is found."""
    pattern = _regex(regex)
    return filter_ts(ops_, lambda t: pattern.search(t.name))


def filter_ops(ops_: Any, positive_filter: Any) -> list[Any]:
    """The operations for which a function returns True; True: all."""
    return [op for op in make_list_of_op(ops_) if positive_filter is True or positive_filter(op)]


def filter_ops_from_regex(ops_: Any, regex: Any) -> list[Any]:
    """The operations in whose names the pattern is found."""
    pattern = _regex(regex)
    return filter_ops(ops_, lambda op: pattern.search(op.name))


def get_name_scope_ops(ops_: Any, scope: str) -> list[Any]:
    """The operations of a scope, including an operation named like the scope."""
    if scope and scope[-1] == "/":
        scope = scope[:-1]
    return filter_ops_from_regex(ops_, "^%s(/.*)?$" % re.escape(scope))


def check_cios(control_inputs: Any = False, control_outputs: Any = None, control_ios: Any = None) -> Any:
    """Normalizes the three options for control edges: (use control inputs, a ControlOutputs or None)."""
    if control_ios is not None:
        if not isinstance(control_ios, ControlOutputs):
            raise TypeError("Expected a util.ControlOutputs, got: %s" % type(control_ios))
        if control_outputs is not None:
            raise ValueError("control_outputs should be None when using control_ios.")
        return True, control_ios
    if control_outputs is not None and not isinstance(control_outputs, ControlOutputs):
        raise TypeError("Expected a util.ControlOutputs, got: %s" % type(control_outputs))
    return control_inputs, control_outputs


def get_ops_ios(
    ops_: Any, control_inputs: Any = False, control_outputs: Any = None, control_ios: Any = None
) -> list[Any]:
    """The producers and consumers of some operations."""
    control_inputs, control_outputs = check_cios(control_inputs, control_outputs, control_ios)
    found: list[Any] = []
    for op in make_list_of_op(ops_):
        concatenate_unique(found, [t.op for t in op.inputs])
        concatenate_unique(found, [op for t in op.outputs for op in t.consumers()])
        if control_inputs:
            concatenate_unique(found, op.control_inputs)
        if control_outputs is not None:
            concatenate_unique(found, control_outputs.get(op))
    return found


def compute_boundary_ts(ops_: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """The inputs of a set of operations, its outputs, and its internal tensors; the last two may share tensors."""
    members = make_list_of_op(ops_)
    inside = set(members)
    inputs: list[Any] = []
    outputs: list[Any] = []
    for op in members:
        _add_tensors(inputs, op.inputs)
        _add_tensors(outputs, op.outputs)
    within = [t for t in inputs if t.op in inside]
    hidden = {id(t) for t in within if all(op in inside for op in t.consumers())}
    return (
        [t for t in inputs if t.op not in inside],
        [t for t in outputs if id(t) not in hidden],
        within,
    )


def _add_tensors(found: list[Any], tensors: Any) -> None:
    known = {id(t) for t in found}
    for t in tensors:
        if id(t) not in known:
            known.add(id(t))
            found.append(t)


def get_forward_walk_ops(
    seed_ops: Any,
    inclusive: bool = True,
    within_ops: Any = None,
    within_ops_fn: Any = None,
    stop_at_ts: Any = (),
    control_outputs: Any = None,
) -> list[Any]:
    """The operations that depend on some operations or tensors; see get_backward_walk_ops."""
    _, control_outputs = check_cios(False, control_outputs)
    seeds = list(seed_ops) if is_iterable(seed_ops) else [seed_ops]
    first: list[Any] = []
    for seed in seeds:
        concatenate_unique(first, seed.consumers() if isinstance(seed, ops.Tensor) else [seed])
    within = None if within_ops is None else set(make_list_of_op(within_ops))
    stop = {id(t) for t in stop_at_ts}

    def is_within(op: Any) -> bool:
        return (within is None or op in within) and (within_ops_fn is None or within_ops_fn(op))

    found = [op for op in first if is_within(op)]
    seen = set(found)
    for op in found:
        following = [c for t in op.outputs if id(t) not in stop for c in t.consumers()]
        if control_outputs is not None:
            following += control_outputs.get(op)
        for other in following:
            if other not in seen and is_within(other):
                seen.add(other)
                found.append(other)
    if inclusive:
        return found
    return [op for op in found if op not in set(first)]


def get_backward_walk_ops(
    seed_ops: Any,
    inclusive: bool = True,
    within_ops: Any = None,
    within_ops_fn: Any = None,
    stop_at_ts: Any = (),
    control_inputs: Any = False,
) -> list[Any]:
    """The operations that some operations or tensors depend on.

    Args:
      seed_ops: operations or tensors.
      inclusive: whether they are part of the result.
      within_ops: operations that the walk does not leave.
      within_ops_fn: a predicate of the operations that the walk may include.
      stop_at_ts: tensors that the walk does not pass.
      control_inputs: whether control edges count.
    """
    return op_selector.get_backward_walk_ops(
        seed_ops, inclusive, within_ops, within_ops_fn, stop_at_ts, bool(control_inputs)
    )


def _both_walks(
    forward_seed_ops: Any, backward_seed_ops: Any, options: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    forward_inclusive = options.pop("forward_inclusive", True)
    backward_inclusive = options.pop("backward_inclusive", True)
    control_inputs, control_outputs = check_cios(
        options.pop("control_inputs", False),
        options.pop("control_outputs", None),
        options.pop("control_ios", None),
    )
    within = {key: options.pop(key, None) for key in ("within_ops", "within_ops_fn")}
    if options:
        raise TypeError("Unexpected arguments: %s" % ", ".join(sorted(options)))
    forward = get_forward_walk_ops(
        forward_seed_ops, inclusive=forward_inclusive, control_outputs=control_outputs, **within
    )
    backward = get_backward_walk_ops(
        backward_seed_ops, inclusive=backward_inclusive, control_inputs=control_inputs, **within
    )
    return forward, backward


def get_walks_intersection_ops(forward_seed_ops: Any, backward_seed_ops: Any, **options: Any) -> list[Any]:
    """The operations of both walks, in the order of the forward walk.

    Options: forward_inclusive, backward_inclusive, within_ops, within_ops_fn, control_inputs, control_outputs,
    control_ios.
    """
    forward, backward = _both_walks(forward_seed_ops, backward_seed_ops, options)
    members = set(backward)
    return [op for op in forward if op in members]


def get_walks_union_ops(forward_seed_ops: Any, backward_seed_ops: Any, **options: Any) -> list[Any]:
    """The operations of one walk or the other; options as for get_walks_intersection_ops."""
    forward, backward = _both_walks(forward_seed_ops, backward_seed_ops, options)
    return concatenate_unique(forward, backward)


def get_within_boundary_ops(
    ops_: Any, seed_ops: Any, boundary_ops: Any = (), inclusive: bool = True, **options: Any
) -> list[Any]:
    """The operations that are connected to the seeds without crossing the boundary."""
    members = set(make_list_of_op(ops_))
    boundary = set(make_list_of_op(boundary_ops))
    found = make_list_of_op(seed_ops)
    if boundary & set(found):
        raise ValueError("Boundary is intersecting with the seeds.")
    waiting = list(found)
    while waiting:
        joined = get_ops_ios(waiting, **options)
        waiting = [op for op in joined if op in members and op not in boundary and op not in set(found)]
        concatenate_unique(found, waiting)
        if inclusive:
            concatenate_unique(found, [op for op in joined if op in boundary])
    return found


def _options(kwargs: Any, restriction: str) -> tuple[Any, Any, Any]:
    """The graph, the filter and the restriction to marked patterns; raises ValueError for other arguments."""
    options = kwargs.pop("graph", None), kwargs.pop("positive_filter", None), kwargs.pop(restriction, False)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: %s" % ", ".join(sorted(kwargs)))
    return options


def _wanted_regex(arg: Any, graph: Any, mine: str, other: str, restricted: Any) -> Any:
    """The pattern, or None if it has the other mark, or if it has no mark and one is required."""
    if graph is None:
        raise ValueError("Use the keyword argument 'graph' to use regex.")
    pattern = _regex(arg)
    if pattern.pattern.startswith(other) or restricted and not pattern.pattern.startswith(mine):
        return None
    return pattern


def select_ops(*args: Any, **kwargs: Any) -> list[Any]:
    """The operations given, and those in whose names one of the patterns is found.

    Args:
      *args: operations, lists of them, patterns.
      **kwargs: `graph` for patterns, `positive_filter` for operations, `restrict_ops_regex` so that only
        patterns that begin with "(?#ops)" count.
    """
    graph, positive_filter, restricted = _options(kwargs, "restrict_ops_regex")
    found: list[Any] = []
    for arg in args:
        if _can_be_regex(arg):
            pattern = _wanted_regex(arg, graph, _OPS, _TENSORS, restricted)
            if pattern is not None:
                concatenate_unique(found, filter_ops_from_regex(graph, pattern))
        else:
            chosen = make_list_of_op(arg, ignore_ts=True)
            concatenate_unique(found, filter_ops(chosen, positive_filter or True) if chosen else [])
    return found


def select_ts(*args: Any, **kwargs: Any) -> list[Any]:
    """As select_ops, for tensors; `restrict_ts_regex` is for patterns that begin with "(?#ts)"."""
    graph, positive_filter, restricted = _options(kwargs, "restrict_ts_regex")
    found: list[Any] = []
    for arg in args:
        if _can_be_regex(arg):
            pattern = _wanted_regex(arg, graph, _TENSORS, _OPS, restricted)
            if pattern is not None:
                _add_tensors(found, filter_ts_from_regex(graph, pattern))
        else:
            tensors = make_list_of_t(arg, ignore_ops=True)
            _add_tensors(found, [t for t in tensors if positive_filter is None or positive_filter(t)])
    return found


def select_ops_and_ts(*args: Any, **kwargs: Any) -> tuple[list[Any], list[Any]]:
    """Operations, and tensors; patterns are for operations unless they begin with "(?#ts)"."""
    return (
        select_ops(*args, restrict_ops_regex=False, **kwargs),
        select_ts(*args, restrict_ts_regex=True, **kwargs),
    )
