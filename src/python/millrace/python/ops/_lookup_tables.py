# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Tables with fixed contents and their initializers."""
from __future__ import annotations

import uuid
from typing import Any, Optional

from millrace.python.framework import constant_op, dtypes, ops, sparse_tensor
from millrace.python.ops import control_flow_ops, gen_lookup_ops
from millrace.python.training.tracking import base, tracking


def tables_initializer(name: str = "init_all_tables") -> Any:
    """Returns an op that initializes all tables of the graph."""
    initializers = ops.get_collection(ops.GraphKeys.TABLE_INITIALIZERS)
    return (
        control_flow_ops.group(*initializers, name=name)
        if initializers
        else control_flow_ops.no_op(name=name)
    )


def initialize_all_tables(name: str = "init_all_tables") -> Any:
    """As `tables_initializer`."""
    return tables_initializer(name)


def check_table_dtypes(table: Any, key_dtype: Any, value_dtype: Any) -> None:
    """Raises TypeError when the types are not those of the table."""
    if key_dtype.base_dtype != table.key_dtype:
        raise TypeError("Invalid key dtype, expected %s but got %s." % (table.key_dtype, key_dtype))
    if value_dtype.base_dtype != table.value_dtype:
        raise TypeError("Invalid value dtype, expected %s but got %s." % (table.value_dtype, value_dtype))


class LookupInterface(tracking.TrackableResource):
    """A table from keys to values."""

    def __init__(self, key_dtype: Any, value_dtype: Any):
        super().__init__()
        self._key_dtype = dtypes.as_dtype(key_dtype)
        self._value_dtype = dtypes.as_dtype(value_dtype)

    @property
    def key_dtype(self) -> Any:
        """The type of keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> Any:
        """The type of values."""
        return self._value_dtype

    @property
    def name(self) -> Any:
        """The name of the table."""
        raise NotImplementedError

    def size(self, name: Optional[str] = None) -> Any:
        """Returns the number of elements."""
        raise NotImplementedError

    def lookup(self, keys: Any, name: Optional[str] = None) -> Any:
        """Returns the values of `keys`."""
        raise NotImplementedError


def split_keys(keys: Any) -> Any:
    """Returns (dense tensor of keys, function that converts values to the form of `keys`)."""
    if isinstance(keys, sparse_tensor.SparseTensorValue):
        keys = sparse_tensor.SparseTensor.from_value(keys)
    if isinstance(keys, sparse_tensor.SparseTensor):
        return keys.values, lambda values: sparse_tensor.SparseTensor(keys.indices, values, keys.dense_shape)
    return keys, lambda values: values


class InitializableLookupTableBase(LookupInterface):
    """A table that an initializer fills once."""

    def __init__(self, default_value: Any, initializer: Any):
        if not hasattr(initializer, "key_dtype"):
            raise TypeError("initializer must be an initializer of tables, got: %r" % (initializer,))
        super().__init__(initializer.key_dtype, initializer.value_dtype)
        self._default_value = ops.convert_to_tensor(default_value, dtype=self._value_dtype)
        self._default_value.get_shape().merge_with([])
        self._initializer = initializer
        if isinstance(initializer, base.Trackable):
            self._track_trackable(initializer, "_initializer")
        self._resource_handle = self._create_resource()
        self._init_op = self._initialize()

    def _create_resource(self) -> Any:
        raise NotImplementedError

    def _initialize(self) -> Any:
        return self._initializer.initialize(self)

    @property
    def default_value(self) -> Any:
        """The value of missing keys."""
        return self._default_value

    @property
    def resource_handle(self) -> Any:
        """The handle of the table."""
        return self._resource_handle

    @property
    def initializer(self) -> Any:
        """The op that fills the table."""
        return self._init_op

    @property
    def init(self) -> Any:
        """As `initializer`."""
        return self._init_op

    def size(self, name: Optional[str] = None) -> Any:
        with ops.name_scope(name, "%s_Size" % self.name, [self.resource_handle]):
            return gen_lookup_ops.lookup_table_size_v2(self.resource_handle)

    def lookup(self, keys: Any, name: Optional[str] = None) -> Any:
        """Returns the values of `keys` (dense or sparse); TypeError when they are of another type."""
        key_tensor, restore = split_keys(keys)
        key_tensor = ops.convert_to_tensor(key_tensor) if not hasattr(key_tensor, "dtype") else key_tensor
        if dtypes.as_dtype(key_tensor.dtype).base_dtype != self._key_dtype:
            raise TypeError(
                "Signature mismatch. Keys must be dtype %s, got %s." % (self._key_dtype, key_tensor.dtype)
            )
        with ops.name_scope(
            name, "%s_Lookup" % self.name, [self.resource_handle, key_tensor, self._default_value]
        ):
            values = gen_lookup_ops.lookup_table_find_v2(
                self.resource_handle, key_tensor, self._default_value
            )
        if hasattr(key_tensor, "get_shape"):
            values.set_shape(key_tensor.get_shape())
        return restore(values)


class StaticHashTable(InitializableLookupTableBase):
    """A hash table filled by `initializer`; missing keys have `default_value`."""

    def __init__(self, initializer: Any, default_value: Any, name: Optional[str] = None):
        self._shared_name = initializer._shared_name if isinstance(initializer, TableInitializerBase) else ""
        self._name = name or "hash_table"
        self._table_name: Any = None
        super().__init__(default_value, initializer)
        self._value_shape = self._default_value.get_shape()

    def _create_resource(self) -> Any:
        if ops.executing_eagerly():
            self._shared_name = ""
        elif not self._shared_name:
            self._shared_name = "hash_table_%s" % uuid.uuid4()  # one table for all kernels
        table_ref = gen_lookup_ops.hash_table_v2(
            shared_name=self._shared_name,
            key_dtype=self._initializer.key_dtype,
            value_dtype=self._initializer.value_dtype,
            name=self._name,
        )
        self._table_name = ops.name_of(table_ref).split("/")[-1]
        return table_ref

    @property
    def name(self) -> Any:
        return self._table_name

    def export(self, name: Optional[str] = None) -> Any:
        """Returns (keys, values), in arbitrary order."""
        with ops.name_scope(name, "%s_Export" % self.name, [self.resource_handle]):
            keys, values = gen_lookup_ops.lookup_table_export_v2(
                self.resource_handle, self._key_dtype, self._value_dtype
            )
        keys.set_shape([None])
        values.set_shape([None])
        return keys, values


class StaticHashTableV1(StaticHashTable):
    """`tf.lookup.StaticHashTable` of version 1."""


class HashTable(StaticHashTableV1):
    """`tf.contrib.lookup.HashTable`: `shared_name` shares the table among sessions of a server."""

    def __init__(
        self, initializer: Any, default_value: Any, shared_name: Any = None, name: Optional[str] = None
    ):
        self._given_shared_name = shared_name or ""
        super().__init__(initializer, default_value, name)

    def _create_resource(self) -> Any:
        self._shared_name = self._given_shared_name or self._shared_name
        return super()._create_resource()


class TableInitializerBase(base.Trackable):
    """Fills a table."""

    def __init__(self, key_dtype: Any, value_dtype: Any):
        self._key_dtype = dtypes.as_dtype(key_dtype)
        self._value_dtype = dtypes.as_dtype(value_dtype)

    @property
    def key_dtype(self) -> Any:
        """The type of keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> Any:
        """The type of values."""
        return self._value_dtype

    @property
    def _shared_name(self) -> str:
        """The name under which tables with the same contents are one; empty: each is a table of its own."""
        return ""

    def initialize(self, table: Any) -> Any:
        """Returns the op that fills `table`."""
        raise NotImplementedError


class KeyValueTensorInitializer(TableInitializerBase):
    """Fills a table with `keys` and `values`, vectors of the same length."""

    def __init__(
        self,
        keys: Any,
        values: Any,
        key_dtype: Any = None,
        value_dtype: Any = None,
        name: Optional[str] = None,
    ):
        self._keys = ops.convert_to_tensor(keys, dtype=key_dtype, name="keys")
        self._values = ops.convert_to_tensor(values, dtype=value_dtype, name="values")
        self._name = name if name is not None else "key_value_init"
        super().__init__(self._keys.dtype, self._values.dtype)

    def initialize(self, table: Any) -> Any:
        check_table_dtypes(table, self._keys.dtype, self._values.dtype)
        with ops.name_scope(self._name, values=(table.resource_handle, self._keys, self._values)):
            op = gen_lookup_ops.initialize_table_v2(table.resource_handle, self._keys, self._values)
        ops.add_to_collection(ops.GraphKeys.TABLE_INITIALIZERS, op)
        return op


class TextFileIndex:
    """Column numbers that represent the whole line and the line number."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class TextFileInitializer(TableInitializerBase):
    """Fills a table from the columns of a text file."""

    def __init__(
        self,
        filename: Any,
        key_dtype: Any,
        key_index: int,
        value_dtype: Any,
        value_index: int,
        vocab_size: Optional[int] = None,
        delimiter: str = "\t",
        name: Optional[str] = None,
    ):
        if not isinstance(filename, ops.Tensor) and not filename:
            raise ValueError("Filename required for %s." % name)
        key_dtype, value_dtype = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)
        for what, index, dtype in (("key", key_index, key_dtype), ("value", value_index, value_dtype)):
            if index < -2:
                raise ValueError("Invalid %s index %s." % (what, index))
            if index == TextFileIndex.LINE_NUMBER and dtype != dtypes.int64:
                raise ValueError(
                    "Signature mismatch. %ss must be dtype %s, got %s."
                    % (what.capitalize(), dtypes.int64, dtype)
                )
            if index == TextFileIndex.WHOLE_LINE and not (
                dtype == dtypes.string or what == "key" and dtype.is_integer
            ):
                raise ValueError(
                    "Signature mismatch. %ss must be string, got %s." % (what.capitalize(), dtype)
                )
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError("Invalid vocab_size %s." % vocab_size)
        if ops.executing_eagerly():
            # A SavedModel contains a copy of the file.
            filename = self._track_trackable(tracking.TrackableAsset(filename), "_filename")
        self._filename, self._key_index, self._value_index = filename, key_index, value_index
        self._vocab_size, self._delimiter, self._name = vocab_size, delimiter, name
        super().__init__(key_dtype, value_dtype)

    @property
    def _shared_name(self) -> str:
        size = "_%d" % self._vocab_size if self._vocab_size else ""
        name = getattr(self._filename, "asset_path", self._filename)
        return "hash_table_%s%s_%s_%s" % (name, size, self._key_index, self._value_index)

    def initialize(self, table: Any) -> Any:
        check_table_dtypes(table, self.key_dtype, self.value_dtype)
        with ops.name_scope(self._name, "text_file_init", (table.resource_handle,)):
            filename = getattr(self._filename, "asset_path", self._filename)
            filename = ops.convert_to_tensor(filename, dtypes.string, name="asset_filepath")
            op = gen_lookup_ops.initialize_table_from_text_file_v2(
                table.resource_handle,
                filename,
                self._key_index,
                self._value_index,
                -1 if self._vocab_size is None else self._vocab_size,
                self._delimiter,
            )
        ops.add_to_collection(ops.GraphKeys.TABLE_INITIALIZERS, op)
        if constant_op.is_constant(filename):
            ops.add_to_collection(ops.GraphKeys.ASSET_FILEPATHS, filename)
        return op


class TextFileStringTableInitializer(TextFileInitializer):
    """Fills a table from line numbers to lines."""

    def __init__(
        self,
        filename: Any,
        key_column_index: int = TextFileIndex.LINE_NUMBER,
        value_column_index: int = TextFileIndex.WHOLE_LINE,
        vocab_size: Optional[int] = None,
        delimiter: str = "\t",
        name: Optional[str] = "text_file_string_table_init",
    ):
        super().__init__(
            filename,
            dtypes.int64,
            key_column_index,
            dtypes.string,
            value_column_index,
            vocab_size,
            delimiter,
            name,
        )


class TextFileIdTableInitializer(TextFileInitializer):
    """Fills a table from lines to their numbers."""

    def __init__(
        self,
        filename: Any,
        key_column_index: int = TextFileIndex.WHOLE_LINE,
        value_column_index: int = TextFileIndex.LINE_NUMBER,
        vocab_size: Optional[int] = None,
        delimiter: str = "\t",
        name: Optional[str] = "text_file_id_table_init",
        key_dtype: Any = dtypes.string,
    ):
        super().__init__(
            filename,
            key_dtype,
            key_column_index,
            dtypes.int64,
            value_column_index,
            vocab_size,
            delimiter,
            name,
        )
