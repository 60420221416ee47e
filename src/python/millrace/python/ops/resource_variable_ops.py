# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Resource variables: a handle, and ops that read and assign the variable."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.ops import array_ops
from millrace.python.ops import gen_resource_variable_ops
from millrace.python.ops import math_ops
from millrace.python.ops import variables
from millrace.python.ops._eager_variables import EagerResourceDeleter
from millrace.python.ops._resource_variable_base import _UnreadVariable  # noqa: F401
from millrace.python.ops._resource_variable_base import BaseResourceVariable
from millrace.python.ops._resource_variable_base import eager_safe_variable_handle  # noqa: F401
from millrace.python.ops._resource_variable_base import get_eager_safe_handle_data  # noqa: F401
from millrace.python.ops._resource_variable_base import get_resource_handle_data  # noqa: F401
from millrace.python.ops._resource_variable_base import shape_safe_assign_variable_handle  # noqa: F401
from millrace.python.ops._resource_variable_base import variable_handle_from_shape_and_dtype
from millrace.python.ops._variables_base import check_collections
from millrace.python.ops._variables_base import colocation_attr
from millrace.python.ops._variables_ref import _CONTROL_FLOW_INITIALIZER
from millrace.python.ops._variables_ref import _try_guard_against_uninitialized_dependencies
from millrace.python.ops.gen_resource_variable_ops import *  # noqa: F401,F403


class ResourceVariable(BaseResourceVariable):
    """A variable accessed by a resource handle, as tf.get_variable(use_resource=True) makes it."""

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
        ) = variables.validate_synchronization_aggregation_trainable(
            synchronization, aggregation, trainable, name
        )
        if self._trainable and ops.GraphKeys.TRAINABLE_VARIABLES not in collections:
            collections = list(collections) + [ops.GraphKeys.TRAINABLE_VARIABLES]
        self._constraint = constraint
        self._caching_device = caching_device
        self._save_slice_info = None
        if isinstance(initial_value, ops.Tensor) and getattr(initial_value, "graph", None) is not None:
            self._check_initial_value(initial_value)
        with ops.init_scope():
            if ops.executing_eagerly():
                self._make_eagerly(initial_value, init_from_fn, name, dtype, shape)
                if ops.GraphKeys.GLOBAL_STEP in collections:
                    ops.add_to_collections(ops.GraphKeys.GLOBAL_STEP, self)
                return
            with ops.name_scope(name, "Variable", [] if init_from_fn else [initial_value]) as name:
                self._make(initial_value, init_from_fn, name, dtype, shape)
                self._make_ops(name, caching_device)
            ops.add_to_collections(collections, self)

    @staticmethod
    def _check_initial_value(initial_value: Any) -> None:
        """Raises ValueError for tensors of a function, whose variables are made outside of it."""
        if not isinstance(initial_value, ops.EagerTensor) and initial_value.graph.building_function:
            if ops.executing_eagerly_outside_functions():
                raise ValueError(
                    "Tensor-typed variable initializers must either be wrapped in an init_scope or callable "
                    "(e.g., `tf.Variable(lambda : tf.truncated_normal([10, 40]))`) when building functions. Please "
                    "file a feature request if this restriction inconveniences you."
                )

    def _make_eagerly(
        self, initial_value: Any, init_from_fn: bool, name: Any, dtype: Any, shape: Any
    ) -> None:
        """Makes an eager variable, which is initialized immediately."""
        with ops.name_scope(name, "Variable") as scope:
            handle_name = ops.name_from_scope_name(scope)
            with ops.name_scope("Initializer"):
                value = ops.convert_to_tensor(
                    initial_value() if init_from_fn else initial_value, name="initial_value", dtype=dtype
                )
            if shape is None:
                shape = value.shape
            elif not value.shape.is_compatible_with(shape):
                raise ValueError(
                    "The initial value's shape (%s) is not compatible with the explicitly supplied `shape` "
                    "argument (%s)." % (value.shape, shape)
                )
            shape = tensor_shape.as_shape(shape)
            handle = eager_safe_variable_handle(value, shape, handle_name, scope, graph_mode=False)
        self._handle_name = handle_name + ":0"
        self._init_common(handle, value.dtype, shape)
        self._unique = "%s_%d" % (handle_name, ops.uid())
        gen_resource_variable_ops.assign_variable_op(handle, value)
        self._handle_deleter = EagerResourceDeleter(handle)

    @property
    def _unique_id(self) -> str:
        return getattr(self, "_unique", None) or self._handle_name

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
        """Makes the ops that test for a value, assign the initial one, and read it."""
        handle = self._handle
        with ops.name_scope("IsInitialized"):
            self._is_initialized_op = gen_resource_variable_ops.var_is_initialized_op(handle)
        with ops.name_scope("Assign") as n, ops.colocate_with(None, ignore_existing=True), ops.device(
            handle.device
        ):
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
        self._init_common(
            handle, handle.op.get_attr("dtype"), tensor_shape.TensorShape(handle.op.get_attr("shape"))
        )
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
            variables.SaveSliceInfo(
                save_slice_info_def=variable_def.save_slice_info_def, import_scope=import_scope
            )
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
        ) = variables.validate_synchronization_aggregation_trainable(
            synchronization, aggregation, trainable, name
        )
        self._constraint = constraint
        self._caching_device = caching_device
        with ops.init_scope():
            if ops.executing_eagerly():
                with ops.name_scope(name, "Variable") as name:
                    handle_name = ops.name_from_scope_name(name)
                handle = variable_handle_from_shape_and_dtype(
                    shape, dtype, handle_name, name, graph_mode=False
                )
                self._handle_name = handle_name + ":0"
                self._init_common(handle, dtype, shape)
                self._handle_deleter = EagerResourceDeleter(handle)
                return
            with ops.name_scope(name, "Variable") as name:
                handle_name = ops.name_from_scope_name(name)
                handle = variable_handle_from_shape_and_dtype(shape, dtype, handle_name, name)
                self._handle_name = handle_name + ":0"
                self._init_common(handle, dtype, shape)
                with ops.name_scope("Read"), ops.device(handle.device):
                    self._graph_element = self._read_variable_op()
            ops.add_to_collection(ops.GraphKeys.GLOBAL_VARIABLES, self)


class _MixedPrecisionVariable(ResourceVariable):
    """A resource variable whose value is read in another type than the stored one."""

    def __init__(self, var: Any, read_dtype: Any) -> None:
        if not isinstance(var, ResourceVariable):
            raise ValueError("InvalidArgument: var must be a ResourceVariable type.")
        self.__dict__.update(var.__dict__)
        self._read_dtype = read_dtype

    @property
    def read_dtype(self) -> Any:
        """The type in which the value is read."""
        return self._read_dtype

    def _read_variable_op(self) -> Any:
        return math_ops.cast(super()._read_variable_op(), self._read_dtype)

    def _dense_var_to_tensor(self, dtype: Any = None, name: Any = None, as_ref: bool = False) -> Any:
        del name
        dtype = dtype or self._read_dtype
        if dtype != self._read_dtype or as_ref:
            return NotImplemented
        return self.value()


def _dense_resource_var_to_tensor(
    var: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False
) -> Any:
    return var._dense_var_to_tensor(dtype=dtype, name=name, as_ref=as_ref)


ops.register_tensor_conversion_function(BaseResourceVariable, _dense_resource_var_to_tensor)
ops.register_dense_tensor_like_type(BaseResourceVariable)


def is_resource_variable(var: Any) -> bool:
    """Whether a value is a resource variable."""
    return isinstance(var, BaseResourceVariable) or hasattr(var, "_should_act_as_resource_variable")


def copy_to_graph_uninitialized(var: Any) -> Any:
    """Makes a variable like `var` in the default graph, without an initial value."""
    new_variable = UninitializedVariable(
        trainable=var.trainable,
        name=var._shared_name,
        shape=var.shape,
        dtype=var.dtype,
        constraint=var._constraint,
    )
    new_variable._maybe_initialize_trackable()
    return new_variable
