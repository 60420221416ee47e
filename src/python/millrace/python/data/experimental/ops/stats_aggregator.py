# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The receiver of a pipeline's statistics."""
from __future__ import annotations

from typing import Any

from millrace.python.ops import gen_experimental_dataset_ops as ged_ops

_DEFAULT_MAX_QUEUE = 10


class StatsAggregatorV1:
    """Collects statistics of iterators.

    A dataset's options name it: `options.experimental_stats.aggregator`.
    """

    def __init__(self) -> None:
        self._resource = ged_ops.stats_aggregator_handle()

    def get_summary(self) -> Any:
        """The statistics as a serialized Summary: a scalar string."""
        return ged_ops.experimental_stats_aggregator_summary(self._resource)


class StatsAggregatorV2(StatsAggregatorV1):
    """As StatsAggregatorV1, with a writer of summaries."""


StatsAggregator = StatsAggregatorV1
