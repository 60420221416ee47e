# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Adjoints of linear operators are registered in registrations.py."""
from __future__ import annotations

from millrace.python.ops.linalg import registrations  # noqa: F401
