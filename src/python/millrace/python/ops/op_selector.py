# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Which operations of a graph depend on which."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import ops


def is_differentiable(op: Any) -> bool:
    """Whether an operation has a gradient."""
    try:
        return ops._gradient_registry.lookup(op.op_def.name) is not None
    except LookupError:
        return False


def is_iterable(obj: Any) -> bool:
    """Whether one can iterate over it."""
    if isinstance(obj, ops.Tensor):
        return False
    try:
        iter(obj)
    except TypeError:
        return False
    return True


def concatenate_unique(la: list[Any], lb: list[Any]) -> list[Any]:
    """Appends elements of the second list that are missing in the first."""
    known = set(la)
    la.extend(item for item in lb if not (item in known or known.add(item)))  # type: ignore[func-returns-value]
    return la


def check_graphs(*args: Any) -> None:
    """Raises ValueError where the arguments belong to different graphs."""
    graph = None
    for i, item in enumerate(args):
        if graph is None:
            graph = item.graph
        elif item.graph is not None and item.graph is not graph:
            raise ValueError("Argument[%d]: Wrong graph!" % i)


def get_unique_graph(tops: Any, check_types: Any = None, none_if_empty: bool = False) -> Any:
    """The graph of operations and tensors.

    Raises TypeError for values of other kinds than `check_types`; ValueError for more graphs than one, or none.
    """
    if isinstance(tops, ops.Graph):
        return tops
    if not is_iterable(tops):
        raise TypeError("%s is not iterable" % type(tops))
    if check_types is None:
        check_types = (ops.Operation, ops.Tensor)
    elif not is_iterable(check_types):
        check_types = (check_types,)
    graph = None
    for item in tops:
        if not isinstance(item, tuple(check_types)):
            raise TypeError(
                "Expected a type in (%s), got: %s" % (", ".join(str(t) for t in check_types), type(item))
            )
        if graph is None:
            graph = item.graph
        elif graph is not item.graph:
            raise ValueError("Operation %s does not belong to given graph" % item)
    if graph is None and not none_if_empty:
        raise ValueError("Can't find the unique graph of an empty list")
    return graph


def make_list_of_op(
    tops: Any, check_graph: bool = True, allow_graph: bool = True, ignore_ts: bool = False
) -> list[Any]:
    """Returns the list of operations of `tops`: a graph, an operation or a list."""
    if isinstance(tops, ops.Graph):
        if not allow_graph:
            raise TypeError("allow_graph is False: cannot convert a tf.Graph.")
        return tops.get_operations()
    tops = list(tops) if is_iterable(tops) else [tops]
    if tops and check_graph:
        get_unique_graph(tops, check_types=None if ignore_ts else ops.Operation)
    found = []
    for item in tops:
        if isinstance(item, ops.Operation):
            found.append(item)
        elif not ignore_ts:
            raise TypeError("Expected an Operation, got %s" % type(item))
    return found


def make_list_of_t(
    tops: Any, check_graph: bool = True, allow_graph: bool = True, ignore_ops: bool = False
) -> list[Any]:
    """Returns the list of tensors of `tops`: a graph, a tensor or a list."""
    if isinstance(tops, ops.Graph):
        if not allow_graph:
            raise TypeError("allow_graph is False: cannot convert a tf.Graph.")
        return [t for op in tops.get_operations() for t in op.outputs]
    tops = list(tops) if is_iterable(tops) else [tops]
    if tops and check_graph:
        get_unique_graph(tops, check_types=None if ignore_ops else ops.Tensor)
    for item in tops:
        if not isinstance(item, ops.Tensor) and not (ignore_ops and isinstance(item, ops.Operation)):
            raise TypeError("Expected a Tensor, got %s" % type(item))
    return [t for t in tops if isinstance(t, ops.Tensor)]


def get_generating_ops(ts: Any) -> list[Any]:
    """The operations that compute tensors."""
    return [t.op for t in make_list_of_t(ts, allow_graph=False)]


def get_consuming_ops(ts: Any) -> list[Any]:
    """The operations that use tensors, each once."""
    found: list[Any] = []
    for t in make_list_of_t(ts, allow_graph=False):
        concatenate_unique(found, t.consumers())
    return found


def get_backward_walk_ops(
    seed_ops: Any, inclusive: bool = True, within_ops: Any = None, within_ops_fn: Any = None, stop_at_ts: Any = (),
    control_inputs: bool = False, only_differentiable: bool = False,
) -> list[Any]:  # fmt: skip
    """The operations that some operations or tensors depend on.

    Args:
      seed_ops: operations or tensors.
      inclusive: whether `seed_ops` are in the result.
      within_ops, within_ops_fn: operations that the walk stays within.
      stop_at_ts: tensors that the walk does not pass.
      control_inputs: whether control inputs count.
      only_differentiable: whether operations without gradients are left out.
    """
    seeds = list(seed_ops) if is_iterable(seed_ops) else [seed_ops]
    seeds = [s.op if isinstance(s, ops.Tensor) else s for s in seeds]
    within = None if within_ops is None else set(make_list_of_op(within_ops))
    stop = {id(t) for t in stop_at_ts}
    found: list[Any] = []
    waiting = list(dict.fromkeys(seeds))
    seen = set(waiting)
    while waiting:
        op = waiting.pop(0)
        found.append(op)
        following = [t.op for t in op.inputs if id(t) not in stop]
        following += op.control_inputs if control_inputs else []
        for other in following:
            allowed = (within is None or other in within) and (within_ops_fn is None or within_ops_fn(other))
            if other not in seen and allowed and (not only_differentiable or is_differentiable(other)):
                seen.add(other)
                waiting.append(other)
    return found if inclusive else [op for op in found if op not in seeds]
