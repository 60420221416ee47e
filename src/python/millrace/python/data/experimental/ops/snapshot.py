# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Snapshots: elements that are written to files, and read from them the next time."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops import _datasets
from millrace.python.framework import dtypes, ops
from millrace.python.ops import gen_experimental_dataset_ops as ged_ops

COMPRESSION_GZIP = "GZIP"
COMPRESSION_NONE = None


class _SnapshotDataset(_datasets.UnaryUnchangedStructureDataset):
    def __init__(
        self, input_dataset: Any, path: Any, compression: Any = None, reader_path_prefix: Any = None,
        writer_path_prefix: Any = None, shard_size_bytes: Any = None,
        pending_snapshot_expiry_seconds: Any = None,
    ) -> None:  # fmt: skip
        self._input_dataset = input_dataset
        self._path = ops.convert_to_tensor(path, dtype=dtypes.string, name="path")
        given = {
            "compression": compression, "reader_path_prefix": reader_path_prefix,
            "writer_path_prefix": writer_path_prefix, "shard_size_bytes": shard_size_bytes,
            "pending_snapshot_expiry_seconds": pending_snapshot_expiry_seconds,
        }  # fmt: skip
        options = {name: value for name, value in given.items() if value is not None}
        super().__init__(
            input_dataset,
            ged_ops.snapshot_dataset(
                input_dataset._variant_tensor, path=self._path, **options, **self._flat_structure
            ),
        )


def snapshot(
    path: Any, compression: Any = None, reader_path_prefix: Any = None, writer_path_prefix: Any = None,
    shard_size_bytes: Any = None, pending_snapshot_expiry_seconds: Any = None,
) -> Any:  # fmt: skip
    """For `apply`: writes the elements to the folder `path`, or reads them if a snapshot exists."""

    def apply_fn(dataset: Any) -> Any:
        return _SnapshotDataset(
            dataset, path, compression, reader_path_prefix, writer_path_prefix, shard_size_bytes,
            pending_snapshot_expiry_seconds,
        )  # fmt: skip

    return apply_fn
