# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Decorators that warn of deprecated functions, arguments and values."""
from __future__ import annotations

import collections
import functools
import re
from typing import Any, Callable, Dict, List, Optional, Set

from millrace.python.util import decorator_utils, tf_contextlib, tf_decorator, tf_inspect

_PRINT_DEPRECATION_WARNINGS = True
_PRINTED_WARNING: Dict[Any, bool] = {}


class DeprecatedNamesAlreadySet(Exception):
    """Deprecated names were given twice."""


def _log_warning(text: str, *args: Any) -> None:
    from millrace.python.platform import tf_logging

    tf_logging.warning(text, *args)


def _validate_deprecation_args(date: Optional[str], instructions: Optional[str]) -> None:
    if date is not None and not re.match(r"20\d\d-[01]\d-[0123]\d", date):
        raise ValueError("Date must be YYYY-MM-DD.")
    if not instructions:
        raise ValueError("Don't deprecate things without conversion instructions!")


def _call_location(outer: bool = False) -> str:
    frame: Any = tf_inspect.currentframe()
    for _ in range(3 if outer else 2):
        frame = frame.f_back if frame is not None else None
    if frame is None:
        return "UNKNOWN"
    return "%s:%d" % (frame.f_code.co_filename, frame.f_lineno)


def _when(date: Optional[str]) -> str:
    return "in a future version" if date is None else "after %s" % date


def _add_deprecated_function_notice_to_docstring(
    doc: Optional[str], date: Optional[str], instructions: str
) -> str:
    main_text = ["THIS FUNCTION IS DEPRECATED. It will be removed %s." % _when(date)]
    if instructions:
        main_text.append("Instructions for updating:")
    return decorator_utils.add_notice_to_docstring(
        doc, instructions, "DEPRECATED FUNCTION", "(deprecated)", main_text
    )


def _add_deprecated_arg_notice_to_docstring(
    doc: Optional[str], date: Optional[str], instructions: str, deprecated_names: List[str]
) -> str:
    names = ", ".join(sorted(deprecated_names))
    return decorator_utils.add_notice_to_docstring(
        doc,
        instructions,
        "DEPRECATED FUNCTION ARGUMENTS",
        "(deprecated arguments)",
        [
            "SOME ARGUMENTS ARE DEPRECATED: `(%s)`. They will be removed %s." % (names, _when(date)),
            "Instructions for updating:",
        ],
    )


def _warn_function(func: Any, date: Optional[str], instructions: str, warn_once: bool) -> None:
    if not _PRINT_DEPRECATION_WARNINGS or func in _PRINTED_WARNING:
        return
    if warn_once:
        _PRINTED_WARNING[func] = True
    _log_warning(
        "From %s: %s (from %s) is deprecated and will be removed %s.\nInstructions for updating:\n%s",
        _call_location(outer=True),
        decorator_utils.get_qualified_name(func),
        func.__module__,
        _when(date),
        instructions,
    )


def deprecated(date: Optional[str], instructions: str, warn_once: bool = True) -> Callable[[Any], Any]:
    """Returns a decorator for functions or classes that are removed after `date` (YYYY-MM-DD or None)."""
    _validate_deprecation_args(date, instructions)

    def decorate(func_or_class: Any) -> Any:
        if isinstance(func_or_class, type):
            cls = func_or_class
            func: Any = getattr(cls, "__init__")
            if not hasattr(func, "__code__"):
                return cls
            module = cls

            @functools.wraps(func)
            def new_init(*args: Any, **kwargs: Any) -> Any:
                _warn_function(module, date, instructions, warn_once)
                return func(*args, **kwargs)

            cls.__init__ = new_init  # type: ignore[misc]
            cls.__doc__ = _add_deprecated_function_notice_to_docstring(cls.__doc__, date, instructions)
            return cls
        func = func_or_class
        decorator_utils.validate_callable(func, "deprecated")

        @functools.wraps(func)
        def new_func(*args: Any, **kwargs: Any) -> Any:
            if _PRINT_DEPRECATION_WARNINGS and func not in _PRINTED_WARNING:
                _warn_function(func, date, instructions, warn_once)
            return func(*args, **kwargs)

        doc = _add_deprecated_function_notice_to_docstring(func.__doc__, date, instructions)
        return tf_decorator.make_decorator(func, new_func, "deprecated", doc)

    return decorate


DeprecatedArgSpec = collections.namedtuple("DeprecatedArgSpec", ["position", "has_ok_value", "ok_value"])


def _deprecated_positions(spec: Any, names_or_tuples: Any) -> Dict[str, Any]:
    names = {}
    for item in names_or_tuples:
        if isinstance(item, (list, tuple)):
            names[item[0]] = DeprecatedArgSpec(-1, True, item[1])
        else:
            names[item] = DeprecatedArgSpec(-1, False, None)
    result = {
        name: DeprecatedArgSpec(spec.args.index(name), names[name].has_ok_value, names[name].ok_value)
        for name in names
        if name in spec.args
    }
    for special in (spec.varargs, spec.varkw):
        if special in names:
            result[special] = DeprecatedArgSpec(-1, names[special].has_ok_value, names[special].ok_value)
    missing = [name for name in names if name not in result and name not in spec.kwonlyargs]
    for name in names:
        if name in spec.kwonlyargs:
            result[name] = DeprecatedArgSpec(len(spec.args), names[name].has_ok_value, names[name].ok_value)
    if missing:
        raise ValueError(
            "The following deprecated arguments are not present in the function signature: %s. Found next arguments: %s."
            % (missing, list(spec.args))
        )
    return result


def _same_value(a: Any, b: Any) -> bool:
    try:
        return bool(a is b or a == b)
    except Exception:  # pylint: disable=broad-except
        return False


def deprecated_args(
    date: Optional[str], instructions: str, *deprecated_arg_names_or_tuples: Any, **kwargs: Any
) -> Any:
    """Returns a decorator that warns when one of the named arguments is given (or has a value other than an allowed one)."""
    _validate_deprecation_args(date, instructions)
    if not deprecated_arg_names_or_tuples:
        raise ValueError("Specify which argument is deprecated.")
    if kwargs and list(kwargs) != ["warn_once"]:
        kwargs.pop("warn_once", None)
        raise ValueError("Illegal argument passed to deprecated_args: %s" % (list(kwargs),))
    warn_once = kwargs.get("warn_once", True)

    def decorate(func: Any) -> Any:
        decorator_utils.validate_callable(func, "deprecated_args")
        spec = tf_inspect.getfullargspec(func)
        positions = _deprecated_positions(spec, deprecated_arg_names_or_tuples)
        is_varargs = spec.varargs in positions
        is_kwargs = spec.varkw in positions
        printed: Set[str] = set()

        def used(args: Any, kw: Any) -> List[str]:
            invalid = []
            for name, what in positions.items():
                if name == spec.varargs:
                    if is_varargs and len(args) > len(spec.args):
                        invalid.append(name)
                elif name == spec.varkw:
                    if is_kwargs and set(kw) - set(spec.args) - set(spec.kwonlyargs):
                        invalid.append(name)
                else:
                    if name in kw:
                        value = kw[name]
                    elif what.position < len(args) and what.position < len(spec.args):
                        value = args[what.position]
                    else:
                        continue
                    if not (what.has_ok_value and _same_value(value, what.ok_value)):
                        invalid.append(name)
            return invalid

        @functools.wraps(func)
        def new_func(*args: Any, **kw: Any) -> Any:
            if _PRINT_DEPRECATION_WARNINGS:
                for name in used(args, kw):
                    if name in printed:
                        continue
                    if warn_once:
                        printed.add(name)
                    shown = (
                        "*" + name if name == spec.varargs else "**" + name if name == spec.varkw else name
                    )
                    _log_warning(
                        "From %s: calling %s (from %s) with %s is deprecated and will be removed %s.\nInstructions for "
                        "updating:\n%s",
                        _call_location(),
                        decorator_utils.get_qualified_name(func),
                        func.__module__,
                        shown,
                        _when(date),
                        instructions,
                    )
            return func(*args, **kw)

        doc = _add_deprecated_arg_notice_to_docstring(func.__doc__, date, instructions, sorted(positions))
        return tf_decorator.make_decorator(func, new_func, "deprecated", doc)

    return decorate


def deprecated_arg_values(
    date: Optional[str], instructions: str, warn_once: bool = True, **deprecated_kwargs: Any
) -> Any:
    """Returns a decorator that warns when an argument has the value given for its name."""
    _validate_deprecation_args(date, instructions)
    if not deprecated_kwargs:
        raise ValueError("Specify which argument values are deprecated.")

    def decorate(func: Any) -> Any:
        decorator_utils.validate_callable(func, "deprecated_arg_values")

        @functools.wraps(func)
        def new_func(*args: Any, **kwargs: Any) -> Any:
            if _PRINT_DEPRECATION_WARNINGS:
                named = tf_inspect.getcallargs(func, *args, **kwargs)
                for name, value in deprecated_kwargs.items():
                    if (
                        name in named
                        and _same_value(named[name], value)
                        and (func, name) not in _PRINTED_WARNING
                    ):
                        if warn_once:
                            _PRINTED_WARNING[(func, name)] = True
                        _log_warning(
                            "From %s: calling %s (from %s) with %s=%s is deprecated and will be removed %s.\nInstructions "
                            "for updating:\n%s",
                            _call_location(),
                            decorator_utils.get_qualified_name(func),
                            func.__module__,
                            name,
                            value,
                            _when(date),
                            instructions,
                        )
            return func(*args, **kwargs)

        doc = decorator_utils.add_notice_to_docstring(
            func.__doc__,
            instructions,
            "DEPRECATED FUNCTION ARGUMENT VALUES",
            "(deprecated argument values)",
            [
                "SOME ARGUMENT VALUES ARE DEPRECATED: `(%s)`. They will be removed %s."
                % (", ".join("%s=%r" % kv for kv in sorted(deprecated_kwargs.items())), _when(date)),
                "Instructions for updating:",
            ],
        )
        return tf_decorator.make_decorator(func, new_func, "deprecated", doc)

    return decorate


def deprecated_alias(deprecated_name: str, name: str, func_or_class: Any, warn_once: bool = True) -> Any:
    """Returns an alias of a function or class that warns that `deprecated_name` is deprecated."""

    def warn() -> None:
        if not _PRINT_DEPRECATION_WARNINGS or alias in _PRINTED_WARNING:
            return
        if warn_once:
            _PRINTED_WARNING[alias] = True
        _log_warning(
            "From %s: The name %s is deprecated. Please use %s instead.\n",
            _call_location(outer=True),
            deprecated_name,
            name,
        )

    alias: Any
    if isinstance(func_or_class, type):
        base = func_or_class

        class _NewClass(base):  # type: ignore[misc,valid-type]
            __doc__ = decorator_utils.add_notice_to_docstring(
                base.__doc__,
                "Please use %s instead." % name,
                "DEPRECATED CLASS",
                "(deprecated)",
                ["THIS CLASS IS DEPRECATED."],
            )
            __name__ = base.__name__
            __module__ = _call_location(outer=True)

            def __init__(self, *args: Any, **kwargs: Any):
                warn()
                base.__init__(self, *args, **kwargs)  # type: ignore[misc]

        alias = _NewClass
        return alias
    decorator_utils.validate_callable(func_or_class, "deprecated")

    @functools.wraps(func_or_class)
    def new_func(*args: Any, **kwargs: Any) -> Any:
        warn()
        return func_or_class(*args, **kwargs)

    alias = tf_decorator.make_decorator(func_or_class, new_func, "deprecated")
    return alias


def deprecated_endpoints(*args: str) -> Callable[[Any], Any]:
    """Returns a decorator that records deprecated public names."""

    def deprecated_wrapper(func: Any) -> Any:
        if "_tf_deprecated_api_names" in getattr(func, "__dict__", {}):
            raise DeprecatedNamesAlreadySet(
                "Cannot set deprecated names for %s to %s. Deprecated names are already set."
                % (func.__name__, args)
            )
        func._tf_deprecated_api_names = args
        return func

    return deprecated_wrapper


def deprecated_argument_lookup(new_name: str, new_value: Any, old_name: str, old_value: Any) -> Any:
    """Returns the value of an argument with an old and a new name; raises ValueError when both are given."""
    if old_value is not None:
        if new_value is not None:
            raise ValueError("Cannot specify both '%s' and '%s'" % (old_name, new_name))
        return old_value
    return new_value


def rewrite_argument_docstring(old_doc: str, old_argument: str, new_argument: str) -> str:
    """Returns documentation with the name of an argument replaced."""
    return old_doc.replace("`%s`" % old_argument, "`%s`" % new_argument).replace(
        "%s:" % old_argument, "%s:" % new_argument
    )


def hide_attribute_from_api(attribute: Any) -> Any:
    """Returns its argument; marks attributes that are not public."""
    return attribute


class HiddenTfApiAttribute(property):
    """A property of a class that the public names do not show."""

    def __init__(self, deprecation_message: str) -> None:
        def raise_error(unused_self: Any) -> Any:
            raise AttributeError(deprecation_message)

        super().__init__(raise_error)


def deprecate_moved_module(deprecated_name: str, new_module: Any, deletion_version: str) -> Any:
    """Returns `__getattr__` for a module that was moved to `new_module`: it warns once."""

    def getter(name: str) -> Any:
        if getter not in _PRINTED_WARNING and _PRINT_DEPRECATION_WARNINGS:
            _PRINTED_WARNING[getter] = True
            _log_warning(
                "Please fix your imports. Module %s has been moved to %s. The old module will be deleted in version %s.",
                deprecated_name,
                new_module.__name__,
                deletion_version,
            )
        return getattr(new_module, name)

    return getter


@tf_contextlib.contextmanager
def silence() -> Any:
    """Context in which no warning of deprecation is printed."""
    global _PRINT_DEPRECATION_WARNINGS
    before = _PRINT_DEPRECATION_WARNINGS
    _PRINT_DEPRECATION_WARNINGS = False
    try:
        yield
    finally:
        _PRINT_DEPRECATION_WARNINGS = before
