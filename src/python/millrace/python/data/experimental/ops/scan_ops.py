# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Maps with a state that is carried from element to element."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops import _datasets, _reduce
from millrace.python.data.util import structure
from millrace.python.framework import ops
from millrace.python.ops import gen_experimental_dataset_ops as ged_ops


def scan(initial_state: Any, scan_func: Any) -> Any:
    """For `apply`: the outputs of `scan_func(state, element)`, which returns (next state, output)."""

    def apply_fn(dataset: Any) -> Any:
        return _ScanDataset(dataset, initial_state, scan_func)

    return apply_fn


class _ScanDataset(_datasets._WithSpec, _datasets.UnaryDataset):
    def __init__(self, input_dataset: Any, initial_state: Any, scan_func: Any) -> None:
        self._input_dataset = input_dataset
        with ops.name_scope("initial_state"):
            self._initial_state = structure.normalize_element(initial_state)
        self._scan_func, state, self._structure = _reduce.state_function(
            input_dataset, self._initial_state, scan_func, "tf.data.experimental.scan()", True
        )
        super().__init__(
            input_dataset,
            ged_ops.scan_dataset(
                input_dataset._variant_tensor, structure.to_tensor_list(state, self._initial_state),
                self._scan_func.function.captured_inputs, f=self._scan_func.function, preserve_cardinality=True,
                **self._flat_structure,
            ),
        )  # fmt: skip

    def _functions(self) -> list[Any]:
        return [self._scan_func]
