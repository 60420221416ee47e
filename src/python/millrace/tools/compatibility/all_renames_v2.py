# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Public names that have another name in the second version of the API."""
from __future__ import annotations

from typing import Dict

symbol_renames: Dict[str, str] = {}
