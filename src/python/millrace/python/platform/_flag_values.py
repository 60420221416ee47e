# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Flags and the registry that parses a command line into them."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterator
from typing import Any

from millrace.python.platform import _flag_parsers


class Error(Exception):
    """Base of the errors of flags."""


class CantOpenFlagFileError(Error):
    """A file of flags cannot be opened."""


class DuplicateFlagError(Error):
    """A flag was defined twice."""

    @classmethod
    def from_flag(cls, flagname: str, flag_values: Any, other_flag_values: Any = None) -> DuplicateFlagError:
        first = flag_values.find_module_defining_flag(flagname, default="<unknown>")
        second = sys.argv[0] if sys.argv else "<unknown>"
        if other_flag_values is not None:
            second = other_flag_values.find_module_defining_flag(flagname, default="<unknown>")
        return cls(
            "The flag '%s' is defined twice. First from %s, Second from %s.  "
            "Description from first occurrence: %s" % (flagname, first, second, flag_values[flagname].help)
        )


class IllegalFlagValueError(Error):
    """The value given for a flag is not of its type."""


class ValidationError(Error):
    """A validator rejected the values."""


class UnrecognizedFlagError(Error):
    """The command line has a flag that is not defined."""

    def __init__(self, flagname: str, flagvalue: Any = "", suggestions: Any = None) -> None:
        self.flagname = flagname
        self.flagvalue = flagvalue
        tip = ". Did you mean: %s ?" % ", ".join(suggestions) if suggestions else ""
        super().__init__("Unknown command line flag '%s'%s" % (flagname, tip))


class UnparsedFlagAccessError(Error):
    """A flag was read before the command line was parsed."""


class Flag:
    """One flag: its parser, default and value. Multi flags gather a list of values."""

    def __init__(
        self,
        parser: Any,
        serializer: Any,
        name: str,
        default: Any,
        help_string: str | None,
        short_name: str | None = None,
        boolean: bool = False,
        allow_override: bool = False,
        multi: bool = False,
        module: str = "",
        **_: Any,
    ) -> None:
        self.name = name
        self.help = help_string or "(no help available)"
        self.short_name = short_name
        self.boolean = boolean
        self.multi = multi
        self.allow_override = allow_override
        self.parser = parser
        self.serializer = serializer
        self.present = 0
        self.using_default_value = True
        self.module = module
        self.validators: list[Any] = []
        self._set_default(default)

    def _set_default(self, value: Any) -> None:
        self.default = None if value is None else self._parse(value)
        self.value = list(self.default) if self.multi and self.default is not None else self.default
        self.using_default_value = True

    def _parse(self, argument: Any) -> Any:
        try:
            if self.multi:
                values = argument if isinstance(argument, (list, tuple)) else [argument]
                return [self.parser.parse(v) for v in values]
            return self.parser.parse(argument)
        except (TypeError, ValueError, OverflowError) as e:
            raise IllegalFlagValueError("flag --%s=%s: %s" % (self.name, argument, e)) from None

    def parse(self, argument: Any) -> None:
        """Takes a value from the command line."""
        if self.present and not self.multi and not self.allow_overwrite():
            raise IllegalFlagValueError(
                "flag --%s=%s: already defined as %s" % (self.name, argument, self.value)
            )
        parsed = self._parse(argument)
        self.value = self.value + parsed if self.multi and self.present else parsed
        self.present += 1
        self.using_default_value = False

    def allow_overwrite(self) -> bool:
        return True

    def unparse(self) -> None:
        self.present = 0
        self._set_default(self.default)

    def serialize(self) -> str:
        if self.value is None:
            return ""
        if self.boolean:
            return "--%s%s" % ("" if self.value else "no", self.name)
        if self.multi:
            return "\n".join("--%s=%s" % (self.name, self._text(v)) for v in self.value)
        return "--%s=%s" % (self.name, self._text(self.value))

    def _text(self, value: Any) -> str:
        return str(self.serializer.serialize(value)) if self.serializer else str(value)

    def flag_type(self) -> str:
        return str(self.parser.flag_type())

    def default_as_str(self) -> str | None:
        if self.default is None:
            return None
        if self.boolean:
            return "'true'" if self.default else "'false'"
        return "'%s'" % (",".join(map(str, self.default)) if isinstance(self.default, list) else self.default)


def _undefined_but_allowed(args: list[str]) -> set[str]:
    """The names in `--undefok`: flags that may be undefined."""
    names: set[str] = set()
    for place, arg in enumerate(args):
        name, equals, value = arg.lstrip("-").partition("=")
        if arg.startswith("-") and name == "undefok":
            following = args[place + 1] if place + 1 < len(args) else ""
            names.update(n.strip() for n in (value if equals else following).split(",") if n.strip())
    return names


class FlagValues:
    """Registry of flags. Calling it with a command line parses that; flags are its attributes."""

    def __init__(self) -> None:
        object.__setattr__(self, "_flags", {})
        object.__setattr__(self, "_parsed", False)
        object.__setattr__(self, "_gnu_getopt", True)
        object.__setattr__(self, "_validators", [])

    # The registry as a dict of Flag.

    def __setitem__(self, name: str, flag: Flag) -> None:
        existing = self._flags.get(name)
        if existing is not None and not (flag.allow_override or existing.allow_override):
            # A module that is executed again defines its flags again.
            if not (flag.module and existing.module == flag.module and existing.help == flag.help):
                raise DuplicateFlagError.from_flag(name, self)
        self._flags[name] = flag
        if flag.short_name:
            self._flags[flag.short_name] = flag

    def __getitem__(self, name: str) -> Flag:
        flag: Flag = self._flags[name]
        return flag

    def __contains__(self, name: str) -> bool:
        return name in self._flags

    has_key = __contains__

    def __len__(self) -> int:
        return len(self._flags)

    def __iter__(self) -> Iterator[str]:
        return iter(self._flags)

    def __dir__(self) -> list[str]:
        return sorted(self._flags)

    def _find(self, name: str) -> Flag:
        flag = self._flags.get(name)
        if flag is None:
            raise AttributeError(name)
        found: Flag = flag
        return found

    # Flags as attributes.

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        flag = self._find(name)
        if self._parsed or flag.present:
            return flag.value
        raise UnparsedFlagAccessError("Trying to access flag --%s before flags were parsed." % name)

    def __setattr__(self, name: str, value: Any) -> None:
        flag = self._find(name)
        flag.value = value
        flag.using_default_value = False
        self._check(name)

    def __delattr__(self, name: str) -> None:
        flag = self._find(name)
        for key in [k for k, f in self._flags.items() if f is flag]:
            del self._flags[key]

    def set_default(self, name: str, value: Any) -> None:
        """Changes a flag's default."""
        flag = self._find(name)
        if flag.using_default_value:
            flag._set_default(value)
        else:
            flag.default = value
        self._check(name)

    def flag_values_dict(self) -> dict[str, Any]:
        return {name: flag.value for name, flag in self._flags.items()}

    def get_flag_value(self, name: str, default: Any) -> Any:
        flag = self._flags.get(name)
        return default if flag is None or flag.value is None else flag.value

    def find_module_defining_flag(self, flagname: str, default: Any = None) -> Any:
        flag = self._flags.get(flagname)
        return flag.module if flag is not None and flag.module else default

    def get_key_flags_for_module(self, module: Any) -> list[Flag]:
        name = module if isinstance(module, str) else module.__name__
        return [flag for key, flag in self._flags.items() if flag.module == name and key == flag.name]

    def is_parsed(self) -> bool:
        return bool(self._parsed)

    def mark_as_parsed(self) -> None:
        object.__setattr__(self, "_parsed", True)

    def unparse_flags(self) -> None:
        """Discards the parsed command line."""
        for flag in set(self._flags.values()):
            flag.unparse()
        object.__setattr__(self, "_parsed", False)

    def set_gnu_getopt(self, gnu_getopt: bool = True) -> None:
        """Whether flags may follow positional arguments."""
        object.__setattr__(self, "_gnu_getopt", gnu_getopt)

    def is_gnu_getopt(self) -> bool:
        return bool(self._gnu_getopt)

    # Validators.

    def _add_validator(self, flag_names: Any, checker: Any) -> None:
        """`checker(self)` raises ValidationError; it runs after parsing and when one of the flags is set."""
        self._validators.append((tuple(flag_names), checker))
        if self._parsed:
            checker(self)

    def _check(self, name: str | None = None) -> None:
        for names, checker in self._validators:
            if name is None or name in names:
                try:
                    checker(self)
                except ValidationError as e:
                    raise IllegalFlagValueError(str(e)) from None

    def validate_all_flags(self) -> None:
        self._check()

    # Parsing.

    def read_flags_from_files(self, argv: Any, force_gnu: bool = True) -> list[str]:
        """The arguments with those of the files that `--flagfile` names in its place.

        A file has a flag in each line; empty lines and those that begin with # or // are ignored.
        """
        return self._expanded(list(argv), ())

    def _expanded(self, args: list[str], open_files: tuple[str, ...]) -> list[str]:
        expanded: list[str] = []
        while args:
            arg = args.pop(0)
            if arg == "--":
                return [*expanded, arg, *args]
            name, equals, path = arg.partition("=")
            if name not in ("--flagfile", "-flagfile"):
                expanded.append(arg)
                continue
            if not equals:
                if not args:
                    raise IllegalFlagValueError("--flagfile with no argument")
                path = args.pop(0)
            path = os.path.expanduser(path.strip())
            if path in open_files:
                continue  # a file that names itself
            try:
                with open(path, encoding="utf-8") as file:
                    lines = [line.strip() for line in file]
            except OSError as error:
                raise CantOpenFlagFileError("Unable to open flagfile: %s" % error) from None
            lines = [line for line in lines if line and not line.startswith(("#", "//"))]
            expanded += self._expanded(lines, (*open_files, path))
        return expanded

    def __call__(self, argv: Any, known_only: bool = False) -> list[str]:
        """Parses a command line.

        Args:
          argv: name of the program and its arguments.
          known_only: whether undefined flags are left among the arguments.

        Returns:
          The name and the arguments that are not flags.

        Raises:
          UnrecognizedFlagError: for a flag that is not defined, unless `known_only`.
          IllegalFlagValueError: for an invalid value, or one that a validator rejects.
        """
        if isinstance(argv, (str, bytes)):
            raise TypeError("argv should be a tuple/list of strings, not bytes or string.")
        if not argv:
            raise ValueError(
                "argv cannot be an empty list, and must contain the program name as the first element."
            )
        args = list(argv)
        rest = self._parse_args(args[1:], known_only)
        self.mark_as_parsed()
        self._check()
        return [args[0]] + rest

    def _parse_args(self, args: list[str], known_only: bool) -> list[str]:
        rest: list[str] = []
        pending = self.read_flags_from_files(args)
        allowed = _undefined_but_allowed(pending)
        while pending:
            arg = pending.pop(0)
            if arg == "--":
                if known_only:
                    rest.append(arg)
                rest.extend(pending)
                break
            if not arg.startswith("-") or arg == "-":
                rest.append(arg)
                if self._gnu_getopt:
                    continue
                rest.extend(pending)
                break
            name, equals, value = arg.lstrip("-").partition("=")
            if not name:
                raise Error("Missing flag name in argument %s" % arg)
            flag = self._flags.get(name)
            if flag is None and name.startswith("no"):
                negated = self._flags.get(name[2:])
                if negated is not None and negated.boolean:
                    if equals:
                        raise IllegalFlagValueError("%s does not take an argument" % arg)
                    negated.parse("false")
                    continue
            if flag is None:
                if name == "undefok":
                    if not equals and pending:
                        pending.pop(0)
                    continue
                if name in allowed or name.startswith("no") and name[2:] in allowed:
                    continue
                if known_only:
                    rest.append(arg)
                    continue
                raise UnrecognizedFlagError(name, value, difflib.get_close_matches(name, self._flags, 3, 0.8))
            if flag.boolean and not equals:
                value = "true"
            elif not equals:
                if not pending:
                    raise Error("Missing value for flag --%s" % name)
                value = pending.pop(0)
            flag.parse(value)
        return rest

    # Texts.

    def flags_into_string(self) -> str:
        """Lines --name=value of all flags that have values."""
        lines = [
            f.serialize() for name, f in sorted(self._flags.items()) if f.value is not None and name == f.name
        ]
        return "\n".join(lines) + ("\n" if lines else "")

    def append_flags_into_file(self, filename: str) -> None:
        with open(filename, "a") as out:
            out.write(self.flags_into_string())

    def get_help(self, prefix: str = "", include_special_flags: bool = True) -> str:
        """Help of all flags, module by module."""
        lines: list[str] = []
        for module in sorted({f.module for f in self._flags.values()}):
            lines.append("%s%s:" % (prefix, module or "program"))
            for name, flag in sorted(self._flags.items()):
                if flag.module == module and name == flag.name:
                    lines.extend(self._help_of(flag, prefix))
            lines.append("")
        return "\n".join(lines)

    @staticmethod
    def _help_of(flag: Flag, prefix: str) -> list[str]:
        short = "-%s," % flag.short_name if flag.short_name else ""
        lines = ["%s  %s--%s%s: %s" % (prefix, short, "[no]" if flag.boolean else "", flag.name, flag.help)]
        default = flag.default_as_str()
        if default is not None:
            lines.append("%s    (default: %s)" % (prefix, default))
        if flag.parser.syntactic_help:
            lines.append("%s    (%s)" % (prefix, flag.parser.syntactic_help))
        if flag.multi:
            lines.append("%s    (a repeated flag)" % prefix)
        return lines

    def main_module_help(self) -> str:
        return self.get_help()

    def module_help(self, module: Any) -> str:
        return self.get_help()

    def __str__(self) -> str:
        return self.get_help()


class _FlagValuesWrapper:
    """FLAGS: a registry that parses sys.argv when a flag is first read, and ignores other arguments."""

    def __init__(self, flags_object: FlagValues) -> None:
        self.__dict__["__wrapped"] = flags_object

    def __getattribute__(self, name: str) -> Any:
        if name in ("__dict__", "__class__"):
            return super().__getattribute__(name)
        return super().__getattribute__("__getattr__")(name)

    def __getattr__(self, name: str) -> Any:
        wrapped = self.__dict__["__wrapped"]
        if name == "__flags":  # the dict of all flags, which programs print
            return wrapped._flags() if callable(wrapped._flags) else wrapped._flags
        if name == "_parse_flags":  # names of TensorFlow 1.2
            return lambda args=None: wrapped(sys.argv if args is None else [sys.argv[0], *args], True)[1:]
        if name in wrapped and not wrapped.is_parsed():
            wrapped(sys.argv, known_only=True)
        return getattr(wrapped, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["__wrapped"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__dict__["__wrapped"], name)

    def __dir__(self) -> list[str]:
        return dir(self.__dict__["__wrapped"])

    def __getitem__(self, name: str) -> Flag:
        flag: Flag = self.__dict__["__wrapped"][name]
        return flag

    def __setitem__(self, name: str, flag: Flag) -> None:
        self.__dict__["__wrapped"][name] = flag

    def __contains__(self, name: str) -> bool:
        return name in self.__dict__["__wrapped"]

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__["__wrapped"])

    def __len__(self) -> int:
        return len(self.__dict__["__wrapped"])

    def __call__(self, argv: Any, known_only: bool = False) -> list[str]:
        rest: list[str] = self.__dict__["__wrapped"](argv, known_only=known_only)
        return rest

    def __str__(self) -> str:
        return str(self.__dict__["__wrapped"])


FLAGS = _FlagValuesWrapper(FlagValues())
