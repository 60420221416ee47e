# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Sets and dictionaries that compare by identity."""
from __future__ import annotations

import collections.abc
import weakref
from typing import Any, Dict, Iterator, MutableMapping, MutableSet, Optional


class _ObjectIdentityWrapper:
    """Wraps an object; equal to wrappers of the same object only."""

    __slots__ = ("_wrapped",)

    def __init__(self, wrapped: Any):
        self._wrapped = wrapped

    @property
    def unwrapped(self) -> Any:
        return self._wrapped

    def __eq__(self, other: Any) -> bool:
        if other is None:
            return False
        if not isinstance(other, _ObjectIdentityWrapper):
            return NotImplemented
        return self.unwrapped is other.unwrapped

    def __hash__(self) -> int:
        return id(self._wrapped)

    def __repr__(self) -> str:
        return "<{} wrapping {!r}>".format(type(self).__name__, self.unwrapped)


class _WeakObjectIdentityWrapper(_ObjectIdentityWrapper):
    __slots__ = ("_hash",)

    def __init__(self, wrapped: Any):
        super().__init__(weakref.ref(wrapped))
        self._hash = id(wrapped)

    @property
    def unwrapped(self) -> Any:
        return self._wrapped()

    def __hash__(self) -> int:
        return self._hash


class Reference(_ObjectIdentityWrapper):
    """A hashable reference to an object."""

    __slots__ = ()

    def deref(self) -> Any:
        """Returns the object."""
        return self._wrapped


class ObjectIdentityDictionary(MutableMapping[Any, Any]):
    """A dictionary whose keys are compared by identity."""

    def __init__(self) -> None:
        self._storage: Dict[Any, Any] = {}

    def _wrap_key(self, key: Any) -> Any:
        return _ObjectIdentityWrapper(key)

    def __getitem__(self, key: Any) -> Any:
        return self._storage[self._wrap_key(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._storage[self._wrap_key(key)] = value

    def __delitem__(self, key: Any) -> None:
        del self._storage[self._wrap_key(key)]

    def __len__(self) -> int:
        return len(self._storage)

    def __iter__(self) -> Iterator[Any]:
        for key in self._storage:
            yield key.unwrapped

    def __contains__(self, key: Any) -> bool:
        return self._wrap_key(key) in self._storage

    def __repr__(self) -> str:
        return "ObjectIdentityDictionary(%r)" % list(self.items())


class ObjectIdentityWeakKeyDictionary(ObjectIdentityDictionary):
    """As `ObjectIdentityDictionary`, with weak references to the keys."""

    def _wrap_key(self, key: Any) -> Any:
        return _WeakObjectIdentityWrapper(key)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __iter__(self) -> Iterator[Any]:
        for wrapped in list(self._storage):
            key = wrapped.unwrapped
            if key is None:
                del self._storage[wrapped]
            else:
                yield key


class ObjectIdentitySet(MutableSet[Any]):
    """A set whose elements are compared by identity."""

    def __init__(self, *args: Any):
        self._storage = {self._wrap_key(obj) for obj in (args[0] if args else ())}

    @staticmethod
    def _from_storage(storage: Any) -> "ObjectIdentitySet":
        result = ObjectIdentitySet()
        result._storage = storage
        return result

    @classmethod
    def _from_iterable(cls, it: Any) -> "ObjectIdentitySet":
        return cls(it)

    def _wrap_key(self, key: Any) -> Any:
        return _ObjectIdentityWrapper(key)

    def __contains__(self, key: Any) -> bool:
        return self._wrap_key(key) in self._storage

    def add(self, key: Any) -> None:
        self._storage.add(self._wrap_key(key))

    def discard(self, key: Any) -> None:
        self._storage.discard(self._wrap_key(key))

    def update(self, items: Any) -> None:
        self._storage.update([self._wrap_key(item) for item in items])

    def clear(self) -> None:
        self._storage.clear()

    def intersection(self, items: Any) -> "ObjectIdentitySet":
        return self._from_storage(self._storage.intersection([self._wrap_key(item) for item in items]))

    def difference(self, items: Any) -> "ObjectIdentitySet":
        return self._from_storage(self._storage.difference([self._wrap_key(item) for item in items]))

    def difference_update(self, items: Any) -> None:
        self._storage.difference_update([self._wrap_key(item) for item in items])

    def intersection_update(self, items: Any) -> None:
        self._storage.intersection_update([self._wrap_key(item) for item in items])

    def __len__(self) -> int:
        return len(self._storage)

    def __iter__(self) -> Iterator[Any]:
        for key in list(self._storage):
            yield key.unwrapped


class ObjectIdentityWeakSet(ObjectIdentitySet):
    """As `ObjectIdentitySet`, with weak references to the elements."""

    def _wrap_key(self, key: Any) -> Any:
        return _WeakObjectIdentityWrapper(key)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __iter__(self) -> Iterator[Any]:
        for wrapped in list(self._storage):
            key: Optional[Any] = wrapped.unwrapped
            if key is None:
                self._storage.discard(wrapped)
            else:
                yield key


_Iterable = collections.abc.Iterable
