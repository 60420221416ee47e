# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.make_template: functions that make variables in the first call and share them in later calls."""

from __future__ import annotations

import functools
import traceback
from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import variable_scope
from millrace.python.training.tracking import base as trackable


def make_template(
    name_: str,
    func_: Any,
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: Any = None,
    **kwargs: Any,
) -> Any:
    """Returns a callable that calls `func_` and shares the variables that the first call made.

    Args:
      name_: name of the scope, made unique.
      func_: the function; its variables come from tf.get_variable.
      create_scope_now_: whether the scope is made now, not in the first call.
      unique_name_: name of the scope, used as it is.
      custom_getter_: a custom getter of the scope.
      **kwargs: arguments that are passed to `func_` in each call.

    Raises:
      ValueError: `name_` is None.
    """
    if name_ is None:
        raise ValueError("name cannot be None.")
    if not isinstance(name_, str):
        raise TypeError("name must be a string, got %r." % (name_,))
    if kwargs:
        func_ = functools.partial(func_, **kwargs)
    return Template(
        name_,
        func_,
        create_scope_now=create_scope_now_,
        unique_name=unique_name_,
        custom_getter=custom_getter_,
    )


def make_template_internal(
    name_: str,
    func_: Any,
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: Any = None,
    create_graph_function_: bool = False,
    **kwargs: Any,
) -> Any:
    """As `make_template`. With `create_graph_function_` the calls are functions of the graph: here they are inlined."""
    del create_graph_function_
    return make_template(name_, func_, create_scope_now_, unique_name_, custom_getter_, **kwargs)


class Template(trackable.Trackable):  # type: ignore[misc]
    """A function with a variable scope of its own."""

    def __init__(
        self,
        name: str,
        func: Any,
        create_scope_now: bool = False,
        unique_name: str | None = None,
        custom_getter: Any = None,
    ) -> None:
        self._func = func
        self._stacktrace = traceback.format_stack()[:-2]
        self._name = name
        self._unique_name = unique_name
        self._custom_getter = custom_getter
        self._variable_scope: Any = None
        # In eager mode variables live as long as their owner.
        self._eager_store = variable_scope.EagerVariableStore() if ops.executing_eagerly() else None
        # Whether a call has been made, after which all variables must exist.
        self._variables_created = False
        if create_scope_now:
            with variable_scope._pure_variable_scope(
                self._unique_name or variable_scope._get_unique_variable_scope(self._name),
                custom_getter=self._custom_getter,
            ) as vs:
                self._variable_scope = vs

    def _call_func(self, args: Any, kwargs: Any) -> Any:
        """Calls the function; in the first call it may make variables, later it may not."""
        try:
            keys = (ops.GraphKeys.TRAINABLE_VARIABLES, ops.GraphKeys.GLOBAL_VARIABLES)
            before = [len(ops.get_collection_ref(key)) for key in keys]
            result = self._func(*args, **kwargs)
            if self._variables_created:
                after = [len(ops.get_collection_ref(key)) for key in keys]
                if after[0] > before[0]:
                    # Variables made by tf.Variable cannot be shared.
                    raise ValueError(
                        "Trainable variable created when calling a template after the first time, perhaps you used "
                        "tf.Variable when you meant tf.get_variable: %s"
                        % ops.get_collection_ref(keys[0])[before[0] :]
                    )
            else:
                self._variables_created = True
            return result
        except Exception as exc:
            args_ = exc.args
            arg0 = str(args_[0]) if args_ else ""
            trace = "".join(self._stacktrace)
            exc.args = ("%s\n\noriginally defined at:\n%s" % (arg0, trace),) + tuple(args_[1:])
            raise

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._eager_store is not None:
            with self._eager_store.as_default():
                return self._call(args, kwargs)
        return self._call(args, kwargs)

    def _call(self, args: Any, kwargs: Any) -> Any:
        if self._variable_scope:
            # Only the first call may make variables.
            with variable_scope.variable_scope(self._variable_scope, reuse=self._variables_created or None):
                return self._call_func(args, kwargs)
        with variable_scope.variable_scope(
            self._unique_name, self._name, custom_getter=self._custom_getter
        ) as vs:
            self._variable_scope = vs
            return self._call_func(args, kwargs)

    @property
    def name(self) -> str:
        """The name that was given."""
        return self._name

    @property
    def func(self) -> Any:
        """The function."""
        return self._func

    @property
    def variable_scope(self) -> Any:
        """The variable scope, None before the first call."""
        return self._variable_scope

    @property
    def var_scope(self) -> Any:
        """The variable scope; an older name of `variable_scope`."""
        return self._variable_scope

    @property
    def variable_scope_name(self) -> Any:
        """The name of the variable scope without a slash at the end, None before the first call."""
        if not self._variable_scope:
            return None
        name = self._variable_scope.name
        return name[:-1] if name and name[-1] == "/" else name

    @property
    def variables(self) -> Any:
        """The global and local variables that the function made."""
        if self._eager_store is not None:
            return self._eager_store.variables()
        return self.global_variables + self.local_variables

    def _in_scope(self, key: str) -> Any:
        if not self._variables_created:
            return []
        return ops.get_collection(key, scope=self.variable_scope_name + "/")

    @property
    def global_variables(self) -> Any:
        """The global variables that the function made."""
        if self._eager_store is not None:
            return self._eager_store.variables()
        return self._in_scope(ops.GraphKeys.GLOBAL_VARIABLES)

    @property
    def local_variables(self) -> Any:
        """The local variables that the function made."""
        return self._in_scope(ops.GraphKeys.LOCAL_VARIABLES)

    @property
    def trainable_variables(self) -> Any:
        """The trainable variables that the function made."""
        if self._eager_store is not None:
            return self._eager_store.trainable_variables()
        return self._in_scope(ops.GraphKeys.TRAINABLE_VARIABLES)

    @property
    def non_trainable_variables(self) -> Any:
        """The variables that the function made and optimizers do not change."""
        trainable = {id(v) for v in self.trainable_variables}
        return [v for v in self.global_variables if id(v) not in trainable]

    @property
    def trainable_weights(self) -> Any:
        """The trainable variables."""
        return self.trainable_variables

    @property
    def weights(self) -> Any:
        """All variables."""
        return self.variables
