# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Options of datasets."""
from __future__ import annotations

from typing import Any

from millrace.python.data.experimental.ops import (
    distribute_options,
    optimization_options,
    stats_options,
    threading_options,
)
from millrace.python.data.util import options as options_lib


class Options(options_lib.OptionsBase):
    """The options of a dataset that `with_options` sets."""

    experimental_deterministic = options_lib.create_option(
        "experimental_deterministic",
        bool,
        "Whether the order of elements is deterministic (None: yes).",
    )
    experimental_distribute = options_lib.create_option(
        "experimental_distribute",
        distribute_options.DistributeOptions,
        "Options of the distribution over workers.",
        distribute_options.DistributeOptions,
    )
    experimental_optimization = options_lib.create_option(
        "experimental_optimization",
        optimization_options.OptimizationOptions,
        "Options of the optimization of the pipeline.",
        optimization_options.OptimizationOptions,
    )
    experimental_slack = options_lib.create_option(
        "experimental_slack", bool, "Whether the last prefetch waits until the step has started."
    )
    experimental_stats = options_lib.create_option(
        "experimental_stats", stats_options.StatsOptions, "Options of statistics.", stats_options.StatsOptions
    )
    experimental_threading = options_lib.create_option(
        "experimental_threading",
        threading_options.ThreadingOptions,
        "Options of threads.",
        threading_options.ThreadingOptions,
    )
    experimental_stateful_whitelist = options_lib.create_option(
        "experimental_stateful_whitelist",
        list,
        "Names of stateful operations whose state is ignored when an iterator is saved.",
    )

    def _static_optimizations(self) -> list[str]:
        names: list[str] = self.experimental_optimization._static_optimizations()
        if self.experimental_deterministic is False:
            names = names + ["make_sloppy"]
        if self.experimental_slack:
            names = names + ["slack"]
        return names

    def _static_optimization_configs(self) -> list[str]:
        configs: list[str] = self.experimental_optimization._static_optimization_configs()
        if self.experimental_slack:
            # Read at the start of a step, one element for each device.
            configs = configs + ["slack:slack_period:%d" % (self.experimental_distribute.num_devices or 1)]
        return configs

    def merge(self, options: Any) -> Any:
        """Returns these options merged with others.

        Raises:
          ValueError: both set one to different values.
        """
        return options_lib.merge_options(self, options)
