# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Look-up tables with fixed contents."""
from __future__ import annotations

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
