# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The package has types that mypy finds sound."""
from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

import pytest

import millrace as tf


@pytest.mark.skipif(shutil.which("mypy") is None, reason="mypy is not installed")
def test_the_package_is_strictly_typed(tmp_path: Any) -> None:
    tree = os.path.dirname(os.path.dirname(os.path.abspath(tf.__file__)))
    settings = os.path.join(os.path.dirname(__file__), "..", "..", "..", "pyproject.toml")
    done = subprocess.run(
        ["mypy", "--config-file", os.path.abspath(settings), "--cache-dir", str(tmp_path / "cache"), "-p", "millrace"],
        cwd=tree, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
