# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Lists, tuples and dicts as values of tracked attributes: their elements become dependencies.

A list `[a, b]` has the dependencies "0" and "1", a dict those of its string keys.
"""

from __future__ import annotations

from typing import Any

from millrace.python.training.tracking import base


class NoDependency:
    """Wraps a value that is to be set without becoming a dependency."""

    def __init__(self, value: Any) -> None:
        self.value = value


class TrackableDataStructure(base.Trackable):
    """Base of tracked containers."""

    def _add(self, value: Any, name: str) -> Any:
        value = wrap_or_unwrap(value)
        if isinstance(value, base.Trackable):
            self._track_trackable(value, name=name, overwrite=True)
        return value


class List(TrackableDataStructure, list):  # type: ignore[type-arg]
    """A list whose Trackable elements are dependencies named by their index."""

    def __init__(self, *args: Any) -> None:
        list.__init__(self)
        self.extend(args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args)

    def append(self, value: Any) -> None:
        list.append(self, self._add(value, str(len(self))))

    def extend(self, values: Any) -> None:
        for value in values:
            self.append(value)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, int):
            value = self._add(value, str(key if key >= 0 else len(self) + key))
        list.__setitem__(self, key, value)

    def __iadd__(self, values: Any) -> Any:  # type: ignore[misc]
        self.extend(values)
        return self

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)


ListWrapper = List


class Mapping(TrackableDataStructure, dict):  # type: ignore[type-arg]
    """A dict with string keys whose Trackable values are dependencies named by their keys."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        dict.__init__(self)
        self.update(*args, **kwargs)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, str):
            value = self._add(value, key)
        dict.__setitem__(self, key, value)

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)


_DictWrapper = Mapping


class _TupleWrapper(TrackableDataStructure):
    """Dependencies of a tuple; the attribute itself stays a tuple."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        for index, value in enumerate(values):
            self._add(value, str(index))


def wrap_or_unwrap(value: Any) -> Any:
    """A tracked container for a plain one, what NoDependency wraps, and everything else as it is."""
    if isinstance(value, NoDependency):
        return value.value
    if isinstance(value, base.Trackable):
        return value
    if type(value) is dict:
        return Mapping(value)
    if type(value) is list:
        return List(value)
    return value


def sticky_attribute_assignment(trackable: Any, name: str, value: Any) -> Any:
    """Makes `value`, about to be set as attribute `name`, a dependency where it can be one; returns what to set."""
    add_dependency = not isinstance(value, NoDependency)
    value = wrap_or_unwrap(value)
    if not add_dependency:
        return value
    if isinstance(value, base.Trackable):
        trackable._track_trackable(value, name=name, overwrite=True)
    elif type(value) is tuple and any(isinstance(wrap_or_unwrap(v), base.Trackable) for v in value):
        trackable._track_trackable(_TupleWrapper(value), name=name, overwrite=True)
    return value
