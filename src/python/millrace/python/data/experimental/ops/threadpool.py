# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Pools of threads for pipelines."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops import _datasets
from millrace.python.ops import gen_experimental_dataset_ops as ged_ops


class PrivateThreadPool:
    """A thread pool that datasets may share."""

    def __init__(self, num_threads: int, display_name: Any = None, max_intra_op_parallelism: int = 1) -> None:
        self._resource = ged_ops.thread_pool_handle(
            num_threads=num_threads,
            max_intra_op_parallelism=max_intra_op_parallelism,
            display_name=display_name or "",
        )


class _ThreadPoolDataset(_datasets.UnaryUnchangedStructureDataset):
    def __init__(self, input_dataset: Any, thread_pool: Any) -> None:
        self._input_dataset = input_dataset
        super().__init__(
            input_dataset,
            ged_ops.thread_pool_dataset(
                input_dataset._variant_tensor, thread_pool._resource, **self._flat_structure
            ),
        )


def override_threadpool(dataset: Any, thread_pool: Any) -> Any:
    """The dataset, whose inputs run in the thread pool."""
    return _ThreadPoolDataset(dataset, thread_pool)
