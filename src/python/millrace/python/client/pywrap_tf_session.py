# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's functions under the names that programs use for them."""
from __future__ import annotations

from typing import Any

from millrace.python import _engine


def TF_GetBuffer(buf: bytes) -> bytes:  # noqa: N802
    """Returns its argument: buffers are bytes objects already."""
    return buf


def get_version() -> Any:
    """The engine's version."""
    return _engine.version()
