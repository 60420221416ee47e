# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Stages for tests of pipelines."""
from __future__ import annotations

from millrace.python.data.experimental.ops.optimization import (
    _AssertNextDataset,
    _NonSerializableDataset,
    assert_next,
    non_serializable,
)
from millrace.python.data.experimental.ops.sleep import _SleepDataset, sleep

__all__ = [
    "_AssertNextDataset", "_NonSerializableDataset", "_SleepDataset",
    "assert_next", "non_serializable", "sleep",
]  # fmt: skip
