# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Datasets for several workers or replicas."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops import _datasets, dataset_ops
from millrace.python.data.util import nest
from millrace.python.framework import tensor_shape, tensor_spec
from millrace.python.ops import gen_experimental_dataset_ops as ged_ops


class _AutoShardDataset(_datasets.UnaryUnchangedStructureDataset):
    """The shard of worker `index` of `num_workers`: of the files if any are read, else of the elements."""

    def __init__(self, input_dataset: Any, num_workers: Any, index: Any) -> None:
        self._input_dataset = input_dataset
        super().__init__(
            input_dataset,
            ged_ops.auto_shard_dataset(
                input_dataset._variant_tensor, num_workers=num_workers, index=index, **self._flat_structure
            ),
        )


def _AutoShardDatasetV1(input_dataset: Any, num_workers: Any, index: Any) -> Any:  # noqa: N802
    return dataset_ops.DatasetV1Adapter(_AutoShardDataset(input_dataset, num_workers, index))


class _RebatchDataset(_datasets._WithSpec):
    """A dataset of batches, each split into batches for the replicas."""

    def __init__(self, input_dataset: Any, num_replicas: Any, use_fallback: bool = True) -> None:
        self._input_dataset = input_dataset
        self._structure = nest.map_structure(self._spec, input_dataset.element_spec)
        super().__init__(
            ged_ops.rebatch_dataset(
                input_dataset._variant_tensor,
                num_replicas=num_replicas,
                use_fallback=use_fallback,
                **self._flat_structure,
            )
        )

    @staticmethod
    def _spec(spec: Any) -> Any:
        shape = spec._to_legacy_output_shapes()
        if shape.ndims is None:
            return spec
        if shape.ndims < 1:
            raise ValueError("Input shape should have at least one dimension.")
        return tensor_spec.TensorSpec(tensor_shape.TensorShape([None]).concatenate(shape[1:]), spec.dtype)

    def _inputs(self) -> list[Any]:
        return [self._input_dataset]


_AutoShardDatasetV1.__doc__ = _AutoShardDataset.__doc__
