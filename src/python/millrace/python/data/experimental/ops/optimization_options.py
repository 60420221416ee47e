# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Options for the optimization of a pipeline."""
from __future__ import annotations

from typing import Any

from millrace.python.data.util import options


def _flag(name: str, doc: str) -> Any:
    return options.create_option(name, bool, doc)


class MapVectorizationOptions(options.OptionsBase):
    """Options of the vectorization of maps, which moves them behind batches."""

    enabled = _flag("enabled", "Whether maps are vectorized.")
    use_choose_fastest = _flag(
        "use_choose_fastest", "Whether both versions are timed and the faster one is used."
    )

    def _static_optimizations(self) -> list[str]:
        return ["map_vectorization"] if self.enabled else []

    def _static_optimization_configs(self) -> list[str]:
        if self.use_choose_fastest is None:
            return []
        return ["map_vectorization:use_choose_fastest:" + ("true" if self.use_choose_fastest else "false")]


class OptimizationOptions(options.OptionsBase):
    """Rewrites of pipelines, each of which may be switched on or off."""

    apply_default_optimizations = _flag(
        "apply_default_optimizations", "Whether rewrites that are on by default are applied."
    )
    autotune = _flag("autotune", "Whether AUTOTUNE parameters are chosen by measured costs.")
    autotune_algorithm = options.create_option(
        "autotune_algorithm", int, "The algorithm that chooses AUTOTUNE parameters."
    )
    autotune_buffers = _flag("autotune_buffers", "Whether buffer sizes are chosen as well.")
    autotune_cpu_budget = options.create_option(
        "autotune_cpu_budget", int, "The number of CPUs that may be used."
    )
    filter_fusion = _flag("filter_fusion", "Fuses filters.")
    filter_with_random_uniform_fusion = _flag(
        "filter_with_random_uniform_fusion", "Replaces filters with a random predicate by sampling."
    )
    hoist_random_uniform = _flag("hoist_random_uniform", "Moves random numbers out of maps.")
    map_and_batch_fusion = _flag("map_and_batch_fusion", "Fuses maps and batches.")
    map_and_filter_fusion = _flag("map_and_filter_fusion", "Fuses maps and filters.")
    map_fusion = _flag("map_fusion", "Fuses maps.")
    map_parallelization = _flag("map_parallelization", "Makes stateless maps parallel.")
    map_vectorization = options.create_option(
        "map_vectorization",
        MapVectorizationOptions,
        "Vectorization of maps.",
        default_factory=MapVectorizationOptions,
    )
    noop_elimination = _flag("noop_elimination", "Removes datasets without effect.")
    parallel_batch = _flag("parallel_batch", "Copies batches in parallel.")
    prefetch_to_device = _flag("prefetch_to_device", "Prefetches to the device.")
    shuffle_and_repeat_fusion = _flag("shuffle_and_repeat_fusion", "Fuses shuffle and repeat.")

    def _static_optimizations(self) -> list[str]:
        names = [
            "filter_fusion", "filter_with_random_uniform_fusion", "hoist_random_uniform", "map_and_batch_fusion",
            "map_and_filter_fusion", "map_parallelization", "map_fusion", "noop_elimination", "parallel_batch",
            "shuffle_and_repeat_fusion",
        ]  # fmt: skip
        by_default = (
            []
            if self.apply_default_optimizations is False
            else ["map_and_batch_fusion", "noop_elimination", "shuffle_and_repeat_fusion"]
        )
        wanted = [n for n in names if getattr(self, n) or (getattr(self, n) is None and n in by_default)]
        return sorted(wanted + self.map_vectorization._static_optimizations())

    def _static_optimization_configs(self) -> list[str]:
        return self.map_vectorization._static_optimization_configs()
