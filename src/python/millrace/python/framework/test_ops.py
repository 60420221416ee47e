# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Ops for tests of the creation of operations; most have no kernels. Importing loads their library."""
from __future__ import annotations

import os
from typing import Any

from millrace.python.framework import load_library, op_def_library

_library = load_library.load_op_library(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "_test_ops.so")
)
OP_LIST = _library.OP_LIST
_op_def_lib = op_def_library.OpDefLibrary()


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_library, name)
