# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Names and arguments of callables."""
from __future__ import annotations

import functools
from typing import Any, Tuple

from millrace.python.util import tf_decorator, tf_inspect


def _is_bounded_method(fn: Any) -> bool:
    _, fn = tf_decorator.unwrap(fn)
    return tf_inspect.ismethod(fn) and (fn.__self__ is not None)


def _is_callable_object(obj: Any) -> bool:
    return hasattr(obj, "__call__") and tf_inspect.ismethod(obj.__call__)


def fn_args(fn: Any) -> Tuple[str, ...]:
    """Returns the names of the arguments of a callable without `self`, and without those that a partial binds."""
    if isinstance(fn, functools.partial):
        args = fn_args(fn.func)
        bound = set((fn.keywords or {}).keys())
        return tuple(a for a in args[len(fn.args or []) :] if a not in bound)
    if hasattr(fn, "__call__") and tf_inspect.ismethod(fn.__call__):
        fn = fn.__call__
    names = list(tf_inspect.getfullargspec(fn).args)
    if _is_bounded_method(fn) and names:
        names.remove("self") if "self" in names else names.pop(0)
    return tuple(names)


def has_kwargs(fn: Any) -> bool:
    """True when a callable takes any keyword argument; raises TypeError for what cannot be called."""
    if isinstance(fn, functools.partial):
        fn = fn.func
    elif _is_callable_object(fn):
        fn = fn.__call__
    elif not callable(fn):
        raise TypeError("fn should be a function-like object, but is of type {}.".format(type(fn)))
    return tf_inspect.getfullargspec(fn).varkw is not None


def get_func_name(func: Any) -> str:
    """Returns the name of a function, the name of a partial's function or the text of a callable object."""
    _, func = tf_decorator.unwrap(func)
    if not callable(func):
        raise ValueError("Argument must be callable")
    if tf_inspect.isfunction(func) or tf_inspect.ismethod(func):
        return str(func.__name__)
    if isinstance(func, functools.partial):
        return get_func_name(func.func)
    return str(type(func))


def get_func_code(func: Any) -> Any:
    """Returns the code object of a callable, or None for builtins."""
    _, func = tf_decorator.unwrap(func)
    if callable(func):
        if tf_inspect.isfunction(func) or tf_inspect.ismethod(func):
            return func.__code__
        try:
            return func.__call__.__code__
        except AttributeError:
            return None
    raise ValueError("Argument must be callable")


_rewriter_config_off: Any = None


def get_disabled_rewriter_config() -> bytes:
    """A serialised ConfigProto that turns the optimisation of graphs off."""
    global _rewriter_config_off
    if _rewriter_config_off is None:
        from millrace.core.protobuf import config_pb2

        config = config_pb2.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        _rewriter_config_off = config.SerializeToString()
    return _rewriter_config_off  # type: ignore[no-any-return]
