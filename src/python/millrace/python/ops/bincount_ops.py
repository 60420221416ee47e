# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Counts of integers."""
from __future__ import annotations

from millrace.python.ops.math_ops import bincount, bincount_v1  # noqa: F401
