# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions of tf.contrib.data that became arguments of methods."""
from __future__ import annotations

from typing import Any, Callable


def batch_and_drop_remainder(batch_size: Any) -> Callable[[Any], Any]:
    """For `Dataset.apply`: `batch(batch_size, drop_remainder=True)`."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(
    batch_size: Any, padded_shapes: Any, padding_values: Any = None
) -> Callable[[Any], Any]:
    """For `Dataset.apply`: `padded_batch(…, drop_remainder=True)`."""
    return lambda dataset: dataset.padded_batch(
        batch_size, padded_shapes, padding_values, drop_remainder=True
    )
