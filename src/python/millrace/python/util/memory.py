# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Helpers that break reference cycles."""
from __future__ import annotations

import collections
from typing import Any


def dismantle_ordered_dict(ordered_dict: Any) -> None:
    """Empties an ordered dictionary."""
    ordered_dict.clear()


_OrderedDict = collections.OrderedDict
