# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Another name of pywrap_tensorflow."""
from __future__ import annotations

from typing import Any

from millrace.python import pywrap_tensorflow


def __getattr__(name: str) -> Any:
    return getattr(pywrap_tensorflow, name)
