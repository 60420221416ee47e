# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The context of the body of a loop."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.ops import array_ops
from millrace.python.ops import control_flow_util as util
from millrace.python.ops._control_flow_base import ControlFlowContext
from millrace.python.ops._control_flow_base import _Enter
from millrace.python.ops._control_flow_base import _Identity
from millrace.python.ops._control_flow_base import _NextIteration
from millrace.python.ops._control_flow_base import _ShapeLessThanOrEqual
from millrace.python.ops._control_flow_base import _SwitchRefOrTensor
from millrace.python.ops._control_flow_base import _convert_flows_to_tensorarrays
from millrace.python.ops._control_flow_base import _convert_tensorarray_to_flow
from millrace.python.ops._control_flow_base import exit as exit_op
from millrace.python.ops._control_flow_base import loop_cond
from millrace.python.ops._control_flow_base import merge
from millrace.python.ops._control_flow_cond import CondContext
from millrace.python.ops._control_flow_cond import _new_summaries_wait
from millrace.python.util import nest


def _SetShapeInvariants(input_vars: Any, enter_vars: Any, shapes: Any) -> None:
    """Sets the shapes of the loop variables to those that hold in all iterations."""
    if shapes is None:
        return
    flat_shapes = nest.flatten(shapes)
    if not all(isinstance(s, tensor_shape.TensorShape) for s in flat_shapes):
        raise ValueError("`shapes` must be a (possibly nested) list of shapes.")
    for inp, var, shape in zip(input_vars, enter_vars, flat_shapes):
        if not _ShapeLessThanOrEqual(inp.get_shape(), shape):
            raise ValueError(
                "The shape invariant specified for %s is not compatible with "
                "the initial shape of the loop variable. It enters the loop "
                "with shape %s, but the specified shape invariant is %s." % (inp.name, inp.get_shape(), shape)
            )
        var.set_shape(shape)


def _EnforceShapeInvariant(merge_var: Any, next_var: Any) -> None:
    """Raises ValueError where a loop variable has another shape after an iteration than before."""
    m_shape = merge_var.get_shape()
    n_shape = next_var.get_shape()
    if not _ShapeLessThanOrEqual(n_shape, m_shape):
        input_t = merge_var.op.inputs[0].op.inputs[0]
        raise ValueError(
            "Input tensor '%s' enters the loop with shape %s, but has shape %s "
            "after one iteration. To allow the shape to vary across iterations, "
            "use the `shape_invariants` argument of tf.while_loop to specify a "
            "less-specific shape." % (input_t.name, m_shape, n_shape)
        )


def _AddNextAndBackEdge(m: Any, v: Any, enforce_shape_invariant: bool = True) -> Any:
    """Adds the NextIteration of `v`, and the edge from it to the Merge `m`."""
    v = _NextIteration(ops.convert_to_tensor(v))
    if enforce_shape_invariant:
        _EnforceShapeInvariant(m, v)
    m.op._update_input(1, v)
    return v


class WhileContext(ControlFlowContext):
    """The frame of a loop. Values from outside come in through constant Enters."""

    def __init__(
        self,
        maximum_iterations: Any = None,
        parallel_iterations: int = 10,
        back_prop: bool = True,
        swap_memory: bool = False,
        name: str = "while_context",
        grad_state: Any = None,
        context_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        if context_def:
            self._init_from_proto(context_def, import_scope=import_scope)
        else:
            ControlFlowContext.__init__(self)
            if not isinstance(parallel_iterations, int) or parallel_iterations <= 0:
                raise ValueError(
                    "`parallel_iterations` must be a positive integer: %s" % (parallel_iterations,)
                )
            self._name = ops.get_default_graph().unique_name(name)
            self._maximum_iterations = maximum_iterations
            self._parallel_iterations = parallel_iterations
            self._back_prop = back_prop
            self._swap_memory = swap_memory
            self._pivot_for_pred: Any = None
            self._pivot_for_body: Any = None
            self._pivot: Any = None
            self._loop_exits: list[Any] = []
            self._loop_enters: list[Any] = []
            self._graph = ops.get_default_graph()
        self._grad_state = grad_state
        self._graph._frames[self._name] = self

    def _init_from_proto(self, context_def: Any, import_scope: str | None = None) -> None:
        g = ops.get_default_graph()

        def element(name: str) -> Any:
            return g.as_graph_element(ops.prepend_name_scope(name, import_scope))

        self._name = ops.prepend_name_scope(context_def.context_name, import_scope)
        self._maximum_iterations = (
            element(context_def.maximum_iterations_name) if context_def.maximum_iterations_name else None
        )
        self._parallel_iterations = context_def.parallel_iterations
        self._back_prop = context_def.back_prop
        self._swap_memory = context_def.swap_memory
        self._pivot_for_pred = element(context_def.pivot_for_pred_name)
        self._pivot_for_body = element(context_def.pivot_for_body_name)
        self._pivot = element(context_def.pivot_name)
        self._loop_exits = [element(name) for name in context_def.loop_exit_names]
        self._loop_enters = [element(name) for name in context_def.loop_enter_names]
        ControlFlowContext.__init__(self, values_def=context_def.values_def, import_scope=import_scope)
        if import_scope:
            # The frame keeps its name in the Enters of the imported graph only if both agree.
            for tensor_name in list(self._values):
                op = g.as_graph_element(tensor_name).op
                if util.IsLoopEnter(op):
                    op._set_attr_value("frame_name", self._name)
        self._graph = g

    @property
    def maximum_iterations(self) -> Any:
        """The largest number of iterations, a scalar tensor, or None."""
        return self._maximum_iterations

    @property
    def parallel_iterations(self) -> int:
        """The number of iterations that may run in parallel."""
        return self._parallel_iterations

    @property
    def back_prop(self) -> bool:
        """Whether gradients may be taken through the loop."""
        return self._back_prop

    @property
    def swap_memory(self) -> bool:
        """Whether what gradients need may be moved to the host."""
        return self._swap_memory

    @property
    def pivot(self) -> Any:
        """The LoopCond."""
        return self._pivot

    @property
    def loop_enters(self) -> list[Any]:
        """The Enters of the loop variables."""
        return self._loop_enters

    @property
    def loop_exits(self) -> list[Any]:
        """The Exits of the loop variables."""
        return self._loop_exits

    @property
    def grad_state(self) -> Any:
        """The gradient state of a loop of gradients, or None."""
        return self._grad_state

    def to_proto(self, export_scope: str | None = None) -> Any:
        """A WhileContextDef of the loop, None where it is not in `export_scope`."""
        from millrace.core.protobuf import control_flow_pb2

        if export_scope is not None and not self.name.startswith(export_scope):
            return None
        context_def = control_flow_pb2.WhileContextDef()
        context_def.context_name = ops.strip_name_scope(self.name, export_scope)
        context_def.parallel_iterations = self._parallel_iterations
        if self._maximum_iterations is not None:
            context_def.maximum_iterations_name = ops.strip_name_scope(
                self._maximum_iterations.name, export_scope
            )
        context_def.back_prop = self._back_prop
        context_def.swap_memory = self._swap_memory
        context_def.pivot_for_pred_name = ops.strip_name_scope(self._pivot_for_pred.name, export_scope)
        context_def.pivot_for_body_name = ops.strip_name_scope(self._pivot_for_body.name, export_scope)
        context_def.pivot_name = ops.strip_name_scope(self._pivot.name, export_scope)
        context_def.loop_exit_names.extend(
            [ops.strip_name_scope(t.name, export_scope) for t in self._loop_exits]
        )
        context_def.loop_enter_names.extend(
            [ops.strip_name_scope(t.name, export_scope) for t in self._loop_enters]
        )
        context_def.values_def.MergeFrom(super()._to_values_def(export_scope=export_scope))
        for nested in self._nested_contexts:
            nested.to_control_flow_context_def(context_def.nested_contexts.add())  # type: ignore[attr-defined]
        return context_def

    def to_control_flow_context_def(self, context_def: Any, export_scope: str | None = None) -> None:
        """Writes the loop into a ControlFlowContextDef."""
        context_def.while_ctxt.CopyFrom(self.to_proto(export_scope=export_scope))

    @staticmethod
    def from_proto(context_def: Any, import_scope: str | None = None) -> Any:
        """A context made from a WhileContextDef, and those nested in it."""
        ret = WhileContext(context_def=context_def, import_scope=import_scope)
        ret.Enter()
        for nested_def in context_def.nested_contexts:
            from_control_flow_context_def(nested_def, import_scope=import_scope)
        ret.Exit()
        return ret

    def GetWhileContext(self) -> Any:
        """The loop itself."""
        return self

    def GetControlPivot(self) -> Any:
        """The tensor that ops without inputs wait for, in the condition or in the body."""
        return self._pivot_for_body if self._pivot_for_body is not None else self._pivot_for_pred

    def _graph_enters(self) -> list[Any]:
        """The Enters of the loop's constant inputs."""
        return [t.op for t in self._external_values.values() if util.IsLoopConstantEnter(t.op)]

    def IsWhileContext(self) -> bool:
        """True."""
        return True

    def AddValue(self, val: Any) -> Any:
        """Makes a value available in the loop, by a constant Enter where it comes from outside."""
        if val.name in self._values or val.op._get_control_flow_context() is self:
            # The second case: part of a loop that is being imported into this context.
            return self._external_values.get(val.name, val)
        self._values.add(val.name)
        result = val
        if self._outer_context is not None:
            result = self._outer_context.AddValue(val)
        with ops.control_dependencies(None):
            enter = _Enter(
                result, self._name, is_constant=True, parallel_iterations=self._parallel_iterations
            )
            enter.graph.prevent_feeding(enter)
            if self._outer_context:
                self._outer_context.AddInnerOp(enter.op)
        self._FixControlInputsAndContext([enter])
        self._values.add(enter.name)
        self._external_values[val.name] = enter
        return enter

    def AddOp(self, op: Any) -> None:
        """Routes the inputs of a new op into the loop; one without inputs waits for the pivot."""
        if op.type in ("PartitionedCall", "StatefulPartitionedCall"):
            op._add_control_input(self.GetControlPivot().op)
        if not op.inputs:
            control_inputs, external_inputs = self._RemoveExternalControlEdges(op)
            if not control_inputs:
                op._add_control_input(self.GetControlPivot().op)
        else:
            for index, x in enumerate(list(op.inputs)):
                real_x = self.AddValue(x)
                if real_x is not x:
                    op._update_input(index, real_x)
            _, external_inputs = self._RemoveExternalControlEdges(op)
            self._MaybeAddControlDependency(op)
        for x in op.outputs:
            self._values.add(x.name)
        if external_inputs:
            # A control input from outside becomes a data input of the frame.
            with ops.control_dependencies(None):
                self.Enter()
                external_inputs = [array_ops.identity(x.outputs[0]).op for x in external_inputs if x.outputs]
                self.Exit()
            op._add_control_inputs(external_inputs)
        if self._outer_context or not util.IsLoopExit(op):
            op.graph.prevent_fetching(op)
            for x in op.outputs:
                op.graph.prevent_feeding(x)
        if self._outer_context:
            self._outer_context.AddInnerOp(op)

    def _MaybeAddControlDependency(self, op: Any) -> None:
        """Makes an op of invariant inputs wait for the pivot, so that it does not run after the last iteration."""
        if op.control_inputs:
            return
        free = (
            op.type == "SymbolicGradient"
            or op.graph._is_function(op.type)
            or all(util.IsLoopConstantEnter(x.op) for x in op.inputs)
        )
        if free:
            op._add_control_input(self.GetControlPivot().op)

    def _InitializeValues(self, values: Any) -> None:
        self._values = {x.name for x in values}

    def _enter_loop_vars(self, loop_vars: Any, shape_invariants: Any) -> list[Any]:
        """Makes the Enters of the loop variables."""
        self._InitializeValues(loop_vars)
        real_vars = loop_vars
        if self._outer_context:
            real_vars = [self._outer_context.AddValue(x) for x in loop_vars]
        with ops.control_dependencies(None):
            enter_vars = [
                _Enter(
                    x,
                    self._name,
                    is_constant=False,
                    parallel_iterations=self._parallel_iterations,
                    use_input_shape=(shape_invariants is None),
                )
                for x in real_vars
            ]
            for x in enter_vars:
                x.graph.prevent_feeding(x)
                if self._outer_context:
                    self._outer_context.AddInnerOp(x.op)
        outer_context = self._outer_context
        control_pivot = None
        while outer_context is not None and control_pivot is None:
            control_pivot = outer_context.GetControlPivot()
            outer_context = outer_context.outer_context
        if control_pivot is not None:
            # An invariant of the outer loop must not start this loop after the outer one's last iteration.
            for var in enter_vars:
                if util.IsLoopConstantEnter(var.op.inputs[0].op):
                    var.op._add_control_input(control_pivot.op)
        _SetShapeInvariants(real_vars, enter_vars, shape_invariants)
        self._FixControlInputsAndContext(enter_vars)
        self._InitializeValues(enter_vars)
        self._loop_enters = enter_vars
        return enter_vars

    def _call_body(self, body: Any, packed_vars: Any) -> Any:
        """Calls the body; summaries that it makes run with the iteration."""
        count = len(ops.get_collection(ops.GraphKeys._SUMMARY_COLLECTION))
        result = body(*packed_vars)
        if not nest.is_sequence_or_composite(result):
            result = [result]
        if len(ops.get_collection(ops.GraphKeys._SUMMARY_COLLECTION)) > count:
            from millrace.python.ops import tensor_array_ops

            with ops.control_dependencies(_new_summaries_wait(count)):
                result = nest.map_structure(
                    lambda x: x if isinstance(x, tensor_array_ops.TensorArray) else array_ops.identity(x),
                    result,
                    expand_composites=True,
                )
        # Variables are mostly a list and results a tuple: the outermost type may differ.
        nest.assert_same_structure(list(packed_vars), list(result), expand_composites=True)
        return result

    def _BuildLoop(
        self, pred: Any, body: Any, original_loop_vars: Any, loop_vars: Any, shape_invariants: Any
    ) -> tuple[Any, Any]:
        """Makes the ops of the loop; returns the results of the body, and the Exits."""
        flat_loop_vars = nest.flatten(original_loop_vars, expand_composites=True)

        def pack(tensors: Any) -> Any:
            return nest.pack_sequence_as(
                structure=original_loop_vars,
                flat_sequence=_convert_flows_to_tensorarrays(flat_loop_vars, tensors),
                expand_composites=True,
            )

        enter_vars = self._enter_loop_vars(loop_vars, shape_invariants)
        merge_vars = [merge([x, x])[0] for x in enter_vars]
        self._pivot_for_pred = merge_vars[0]
        c = ops.convert_to_tensor(pred(*pack(merge_vars)))
        self._pivot = loop_cond(c, name="LoopCond")
        switch_vars = [_SwitchRefOrTensor(x, self._pivot) for x in merge_vars]
        vars_for_body = [_Identity(x[1]) for x in switch_vars]
        self._pivot_for_body = vars_for_body[0]
        body_result = self._call_body(body, pack(vars_for_body))
        result = [_convert_tensorarray_to_flow(x) for x in nest.flatten(body_result, expand_composites=True)]
        result = [ops.convert_to_tensor(x) for x in result]
        if len(merge_vars) != len(result):
            raise ValueError(
                "Number of inputs and outputs of body must match loop_vars: %d, %d"
                % (len(merge_vars), len(result))
            )
        for m, v in zip(merge_vars, result):
            _AddNextAndBackEdge(m, v)
        exit_vars = [exit_op(x[0]) for x in switch_vars]
        self._loop_exits = exit_vars
        self.ExitResult(exit_vars)
        if not self._back_prop:
            # tf.gradients stops at these.
            self._graph._exits_without_gradient += exit_vars
        return body_result, exit_vars

    def BuildLoop(
        self, pred: Any, body: Any, loop_vars: Any, shape_invariants: Any, return_same_structure: bool
    ) -> Any:
        """Makes the loop and returns its results, structured as those of the body."""
        original_loop_vars = loop_vars
        loop_vars = [_convert_tensorarray_to_flow(x) for x in nest.flatten(loop_vars, expand_composites=True)]
        # Variables of loops may be references.
        loop_vars = [ops.internal_convert_to_tensor_or_composite(x) for x in loop_vars]
        try:
            self.Enter()
            body_result, exit_vars = self._BuildLoop(
                pred, body, original_loop_vars, loop_vars, shape_invariants
            )
        finally:
            self.Exit()
        flat_result = nest.flatten(body_result, expand_composites=True)
        packed = nest.pack_sequence_as(
            structure=body_result,
            flat_sequence=_convert_flows_to_tensorarrays(flat_result, exit_vars),
            expand_composites=True,
        )
        if return_same_structure:
            return packed
        return packed[0] if len(exit_vars) == 1 else packed

    def _FixControlInputsAndContext(self, enters: Any) -> None:
        """Puts Enters into this context, with the control inputs that hold around the loop."""
        graph = ops.get_default_graph()
        for x in enters:
            control_inputs = graph._control_dependencies_for_inputs([x.op.inputs[0].op])
            outer_control_inputs = []
            for op in control_inputs:
                op = getattr(op, "op", op)
                keep = True
                op_ctxt = util.GetOutputContext(op)
                outer_ctxt = self.outer_context
                outer_while = None if outer_ctxt is None else outer_ctxt.GetWhileContext()
                while outer_ctxt is not op_ctxt:
                    if outer_ctxt is None or outer_ctxt is outer_while:
                        keep = False
                        break
                    outer_ctxt = outer_ctxt.outer_context
                if keep:
                    outer_control_inputs.append(op)
            x.op._set_control_flow_context(self)
            x.op._add_control_inputs(outer_control_inputs)
            graph._record_op_seen_by_control_dependencies(x.op)


def from_control_flow_context_def(context_def: Any, import_scope: str | None = None) -> Any:
    """A context made from a ControlFlowContextDef; NotImplementedError for an unknown kind."""
    if context_def.HasField("cond_ctxt"):
        return CondContext.from_proto(context_def.cond_ctxt, import_scope=import_scope)
    if context_def.HasField("while_ctxt"):
        return WhileContext.from_proto(context_def.while_ctxt, import_scope=import_scope)
    raise NotImplementedError("Unknown ControlFlowContextDef field: %s" % context_def.WhichOneof("ctxt"))
