# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The datasets that call a function for each element."""
from __future__ import annotations

import os
from typing import Any

from millrace.python.data.ops import dataset_ops
from millrace.python.data.ops._datasets import UnaryDataset, UnaryUnchangedStructureDataset, _int64, _WithSpec
from millrace.python.data.ops._functions import StructuredFunctionWrapper
from millrace.python.data.ops._spec import DatasetSpec
from millrace.python.data.util import structure
from millrace.python.framework import dtypes, ops, tensor_spec
from millrace.python.ops import gen_dataset_ops


class _FunctionDataset(UnaryDataset):
    """A dataset with one function, `_map_func`."""

    _map_func: Any

    def _functions(self) -> list[Any]:
        return [self._map_func]

    @property
    def _captured(self) -> Any:
        return self._map_func.function.captured_inputs


class MapDataset(_WithSpec, _FunctionDataset):
    def __init__(
        self, input_dataset: Any, map_func: Any, use_inter_op_parallelism: bool = True, preserve_cardinality: bool = False,
        use_legacy_function: bool = False,
    ) -> None:  # fmt: skip
        self._input_dataset = input_dataset
        self._map_func = StructuredFunctionWrapper(
            map_func, self._transformation_name(), dataset=input_dataset
        )
        self._structure = self._map_func.output_structure
        super().__init__(
            input_dataset,
            gen_dataset_ops.map_dataset(
                input_dataset._variant_tensor, self._captured, f=self._map_func.function,
                use_inter_op_parallelism=use_inter_op_parallelism, preserve_cardinality=preserve_cardinality,
                **self._flat_structure,
            ),
        )  # fmt: skip

    def _transformation_name(self) -> str:
        return "Dataset.map()"


class ParallelMapDataset(_WithSpec, _FunctionDataset):
    def __init__(
        self, input_dataset: Any, map_func: Any, num_parallel_calls: Any, use_inter_op_parallelism: bool = True,
        preserve_cardinality: bool = False, use_legacy_function: bool = False,
    ) -> None:  # fmt: skip
        self._input_dataset = input_dataset
        self._map_func = StructuredFunctionWrapper(map_func, "Dataset.map()", dataset=input_dataset)
        self._structure = self._map_func.output_structure
        self._num_parallel_calls = ops.convert_to_tensor(
            num_parallel_calls, dtype=dtypes.int32, name="num_parallel_calls"
        )
        super().__init__(
            input_dataset,
            gen_dataset_ops.parallel_map_dataset(
                input_dataset._variant_tensor, self._captured, f=self._map_func.function,
                num_parallel_calls=self._num_parallel_calls, use_inter_op_parallelism=use_inter_op_parallelism,
                sloppy=_is_sloppy(self), preserve_cardinality=preserve_cardinality, **self._flat_structure,
            ),
        )  # fmt: skip


def _is_sloppy(dataset: Any) -> bool:
    return dataset.options().experimental_deterministic is False


class FlatMapDataset(_WithSpec, _FunctionDataset):
    def __init__(self, input_dataset: Any, map_func: Any) -> None:
        self._prepare(input_dataset, map_func)
        super().__init__(
            input_dataset,
            gen_dataset_ops.flat_map_dataset(
                input_dataset._variant_tensor,
                self._captured,
                f=self._map_func.function,
                **self._flat_structure,
            ),
        )

    def _prepare(self, input_dataset: Any, map_func: Any) -> None:
        self._input_dataset = input_dataset
        self._map_func = StructuredFunctionWrapper(
            map_func, self._transformation_name(), dataset=input_dataset
        )
        if not isinstance(self._map_func.output_structure, DatasetSpec):
            raise TypeError("`map_func` must return a `Dataset` object.")
        self._structure = self._map_func.output_structure._element_spec

    def _transformation_name(self) -> str:
        return "Dataset.flat_map()"


class InterleaveDataset(FlatMapDataset):
    def __init__(self, input_dataset: Any, map_func: Any, cycle_length: Any, block_length: Any) -> None:
        self._prepare(input_dataset, map_func)
        self._cycle_length = _int64(_cycle(cycle_length), "cycle_length")
        self._block_length = _int64(block_length, "block_length")
        UnaryDataset.__init__(
            self,
            input_dataset,
            gen_dataset_ops.interleave_dataset(
                input_dataset._variant_tensor, self._captured, self._cycle_length, self._block_length,
                f=self._map_func.function, **self._flat_structure,
            ),
        )  # fmt: skip

    def _transformation_name(self) -> str:
        return "Dataset.interleave()"


def _cycle(cycle_length: Any) -> Any:
    if isinstance(cycle_length, int) and cycle_length == dataset_ops.AUTOTUNE:
        return os.cpu_count() or 1
    return cycle_length


class ParallelInterleaveDataset(FlatMapDataset):
    def __init__(
        self, input_dataset: Any, map_func: Any, cycle_length: Any, block_length: Any, num_parallel_calls: Any
    ) -> None:
        self._prepare(input_dataset, map_func)
        self._cycle_length = _int64(_cycle(cycle_length), "cycle_length")
        self._block_length = _int64(block_length, "block_length")
        self._num_parallel_calls = _int64(num_parallel_calls, "num_parallel_calls")
        UnaryDataset.__init__(
            self,
            input_dataset,
            gen_dataset_ops.parallel_interleave_dataset_v2(
                input_dataset._variant_tensor, self._captured, self._cycle_length, self._block_length,
                self._num_parallel_calls, f=self._map_func.function, sloppy=_is_sloppy(self), **self._flat_structure,
            ),
        )  # fmt: skip

    def _transformation_name(self) -> str:
        return "Dataset.interleave()"


class FilterDataset(UnaryUnchangedStructureDataset):
    def __init__(self, input_dataset: Any, predicate: Any, use_legacy_function: bool = False) -> None:
        self._input_dataset = input_dataset
        wrapped = StructuredFunctionWrapper(predicate, "Dataset.filter()", dataset=input_dataset)
        if not structure.are_compatible(wrapped.output_structure, tensor_spec.TensorSpec([], dtypes.bool)):
            raise ValueError(
                "`predicate` return type must be convertible to a scalar boolean tensor. Was {}.".format(
                    wrapped.output_structure
                )
            )
        self._predicate = wrapped
        super().__init__(
            input_dataset,
            gen_dataset_ops.filter_dataset(
                input_dataset._variant_tensor, other_arguments=wrapped.function.captured_inputs,
                predicate=wrapped.function, **self._flat_structure,
            ),
        )  # fmt: skip

    def _functions(self) -> list[Any]:
        return [self._predicate]
