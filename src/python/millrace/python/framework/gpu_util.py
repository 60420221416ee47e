# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Parses descriptions of GPUs."""
from __future__ import annotations

import collections
import re
from typing import Any

GpuInfo = collections.namedtuple("GpuInfo", ["name", "compute_capability"])
_PATTERN = re.compile(r"name: ([^,]*), .*compute capability: (\d+)\.(\d+)")


def compute_capability_from_device_desc(device_attrs: Any) -> GpuInfo:
    """The name and the capability (major, minor) of a DeviceAttributes; empty and (0, 0) if it does not
    say."""
    found = _PATTERN.search(device_attrs.physical_device_desc)
    if not found:
        return GpuInfo("", (0, 0))
    return GpuInfo(found.group(1), (int(found.group(2)), int(found.group(3))))
