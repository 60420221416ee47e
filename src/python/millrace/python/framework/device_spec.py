# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""DeviceSpec: the name of a device, with optional parts: "/job:worker/replica:0/task:1/device:GPU:0"."""
from __future__ import annotations

from typing import Any, Optional

_STRING_TO_COMPONENTS_CACHE: dict[str, Any] = {}


def _as_str_or_none(value: Any) -> Optional[str]:
    return None if value is None else str(value)


def _as_int_or_none(value: Any) -> Optional[int]:
    try:
        return None if value is None else int(value)
    except OverflowError as error:
        raise ValueError(str(error)) from None


def _as_device_type_or_none(value: Any) -> Optional[str]:
    if value in ("cpu", "gpu", "CPU", "GPU"):
        return str(value).upper()
    return None if value is None else str(value)


def _parse(spec: str) -> tuple[Any, ...]:
    found = _STRING_TO_COMPONENTS_CACHE.get(spec)
    if found is not None:
        return found
    job = replica = task = device_type = device_index = None
    for part in (piece.split(":") for piece in (spec or "").split("/") if piece):
        if len(part) == 2 and part[0] == "job":
            job = part[1]
        elif len(part) == 2 and part[0] == "replica":
            replica = int(part[1])
        elif len(part) == 2 and part[0] == "task":
            task = int(part[1])
        elif part[0] in ("cpu", "gpu", "CPU", "GPU") and len(part) in (1, 2):
            if device_type is not None:
                raise ValueError("Cannot specify multiple device types: %s" % spec)
            device_type = part[0].upper()
            if len(part) == 2 and part[1] != "*":
                device_index = int(part[1])
        elif len(part) in (2, 3) and part[0] == "device":
            if device_type is not None:
                raise ValueError("Cannot specify multiple device types: %s" % spec)
            device_type = part[1].upper() if part[1] in ("cpu", "gpu") else part[1]
            if len(part) == 3 and part[2] != "*":
                device_index = int(part[2])
        else:
            raise ValueError("Unknown attribute: '%s' in '%s'" % (part[0], spec))
    result = (job, replica, task, device_type, device_index)
    _STRING_TO_COMPONENTS_CACHE[spec] = result
    return result


class DeviceSpecV2:
    """The name of a device; parts that are None are unspecified. Immutable."""

    __slots__ = ("_job", "_replica", "_task", "_device_type", "_device_index", "_as_string")

    def __init__(
        self,
        job: Any = None,
        replica: Any = None,
        task: Any = None,
        device_type: Any = None,
        device_index: Any = None,
    ) -> None:
        self._job = _as_str_or_none(job)
        self._replica = _as_int_or_none(replica)
        self._task = _as_int_or_none(task)
        self._device_type = _as_device_type_or_none(device_type)
        self._device_index = _as_int_or_none(device_index)
        self._as_string = self._text()

    def _parts(self) -> tuple[Any, ...]:
        return self._job, self._replica, self._task, self._device_type, self._device_index

    def _text(self) -> str:
        text = ""
        if self._job is not None:
            text += "/job:" + self._job
        if self._replica is not None:
            text += "/replica:%d" % self._replica
        if self._task is not None:
            text += "/task:%d" % self._task
        if self._device_type is not None:
            index = "*" if self._device_index is None else str(self._device_index)
            text += "/device:%s:%s" % (self._device_type, index)
        return text

    def to_string(self) -> str:
        """The text that from_string understands."""
        return self._text()

    @classmethod
    def from_string(cls, spec: str) -> Any:
        """The DeviceSpec of a text; ValueError when it is none."""
        return cls(*_parse(spec))

    def parse_from_string(self, spec: str) -> Any:
        return self.from_string(spec)

    def make_merged_spec(self, dev: Any) -> Any:
        """A name with the parts of `dev`, or this one's for parts that `dev` does not specify."""
        return self.__class__(*[b if b is not None else a for a, b in zip(self._parts(), dev._parts())])

    def replace(self, **kwargs: Any) -> Any:
        """A copy with some parts changed."""
        names = ("job", "replica", "task", "device_type", "device_index")
        values = dict(zip(names, self._parts()))
        values.update(kwargs)
        return self.__class__(**values)

    @property
    def job(self) -> Any:
        return self._job

    @property
    def replica(self) -> Any:
        return self._replica

    @property
    def task(self) -> Any:
        return self._task

    @property
    def device_type(self) -> Any:
        return self._device_type

    @property
    def device_index(self) -> Any:
        return self._device_index

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, DeviceSpecV2) and self.to_string() == other.to_string()

    def __hash__(self) -> int:
        return hash(self.to_string())

    def __repr__(self) -> str:
        return "<%s %r>" % (type(self).__name__, self.to_string())


class DeviceSpecV1(DeviceSpecV2):
    """The name of a device, whose parts may be set."""

    __slots__ = ()

    @DeviceSpecV2.job.setter  # type: ignore[attr-defined]
    def job(self, job: Any) -> None:
        self._job = _as_str_or_none(job)

    @DeviceSpecV2.replica.setter  # type: ignore[attr-defined]
    def replica(self, replica: Any) -> None:
        self._replica = _as_int_or_none(replica)

    @DeviceSpecV2.task.setter  # type: ignore[attr-defined]
    def task(self, task: Any) -> None:
        self._task = _as_int_or_none(task)

    @DeviceSpecV2.device_type.setter  # type: ignore[attr-defined]
    def device_type(self, device_type: Any) -> None:
        self._device_type = _as_device_type_or_none(device_type)

    @DeviceSpecV2.device_index.setter  # type: ignore[attr-defined]
    def device_index(self, device_index: Any) -> None:
        self._device_index = _as_int_or_none(device_index)

    def parse_from_string(self, spec: str) -> Any:
        """Sets all parts to those of a text; returns this object."""
        self._job, self._replica, self._task, self._device_type, self._device_index = _parse(spec)
        return self

    def merge_from(self, dev: Any) -> None:
        """Sets the parts that `dev` has."""
        merged = [b if b is not None else a for a, b in zip(self._parts(), dev._parts())]
        self._job, self._replica, self._task, self._device_type, self._device_index = merged
