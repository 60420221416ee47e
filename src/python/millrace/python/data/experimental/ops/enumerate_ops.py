# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Datasets of numbered elements."""
from __future__ import annotations

from typing import Any


def enumerate_dataset(start: Any = 0) -> Any:
    """For `apply`: pairs of a number that counts up from `start`, and an element."""

    def apply_fn(dataset: Any) -> Any:
        return dataset.enumerate(start)

    return apply_fn
