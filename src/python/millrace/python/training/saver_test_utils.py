# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A key-value table that Savers save and restore, for tests."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops as ops_lib
from millrace.python.ops import gen_lookup_ops
from millrace.python.training import saver as saver_module


class CheckpointedOp:
    """A MutableHashTable from strings to floats that is saved in checkpoints with the variables.

    Args:
      name: name of the table, also in checkpoints.
      table_ref: handle of an existing table, or None.
    """

    def __init__(self, name: str, table_ref: Any = None) -> None:
        """Args: name: of the table, in checkpoints too; table_ref: handle of an existing table, or None."""
        if table_ref is None:
            self.table_ref = gen_lookup_ops.mutable_hash_table_v2(
                key_dtype=dtypes.string, value_dtype=dtypes.float32, name=name
            )
        else:
            self.table_ref = table_ref
        self._name = name
        self._saveable = CheckpointedOp.CustomSaveable(self, name)
        ops_lib.add_to_collection(ops_lib.GraphKeys.SAVEABLE_OBJECTS, self._saveable)

    @property
    def name(self) -> str:
        return self._name

    @property
    def saveable(self) -> Any:
        return self._saveable

    def insert(self, keys: Any, values: Any) -> Any:
        """The op that puts pairs into the table."""
        return gen_lookup_ops.lookup_table_insert_v2(self.table_ref, keys, values)

    def lookup(self, keys: Any, default: Any) -> Any:
        """The values of keys."""
        return gen_lookup_ops.lookup_table_find_v2(self.table_ref, keys, default)

    def keys(self) -> Any:
        return self._export()[0]

    def values(self) -> Any:
        return self._export()[1]

    def _export(self) -> Any:
        return gen_lookup_ops.lookup_table_export_v2(self.table_ref, dtypes.string, dtypes.float32)

    class CustomSaveable(saver_module.BaseSaverBuilder.SaveableObject):  # type: ignore[misc, valid-type]
        """The table's pairs, as two tensors."""

        def __init__(self, table: Any, name: str) -> None:
            tensors = table._export()
            specs = [
                saver_module.BaseSaverBuilder.SaveSpec(tensors[0], "", name + "-keys"),
                saver_module.BaseSaverBuilder.SaveSpec(tensors[1], "", name + "-values"),
            ]
            super().__init__(table, specs, name)

        def restore(self, restored_tensors: Any, shapes: Any) -> Any:
            return gen_lookup_ops.lookup_table_import_v2(
                self.op.table_ref, restored_tensors[0], restored_tensors[1]
            )
