# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Datasets of names of files."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops import _datasets
from millrace.python.framework import dtypes, ops, tensor_spec
from millrace.python.ops import gen_experimental_dataset_ops as ged_ops


class MatchingFilesDataset(_datasets._WithSpec, _datasets.DatasetSource):
    """The names of the files that match patterns, sorted."""

    def __init__(self, patterns: Any) -> None:
        self._patterns = ops.convert_to_tensor(patterns, dtype=dtypes.string, name="patterns")
        self._structure = tensor_spec.TensorSpec([], dtypes.string)
        super().__init__(ged_ops.matching_files_dataset(self._patterns))
