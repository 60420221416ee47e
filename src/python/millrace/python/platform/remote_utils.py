# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Names of communication protocols of servers."""
from __future__ import annotations


def get_default_communication_protocol() -> str:
    """The protocol of servers when a program names none."""
    return "grpc"


def is_remote_path(_: str) -> bool:
    """Whether a path is on another machine: never known."""
    return False
