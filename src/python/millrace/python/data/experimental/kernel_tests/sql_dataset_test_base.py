# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Base of tests of datasets that read a database: three tables of people."""
from __future__ import annotations

import os
import sqlite3
from typing import Any

from millrace.python.data.experimental.ops import readers
from millrace.python.data.kernel_tests import test_base
from millrace.python.platform import test

_STUDENTS = [
    ("John", "Doe", "Hi!", "123", "n\0nsense", 9, 0, 2147483647, 9223372036854775807, -2, 32767, 0, 0, 1),
    (
        "Jane", "Moe", "Hi again!", "1000", "nonsense\0", 127, -20000, -2147483648, -9223372036854775808, -128, -32768,
        255, 65535, 0,
    ),
]  # fmt: skip
_STUDENT_COLUMNS = (
    "first_name VARCHAR(100), last_name VARCHAR(100), motto VARCHAR(100), school_id VARCHAR(100), "
    "favorite_nonsense_word VARCHAR(100), desk_number INTEGER, income INTEGER, favorite_number INTEGER, "
    "favorite_big_number INTEGER, favorite_negative_number INTEGER, favorite_medium_sized_number INTEGER, "
    "brownie_points INTEGER, account_balance INTEGER, registration_complete INTEGER"
)
_PEOPLE = [("Benjamin", "Franklin", "Pennsylvania"), ("John", "Doe", "California")]
_TOWNSPEOPLE = [
    (
        "George",
        "Washington",
        20.00,
        1331241.321342132321324589798264627463827647382647382643874,
        9007199254740991.0,
    ),
    (
        "John",
        "Adams",
        -19.95,
        1331241321342132321324589798264627463827647382647382643874.0,
        9007199254740992.0,
    ),
]


class SqlDatasetTestBase(test_base.DatasetTestBase):
    """A test case with a database of its own."""

    def _createSqlDataset(  # noqa: N802
        self, query: Any, output_types: Any, driver_name: Any = "sqlite", num_repeats: int = 1
    ) -> Any:
        """The rows that a query returns, repeated."""
        dataset = readers.SqlDataset(driver_name, self.data_source_name, query, output_types)
        return dataset.repeat(num_repeats)

    def setUp(self) -> None:  # noqa: N802
        """Makes the tables anew."""
        super().setUp()
        self.data_source_name = os.path.join(test.get_temp_dir(), "tftest.sqlite")
        connection = sqlite3.connect(self.data_source_name)
        names = "first_name VARCHAR(100), last_name VARCHAR(100)"
        tables: list[tuple[str, str, list[Any]]] = [
            ("students", _STUDENT_COLUMNS, _STUDENTS),
            ("people", names + ", state VARCHAR(100)", _PEOPLE),
            ("townspeople", names + ", victories FLOAT, accolades FLOAT, triumphs FLOAT", _TOWNSPEOPLE),
        ]
        for table, columns, rows in tables:
            connection.execute("DROP TABLE IF EXISTS %s" % table)
            connection.execute("CREATE TABLE %s (id INTEGER NOT NULL PRIMARY KEY, %s)" % (table, columns))
            fields = ", ".join(column.split()[0] for column in columns.split(", "))
            marks = ", ".join("?" * len(rows[0]))
            connection.executemany("INSERT INTO %s (%s) VALUES (%s)" % (table, fields, marks), rows)
        connection.commit()
        connection.close()
