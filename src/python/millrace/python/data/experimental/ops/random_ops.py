# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Datasets of random numbers."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops import _datasets, dataset_ops
from millrace.python.data.util import random_seed
from millrace.python.framework import dtypes, tensor_spec
from millrace.python.ops import gen_experimental_dataset_ops as ged_ops


class RandomDatasetV2(_datasets._WithSpec, _datasets.DatasetSource):
    """An infinite dataset of random 32-bit numbers, as int64."""

    def __init__(self, seed: Any = None) -> None:
        self._seed, self._seed2 = random_seed.get_seed(seed)
        self._structure = tensor_spec.TensorSpec([], dtypes.int64)
        super().__init__(ged_ops.random_dataset(seed=self._seed, seed2=self._seed2, **self._flat_structure))


class RandomDatasetV1(dataset_ops.DatasetV1Adapter):
    """An infinite dataset of random 32-bit numbers, as int64."""

    def __init__(self, seed: Any = None) -> None:
        super().__init__(RandomDatasetV2(seed))


RandomDataset = RandomDatasetV1
