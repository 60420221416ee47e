# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Datasets without repeated elements."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops import _datasets, dataset_ops
from millrace.python.framework import dtypes
from millrace.python.ops import gen_experimental_dataset_ops as ged_ops


def unique() -> Any:
    """For `apply`: the first of equal elements, which are one int32, int64 or string each."""

    def apply_fn(dataset: Any) -> Any:
        return _UniqueDataset(dataset)

    return apply_fn


class _UniqueDataset(_datasets.UnaryUnchangedStructureDataset):
    def __init__(self, input_dataset: Any) -> None:
        self._input_dataset = input_dataset
        if dataset_ops.get_legacy_output_types(input_dataset) not in (
            dtypes.int32,
            dtypes.int64,
            dtypes.string,
        ):
            raise TypeError(
                "`tf.data.experimental.unique()` only supports inputs with a single `tf.int32`, `tf.int64`, or `tf.string` "
                "component."
            )
        super().__init__(
            input_dataset, ged_ops.unique_dataset(input_dataset._variant_tensor, **self._flat_structure)
        )
