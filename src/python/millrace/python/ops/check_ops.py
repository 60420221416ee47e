# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Assertions: checked while the graph is made where values are known, else by ops that fail."""

from __future__ import annotations

from millrace.python.ops._check_compare import *  # noqa: F401,F403
from millrace.python.ops._check_compare import _binary_assert  # noqa: F401
from millrace.python.ops._check_shapes import *  # noqa: F401,F403
from millrace.python.ops._check_types import *  # noqa: F401,F403
from millrace.python.ops._check_v2 import *  # noqa: F401,F403
