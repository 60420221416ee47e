# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Datasets that skip errors."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops import _datasets
from millrace.python.ops import gen_experimental_dataset_ops as ged_ops


def ignore_errors() -> Any:
    """For `apply`: skips elements whose computation fails."""

    def apply_fn(dataset: Any) -> Any:
        return _IgnoreErrorsDataset(dataset)

    return apply_fn


class _IgnoreErrorsDataset(_datasets.UnaryUnchangedStructureDataset):
    def __init__(self, input_dataset: Any) -> None:
        self._input_dataset = input_dataset
        super().__init__(
            input_dataset,
            ged_ops.ignore_errors_dataset(input_dataset._variant_tensor, **self._flat_structure),
        )
