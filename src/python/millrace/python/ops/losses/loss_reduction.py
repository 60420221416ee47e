# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Reductions of losses, by the names of version 2."""
from __future__ import annotations

from typing import Any


class ReductionV2:
    """How the losses of a batch are reduced."""

    AUTO = "auto"
    NONE = "none"
    SUM = "sum"
    SUM_OVER_BATCH_SIZE = "sum_over_batch_size"

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """All names."""
        return (cls.AUTO, cls.NONE, cls.SUM, cls.SUM_OVER_BATCH_SIZE)

    @classmethod
    def validate(cls, key: Any) -> None:
        """ValueError for any other value."""
        if key not in cls.all():
            raise ValueError("Invalid Reduction Key %s." % key)
