# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Default arguments of functions within a context."""
from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any, Iterator

from millrace.python.util import tf_decorator

_local = threading.local()
_names: dict[str, tuple[str, ...]] = {}  # key of a function -> the arguments that scopes can set


def _stack() -> list[dict[str, dict[str, Any]]]:
    if not hasattr(_local, "stack"):
        _local.stack = [{}]
    return _local.stack  # type: ignore[no-any-return]


def arg_scope_func_key(op: Any) -> str:
    """The name of a function in scopes."""
    return str(getattr(op, "_key_op", str(op)))


def current_arg_scope() -> dict[str, dict[str, Any]]:
    """The arguments that the current scope sets, by function."""
    return _stack()[-1]


def has_arg_scope(func: Any) -> bool:
    """Whether a function was decorated by `add_arg_scope`."""
    return arg_scope_func_key(func) in _names


def arg_scoped_arguments(func: Any) -> tuple[str, ...]:
    """The arguments of a function that scopes can set."""
    assert has_arg_scope(func)
    return _names[arg_scope_func_key(func)]


def add_arg_scope(func: Any) -> Any:
    """Decorator: lets `arg_scope` set the arguments of a function that have defaults."""

    @functools.wraps(func)
    def func_with_args(*args: Any, **kwargs: Any) -> Any:
        set_here = current_arg_scope().get(func_with_args._key_op)  # type: ignore[attr-defined]
        return func(*args, **({**set_here, **kwargs} if set_here else kwargs))

    func_with_args._key_op = arg_scope_func_key(func)  # type: ignore[attr-defined]
    code = func.__code__
    count = len(func.__defaults__ or ())
    names = code.co_varnames[: code.co_argcount]
    _names[func_with_args._key_op] = tuple(names[len(names) - count :])  # type: ignore[attr-defined]
    return tf_decorator.make_decorator(func, func_with_args)


@contextlib.contextmanager
def arg_scope(list_ops_or_scope: Any, **kwargs: Any) -> Iterator[Any]:
    """A context in which functions have other defaults.

    Args:
      list_ops_or_scope: functions that `add_arg_scope` decorated, or an earlier scope.
      **kwargs: the arguments; none with an earlier scope.

    Raises:
      TypeError: `list_ops_or_scope` is neither.
      ValueError: a function is not decorated, or there are arguments with an earlier scope.
    """
    if isinstance(list_ops_or_scope, dict):
        if kwargs:
            raise ValueError(
                "When attempting to re-use a scope by suppling a dictionary, kwargs must be empty."
            )
        scope = dict(list_ops_or_scope)
    else:
        if not isinstance(list_ops_or_scope, (list, tuple)):
            raise TypeError("list_ops_or_scope must either be a list/tuple or reused scope (i.e. dict)")
        scope = dict(current_arg_scope())
        for op in list_ops_or_scope:
            key = arg_scope_func_key(op)
            if not has_arg_scope(op):
                raise ValueError("%s is not decorated with @add_arg_scope" % (key,))
            scope[key] = {**scope.get(key, {}), **kwargs}
    _stack().append(scope)
    try:
        yield scope
    finally:
        _stack().pop()
