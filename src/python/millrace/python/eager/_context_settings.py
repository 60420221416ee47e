# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of eager execution as functions of the module `context`."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator


def get_log_device_placement() -> bool:
    """Whether the devices of operations are logged."""
    from millrace.python.framework import config

    return config.get_log_device_placement()


def set_log_device_placement(enabled: bool) -> None:
    """Sets whether the devices of operations are logged."""
    from millrace.python.framework import config

    config.set_log_device_placement(enabled)


@contextmanager
def device_policy(policy: Any) -> Iterator[None]:
    """Context in which another device placement policy holds."""
    from millrace.python.eager import context

    ctx = context.context()
    before = ctx.device_policy
    ctx.device_policy = policy
    try:
        yield
    finally:
        ctx.device_policy = before
