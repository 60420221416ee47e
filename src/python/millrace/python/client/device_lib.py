# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The devices of this process."""
from __future__ import annotations

from typing import Any


def list_local_devices(session_config: Any = None) -> list[Any]:
    """DeviceAttributes of the devices of this process."""
    from millrace.core.framework import device_attributes_pb2
    from millrace.python.client import session
    from millrace.python.framework import ops

    with session.Session(graph=ops.Graph(), config=session_config) as sess:
        found = []
        for name, kind, memory, incarnation in sess._device_list():
            name = name[name.index("/device:") :] if "/device:" in name else name
            found.append(
                device_attributes_pb2.DeviceAttributes(
                    name=name, device_type=kind, memory_limit=memory, incarnation=incarnation & (2**63 - 1)
                )
            )
        return found
