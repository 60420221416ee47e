# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Elements up to the first for which a predicate is false."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops import _datasets
from millrace.python.data.ops._functions import StructuredFunctionWrapper
from millrace.python.data.util import structure
from millrace.python.framework import dtypes, tensor_spec
from millrace.python.ops import gen_experimental_dataset_ops as ged_ops


class _TakeWhileDataset(_datasets.UnaryUnchangedStructureDataset):
    def __init__(self, input_dataset: Any, predicate: Any) -> None:
        self._input_dataset = input_dataset
        wrapped = StructuredFunctionWrapper(
            predicate, "tf.data.experimental.take_while()", dataset=input_dataset
        )
        if not structure.are_compatible(wrapped.output_structure, tensor_spec.TensorSpec([], dtypes.bool)):
            raise ValueError("`predicate` must return a scalar boolean tensor.")
        self._predicate = wrapped
        super().__init__(
            input_dataset,
            ged_ops.take_while_dataset(
                input_dataset._variant_tensor, other_arguments=wrapped.function.captured_inputs,
                predicate=wrapped.function, **self._flat_structure,
            ),
        )  # fmt: skip


def take_while(predicate: Any) -> Any:
    """For `apply`: the elements before the first one for which `predicate` returns False."""

    def apply_fn(dataset: Any) -> Any:
        return _TakeWhileDataset(dataset, predicate)

    return apply_fn
