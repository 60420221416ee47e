# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Tables of tf.contrib.lookup whose first argument has another name than in core."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes
from millrace.python.ops import lookup_ops


def index_table_from_tensor(
    mapping: Any, num_oov_buckets: int = 0, default_value: int = -1, hasher_spec: Any = lookup_ops.FastHashSpec,
    dtype: Any = dtypes.string, name: str | None = None,
) -> Any:  # fmt: skip
    """A table from the elements of `mapping` to their indices; see `tf.lookup.StaticVocabularyTable`.

    Args:
      mapping: [size], strings or integers.
      num_oov_buckets: number of indices from `size` on for keys that are not in `mapping`, chosen by a hash.
      default_value: index of those keys when there are no buckets.
      hasher_spec: the hash.
      dtype: of the keys.
      name: of the scope.

    Raises:
      ValueError: `mapping` is None, or `num_oov_buckets` is negative.
    """
    if mapping is None:
        raise ValueError("mapping must be specified.")
    return lookup_ops.index_table_from_tensor(
        mapping, num_oov_buckets, default_value, hasher_spec, dtype, name
    )


def index_to_string_table_from_tensor(
    mapping: Any, default_value: str = "UNK", name: str | None = None
) -> Any:
    """A table from indices to the elements of `mapping`, string [size]; other indices have `default_value`.

    Raises:
      ValueError: `mapping` is None.
    """
    if mapping is None:
        raise ValueError("mapping must be specified.")
    return lookup_ops.index_to_string_table_from_tensor(mapping, default_value, name)
