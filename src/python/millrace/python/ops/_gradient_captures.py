# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients in the body of a function that continue through the tensors that it captures."""
from __future__ import annotations

from typing import Any, Callable

from millrace.python.framework import _capture_graph
from millrace.python.framework import indexed_slices
from millrace.python.framework import ops
from millrace.python.ops import array_ops

# gradients_of(graph, ys, xs, grad_ys) -> gradients, of tensors of one graph.
GradientsOf = Callable[[Any, Any, Any, Any], list[Any]]


def is_needed(graph: Any, ys: Any, xs: Any) -> bool:
    """Whether tensors of graphs around a function's body are among the arguments."""
    if not isinstance(graph, _capture_graph.CaptureGraph):
        return False
    return any(t.graph is not graph for t in list(ys) + list(xs))


def gradients(graph: Any, ys: Any, xs: Any, grad_ys: Any, gradients_of: GradientsOf) -> list[Any]:
    """Gradients of ys with respect to xs, some of which belong to graphs that enclose `graph`.

    Operations whose gradients do not depend on the body are differentiated in their graph; the others get copies of
    their gradients in the body.

    Raises:
      ValueError: a tensor is of a graph that is not around the body.
    """
    for t in list(ys) + list(xs):
        if t.graph is not graph and not graph._is_outer(t.graph):
            raise ValueError("Tensor %s is not an element of this graph." % t)
    totals: list[list[Any]] = [[] for _ in xs]
    own = [i for i, y in enumerate(ys) if y.graph is graph]
    outer = [i for i, y in enumerate(ys) if y.graph is not graph]
    if outer:
        _add(totals, _of_outer(graph, [ys[i] for i in outer], xs, [grad_ys[i] for i in outer], gradients_of))
    if own:
        _add(totals, _of_own(graph, [ys[i] for i in own], xs, [grad_ys[i] for i in own], gradients_of))
    return [_sum(parts) for parts in totals]


def _add(totals: list[list[Any]], grads: Any) -> None:
    for parts, grad in zip(totals, grads):
        if grad is not None:
            parts.append(grad)


def _sum(parts: list[Any]) -> Any:
    from millrace.python.ops import math_ops

    if len(parts) < 2:
        return parts[0] if parts else None
    return math_ops.add_n([ops.convert_to_tensor(part) for part in parts])


def _at(graph: Any, tensors: Any, gradients_of: GradientsOf, ys: Any, grad_ys: Any) -> list[Any]:
    """Gradients in `graph`, by the functions above where graphs around it come in."""
    if is_needed(graph, ys, tensors):
        return gradients(graph, ys, tensors, grad_ys, gradients_of)
    at = [i for i, t in enumerate(tensors) if t.graph is graph]
    found = gradients_of(graph, ys, [tensors[i] for i in at], grad_ys)
    results: list[Any] = [None] * len(tensors)
    for i, grad in zip(at, found):
        results[i] = grad
    return results


def _of_outer(graph: Any, ys: Any, xs: Any, grad_ys: Any, gradients_of: GradientsOf) -> list[Any]:
    """The part of ys that are of the graph around, or further out."""
    around = graph._outer_graph
    inner_grads = {i: g for i, g in enumerate(grad_ys) if g is not None}
    if inner_grads:
        pairs = [(y, array_ops.ones_like(graph.capture(y)) if g is None else g) for y, g in zip(ys, grad_ys)]
        return _through(graph, [(_seen_from(around, y), g) for y, g in pairs], xs, gradients_of)
    with around.as_default():
        outer_xs = [i for i, x in enumerate(xs) if x.graph is not graph]
        found = _at(around, [xs[i] for i in outer_xs], gradients_of, ys, grad_ys)
    results: list[Any] = [None] * len(xs)
    for i, grad in zip(outer_xs, found):
        results[i] = _captured(graph, grad)
    return results


def _of_own(graph: Any, ys: Any, xs: Any, grad_ys: Any, gradients_of: GradientsOf) -> list[Any]:
    own_xs = [i for i, x in enumerate(xs) if x.graph is graph]
    arguments = list(graph.extra_args)
    found = gradients_of(graph, ys, [xs[i] for i in own_xs] + arguments, grad_ys)
    results: list[Any] = [None] * len(xs)
    for i, grad in zip(own_xs, found):
        results[i] = grad
    arrived = [
        (outer, grad) for outer, grad in zip(graph.extra_inputs, found[len(own_xs) :]) if grad is not None
    ]
    outer_xs = [i for i, x in enumerate(xs) if x.graph is not graph]
    for i, grad in zip(outer_xs, _through(graph, arrived, [xs[i] for i in outer_xs], gradients_of)):
        results[i] = grad
    return results


def _seen_from(graph: Any, tensor: Any) -> Any:
    return tensor if tensor.graph is graph else graph.capture(tensor)


def _captured(graph: Any, grad: Any) -> Any:
    if isinstance(grad, indexed_slices.IndexedSlices):
        parts = (grad.values, grad.indices, grad.dense_shape)
        return indexed_slices.IndexedSlices(*[None if t is None else graph.capture(t) for t in parts])
    return None if grad is None else graph.capture(grad)


def _through(graph: Any, arrived: Any, xs: Any, gradients_of: GradientsOf) -> list[Any]:
    """Gradients with respect to outer xs, of gradients in `graph` that arrived at tensors of the graph around it."""
    if not arrived or not xs:
        return [None] * len(xs)
    around = graph._outer_graph
    dense = [(outer, ops.convert_to_tensor(grad)) for outer, grad in arrived]
    first = around._num_ids
    with around.as_default(), ops.control_dependencies(None):
        stand_ins = [array_ops.placeholder(g.dtype, g.shape, name="arriving") for _, g in dense]
        found = _at(around, xs, gradients_of, [outer for outer, _ in dense], stand_ins)
    made: dict[Any, Any] = {stand_in: g for stand_in, (_, g) in zip(stand_ins, dense)}
    for op in around._operations():
        if op._id_value <= first or not any(t in made for t in op.inputs):
            continue
        if op.type in ("Enter", "NextIteration", "RefEnter"):
            raise NotImplementedError(
                "Gradients through a loop of the graph around a function, in the function"
            )
        copy = graph._create_op_internal(
            op.type, [made.get(t, t) for t in op.inputs], name=op.name, attrs=_attributes(op)
        )
        for old, new in zip(op.outputs, copy.outputs):
            made[old] = new
    return [_mapped(graph, grad, made) for grad in found]


def _attributes(op: Any) -> dict[str, Any]:
    return {name: value for name, value in op.node_def.attr.items() if name != "_class"}


def _mapped(graph: Any, grad: Any, made: dict[Any, Any]) -> Any:
    if isinstance(grad, indexed_slices.IndexedSlices):
        parts = (grad.values, grad.indices, grad.dense_shape)
        return indexed_slices.IndexedSlices(
            *[None if t is None else made[t] if t in made else graph.capture(t) for t in parts]
        )
    if grad is None:
        return None
    found = made.get(grad)
    return found if found is not None else graph.capture(grad)
