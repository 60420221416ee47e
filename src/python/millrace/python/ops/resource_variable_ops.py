# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Variables as resources: a handle, and ops that read and assign what it stands for."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.ops import array_ops
from millrace.python.ops import gen_array_ops
from millrace.python.ops import gen_resource_variable_ops
from millrace.python.ops import variables
from millrace.python.ops._variables_base import check_collections
from millrace.python.ops._variables_base import colocation_attr
from millrace.python.ops._variables_ref import _CONTROL_FLOW_INITIALIZER
from millrace.python.ops._variables_ref import _try_guard_against_uninitialized_dependencies
from millrace.python.ops.gen_resource_variable_ops import *  # noqa: F401,F403


def variable_handle_from_shape_and_dtype(
    shape: Any, dtype: Any, shared_name: str, name: str | None, graph_mode: bool = True, initial_value: Any = None
) -> Any:
    """Makes the handle of a resource variable."""
    del graph_mode, initial_value
    container = ops.get_default_graph()._container or ""
    shape = tensor_shape.as_shape(shape)
    return gen_resource_variable_ops.var_handle_op(
        shape=shape, dtype=dtype, shared_name=shared_name, name=name, container=container
    )


def eager_safe_variable_handle(
    initial_value: Any, shape: Any, shared_name: str, name: str | None, graph_mode: bool = True
) -> Any:
    """Makes the handle of a resource variable of the type of its initial value."""
    return variable_handle_from_shape_and_dtype(
        shape, initial_value.dtype.base_dtype, shared_name, name, graph_mode, initial_value
    )


def shape_safe_assign_variable_handle(handle: Any, shape: Any, value: Any, name: str | None = None) -> Any:
    """Assigns to a handle after checking the static shape."""
    value_tensor = ops.convert_to_tensor(value)
    tensor_shape.as_shape(shape).assert_is_compatible_with(value_tensor.shape)
    return gen_resource_variable_ops.assign_variable_op(handle, value_tensor, name=name)


class BaseResourceVariable(variables.VariableV1):
    """A variable behind a handle."""

    _handle: Any
    _dtype: Any
    _shape: Any
    _graph_element: Any
    _handle_name: str
    _cached_value: Any = None
    _initializer_op: Any = None
    _is_initialized_op: Any = None
    _initial_value: Any = None
    _caching_device: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError

    def _init_common(self, handle: Any, dtype: Any, shape: Any) -> None:
        self._handle = handle
        self._dtype = dtypes.as_dtype(dtype).base_dtype
        self._shape = tensor_shape.as_shape(shape)
        self._graph_key = ops.get_default_graph()._graph_key
        self._in_graph_mode = True

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self._dtype

    @property
    def device(self) -> str:
        """The device that the handle's op requests."""
        return self._handle.device  # type: ignore[no-any-return]

    @property
    def graph(self) -> Any:
        """The graph of the variable."""
        return self._handle.graph

    @property
    def name(self) -> str:
        """The name of the handle's op and :0."""
        return self._handle_name

    @property
    def shape(self) -> Any:
        """The static shape."""
        return self._shape

    @property
    def handle(self) -> Any:
        """The handle, a scalar of the type resource."""
        return self._handle

    @property
    def op(self) -> Any:
        """The handle's op."""
        return self._handle.op

    @property
    def create(self) -> Any:
        """The op that assigns the initial value."""
        return self._initializer_op

    @property
    def _unique_id(self) -> str:
        return self._handle_name

    def _as_graph_element(self) -> Any:
        """The tensor that stands for the variable in fetches."""
        return self._graph_element

    def _AsTensor(self) -> Any:
        return self.value()

    def _ref(self) -> Any:
        """References are refused: a resource variable has none."""
        raise NotImplementedError("ResourceVariable does not implement _ref()")

    def set_shape(self, shape: Any) -> None:
        """Adds what `shape` says to the static shape."""
        self._shape = self._shape.merge_with(shape)

    def is_initialized(self, name: str | None = None) -> Any:
        """Returns a boolean scalar that tells whether the variable has a value."""
        return gen_resource_variable_ops.var_is_initialized_op(self.handle, name)

    def _read_variable_op(self) -> Any:
        result = gen_resource_variable_ops.read_variable_op(self._handle, self._dtype)
        if not result.shape.is_fully_defined():
            result.set_shape(self._shape)
        return result

    def value(self) -> Any:
        """Returns a tensor of the value at the time that it runs."""
        if self._cached_value is not None:
            return self._cached_value
        with ops.colocate_with(None, ignore_existing=True):
            with ops.device(self._handle.device):
                return self._read_variable_op()

    def read_value(self) -> Any:
        """Returns a tensor of the value, read after the control dependencies in scope."""
        with ops.name_scope("Read"):
            with ops.device(self._handle.device):
                value = self._read_variable_op()
            # The result may lie elsewhere than the variable.
            return array_ops.identity(value)

    def sparse_read(self, indices: Any, name: str | None = None) -> Any:
        """Returns the rows `indices`, without reading the others."""
        with ops.name_scope("Gather" if name is None else name) as name:
            value = gen_resource_variable_ops.resource_gather(self._handle, indices, dtype=self._dtype, name=name)
        return array_ops.identity(value)

    def gather_nd(self, indices: Any, name: str | None = None) -> Any:
        """Returns elements or slices at coordinates."""
        with ops.name_scope("GatherNd" if name is None else name) as name:
            value = gen_resource_variable_ops.resource_gather_nd(self._handle, indices, dtype=self._dtype, name=name)
        return array_ops.identity(value)

    def _lazy_read(self, op: Any) -> Any:
        return _UnreadVariable(
            handle=self._handle,
            dtype=self._dtype,
            shape=self._shape,
            parent_op=op,
            unique_id=self._unique_id,
            parent=self,
        )

    def assign(self, value: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True) -> Any:
        """Sets the value; returns what reads the new value, or the op where `read_value` is false."""
        del use_locking
        value_tensor = ops.convert_to_tensor(value, dtype=self.dtype)
        self._shape.assert_is_compatible_with(value_tensor.shape)
        assign_op = gen_resource_variable_ops.assign_variable_op(self.handle, value_tensor, name=name)
        return self._lazy_read(assign_op) if read_value else assign_op

    def assign_add(self, delta: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True) -> Any:
        """Adds to the value; returns what reads the new value, or the op where `read_value` is false."""
        del use_locking
        op = gen_resource_variable_ops.assign_add_variable_op(
            self.handle, ops.convert_to_tensor(delta, dtype=self.dtype), name=name
        )
        return self._lazy_read(op) if read_value else op

    def assign_sub(self, delta: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True) -> Any:
        """Subtracts from the value; returns what reads the new value, or the op where `read_value` is false."""
        del use_locking
        op = gen_resource_variable_ops.assign_sub_variable_op(
            self.handle, ops.convert_to_tensor(delta, dtype=self.dtype), name=name
        )
        return self._lazy_read(op) if read_value else op

    def _strided_slice_assign(
        self, begin: Any, end: Any, strides: Any, value: Any, name: str | None, **masks: Any
    ) -> Any:
        return self._lazy_read(
            gen_array_ops.resource_strided_slice_assign(
                ref=self.handle,
                begin=begin,
                end=end,
                strides=strides,
                value=ops.convert_to_tensor(value, dtype=self.dtype),
                name=name,
                **masks,
            )
        )

    def _dense_var_to_tensor(self, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
        del name
        if dtype is not None and not dtype.is_compatible_with(self.dtype):
            raise ValueError(
                "Incompatible type conversion requested to type {!r} for variable of type {!r}".format(
                    dtype.name, self.dtype.name
                )
            )
        if as_ref:
            return self.read_value().op.inputs[0]
        return self.value()

    def __iadd__(self, unused_other: Any) -> Any:
        raise RuntimeError(
            "Variable += value not supported. Use variable.assign_add(value) to modify the variable value and variable = variable + value to get a new Tensor object."
        )

    def __isub__(self, unused_other: Any) -> Any:
        raise RuntimeError(
            "Variable -= value not supported. Use variable.assign_sub(value) to modify the variable value and variable = variable - value to get a new Tensor object."
        )

    def __imul__(self, unused_other: Any) -> Any:
        raise RuntimeError(
            "Variable *= value not supported. Use `var.assign(var * value)` to modify the variable or `var = var * value` to get a new Tensor object."
        )

    def __itruediv__(self, unused_other: Any) -> Any:
        raise RuntimeError(
            "Variable /= value not supported. Use `var.assign(var / value)` to modify the variable or `var = var / value` to get a new Tensor object."
        )

    def __int__(self) -> int:
        if self.dtype not in (dtypes.int32, dtypes.int64):
            raise TypeError("Non-integer variable can't be converted to integer.")
        raise TypeError("int() of a variable needs its value: use session.run.")

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        from millrace.python.training.tracking import base as trackable

        return {trackable.VARIABLE_VALUE_KEY: self}


class ResourceVariable(BaseResourceVariable):
    """A variable behind a handle, as tf.get_variable(use_resource=True) makes it."""

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        collections: Any = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        dtype: Any = None,
        variable_def: Any = None,
        import_scope: str | None = None,
        constraint: Any = None,
        distribute_strategy: Any = None,
        synchronization: Any = None,
        aggregation: Any = None,
        shape: Any = None,
    ) -> None:
        """Makes a variable; the arguments are those of tf.Variable."""
        del validate_shape, distribute_strategy
        if variable_def:
            if initial_value is not None:
                raise ValueError("variable_def and initial_value are mutually exclusive.")
            self._init_from_proto(variable_def, import_scope=import_scope)
            return
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        init_from_fn = callable(initial_value)
        collections = check_collections(collections)
        if constraint is not None and not callable(constraint):
            raise ValueError("The `constraint` argument must be a callable.")
        (
            self._synchronization,
            self._aggregation,
            self._trainable,
        ) = variables.validate_synchronization_aggregation_trainable(synchronization, aggregation, trainable, name)
        if self._trainable and ops.GraphKeys.TRAINABLE_VARIABLES not in collections:
            collections = list(collections) + [ops.GraphKeys.TRAINABLE_VARIABLES]
        self._constraint = constraint
        self._caching_device = caching_device
        self._save_slice_info = None
        with ops.init_scope():
            with ops.name_scope(name, "Variable", [] if init_from_fn else [initial_value]) as name:
                self._make(initial_value, init_from_fn, name, dtype, shape)
                self._make_ops(name, caching_device)
            ops.add_to_collections(collections, self)

    def _make(self, initial_value: Any, init_from_fn: bool, name: str, dtype: Any, shape: Any) -> None:
        """Makes the initial value and the handle."""
        handle_name = ops.name_from_scope_name(name)
        with ops.get_default_graph()._attr_scope({"_class": colocation_attr(handle_name)}):
            with ops.name_scope("Initializer"), ops.device(None):
                initial_value = ops.convert_to_tensor(
                    initial_value() if init_from_fn else initial_value, name="initial_value", dtype=dtype
                )
            if shape is not None:
                if not initial_value.shape.is_compatible_with(shape):
                    raise ValueError(
                        "The initial value's shape (%s) is not compatible with the explicitly supplied `shape` "
                        "argument (%s)." % (initial_value.shape, shape)
                    )
            else:
                shape = initial_value.shape
            handle = eager_safe_variable_handle(initial_value, shape, handle_name, name)
        if initial_value.op._get_control_flow_context() is not None:
            raise ValueError(_CONTROL_FLOW_INITIALIZER % name)
        self._initial_value = initial_value
        self._handle_name = handle_name + ":0"
        self._init_common(handle, initial_value.dtype, shape)

    def _make_ops(self, name: str, caching_device: Any) -> None:
        """Makes the ops that tell whether there is a value, assign the first one, and read it."""
        handle = self._handle
        with ops.name_scope("IsInitialized"):
            self._is_initialized_op = gen_resource_variable_ops.var_is_initialized_op(handle)
        with ops.name_scope("Assign") as n, ops.colocate_with(None, ignore_existing=True), ops.device(handle.device):
            self._initializer_op = gen_resource_variable_ops.assign_variable_op(
                handle, _try_guard_against_uninitialized_dependencies(name, self._initial_value), name=n
            )
        with ops.name_scope("Read"):
            with ops.device(handle.device):
                value = self._read_variable_op()
            self._graph_element = value
            if caching_device is not None:
                with ops.colocate_with(None, ignore_existing=True):
                    with ops.device(caching_device):
                        self._cached_value = array_ops.identity(value)
            else:
                self._cached_value = None

    def _init_from_proto(self, variable_def: Any, import_scope: str | None = None) -> None:
        if not variable_def.is_resource:
            raise ValueError("Trying to restore Variable as ResourceVariable.")
        g = ops.get_default_graph()

        def element(name: str) -> Any:
            return g.as_graph_element(ops.prepend_name_scope(name, import_scope=import_scope))

        handle = element(variable_def.variable_name)
        self._handle_name = handle.name
        self._init_common(handle, handle.op.get_attr("dtype"), tensor_shape.TensorShape(handle.op.get_attr("shape")))
        (
            self._synchronization,
            self._aggregation,
            self._trainable,
        ) = variables.validate_synchronization_aggregation_trainable(
            variable_def.synchronization,
            variable_def.aggregation,
            getattr(variable_def, "trainable", True),
            variable_def.variable_name,
        )
        self._initializer_op = element(variable_def.initializer_name)
        name = variable_def.initial_value_name
        self._initial_value = element(name) if name else None
        self._cached_value = None
        if variable_def.snapshot_name:
            snapshot = element(variable_def.snapshot_name)
            if snapshot.op.type != "ReadVariableOp":
                self._cached_value = snapshot
            else:
                self._cached_value = None
            self._graph_element = snapshot
        else:
            self._graph_element = g.get_tensor_by_name(self._handle.op.name + "/Read/ReadVariableOp:0")
        self._save_slice_info = (
            variables.SaveSliceInfo(save_slice_info_def=variable_def.save_slice_info_def, import_scope=import_scope)
            if variable_def.HasField("save_slice_info_def")
            else None
        )
        self._caching_device = None
        self._constraint = None

    def to_proto(self, export_scope: str | None = None) -> Any:
        """A VariableDef, None where the variable is not in `export_scope`."""
        from millrace.core.framework import variable_pb2

        if export_scope is not None and not self.handle.name.startswith(export_scope):
            return None
        var_def = variable_pb2.VariableDef()
        var_def.variable_name = ops.strip_name_scope(self.handle.name, export_scope)
        if self._initial_value is not None:
            var_def.initial_value_name = ops.strip_name_scope(self._initial_value.name, export_scope)
        var_def.initializer_name = ops.strip_name_scope(self.initializer.name, export_scope)
        snapshot = self._cached_value if self._cached_value is not None else self._graph_element
        var_def.snapshot_name = ops.strip_name_scope(snapshot.name, export_scope)
        var_def.is_resource = True
        var_def.trainable = self.trainable
        var_def.synchronization = self.synchronization.value
        var_def.aggregation = self.aggregation.value
        if self._save_slice_info:
            var_def.save_slice_info_def.MergeFrom(self._save_slice_info.to_proto(export_scope=export_scope))
        return var_def

    @staticmethod
    def from_proto(variable_def: Any, import_scope: str | None = None) -> Any:
        """The variable that a VariableDef describes."""
        return ResourceVariable(variable_def=variable_def, import_scope=import_scope)


class UninitializedVariable(BaseResourceVariable):
    """A resource variable without an initial value."""

    def __init__(
        self,
        trainable: bool | None = None,
        caching_device: Any = None,
        name: str | None = None,
        shape: Any = None,
        dtype: Any = None,
        constraint: Any = None,
        synchronization: Any = None,
        aggregation: Any = None,
        **unused_kwargs: Any,
    ) -> None:
        """Makes a variable of `shape` and `dtype`."""
        del unused_kwargs
        (
            self._synchronization,
            self._aggregation,
            self._trainable,
        ) = variables.validate_synchronization_aggregation_trainable(synchronization, aggregation, trainable, name)
        self._constraint = constraint
        self._caching_device = caching_device
        with ops.init_scope():
            with ops.name_scope(name, "Variable") as name:
                handle_name = ops.name_from_scope_name(name)
                handle = variable_handle_from_shape_and_dtype(shape, dtype, handle_name, name)
                self._handle_name = handle_name + ":0"
                self._init_common(handle, dtype, shape)
                with ops.name_scope("Read"), ops.device(handle.device):
                    self._graph_element = self._read_variable_op()
            ops.add_to_collection(ops.GraphKeys.GLOBAL_VARIABLES, self)


class _UnreadVariable(BaseResourceVariable):
    """A variable after an assignment: whoever reads it reads after that."""

    def __init__(self, handle: Any, dtype: Any, shape: Any, parent_op: Any, unique_id: str, parent: Any) -> None:
        self._init_common(handle, dtype, shape)
        self._parent_op = parent_op
        self._handle_name = unique_id
        self._trainable = parent.trainable
        self._synchronization = parent.synchronization
        self._aggregation = parent.aggregation
        self._constraint = parent.constraint
        self._initial_value = parent._initial_value
        self._initializer_op = parent._initializer_op
        self._graph_element = self.read_value()

    @property
    def name(self) -> str:
        """The name of the assignment."""
        return self._parent_op.name  # type: ignore[no-any-return]

    @property
    def op(self) -> Any:
        """The assignment."""
        return self._parent_op

    def value(self) -> Any:
        """Returns the value after the assignment."""
        with ops.control_dependencies([self._parent_op]):
            return super().value()

    def read_value(self) -> Any:
        """Returns the value after the assignment."""
        with ops.control_dependencies([self._parent_op]):
            return super().read_value()

    def assign(self, value: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True) -> Any:
        """Sets the value after the assignment before."""
        with ops.control_dependencies([self._parent_op]):
            return super().assign(value, use_locking, name, read_value)

    def assign_add(self, delta: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True) -> Any:
        """Adds to the value after the assignment before."""
        with ops.control_dependencies([self._parent_op]):
            return super().assign_add(delta, use_locking, name, read_value)

    def assign_sub(self, delta: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True) -> Any:
        """Subtracts from the value after the assignment before."""
        with ops.control_dependencies([self._parent_op]):
            return super().assign_sub(delta, use_locking, name, read_value)


def _dense_resource_var_to_tensor(var: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    return var._dense_var_to_tensor(dtype=dtype, name=name, as_ref=as_ref)


ops.register_tensor_conversion_function(BaseResourceVariable, _dense_resource_var_to_tensor)
ops.register_dense_tensor_like_type(BaseResourceVariable)


def is_resource_variable(var: Any) -> bool:
    """Whether a value is a resource variable."""
    return isinstance(var, BaseResourceVariable) or hasattr(var, "_should_act_as_resource_variable")


def copy_to_graph_uninitialized(var: Any) -> Any:
    """Makes a variable like `var` in the default graph, without an initial value."""
    new_variable = UninitializedVariable(
        trainable=var.trainable, name=var._shared_name, shape=var.shape, dtype=var.dtype, constraint=var._constraint
    )
    new_variable._maybe_initialize_trackable()
    return new_variable
