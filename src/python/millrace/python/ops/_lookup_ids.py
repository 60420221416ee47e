# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Tables from keys to ids with buckets for missing keys, and tables made from vocabularies."""
from __future__ import annotations

import collections
import functools
from typing import Any, Optional

from millrace.python.framework import dtypes, ops, sparse_tensor, tensor_util
from millrace.python.ops import array_ops, math_ops, string_ops
from millrace.python.ops._lookup_tables import (
    KeyValueTensorInitializer,
    LookupInterface,
    StaticHashTable,
    StaticHashTableV1,
    TextFileIdTableInitializer,
    TextFileIndex,
    TextFileStringTableInitializer,
)
from millrace.python.util import compat


class HasherSpec(collections.namedtuple("HasherSpec", ["hasher", "key"])):
    """A hash function by its name, with its key if it has one."""

    __slots__ = ()


FastHashSpec = HasherSpec("fasthash", None)


class StrongHashSpec(HasherSpec):
    """A keyed hash (SipHash), whose key is two numbers."""

    __slots__ = ()

    def __new__(cls, key: Any) -> Any:
        if len(key) != 2:
            raise ValueError("key must have size 2, got %s." % len(key))
        if not isinstance(key[0], compat.integral_types) or not isinstance(key[1], compat.integral_types):
            raise TypeError("Invalid key %s. Must be unsigned integer values." % key)
        return super().__new__(cls, "stronghash", key)


def _as_string(tensor: Any) -> Any:
    return tensor if tensor.dtype.base_dtype == dtypes.string else string_ops.as_string(tensor)


class _BucketTable(LookupInterface):
    """Looks up keys in a table; missing keys are hashed to buckets, whose ids follow those of the table."""

    _table: Any
    _num_oov_buckets: int
    _hasher_spec: Any = FastHashSpec
    _table_name: Any

    @property
    def initializer(self) -> Any:
        """The op that fills the table; one that does nothing if there is none."""
        if self._table is not None:
            return self._table.initializer
        from millrace.python.ops import control_flow_ops

        with ops.name_scope(None, "init"):
            return control_flow_ops.no_op()

    @property
    def init(self) -> Any:
        """As `initializer`."""
        return self.initializer

    @property
    def name(self) -> Any:
        return self._table_name

    @property
    def resource_handle(self) -> Any:
        """The handle of the table, or None."""
        return self._table.resource_handle if self._table is not None else None

    def size(self, name: Optional[str] = None) -> Any:
        """Returns the number of ids, buckets included."""
        with ops.name_scope(name, "%s_Size" % self.name):
            if self._table is not None:
                return self._table.size() + self._num_oov_buckets
            return ops.convert_to_tensor(0, dtype=dtypes.int64) + self._num_oov_buckets

    def _get_string_to_hash_bucket_fn(self, hasher_spec: Any) -> Any:
        if not isinstance(hasher_spec, HasherSpec):
            raise TypeError("hasher_spec must be of type HasherSpec %s" % hasher_spec)
        if hasher_spec.hasher == "fasthash":
            return string_ops.string_to_hash_bucket_fast
        if hasher_spec.hasher == "legacy":
            return string_ops.string_to_hash_bucket
        if hasher_spec.hasher == "stronghash":
            return functools.partial(string_ops.string_to_hash_bucket_strong, key=hasher_spec.key)
        raise ValueError("Unknown hasher %s" % hasher_spec.hasher)

    def lookup(self, keys: Any, name: Optional[str] = None) -> Any:
        """Returns the ids, int64, of `keys` (dense or sparse); TypeError when they are of another type."""
        if not isinstance(keys, (ops.Tensor, sparse_tensor.SparseTensor)):
            keys = ops.convert_to_tensor(keys, preferred_dtype=self._key_dtype)
        if keys.dtype.base_dtype != self._key_dtype:
            raise TypeError(
                "Signature mismatch. Keys must be dtype %s, got %s." % (self._key_dtype, keys.dtype)
            )
        values = keys.values if isinstance(keys, sparse_tensor.SparseTensor) else keys
        if self._table is not None and self._table.key_dtype.base_dtype == dtypes.int64:
            values = math_ops.cast(values, dtypes.int64)
        if self._num_oov_buckets == 0:
            ids = self._table.lookup(values, name=name)
        else:
            with ops.name_scope(name, "%s_Lookup" % self.name):
                to_bucket = self._get_string_to_hash_bucket_fn(self._hasher_spec)
                ids = to_bucket(_as_string(values), num_buckets=self._num_oov_buckets, name="hash_bucket")
                if self._table is not None:
                    found = self._table.lookup(values)
                    ids = math_ops.add(ids, self._table.size())
                    is_id_non_default = math_ops.not_equal(found, self._table.default_value)
                    ids = array_ops.where_v2(is_id_non_default, found, ids)
        if isinstance(keys, sparse_tensor.SparseTensor):
            return sparse_tensor.SparseTensor(keys.indices, ids, keys.dense_shape)
        return ids


class IdTableWithHashBuckets(_BucketTable):
    """Ids of keys: those of `table`, and for others `num_oov_buckets` more, by a hash of the key.

    Raises:
      TypeError: the types of the table are not string or integers to int64, or the hasher is no HasherSpec.
      ValueError: neither a table nor buckets.
    """

    def __init__(
        self,
        table: Any,
        num_oov_buckets: int,
        hasher_spec: Any = FastHashSpec,
        name: Optional[str] = None,
        key_dtype: Any = None,
    ):
        if table is not None:
            if key_dtype is None:
                key_dtype = table.key_dtype
            supported = (dtypes.int64, dtypes.string)
            if table.key_dtype not in supported:
                raise TypeError("Invalid key dtype, expected one of %s, but got %s." % (supported, key_dtype))
            if table.key_dtype.is_integer != key_dtype.is_integer:
                raise TypeError(
                    "Invalid key dtype, expected %s but got %s."
                    % ("integer" if key_dtype.is_integer else "non-integer", table.key_dtype)
                )
            if table.value_dtype != dtypes.int64:
                raise TypeError(
                    "Invalid value dtype, expected %s but got %s." % (dtypes.int64, table.value_dtype)
                )
            name = name or table.name
        else:
            if num_oov_buckets <= 0:
                raise ValueError("oov_buckets must be > 0 if no table is supplied.")
            key_dtype = dtypes.string if key_dtype is None else key_dtype
            name = name or "hash_bucket"
        self._table = table
        if not key_dtype.is_integer and dtypes.string != key_dtype:
            raise TypeError("Invalid key_dtype, expected integer or string, got %s." % key_dtype)
        self._num_oov_buckets = num_oov_buckets
        if not isinstance(hasher_spec, HasherSpec):
            raise TypeError("hasher_spec must be of type HasherSpec, got %s" % hasher_spec)
        self._hasher_spec = hasher_spec
        self._table_name = name.split("/")[-1] if name else None
        super().__init__(key_dtype, dtypes.int64)


class StaticVocabularyTable(_BucketTable):
    """Ids of the keys in `initializer`, and `num_oov_buckets` more for missing keys."""

    def __init__(
        self, initializer: Any, num_oov_buckets: int, lookup_key_dtype: Any = None, name: Optional[str] = None
    ):
        if num_oov_buckets <= 0:
            raise ValueError("oov_buckets must be > 0.")
        if initializer is not None:
            if not hasattr(initializer, "key_dtype"):
                raise TypeError("initializer must be an initializer of tables, got: %r" % (initializer,))
            if lookup_key_dtype is None:
                lookup_key_dtype = initializer.key_dtype
            supported = (dtypes.int64, dtypes.string)
            if initializer.key_dtype not in supported:
                raise TypeError(
                    "Invalid key dtype, expected one of %s, but got %s." % (supported, initializer.key_dtype)
                )
            if initializer.key_dtype.is_integer != lookup_key_dtype.is_integer:
                raise TypeError(
                    "Invalid key dtype, expected %s but got %s."
                    % ("integer" if lookup_key_dtype.is_integer else "non-integer", initializer.key_dtype)
                )
            if initializer.value_dtype != dtypes.int64:
                raise TypeError(
                    "Invalid value dtype, expected %s but got %s." % (dtypes.int64, initializer.value_dtype)
                )
            self._table = StaticHashTable(initializer, default_value=-1)
            name = name or self._table.name
        else:
            lookup_key_dtype = dtypes.string
            self._table = None
            name = name or "hash_bucket"
        self._num_oov_buckets = num_oov_buckets
        self._table_name = name.split("/")[-1] if name else None
        super().__init__(lookup_key_dtype, dtypes.int64)


class StaticVocabularyTableV1(StaticVocabularyTable):
    """`tf.lookup.StaticVocabularyTable` of version 1."""


def _check_key_dtype(dtype: Any) -> None:
    if not dtype.is_integer and dtypes.string != dtype.base_dtype:
        raise TypeError("Only integer and string keys are supported.")


def _check_buckets(num_oov_buckets: int) -> None:
    if num_oov_buckets < 0:
        raise ValueError("num_oov_buckets must be greater or equal than 0, got %d." % num_oov_buckets)


def index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: Optional[int] = None,
    default_value: int = -1,
    hasher_spec: Any = FastHashSpec,
    key_dtype: Any = dtypes.string,
    name: Optional[str] = None,
    key_column_index: int = TextFileIndex.WHOLE_LINE,
    value_column_index: int = TextFileIndex.LINE_NUMBER,
    delimiter: str = "\t",
) -> Any:
    """Returns a table from the lines of a file to their numbers.

    Raises:
      ValueError: no file, or negative numbers.
      TypeError: keys that are neither integers nor strings.
    """
    if vocabulary_file is None or (
        isinstance(vocabulary_file, compat.bytes_or_text_types) and not vocabulary_file
    ):
        raise ValueError("vocabulary_file must be specified and must not be empty.")
    _check_buckets(num_oov_buckets)
    if vocab_size is not None and vocab_size < 1:
        vocab_file_value: Any = vocabulary_file
        if isinstance(vocabulary_file, ops.Tensor):
            vocab_file_value = tensor_util.constant_value(vocabulary_file) or "?"
        raise ValueError(
            "vocab_size must be greater than 0, got %d. vocabulary_file: %s" % (vocab_size, vocab_file_value)
        )
    _check_key_dtype(key_dtype)
    with ops.name_scope(name, "string_to_index"):
        with ops.name_scope(None, "hash_table"):
            init = TextFileIdTableInitializer(
                vocabulary_file,
                vocab_size=vocab_size,
                key_dtype=dtypes.int64 if key_dtype.is_integer else key_dtype,
                name="table_init",
                key_column_index=key_column_index,
                value_column_index=value_column_index,
                delimiter=delimiter,
            )
            table: Any = StaticHashTableV1(init, default_value)
        if num_oov_buckets:
            table = IdTableWithHashBuckets(
                table, num_oov_buckets, hasher_spec=hasher_spec, key_dtype=key_dtype
            )
        return table


def index_table_from_tensor(
    vocabulary_list: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = FastHashSpec,
    dtype: Any = dtypes.string,
    name: Optional[str] = None,
) -> Any:
    """Returns a table from the elements of a vector to their places.

    Raises:
      ValueError: no vector, or one of another type than `dtype`.
      TypeError: keys that are neither integers nor strings.
    """
    if vocabulary_list is None:
        raise ValueError("vocabulary_list must be specified.")
    _check_buckets(num_oov_buckets)
    _check_key_dtype(dtype)
    with ops.name_scope(name, "string_to_index"):
        keys = ops.convert_to_tensor(vocabulary_list)
        if keys.dtype.is_integer != dtype.is_integer:
            raise ValueError(
                "Expected %s, got %s." % ("integer" if dtype.is_integer else "non-integer", keys.dtype)
            )
        if not dtype.is_integer and keys.dtype.base_dtype != dtype:
            raise ValueError("Expected %s, got %s." % (dtype, keys.dtype))
        num_elements = array_ops.size(keys)
        values = math_ops.cast(math_ops.range(num_elements), dtypes.int64)
        with ops.name_scope(None, "hash_table"):
            table_keys = math_ops.cast(keys, dtypes.int64) if keys.dtype.is_integer else keys
            init = KeyValueTensorInitializer(
                table_keys, values, table_keys.dtype.base_dtype, dtypes.int64, name="table_init"
            )
            table: Any = StaticHashTableV1(init, default_value)
        if num_oov_buckets:
            table = IdTableWithHashBuckets(table, num_oov_buckets, hasher_spec=hasher_spec, key_dtype=dtype)
        return table


def index_to_string_table_from_file(
    vocabulary_file: Any,
    vocab_size: Optional[int] = None,
    default_value: str = "UNK",
    name: Optional[str] = None,
    key_column_index: int = TextFileIndex.LINE_NUMBER,
    value_column_index: int = TextFileIndex.WHOLE_LINE,
    delimiter: str = "\t",
) -> Any:
    """Returns a table from numbers of lines of a file to the lines; ValueError without a file."""
    if vocabulary_file is None or (
        isinstance(vocabulary_file, compat.bytes_or_text_types) and not vocabulary_file
    ):
        raise ValueError("vocabulary_file must be specified and must not be empty.")
    if vocab_size is not None and vocab_size < 1:
        raise ValueError("vocab_size must be greater than 0, got %d." % vocab_size)
    with ops.name_scope(name, "index_to_string"):
        init = TextFileStringTableInitializer(
            vocabulary_file,
            vocab_size=vocab_size,
            name="table_init",
            key_column_index=key_column_index,
            value_column_index=value_column_index,
            delimiter=delimiter,
        )
        return StaticHashTableV1(init, default_value)


def index_to_string_table_from_tensor(
    vocabulary_list: Any, default_value: str = "UNK", name: Optional[str] = None
) -> Any:
    """Returns a table from places in a vector of strings to its elements; ValueError without a vector."""
    if vocabulary_list is None:
        raise ValueError("vocabulary_list must be specified.")
    with ops.name_scope(name, "index_to_string"):
        vocabulary_list = ops.convert_to_tensor(vocabulary_list, dtypes.string)
        keys = math_ops.cast(math_ops.range(array_ops.size(vocabulary_list)), dtypes.int64)
        init = KeyValueTensorInitializer(
            keys, vocabulary_list, dtypes.int64, dtypes.string, name="table_init"
        )
        return StaticHashTableV1(init, default_value)
