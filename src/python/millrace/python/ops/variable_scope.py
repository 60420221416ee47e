# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Variables that are shared by name: tf.get_variable and tf.variable_scope."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

from millrace.python.framework import ops
from millrace.python.ops import resource_variable_ops
from millrace.python.ops import variables
from millrace.python.ops._variable_scope_class import VariableScope
from millrace.python.ops._variable_scope_class import _VARSCOPESTORE_KEY  # noqa: F401
from millrace.python.ops._variable_scope_class import _VARSTORE_KEY  # noqa: F401
from millrace.python.ops._variable_scope_class import _get_default_variable_store
from millrace.python.ops._variable_scope_class import _maybe_wrap_custom_getter  # noqa: F401
from millrace.python.ops._variable_scope_class import _pure_variable_scope
from millrace.python.ops._variable_scope_class import get_variable_scope
from millrace.python.ops._variable_scope_class import get_variable_scope_store
from millrace.python.ops._variable_store import AUTO_REUSE
from millrace.python.ops._variable_store import _Defaults
from millrace.python.ops._variable_store import _PartitionInfo  # noqa: F401
from millrace.python.ops._variable_store import _ReuseMode  # noqa: F401
from millrace.python.ops._variable_store import _VariableStore  # noqa: F401
from millrace.python.ops._eager_variables import EagerVariableStore  # noqa: F401
from millrace.python.ops._variable_slices import _call_partitioner  # noqa: F401
from millrace.python.ops._variable_slices import _get_slice_dim_and_num_slices  # noqa: F401
from millrace.python.ops._variable_slices import _iter_slices  # noqa: F401

VariableSynchronization = variables.VariableSynchronization
VariableAggregation = variables.VariableAggregation


def enable_resource_variables() -> None:
    """Makes resource variables the default flavour."""
    _Defaults.use_resource = True


def disable_resource_variables() -> None:
    """Makes reference variables the default flavour."""
    _Defaults.use_resource = False


def resource_variables_enabled() -> bool:
    """Whether resource variables are the default flavour."""
    return _Defaults.use_resource


def no_regularizer(_: Any) -> None:
    """A regularizer that adds no loss, even where the scope has one."""
    return None


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: Any = None,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: Any = None,
    custom_getter: Any = None,
    constraint: Any = None,
    synchronization: Any = VariableSynchronization.AUTO,
    aggregation: Any = VariableAggregation.NONE,
) -> Any:
    """Returns the variable `name` of the current variable scope: a new one, or an existing one where it is reused.

    Args:
      name: the name within the current variable scope.
      shape: the shape; not with an initial value.
      dtype: the type, by default the scope's (float32).
      initializer: a function (shape, dtype=, partition_info=), a class of such, or an initial value; by default
        the scope's, else Glorot's uniform one.
      regularizer: a function of the variable whose result is added to the regularisation losses.
      trainable: whether optimizers change it (default: true).
      collections: keys of collections, by default that of the global variables.
      caching_device: the device on which a copy for readers is kept.
      partitioner: a function (shape=, dtype=) that returns into how many parts each axis is split.
      validate_shape: whether the shape must be known and cannot change.
      use_resource: whether to make a resource variable.
      custom_getter: a function (getter, name, ...) that is called instead of the getter.
      constraint: a function that optimizers apply after updates.
      synchronization, aggregation: for copies on several devices.

    Returns:
      a Variable or a PartitionedVariable.

    Raises:
      ValueError: the variable exists but is not to be reused, does not exist but is to be reused, or has
        another shape or type.
    """
    return get_variable_scope().get_variable(
        _get_default_variable_store(),
        name,
        shape=shape,
        dtype=dtype,
        initializer=initializer,
        regularizer=regularizer,
        trainable=trainable,
        collections=collections,
        caching_device=caching_device,
        partitioner=partitioner,
        validate_shape=validate_shape,
        use_resource=use_resource,
        custom_getter=custom_getter,
        constraint=constraint,
        synchronization=synchronization,
        aggregation=aggregation,
    )


def get_local_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: Any = False,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: Any = None,
    custom_getter: Any = None,
    constraint: Any = None,
    synchronization: Any = VariableSynchronization.AUTO,
    aggregation: Any = VariableAggregation.NONE,
) -> Any:
    """Returns a variable in the collection of local variables, which optimizers do not change; see `get_variable`."""
    if collections:
        collections = collections + [ops.GraphKeys.LOCAL_VARIABLES]
    else:
        collections = [ops.GraphKeys.LOCAL_VARIABLES]
    return get_variable(
        name,
        shape=shape,
        dtype=dtype,
        initializer=initializer,
        regularizer=regularizer,
        trainable=False,
        collections=collections,
        caching_device=caching_device,
        partitioner=partitioner,
        validate_shape=validate_shape,
        use_resource=use_resource,
        custom_getter=custom_getter,
        constraint=constraint,
        synchronization=synchronization,
        aggregation=aggregation,
    )


def _get_unique_variable_scope(prefix: str) -> str:
    """`prefix`, or `prefix`_i if a scope of that name was opened already."""
    store = get_variable_scope_store()
    current_scope = get_variable_scope()
    name = current_scope.name + "/" + prefix if current_scope.name else prefix
    if store.variable_scope_count(name) == 0:
        return prefix
    idx = 1
    while store.variable_scope_count(name + ("_%d" % idx)) > 0:
        idx += 1
    return prefix + ("_%d" % idx)


class variable_scope:
    """A context in which names of variables get a prefix, and get_variable other defaults.

    It opens a name scope of the same name, too. A string makes a scope in the current one; a VariableScope
    enters that one again, wherever it is; `default_name` is made unique where no name is given.
    """

    def __init__(
        self,
        name_or_scope: Any,
        default_name: str | None = None,
        values: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        reuse: Any = None,
        dtype: Any = None,
        use_resource: Any = None,
        constraint: Any = None,
        auxiliary_name_scope: bool = True,
    ) -> None:
        """Keeps the arguments; the scope is opened by `with`.

        Args:
          name_or_scope: a name or a VariableScope, or None.
          default_name: the name to make unique where the first argument is None.
          values: tensors, whose graph is used.
          initializer, regularizer, caching_device, partitioner, custom_getter, dtype, use_resource, constraint:
            defaults of get_variable in the scope.
          reuse: True: variables must exist; AUTO_REUSE: they are made where they do not; None: as outside.
          auxiliary_name_scope: whether to open a name scope.

        Raises:
          TypeError: no name is given, or arguments are of the wrong type.
          ValueError: `reuse` is something else.
        """
        self._name_or_scope = name_or_scope
        self._default_name = default_name
        self._values = values if values is not None else []
        self._settings = {
            "initializer": initializer,
            "regularizer": regularizer,
            "caching_device": caching_device,
            "partitioner": partitioner,
            "custom_getter": custom_getter,
            "dtype": dtype,
            "use_resource": use_resource,
            "constraint": constraint,
        }
        self._reuse = reuse
        if self._default_name is None and self._name_or_scope is None:
            raise TypeError("If default_name is None then name_or_scope is required")
        if self._reuse is False:
            # Scopes always inherit `reuse`, so False has no effect.
            self._reuse = None
        if not (self._reuse is True or self._reuse is None or self._reuse is AUTO_REUSE):
            raise ValueError("The reuse parameter must be True or False or None.")
        self._graph = None if ops.executing_eagerly() else ops._get_graph_from_inputs(self._values)
        self._cached_pure_variable_scope: Any = None
        self._current_name_scope: Any = None
        if not isinstance(auxiliary_name_scope, bool):
            raise TypeError(
                "The auxiliary_name_scope must be `True` or `False`, while get {}".format(
                    auxiliary_name_scope
                )
            )
        self._auxiliary_name_scope = auxiliary_name_scope
        self._graph_context_manager: Any = None

    def __enter__(self) -> VariableScope:
        # In eager mode and in a function's body the default graph stays.
        self._building_function = self._graph is None or ops.get_default_graph().building_function
        if not self._building_function:
            self._graph_context_manager = self._graph.as_default()  # type: ignore[union-attr]
            self._graph_context_manager.__enter__()
        if self._cached_pure_variable_scope is not None:
            # The same object entered again.
            if self._current_name_scope is not None:
                self._current_name_scope.__enter__()
            return self._cached_pure_variable_scope.__enter__()  # type: ignore[no-any-return]
        try:
            return self._enter_scope_uncached()
        except BaseException:
            if not self._building_function:
                self._graph_context_manager.__exit__(None, None, None)
            raise

    def _enter_pure(self, name_or_scope: Any, old_name_scope: Any = None, reuse: Any = None) -> VariableScope:
        pure = _pure_variable_scope(
            name_or_scope, reuse=reuse, old_name_scope=old_name_scope, **self._settings
        )
        entered = pure.__enter__()
        self._cached_pure_variable_scope = pure
        return entered

    def _enter_scope_uncached(self) -> VariableScope:
        current_name_scope: Any = None
        if not self._auxiliary_name_scope:
            # The current name scope is entered again.
            name_scope = ops.get_name_scope()
            current_name_scope = ops.name_scope(name_scope + "/" if name_scope else name_scope)
        if self._name_or_scope is None:
            if self._reuse:
                raise ValueError("reuse=True cannot be used without a name_or_scope")
            current_name_scope = current_name_scope or ops.name_scope(self._default_name)
            try:
                scope_name = current_name_scope.__enter__()
            except BaseException:
                current_name_scope.__exit__(None, None, None)
                raise
            self._current_name_scope = current_name_scope
            return self._enter_pure(
                _get_unique_variable_scope(self._default_name or ""), old_name_scope=scope_name
            )
        if not isinstance(self._name_or_scope, (VariableScope, str)):
            raise TypeError("VariableScope: name_or_scope must be a string or VariableScope.")
        if isinstance(self._name_or_scope, str):
            name_scope = self._name_or_scope
        else:
            name_scope = self._name_or_scope.name.split("/")[-1]
        if name_scope or current_name_scope:
            current_name_scope = current_name_scope or ops.name_scope(name_scope)
            scope_name = current_name_scope.__enter__()
            self._current_name_scope = current_name_scope
            old_name_scope = (
                scope_name
                if isinstance(self._name_or_scope, str)
                else self._name_or_scope.original_name_scope  # type: ignore[attr-defined]
            )
            try:
                return self._enter_pure(self._name_or_scope, old_name_scope, self._reuse)
            except BaseException:
                current_name_scope.__exit__(None, None, None)
                self._current_name_scope = None
                raise
        # The root scope.
        self._current_name_scope = None
        return self._enter_pure(self._name_or_scope, None, self._reuse)

    def __exit__(self, type_arg: Any, value_arg: Any, traceback_arg: Any) -> None:
        self._cached_pure_variable_scope.__exit__(type_arg, value_arg, traceback_arg)
        if self._current_name_scope:
            self._current_name_scope.__exit__(type_arg, value_arg, traceback_arg)
        if not self._building_function:
            self._graph_context_manager.__exit__(type_arg, value_arg, traceback_arg)


@contextlib.contextmanager
def variable_op_scope(
    values: Any,
    name_or_scope: Any,
    default_name: str | None = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: Any = None,
    constraint: Any = None,
) -> Iterator[VariableScope]:
    """Deprecated: `variable_scope` with another order of arguments."""
    from millrace.python.platform import tf_logging as logging

    logging.warn(
        "tf.variable_op_scope(values, name, default_name) is deprecated, use tf.variable_scope(name, default_name, values)"
    )
    with variable_scope(
        name_or_scope,
        default_name=default_name,
        values=values,
        initializer=initializer,
        regularizer=regularizer,
        caching_device=caching_device,
        partitioner=partitioner,
        custom_getter=custom_getter,
        reuse=reuse,
        dtype=dtype,
        use_resource=use_resource,
        constraint=constraint,
    ) as scope:
        yield scope


def default_variable_creator(next_creator: Any = None, **kwargs: Any) -> Any:
    """Makes a variable of the kind that the arguments or the scope request."""
    assert next_creator is None
    use_resource = kwargs.pop("use_resource", None)
    expected_shape = kwargs.pop("expected_shape", None)
    if use_resource is None:
        use_resource = get_variable_scope().use_resource
    if use_resource is None:
        use_resource = _Defaults.use_resource
    use_resource = use_resource or ops.executing_eagerly_outside_functions()
    kwargs.pop("distribute_strategy", None)
    if use_resource:
        return resource_variable_ops.ResourceVariable(**kwargs)
    return variables.RefVariable(expected_shape=expected_shape, **kwargs)


def default_variable_creator_v2(next_creator: Any = None, **kwargs: Any) -> Any:
    """Makes a resource variable."""
    assert next_creator is None
    kwargs.pop("distribute_strategy", None)
    return resource_variable_ops.ResourceVariable(**kwargs)


variables.default_variable_creator = default_variable_creator  # type: ignore[attr-defined]
variables.default_variable_creator_v2 = default_variable_creator_v2  # type: ignore[attr-defined]


def variable(
    initial_value: Any = None,
    trainable: Any = None,
    collections: Any = None,
    validate_shape: bool = True,
    caching_device: Any = None,
    name: str | None = None,
    dtype: Any = None,
    use_resource: Any = None,
    constraint: Any = None,
    synchronization: Any = VariableSynchronization.AUTO,
    aggregation: Any = VariableAggregation.NONE,
) -> Any:
    """Makes a variable, as tf.Variable."""
    return variables.VariableV1(
        initial_value=initial_value,
        trainable=trainable,
        collections=collections,
        validate_shape=validate_shape,
        caching_device=caching_device,
        name=name,
        dtype=dtype,
        use_resource=use_resource,
        constraint=constraint,
        synchronization=synchronization,
        aggregation=aggregation,
    )


@contextlib.contextmanager
def variable_creator_scope_v1(variable_creator: Any) -> Iterator[None]:
    """A scope in which `variable_creator(next_creator, **kwargs)` makes the variables."""
    with ops.get_default_graph()._variable_creator_scope(variable_creator):
        yield


@contextlib.contextmanager
def variable_creator_scope(variable_creator: Any) -> Iterator[None]:
    """A scope in which `variable_creator(next_creator, **kwargs)` makes the variables."""
    with ops.get_default_graph()._variable_creator_scope(variable_creator):
        yield
