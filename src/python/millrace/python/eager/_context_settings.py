# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of eager execution as functions of the module `context`."""
from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Any, Iterator


class _Placement(threading.local):
    """The device of a thread where it is not the first CPU."""

    device = ""


placement = _Placement()


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
    """Context in which another device placement policy is in effect."""
    from millrace.python.eager import context

    ctx = context.context()
    before = ctx.device_policy
    ctx.device_policy = policy
    try:
        yield
    finally:
        ctx.device_policy = before


def _setting(name: str) -> Any:
    """A property that the module `config` keeps."""

    def get(self: Any) -> Any:
        from millrace.python.framework import config

        return getattr(config, "get_" + name)()

    def put(self: Any, value: Any) -> None:
        from millrace.python.framework import config

        getattr(config, "set_" + name)(value)

    return property(get, put)


class ContextSettings:
    """The settings of the process in a Context."""

    intra_op_parallelism_threads = _setting("intra_op_parallelism_threads")
    inter_op_parallelism_threads = _setting("inter_op_parallelism_threads")
    soft_device_placement = _setting("soft_device_placement")
    log_device_placement = _setting("log_device_placement")
    optimizer_jit = _setting("optimizer_jit")

    def __getattr__(self, name: str) -> Any:
        if name in _FUNCTIONS:
            from millrace.python.framework import config

            return getattr(config, name)
        raise AttributeError("%r object has no attribute %r" % (type(self).__name__, name))


_FUNCTIONS = {
    "get_optimizer_experimental_options", "set_optimizer_experimental_options", "list_physical_devices",
    "list_logical_devices", "get_visible_devices", "set_visible_devices", "get_memory_growth", "set_memory_growth",
}  # fmt: skip
