# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The implementation of tf.gradients by the engine."""
from __future__ import annotations

import contextlib
from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import indexed_slices
from millrace.python.framework import ops
from millrace.python.ops import _gradient_calls
from millrace.python.ops import _gradient_captures
from millrace.python.ops import _gradient_frames
from millrace.python.ops import array_ops
from millrace.python.ops import control_flow_util
from millrace.python.ops import default_gradient
from millrace.python.ops import unconnected_gradients as _unconnected

UnconnectedGradients = _unconnected.UnconnectedGradients


class AggregationMethod:
    """The way in which gradients of several consumers of a tensor are added up.

    ADD_N: by one AddN. EXPERIMENTAL_TREE: by additions of two. EXPERIMENTAL_ACCUMULATE_N: by AccumulateNV2.
    """

    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


def _AsList(x: Any) -> list[Any]:
    return list(x) if isinstance(x, (list, tuple)) else [x]


def IsTrainable(tensor_or_dtype: Any) -> bool:
    """Whether gradients flow through tensors of a type."""
    dtype = tensor_or_dtype if isinstance(tensor_or_dtype, dtypes.DType) else tensor_or_dtype.dtype
    return dtypes.as_dtype(dtype).base_dtype in (
        dtypes.float16, dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128, dtypes.resource,
        dtypes.variant, dtypes.bfloat16,
    )  # fmt: skip


_IsTrainable = IsTrainable
_call_engine_gradient = _gradient_calls.call_engine_gradient


@contextlib.contextmanager
def _maybe_colocate_with(op: Any, gradient_uid: Any, colocate_gradients_with_ops: bool) -> Any:
    """A context in which operations are colocated with `op` if `colocate_gradients_with_ops`."""
    if colocate_gradients_with_ops:
        with ops._colocate_with_for_gradient(op, gradient_uid, ignore_existing=True):
            yield
    else:
        yield


def _type_name(tensor: Any) -> str:
    return dtypes.as_dtype(tensor.dtype).name


def _check_grad_y(grad_y: Any, y: Any) -> None:
    """Raises TypeError where a given gradient has another kind of type than its tensor."""
    if y.dtype.is_floating or y.dtype.is_integer:
        if not grad_y.dtype.is_floating and not grad_y.dtype.is_integer:
            raise TypeError(
                "Gradient type %s generated for real or integer-valued tensor %s with type %s must be real or integer"
                % (_type_name(grad_y), y, _type_name(y))
            )
    elif y.dtype.is_complex:
        if not grad_y.dtype.is_complex:
            raise TypeError(
                "Gradient type %s generated for complex-valued tensor %s with type %s must be real"
                % (_type_name(grad_y), y, _type_name(y))
            )
    elif y.dtype == dtypes.variant:
        if grad_y.dtype != dtypes.variant:
            raise TypeError(
                "Gradient type %s generated for variant tensor %s with type %s must be variant"
                % (_type_name(grad_y), y, _type_name(y))
            )
    elif y.dtype == dtypes.resource:
        if grad_y.dtype == dtypes.resource:
            raise TypeError("Input gradient %s for resource tensor %s should not be a resource" % (grad_y, y))
    else:
        raise TypeError(
            "Tensor %s with type %s must be numeric to obtain a default gradient" % (y, _type_name(y))
        )


def _DefaultGradYs(
    grad_ys: Any, ys: Any, colocate_gradients_with_ops: bool, gradient_uid: Any = "__unsupported__"
) -> Any:
    """The initial gradients of the ys; None where the engine makes ones.

    Raises:
      ValueError: the lists have different lengths.
      TypeError: a type does not fit.
    """
    if len(grad_ys) != len(ys):
        raise ValueError("Passed %d grad_ys for %d ys" % (len(grad_ys), len(ys)))
    grad_ys = ops.convert_n_to_tensor_or_indexed_slices(grad_ys, name="grad_y")
    made: list[Any] = []
    for i, (y, grad_y) in enumerate(zip(ys, grad_ys)):
        if y is None:
            raise ValueError("None values not supported.")
        with _maybe_colocate_with(y.op, gradient_uid, colocate_gradients_with_ops):
            if grad_y is None:
                if y.dtype.is_complex:
                    raise TypeError("Gradients of complex tensors must set grad_ys (y.dtype = %r)" % y.dtype)
                made.append(None)
                continue
            _check_grad_y(grad_y, y)
            if isinstance(grad_y, indexed_slices.IndexedSlices):
                made.append(
                    indexed_slices.IndexedSlices(
                        indices=array_ops.identity(grad_y.indices, name="grad_ys_%d_indices" % i)
                        if isinstance(grad_y.indices, ops.Tensor)
                        else grad_y.indices,
                        values=array_ops.identity(grad_y.values, name="grad_ys_%d_values" % i)
                        if isinstance(grad_y.values, ops.Tensor)
                        else grad_y.values,
                        dense_shape=array_ops.identity(grad_y.dense_shape, name="grad_ys_%d_shape" % i)
                        if isinstance(grad_y.dense_shape, ops.Tensor)
                        else grad_y.dense_shape,
                    )
                )
            else:
                made.append(array_ops.identity(grad_y, name="grad_ys_%d" % i))
    return made


def _method_number(aggregation_method: Any) -> int:
    if aggregation_method is None:
        return AggregationMethod.DEFAULT
    if aggregation_method not in (0, 1, 2):
        raise ValueError("Invalid aggregation_method specified %s." % aggregation_method)
    return int(aggregation_method)


def _device(graph: Any, colocate: bool) -> Any:
    """The device that the engine sets on new operations: none by default, that of the operation if colocated."""
    del graph
    return None if colocate else ""


class _Options:
    """The state that all engine calls of one tf.gradients share."""

    def __init__(self, scope: str, colocate: bool, gate: bool, method: int) -> None:
        self.scope, self.colocate, self.gate, self.method = scope, colocate, gate, method


def _compute(
    graph: Any, ys: Any, xs: Any, grad_ys: Any, stops: Any, zeros: bool, options: _Options
) -> tuple[Any, Any]:
    """Gradients by the engine, and the operations that were made for them."""
    zeros = zeros and all(x.dtype != dtypes.resource for x in xs)  # zeros for resources are made later
    flags = (1 if options.colocate else 0) | (2 if options.gate else 0) | (4 if zeros else 0)
    given = None
    if any(grad is not None for grad in grad_ys):
        given = [_gradient_calls.to_engine(grad) for grad in grad_ys]
    stops = list(stops) + graph._exits_without_gradient
    while True:
        try:
            with _gradient_calls.computation(graph, options.colocate) as context:
                results, fresh = graph._gradients(
                    ys,
                    xs,
                    given,
                    stops,
                    options.scope,
                    _device(graph, options.colocate),
                    flags,
                    options.method,
                )
            break
        except LookupError as error:
            if not _gradient_calls.declare_missing(graph, str(error)):
                raise
    calls = [op for op in fresh if op.type in _CALLS]
    if calls:
        graph._adopt_functions()
        for op in calls:
            assert op.inputs is not None  # updates the outputs: the engine may have added some
    _gradient_frames.settle(graph, fresh, context, apply_scopes=True, colocate=options.colocate)
    _note_originals(graph, fresh, options.scope + "/" if options.scope else "")
    return [_gradient_calls.from_engine(result) for result in results], fresh


# Their gradients may call functions that the engine made.
_CALLS = frozenset(
    ("If", "StatelessIf", "Case", "While", "StatelessWhile", "PartitionedCall", "StatefulPartitionedCall")
)


def _note_originals(graph: Any, fresh: list[Any], scope: str) -> None:
    """Records for new operations the operation whose gradient they are part of, according to their names."""
    nodes = graph._nodes_by_name
    known: dict[str, Any] = {}
    start = len(scope)
    for op in fresh:
        name = op.name
        end = name.rfind("_grad/")
        if end > start:
            source = name[start:end]
            if source not in known:
                known[source] = nodes.get(source)
            if known[source] is not None:
                op._original_op = known[source]


def _loop_of(tensor: Any) -> Any:
    context = control_flow_util.GetOutputContext(tensor.op)
    return None if context is None else context.GetWhileContext()


def _gradients_at(
    graph: Any, context: Any, ys: Any, xs: Any, grad_ys: Any, stops: Any, zeros: bool, options: _Options
) -> Any:
    """Gradients of ys in the loop being built with respect to xs, some of which are outside of it.

    The part within the loop ends at the tensors that enter it. The part outside is differentiated outside,
    with placeholders for the gradients of these tensors; the operations that depend on placeholders are then
    moved into the loop.
    """
    loop = None if context is None else context.GetWhileContext()
    while context is not None and context is not loop and not context.IsWhileContext():
        context = context.outer_context
    inside = [x for x in xs if loop is None or _loop_of(x) is loop]
    if loop is None or len(inside) == len(xs) or not any(_loop_of(y) is loop for y in ys):
        return _compute(graph, ys, xs, grad_ys, stops, zeros, options)[0]
    entering = {}
    for op in loop._graph_enters():
        if IsTrainable(op.outputs[0]):
            entering[op.outputs[0]] = op.inputs[0]
    targets = inside + list(entering)
    found, _ = _compute(graph, ys, targets, grad_ys, stops, zeros, options)
    results = dict(zip(map(id, inside), found))
    arrived = [
        (outer, grad) for outer, grad in zip(entering.values(), found[len(inside) :]) if grad is not None
    ]
    outside = [x for x in xs if id(x) not in results]
    gradients_outside = (
        _outside(graph, loop, arrived, outside, stops, options) if arrived else [None] * len(outside)
    )
    for x, grad in zip(outside, gradients_outside):
        if grad is None and zeros:
            grad = default_gradient.zeros_like(x)
        results[id(x)] = grad
    return [results[id(x)] for x in xs]


def _outside(graph: Any, loop: Any, arrived: Any, xs: Any, stops: Any, options: _Options) -> Any:
    """Gradients with respect to tensors outside of `loop`, given those of the tensors that enter it."""
    current = graph._control_flow_context
    direct: dict[int, list[Any]] = {}
    through: list[tuple[Any, Any]] = []
    for outer, grad in arrived:
        if outer.op.inputs:
            through.append((outer, ops.convert_to_tensor(grad)))
        else:
            direct.setdefault(id(outer), []).append(grad)
    gradients: list[Any] = [None] * len(xs)
    if through:
        graph._control_flow_context = loop.outer_context
        first = graph._num_ids
        try:
            with ops.control_dependencies(None), graph.name_scope(options.scope):
                stand_ins = [array_ops.placeholder(g.dtype, g.shape, name="arriving") for _, g in through]
            gradients = _gradients_at(
                graph, loop.outer_context, [t for t, _ in through], xs, stand_ins, stops, False, options
            )
        finally:
            graph._control_flow_context = current
        fresh = [op for op in graph._operations() if op._id_value > first]
        seeds = {stand_in: g for stand_in, (_, g) in zip(stand_ins, through)}
        _gradient_frames.move_into(graph, fresh, seeds, current)
        gradients = [seeds.get(grad, grad) if isinstance(grad, ops.Tensor) else grad for grad in gradients]
    for i, x in enumerate(xs):
        parts = direct.get(id(x), []) + ([] if gradients[i] is None else [gradients[i]])
        if parts:
            gradients[i] = parts[0] if len(parts) == 1 else _sum(parts)
    return gradients


def _sum(parts: list[Any]) -> Any:
    from millrace.python.ops import math_ops

    return math_ops.add_n([ops.convert_to_tensor(part) for part in parts])


def _tensor_of(x: Any) -> Any:
    """The handle of a resource variable; another value as it is."""
    from millrace.python.ops import resource_variable_ops

    return x.handle if resource_variable_ops.is_resource_variable(x) else x


def _captured(graph: Any, tensor: Any) -> Any:
    """The tensor in a function's body that represents one of another graph, or None."""
    if tensor.graph is graph:
        return tensor
    captured = getattr(graph, "_captured", None)
    if captured is not None:
        found = captured.get(id(tensor))
        if found is not None:
            return found
    return None


def _GradientsHelper(
    ys: Any, xs: Any, grad_ys: Any = None, name: str = "gradients", colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False, aggregation_method: Any = None, stop_gradients: Any = None,
    unconnected_gradients: Any = UnconnectedGradients.NONE, src_graph: Any = None,
) -> list[Any]:  # fmt: skip
    """Makes the gradients of `gradients` in `src_graph`, the default graph when None."""
    graph = src_graph if src_graph is not None else ops.get_default_graph()
    try:
        unconnected_gradients = UnconnectedGradients(unconnected_gradients)
    except ValueError:
        raise ValueError("Unknown value for unconnected_gradients: %r" % unconnected_gradients) from None
    graph._check_not_finalized()
    ys, xs = _AsList(ys), _AsList(xs)
    stop_gradients = [] if stop_gradients is None else _AsList(stop_gradients)
    grad_ys = [None] * len(ys) if grad_ys is None else _AsList(grad_ys)
    method = _method_number(aggregation_method)
    with ops.name_scope(
        name, "gradients", list(ys) + list(xs) + list(stop_gradients) + list(grad_ys)
    ) as scope:
        if src_graph is None:
            graph = ops.get_default_graph()
        ys = ops.convert_n_to_tensor_or_indexed_slices(ys, name="y")
        xs = ops.internal_convert_n_to_tensor_or_indexed_slices(
            [_tensor_of(x) for x in xs], name="x", as_ref=True
        )
        grad_ys = _DefaultGradYs(grad_ys, ys, colocate_gradients_with_ops)
        stops = [ops.convert_to_tensor(_tensor_of(s)) for s in stop_gradients]
        grads = [None] * len(xs)
        if not ys or not xs:
            return grads
        options = _Options(scope[:-1], bool(colocate_gradients_with_ops), bool(gate_gradients), method)
        zeros = unconnected_gradients is UnconnectedGradients.ZERO
        flat_ys = [y.values if isinstance(y, indexed_slices.IndexedSlices) else y for y in ys]
        flat_xs = [x.values if isinstance(x, indexed_slices.IndexedSlices) else x for x in xs]
        stops = [s for s in (_captured(graph, s) for s in stops) if s is not None]

        def gradients_of(graph: Any, ys: Any, xs: Any, grad_ys: Any) -> list[Any]:
            own = [s for s in stops if s.graph is graph]
            return _gradients_at(graph, graph._control_flow_context, ys, xs, grad_ys, own, zeros, options)

        if _gradient_captures.is_needed(graph, flat_ys, flat_xs):
            grads = _gradient_captures.gradients(graph, flat_ys, flat_xs, grad_ys, gradients_of)
        else:
            grads = gradients_of(graph, flat_ys, flat_xs, grad_ys)
        if zeros:
            grads = [default_gradient.zeros_like(x) if g is None else g for g, x in zip(grads, flat_xs)]
        return grads
