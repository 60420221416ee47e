# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The ops of dataflow control, and what contexts of conditions and loops have in common."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import composite_tensor
from millrace.python.framework import indexed_slices
from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.ops import array_ops
from millrace.python.ops import control_flow_util as util
from millrace.python.ops import gen_array_ops
from millrace.python.ops import gen_control_flow_ops
from millrace.python.util import nest

no_op: Any = gen_control_flow_ops.no_op


def _convert(data: Any, name: str | None = None) -> Any:
    """Converts a value to a tensor, keeping references, or leaves a composite tensor."""
    return ops.internal_convert_to_tensor_or_composite(data, name=name, as_ref=True)


def _map_components(fn: Any, data: Any) -> Any:
    """Applies `fn` to each tensor of a composite one."""
    if not isinstance(data, composite_tensor.CompositeTensor):
        raise TypeError("Type %s not supported" % type(data))
    return nest.map_structure(fn, data, expand_composites=True)


def _Identity(data: Any, name: str | None = None) -> Any:
    """An identity of a tensor, a reference or the parts of a composite tensor."""
    data = _convert(data)
    if isinstance(data, ops.Tensor):
        if data.dtype._is_ref_dtype:
            return gen_array_ops.ref_identity(data, name=name)
        return array_ops.identity(data, name=name)
    return _map_components(_Identity, data)


def _NextIteration(data: Any, name: str | None = None) -> Any:
    """Makes a tensor available to the next iteration."""
    data = _convert(data)
    if isinstance(data, ops.Tensor):
        if data.dtype._is_ref_dtype:
            return gen_control_flow_ops.ref_next_iteration(data, name=name)
        return gen_control_flow_ops.next_iteration(data, name=name)
    return _map_components(_NextIteration, data)


def _Enter(
    data: Any,
    frame_name: str,
    is_constant: bool = False,
    parallel_iterations: int = 10,
    use_ref: bool = True,
    use_input_shape: bool = True,
    name: str | None = None,
) -> Any:
    """Makes a tensor available in the frame `frame_name` of a loop."""
    data = _convert(data)
    if isinstance(data, ops.Tensor):
        fn = (
            gen_control_flow_ops.ref_enter
            if data.dtype._is_ref_dtype and use_ref
            else gen_control_flow_ops.enter
        )
        result = fn(data, frame_name, is_constant, parallel_iterations, name=name)
        if use_input_shape:
            result.set_shape(data.get_shape())
        return result
    return _map_components(
        lambda t: _Enter(t, frame_name, is_constant, parallel_iterations, use_ref, use_input_shape), data
    )


def exit(data: Any, name: str | None = None) -> Any:
    """Makes the value of a loop's last iteration available outside of the loop."""
    data = _convert(data)
    if isinstance(data, ops.Tensor):
        if data.dtype._is_ref_dtype:
            return gen_control_flow_ops.ref_exit(data, name)
        return gen_control_flow_ops._exit(data, name)
    return _map_components(exit, data)


def switch(data: Any, pred: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Forwards `data` to the second of two outputs where `pred`, a boolean scalar, is true, else to the first."""
    with ops.name_scope(name, "Switch", [data, pred]) as name:
        data = ops.internal_convert_to_tensor_or_composite(data, dtype=dtype, name="data", as_ref=True)
        pred = ops.convert_to_tensor(pred, name="pred")
        if isinstance(data, ops.Tensor):
            return gen_control_flow_ops.switch(data, pred, name=name)
        tensors = nest.flatten(data, expand_composites=True)
        mapped = [gen_control_flow_ops.switch(tensor, pred) for tensor in tensors]
        mapped_f, mapped_t = zip(*mapped)
        return (
            nest.pack_sequence_as(data, mapped_f, expand_composites=True),
            nest.pack_sequence_as(data, mapped_t, expand_composites=True),
        )


def _SwitchRefOrTensor(data: Any, pred: Any, name: str = "Switch") -> Any:
    """A Switch, or a RefSwitch of a reference, on the device of its input."""
    data = _convert(data, name="data")
    with ops.colocate_with(data, ignore_existing=True):
        if isinstance(data, ops.Tensor) and data.dtype._is_ref_dtype:
            return ref_switch(data, pred, name=name)
        return switch(data, pred, name=name)


def ref_switch(data: Any, pred: Any, name: str | None = None) -> Any:
    """Forwards a reference to the second output where `pred` is true, else to the first."""
    return gen_control_flow_ops.ref_switch(data, pred, name=name)


def merge(inputs: Any, name: str | None = None) -> Any:
    """Returns (the first of `inputs` that is available, its index).

    Raises:
      ValueError: an input is None, or composite tensors differ in structure.
    """
    if any(inp is None for inp in inputs):
        raise ValueError("At least one of the merge inputs is None: %s" % inputs)
    with ops.name_scope(name, "Merge", inputs) as name:
        inputs = [ops.internal_convert_to_tensor_or_composite(inp, as_ref=True) for inp in inputs]
        if all(isinstance(v, ops.Tensor) for v in inputs):
            if all(v.dtype._is_ref_dtype for v in inputs):
                return gen_control_flow_ops.ref_merge(inputs, name)
            return gen_control_flow_ops.merge(inputs, name)
        if any(isinstance(v, ops.Tensor) for v in inputs):
            inputs = _slices_like(inputs)
        for v in inputs[1:]:
            nest.assert_same_structure(inputs[0], v, expand_composites=True)
        flat_inputs = [nest.flatten(v, expand_composites=True) for v in inputs]
        merged = [
            gen_control_flow_ops.merge(component, name=None if i else name)
            for i, component in enumerate(zip(*flat_inputs))
        ]
        return (
            nest.pack_sequence_as(inputs[0], [m[0] for m in merged], expand_composites=True),
            merged[0][1],
        )


def _slices_like(inputs: Any) -> Any:
    """Makes all inputs IndexedSlices where some are."""
    from millrace.python.ops import math_ops

    if not all(isinstance(v, (ops.Tensor, indexed_slices.IndexedSlices)) for v in inputs):
        raise TypeError("Type %s not supported" % [type(v) for v in inputs])
    return math_ops._as_indexed_slices_list(inputs, optimize=False)


def loop_cond(input: Any, name: str | None = None) -> Any:
    """Forwards the condition of a loop."""
    return gen_control_flow_ops.loop_cond(input, name)


def _convert_tensorarray_to_flow(tensor_or_tensor_array: Any) -> Any:
    """The flow of a TensorArray; another value as it is."""
    from millrace.python.ops import tensor_array_ops

    if isinstance(tensor_or_tensor_array, tensor_array_ops.TensorArray):
        return tensor_or_tensor_array.flow
    return tensor_or_tensor_array


def _convert_flows_to_tensorarrays(tensors_or_tensorarrays: Any, tensors_or_flows: Any) -> Any:
    """TensorArrays with new flows where the first list has TensorArrays, else the second list's tensors."""
    from millrace.python.ops import tensor_array_ops

    if len(tensors_or_tensorarrays) != len(tensors_or_flows):
        raise ValueError(
            "Lengths of original Tensor list and new list do not match: %d vs. %d"
            % (len(tensors_or_tensorarrays), len(tensors_or_flows))
        )
    return [
        tensor_array_ops.build_ta_with_new_flow(ta, flow)
        if isinstance(ta, tensor_array_ops.TensorArray)
        else flow
        for ta, flow in zip(tensors_or_tensorarrays, tensors_or_flows)
    ]


def _ShapeLessThanOrEqual(shape1: Any, shape2: Any) -> bool:
    """Whether the first shape is as specific as the second, or more."""
    if shape2.dims is None:
        return True
    if shape1.ndims != shape2.ndims:
        return False
    return all(d2.value is None or d1.value == d2.value for d1, d2 in zip(shape1.dims, shape2.dims))


def _get_shape_invariant(var: Any, shape: Any = None) -> Any:
    """The shapes of the tensors of a loop variable in all iterations, structured as the variable."""
    from millrace.python.framework import sparse_tensor
    from millrace.python.ops import tensor_array_ops

    if isinstance(var, composite_tensor.CompositeTensor):
        if isinstance(shape, (list, tuple)) and shape and isinstance(shape[0], tensor_shape.TensorShape):
            return list(shape)
        shape = tensor_shape.as_shape(shape) if shape is not None else None
        if isinstance(var, sparse_tensor.SparseTensor):
            ndims = shape.ndims if shape is not None else var.dense_shape.shape.dims[0].value
            return [
                tensor_shape.TensorShape([None, ndims]),
                tensor_shape.TensorShape([None]),
                tensor_shape.TensorShape([ndims]),
            ]
        if isinstance(var, indexed_slices.IndexedSlices):
            shape = var.values.get_shape() if shape is None else shape
            parts = [shape, tensor_shape.TensorShape([shape.dims[0].value if shape.ndims else None])]
            if var.dense_shape is not None:
                parts.append(tensor_shape.TensorShape([shape.ndims]))
            return parts
        raise TypeError("Unsupported composite tensor %s in a loop with shape invariants" % type(var))
    if isinstance(var, tensor_array_ops.TensorArray):
        return tensor_shape.TensorShape([]) if shape is None or shape.ndims is None else shape
    if shape is not None:
        return shape
    return var.get_shape()


class ControlFlowContext:
    """The branch or loop that ops are being made in. A graph has one at a time, or None.

    Contexts nest. Each keeps the names of the values that its ops may use, and the tensors (outputs of Switch
    or Enter ops) that represent outside values in it.
    """

    def __init__(self, values_def: Any = None, import_scope: str | None = None) -> None:
        self._nested_contexts: list[ControlFlowContext] = []
        self._outer_context = ops.get_default_graph()._get_control_flow_context()
        if self._outer_context:
            self._outer_context._nested_contexts.append(self)
        self._context_stack: list[Any] = []
        self._values: set[str] = set()
        self._external_values: dict[str, Any] = {}
        if values_def:
            self._init_values_from_proto(values_def, import_scope=import_scope)

    def _init_values_from_proto(self, values_def: Any, import_scope: str | None = None) -> None:
        self._values = {ops.prepend_name_scope(value, import_scope) for value in values_def.values}
        graph = ops.get_default_graph()
        for k, v in values_def.external_values.items():
            k = ops.prepend_name_scope(k, import_scope)
            self._external_values[k] = graph.as_graph_element(ops.prepend_name_scope(v, import_scope))
        op_names = {op.split(":")[0] for op in self._values - set(self._external_values)}
        for op in op_names:
            graph.as_graph_element(op)._set_control_flow_context(self)

    def _to_values_def(self, export_scope: str | None = None) -> Any:
        from millrace.core.protobuf import control_flow_pb2

        values_def = control_flow_pb2.ValuesDef()
        values_def.values.extend([ops.strip_name_scope(v, export_scope) for v in sorted(self._values)])
        for k, v in self._external_values.items():
            values_def.external_values[ops.strip_name_scope(k, export_scope)] = ops.strip_name_scope(
                v.name, export_scope
            )
        return values_def

    @property
    def name(self) -> str:
        """The unique name of the context."""
        return self._name  # type: ignore[attr-defined, no-any-return]

    @property
    def outer_context(self) -> Any:
        """The context around this one, or None."""
        return self._outer_context

    @property
    def grad_state(self) -> Any:
        """The state of the forward loop of a gradient loop: None."""
        return None

    @property
    def back_prop(self) -> bool:
        """Whether gradients may be taken through the context."""
        return False

    def AddName(self, name: str) -> None:
        """Makes a value known to the context."""
        self._values.add(name)

    def Enter(self) -> None:
        """Makes this the current context of the graph."""
        graph = ops.get_default_graph()
        self._context_stack.append(graph._get_control_flow_context())
        graph._set_control_flow_context(self)

    def Exit(self) -> None:
        """Restores the context that was current before `Enter`."""
        ops.get_default_graph()._set_control_flow_context(self._context_stack.pop())

    def EnterGradientColocation(self, op: Any, gradient_uid: Any) -> None:
        """Called before the gradient of an op is made."""
        if self._outer_context:
            self._outer_context.EnterGradientColocation(op, gradient_uid)

    def ExitGradientColocation(self, op: Any, gradient_uid: Any) -> None:
        """Called after the gradient of an op is made."""
        if self._outer_context:
            self._outer_context.ExitGradientColocation(op, gradient_uid)

    def ExitResult(self, result: Any) -> None:
        """Makes the results known to the outer context."""
        if self._outer_context:
            outer = self._outer_context
            nest.map_structure(lambda x: outer.AddName(x.name), result, expand_composites=True)

    def GetWhileContext(self) -> Any:
        """The innermost loop that this context is in, or is; None outside of loops."""
        if self._outer_context:
            return self._outer_context.GetWhileContext()
        return None

    def _RemoveExternalControlEdges(self, op: Any) -> tuple[list[Any], list[Any]]:
        """Removes control inputs from outside of the loop; returns those kept and those removed."""
        while_ctxt = self.GetWhileContext()
        control_inputs = list(op.control_inputs)
        if while_ctxt is None:
            return control_inputs, []
        internal, external = [], []
        for x in control_inputs:
            ctxt = util.GetOutputContext(x)
            if ctxt is not None and ctxt.GetWhileContext() == while_ctxt:
                internal.append(x)
            else:
                external.append(x)
        if external:
            op._remove_all_control_inputs()
            op._add_control_inputs(internal)
        return internal, external

    def AddValue(self, val: Any) -> Any:
        """Makes a value available in the context; returns what represents it here."""
        raise NotImplementedError("AddValue must be implemented by a context")

    def AddOp(self, op: Any) -> None:
        """Called for each op that is made in the context."""
        raise NotImplementedError("AddOp must be implemented by a context")

    def AddInnerOp(self, op: Any) -> None:
        """Called for each op that is made in a context inside of this one."""
        if self._outer_context:
            self._outer_context.AddInnerOp(op)

    def GetControlPivot(self) -> Any:
        """The tensor that ops without inputs must wait for, or None."""
        return None

    def IsWhileContext(self) -> bool:
        """Whether this is a loop."""
        return False

    def IsCondContext(self) -> bool:
        """Whether this is a branch of a condition."""
        return False

    def IsXLAContext(self) -> bool:
        """Whether this is compiled by XLA."""
        return False

    def __str__(self) -> str:
        return self.name
