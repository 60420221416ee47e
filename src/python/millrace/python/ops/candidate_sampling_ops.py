# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Samplers of candidate classes for sampled losses.

All return (sampled_candidates, true_expected_count, sampled_expected_count): int64 [num_sampled], float32 of the shape of
`true_classes` (int64 [batch, num_true]), float32 [num_sampled].
"""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import random_seed
from millrace.python.ops import gen_candidate_sampling_ops


def uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Draws classes uniformly from [0, range_max)."""
    seed1, seed2 = random_seed.get_seed(seed)
    return gen_candidate_sampling_ops.uniform_candidate_sampler(
        true_classes, num_true, num_sampled, unique, range_max, seed=seed1, seed2=seed2, name=name
    )


def log_uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Draws class k of [0, range_max) with probability (log(k + 2) - log(k + 1)) / log(range_max + 1)."""
    seed1, seed2 = random_seed.get_seed(seed)
    return gen_candidate_sampling_ops.log_uniform_candidate_sampler(
        true_classes, num_true, num_sampled, unique, range_max, seed=seed1, seed2=seed2, name=name
    )


def learned_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Draws classes as often as they occurred in the true classes seen so far."""
    seed1, seed2 = random_seed.get_seed(seed)
    return gen_candidate_sampling_ops.learned_unigram_candidate_sampler(
        true_classes, num_true, num_sampled, unique, range_max, seed=seed1, seed2=seed2, name=name
    )


def fixed_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Any = (),
    seed: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Draws classes by the weights of a vocabulary file or of `unigrams`, raised to the power `distortion`."""
    seed1, seed2 = random_seed.get_seed(seed)
    return gen_candidate_sampling_ops.fixed_unigram_candidate_sampler(
        true_classes,
        num_true,
        num_sampled,
        unique,
        range_max,
        vocab_file=vocab_file,
        distortion=distortion,
        num_reserved_ids=num_reserved_ids,
        num_shards=num_shards,
        shard=shard,
        unigrams=list(unigrams),
        seed=seed1,
        seed2=seed2,
        name=name,
    )


def all_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    seed: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Returns all classes [0, num_sampled): for tests of sampled losses."""
    seed1, seed2 = random_seed.get_seed(seed)
    return gen_candidate_sampling_ops.all_candidate_sampler(
        true_classes, num_true, num_sampled, unique, seed=seed1, seed2=seed2, name=name
    )


def compute_accidental_hits(
    true_classes: Any, sampled_candidates: Any, num_true: int, seed: Any = None, name: Optional[str] = None
) -> Any:
    """Returns (indices, ids, weights) of the sampled candidates that are true classes; the weights are -FLOAT_MAX."""
    seed1, seed2 = random_seed.get_seed(seed)
    return gen_candidate_sampling_ops.compute_accidental_hits(
        true_classes, sampled_candidates, num_true, seed=seed1, seed2=seed2, name=name
    )
