# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Parsers and serializers of flag values."""

from __future__ import annotations

import csv
import io
from typing import Any


class ArgumentSerializer:
    """Writes a value as text that its parser reads."""

    def serialize(self, value: Any) -> str:
        return str(value)


class ListSerializer(ArgumentSerializer):
    """Writes lists with a separator."""

    def __init__(self, list_sep: str) -> None:
        self.list_sep = list_sep

    def serialize(self, value: Any) -> str:
        return self.list_sep.join(str(x) for x in value)


class CsvListSerializer(ArgumentSerializer):
    """Writes lists with commas, and quotes where elements contain commas."""

    def __init__(self, list_sep: str = ",") -> None:
        self.list_sep = list_sep

    def serialize(self, value: Any) -> str:
        output = io.StringIO()
        csv.writer(output, delimiter=self.list_sep, lineterminator="").writerow([str(x) for x in value])
        return output.getvalue()


class ArgumentParser:
    """Parser of strings, and base of the others: `parse` raises ValueError or TypeError on errors."""

    syntactic_help = ""

    def parse(self, argument: Any) -> Any:
        if not isinstance(argument, str):
            raise TypeError("flag value must be a string, found %s" % type(argument))
        return argument

    def flag_type(self) -> str:
        return "string"


class _NumericParser(ArgumentParser):
    number_name = ("a", "number")

    def __init__(self, lower_bound: Any = None, upper_bound: Any = None) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        article, number = self.number_name
        help_text = "%s %s" % (article, number)
        if lower_bound is not None and upper_bound is not None:
            help_text = "%s in the range [%s, %s]" % (help_text, lower_bound, upper_bound)
        elif lower_bound == 0:
            help_text = "a non-negative %s" % number
        elif upper_bound == 0:
            help_text = "a non-positive %s" % number
        elif lower_bound == 1:
            help_text = "a positive %s" % number
        elif upper_bound == -1:
            help_text = "a negative %s" % number
        elif upper_bound is not None:
            help_text = "%s <= %s" % (number, upper_bound)
        elif lower_bound is not None:
            help_text = "%s >= %s" % (number, lower_bound)
        self.syntactic_help = help_text

    def is_outside_bounds(self, val: Any) -> bool:
        return (self.lower_bound is not None and val < self.lower_bound) or (
            self.upper_bound is not None and val > self.upper_bound
        )

    def convert(self, argument: Any) -> Any:
        raise NotImplementedError

    def parse(self, argument: Any) -> Any:
        val = self.convert(argument)
        if self.is_outside_bounds(val):
            raise ValueError("%s is not %s" % (val, self.syntactic_help))
        return val


class FloatParser(_NumericParser):
    """Parser of floats, within bounds."""

    number_name = ("a", "number")

    def convert(self, argument: Any) -> float:
        if isinstance(argument, (int, float, str)) and not isinstance(argument, bool):
            return float(argument)
        raise TypeError("Expect argument to be a string, int, or float, found %s" % type(argument))

    def flag_type(self) -> str:
        return "float"


class IntegerParser(_NumericParser):
    """Parser of integers, within bounds; 0x and 0o begin hexadecimal and octal ones."""

    number_name = ("an", "integer")

    def convert(self, argument: Any) -> int:
        if isinstance(argument, int) and not isinstance(argument, bool):
            return argument
        if isinstance(argument, str):
            base = 10
            if len(argument) > 2 and argument[0] == "0":
                base = {"o": 8, "x": 16}.get(argument[1], 10)
            return int(argument, base)
        raise TypeError("Expect argument to be a string or int, found %s" % type(argument))

    def flag_type(self) -> str:
        return "int"


class BooleanParser(ArgumentParser):
    """Parser of true, t, 1 and false, f, 0."""

    def parse(self, argument: Any) -> bool:
        if isinstance(argument, str):
            if argument.lower() in ("true", "t", "1"):
                return True
            if argument.lower() in ("false", "f", "0"):
                return False
            raise ValueError("Non-boolean argument to boolean flag", argument)
        if isinstance(argument, (bool, int)) and argument in (0, 1):
            return bool(argument)
        raise TypeError("Non-boolean argument to boolean flag", argument)

    def flag_type(self) -> str:
        return "bool"


class EnumParser(ArgumentParser):
    """Parser of one of some strings."""

    def __init__(self, enum_values: Any, case_sensitive: bool = True) -> None:
        if not enum_values:
            raise ValueError('enum_values cannot be empty, found "{}"'.format(enum_values))
        self.enum_values = list(enum_values)
        self.case_sensitive = case_sensitive

    def parse(self, argument: Any) -> str:
        if self.case_sensitive:
            if argument not in self.enum_values:
                raise ValueError("value should be one of <%s>" % "|".join(self.enum_values))
            return str(argument)
        for value in self.enum_values:
            if value.upper() == argument.upper():
                return str(value)
        raise ValueError("value should be one of <%s>" % "|".join(self.enum_values))

    def flag_type(self) -> str:
        return "string enum"


class EnumClassParser(ArgumentParser):
    """Parser of names of an Enum's members."""

    def __init__(self, enum_class: Any) -> None:
        self.enum_class = enum_class

    def parse(self, argument: Any) -> Any:
        if isinstance(argument, self.enum_class):
            return argument
        if argument not in self.enum_class.__members__:
            raise ValueError("value should be one of <%s>" % "|".join(self.enum_class.__members__))
        return self.enum_class[argument]

    def flag_type(self) -> str:
        return "enum class"


class EnumClassSerializer(ArgumentSerializer):
    """Writes members of an Enum by name."""

    def serialize(self, value: Any) -> str:
        return str(value.name)


class BaseListParser(ArgumentParser):
    """Base of parsers of lists of strings."""

    def __init__(self, token: str | None = None, name: str = "") -> None:
        self._token = token
        self._name = name
        self.syntactic_help = "a %s separated list" % name

    def parse(self, argument: Any) -> list[str]:
        if isinstance(argument, list):
            return argument
        if not argument:
            return []
        return [s.strip() for s in argument.split(self._token)]

    def flag_type(self) -> str:
        return "%s separated list of strings" % self._name


class ListParser(BaseListParser):
    """Parser of comma-separated strings, quoted as in CSV files."""

    def __init__(self) -> None:
        super().__init__(",", "comma")

    def parse(self, argument: Any) -> list[str]:
        if isinstance(argument, list):
            return argument
        if not argument:
            return []
        try:
            return [s.strip() for s in list(csv.reader([argument], strict=True))[0]]
        except csv.Error as e:
            raise ValueError("Unable to parse the value %r as a %s: %s" % (argument, self.flag_type(), e))


class WhitespaceSeparatedListParser(BaseListParser):
    """Parser of strings separated by white space and, on request, commas."""

    def __init__(self, comma_compat: bool = False) -> None:
        self._comma_compat = comma_compat
        super().__init__(None, "whitespace or comma" if comma_compat else "whitespace")

    def parse(self, argument: Any) -> list[str]:
        if isinstance(argument, list):
            return argument
        if not argument:
            return []
        if self._comma_compat:
            argument = argument.replace(",", " ")
        return list(argument.split())
