# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Shuffle and repeat as one stage."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops import _datasets
from millrace.python.data.util import random_seed
from millrace.python.framework import dtypes, ops
from millrace.python.ops import gen_dataset_ops


class _ShuffleAndRepeatDataset(_datasets.UnaryUnchangedStructureDataset):
    def __init__(self, input_dataset: Any, buffer_size: Any, count: Any = None, seed: Any = None) -> None:
        self._input_dataset = input_dataset
        self._buffer_size = ops.convert_to_tensor(buffer_size, dtype=dtypes.int64, name="buffer_size")
        self._count = ops.convert_to_tensor(-1 if count is None else count, dtype=dtypes.int64, name="count")
        self._seed, self._seed2 = random_seed.get_seed(seed)
        super().__init__(
            input_dataset,
            gen_dataset_ops.shuffle_and_repeat_dataset(
                input_dataset._variant_tensor, buffer_size=self._buffer_size, count=self._count, seed=self._seed,
                seed2=self._seed2, **self._flat_structure,
            ),
        )  # fmt: skip


def shuffle_and_repeat(buffer_size: Any, count: Any = None, seed: Any = None) -> Any:
    """For `apply`: shuffles and repeats; elements of the next epoch fill the buffer at the end of one."""

    def apply_fn(dataset: Any) -> Any:
        return _ShuffleAndRepeatDataset(dataset, buffer_size, count, seed)

    return apply_fn
