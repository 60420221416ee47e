# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Seeds of datasets."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import constant_op, dtypes, ops, random_seed
from millrace.python.ops import array_ops, math_ops


def get_seed(seed: Any) -> tuple[Any, Any]:
    """The two seeds of a dataset, int64 scalars: (0, 0), non-deterministic ones, only if no seed is set."""
    seed, seed2 = random_seed.get_seed(seed)
    seed = constant_op.constant(0, dtype=dtypes.int64, name="seed") if seed is None else _int64(seed, "seed")
    if seed2 is None:
        return seed, constant_op.constant(0, dtype=dtypes.int64, name="seed2")
    with ops.name_scope("seed2") as scope:
        seed2 = ops.convert_to_tensor(seed2, dtype=dtypes.int64)
        seed2 = array_ops.where(
            math_ops.logical_and(math_ops.equal(seed, 0), math_ops.equal(seed2, 0)),
            constant_op.constant(2**31 - 1, dtype=dtypes.int64),
            seed2,
            name=scope,
        )
    return seed, seed2


def _int64(value: Any, name: str) -> Any:
    return ops.convert_to_tensor(value, dtype=dtypes.int64, name=name)
