# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Flags of the command line: DEFINE_string("name", default, help), then FLAGS.name.

If the package absl is installed, these are its flags, so that programs may define flags through either;
otherwise the modules _flag_* replace it.
"""

from __future__ import annotations

import importlib
from typing import Any

from millrace.python.platform._flag_values import FLAGS
from millrace.python.platform._flag_values import DuplicateFlagError
from millrace.python.platform._flag_values import Error
from millrace.python.platform._flag_values import Flag
from millrace.python.platform._flag_values import FlagValues
from millrace.python.platform._flag_values import IllegalFlagValueError
from millrace.python.platform._flag_values import UnparsedFlagAccessError
from millrace.python.platform._flag_values import UnrecognizedFlagError
from millrace.python.platform._flag_values import ValidationError
from millrace.python.platform._flag_values import _FlagValuesWrapper
from millrace.python.platform._flag_parsers import ArgumentParser
from millrace.python.platform._flag_parsers import ArgumentSerializer
from millrace.python.platform._flag_parsers import BaseListParser
from millrace.python.platform._flag_parsers import BooleanParser
from millrace.python.platform._flag_parsers import CsvListSerializer
from millrace.python.platform._flag_parsers import EnumClassParser
from millrace.python.platform._flag_parsers import EnumParser
from millrace.python.platform._flag_parsers import FloatParser
from millrace.python.platform._flag_parsers import IntegerParser
from millrace.python.platform._flag_parsers import ListParser
from millrace.python.platform._flag_parsers import ListSerializer
from millrace.python.platform._flag_parsers import WhitespaceSeparatedListParser
from millrace.python.platform._flag_definitions import *  # noqa: F401,F403
from millrace.python.platform import _flag_definitions
from millrace.python.platform._flag_values import CantOpenFlagFileError

__all__ = [
    "FLAGS",
    "ArgumentParser",
    "ArgumentSerializer",
    "BaseListParser",
    "BooleanParser",
    "CantOpenFlagFileError",
    "CsvListSerializer",
    "DuplicateFlagError",
    "EnumClassParser",
    "EnumParser",
    "Error",
    "Flag",
    "FlagValues",
    "FloatParser",
    "IllegalFlagValueError",
    "IntegerParser",
    "ListParser",
    "ListSerializer",
    "UnparsedFlagAccessError",
    "UnrecognizedFlagError",
    "ValidationError",
    "WhitespaceSeparatedListParser",
    "_FlagValuesWrapper",
]


def _take_from_absl() -> None:
    """Replaces the definitions here by absl's, if it is installed."""
    try:
        absl_flags: Any = importlib.import_module("absl.flags")
    except ImportError:
        return
    _flag_definitions.disclaim(absl_flags)
    names = globals()
    for name in (*__all__, *_flag_definitions.__all__):
        if name != "_FlagValuesWrapper" and hasattr(absl_flags, name):
            value = getattr(absl_flags, name)
            names[name] = _flag_definitions.takes_old_names(value) if name.startswith("DEFINE") else value
    names["FLAGS"] = _FlagValuesWrapper(absl_flags.FLAGS)


_take_from_absl()
