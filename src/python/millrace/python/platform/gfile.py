# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Files, under the names of tf.gfile."""

from __future__ import annotations

from typing import Any

from millrace.python.lib.io.file_io import FileIO as _FileIO
from millrace.python.lib.io.file_io import copy as Copy
from millrace.python.lib.io.file_io import create_dir as MkDir
from millrace.python.lib.io.file_io import delete_file as Remove
from millrace.python.lib.io.file_io import delete_recursively as DeleteRecursively
from millrace.python.lib.io.file_io import file_exists as Exists
from millrace.python.lib.io.file_io import get_matching_files as Glob
from millrace.python.lib.io.file_io import is_directory as IsDirectory
from millrace.python.lib.io.file_io import list_directory as ListDirectory
from millrace.python.lib.io.file_io import recursive_create_dir as MakeDirs
from millrace.python.lib.io.file_io import rename as Rename
from millrace.python.lib.io.file_io import stat as Stat
from millrace.python.lib.io.file_io import walk as Walk

__all__ = [
    "Copy",
    "DeleteRecursively",
    "Exists",
    "FastGFile",
    "GFile",
    "Glob",
    "IsDirectory",
    "ListDirectory",
    "MakeDirs",
    "MkDir",
    "Open",
    "Remove",
    "Rename",
    "Stat",
    "Walk",
]


class GFile(_FileIO):
    """A file that is opened when it is first read or written."""

    def __init__(self, name: Any, mode: str = "r") -> None:
        super().__init__(name=name, mode=mode)


class FastGFile(_FileIO):
    """The older name of GFile."""

    def __init__(self, name: Any, mode: str = "r") -> None:
        super().__init__(name=name, mode=mode)


# `Open(name, mode)` is the same class.
Open = GFile
