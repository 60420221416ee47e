# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The base class of resource variables: handles, reads and assignments."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.ops import _eager_variables
from millrace.python.ops import array_ops
from millrace.python.ops import gen_array_ops
from millrace.python.ops import gen_resource_variable_ops
from millrace.python.ops import variables


def get_resource_handle_data(graph_op: Any) -> Any:
    """HandleData, the message, of the known properties of a handle's resource in a graph."""
    from millrace.python.framework import cpp_shape_inference_pb2

    return graph_op._handle_data or cpp_shape_inference_pb2.HandleData()


get_eager_safe_handle_data = get_resource_handle_data


def variable_handle_from_shape_and_dtype(
    shape: Any,
    dtype: Any,
    shared_name: str,
    name: str | None,
    graph_mode: bool = True,
    initial_value: Any = None,
) -> Any:
    """Makes the handle of a resource variable."""
    del initial_value
    if not graph_mode:
        return _eager_variables.handle_of_new_variable(
            tensor_shape.as_shape(shape), dtype, shared_name or name or "Variable"
        )
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


executing_eagerly = ops.executing_eagerly


class BaseResourceVariable(_eager_variables.EagerVariableMembers, variables.VariableV1):
    """A variable that is accessed by a resource handle."""

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
        self._graph_key = (
            ops.get_default_graph()._graph_key if not isinstance(handle, ops.EagerTensor) else "eager"
        )
        self._in_graph_mode = not isinstance(handle, ops.EagerTensor)

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
        """The tensor that represents the variable in fetches."""
        return self._graph_element

    def _AsTensor(self) -> Any:
        return self.value()

    def _ref(self) -> Any:
        """References are refused: a resource variable has none."""
        raise NotImplementedError("ResourceVariable does not implement _ref()")

    def set_shape(self, shape: Any) -> None:
        """Merges `shape` into the static shape."""
        self._shape = self._shape.merge_with(shape)

    def is_initialized(self, name: str | None = None) -> Any:
        """Returns a boolean scalar that is true if the variable has a value."""
        return gen_resource_variable_ops.var_is_initialized_op(self.handle, name)

    def _read_variable_op(self) -> Any:
        _eager_variables.note_read(self)
        result = gen_resource_variable_ops.read_variable_op(self._handle, self._dtype)
        if not result.shape.is_fully_defined():
            result.set_shape(self._shape)
        return result

    def value(self) -> Any:
        """Returns a tensor of the variable's value at the time the read op runs."""
        if self._cached_value is not None:
            return self._cached_value
        if executing_eagerly():
            return self._read_variable_op()
        with ops.colocate_with(None, ignore_existing=True):
            with ops.device(self._handle.device):
                return self._read_variable_op()

    def read_value(self) -> Any:
        """Returns a tensor of the value, read after the control dependencies in scope."""
        if executing_eagerly():
            return self._read_variable_op()
        with ops.name_scope("Read"):
            with ops.device(self._handle.device):
                value = self._read_variable_op()
            # The result may lie elsewhere than the variable.
            return array_ops.identity(value)

    def sparse_read(self, indices: Any, name: str | None = None) -> Any:
        """Returns the rows `indices`, without reading the others."""
        with ops.name_scope("Gather" if name is None else name) as name:
            _eager_variables.note_read(self)
            value = gen_resource_variable_ops.resource_gather(
                self._handle, indices, dtype=self._dtype, name=name
            )
        return array_ops.identity(value)

    def gather_nd(self, indices: Any, name: str | None = None) -> Any:
        """Returns elements or slices at coordinates."""
        with ops.name_scope("GatherNd" if name is None else name) as name:
            _eager_variables.note_read(self)
            value = gen_resource_variable_ops.resource_gather_nd(
                self._handle, indices, dtype=self._dtype, name=name
            )
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

    def assign(
        self, value: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Sets the value; returns a tensor of the new value, or the op if `read_value` is false."""
        del use_locking
        value_tensor = ops.convert_to_tensor(value, dtype=self.dtype)
        self._shape.assert_is_compatible_with(value_tensor.shape)
        assign_op = gen_resource_variable_ops.assign_variable_op(self.handle, value_tensor, name=name)
        return self._lazy_read(assign_op) if read_value else assign_op

    def assign_add(
        self, delta: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Adds to the value; returns a tensor of the new value, or the op if `read_value` is false."""
        del use_locking
        op = gen_resource_variable_ops.assign_add_variable_op(
            self.handle, ops.convert_to_tensor(delta, dtype=self.dtype), name=name
        )
        return self._lazy_read(op) if read_value else op

    def assign_sub(
        self, delta: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Subtracts from the value; returns a tensor of the new value, or the op if `read_value` is false."""
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
            return self.handle if executing_eagerly() else self.read_value().op.inputs[0]
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

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        from millrace.python.training.tracking import base as trackable

        return {trackable.VARIABLE_VALUE_KEY: self}


class _UnreadVariable(BaseResourceVariable):
    """A variable after an assignment: reads through it happen after the assignment."""

    def __init__(
        self, handle: Any, dtype: Any, shape: Any, parent_op: Any, unique_id: str, parent: Any
    ) -> None:
        self._init_common(handle, dtype, shape)
        self._parent_op = parent_op
        self._handle_name = unique_id
        self._trainable = parent.trainable
        self._synchronization = parent.synchronization
        self._aggregation = parent.aggregation
        self._constraint = parent.constraint
        self._initial_value = parent._initial_value
        self._initializer_op = parent._initializer_op
        self._parent = parent  # its value exists as long as this object
        self._graph_element = self.read_value() if self._in_graph_mode else None

    @property
    def name(self) -> str:
        """The name of the assignment."""
        if self._parent_op is None:
            return "UnreadVariable"
        return self._parent_op.name  # type: ignore[no-any-return]

    def _after_parent(self) -> Any:
        return ops.control_dependencies([] if self._parent_op is None else [self._parent_op])

    @property
    def op(self) -> Any:
        """The assignment."""
        return self._parent_op

    def value(self) -> Any:
        """Returns the value after the assignment."""
        with self._after_parent():
            return super().value()

    def read_value(self) -> Any:
        """Returns the value after the assignment."""
        with self._after_parent():
            return super().read_value()

    def assign(
        self, value: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Sets the value after the assignment before."""
        with self._after_parent():
            return super().assign(value, use_locking, name, read_value)

    def assign_add(
        self, delta: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Adds to the value after the assignment before."""
        with self._after_parent():
            return super().assign_add(delta, use_locking, name, read_value)

    def assign_sub(
        self, delta: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Subtracts from the value after the assignment before."""
        with self._after_parent():
            return super().assign_sub(delta, use_locking, name, read_value)
