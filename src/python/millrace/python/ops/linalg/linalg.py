# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The names of tf.linalg."""
from __future__ import annotations

from millrace.python.ops.linalg.linalg_impl import *  # noqa: F401,F403
