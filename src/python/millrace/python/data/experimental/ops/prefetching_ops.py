# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Prefetching and copying of elements to devices."""
from __future__ import annotations

from typing import Any


def prefetch_to_device(device: Any, buffer_size: Any = None) -> Any:
    """For `apply`: prefetches elements; the op that uses one copies it to the device."""
    del device

    def apply_fn(dataset: Any) -> Any:
        return dataset.prefetch(buffer_size if buffer_size is not None else 1)

    return apply_fn


def copy_to_device(target_device: Any, source_device: Any = "/cpu:0") -> Any:
    """For `apply`: the same elements; the op that uses one copies it to the device."""
    del target_device, source_device

    def apply_fn(dataset: Any) -> Any:
        return dataset.with_options(dataset.options())

    return apply_fn
