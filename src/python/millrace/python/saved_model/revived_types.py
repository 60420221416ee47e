# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Classes of objects that are recreated from a SavedModel, with their versions."""
from __future__ import annotations

from typing import Any

from millrace.core.framework import versions_pb2
from millrace.core.protobuf import saved_object_graph_pb2


class VersionedTypeRegistration:
    """One version of a class: how an object is made from its SavedUserObject, and which objects it reads."""

    def __init__(
        self, object_factory: Any, version: int, min_producer_version: int, min_consumer_version: int,
        bad_consumers: Any = None, setter: Any = setattr,
    ) -> None:  # fmt: skip
        self.setter = setter
        self.identifier: Any = None
        self._object_factory = object_factory
        self.version = version
        self._min_consumer_version = min_consumer_version
        self._min_producer_version = min_producer_version
        self._bad_consumers = [] if bad_consumers is None else bad_consumers

    def to_proto(self) -> Any:
        """The SavedUserObject of this version."""
        return saved_object_graph_pb2.SavedUserObject(
            identifier=self.identifier,
            version=versions_pb2.VersionDef(
                producer=self.version,
                min_consumer=self._min_consumer_version,
                bad_consumers=self._bad_consumers,
            ),
        )

    def from_proto(self, proto: Any) -> Any:
        """A new object."""
        return self._object_factory(proto)

    def should_load(self, proto: Any) -> bool:
        """Whether this version can read an object written by another version."""
        if proto.identifier != self.identifier:
            return False
        written = proto.version
        return (
            self.version >= written.min_consumer
            and written.producer >= self._min_producer_version
            and self.version not in written.bad_consumers
        )


_registered: dict[str, tuple[Any, list[VersionedTypeRegistration]]] = {}
_order: list[str] = []


def register_revived_type(identifier: str, predicate: Any, versions: list[VersionedTypeRegistration]) -> None:
    """Registers a class.

    Args:
      identifier: its name in models.
      predicate: whether an object belongs to it.
      versions: its versions.

    Raises:
      AssertionError: if two versions have the same number, or the name is registered.
    """
    versions = sorted(versions, key=lambda v: v.version, reverse=True)
    if not versions:
        raise AssertionError("Need at least one version of a registered type.")
    if len({v.version for v in versions}) != len(versions):
        raise AssertionError("Got multiple registrations with the same version for type %s." % identifier)
    for version in versions:
        version.identifier = identifier
    if identifier in _registered:
        raise AssertionError("Duplicate registrations for type '%s'" % identifier)
    _registered[identifier] = (predicate, versions)
    _order.append(identifier)


def serialize(obj: Any) -> Any:
    """The SavedUserObject of an object; None when no class has it."""
    for identifier in _order:
        predicate, versions = _registered[identifier]
        if predicate(obj):
            return versions[0].to_proto()
    return None


def deserialize(proto: Any) -> Any:
    """A new object and its setter of attributes; None when no registered version reads it."""
    _, versions = _registered.get(proto.identifier, (None, []))
    for version in versions:
        if version.should_load(proto):
            return version.from_proto(proto), version.setter
    return None


def registered_identifiers() -> list[str]:
    """The names of the registered classes."""
    return list(_order)


def get_setter(proto: Any) -> Any:
    """The setter of attributes for a written object, or None."""
    _, versions = _registered.get(proto.identifier, (None, []))
    for version in versions:
        if version.should_load(proto):
            return version.setter
    return None
