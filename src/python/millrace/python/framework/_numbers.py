# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays of single numbers: a fast path for most constants."""
from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.framework import dtypes

# (class of the number, requested type) -> type of the array.
_FOUND: dict[tuple[type, int | None], tuple[Any, Any]] = {
    (kind, None if asked is None else asked.as_datatype_enum): (found.as_numpy_dtype, found)
    for kind, asked, found in (
        (float, None, dtypes.float32), (float, dtypes.float32, dtypes.float32), (float, dtypes.float64, dtypes.float64),
        (int, None, dtypes.int32), (int, dtypes.int32, dtypes.int32), (int, dtypes.float32, dtypes.float32),
        (int, dtypes.float64, dtypes.float64), (bool, None, dtypes.bool), (bool, dtypes.bool, dtypes.bool),
    )
}  # fmt: skip


def array_of(value: Any, dtype: Any) -> tuple[np.ndarray[Any, Any], Any] | None:
    """The array of a Python number and its type; None for other values or if it may not fit the type."""
    found = _FOUND.get((type(value), None if dtype is None else dtype._type_enum))
    if found is None or type(value) is int and not -(2**31) <= value < 2**31:
        return None
    return np.array(value, dtype=found[0]), found[1]
