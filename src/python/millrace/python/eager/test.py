# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of eager execution: `main` turns it on before it runs them."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import ops as _ops
from millrace.python.platform import test as _test
from millrace.python.platform.test import *  # type: ignore  # noqa: F401,F403


def main(argv: Any = None) -> None:  # type: ignore
    """Runs the tests of the program in eager mode."""
    _ops.enable_eager_execution()
    _test.main(argv)
