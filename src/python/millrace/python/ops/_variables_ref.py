# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Reference variables: tf.Variable unless resource variables are on."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.ops import array_ops
from millrace.python.ops import gen_array_ops
from millrace.python.ops import state_ops
from millrace.python.ops._variables_base import SaveSliceInfo
from millrace.python.ops._variables_base import VariableV1
from millrace.python.ops._variables_base import check_collections
from millrace.python.ops._variables_base import colocation_attr
from millrace.python.ops._variables_base import validate_synchronization_aggregation_trainable

_CONTROL_FLOW_INITIALIZER = (
    "Initializer for variable %s is from inside a "
    "control-flow construct, such as a loop or "
    "conditional. When creating a variable inside a "
    "loop or conditional, use a lambda as the "
    "initializer."
)


def _has_cycle(op: Any, state: dict[str, int]) -> bool:
    """Whether the ops that `op` depends on have a cycle, a loop.

    `state` has 1 for ops that are being visited, 2 for those that are known to have none.
    """
    if op.name in state:
        return state[op.name] == 1
    # Depth first with an explicit stack, since graphs of initial values may be deep.
    stack = [(op, iter([t.op for t in op.inputs] + list(op.control_inputs)))]
    state[op.name] = 1
    while stack:
        current, it = stack[-1]
        for below in it:
            seen = state.get(below.name)
            if seen == 1:
                return True
            if seen is None:
                state[below.name] = 1
                stack.append((below, iter([t.op for t in below.inputs] + list(below.control_inputs))))
                break
        else:
            state[current.name] = 2
            stack.pop()
    return False


def _find_initialized_value_for_variable(variable_op: Any) -> Any:
    """The `initialized_value` of the variable whose op this is, None if there is none."""
    names = (variable_op.name, variable_op.name + ":0")
    for collection_name in (ops.GraphKeys.GLOBAL_VARIABLES, ops.GraphKeys.LOCAL_VARIABLES):
        for var in variable_op.graph.get_collection(collection_name):
            if getattr(var, "name", None) in names:
                return var.initialized_value()
    return None


def _safe_initial_value_from_tensor(name: str, tensor: Any, op_cache: dict[str, Any]) -> Any:
    op = tensor.op
    new_op = op_cache.get(op.name)
    if new_op is None:
        new_op = _safe_initial_value_from_op(name, op, op_cache)
        op_cache[op.name] = new_op
    return new_op.outputs[tensor.value_index]


def _safe_initial_value_from_op(name: str, op: Any, op_cache: dict[str, Any]) -> Any:
    """An op like `op` that does not need other variables to be initialized before."""
    op_type = op.type
    if op_type in ("IsVariableInitialized", "VarIsInitializedOp", "ReadVariableOp", "If", "VarHandleOp"):
        return op  # what takes a handle cannot take a value
    if op_type in ("Variable", "VariableV2"):
        initialized_value = _find_initialized_value_for_variable(op)
        return op if initialized_value is None else initialized_value.op
    modified = False
    new_op_inputs = []
    for op_input in op.inputs:
        new_op_input = _safe_initial_value_from_tensor(name, op_input, op_cache)
        new_op_inputs.append(new_op_input)
        modified = modified or (new_op_input is not op_input)
    if not modified:
        return op
    new_op_type = "Switch" if op_type == "RefSwitch" else op_type
    new_op_name = (op.name + "_" + name).replace(":", "_").rstrip("/")
    return op.graph.create_op(
        new_op_type,
        new_op_inputs,
        [t.dtype for t in op.outputs],
        name=new_op_name,
        attrs=dict(op.node_def.attr),
    )


def _try_guard_against_uninitialized_dependencies(name: str, initial_value: Any) -> Any:
    """An initial value in which reads of other variables are replaced by their `initialized_value`s."""
    if not isinstance(initial_value, ops.Tensor):
        raise TypeError("initial_value needs to be a Tensor: %s" % initial_value)
    if not initial_value.op.inputs and initial_value.op.type not in ("Variable", "VariableV2", "VarHandleOp"):
        return initial_value
    if _has_cycle(initial_value.op, {}):
        return initial_value
    return _safe_initial_value_from_tensor(name, initial_value, op_cache={})


class RefVariable(VariableV1):
    """A variable whose op outputs a reference, which assignments change in place."""

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        collections: Any = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        expected_shape: Any = None,
        import_scope: str | None = None,
        constraint: Any = None,
        synchronization: Any = None,
        aggregation: Any = None,
        shape: Any = None,
    ) -> None:
        """Makes a variable.

        Args:
          initial_value: a value convertible to a tensor, or a function without arguments that returns one.
          trainable: whether it is in the collection of trainable variables (default: true).
          collections: keys of collections, by default that of the global variables.
          validate_shape: whether the shape must be known and cannot change.
          caching_device: the device on which a copy for readers is kept.
          name: name of the variable, made unique.
          variable_def: a VariableDef to make it from instead.
          dtype: type to convert the initial value to.
          expected_shape: ignored.
          import_scope: scope of the names in `variable_def`.
          constraint: a function that optimizers apply after updates.
          synchronization, aggregation: for copies on several devices.
          shape: the shape, where it differs from the initial value's.

        Raises:
          ValueError: both or neither of a value and a message are given, or the shape is not known.
        """
        del expected_shape
        if variable_def:
            if initial_value is not None:
                raise ValueError("variable_def and initial_value are mutually exclusive.")
            self._init_from_proto(variable_def, import_scope=import_scope)
            return
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        collections = check_collections(collections)
        if constraint is not None and not callable(constraint):
            raise ValueError("The `constraint` argument must be a callable.")
        self._graph_key = ops.get_default_graph()._graph_key
        (
            self._synchronization,
            self._aggregation,
            self._trainable,
        ) = validate_synchronization_aggregation_trainable(synchronization, aggregation, trainable, name)
        if self._trainable and ops.GraphKeys.TRAINABLE_VARIABLES not in collections:
            collections = list(collections) + [ops.GraphKeys.TRAINABLE_VARIABLES]
        init_from_fn = callable(initial_value)
        with ops.init_scope():
            with ops.name_scope(name, "Variable", [] if init_from_fn else [initial_value]) as name:
                self._make(initial_value, init_from_fn, name, dtype, shape, validate_shape)
                self._make_reader(caching_device)
            ops.add_to_collections(collections, self)
        self._caching_device = caching_device
        self._save_slice_info = None
        self._constraint = constraint

    def _make(
        self, initial_value: Any, init_from_fn: bool, name: str, dtype: Any, shape: Any, validate_shape: bool
    ) -> None:
        """Makes the initial value, the variable's op and the initializer."""
        unknown = tensor_shape.unknown_shape()
        if init_from_fn:
            # The initial value is on the device of the variable, whose op is made later.
            true_name = ops.name_from_scope_name(name)
            with ops.get_default_graph()._attr_scope({"_class": colocation_attr(true_name)}):
                with ops.name_scope("Initializer"), ops.device(None):
                    self._initial_value = ops.convert_to_tensor(
                        initial_value(), name="initial_value", dtype=dtype
                    )
                    if shape is None:
                        shape = self._initial_value.get_shape() if validate_shape else unknown
                self._variable = state_ops.variable_op_v2(
                    shape, self._initial_value.dtype.base_dtype, name=name
                )
        else:
            self._initial_value = ops.convert_to_tensor(initial_value, name="initial_value", dtype=dtype)
            if self._initial_value.op._get_control_flow_context() is not None:
                raise ValueError(_CONTROL_FLOW_INITIALIZER % name)
            if shape is None:
                shape = self._initial_value.get_shape() if validate_shape else unknown
            self._variable = state_ops.variable_op_v2(shape, self._initial_value.dtype.base_dtype, name=name)
        self._name = self._variable.name
        if validate_shape and not self._initial_value.get_shape().is_fully_defined():
            raise ValueError("initial_value must have a shape specified: %s" % self._initial_value)
        self._initializer_op = state_ops.assign(
            self._variable,
            _try_guard_against_uninitialized_dependencies(name, self._initial_value),
            validate_shape=validate_shape,
        ).op

    def _make_reader(self, caching_device: Any) -> None:
        if caching_device is not None:
            with ops.device(caching_device):
                self._snapshot = array_ops.identity(self._variable, name="read")
        else:
            with ops.colocate_with(self._variable.op):
                self._snapshot = array_ops.identity(self._variable, name="read")

    def _init_from_proto(self, variable_def: Any, import_scope: str | None = None) -> None:
        g = ops.get_default_graph()

        def element(name: str) -> Any:
            return g.as_graph_element(ops.prepend_name_scope(name, import_scope=import_scope))

        self._graph_key = g._graph_key
        self._variable = element(variable_def.variable_name)
        self._name = self._variable.name
        self._initializer_op = element(variable_def.initializer_name)
        initial_value_name = variable_def.initial_value_name
        self._initial_value = element(initial_value_name) if initial_value_name else None
        (
            self._synchronization,
            self._aggregation,
            self._trainable,
        ) = validate_synchronization_aggregation_trainable(
            variable_def.synchronization,
            variable_def.aggregation,
            getattr(variable_def, "trainable", True),
            variable_def.variable_name,
        )
        self._snapshot = element(variable_def.snapshot_name)
        self._save_slice_info = (
            SaveSliceInfo(save_slice_info_def=variable_def.save_slice_info_def, import_scope=import_scope)
            if variable_def.HasField("save_slice_info_def")
            else None
        )
        self._caching_device = None
        self._constraint = None

    def _as_graph_element(self) -> Any:
        return self._variable

    def _AsTensor(self) -> Any:
        return self._snapshot

    def value(self) -> Any:
        """Returns the tensor of the variable's last value."""
        return self._snapshot

    def read_value(self) -> Any:
        """Returns a new tensor of the value, read after the control dependencies in scope."""
        return array_ops.identity(self._variable, name="read")

    def _ref(self) -> Any:
        """The reference itself."""
        return self._variable

    def _scatter_ref(self) -> Any:
        return self._variable

    def set_shape(self, shape: Any) -> None:
        """Merges `shape` into the static shape."""
        self._ref().set_shape(shape)
        self.value().set_shape(shape)

    def is_initialized(self, name: str | None = None) -> Any:
        """Returns a boolean scalar that is true if the variable has a value."""
        return state_ops.is_variable_initialized(self, name)

    def assign(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Sets the value; returns the reference after it, or the op where `read_value` is false."""
        assign = state_ops.assign(self._variable, value, use_locking=use_locking, name=name)
        return assign if read_value else assign.op

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Adds to the value; returns the reference after it, or the op where `read_value` is false."""
        assign = state_ops.assign_add(self._variable, delta, use_locking=use_locking, name=name)
        return assign if read_value else assign.op

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Subtracts from the value; returns the reference after it, or the op where `read_value` is false."""
        assign = state_ops.assign_sub(self._variable, delta, use_locking=use_locking, name=name)
        return assign if read_value else assign.op

    def sparse_read(self, indices: Any, name: str | None = None) -> Any:
        """Returns the rows `indices`."""
        return array_ops.gather(self._variable_value(), indices, name=name)

    def gather_nd(self, indices: Any, name: str | None = None) -> Any:
        """Returns elements or slices at coordinates."""
        return gen_array_ops.gather_nd(self, indices, name=name)

    def _variable_value(self) -> Any:
        return self._snapshot

    def _strided_slice_assign(
        self, begin: Any, end: Any, strides: Any, value: Any, name: str | None, **masks: Any
    ) -> Any:
        return gen_array_ops.strided_slice_assign(
            ref=self._ref(), begin=begin, end=end, strides=strides, value=value, name=name, **masks
        )

    @staticmethod
    def _TensorConversionFunction(
        v: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False
    ) -> Any:
        """The tensor of a variable; ValueError for another type."""
        del name
        if dtype is not None and not dtype.is_compatible_with(v.dtype):
            raise ValueError(
                "Incompatible type conversion requested to type '%s' for variable of type '%s'"
                % (dtype.name, v.dtype.name)
            )
        return v._ref() if as_ref else v.value()

    @property
    def name(self) -> str:
        """The name of the reference."""
        return self._name

    @property
    def device(self) -> str:
        """The device that the variable's op requests."""
        return self._variable.device  # type: ignore[no-any-return]

    @property
    def dtype(self) -> Any:
        """The type of the reference."""
        return self._variable.dtype

    @property
    def op(self) -> Any:
        """The variable's op."""
        return self._variable.op

    @property
    def graph(self) -> Any:
        """The graph of the variable."""
        return self._variable.graph

    @property
    def shape(self) -> Any:
        """The static shape."""
        return self._variable.get_shape()

    @property
    def _distribute_strategy(self) -> Any:
        return None

    def to_proto(self, export_scope: str | None = None) -> Any:
        """A VariableDef, None where the variable is not in `export_scope`."""
        from millrace.core.framework import variable_pb2

        if export_scope is not None and not self._variable.name.startswith(export_scope):
            return None
        var_def = variable_pb2.VariableDef()
        var_def.variable_name = ops.strip_name_scope(self._variable.name, export_scope)
        if self._initial_value is not None:
            var_def.initial_value_name = ops.strip_name_scope(self._initial_value.name, export_scope)
        var_def.trainable = self.trainable
        var_def.synchronization = self.synchronization.value
        var_def.aggregation = self.aggregation.value
        var_def.initializer_name = ops.strip_name_scope(self.initializer.name, export_scope)
        var_def.snapshot_name = ops.strip_name_scope(self._snapshot.name, export_scope)
        if self._save_slice_info:
            var_def.save_slice_info_def.MergeFrom(self._save_slice_info.to_proto(export_scope=export_scope))
        return var_def

    def __iadd__(self, other: Any) -> Any:
        return self + other

    def __isub__(self, other: Any) -> Any:
        return self - other

    def __imul__(self, other: Any) -> Any:
        return self * other

    def __itruediv__(self, other: Any) -> Any:
        return self / other

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        from millrace.python.training.tracking import base as trackable

        return {trackable.VARIABLE_VALUE_KEY: self}


ops.register_tensor_conversion_function(RefVariable, RefVariable._TensorConversionFunction)
ops.register_dense_tensor_like_type(RefVariable)
