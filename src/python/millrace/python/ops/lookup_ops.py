# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Look-up tables: the home of the names of tf.lookup."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        ...  # the functions of the generated module

else:
    from millrace.python.ops.gen_lookup_ops import *  # noqa: F401,F403

from millrace.python.ops._lookup_ids import (  # noqa: F401
    FastHashSpec,
    HasherSpec,
    IdTableWithHashBuckets,
    StaticVocabularyTable,
    StaticVocabularyTableV1,
    StrongHashSpec,
    _as_string,
    index_table_from_file,
    index_table_from_tensor,
    index_to_string_table_from_file,
    index_to_string_table_from_tensor,
)
from millrace.python.ops._lookup_mutable import (
    DenseHashTable,
    MutableDenseHashTable,
    MutableHashTable,
)  # noqa: F401
from millrace.python.ops._lookup_tables import (  # noqa: F401
    HashTable,
    InitializableLookupTableBase,
    KeyValueTensorInitializer,
    LookupInterface,
    StaticHashTable,
    StaticHashTableV1,
    TableInitializerBase,
    TextFileIdTableInitializer,
    TextFileIndex,
    TextFileInitializer,
    TextFileStringTableInitializer,
    check_table_dtypes,
    initialize_all_tables,
    tables_initializer,
)


_check_table_dtypes = check_table_dtypes
