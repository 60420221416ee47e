# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Pauses, for tests."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops import _datasets
from millrace.python.framework import dtypes, ops
from millrace.python.ops import gen_experimental_dataset_ops as ged_ops


class _SleepDataset(_datasets.UnaryUnchangedStructureDataset):
    def __init__(self, input_dataset: Any, sleep_microseconds: Any) -> None:
        self._input_dataset = input_dataset
        pause = ops.convert_to_tensor(sleep_microseconds, dtype=dtypes.int64)
        super().__init__(
            input_dataset, ged_ops.sleep_dataset(input_dataset._variant_tensor, pause, **self._flat_structure)
        )


def sleep(sleep_microseconds: Any) -> Any:
    """For `apply`: waits before each element."""

    def apply_fn(dataset: Any) -> Any:
        return _SleepDataset(dataset, sleep_microseconds)

    return apply_fn
