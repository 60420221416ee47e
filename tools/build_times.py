#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Prints what the last build spent its time on, from ninja's log.

build_times.py [BUILD FOLDER] [--slowest=N]

Seconds are those that the jobs took. With more jobs than cores they are more than the processor's; the shares are right.
"""

import argparse
import collections
import pathlib
import re
from typing import Dict, List, Tuple

Jobs = Dict[str, float]


def read_log(text: str) -> Jobs:
    """Returns the seconds of the last job that wrote each output."""
    jobs: Jobs = {}
    for line in text.splitlines():
        if line.startswith("#") or not line:
            continue
        start, end, _, output, _ = line.split("\t")
        jobs[output] = (int(end) - int(start)) / 1000
    return jobs


def place_of(output: str) -> Tuple[str, str]:
    """Returns (kind, folder) of an output of the compiler; other outputs are ('linking and generating', '')."""
    found = re.match(r"(?:(.*)/)?CMakeFiles/([^/]+)\.dir/(.*)\.(?:o|gch)$", output)
    if not found:
        return "linking and generating", ""
    folder, target, rest = found[1] or "", found[2], found[3]
    if output.endswith(".gch"):
        return "precompiled headers", ""
    if folder.startswith("bench"):
        return "benchmarks", "bench"
    if folder.startswith("examples"):
        return "examples", "examples"
    if folder.startswith("tests") or re.search(r"_(test|testing|test_environment)$|test_headers$", target):
        return "tests", folder
    if "generated/" in rest or folder == "proto":
        return "generated sources", folder
    return "product", folder


def table(jobs: Jobs) -> List[str]:
    seconds: Dict[Tuple[str, str], float] = collections.defaultdict(float)
    files: Dict[Tuple[str, str], int] = collections.defaultdict(int)
    kinds: Dict[str, float] = collections.defaultdict(float)
    for output, taken in jobs.items():
        place = place_of(output)
        seconds[place] += taken
        files[place] += 1
        kinds[place[0]] += taken
    total = sum(kinds.values()) or 1.0
    lines = ["| kind, folder | files | s | % |", "|---|---|---|---|"]
    for kind, of_kind in sorted(kinds.items(), key=lambda item: -item[1]):
        count = sum(n for place, n in files.items() if place[0] == kind)
        lines.append(f"| **{kind}** | {count} | {of_kind:.0f} | {100 * of_kind / total:.0f} |")
        for place, taken in sorted(seconds.items(), key=lambda item: -item[1]):
            if place[0] == kind and place[1] not in ("", "bench", "examples") and taken >= total / 100:
                lines.append(f"| {place[1]} | {files[place]} | {taken:.0f} | {100 * taken / total:.0f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="Prints what the last build spent its time on.")
    parser.add_argument("folder", nargs="?", default="build/release", type=pathlib.Path)
    parser.add_argument("--slowest", type=int, default=0, help="also the N outputs that took longest")
    arguments = parser.parse_args()
    jobs = read_log((arguments.folder / ".ninja_log").read_text(encoding="utf-8"))
    print("\n".join(table(jobs)))
    for output, taken in sorted(jobs.items(), key=lambda item: -item[1])[: arguments.slowest]:
        print(f"{taken:7.1f} s {output}")


if __name__ == "__main__":
    main()
