# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Forward compatibility: the date from which on a change of the graph format may be used."""
from __future__ import annotations

import datetime
import os
from typing import Any

from millrace.python.util import tf_contextlib

_FORWARD_COMPATIBILITY_HORIZON = datetime.date(2019, 11, 1)
_FORWARD_COMPATIBILITY_DELTA_DAYS_VAR_NAME = "TF_FORWARD_COMPATIBILITY_DELTA_DAYS"


def _horizon() -> datetime.date:
    days = os.environ.get(_FORWARD_COMPATIBILITY_DELTA_DAYS_VAR_NAME)
    return _FORWARD_COMPATIBILITY_HORIZON + datetime.timedelta(days=int(days) if days else 0)


def forward_compatible(year: int, month: int, day: int) -> bool:
    """True if features that were added on that day may be used in new graphs."""
    try:
        return _horizon() > datetime.date(year, month, day)
    except OverflowError as error:
        raise ValueError(str(error)) from None


@tf_contextlib.contextmanager
def forward_compatibility_horizon(year: int, month: int, day: int) -> Any:
    """Context in which `forward_compatible` compares with the given day."""
    global _FORWARD_COMPATIBILITY_HORIZON
    before = _FORWARD_COMPATIBILITY_HORIZON
    _FORWARD_COMPATIBILITY_HORIZON = datetime.date(year, month, day)
    try:
        yield
    finally:
        _FORWARD_COMPATIBILITY_HORIZON = before
