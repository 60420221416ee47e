# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Cardinality of datasets: the number of elements."""
from __future__ import annotations

from typing import Any

from millrace.python.ops import gen_experimental_dataset_ops as ged_ops

INFINITE = -1
UNKNOWN = -2


def cardinality(dataset: Any) -> Any:
    """A scalar int64: the number of elements as far as it is known without reading, INFINITE or UNKNOWN."""
    return ged_ops.dataset_cardinality(dataset._variant_tensor)
