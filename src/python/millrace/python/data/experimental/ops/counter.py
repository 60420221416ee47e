# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Infinite datasets of numbers."""
from __future__ import annotations

from typing import Any

from millrace.python.data.experimental.ops import scan_ops
from millrace.python.data.ops import dataset_ops
from millrace.python.framework import dtypes, ops


def CounterV2(start: Any = 0, step: Any = 1, dtype: Any = dtypes.int64) -> Any:
    """An infinite dataset that counts from `start` in steps of `step`."""
    with ops.name_scope("counter"):
        start = ops.convert_to_tensor(start, dtype=dtype, name="start")
        step = ops.convert_to_tensor(step, dtype=dtype, name="step")
        return (
            dataset_ops.DatasetV2.from_tensors(0)
            .repeat(None)
            .apply(scan_ops.scan(start, lambda state, _: (state + step, state)))
        )


def CounterV1(start: Any = 0, step: Any = 1, dtype: Any = dtypes.int64) -> Any:
    """An infinite dataset that counts from `start` in steps of `step`."""
    return dataset_ops.DatasetV1Adapter(CounterV2(start, step, dtype))


Counter = CounterV1
