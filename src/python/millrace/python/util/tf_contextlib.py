# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Context managers from generators, supported by `tf_inspect` and `tf_decorator`."""
from __future__ import annotations

import contextlib
from typing import Any, Callable

from millrace.python.util import tf_decorator


def contextmanager(target: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `contextlib.contextmanager(target)` with the name, documentation and signature of `target`."""
    manager = contextlib.contextmanager(target)
    return tf_decorator.make_decorator(target, manager, "contextmanager")
