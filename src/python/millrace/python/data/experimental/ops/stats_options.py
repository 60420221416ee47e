# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Options for the statistics of a pipeline."""
from __future__ import annotations

from millrace.python.data.experimental.ops import stats_aggregator
from millrace.python.data.util import options


class StatsOptions(options.OptionsBase):
    """Options of statistics."""

    aggregator = options.create_option(
        "aggregator",
        (stats_aggregator.StatsAggregatorV2, stats_aggregator.StatsAggregatorV1),
        "The StatsAggregator that collects the statistics.",
    )
    prefix = options.create_option(
        "prefix", str, "Prefix of the names of statistics.", default_factory=lambda: ""
    )
    counter_prefix = options.create_option(
        "counter_prefix", str, "Prefix of the names of counters.", default_factory=lambda: ""
    )
    latency_all_edges = options.create_option(
        "latency_all_edges", bool, "Whether the latency of each dataset is measured."
    )
