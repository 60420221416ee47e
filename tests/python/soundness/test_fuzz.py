# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The fuzz programs run, and a few hundred calls with random values do not end the process."""
import os
import pathlib
import subprocess
import sys

import pytest


@pytest.mark.parametrize("arguments", [["fuzz_api.py"], ["fuzz_methods.py"], ["fuzz_methods.py", "--eager"]])
def test_random_calls(arguments: list[str]) -> None:
    program = pathlib.Path(__file__).parent / arguments[0]
    command = [sys.executable, str(program), *arguments[1:], "--calls", "600", "--seed", "5"]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=dict(os.environ), check=False
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert "600 calls" in result.stdout
    assert "done" in result.stdout or "made" in result.stdout
