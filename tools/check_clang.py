#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Has clang read every source file, with the analysis of locks, and prints its errors and warnings.

check_clang.py [BUILD FOLDER] [--only=REGEX] [--jobs=N] [--clang=clang++-14] [--tidy[=clang-tidy-14]]

The folder (build/release) is one that g++ has built: its compile_commands.json says how, and it has the generated sources.
Nothing is compiled, so this takes a fraction of the time of the presets tidy and fuzz, which break on the same errors.
With --tidy clang-tidy reads the files instead and makes the checks of .clang-tidy.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from typing import Dict, List, Tuple

# Arguments that say what to write or name a header precompiled by g++, and those that clang does not know.
WITH_VALUE = ("-o", "-MF", "-MT", "-MQ", "-include")
DROPPED = re.compile(r"-(c|MD|MMD|O\w*|Winvalid-pch|Werror|fsanitize=.*|fno-sanitize.*)$")
# The headers of libtorch 1.13 and clang 14 do not agree.
SKIPPED = re.compile(r"/bench/.*torch_")
WARNINGS = ["-fsyntax-only", "-Wthread-safety", "-Werror=thread-safety", "-Wno-unknown-warning-option", "-Wno-ignored-optimization-argument"]


def arguments_for_clang(command: str, clang: str) -> List[str]:
    """Returns the command that only reads what `command`, perhaps behind ccache, compiles."""
    words = shlex.split(command)
    while words and not re.search(r"(\+\+|cc|clang)(-\d+)?$", words[0].replace("ccache", "")):
        words.pop(0)
    kept, skip = [clang] + WARNINGS, False
    for word in words[1:]:
        if skip or word in WITH_VALUE:
            skip = not skip
        elif not DROPPED.match(word):
            kept.append(word)
    return kept


def arguments_for_tidy(clang: List[str], path: str, tidy: str) -> List[str]:
    """Returns the command that checks what `clang`, of arguments_for_clang, reads; also sources included by a unit."""
    flags = [word for word in clang[1:] if word != path]
    # A unit includes sources; with --checks the other checks are still those of .clang-tidy.
    return [tidy, "--quiet", "--checks=-bugprone-suspicious-include", "--header-filter=(src|include/millrace|examples|tests)/.*\\.(h|cc)$", path, "--"] + flags


def commands(folder: pathlib.Path, only: str, clang: str) -> Dict[str, Tuple[List[str], str]]:
    """Returns for each C++ source its command and the folder to run it in; the first of several."""
    found: Dict[str, Tuple[List[str], str]] = {}
    for entry in json.loads((folder / "compile_commands.json").read_text(encoding="utf-8")):
        path = entry["file"]
        if path in found or not path.endswith(".cc") or not re.search(only, path):
            continue
        if SKIPPED.search(path) or not os.path.exists(path):
            continue
        found[path] = (arguments_for_clang(entry["command"], clang), entry["directory"])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default="build/release", type=pathlib.Path)
    parser.add_argument("--only", default=".", help="files whose path has a match of this regular expression")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--clang", default="clang++-14")
    parser.add_argument("--tidy", nargs="?", const="clang-tidy-14", help="check with clang-tidy")
    args = parser.parse_args()
    wanted = commands(args.folder, args.only, args.clang)
    bad = 0

    def read(path: str) -> Tuple[str, str]:
        command, folder = wanted[path]
        if args.tidy:
            command = arguments_for_tidy(command, path, args.tidy)
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        text = result.stdout + result.stderr
        return path, text if result.returncode != 0 or "warning:" in text else ""

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for done, (path, text) in enumerate(pool.map(read, wanted), 1):
            if text:
                bad += 1
                print(f"{path}:\n{text}", flush=True)
            if sys.stderr.isatty():
                print(f"\r{done} of {len(wanted)}", end="", file=sys.stderr)
    print(f"check_clang: {len(wanted)} files, {bad} with errors or warnings")
    return 1 if bad or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
