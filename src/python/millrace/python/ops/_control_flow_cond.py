# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.cond and the context of its branches."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import control_flow_util as util
from millrace.python.ops._control_flow_base import ControlFlowContext
from millrace.python.ops._control_flow_base import _SwitchRefOrTensor
from millrace.python.ops._control_flow_base import _convert_flows_to_tensorarrays
from millrace.python.ops._control_flow_base import _convert_tensorarray_to_flow
from millrace.python.ops._control_flow_base import merge
from millrace.python.ops._control_flow_base import no_op
from millrace.python.ops._control_flow_base import switch
from millrace.python.ops._control_flow_groups import with_dependencies
from millrace.python.util import nest


def _new_summaries_wait(count_before: int) -> Any:
    """Takes the summaries made in a branch out of their collection; returns them."""
    collection = ops.get_collection_ref(ops.GraphKeys._SUMMARY_COLLECTION)
    new = collection[count_before:]
    del collection[count_before:]
    return new


class CondContext(ControlFlowContext):
    """One branch of a condition: `branch` 1 runs where `pred` is true, 0 where it is false."""

    def __init__(
        self,
        pred: Any = None,
        pivot: Any = None,
        branch: int | None = None,
        name: str = "cond_text",
        context_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        self._name = ops.get_default_graph().unique_name(name)
        if context_def:
            self._init_from_proto(context_def, import_scope=import_scope)
            return
        ControlFlowContext.__init__(self)
        self._pred = pred
        self._pivot = pivot
        self._branch = branch
        self._values.add(pred.name)
        self._external_values[pred.name] = pred
        self._values.add(pivot.name)
        pivot.op._set_control_flow_context(self)

    def _init_from_proto(self, context_def: Any, import_scope: str | None = None) -> None:
        g = ops.get_default_graph()
        self._name = ops.prepend_name_scope(context_def.context_name, import_scope)
        self._pred = g.as_graph_element(ops.prepend_name_scope(context_def.pred_name, import_scope))
        self._pivot = g.as_graph_element(ops.prepend_name_scope(context_def.pivot_name, import_scope))
        self._branch = context_def.branch
        ControlFlowContext.__init__(self, values_def=context_def.values_def, import_scope=import_scope)

    @property
    def pred(self) -> Any:
        """The condition."""
        return self._pred

    @property
    def pivot(self) -> Any:
        """The tensor that is available in this branch only."""
        return self._pivot

    @property
    def branch(self) -> Any:
        """1 for the true branch, 0 for the false branch."""
        return self._branch

    @property
    def grad_state(self) -> Any:
        """The gradient state of the surrounding loop."""
        ctxt = self.GetWhileContext()
        return ctxt.grad_state if ctxt is not None else None

    @property
    def back_prop(self) -> bool:
        """Whether gradients may be taken through the loop around."""
        ctxt = self.GetWhileContext()
        return ctxt.back_prop if ctxt is not None else False

    def GetControlPivot(self) -> Any:
        """The tensor that ops without inputs wait for."""
        return self._pivot

    def IsCondContext(self) -> bool:
        """True."""
        return True

    def to_proto(self, export_scope: str | None = None) -> Any:
        """A CondContextDef of the branch, None where it is not in `export_scope`."""
        from millrace.core.protobuf import control_flow_pb2

        if export_scope is not None and not self.name.startswith(export_scope):
            return None
        context_def = control_flow_pb2.CondContextDef()
        context_def.context_name = ops.strip_name_scope(self.name, export_scope)
        context_def.pred_name = ops.strip_name_scope(self._pred.name, export_scope)
        context_def.pivot_name = ops.strip_name_scope(self._pivot.name, export_scope)
        context_def.branch = self._branch
        context_def.values_def.MergeFrom(super()._to_values_def(export_scope))
        for nested in self._nested_contexts:
            nested_def = context_def.nested_contexts.add()
            nested.to_control_flow_context_def(nested_def)  # type: ignore[attr-defined]
        return context_def

    @staticmethod
    def from_proto(context_def: Any, import_scope: str | None = None) -> Any:
        """A context made from a CondContextDef, and those nested in it."""
        from millrace.python.ops._control_flow_while import from_control_flow_context_def

        ret = CondContext(context_def=context_def, import_scope=import_scope)
        ret.Enter()
        for nested_def in context_def.nested_contexts:
            from_control_flow_context_def(nested_def, import_scope=import_scope)
        ret.Exit()
        return ret

    def to_control_flow_context_def(self, context_def: Any, export_scope: str | None = None) -> None:
        """Writes the branch into a ControlFlowContextDef."""
        context_def.cond_ctxt.CopyFrom(self.to_proto(export_scope=export_scope))

    def _see(self, names: Any) -> None:
        """Makes values known to this context and those around it."""
        ctxt: Any = self
        while ctxt is not None:
            ctxt._values.update(names)
            ctxt = ctxt._outer_context

    def AddValue(self, val: Any) -> Any:
        """Makes a value available in the branch, by a Switch where it comes from outside."""
        if val.name in self._values:
            return self._external_values.get(val.name, val)
        result = val
        self._values.add(val.name)
        if self._outer_context:
            result = self._outer_context.AddValue(val)
            self._values.add(result.name)
            self._external_values[result.name] = result
        with ops.control_dependencies(None):
            result = _SwitchRefOrTensor(result, self._pred)[self._branch]
            if self._outer_context:
                self._outer_context.AddInnerOp(result.op)
        result.op.graph.prevent_fetching(result.op)
        result.op._set_control_flow_context(self)
        self._see([result.name])
        self._external_values[val.name] = result
        return result

    def AddOp(self, op: Any) -> None:
        """Routes the inputs of a new op into the branch; one without inputs waits for the pivot."""
        if not op.inputs:
            self._RemoveExternalControlEdges(op)
            if not any(util.OpInContext(input_op, self) for input_op in op.control_inputs):
                op._add_control_input(self._pivot.op)
        else:
            for index, x in enumerate(list(op.inputs)):
                # The back edge of an imported loop is in this context, though it is not seen yet.
                if op.type == "Merge" and x.op.type == "NextIteration":
                    continue
                real_x = self.AddValue(x)
                if real_x is not x:
                    op._update_input(index, real_x)
            self._RemoveExternalControlEdges(op)
            if op.type == "SymbolicGradient" or op.graph._is_function(op.type):
                op._add_control_input(self._pivot.op)
        self._see([x.name for x in op.outputs])
        if self._outer_context or not util.IsLoopExit(op):
            op.graph.prevent_fetching(op)
        if self._outer_context:
            self._outer_context.AddInnerOp(op)

    def _ProcessOutputTensor(self, val: Any) -> Any:
        """The tensor for a returned one in the branch; a tensor from outside is switched here."""
        if val.name in self._values:
            return self._external_values.get(val.name, val)
        real_val = val
        self._values.add(val.name)
        if self._outer_context:
            real_val = self._outer_context.AddValue(val)
            self._values.add(real_val.name)
            self._external_values[real_val.name] = real_val
        real_val = _SwitchRefOrTensor(real_val, self._pred)[self._branch]
        self._external_values[val.name] = real_val
        return real_val

    def _BuildCondTensor(self, v: Any) -> Any:
        if isinstance(v, ops.Operation):
            return with_dependencies([v], self._pivot)
        v = _convert_tensorarray_to_flow(v)
        return self._ProcessOutputTensor(ops.convert_to_tensor(v))

    def BuildCondBranch(self, fn: Any) -> tuple[Any, Any]:
        """Calls the function of the branch; returns its result and the tensors that represent it."""
        count = len(ops.get_collection(ops.GraphKeys._SUMMARY_COLLECTION))
        original_result = fn()
        if len(ops.get_collection(ops.GraphKeys._SUMMARY_COLLECTION)) > count:
            with ops.control_dependencies(_new_summaries_wait(count)):
                if original_result is None:
                    return no_op(), None
                if not isinstance(original_result, ops.Operation):
                    original_result = nest.map_structure(
                        array_ops.identity, original_result, expand_composites=True
                    )
        if original_result is None:
            return None, None
        result = nest.map_structure(self._BuildCondTensor, original_result, expand_composites=True)
        if not isinstance(result, (list, tuple)):
            result = [result]
        return original_result, result


def _UnpackIfSingleton(res: Any) -> Any:
    if isinstance(res, (list, tuple)) and len(res) == 1:
        return res[0]
    return res


def _build_branch(pred: Any, pivot: Any, branch: int, fn: Any, fn_name: str) -> tuple[Any, Any, Any]:
    """Builds one branch; returns its context, the function's result and the tensors for it."""
    context = CondContext(pred, pivot, branch=branch)
    try:
        context.Enter()
        original, result = context.BuildCondBranch(fn)
        if original is None:
            raise ValueError("%s must have a return value." % fn_name)
        context.ExitResult(result)
    finally:
        context.Exit()
    return context, original, result


def cond(
    pred: Any,
    true_fn: Any = None,
    false_fn: Any = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Any = None,
    fn2: Any = None,
) -> Any:
    """Runs `true_fn` where `pred` is true, else `false_fn`; only ops made in the function are conditional.

    Args:
      pred: a boolean scalar tensor.
      true_fn, false_fn: functions without arguments that return (nested structures of) tensors of the same
        number and types.
      strict: whether a list or tuple of one element is returned as it is.
      name: name scope.
      fn1, fn2: older names of the functions.

    Returns:
      the tensors that the function of the branch taken returns.

    Raises:
      TypeError: a function is not callable, or `pred` is a Python bool.
      ValueError: the functions return nothing or different structures or types.
    """
    if fn1 is not None:
        if true_fn is not None:
            raise TypeError("cond(): true_fn and fn1 may not be set simultaneously.")
        true_fn = fn1
    elif true_fn is None:
        raise TypeError("cond(): true_fn argument required")
    if fn2 is not None:
        if false_fn is not None:
            raise TypeError("cond(): false_fn and fn2 may not be set simultaneously.")
        false_fn = fn2
    elif false_fn is None:
        raise TypeError("cond(): false_fn argument required")
    if not callable(true_fn):
        raise TypeError("true_fn must be callable.")
    if not callable(false_fn):
        raise TypeError("false_fn must be callable.")

    if ops.executing_eagerly():
        result = true_fn() if pred else false_fn()
        return result if strict else _UnpackIfSingleton(result)
    if util.EnableControlFlowV2(ops.get_default_graph()):
        from millrace.python.ops import cond_v2

        return cond_v2.cond_v2(pred, true_fn, false_fn, name)
    with ops.name_scope(name, "cond", [pred]):
        if isinstance(pred, bool):
            raise TypeError("pred must not be a Python bool")
        p_2, p_1 = switch(pred, pred)
        pivot_1 = array_ops.identity(p_1, name="switch_t")
        pivot_2 = array_ops.identity(p_2, name="switch_f")
        pred = array_ops.identity(pred, name="pred_id")
        for tensor in (p_1, p_2, pivot_1, pivot_2, pred):
            tensor.op.graph.prevent_fetching(tensor.op)
        context_t, orig_res_t, res_t = _build_branch(pred, pivot_1, 1, true_fn, "true_fn")
        context_f, orig_res_f, res_f = _build_branch(pred, pivot_2, 0, false_fn, "false_fn")
        if not strict:
            orig_res_t = _UnpackIfSingleton(orig_res_t)
            orig_res_f = _UnpackIfSingleton(orig_res_f)
        orig_res_t, orig_res_f, res_t, res_f = _with_equal_indices(orig_res_t, orig_res_f, res_t, res_f)
        try:
            nest.assert_same_structure(orig_res_t, orig_res_f, expand_composites=True)
        except TypeError as e:
            raise TypeError("Incompatible return types of true_fn and false_fn: {}".format(e)) from e
        except ValueError as e:
            raise ValueError("Incompatible return values of true_fn and false_fn: {}".format(e)) from e
        if not res_t:
            raise ValueError("true_fn and false_fn must return at least one result.")
        flat_t = nest.flatten(res_t, expand_composites=True)
        flat_f = nest.flatten(res_f, expand_composites=True)
        for x, y in zip(flat_t, flat_f):
            if x.dtype.base_dtype != y.dtype.base_dtype:
                raise ValueError(
                    "Outputs of true_fn and false_fn must have the same type: %s, %s"
                    % (x.dtype.name, y.dtype.name)
                )
        merges = [merge(pair)[0] for pair in zip(flat_f, flat_t)]
        merges = _convert_flows_to_tensorarrays(nest.flatten(orig_res_t, expand_composites=True), merges)
        if context_t.outer_context is None:
            ops.add_to_collection(ops.GraphKeys.COND_CONTEXT, context_t)
            ops.add_to_collection(ops.GraphKeys.COND_CONTEXT, context_f)
        merges = nest.pack_sequence_as(structure=orig_res_t, flat_sequence=merges, expand_composites=True)
        return merges if strict else _UnpackIfSingleton(merges)


def _with_equal_indices(orig_t: Any, orig_f: Any, res_t: Any, res_f: Any) -> tuple[Any, Any, Any, Any]:
    """The results of two branches where IndexedSlices have indices of one type."""
    flat = [nest.flatten(structure) for structure in (orig_t, orig_f, res_t, res_f)]
    if len({len(parts) for parts in flat}) > 1:
        return orig_t, orig_f, res_t, res_f
    changed = False
    for i, (a, b) in enumerate(zip(flat[2], flat[3])):
        made = _cast_indexed_slice_indices(a, b)
        if made != (a, b):
            changed = True
            flat[0][i], flat[1][i] = flat[2][i], flat[3][i] = made
    if not changed:
        return orig_t, orig_f, res_t, res_f
    return tuple(  # type: ignore[return-value]
        nest.pack_sequence_as(structure, parts)
        for structure, parts in zip((orig_t, orig_f, res_t, res_f), flat)
    )


def cond_for_tf_v2(pred: Any, true_fn: Any = None, false_fn: Any = None, name: str | None = None) -> Any:
    """`cond` that returns structures as they are."""
    return cond(pred, true_fn=true_fn, false_fn=false_fn, strict=True, name=name)


def _cast_indexed_slice_indices(a: Any, b: Any) -> tuple[Any, Any]:
    """Makes the indices of two IndexedSlices one type."""
    from millrace.python.framework import dtypes
    from millrace.python.framework import indexed_slices
    from millrace.python.ops import math_ops

    slices = indexed_slices.IndexedSlices
    if isinstance(a, slices) and isinstance(b, slices) and a.indices.dtype != b.indices.dtype:
        a, b = (slices(x.values, math_ops.cast(x.indices, dtypes.int64), x.dense_shape) for x in (a, b))
    return a, b
