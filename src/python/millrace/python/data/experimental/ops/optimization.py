# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Datasets that control the optimization of a pipeline."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops import _datasets
from millrace.python.data.ops._functions import StructuredFunctionWrapper
from millrace.python.data.ops._spec import DatasetSpec
from millrace.python.data.ops.dataset_ops import AUTOTUNE  # noqa: F401
from millrace.python.framework import dtypes, ops
from millrace.python.ops import gen_experimental_dataset_ops as ged_ops


def model() -> Any:
    """For `apply`: enables automatic tuning of parallelism."""
    return lambda dataset: _datasets._ModelDataset(dataset)


def optimize(optimizations: Any = None) -> Any:
    """For `apply`: applies the named rewrites to the pipeline."""
    return lambda dataset: _datasets._OptimizeDataset(dataset, optimizations)


def assert_next(transformations: Any) -> Any:
    """For `apply`: fails unless the named transformations follow, in this order."""
    return lambda dataset: _AssertNextDataset(dataset, transformations)


def non_serializable() -> Any:
    """For `apply`: the same dataset."""
    return lambda dataset: _NonSerializableDataset(dataset)


class _AssertNextDataset(_datasets.UnaryUnchangedStructureDataset):
    def __init__(self, input_dataset: Any, transformations: Any) -> None:
        if transformations is None:
            raise ValueError("At least one transformation should be specified")
        self._input_dataset = input_dataset
        names = ops.convert_to_tensor(transformations, dtype=dtypes.string, name="transformations")
        super().__init__(
            input_dataset,
            ged_ops.assert_next_dataset(input_dataset._variant_tensor, names, **self._flat_structure),
        )


class _NonSerializableDataset(_datasets.UnaryUnchangedStructureDataset):
    def __init__(self, input_dataset: Any) -> None:
        self._input_dataset = input_dataset
        super().__init__(
            input_dataset,
            ged_ops.non_serializable_dataset(input_dataset._variant_tensor, **self._flat_structure),
        )


class _ChooseFastestDataset(_datasets._WithSpec):
    """The fastest of several datasets of the same elements."""

    def __init__(self, datasets: Any, num_experiments: int = 10) -> None:
        self._datasets = list(datasets)
        self._structure = self._datasets[0].element_spec
        super().__init__(
            ged_ops.choose_fastest_dataset(
                [d._variant_tensor for d in self._datasets],
                num_experiments=num_experiments,
                **self._flat_structure,
            )
        )

    def _inputs(self) -> list[Any]:
        return self._datasets


class _ChooseFastestBranchDataset(_datasets._WithSpec, _datasets.UnaryDataset):
    """The result of the fastest of several functions of a dataset, which all return the same elements.

    Args:
      input_dataset: the dataset.
      functions: functions of a dataset that return a dataset.
      ratio_numerator, ratio_denominator: the ratio of the numbers of input and output elements.
      num_elements_per_branch: the number of elements with which each function is timed; None: 10 times the
        denominator.
    """

    def __init__(
        self,
        input_dataset: Any,
        functions: Any,
        ratio_numerator: int = 1,
        ratio_denominator: int = 1,
        num_elements_per_branch: Any = None,
    ) -> None:
        given = DatasetSpec(input_dataset.element_spec)
        self._funcs = [
            StructuredFunctionWrapper(f, "ChooseFastestV2", input_structure=given) for f in functions
        ]
        self._structure = self._funcs[0].output_structure._element_spec
        if ratio_numerator <= 0 or ratio_denominator <= 0:
            raise ValueError("ratio must be positive.")
        captured = [f.function.captured_inputs for f in self._funcs]
        super().__init__(
            input_dataset,
            ged_ops.choose_fastest_branch_dataset(
                input_dataset._variant_tensor,
                ratio_numerator=ratio_numerator,
                ratio_denominator=ratio_denominator,
                other_arguments=[t for each in captured for t in each],
                num_elements_per_branch=num_elements_per_branch or 10 * ratio_denominator,
                branches=[f.function for f in self._funcs],
                other_arguments_lengths=[len(each) for each in captured],
                **self._flat_structure,
            ),
        )
