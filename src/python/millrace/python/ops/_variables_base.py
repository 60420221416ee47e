# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The common base of variables: creation, operators, values and messages."""

from __future__ import annotations

import functools
from typing import Any

from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.ops import _variables_members
from millrace.python.ops._variable_kinds import (  # noqa: F401
    VariableAggregation,
    VariableAggregationV2,
    VariableSynchronization,
    validate_synchronization_aggregation_trainable,
)
from millrace.python.training.tracking import base as trackable
from millrace.python.util import compat


def _make_getter(captured_getter: Any, captured_previous: Any) -> Any:
    """A creator that calls `captured_getter` with the next one as its first argument."""

    def getter(**kwargs: Any) -> Any:
        return captured_getter(captured_previous, **kwargs)

    return getter


def _default_creator(v2: bool, **kwargs: Any) -> Any:
    from millrace.python.ops import variable_scope

    if v2:
        return variable_scope.default_variable_creator_v2(None, **kwargs)
    return variable_scope.default_variable_creator(None, **kwargs)


def _create(v2: bool, kwargs: dict[str, Any]) -> Any:
    """Calls the creators that are in scope, the innermost first."""
    previous_getter: Any = functools.partial(_default_creator, v2)
    for getter in ops.get_default_graph()._variable_creator_stack:
        previous_getter = _make_getter(getter[1] if isinstance(getter, tuple) else getter, previous_getter)
    if kwargs.get("aggregation") is None:
        kwargs["aggregation"] = VariableAggregation.NONE
    return previous_getter(**kwargs)


_V1_ARGUMENTS: dict[str, Any] = {
    "initial_value": None,
    "trainable": None,
    "collections": None,
    "validate_shape": True,
    "caching_device": None,
    "name": None,
    "variable_def": None,
    "dtype": None,
    "expected_shape": None,
    "import_scope": None,
    "constraint": None,
    "use_resource": None,
    "synchronization": VariableSynchronization.AUTO,
    "aggregation": VariableAggregation.NONE,
    "shape": None,
}

_V2_ARGUMENTS: dict[str, Any] = {
    "initial_value": None,
    "trainable": None,
    "validate_shape": True,
    "caching_device": None,
    "name": None,
    "variable_def": None,
    "dtype": None,
    "import_scope": None,
    "constraint": None,
    "synchronization": VariableSynchronization.AUTO,
    "aggregation": VariableAggregation.NONE,
    "shape": None,
}


def _bind(arguments: dict[str, Any], args: Any, kwargs: Any) -> dict[str, Any]:
    """Binds positional and keyword arguments to names, as a call of a function would."""
    names = list(arguments)
    if len(args) > len(names):
        raise TypeError(
            "__init__() takes from 1 to %d positional arguments but %d were given"
            % (len(names) + 1, len(args) + 1)
        )
    bound = dict(arguments)
    bound.update(zip(names, args))
    for key, value in kwargs.items():
        if key not in arguments:
            raise TypeError("__init__() got an unexpected keyword argument '%s'" % key)
        if key in names[: len(args)]:
            raise TypeError("__init__() got multiple values for argument '%s'" % key)
        bound[key] = value
    return bound


class VariableMetaclass(type):
    """Makes `Variable(...)` build a variable of the flavour that is in scope."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls.__name__ == "VariableV1" and cls.__module__ == __name__:
            return _create(False, _bind(_V1_ARGUMENTS, args, kwargs))
        if cls.__name__ == "Variable" and cls.__module__ == __name__:
            return _create(True, _bind(_V2_ARGUMENTS, args, kwargs))
        return super().__call__(*args, **kwargs)


class SaveSliceInfo:
    """Which part of a larger variable a variable is: name and shape of the whole, offset and shape of the part."""

    def __init__(
        self,
        full_name: str | None = None,
        full_shape: Any = None,
        var_offset: Any = None,
        var_shape: Any = None,
        save_slice_info_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        if save_slice_info_def:
            self.full_name: Any = ops.prepend_name_scope(
                save_slice_info_def.full_name, import_scope=import_scope
            )
            self.full_shape: Any = list(save_slice_info_def.full_shape)
            self.var_offset: Any = list(save_slice_info_def.var_offset)
            self.var_shape: Any = list(save_slice_info_def.var_shape)
        else:
            self.full_name = full_name
            self.full_shape = full_shape
            self.var_offset = var_offset
            self.var_shape = var_shape

    @property
    def spec(self) -> str:
        """The slice as it is written in checkpoints: sizes, then `offset,size` of each axis."""
        full_shape_str = " ".join(["%d" % d for d in self.full_shape]) + " "
        return full_shape_str + ":".join(["%d,%d" % (o, s) for o, s in zip(self.var_offset, self.var_shape)])

    def to_proto(self, export_scope: str | None = None) -> Any:
        """A SaveSliceInfoDef, None where the variable is not in `export_scope`."""
        from millrace.core.framework import variable_pb2

        if export_scope is not None and not self.full_name.startswith(export_scope):
            return None
        message = variable_pb2.SaveSliceInfoDef()
        message.full_name = ops.strip_name_scope(self.full_name, export_scope)
        message.full_shape.extend(int(i) for i in self.full_shape)
        message.var_offset.extend(int(i) for i in self.var_offset)
        message.var_shape.extend(int(i) for i in self.var_shape)
        return message


def _slices_of(sparse_delta: Any) -> Any:
    from millrace.python.framework import indexed_slices

    if not isinstance(sparse_delta, indexed_slices.IndexedSlices):
        raise TypeError("sparse_delta is not IndexedSlices: %s" % sparse_delta)
    return sparse_delta


class Variable(  # type: ignore[misc]
    _variables_members.VariableMembers, trackable.Trackable, metaclass=VariableMetaclass
):
    """A tensor that keeps its value between runs of a session."""

    SaveSliceInfo = SaveSliceInfo

    # NumPy leaves operators with arrays on the left to the variable.
    __array_priority__ = 100

    _constraint: Any = None
    _trainable: Any
    _synchronization: Any
    _aggregation: Any
    _save_slice_info: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError

    def __repr__(self) -> str:
        return "<tf.Variable '%s' shape=%s dtype=%s>" % (self.name, self.get_shape(), self.dtype.name)

    def __iter__(self) -> Any:
        raise TypeError("'Variable' object is not iterable.")

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: Any) -> bool:
        return self is other

    def __ne__(self, other: Any) -> bool:
        return self is not other

    @classmethod
    def _use_equality(cls, by_value: bool) -> None:
        """Makes `==` compare values, as that of tensors does, or objects."""
        from millrace.python.ops import math_ops

        cls.__eq__ = math_ops.tensor_equals if by_value else object.__eq__  # type: ignore[assignment, method-assign]
        cls.__ne__ = math_ops.tensor_not_equals if by_value else object.__ne__  # type: ignore[assignment, method-assign]

    @property
    def name(self) -> str:
        """The name of the variable's op with its output number."""
        raise NotImplementedError

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        raise NotImplementedError

    @property
    def trainable(self) -> bool:
        """Whether optimizers change the variable."""
        return self._trainable  # type: ignore[no-any-return]

    @property
    def synchronization(self) -> Any:
        """When copies of the variable on several devices are aggregated."""
        return self._synchronization

    @property
    def aggregation(self) -> Any:
        """How updates of copies of the variable are aggregated."""
        return self._aggregation

    @property
    def constraint(self) -> Any:
        """The function that an optimizer applies after an update, or None."""
        return self._constraint

    @property
    def initial_value(self) -> Any:
        """The tensor that the initializer assigns."""
        return self._initial_value  # type: ignore[attr-defined]

    @property
    def initializer(self) -> Any:
        """The op that assigns the initial value."""
        return self._initializer_op  # type: ignore[attr-defined]

    @property
    def _shared_name(self) -> str:
        return self.name[: self.name.index(":")]

    def get_shape(self) -> Any:
        """The shape, as a TensorShape."""
        return self.shape  # type: ignore[attr-defined]

    def set_shape(self, shape: Any) -> None:
        """Merges `shape` into the static shape."""
        raise NotImplementedError

    def experimental_ref(self) -> Any:
        """A key for dicts and sets that represents the variable itself."""
        from millrace.python.util import object_identity

        return object_identity.Reference(self)

    def eval(self, session: Any = None) -> Any:
        """Returns the value in a session (by default the default one) as an array."""
        return self.value().eval(session=session)  # type: ignore[attr-defined]

    def load(self, value: Any, session: Any = None) -> None:
        """Sets the variable in a session, without adding ops to the graph.

        Raises:
          ValueError: no session is given and there is no default one.
        """
        session = session or ops.get_default_session()
        if session is None:
            raise ValueError(
                "Either session argument should be provided or default session should be established"
            )
        session.run(self.initializer, {self.initializer.inputs[1]: value})

    def initialized_value(self) -> Any:
        """Returns the variable's value, or its initial value while it has none.

        Initial values of other variables that use it can be computed in any order.
        """
        from millrace.python.ops import control_flow_ops
        from millrace.python.ops import state_ops

        with ops.init_scope():
            return control_flow_ops.cond(
                state_ops.is_variable_initialized(self), self.read_value, lambda: self.initial_value  # type: ignore[attr-defined]
            )

    def count_up_to(self, limit: int) -> Any:
        """Adds 1 and returns the value before; fails with OutOfRangeError once the value is `limit`."""
        from millrace.python.ops import state_ops

        return state_ops.count_up_to(self, limit=limit)

    def _get_save_slice_info(self) -> Any:
        return self._save_slice_info

    def _set_save_slice_info(self, save_slice_info: Any) -> None:
        """Sets which part of a larger variable this one is."""
        self._save_slice_info = save_slice_info

    def _scatter(self, kind: str, sparse_delta: Any, use_locking: bool, name: str | None) -> Any:
        from millrace.python.ops import state_ops

        delta = _slices_of(sparse_delta)
        return getattr(state_ops, "scatter_" + kind)(
            self._scatter_ref(), delta.indices, delta.values, use_locking=use_locking, name=name
        )

    def _scatter_ref(self) -> Any:
        return self

    def scatter_sub(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Subtracts IndexedSlices from the rows of the variable."""
        return self._scatter("sub", sparse_delta, use_locking, name)

    def scatter_add(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Adds IndexedSlices to the rows of the variable."""
        return self._scatter("add", sparse_delta, use_locking, name)

    def scatter_max(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Sets rows to the element-wise maximum of themselves and IndexedSlices."""
        return self._scatter("max", sparse_delta, use_locking, name)

    def scatter_min(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Sets rows to the element-wise minimum of themselves and IndexedSlices."""
        return self._scatter("min", sparse_delta, use_locking, name)

    def scatter_mul(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Multiplies rows by IndexedSlices."""
        return self._scatter("mul", sparse_delta, use_locking, name)

    def scatter_div(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Divides rows by IndexedSlices."""
        return self._scatter("div", sparse_delta, use_locking, name)

    def scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Sets rows to those of IndexedSlices."""
        return self._scatter("update", sparse_delta, use_locking, name)

    def batch_scatter_update(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Sets rows; all axes of the indices but the last are batch axes of the variable, too."""
        from millrace.python.ops import state_ops

        delta = _slices_of(sparse_delta)
        return state_ops.batch_scatter_update(
            self, delta.indices, delta.values, use_locking=use_locking, name=name
        )

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Subtracts from elements or slices at coordinates."""
        from millrace.python.ops import state_ops

        return state_ops.scatter_nd_sub(self._scatter_ref(), indices, updates, use_locking=True, name=name)

    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Adds to elements or slices at coordinates."""
        from millrace.python.ops import state_ops

        return state_ops.scatter_nd_add(self._scatter_ref(), indices, updates, use_locking=True, name=name)

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Sets elements or slices at coordinates."""
        from millrace.python.ops import state_ops

        return state_ops.scatter_nd_update(self._scatter_ref(), indices, updates, use_locking=True, name=name)

    def to_proto(self, export_scope: str | None = None) -> Any:
        """A VariableDef, None where the variable is not in `export_scope`."""
        raise NotImplementedError

    @staticmethod
    def from_proto(variable_def: Any, import_scope: str | None = None) -> Any:
        """The variable that a VariableDef describes, in the default graph."""
        if variable_def.is_resource:
            from millrace.python.ops import resource_variable_ops

            return resource_variable_ops.ResourceVariable.from_proto(variable_def, import_scope=import_scope)
        from millrace.python.ops._variables_ref import RefVariable

        return RefVariable(variable_def=variable_def, import_scope=import_scope)

    @classmethod
    def _OverloadAllOperators(cls) -> None:
        """Adds the operators of tensors to the class, applied to the variable's value."""
        from millrace.python.ops import array_ops

        for operator in ops.Tensor.OVERLOADABLE_OPERATORS:
            if operator not in ("__eq__", "__ne__"):
                cls._OverloadOperator(operator)
        setattr(cls, "__getitem__", array_ops._slice_helper_var)

    @classmethod
    def _OverloadOperator(cls, operator: str) -> None:
        def _run_op(a: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(ops.Tensor, operator)(a.value(), *args, **kwargs)

        _run_op.__name__ = operator
        setattr(cls, operator, _run_op)


class VariableV1(Variable):
    """A tensor that keeps its value between runs of a session; tf.Variable of 1.x."""

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
        use_resource: bool | None = None,
        synchronization: Any = VariableSynchronization.AUTO,
        aggregation: Any = VariableAggregation.NONE,
        shape: Any = None,
    ) -> None:
        """Never run: calls of the class make variables of the requested kind; subclasses have their own constructors."""
        raise NotImplementedError


def colocation_attr(name: str) -> Any:
    """The attribute `_class` that puts ops on the device of the op `name`, before that op exists."""
    from millrace.core.framework import attr_value_pb2

    return attr_value_pb2.AttrValue(
        list=attr_value_pb2.AttrValue.ListValue(s=[compat.as_bytes("loc:@%s" % name)])
    )


def check_collections(collections: Any) -> Any:
    """The collections of a variable, by default the global variables; ValueError if they are not a list."""
    if collections is None:
        return [ops.GraphKeys.GLOBAL_VARIABLES]
    if not isinstance(collections, (list, tuple, set)):
        raise ValueError(
            "collections argument to Variable constructor must be a list, tuple, or set. Got %s of type %s"
            % (collections, type(collections))
        )
    return collections


def static_shape(shape: Any) -> Any:
    """A TensorShape, unknown for None."""
    return tensor_shape.TensorShape(None) if shape is None else tensor_shape.as_shape(shape)
