# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Tables whose contents change."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import dtypes, ops
from millrace.python.ops import gen_lookup_ops
from millrace.python.ops._lookup_tables import LookupInterface, split_keys
from millrace.python.training.saving import saveable_object


class _TableSaveable(saveable_object.SaveableObject):
    """Saves and restores the keys and the values of a table."""

    def __init__(self, table: Any, name: str) -> None:
        tensors = table.export()
        specs = [
            saveable_object.SaveSpec(tensors[0], "", name + "-keys"),
            saveable_object.SaveSpec(tensors[1], "", name + "-values"),
        ]
        self._table = table
        super().__init__(table, specs, name)

    def restore(self, restored_tensors: Any, restored_shapes: Any, name: Optional[str] = None) -> Any:
        """Returns the op that puts restored keys and values in the place of those of the table."""
        del restored_shapes
        with ops.name_scope(name, "%s_table_restore" % self.name):
            with ops.colocate_with(self._table.resource_handle):
                return gen_lookup_ops.lookup_table_import_v2(
                    self._table.resource_handle, restored_tensors[0], restored_tensors[1]
                )


class _MutableTable(LookupInterface):
    """The base class of mutable tables."""

    _Saveable = _TableSaveable

    def __init__(
        self, key_dtype: Any, value_dtype: Any, default_value: Any, name: str, checkpoint: bool
    ) -> None:
        super().__init__(key_dtype, value_dtype)
        self._default_value = ops.convert_to_tensor(default_value, dtype=self._value_dtype)
        self._value_shape = self._default_value.get_shape()
        self._checkpoint = checkpoint
        self._name = name
        self._shared_name = None
        self._resource_handle = self._create_resource()
        self._table_name = ops.name_of(self._resource_handle).split("/")[-1]
        if checkpoint and not ops.executing_eagerly():
            ops.add_to_collection(
                ops.GraphKeys.SAVEABLE_OBJECTS, self._Saveable(self, ops.name_of(self._resource_handle))
            )

    def _create_resource(self) -> Any:
        raise NotImplementedError

    @property
    def name(self) -> Any:
        return self._table_name

    @property
    def resource_handle(self) -> Any:
        """The handle of the table."""
        return self._resource_handle

    @property
    def initializer(self) -> Any:
        """An op that does nothing: the table is empty at first."""
        from millrace.python.ops import control_flow_ops

        return control_flow_ops.no_op()

    def size(self, name: Optional[str] = None) -> Any:
        """Returns the number of keys, int64."""
        with ops.name_scope(name, "%s_Size" % self.name, [self.resource_handle]):
            with ops.colocate_with(self.resource_handle):
                return gen_lookup_ops.lookup_table_size_v2(self.resource_handle)

    def remove(self, keys: Any, name: Optional[str] = None) -> Any:
        """Returns the op that removes those of `keys` that exist; TypeError when they are of another type."""
        keys = keys if hasattr(keys, "dtype") else ops.convert_to_tensor(keys, self._key_dtype)
        if dtypes.as_dtype(keys.dtype).base_dtype != self._key_dtype:
            raise TypeError(
                "Signature mismatch. Keys must be dtype %s, got %s." % (self._key_dtype, keys.dtype)
            )
        with ops.name_scope(name, "%s_lookup_table_remove" % self.name, (self.resource_handle, keys)):
            return gen_lookup_ops.lookup_table_remove_v2(self.resource_handle, keys)

    def lookup(self, keys: Any, name: Optional[str] = None) -> Any:
        """Returns the values of `keys` (dense or sparse), or the default."""
        key_tensor, restore = split_keys(keys)
        with ops.name_scope(name, "%s_lookup_table_find" % self.name, [self.resource_handle, key_tensor]):
            key_tensor = ops.convert_to_tensor(key_tensor, dtype=self._key_dtype, name="keys")
            with ops.colocate_with(self.resource_handle):
                values = gen_lookup_ops.lookup_table_find_v2(
                    self.resource_handle, key_tensor, self._default_value
                )
        values.set_shape(key_tensor.get_shape().concatenate(self._value_shape))
        return restore(values)

    def insert(self, keys: Any, values: Any, name: Optional[str] = None) -> Any:
        """Returns the op that sets the `values` of `keys`."""
        with ops.name_scope(name, "%s_lookup_table_insert" % self.name, [self.resource_handle, keys, values]):
            keys = ops.convert_to_tensor(keys, self._key_dtype, name="keys")
            values = ops.convert_to_tensor(values, self._value_dtype, name="values")
            with ops.colocate_with(self.resource_handle):
                return gen_lookup_ops.lookup_table_insert_v2(self.resource_handle, keys, values)

    def export(self, name: Optional[str] = None) -> Any:
        """Returns (keys, values), in arbitrary order."""
        with ops.name_scope(name, "%s_lookup_table_export_values" % self.name, [self.resource_handle]):
            with ops.colocate_with(self.resource_handle):
                return gen_lookup_ops.lookup_table_export_v2(
                    self.resource_handle, self._key_dtype, self._value_dtype
                )

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        return {"table": lambda name="table": self._Saveable(self, name)}


class MutableHashTable(_MutableTable):
    """A hash table to which keys can be added; values are scalars, or tensors of the shape of the default."""

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
    ):
        super().__init__(key_dtype, value_dtype, default_value, name, checkpoint)

    def _create_resource(self) -> Any:
        # A table that is saved shares by the name of its node, so that a restored graph finds it.
        if self._default_value.get_shape().ndims == 0:
            return gen_lookup_ops.mutable_hash_table_v2(
                shared_name=self._shared_name,
                use_node_name_sharing=self._checkpoint,
                key_dtype=self._key_dtype,
                value_dtype=self._value_dtype,
                name=self._name,
            )
        return gen_lookup_ops.mutable_hash_table_of_tensors_v2(
            shared_name=self._shared_name,
            use_node_name_sharing=self._checkpoint,
            key_dtype=self._key_dtype,
            value_dtype=self._value_dtype,
            value_shape=self._default_value.get_shape(),
            name=self._name,
        )


class DenseHashTable(_MutableTable):
    """A hash table that keeps keys and values in tensors: faster, but two reserved keys cannot be stored.

    Args:
      key_dtype, value_dtype: the types.
      default_value: the value of missing keys.
      empty_key, deleted_key: the keys that represent free places; they differ.
      initial_num_buckets: the size at first.
      name: name of the op.
      checkpoint: whether the contents are saved.
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        empty_key: Any,
        deleted_key: Any,
        initial_num_buckets: Optional[int] = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
    ):
        self._empty_key = ops.convert_to_tensor(empty_key, dtype=key_dtype, name="empty_key")
        self._deleted_key = ops.convert_to_tensor(deleted_key, dtype=key_dtype, name="deleted_key")
        self._initial_num_buckets = initial_num_buckets
        super().__init__(key_dtype, value_dtype, default_value, name, checkpoint)

    def _create_resource(self) -> Any:
        return gen_lookup_ops.mutable_dense_hash_table_v2(
            empty_key=self._empty_key,
            deleted_key=self._deleted_key,
            shared_name=self._shared_name,
            use_node_name_sharing=self._checkpoint,
            value_dtype=self._value_dtype,
            value_shape=self._value_shape,
            initial_num_buckets=self._initial_num_buckets,
            name=self._name,
        )

    def insert_or_assign(self, keys: Any, values: Any, name: Optional[str] = None) -> Any:
        """As `insert`."""
        return self.insert(keys, values, name)

    def erase(self, keys: Any, name: Optional[str] = None) -> Any:
        """As `remove`."""
        return self.remove(keys, name)


MutableDenseHashTable = DenseHashTable
