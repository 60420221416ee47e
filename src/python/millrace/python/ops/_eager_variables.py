# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Resource variables in eager mode: they have values, and live as long as their Python objects."""
from __future__ import annotations

import copy
from contextlib import contextmanager
from typing import Any, Iterator

import numpy as np

from millrace.python import _engine
from millrace.python.eager import context, tape
from millrace.python.framework import dtypes, ops


class EagerResourceDeleter:
    """Destroys a resource when it is freed."""

    def __init__(self, handle: Any, handle_device: Any = None) -> None:
        if not isinstance(handle, ops.Tensor):
            raise ValueError(
                "Passed handle=%s to EagerResourceDeleter. Was expecting a handle Tensor." % (handle,)
            )
        self._handle = handle
        del handle_device

    def __del__(self) -> None:
        try:
            execute = _engine.eager_execute
            execute("DestroyResourceOp", None, [self._handle], [("ignore_lookup_error", "bool", True)], 0)
        except Exception:  # the interpreter is ending
            pass


class EagerVariableMembers:
    """Base of resource variables: members that need a value, and members that need a graph."""

    _in_graph_mode: bool
    _handle_deleter: Any = None

    @property
    def _shared_name(self) -> str:
        return self.name[:-2]  # type: ignore[attr-defined,no-any-return]

    def _needs_values(self, what: str) -> None:
        if not context.executing_eagerly():
            raise NotImplementedError("%s() is only available when eager execution is enabled." % what)

    def numpy(self) -> Any:
        """The value as an array.

        Raises:
          NotImplementedError: ops are added to a graph.
        """
        self._needs_values("numpy")
        return self.read_value().numpy()  # type: ignore[attr-defined]

    def __array__(self, dtype: Any = None) -> Any:
        return np.asarray(self.numpy(), dtype)

    def __repr__(self) -> str:
        if context.executing_eagerly() and not self._in_graph_mode:
            return "<tf.Variable '%s' shape=%s dtype=%s, numpy=%s>" % (
                self.name, self.get_shape(), self.dtype.name,  # type: ignore[attr-defined]
                ops.numpy_text(self.read_value(), is_repr=True),  # type: ignore[attr-defined]
            )  # fmt: skip
        return "<tf.Variable '%s' shape=%s dtype=%s>" % (
            self.name, self.get_shape(), self.dtype.name,  # type: ignore[attr-defined]
        )  # fmt: skip

    def __bool__(self) -> bool:
        return bool(self.read_value())  # type: ignore[attr-defined]

    __nonzero__ = __bool__

    def __int__(self) -> int:
        if self.dtype not in (dtypes.int32, dtypes.int64):  # type: ignore[attr-defined]
            raise TypeError("Non-integer variable can't be converted to integer.")
        if not context.executing_eagerly():
            raise TypeError("int() of a variable needs its value: use session.run.")
        return int(self.value().numpy())  # type: ignore[attr-defined]

    def __float__(self) -> float:
        self._needs_values("float")
        return float(self.value().numpy())  # type: ignore[attr-defined]

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        self._needs_values("__deepcopy__")
        made = type(self)(  # type: ignore[call-arg]
            initial_value=self.read_value(),  # type: ignore[attr-defined]
            trainable=self._trainable,  # type: ignore[attr-defined]
            constraint=self._constraint,  # type: ignore[attr-defined]
            dtype=self._dtype,  # type: ignore[attr-defined]
            name=self._shared_name,
        )
        memo[id(self)] = made
        for key, value in self.__dict__.items():
            if key.startswith("_") is False:
                setattr(made, key, copy.deepcopy(value, memo))
        return made

    def __reduce__(self) -> Any:
        self._needs_values("__reduce__")
        return _remade, (self.numpy(), self._trainable, self._shared_name, self.dtype.as_datatype_enum)  # type: ignore[attr-defined]

    def eval(self, session: Any = None) -> Any:
        """Returns the value in a session.

        Raises:
          RuntimeError: eager execution is enabled.
        """
        if context.executing_eagerly():
            raise RuntimeError("Trying to eval in EAGER mode")
        return self._graph_element.eval(session=session)  # type: ignore[attr-defined]

    @property
    def initial_value(self) -> Any:
        """The tensor that the initializer assigns.

        Raises:
          RuntimeError: eager execution is enabled.
        """
        if context.executing_eagerly():
            raise RuntimeError("initial_value not supported in EAGER mode.")
        return self._initial_value  # type: ignore[attr-defined]

    def load(self, value: Any, session: Any = None) -> None:
        """Sets the variable, in graphs by a session."""
        if context.executing_eagerly():
            self.assign(value)  # type: ignore[attr-defined]
            return
        super().load(value, session)  # type: ignore[misc]

    def initialized_value(self) -> Any:
        """The value."""
        if context.executing_eagerly():
            return self.read_value()  # type: ignore[attr-defined]
        return super().initialized_value()  # type: ignore[misc]


def _remade(value: Any, trainable: bool, name: str, dtype: int) -> Any:
    from millrace.python.ops import resource_variable_ops

    return resource_variable_ops.ResourceVariable(
        value, trainable=trainable, name=name, dtype=dtypes.as_dtype(dtype)
    )


def handle_of_new_variable(shape: Any, dtype: Any, name: str) -> Any:
    """The handle of an unshared variable, with the known properties of its value."""
    from millrace.python.ops import gen_resource_variable_ops

    del name
    handle = gen_resource_variable_ops.var_handle_op(
        shape=shape, dtype=dtype, shared_name=context.anonymous_name(), container=""
    )
    handle._set_handle_data_tuple(
        dtypes.as_dtype(dtype).base_dtype.as_datatype_enum,
        shape.as_list() if shape.rank is not None else None,
    )
    return handle


def note_read(variable: Any) -> None:
    """Records a read on tapes, and in the function that is being built."""
    tape.variable_accessed(variable)
    if not context.executing_eagerly():
        graph = ops.get_default_graph()
        watch = getattr(graph, "watch_variable", None)
        if watch is not None:
            watch(variable)


class EagerVariableStore:
    """Within `store.as_default()` tf.get_variable finds the variables again that it made there before."""

    def __init__(self, store: Any = None) -> None:
        from millrace.python.ops import _variable_store

        if store is not None and not store._store_eager_variables:
            raise ValueError("Cannot construct EagerVariableStore from a VariableStore object that does not hold eager variables.")  # fmt: skip
        self._store = store if store is not None else _variable_store._VariableStore()
        self._store._store_eager_variables = True

    @contextmanager
    def as_default(self) -> Iterator[None]:
        """A context in which variables are those of this store."""
        from millrace.python.ops import _variable_scope_class

        stores = ops.get_collection_ref(_variable_scope_class._VARSTORE_KEY)
        old = list(stores)
        stores[:] = [self._store]
        try:
            yield
        finally:
            stores[:] = old

    def variables(self) -> list[Any]:
        """All variables, by name."""
        return sorted(self._store._vars.values(), key=lambda x: x.name)

    def trainable_variables(self) -> list[Any]:
        """Those that are trained."""
        return [v for v in self.variables() if v.trainable]

    def non_trainable_variables(self) -> list[Any]:
        """Those that are not trained."""
        return [v for v in self.variables() if not v.trainable]

    def copy(self) -> EagerVariableStore:
        """A store with copies of the variables."""
        from millrace.python.ops import resource_variable_ops

        made = EagerVariableStore()
        for key, var in self._store._vars.items():
            name = var.name[: var.name.index(":")] if ":" in var.name else var.name
            made._store._vars[key] = resource_variable_ops.ResourceVariable(
                var.read_value(), name=name, trainable=var.trainable
            )
        return made
