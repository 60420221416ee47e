# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs pytest on folders with the package of a build folder; ends with 77 and a reason if the package does not exist.

    run_tests.py --tree build/release/python FOLDER... [-- OPTIONS OF PYTEST]
"""
from __future__ import annotations

import argparse
import glob
import importlib.util
import os
import subprocess
import sys

SKIPPED = 77


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", required=True)
    parser.add_argument("folders", nargs="+")
    arguments, options = parser.parse_known_args()
    if not glob.glob(os.path.join(arguments.tree, "millrace", "python", "_engine*.so")):
        print("skipped: the package was not built in", arguments.tree)
        return SKIPPED
    for module in ("pytest", "numpy", "google.protobuf"):
        if importlib.util.find_spec(module) is None:
            print("skipped: there is no module", module, "for", sys.executable)
            return SKIPPED
    environment = dict(os.environ, PYTHONPATH=os.path.abspath(arguments.tree), PYTHONDONTWRITEBYTECODE="")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *arguments.folders]
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
