# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Lists, tuples and dicts as values of tracked attributes: their elements become dependencies.

A list `[a, b]` has the dependencies "0" and "1", a dict those of its string keys.
"""

from __future__ import annotations

import collections
import sys
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
        raise TypeError("%r object does not support item assignment" % type(self).__name__)

    def __iadd__(self, values: Any) -> Any:  # type: ignore[misc]
        self.extend(values)
        return self

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)


_CHANGED = (
    "Unable to save the object %s (a %s wrapper constructed to track trackable TensorFlow objects). %s In order to "
    "support restoration on object creation, tracking is exclusively for append-only data structures.\n\nIf you don't "
    "need this %s checkpointed, wrap it in a tf.contrib.checkpoint.NoDependency object; it will be automatically "
    "un-wrapped and subsequently ignored."
)


_MODIFIED = (
    "Unable to save the object %s (a %s wrapper constructed %s). The wrapped %s was modified outside the wrapper (its "
    "final value was %s, its value when a checkpoint dependency was added was %s), which breaks restoration on object "
    "creation.\n\nIf you don't need this %s checkpointed, wrap it in a tf.contrib.checkpoint.NoDependency object; it "
    "will be automatically un-wrapped and subsequently ignored."
)
_READS = {
    list: "__len__ __iter__ __getitem__ __contains__ __reversed__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __add__ "
    "__mul__ __rmul__ __repr__ index count copy",
    dict: "__len__ __iter__ __getitem__ __contains__ __reversed__ __eq__ __ne__ __or__ __ror__ __repr__ get keys values "
    "items copy",
}


def _marking(base_type: Any, name: str) -> Any:
    """The method of a list or dict; the container records changes other than appended elements."""
    plain = getattr(base_type, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._pull()
        self._changed = self._changed or self._has_tracked()
        result = plain(self, *args, **kwargs)
        self._push()
        return result

    method.__name__, method.__doc__ = name, plain.__doc__
    return method


def _reading(base_type: Any, name: str) -> Any:
    """The method of a list or dict, called after changes of the original were copied."""
    plain = getattr(base_type, name)

    def method(self: Any, *args: Any) -> Any:
        self._pull()
        return plain(self, *args)

    method.__name__, method.__doc__ = name, plain.__doc__
    return method


def _sharing(base_type: Any) -> Any:
    """A decorator for classes of wrappers that share their content with a list or dict of the program."""

    def decorate(cls: Any) -> Any:
        for name in _READS[base_type].split():
            setattr(cls, name, _reading(base_type, name))
        return cls

    return decorate


class _Sharing:
    """Base of the two wrappers: the wrapper and the original see each other's changes."""

    _original: Any = None  # None: the program holds no reference to it
    _changed = False
    _modified: Any = None  # (text before, text after) a change of the original

    def _same(self) -> bool:
        raise NotImplementedError

    def _replace(self, target: Any, content: Any) -> None:
        """Replaces the content of `target` by `content`."""
        raise NotImplementedError

    def _share(self, original: Any) -> None:
        self._original = original
        self._push()

    def _pull(self) -> None:
        if self._original is None or self._same():
            return
        before = str(self._plain())
        self._replace(self, self._original)
        if self._modified is None:
            self._modified = (before, "")
        self._modified = (self._modified[0], str(self._plain()))

    def _push(self) -> None:
        if self._original is None:
            return
        if sys.getrefcount(self._original) <= 2:
            self._original = None
        elif not self._same():
            self._replace(self._original, self)

    def _plain(self) -> Any:
        raise NotImplementedError


@_sharing(list)
class ListWrapper(_Sharing, List):
    """The list of a tracked attribute. After elements were replaced or removed it cannot be saved."""

    def __init__(self, wrapped_list: Any = ()) -> None:
        super().__init__(list(wrapped_list))
        if type(wrapped_list) is list:
            self._share(wrapped_list)

    def _same(self) -> bool:
        if list.__len__(self) != len(self._original):
            return False
        return all(a is b for a, b in zip(list.__iter__(self), self._original))

    def _replace(self, target: Any, content: Any) -> None:
        plain = content._plain() if isinstance(content, ListWrapper) else content
        list.__setitem__(target, slice(None), plain)

    def _plain(self) -> list[Any]:
        return list(list.__iter__(self))

    def __radd__(self, other: Any) -> Any:
        self._pull()
        return other + self._plain()

    def append(self, value: Any) -> None:
        self._pull()
        super().append(value)
        self._push()

    __delitem__ = _marking(list, "__delitem__")
    pop = _marking(list, "pop")
    remove = _marking(list, "remove")
    clear = _marking(list, "clear")
    sort = _marking(list, "sort")
    reverse = _marking(list, "reverse")
    __imul__ = _marking(list, "__imul__")

    def _has_tracked(self) -> bool:
        return any(isinstance(item, base.Trackable) for item in self)

    def insert(self, index: Any, value: Any) -> None:
        self._changed = self._changed or index < len(self) and self._has_tracked()
        list.insert(self, index, self._add(value, str(len(self))))
        self._push()

    def __setitem__(self, key: Any, value: Any) -> None:
        old = self[key]
        kept = value if isinstance(key, slice) else wrap_or_unwrap(value)
        for item in old if isinstance(key, slice) else [old]:
            self._changed = self._changed or isinstance(item, base.Trackable)
        if not isinstance(key, slice):
            kept = self._add(kept, str(key if key >= 0 else len(self) + key))
        list.__setitem__(self, key, kept)
        self._push()

    @property
    def _checkpoint_dependencies(self) -> list[Any]:
        self._pull()
        if self._modified is not None:
            how = "to track trackable TensorFlow objects"
            raise ValueError(_MODIFIED % (list(self), "list", how, "list", *self._modified[::-1], "list"))
        if self._changed:
            how = (
                "A list element was replaced (__setitem__, __setslice__), deleted (__delitem__, __delslice__), or "
                "moved (sort)."
            )
            raise ValueError(_CHANGED % (list(self), "list", how, "list"))
        return super()._checkpoint_dependencies


class Mapping(TrackableDataStructure, dict):  # type: ignore[type-arg]
    """A dict with string keys whose Trackable values are dependencies named by their keys."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        dict.__init__(self)
        self.update(*args, **kwargs)

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError("Mapping accepts only string keys, but got a key %r." % (key,))
        if key in self:
            raise ValueError(
                "Mappings are an append-only data structure. Tried to overwrite the key '%s' with value %s, but it "
                "already contains %s" % (key, value, self[key])
            )
        dict.__setitem__(self, key, self._add(value, key))

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)


@_sharing(dict)
class _DictWrapper(_Sharing, Mapping):
    """The dict of a tracked attribute. After values were replaced or removed it cannot be saved."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if len(args) == 1 and not kwargs and type(args[0]) in (dict, collections.OrderedDict):
            self._share(args[0])

    def _same(self) -> bool:
        if dict.__len__(self) != len(self._original):
            return False
        pairs = zip(dict.items(self), self._original.items())
        return all(a is b and v is w for (a, v), (b, w) in pairs)

    def _replace(self, target: Any, content: Any) -> None:
        plain = list(dict.items(content._plain() if isinstance(content, _DictWrapper) else content))
        if isinstance(target, _DictWrapper):
            dict.clear(target)
            for key, value in plain:
                dict.__setitem__(target, key, value)
            return
        target.clear()
        target.update(plain)

    def _plain(self) -> dict[Any, Any]:
        return dict(dict.items(self))

    __delitem__ = _marking(dict, "__delitem__")
    pop = _marking(dict, "pop")
    popitem = _marking(dict, "popitem")
    clear = _marking(dict, "clear")

    def _has_tracked(self) -> bool:
        return any(isinstance(item, base.Trackable) for item in self.values())

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The value of a key, which is set first if it is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        value = self._add(value, key) if isinstance(key, str) else wrap_or_unwrap(value)
        if isinstance(self.get(key), base.Trackable) and not isinstance(value, base.Trackable):
            self._changed = True
        dict.__setitem__(self, key, value)
        self._push()

    @property
    def _checkpoint_dependencies(self) -> list[Any]:
        self._pull()
        if self._modified is not None:
            how = "automatically on attribute assignment"
            raise ValueError(
                _MODIFIED % (dict(self), "dictionary", how, "dictionary", *self._modified[::-1], "dictionary")
            )
        if any(not isinstance(key, str) and isinstance(item, base.Trackable) for key, item in self.items()):
            how = "The wrapped dictionary contains a non-string key which maps to a trackable object or mutable data structure."
            raise ValueError(_CHANGED % (dict(self), "dictionary", how, "dictionary"))
        if self._changed:
            how = "A key/value was modified or deleted."
            raise ValueError(_CHANGED % (dict(self), "dictionary", how, "dictionary"))
        return super()._checkpoint_dependencies


class _TupleWrapper(TrackableDataStructure):
    """Dependencies of a tuple; the attribute itself stays a tuple."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        for index, value in enumerate(values):
            self._add(value, str(index))


def wrap_or_unwrap(value: Any) -> Any:
    """A tracked container for a plain one, the value that NoDependency wraps, else the value itself."""
    if isinstance(value, NoDependency):
        return value.value
    if isinstance(value, base.Trackable):
        return value
    if type(value) in (dict, collections.OrderedDict):
        return _DictWrapper(value)
    if type(value) is list:
        return ListWrapper(value)
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
