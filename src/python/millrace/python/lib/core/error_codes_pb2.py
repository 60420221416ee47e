# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The codes of errors, as messages have them."""
from __future__ import annotations

from millrace.core.lib.core.error_codes_pb2 import *  # noqa: F401,F403
from millrace.core.lib.core.error_codes_pb2 import DESCRIPTOR  # noqa: F401
