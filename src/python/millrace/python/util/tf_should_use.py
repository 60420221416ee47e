# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Results that a caller ought to use: an error is logged where one is dropped without any use."""
from __future__ import annotations

import sys
import traceback
from typing import Any, Callable, Dict

from millrace.python.eager import context
from millrace.python.platform import tf_logging
from millrace.python.util import tf_decorator

_HELPER = "_tf_should_use_helper"
_VALUE = "_tf_should_use_wrapped_value"


class _Unused:
    """Logs on deletion that a value was not used, unless `sate` was called."""

    def __init__(self, value: Any, frame: Any, fatal_error: bool):
        self._sated = False
        self._type = type(value)
        self._repr = repr(value)
        self._stack = traceback.format_stack(frame, limit=5)
        self._fatal_error = fatal_error

    def sate(self) -> None:
        self._sated = True

    def __del__(self) -> None:
        if self._sated or sys.is_finalizing():
            return
        logger = tf_logging.fatal if self._fatal_error else tf_logging.error
        rule = "=================================="
        logger(
            "%s\nObject was never used (type %s):\n%s\nIf you want to mark it as used call its "
            '"mark_used()" method.\nIt was originally created here:\n%s\n%s'
            % (rule, self._type, self._repr, "".join(line.rstrip() for line in self._stack), rule)
        )


def _used(wrapper: Any) -> Any:
    object.__getattribute__(wrapper, _HELPER).sate()
    return object.__getattribute__(wrapper, _VALUE)


class TFShouldUseWarningWrapper:
    """Wraps a value; every use of it but its deletion counts."""

    def __init__(self, value: Any, helper: _Unused):
        object.__setattr__(self, _VALUE, value)
        object.__setattr__(self, _HELPER, helper)

    def __getattribute__(self, name: str) -> Any:
        if name == "mark_used":
            return lambda *args, **kwargs: _mark_used(self, *args, **kwargs)
        if name == "__class__":
            return object.__getattribute__(self, name)
        if name == "_as_graph_element":
            value = _used(self)
            return getattr(value, name, lambda: value)
        return getattr(_used(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_used(self), name, value)


def _mark_used(wrapper: Any, *args: Any, **kwargs: Any) -> Any:
    function = getattr(_used(wrapper), "mark_used", None)
    return None if function is None else function(*args, **kwargs)


_WRAPPERS: Dict[Any, Any] = {}
_OWN_METHODS = frozenset(
    "__class__ __new__ __init__ __del__ __getattribute__ __getattr__ __setattr__ __slots__ __dict__ __weakref__ "
    "__init_subclass__ __subclasshook__ __doc__ __module__".split()
)


def _forwarded(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(_used(self), name)(*args, **kwargs)

    return method


def _convert(value: Any, dtype: Any = None, name: Any = None, as_ref: bool = False) -> Any:
    from millrace.python.framework import ops

    return ops.internal_convert_to_tensor(_used(value), dtype, name, as_ref)


def _wrapper_type(kind: Any) -> Any:
    """Returns the class of wrappers that has the special methods of `kind`, which Python looks up in classes."""
    if not _WRAPPERS:
        from millrace.python.framework import ops

        ops.register_tensor_conversion_function(TFShouldUseWarningWrapper, _convert)
    if kind not in _WRAPPERS:
        names = [n for n in dir(kind) if n.startswith("__") and n.endswith("__") and n not in _OWN_METHODS]
        methods: Dict[str, Any] = {n: _forwarded(n) for n in names if callable(getattr(kind, n, None))}
        _WRAPPERS[kind] = type("TFShouldUseWarningWrapper", (TFShouldUseWarningWrapper,), methods)
    return _WRAPPERS[kind]


def _add_should_use_warning(x: Any, fatal_error: bool = False) -> Any:
    """Returns an object that represents `x` and logs an error when it is dropped before any use."""
    if x is None or context.executing_eagerly():
        return x
    return _wrapper_type(type(x))(x, _Unused(x, sys._getframe(1), fatal_error))


def _decorator(fn: Callable[..., Any], name: str, doc: str, fatal_error: bool) -> Any:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return _add_should_use_warning(fn(*args, **kwargs), fatal_error=fatal_error)

    return tf_decorator.make_decorator(fn, wrapped, name, ((fn.__doc__ or "") + doc))


def should_use_result(fn: Callable[..., Any]) -> Any:
    """Returns `fn` with results that log an error when they are not used."""
    doc = "\n\n  **NOTE** The output of this function should be used. If it is not, an error is logged."
    return _decorator(fn, "should_use_result", doc, False)


def must_use_result_or_fatal(fn: Callable[..., Any]) -> Any:
    """Returns `fn` with results that log a fatal error when they are not used."""
    doc = "\n\n  **NOTE** The output of this function must be used. If it is not, a fatal error is logged."
    return _decorator(fn, "must_use_result_or_fatal", doc, True)
