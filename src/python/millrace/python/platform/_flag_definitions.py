# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Definitions of flags (DEFINE_*) and validators of their values."""

from __future__ import annotations

import functools
import shutil
import sys
import textwrap
from typing import Any, Callable

from millrace.python.platform import _flag_parsers as parsers
from millrace.python.platform._flag_values import FLAGS
from millrace.python.platform._flag_values import Error
from millrace.python.platform._flag_values import Flag
from millrace.python.platform._flag_values import ValidationError

__all__ = [
    "DEFINE",
    "DEFINE_alias",
    "DEFINE_bool",
    "DEFINE_boolean",
    "DEFINE_enum",
    "DEFINE_enum_class",
    "DEFINE_flag",
    "DEFINE_float",
    "DEFINE_integer",
    "DEFINE_list",
    "DEFINE_multi",
    "DEFINE_multi_enum",
    "DEFINE_multi_float",
    "DEFINE_multi_integer",
    "DEFINE_multi_string",
    "DEFINE_spaceseplist",
    "DEFINE_string",
    "adopt_module_key_flags",
    "declare_key_flag",
    "disclaim_key_flags",
    "doc_to_help",
    "flag_dict_to_args",
    "get_help_width",
    "mark_bool_flags_as_mutual_exclusive",
    "mark_flag_as_required",
    "mark_flags_as_mutual_exclusive",
    "mark_flags_as_required",
    "multi_flags_validator",
    "register_multi_flags_validator",
    "register_validator",
    "text_wrap",
    "validator",
]


# Old names of arguments of DEFINE_*, before absl's.
_OLD_NAMES = {"flag_name": "name", "default_value": "default", "docstring": "help"}


def takes_old_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function that defines a flag, so that it accepts the old names of arguments."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if any(old in kwargs for old in _OLD_NAMES):
            from millrace.python.platform import tf_logging

            tf_logging.error(
                "Use of the keyword argument names (flag_name, default_value, docstring) is deprecated, please"
                " use (name, default, help) instead."
            )
            kwargs = {_OLD_NAMES.get(name, name): value for name, value in kwargs.items()}
        return function(*args, **kwargs)

    return wrapper


def disclaim(absl_flags: Any) -> None:
    """Makes absl attribute flags to the modules that call this one."""
    absl_flags.disclaim_key_flags()


def _defining_module() -> str:
    """Name of the module that calls DEFINE_*."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("millrace.python.platform."):
        frame = frame.f_back
    if frame is None:
        return ""
    name: str = frame.f_globals.get("__name__", "")
    return sys.argv[0] if name == "__main__" and sys.argv else name


def DEFINE_flag(flag: Flag, flag_values: Any = FLAGS, module_name: str | None = None) -> None:  # noqa: N802
    """Registers a Flag."""
    flag.module = module_name or flag.module or _defining_module()
    flag_values[flag.name] = flag


@takes_old_names
def DEFINE(  # noqa: N802
    parser: Any,
    name: str,
    default: Any,
    help: Any,  # noqa: A002
    flag_values: Any = FLAGS,
    serializer: Any = None,
    module_name: str | None = None,
    **args: Any,
) -> None:
    """Defines a flag whose values `parser` reads."""
    DEFINE_flag(Flag(parser, serializer, name, default, help, **args), flag_values, module_name)


@takes_old_names
def DEFINE_string(
    name: str, default: Any, help: Any, flag_values: Any = FLAGS, **args: Any
) -> None:  # noqa: A002, N802
    """Defines a flag of any string."""
    DEFINE(parsers.ArgumentParser(), name, default, help, flag_values, parsers.ArgumentSerializer(), **args)


@takes_old_names
def DEFINE_boolean(  # noqa: N802
    name: str,
    default: Any,
    help: Any,
    flag_values: Any = FLAGS,
    module_name: Any = None,
    **args: Any,  # noqa: A002
) -> None:
    """Defines a flag that is set by --name and cleared by --noname."""
    flag = Flag(
        parsers.BooleanParser(), parsers.ArgumentSerializer(), name, default, help, boolean=True, **args
    )
    DEFINE_flag(flag, flag_values, module_name)


DEFINE_bool = DEFINE_boolean


@takes_old_names
def DEFINE_float(  # noqa: N802
    name: str,
    default: Any,
    help: Any,  # noqa: A002
    lower_bound: Any = None,
    upper_bound: Any = None,
    flag_values: Any = FLAGS,
    **args: Any,
) -> None:
    """Defines a flag of a float, within bounds."""
    DEFINE(
        parsers.FloatParser(lower_bound, upper_bound),
        name,
        default,
        help,
        flag_values,
        parsers.ArgumentSerializer(),
        **args,
    )


@takes_old_names
def DEFINE_integer(  # noqa: N802
    name: str,
    default: Any,
    help: Any,  # noqa: A002
    lower_bound: Any = None,
    upper_bound: Any = None,
    flag_values: Any = FLAGS,
    **args: Any,
) -> None:
    """Defines a flag of an integer, within bounds."""
    DEFINE(
        parsers.IntegerParser(lower_bound, upper_bound),
        name,
        default,
        help,
        flag_values,
        parsers.ArgumentSerializer(),
        **args,
    )


@takes_old_names
def DEFINE_enum(  # noqa: N802
    name: str,
    default: Any,
    enum_values: Any,
    help: Any,  # noqa: A002
    flag_values: Any = FLAGS,
    module_name: Any = None,
    **args: Any,
) -> None:
    """Defines a flag of one of some strings."""
    case_sensitive = args.pop("case_sensitive", True)
    text = "<%s>: %s" % ("|".join(enum_values), help or "(no help available)")
    parser = parsers.EnumParser(enum_values, case_sensitive)
    DEFINE_flag(
        Flag(parser, parsers.ArgumentSerializer(), name, default, text, **args), flag_values, module_name
    )


@takes_old_names
def DEFINE_enum_class(  # noqa: N802
    name: str,
    default: Any,
    enum_class: Any,
    help: Any,  # noqa: A002
    flag_values: Any = FLAGS,
    module_name: Any = None,
    **args: Any,
) -> None:
    """Defines a flag of one of the members of an Enum."""
    text = "<%s>: %s" % ("|".join(enum_class.__members__), help or "(no help available)")
    flag = Flag(
        parsers.EnumClassParser(enum_class), parsers.EnumClassSerializer(), name, default, text, **args
    )
    DEFINE_flag(flag, flag_values, module_name)


@takes_old_names
def DEFINE_list(
    name: str, default: Any, help: Any, flag_values: Any = FLAGS, **args: Any
) -> None:  # noqa: A002, N802
    """Defines a flag of comma-separated strings."""
    DEFINE(parsers.ListParser(), name, default, help, flag_values, parsers.CsvListSerializer(","), **args)


@takes_old_names
def DEFINE_spaceseplist(  # noqa: N802
    name: str,
    default: Any,
    help: Any,
    comma_compat: bool = False,
    flag_values: Any = FLAGS,
    **args: Any,  # noqa: A002
) -> None:
    """Defines a flag of space-separated strings."""
    parser = parsers.WhitespaceSeparatedListParser(comma_compat=comma_compat)
    DEFINE(parser, name, default, help, flag_values, parsers.ListSerializer(" "), **args)


@takes_old_names
def DEFINE_multi(  # noqa: N802
    parser: Any,
    serializer: Any,
    name: str,
    default: Any,
    help: Any,  # noqa: A002
    flag_values: Any = FLAGS,
    module_name: Any = None,
    **args: Any,
) -> None:
    """Defines a flag that may be given several times, and whose value is a list."""
    DEFINE_flag(Flag(parser, serializer, name, default, help, multi=True, **args), flag_values, module_name)


@takes_old_names
def DEFINE_multi_string(
    name: str, default: Any, help: Any, flag_values: Any = FLAGS, **args: Any
) -> None:  # noqa: A002, N802
    """Defines a repeatable flag of strings, whose value is their list."""
    DEFINE_multi(
        parsers.ArgumentParser(), parsers.ArgumentSerializer(), name, default, help, flag_values, **args
    )


@takes_old_names
def DEFINE_multi_integer(  # noqa: N802
    name: str,
    default: Any,
    help: Any,  # noqa: A002
    lower_bound: Any = None,
    upper_bound: Any = None,
    flag_values: Any = FLAGS,
    **args: Any,
) -> None:
    """Defines a repeatable flag of integers, whose value is their list."""
    parser = parsers.IntegerParser(lower_bound, upper_bound)
    DEFINE_multi(parser, parsers.ArgumentSerializer(), name, default, help, flag_values, **args)


@takes_old_names
def DEFINE_multi_float(  # noqa: N802
    name: str,
    default: Any,
    help: Any,  # noqa: A002
    lower_bound: Any = None,
    upper_bound: Any = None,
    flag_values: Any = FLAGS,
    **args: Any,
) -> None:
    """Defines a repeatable flag of floats, whose value is their list."""
    parser = parsers.FloatParser(lower_bound, upper_bound)
    DEFINE_multi(parser, parsers.ArgumentSerializer(), name, default, help, flag_values, **args)


@takes_old_names
def DEFINE_multi_enum(  # noqa: N802
    name: str,
    default: Any,
    enum_values: Any,
    help: Any,  # noqa: A002
    flag_values: Any = FLAGS,
    case_sensitive: bool = True,
    **args: Any,
) -> None:
    """Defines a repeatable flag of enumerated strings, whose value is their list."""
    parser = parsers.EnumParser(enum_values, case_sensitive)
    text = "<%s>: %s" % ("|".join(enum_values), help)
    DEFINE_multi(parser, parsers.ArgumentSerializer(), name, default, text, flag_values, **args)


def DEFINE_alias(
    name: str, original_name: str, flag_values: Any = FLAGS, module_name: Any = None
) -> None:  # noqa: N802
    """Defines another name of a flag."""
    flag_values[name] = flag_values[original_name]


def register_validator(
    flag_name: str, checker: Any, message: str = "Flag validation failed", flag_values: Any = FLAGS
) -> None:
    """Checks a flag's value with `checker(value)` after parsing and when it is set.

    A false result, or ValidationError, rejects the value.
    """

    def check(values: Any) -> None:
        value = values[flag_name].value
        if not checker(value):
            raise ValidationError("flag --%s=%s: %s" % (flag_name, value, message))

    flag_values._add_validator([flag_name], check)


def validator(flag_name: str, message: str = "Flag validation failed", flag_values: Any = FLAGS) -> Any:
    """Decorator that registers a function with `register_validator`."""

    def decorate(function: Any) -> Any:
        register_validator(flag_name, function, message=message, flag_values=flag_values)
        return function

    return decorate


def register_multi_flags_validator(
    flag_names: Any,
    multi_flags_checker: Any,
    message: str = "Flags validation failed",
    flag_values: Any = FLAGS,
) -> None:
    """As `register_validator`, of several flags: the checker gets a dict from names to values."""

    def check(values: Any) -> None:
        if not multi_flags_checker({name: values[name].value for name in flag_names}):
            raise ValidationError(
                "%s: %s" % (", ".join("flag --%s=%s" % (n, values[n].value) for n in flag_names), message)
            )

    flag_values._add_validator(flag_names, check)


def multi_flags_validator(
    flag_names: Any, message: str = "Flag validation failed", flag_values: Any = FLAGS
) -> Any:
    """Decorator that registers a function with `register_multi_flags_validator`."""

    def decorate(function: Any) -> Any:
        register_multi_flags_validator(flag_names, function, message=message, flag_values=flag_values)
        return function

    return decorate


def mark_flag_as_required(flag_name: str, flag_values: Any = FLAGS) -> None:
    """Rejects command lines that leave the flag None."""
    register_validator(
        flag_name,
        lambda value: value is not None,
        message="Flag --{} must have a value other than None.".format(flag_name),
        flag_values=flag_values,
    )


def mark_flags_as_required(flag_names: Any, flag_values: Any = FLAGS) -> None:
    """`mark_flag_as_required` of several flags."""
    for flag_name in flag_names:
        mark_flag_as_required(flag_name, flag_values)


def mark_flags_as_mutual_exclusive(flag_names: Any, required: bool = False, flag_values: Any = FLAGS) -> None:
    """Refuses command lines in which more than one of the flags (or none, if `required`) is not None."""

    def check(values: Any) -> bool:
        count = sum(value is not None for value in values.values())
        return count == 1 or (not required and count == 0)

    message = "%s one of (%s) must have a value other than None." % (
        "Exactly" if required else "At most",
        ", ".join(flag_names),
    )
    register_multi_flags_validator(flag_names, check, message, flag_values)


def mark_bool_flags_as_mutual_exclusive(
    flag_names: Any, required: bool = False, flag_values: Any = FLAGS
) -> None:
    """Refuses command lines in which more than one of the boolean flags (or none, if `required`) is true."""
    for flag_name in flag_names:
        if not flag_values[flag_name].boolean:
            raise ValidationError(
                "Flag --%s is not Boolean, which is required for flags used in"
                " mark_bool_flags_as_mutual_exclusive." % flag_name
            )

    def check(values: Any) -> bool:
        count = sum(bool(value) for value in values.values())
        return count == 1 or (not required and count == 0)

    message = "%s one of (%s) must be True." % ("Exactly" if required else "At most", ", ".join(flag_names))
    register_multi_flags_validator(flag_names, check, message, flag_values)


def declare_key_flag(flag_name: str, flag_values: Any = FLAGS) -> None:
    """Does nothing: help shows all flags."""


def adopt_module_key_flags(module: Any, flag_values: Any = FLAGS) -> None:
    """Does nothing: help shows all flags."""


def disclaim_key_flags() -> None:
    """Does nothing: help shows all flags."""


def doc_to_help(doc: str) -> str:
    """A docstring as help: paragraphs in one line each."""
    return "\n\n".join(" ".join(p.split()) for p in textwrap.dedent(doc.strip()).split("\n\n"))


def flag_dict_to_args(flag_map: dict[str, Any], multi_flags: Any = None) -> Any:
    """Arguments of a command line that set the flags of a dict."""
    for key, value in flag_map.items():
        if value is None:
            yield "--%s" % key
        elif isinstance(value, bool):
            yield "--%s" % key if value else "--no%s" % key
        elif isinstance(value, (str, bytes)):
            yield "--%s=%s" % (key, value if isinstance(value, str) else value.decode())
        elif hasattr(value, "__iter__"):
            if multi_flags and key in multi_flags:
                for item in value:
                    yield "--%s=%s" % (key, item)
            else:
                yield "--%s=%s" % (key, ",".join(str(item) for item in value))
        else:
            yield "--%s=%s" % (key, value)


def get_help_width() -> int:
    """The width of the terminal in columns."""
    return max(shutil.get_terminal_size((80, 24)).columns, 40)


def text_wrap(text: str, length: int | None = None, indent: str = "", firstline_indent: Any = None) -> str:
    """`text` in lines of at most `length` characters."""
    width = length or get_help_width()
    first = indent if firstline_indent is None else firstline_indent
    return "\n".join(
        textwrap.fill(line, width, initial_indent=first if i == 0 else indent, subsequent_indent=indent)
        for i, line in enumerate(text.splitlines())
    )
