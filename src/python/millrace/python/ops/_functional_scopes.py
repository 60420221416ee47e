# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The common part of the functions over loops (map_fn, foldl, scan)."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator


@contextlib.contextmanager
def caching_variables() -> Iterator[None]:
    """Variables made in the scope are read once and their value is kept on the device that uses it."""
    from millrace.python.ops import variable_scope as vs

    varscope = vs.get_variable_scope()
    was_none = varscope.caching_device is None
    if was_none:
        varscope.set_caching_device(_device_of)
    try:
        yield
    finally:
        if was_none:
            varscope.set_caching_device(None)


def _device_of(op: Any) -> Any:
    return op.device
