# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""How losses become one number, as second versions of losses name it."""
from __future__ import annotations

from typing import Any


class ReductionV2:
    """The names of what can be done with the losses of a batch."""

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
