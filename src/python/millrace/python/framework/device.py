# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Names of devices, and device functions."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import device_spec

DeviceSpec = device_spec.DeviceSpecV1
DeviceSpecV1 = device_spec.DeviceSpecV1
DeviceSpecV2 = device_spec.DeviceSpecV2


def check_valid(spec: str) -> None:
    """Raises ValueError if `spec` names no device."""
    DeviceSpec.from_string(spec)


def is_device_spec(obj: Any) -> bool:
    return isinstance(obj, device_spec.DeviceSpecV2)


def canonical_name(device: Any) -> str:
    """The name in its full form: "/device:CPU:0" for "/cpu:0"."""
    if device is None:
        return ""
    if is_device_spec(device):
        return device.to_string()
    return DeviceSpec.from_string(device).to_string()


def canonical_or_string(device: Any) -> str:
    """The name in its full form; other texts are returned unchanged."""
    if isinstance(device, str):
        try:
            return canonical_name(device)
        except ValueError:
            return device
    return canonical_name(device)


class MergeDevice:
    """A device function that completes unspecified parts of an operation's device."""

    def __init__(self, spec: Any) -> None:
        if isinstance(spec, device_spec.DeviceSpecV2):
            self._spec = spec
        else:
            self._spec = DeviceSpec.from_string(spec)

    def __call__(self, node_def: Any) -> str:
        current = DeviceSpec.from_string(node_def.device or "")
        return self._spec.make_merged_spec(current).to_string()

    def shortcut_string_merge(self, node_def: Any) -> str:
        return self(node_def)

    @property
    def is_null_merge(self) -> bool:
        return not self._spec.to_string()


_merges: dict[Any, MergeDevice] = {}


def merge_device(spec: Any) -> MergeDevice:
    """The MergeDevice of a device, as text or as a DeviceSpec."""
    if isinstance(spec, MergeDevice):
        return spec
    key = spec if isinstance(spec, str) else spec.to_string()
    found = _merges.get(key)
    if found is None:
        found = _merges[key] = MergeDevice(spec or "")
    return found
