# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Set operations: the names of `sets_impl`."""
from __future__ import annotations

from millrace.python.ops.sets_impl import set_difference, set_intersection, set_size, set_union  # noqa: F401
