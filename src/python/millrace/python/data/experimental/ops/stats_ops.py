# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Measurements of a pipeline."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops import _datasets
from millrace.python.framework import dtypes, ops
from millrace.python.ops import gen_experimental_dataset_ops as ged_ops


def set_stats_aggregator(stats_aggregator: Any, prefix: str = "", counter_prefix: str = "") -> Any:
    """For `apply`: statistics of the input stages are added to an aggregator."""

    def apply_fn(dataset: Any) -> Any:
        return _datasets._SetStatsAggregatorDataset(dataset, stats_aggregator, prefix, counter_prefix)

    return apply_fn


def bytes_produced_stats(tag: Any) -> Any:
    """For `apply`: measures the bytes of each element."""
    return lambda dataset: _StatsDataset(dataset, ged_ops.bytes_produced_stats_dataset, tag)


def latency_stats(tag: Any) -> Any:
    """For `apply`: measures the time that each element takes."""
    return lambda dataset: _StatsDataset(dataset, ged_ops.latency_stats_dataset, tag)


class _StatsDataset(_datasets.UnaryUnchangedStructureDataset):
    def __init__(self, input_dataset: Any, op_function: Any, tag: Any) -> None:
        self._input_dataset = input_dataset
        self._tag = ops.convert_to_tensor(tag, dtype=dtypes.string)
        super().__init__(
            input_dataset, op_function(input_dataset._variant_tensor, self._tag, **self._flat_structure)
        )
