# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Paths and contents of files in the folders of a program's modules."""

from __future__ import annotations

import os as _os
import sys as _sys
from typing import Any


def _folder_of_caller(depth: int) -> str:
    frame = _sys._getframe(depth)
    return _os.path.dirname(_os.path.abspath(frame.f_code.co_filename))


def load_resource(path: Any) -> bytes:
    """Contents of the file `path`, relative to the folder that holds the package. Raises IOError."""
    with open(get_path_to_datafile_from_root(path), "rb") as f:
        return f.read()


def get_path_to_datafile_from_root(path: Any) -> str:
    """`path` relative to the folder that holds the package, as an absolute path."""
    here = _os.path.dirname(_os.path.abspath(__file__))
    return _os.path.join(_os.path.dirname(_os.path.dirname(_os.path.dirname(here))), path)


def get_data_files_path() -> str:
    """The folder of the module that calls this."""
    return _folder_of_caller(2)


def get_root_dir_with_all_resources() -> str:
    """The root folder of data files: the folder of the calling module."""
    folder = _folder_of_caller(2)
    for marker in (".runfiles", "site-packages", "dist-packages"):
        before, found, _ = folder.partition(marker)
        if found:
            return before + found
    return folder


def get_path_to_datafile(path: Any) -> str:
    """Path of a file that is given relative to the folder of the module that calls this."""
    return _os.path.join(_folder_of_caller(2), path)


def readahead_file_path(path: Any, readahead: str = "128M") -> Any:
    """Returns `path`: read-ahead is left to the operating system."""
    return path
