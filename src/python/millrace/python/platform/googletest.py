# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Test cases on unittest, their temporary folders, and replacement of attributes for a test."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import unittest
from unittest import TestSuite  # noqa: F401
from unittest import expectedFailure  # noqa: F401
from unittest import skip  # noqa: F401
from unittest import skipIf  # noqa: F401
from unittest import skipUnless  # noqa: F401
from typing import Any

from millrace.python.platform import app
from millrace.python.platform._test_assertions import TestCase

__all__ = [
    "GetTempDir",
    "StatefulSessionAvailable",
    "StubOutForTesting",
    "TestCase",
    "main",
    "test_src_dir_path",
]

_googletest_temp_dir = ""


def main(argv: Any = None) -> None:
    """Runs the tests of the program: parses its flags, and leaves the rest of the arguments to unittest."""

    def run_tests(args: list[str]) -> None:
        unittest.main(module="__main__", argv=args)

    app.run(main=run_tests, argv=argv)


def GetTempDir() -> str:  # noqa: N802
    """A folder for files of the tests, deleted when the program ends (unless TEST_TMPDIR names it)."""
    global _googletest_temp_dir
    if not _googletest_temp_dir:
        root = os.environ.get("TEST_TMPDIR") or None
        first_frame = os.path.basename(sys.argv[0] if sys.argv else "") or "test"
        temp_dir = tempfile.mkdtemp(prefix=first_frame.replace(".", "_"), dir=root)

        def delete_temp_dir(dirname: str = temp_dir) -> None:
            shutil.rmtree(dirname, ignore_errors=True)

        atexit.register(delete_temp_dir)
        _googletest_temp_dir = temp_dir
    return _googletest_temp_dir


def test_src_dir_path(relative_path: str) -> str:
    """Path of a file given relative to the folder that holds the package."""
    from millrace.python.platform import resource_loader

    return resource_loader.get_path_to_datafile_from_root(relative_path)


# pytest would take the function for a test.
test_src_dir_path.__test__ = False  # type: ignore[attr-defined]


def StatefulSessionAvailable() -> bool:  # noqa: N802
    return False


class StubOutForTesting:
    """Replaces attributes, and restores the old ones on request, or when it is deleted."""

    def __init__(self) -> None:
        self.cache: list[tuple[Any, str, Any]] = []
        self.stubs: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> StubOutForTesting:
        return self

    def __exit__(self, unused_type: Any, unused_value: Any, unused_traceback: Any) -> None:
        self.CleanUp()

    def __del__(self) -> None:
        self.CleanUp()

    def CleanUp(self) -> None:  # noqa: N802
        self.SmartUnsetAll()
        self.UnsetAll()

    def SmartSet(self, obj: Any, attr_name: str, new_attr: Any) -> None:  # noqa: N802
        """Replaces an attribute where it is defined: in the object, its class or a base of that."""
        if isinstance(obj, type(sys)) or (
            not isinstance(obj, type) and attr_name in getattr(obj, "__dict__", {})
        ):
            self.stubs.append((obj, attr_name, getattr(obj, attr_name)))
            setattr(obj, attr_name, new_attr)
            return
        owners = obj.__mro__ if isinstance(obj, type) else type(obj).__mro__
        for owner in owners:
            if attr_name in owner.__dict__:
                self.stubs.append((owner, attr_name, owner.__dict__[attr_name]))
                setattr(owner, attr_name, new_attr)
                return
        raise AttributeError("Attribute not found.")

    def SmartUnsetAll(self) -> None:  # noqa: N802
        """Undoes all SmartSet, the last first."""
        for args in reversed(self.stubs):
            setattr(*args)
        self.stubs = []

    def Set(self, parent: Any, child_name: str, new_child: Any) -> None:  # noqa: N802
        """Replaces an attribute of `parent`."""
        old_attribute = getattr(parent, child_name)
        in_dict = getattr(parent, "__dict__", {}).get(child_name)
        if isinstance(in_dict, (staticmethod, classmethod)):
            old_attribute = in_dict
        self.cache.append((parent, child_name, old_attribute))
        setattr(parent, child_name, new_child)

    def UnsetAll(self) -> None:  # noqa: N802
        """Undoes all Set, the last first."""
        for parent, child_name, old_child in reversed(self.cache):
            setattr(parent, child_name, old_child)
        self.cache = []
