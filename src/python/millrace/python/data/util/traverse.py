# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The operations behind a dataset."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes


def obtain_all_variant_tensor_ops(dataset: Any) -> list[Any]:
    """The operations with variant outputs that the dataset is made of, the nearest first."""
    found: list[Any] = []
    pending = [dataset._variant_tensor.op]
    seen: set[Any] = set()
    while pending:
        op = pending.pop(0)
        if op in seen:
            continue
        seen.add(op)
        found.append(op)
        pending += [t.op for t in op.inputs if t.dtype == dtypes.variant]
    return found
