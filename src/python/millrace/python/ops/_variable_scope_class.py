# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The object that describes a variable scope, and the stack of them that a thread has in a graph."""

from __future__ import annotations

import functools
import threading
from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import variables
from millrace.python.ops._variable_store import _VariableStore

_VARSTORE_KEY = ("__variable_store",)
_VARSCOPESTORE_KEY = ("__varscope",)


class VariableScope:
    """The defaults of get_variable, and the prefix of names."""

    def __init__(
        self,
        reuse: Any,
        name: str = "",
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        name_scope: str = "",
        dtype: Any = dtypes.float32,
        use_resource: Any = None,
        constraint: Any = None,
    ) -> None:
        self._name = name
        self._initializer = initializer
        self._regularizer = regularizer
        self._reuse = reuse
        self._caching_device = caching_device
        self._partitioner = partitioner
        self._custom_getter = custom_getter
        self._name_scope = name_scope
        self._dtype = dtype
        self._use_resource = use_resource
        self._constraint = constraint

    @property
    def name(self) -> str:
        """The prefix of names, without a slash at the end."""
        return self._name

    @property
    def original_name_scope(self) -> str:
        """The name scope that was opened with the variable scope."""
        return self._name_scope

    @property
    def reuse(self) -> Any:
        """Whether variables must exist."""
        return self._reuse

    @property
    def initializer(self) -> Any:
        """The default initializer."""
        return self._initializer

    @property
    def dtype(self) -> Any:
        """The default type."""
        return self._dtype

    @property
    def use_resource(self) -> Any:
        """Whether resource variables are made."""
        return self._use_resource

    @property
    def regularizer(self) -> Any:
        """The default regularizer."""
        return self._regularizer

    @property
    def caching_device(self) -> Any:
        """The default caching device."""
        return self._caching_device

    @property
    def partitioner(self) -> Any:
        """The default partitioner."""
        return self._partitioner

    @property
    def custom_getter(self) -> Any:
        """The default custom getter."""
        return self._custom_getter

    @property
    def constraint(self) -> Any:
        """The default constraint."""
        return self._constraint

    def reuse_variables(self) -> None:
        """From now on variables must exist."""
        self._reuse = True

    def set_initializer(self, initializer: Any) -> None:
        """Sets the default initializer."""
        self._initializer = initializer

    def set_dtype(self, dtype: Any) -> None:
        """Sets the default type."""
        self._dtype = dtype

    def set_use_resource(self, use_resource: Any) -> None:
        """Sets whether resource variables are made."""
        self._use_resource = use_resource

    def set_regularizer(self, regularizer: Any) -> None:
        """Sets the default regularizer."""
        self._regularizer = regularizer

    def set_caching_device(self, caching_device: Any) -> None:
        """Sets the default caching device."""
        self._caching_device = caching_device

    def set_partitioner(self, partitioner: Any) -> None:
        """Sets the default partitioner."""
        self._partitioner = partitioner

    def set_custom_getter(self, custom_getter: Any) -> None:
        """Sets the default custom getter."""
        self._custom_getter = custom_getter

    def set_constraint(self, constraint: Any) -> None:
        """Sets the default constraint."""
        self._constraint = constraint

    def get_collection(self, name: str) -> Any:
        """The entries of a collection under this scope."""
        return ops.get_collection(name, self._name + "/" if self._name else "")

    def trainable_variables(self) -> Any:
        """The trainable variables under this scope."""
        return self.get_collection(ops.GraphKeys.TRAINABLE_VARIABLES)

    def global_variables(self) -> Any:
        """The global variables under this scope."""
        return self.get_collection(ops.GraphKeys.GLOBAL_VARIABLES)

    def local_variables(self) -> Any:
        """The local variables under this scope."""
        return self.get_collection(ops.GraphKeys.LOCAL_VARIABLES)

    def get_variable(
        self,
        var_store: _VariableStore,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        reuse: Any = None,
        trainable: Any = None,
        collections: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        validate_shape: bool = True,
        use_resource: Any = None,
        custom_getter: Any = None,
        constraint: Any = None,
        synchronization: Any = variables.VariableSynchronization.AUTO,
        aggregation: Any = variables.VariableAggregation.NONE,
    ) -> Any:
        """Returns a variable of this scope; see tf.get_variable."""
        full_name = self.name + "/" + name if self.name else name
        # Names of variables depend on variable scopes alone.
        with ops.name_scope(None):
            if dtype is not None and initializer is not None and not callable(initializer):
                init_dtype = ops.convert_to_tensor(initializer).dtype.base_dtype
                if init_dtype != dtype:
                    raise ValueError(
                        "Initializer type '%s' and explicit dtype '%s' don't match." % (init_dtype, dtype)
                    )
            return var_store.get_variable(
                full_name,
                shape=shape,
                dtype=self._dtype if dtype is None else dtype,
                initializer=self._initializer if initializer is None else initializer,
                regularizer=self._regularizer if regularizer is None else regularizer,
                reuse=self._reuse if reuse is None else reuse,
                trainable=trainable,
                collections=collections,
                caching_device=self._caching_device if caching_device is None else caching_device,
                partitioner=self._partitioner if partitioner is None else partitioner,
                validate_shape=validate_shape,
                use_resource=self._use_resource if use_resource is None else use_resource,
                custom_getter=self._custom_getter if custom_getter is None else custom_getter,
                constraint=self._constraint if constraint is None else constraint,
                synchronization=synchronization,
                aggregation=aggregation,
            )


class _VariableScopeStore(threading.local):
    """The current scope of a thread, and how often each name was opened."""

    def __init__(self) -> None:
        super().__init__()
        self.variable_scopes_count: dict[str, int] = {}
        self.current_scope = VariableScope(False)

    def open_variable_scope(self, scope_name: str) -> None:
        """Counts an entry into a scope."""
        self.variable_scopes_count[scope_name] = self.variable_scopes_count.get(scope_name, 0) + 1

    def close_variable_subscopes(self, scope_name: str | None) -> None:
        """Resets the counts of the scopes within `scope_name`."""
        for k in list(self.variable_scopes_count):
            if scope_name is None or k.startswith(scope_name + "/"):
                self.variable_scopes_count[k] = 0

    def variable_scope_count(self, scope_name: str) -> int:
        """The number of times that a scope was opened."""
        return self.variable_scopes_count.get(scope_name, 0)


def get_variable_scope_store() -> _VariableScopeStore:
    """The stack of scopes of the default graph."""
    scope_store = ops.get_collection(_VARSCOPESTORE_KEY)
    if not scope_store:
        new = _VariableScopeStore()
        ops.add_to_collection(_VARSCOPESTORE_KEY, new)
        return new
    return scope_store[0]  # type: ignore[no-any-return]


def get_variable_scope() -> VariableScope:
    """Returns the current variable scope."""
    return get_variable_scope_store().current_scope


def _get_default_variable_store() -> _VariableStore:
    store = ops.get_collection(_VARSTORE_KEY)
    if store:
        return store[0]  # type: ignore[no-any-return]
    new = _VariableStore()
    ops.add_to_collection(_VARSTORE_KEY, new)
    return new


def _maybe_wrap_custom_getter(custom_getter: Any, old_getter: Any) -> Any:
    """A getter that calls `custom_getter` with `old_getter` as its getter."""
    if old_getter is None:
        return custom_getter

    def wrapped_custom_getter(getter: Any, *args: Any, **kwargs: Any) -> Any:
        return custom_getter(functools.partial(old_getter, getter), *args, **kwargs)

    return wrapped_custom_getter


class _pure_variable_scope:
    """A variable scope without a name scope."""

    def __init__(
        self,
        name_or_scope: Any,
        reuse: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        old_name_scope: Any = None,
        dtype: Any = dtypes.float32,
        use_resource: Any = None,
        constraint: Any = None,
    ) -> None:
        self._name_or_scope = name_or_scope
        self._reuse = reuse
        self._old_name_scope = old_name_scope
        self._custom_getter = custom_getter
        self._changes = {
            "initializer": initializer,
            "regularizer": regularizer,
            "caching_device": caching_device,
            "partitioner": partitioner,
            "dtype": dtype,
            "use_resource": use_resource,
            "constraint": constraint,
        }
        _get_default_variable_store()
        self._store = get_variable_scope_store()
        self._cached: VariableScope | None = None
        if isinstance(name_or_scope, VariableScope):
            self._new_name = name_or_scope.name
            self._cached = self._derived(
                name_or_scope,
                name_or_scope.reuse if not self._reuse else self._reuse,
                self._new_name,
                name_or_scope.original_name_scope,
            )

    def _derived(self, base: VariableScope, reuse: Any, name: str, name_scope: str) -> VariableScope:
        """A scope with the settings of `base`, except those that were given."""
        settings = {
            key: getattr(base, key) if value is None else value for key, value in self._changes.items()
        }
        getter = base.custom_getter
        if self._custom_getter is not None:
            getter = _maybe_wrap_custom_getter(self._custom_getter, base.custom_getter)
        return VariableScope(reuse, name=name, custom_getter=getter, name_scope=name_scope, **settings)

    def __enter__(self) -> VariableScope:
        self._old = self._store.current_scope
        if isinstance(self._name_or_scope, VariableScope):
            self._store.open_variable_scope(self._new_name)
            self._old_subscopes = dict(self._store.variable_scopes_count)
            scope = self._cached
            assert scope is not None
        else:
            self._new_name = (
                self._old.name + "/" + self._name_or_scope if self._old.name else self._name_or_scope
            )
            # Reuse holds for all scopes inside.
            self._reuse = self._reuse or self._old.reuse
            name_scope = self._name_or_scope if self._old_name_scope is None else self._old_name_scope
            scope = self._derived(self._old, self._reuse, self._new_name, name_scope)
            self._store.open_variable_scope(self._new_name)
        self._store.current_scope = scope
        return scope

    def __exit__(self, type_arg: Any, value_arg: Any, traceback_arg: Any) -> None:
        if isinstance(self._name_or_scope, VariableScope):
            self._store.variable_scopes_count = self._old_subscopes
        else:
            self._store.close_variable_subscopes(self._new_name)
        self._store.current_scope = self._old
