# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Changes of connections, of tf.contrib.graph_editor."""
from __future__ import annotations

from typing import Any

from millrace.python._contrib import graph_select as select
from millrace.python._contrib.graph_view import SubGraphView, make_view
from millrace.python.framework import dtypes, ops
from millrace.python.ops import array_ops

_PREFIX = "geph"


def placeholder_name(t: Any = None, scope: Any = None, prefix: str = _PREFIX) -> str:
    """The name of the placeholder for a tensor: "scope/geph__name_0"."""
    if scope is not None:
        if not isinstance(scope, str):
            raise TypeError("scope must be a string or None: got %s" % type(scope))
        scope = scope + "/" if scope and not scope.endswith("/") else scope
    if t is None:
        return (scope or "") + prefix
    if not isinstance(t, ops.Tensor):
        raise TypeError("Expected a tf.Tenfor, got: %s" % type(t))
    folder, _, base = t.op.name.rpartition("/")
    if scope is None:
        scope = folder + "/" if folder else ""
    return "%s%s__%s_%d" % (scope, prefix, base, t.value_index)


def make_placeholder_from_tensor(t: Any, scope: Any = None, prefix: str = _PREFIX) -> Any:
    """A placeholder of the type and shape of a tensor."""
    return array_ops.placeholder(
        dtype=t.dtype.base_dtype, shape=t.shape, name=placeholder_name(t, scope, prefix)
    )


def make_placeholder_from_dtype_and_shape(
    dtype: Any, shape: Any = None, scope: Any = None, prefix: str = _PREFIX
) -> Any:
    """A placeholder."""
    return array_ops.placeholder(
        dtype=dtypes.as_dtype(dtype), shape=shape, name=placeholder_name(scope=scope, prefix=prefix)
    )


def _may_change(op: Any, can_modify: Any, cannot_modify: Any) -> bool:
    return (can_modify is None or op in can_modify) and (cannot_modify is None or op not in cannot_modify)


def _uses(t: Any, can_modify: Any, cannot_modify: Any) -> list[tuple[Any, int]]:
    """The operations, with the number of the input, that use a tensor and may be changed."""
    return [
        (op, i)
        for op in t.consumers()
        if _may_change(op, can_modify, cannot_modify)
        for i, other in enumerate(op.inputs)
        if other is t
    ]


def _reroute_ts(
    ts0: Any, ts1: Any, forth: bool, back: bool, can_modify: Any = None, cannot_modify: Any = None
) -> int:
    ts0, ts1 = select.make_list_of_t(ts0), select.make_list_of_t(ts1)
    if ts0 or ts1:
        select.get_unique_graph(ts0 + ts1)
    if len(ts0) != len(ts1):
        raise ValueError("Cannot handle different sizes: %d and %d" % (len(ts0), len(ts1)))
    can_modify = None if can_modify is None else set(select.make_list_of_op(can_modify))
    cannot_modify = None if cannot_modify is None else set(select.make_list_of_op(cannot_modify))
    changed = 0
    for t0, t1 in zip(ts0, ts1):
        if t0 is t1:
            continue
        t0.shape.assert_is_compatible_with(t1.shape)
        if t0.dtype.base_dtype != t1.dtype.base_dtype:
            raise ValueError("Types of %s and %s differ" % (t0.name, t1.name))
        uses0 = _uses(t0, can_modify, cannot_modify) if back else []
        uses1 = _uses(t1, can_modify, cannot_modify) if forth else []
        for op, i in uses1:
            op._update_input(i, t0)
        for op, i in uses0:
            op._update_input(i, t1)
        changed += len(uses0) + len(uses1)
    return changed


def swap_ts(ts0: Any, ts1: Any, can_modify: Any = None, cannot_modify: Any = None) -> int:
    """Swaps the consumers of the tensors of two lists.

    Args:
      ts0: tensors.
      ts1: as many tensors of the same types and shapes.
      can_modify: operations that may be changed; None: all.
      cannot_modify: operations that may not be changed.

    Returns:
      The number of inputs that have changed.
    """
    return _reroute_ts(ts0, ts1, True, True, can_modify, cannot_modify)


def reroute_ts(ts0: Any, ts1: Any, can_modify: Any = None, cannot_modify: Any = None) -> int:
    """Makes the consumers of each tensor of `ts1` use that of `ts0`; see swap_ts."""
    return _reroute_ts(ts0, ts1, True, False, can_modify, cannot_modify)


def _views(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    view0, view1 = make_view(sgv0), make_view(sgv1)
    select.check_graphs(view0, view1)
    return view0, view1


def _change_inputs(sgv0: Any, sgv1: Any, forth: bool, back: bool) -> tuple[SubGraphView, SubGraphView]:
    view0, view1 = _views(sgv0, sgv1)
    can_modify = view0.ops + view1.ops
    # A passthrough input is used outside of the view.
    for view in (view0, view1):
        can_modify += [op for t in view.passthroughs for op in t.consumers()]
    _reroute_ts(view0.inputs, view1.inputs, forth, back, can_modify)
    new0, new1 = view0.copy(), view1.copy()
    if forth:
        new1._input_ts = list(view0._input_ts)
    if back:
        new0._input_ts = list(view1._input_ts)
    return new0, new1


def swap_inputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """Swaps the inputs of two views."""
    return _change_inputs(sgv0, sgv1, True, True)


def reroute_inputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """Makes `sgv1` use the inputs of `sgv0`."""
    return _change_inputs(sgv0, sgv1, True, False)


def _change_outputs(sgv0: Any, sgv1: Any, forth: bool, back: bool) -> tuple[SubGraphView, SubGraphView]:
    view0, view1 = _views(sgv0, sgv1)
    _reroute_ts(view0.outputs, view1.outputs, forth, back, view0.consumers() + view1.consumers())
    return view0, view1


def swap_outputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """Swaps the consumers of the outputs of two views."""
    return _change_outputs(sgv0, sgv1, True, True)


def reroute_outputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """Makes the consumers of the outputs of `sgv1` use those of `sgv0`."""
    return _change_outputs(sgv0, sgv1, True, False)


def swap_ios(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """swap_inputs and swap_outputs."""
    swap_outputs(sgv0, sgv1)
    return swap_inputs(sgv0, sgv1)


def reroute_ios(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """reroute_inputs and reroute_outputs."""
    reroute_outputs(sgv0, sgv1)
    return reroute_inputs(sgv0, sgv1)


def add_control_inputs(op: Any, cops: Any) -> None:
    """Adds control inputs to an operation.

    Raises:
      TypeError: if `op` is no operation.
      ValueError: if one of them is a control input already.
    """
    if not isinstance(op, ops.Operation):
        raise TypeError("Expected a tf.Operation, got: %s" % type(op))
    cops = select.make_list_of_op(cops, allow_graph=False)
    for cop in cops:
        if cop in op.control_inputs:
            raise ValueError("%s is already a control_input of %s" % (cop.name, op.name))
    op._add_control_inputs(cops)


def remove_control_inputs(op: Any, cops: Any) -> None:
    """Removes control inputs of an operation.

    Raises:
      TypeError: if `op` is no operation.
      ValueError: if one of them is not a control input.
    """
    if not isinstance(op, ops.Operation):
        raise TypeError("Expected a tf.Operation, got: %s" % type(op))
    cops = select.make_list_of_op(cops, allow_graph=False)
    for cop in cops:
        if cop not in op.control_inputs:
            raise ValueError("%s is not a control_input of %s" % (op.name, cop.name))
    kept = [cop for cop in op.control_inputs if cop not in cops]
    op._remove_all_control_inputs()
    op._add_control_inputs(kept)


def detach_control_inputs(sgv: Any) -> None:
    """Removes control edges from operations outside a view to those in it."""
    view = make_view(sgv)
    for op in view.ops:
        outside = [cop for cop in op.control_inputs if cop not in view.ops]
        if outside:
            remove_control_inputs(op, outside)


def detach_control_outputs(sgv: Any, control_outputs: Any) -> None:
    """Removes control edges from operations of a view to those outside."""
    if not isinstance(control_outputs, select.ControlOutputs):
        raise TypeError("Expected a util.ControlOutputs, got: %s" % type(control_outputs))
    control_outputs.update()
    view = make_view(sgv)
    for op in view.ops:
        for cop in control_outputs.get(op):
            if cop not in view.ops:
                remove_control_inputs(cop, op)


def detach_inputs(sgv: Any, control_inputs: Any = False) -> tuple[SubGraphView, list[Any]]:
    """Replaces the inputs of a view by placeholders; returns the view and the placeholders."""
    view = make_view(sgv)
    with view.graph.as_default():
        placeholders = [
            array_ops.placeholder(dtype=t.dtype.base_dtype, shape=t.shape, name=placeholder_name(t))
            for t in view.inputs
        ]
    detached = reroute_inputs(SubGraphView(passthrough_ts=placeholders), view)[1] if placeholders else view
    if control_inputs:
        detach_control_inputs(detached)
    return detached, placeholders


def detach_outputs(sgv: Any, control_outputs: Any = None) -> tuple[SubGraphView, list[Any]]:
    """Makes consumers of a view read placeholders; returns the view of used outputs and the placeholders."""
    view = make_view(sgv)
    inside = set(view.ops)
    used = [i for i, t in enumerate(view.outputs) if any(op not in inside for op in t.consumers())]
    detached = view.remap_outputs(used)
    with view.graph.as_default():
        placeholders = [make_placeholder_from_tensor(t) for t in detached.outputs]
    if placeholders:
        reroute_ts(placeholders, detached.outputs, cannot_modify=view.ops)
    if control_outputs is not None:
        detach_control_outputs(detached, control_outputs)
    return detached, placeholders


def detach(
    sgv: Any, control_inputs: Any = False, control_outputs: Any = None, control_ios: Any = None
) -> tuple[SubGraphView, list[Any], list[Any]]:
    """Applies detach_inputs and detach_outputs; returns the view, and both lists of placeholders."""
    control_inputs, control_outputs = select.check_cios(control_inputs, control_outputs, control_ios)
    _, detached_inputs = detach_inputs(sgv, control_inputs)
    detached, detached_outputs = detach_outputs(sgv, control_outputs)
    return detached, detached_inputs, detached_outputs


def connect(sgv0: Any, sgv1: Any, disconnect_first: bool = False) -> tuple[SubGraphView, SubGraphView]:
    """Makes `sgv1` read the outputs of `sgv0`; with `disconnect_first`, nothing else reads them."""
    view0, view1 = _views(sgv0, sgv1)
    if disconnect_first:
        detach_outputs(view0)
    _reroute_ts(view0.outputs, view1.inputs, True, False, view1.ops)
    new1 = view1.copy()
    new1._input_ts = list(view0._output_ts)
    return view0, new1


def bypass(sgv: Any) -> tuple[SubGraphView, list[Any]]:
    """Makes the consumers of a view's outputs use its inputs; the view reads placeholders."""
    view = make_view(sgv)
    inputs = view.inputs
    detached, placeholders = detach_inputs(view)
    reroute_ts(inputs, detached.outputs)
    return detached, placeholders
