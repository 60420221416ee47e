# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The interface of all sessions, and their devices."""
from __future__ import annotations

from typing import Any, Optional


class SessionInterface:
    """Base class of sessions."""

    @property
    def graph(self) -> Any:
        """The graph."""
        raise NotImplementedError("graph")

    @property
    def sess_str(self) -> Any:
        """The target."""
        raise NotImplementedError("sess_str")

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Runs the operations that the fetches need."""
        raise NotImplementedError("run")

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> Any:
        """Prepares a step that is run in parts."""
        raise NotImplementedError("partial_run_setup")

    def partial_run(self, handle: Any, fetches: Any, feed_dict: Any = None) -> Any:
        """Runs a part of a step."""
        raise NotImplementedError("partial_run")


class _DeviceAttributes:
    """A device: its name, type, memory and incarnation, which changes when it restarts."""

    def __init__(self, name: Any, device_type: Any, memory_limit_bytes: int, incarnation: int) -> None:
        from millrace.python.framework import device

        self._name = device.canonical_name(name.decode() if isinstance(name, bytes) else name)
        self._device_type = device_type
        self._memory_limit_bytes = memory_limit_bytes
        self._incarnation = incarnation

    @property
    def name(self) -> str:
        return self._name

    @property
    def device_type(self) -> str:
        return self._device_type

    @property
    def memory_limit_bytes(self) -> int:
        return self._memory_limit_bytes

    @property
    def incarnation(self) -> int:
        return self._incarnation

    def __repr__(self) -> str:
        return "_DeviceAttributes(%s, %s, %d, %d)" % (
            self.name,
            self.device_type,
            self.memory_limit_bytes,
            self.incarnation,
        )


def _message_bytes(message: Any, what: str, kind: str) -> Optional[bytes]:
    if message is None:
        return None
    if type(message).__name__ != kind or not hasattr(message, "SerializeToString"):
        raise TypeError("%s must be a %s, but got %s" % (what, "tf." + kind, type(message)))
    return message.SerializeToString()
