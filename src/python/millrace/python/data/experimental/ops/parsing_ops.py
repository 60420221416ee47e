# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Parsing of Examples."""
from __future__ import annotations

from typing import Any

from millrace.python.ops import parsing_ops


def parse_example_dataset(features: Any, num_parallel_calls: Any = 1) -> Any:
    """For `apply`: parses batches of serialized Examples, vectors of strings, to dicts of tensors.

    Args:
      features: by key: FixedLenFeature, VarLenFeature, SparseFeature, …
      num_parallel_calls: the number of batches that are parsed in parallel.

    Raises:
      ValueError: `features` is None.
    """
    if features is None:
        raise ValueError("Missing: features was %s." % features)

    parse: Any = parsing_ops.parse_example

    def apply_fn(dataset: Any) -> Any:
        return dataset.map(lambda serialized: parse(serialized, features), num_parallel_calls)

    return apply_fn
