# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Paths as text."""
from __future__ import annotations

from millrace.python.util.compat import path_to_str

__all__ = ["path_to_str"]
