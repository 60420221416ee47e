# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Classes of options: attributes with a type and a default."""
from __future__ import annotations

from typing import Any, Callable


class OptionsBase:
    """Base of options: unknown attributes cannot be set."""

    _options: dict[str, Any]

    def __init__(self) -> None:
        object.__setattr__(self, "_options", {})

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, self.__class__):
            return NotImplemented
        names = set(self._options) | set(other._options)
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def __ne__(self, other: Any) -> bool:
        if isinstance(other, self.__class__):
            return not self == other
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(self, name):
            raise AttributeError("Cannot set the property %s on %s." % (name, type(self).__name__))
        object.__setattr__(self, name, value)


def create_option(
    name: str, ty: Any, docstring: str, default_factory: Callable[[], Any] = lambda: None
) -> Any:
    """A property of an OptionsBase; a value of another type raises TypeError."""

    def get(self: Any) -> Any:
        if name not in self._options:
            self._options[name] = default_factory()
        return self._options.get(name)

    def set_(self: Any, value: Any) -> None:
        if not isinstance(value, ty):
            raise TypeError(
                'Property "%s" must be of type %s, got: %r (type: %r)' % (name, ty, value, type(value))
            )
        self._options[name] = value

    return property(get, set_, None, docstring)


def merge_options(*options_list: Any) -> Any:
    """Returns the union of options.

    Raises:
      TypeError: the options are of different classes.
      ValueError: two of them set one option to different values.
    """
    if not options_list:
        raise ValueError("At least one options should be provided")
    result_type = type(options_list[0])
    for options in options_list:
        if not isinstance(options, result_type):
            raise TypeError("Incompatible options type: %r vs %r" % (type(options), result_type))
    if not isinstance(options_list[0], OptionsBase):
        raise TypeError("The inputs should inherit from `OptionsBase`")
    default = result_type()
    result = result_type()
    for options in options_list:
        for name in options._options:
            this, that, standard = getattr(result, name), getattr(options, name), getattr(default, name)
            if this == that or that == standard:
                continue
            if this == standard:
                setattr(result, name, that)
            elif isinstance(this, OptionsBase):
                setattr(result, name, merge_options(this, that))
            else:
                raise ValueError(
                    "Cannot merge incompatible values (%r and %r) of option: %s" % (this, that, name)
                )
    return result
