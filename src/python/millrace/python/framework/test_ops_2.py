# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""More ops for tests: those of test_ops."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import test_ops


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(test_ops, name)
