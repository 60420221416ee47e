#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a program of the guide and compares what it prints with what the guide shows.

Usage: run_program.py GUIDE SOURCE PROGRAM ARGUMENT...
GUIDE has a block after the line <!-- the output of SOURCE -->. The argument NEW_FOLDER stands for an empty folder.
"""

import difflib
import re
import subprocess
import sys
import tempfile


def shown_output(guide: str, source: str) -> str:
    """The block of the guide with the output of that program."""
    pattern = rf"<!-- the output of {re.escape(source)} -->\n+```\w*\n(.*?)^```$"
    found = re.findall(pattern, guide, re.MULTILINE | re.DOTALL)
    if len(found) != 1:
        sys.exit(f"the guide shows the output of {source} {len(found)} times")
    return found[0]


def main() -> int:
    guide, source, program, *arguments = sys.argv[1:]
    with open(guide, encoding="utf-8") as file:
        wanted = shown_output(file.read(), source)
    with tempfile.TemporaryDirectory() as folder:
        command = [program] + [folder if a == "NEW_FOLDER" else a for a in arguments]
        result = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", cwd=folder, check=False)
    difference = difflib.unified_diff(
        wanted.splitlines(), result.stdout.splitlines(), guide, program, lineterm=""
    )
    print("\n".join(difference))
    if result.returncode != 0:
        print(f"{program} ended with {result.returncode}")
    return 0 if result.returncode == 0 and result.stdout == wanted else 1


if __name__ == "__main__":
    sys.exit(main())
