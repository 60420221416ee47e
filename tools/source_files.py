# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The files of the repository that the checks read."""

import os
import subprocess
import sys


def repository_files(root):
    """Paths relative to root: all that git tracks or would add; every file where there is no git."""
    listing = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, check=False)
    if listing.returncode == 0:
        paths = listing.stdout.decode().split("\0")
        return sorted(p for p in set(paths) if p and os.path.isfile(os.path.join(root, p)))
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [s for s in subfolders if s not in ("build", ".git")]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def is_generated(text):
    """Generated files say so on their first line."""
    return "generated" in text.split("\n", 1)[0].lower()


if __name__ == "__main__":
    sys.stdout.write("".join(path + "\0" for path in repository_files(sys.argv[1])))
