# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Which distribution strategy is in force: there is only the default one, with one replica."""
from __future__ import annotations

from typing import Any


def has_strategy() -> bool:
    """Whether a strategy other than the default one is in force: never."""
    return False


def has_distribution_strategy() -> bool:
    """The name of `has_strategy` in older programs."""
    return False


def in_cross_replica_context() -> bool:
    """Whether code runs outside of the replicas: never, the default strategy has one replica."""
    return False


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    from millrace.python.distribute import distribution_strategy_context  # type: ignore[import]

    return getattr(distribution_strategy_context, name)
