# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The names of `tf.metrics`."""
from __future__ import annotations

from millrace.python.ops.metrics_impl import *  # noqa: F401,F403
