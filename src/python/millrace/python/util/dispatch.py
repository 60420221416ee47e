# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Dispatch of functions to handlers for custom types."""
from __future__ import annotations

import functools
from typing import Any, Callable, List, Tuple

from millrace.python.util import tf_decorator, tf_inspect

DISPATCH_ATTR = "_tf_dispatchers"


class OpDispatcher:
    """Handles arguments that an op does not support; returns `NOT_SUPPORTED` if it does not either."""

    NOT_SUPPORTED = object()

    def handle(self, args: Any, kwargs: Any) -> Any:
        """Returns the result of the op for these arguments, or NOT_SUPPORTED."""
        return self.NOT_SUPPORTED

    def register(self, op: Any) -> None:
        """Registers this dispatcher for `op`; raises AssertionError if that does not support dispatch."""
        if not hasattr(op, DISPATCH_ATTR):
            raise AssertionError("Dispatching not enabled for %s" % op)
        getattr(op, DISPATCH_ATTR).append(self)


class _TypeBasedDispatcher(OpDispatcher):
    def __init__(self, override_func: Callable[..., Any], types: Tuple[type, ...]):
        self._types = types
        self._override_func = override_func

    def _handles(self, values: Any) -> bool:
        for value in values:
            if isinstance(value, self._types):
                return True
            if isinstance(value, (list, tuple)) and any(isinstance(v, self._types) for v in value):
                return True
        return False

    def handle(self, args: Any, kwargs: Any) -> Any:
        if self._handles(args) or self._handles(kwargs.values()):
            return self._override_func(*args, **kwargs)
        return self.NOT_SUPPORTED


def dispatch(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Returns the result of the first dispatcher of `op` that handles the arguments, or NOT_SUPPORTED."""
    for dispatcher in getattr(op, DISPATCH_ATTR):
        result = dispatcher.handle(args, kwargs)
        if result is not OpDispatcher.NOT_SUPPORTED:
            return result
    return OpDispatcher.NOT_SUPPORTED


def dispatch_for_types(op: Any, *types: type) -> Callable[[Any], Any]:
    """Returns a decorator: its function handles calls of `op` with arguments of these types."""

    def decorator(func: Callable[..., Any]) -> Callable[..., Any]:
        if tf_inspect.getargspec(func) != tf_inspect.getargspec(op):
            raise AssertionError(
                "The decorated function's signature must exactly match the signature of the overridden op."
            )
        _TypeBasedDispatcher(func, types).register(op)
        return func

    return decorator


def add_dispatch_list(target: Any) -> Any:
    """Gives `target` an empty list of dispatchers."""
    if hasattr(target, DISPATCH_ATTR):
        raise AssertionError("%s already has a dispatch list" % target)
    setattr(target, DISPATCH_ATTR, [])
    return target


def add_dispatch_support(target: Any) -> Any:
    """Returns a function that tries the dispatchers if `target` raises TypeError or ValueError."""

    @functools.wraps(target)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return target(*args, **kwargs)
        except (TypeError, ValueError):
            dispatchers: List[Any] = getattr(wrapper, DISPATCH_ATTR)
            if not dispatchers:
                raise
            result = dispatch(wrapper, *args, **kwargs)
            if result is not OpDispatcher.NOT_SUPPORTED:
                return result
            raise

    add_dispatch_list(wrapper)
    return tf_decorator.make_decorator(target, wrapper)
