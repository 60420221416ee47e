#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Holds what libmillrace_c.so exports to the headers of the C API, and its tests to both.

    check_c_api.py LIBRARY TEST_DIR HEADER_DIR...

The library exports exactly the functions that the headers declare, all with one version or none; its SONAME is that of
TensorFlow; and every function is called somewhere in the tests. Prints each offender and fails.
"""

import os
import re
import subprocess
import sys

SONAME = "libtensorflow.so.1"


def run(*command):
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def texts(folder, ending):
    for name in sorted(os.listdir(folder)):
        if name.endswith(ending):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                yield file.read()


def declared(headers):
    """Names of the functions that the texts of headers declare."""
    names = set()
    for text in headers:
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        names.update(re.findall(r"TF_CAPI_EXPORT\s+extern\s[^;(]*?\b((?:TF|TFE|Millrace)_\w+)\(", text))
    return names


def problems(exports, functions, soname, tests):
    found = [f"exported but not declared: {name}" for name in sorted(exports - functions)]
    found += [f"declared but not exported: {name}" for name in sorted(functions - exports)]
    if soname != SONAME:
        found.append(f"the SONAME is {soname}, not {SONAME}")
    called = set(re.findall(r"\b((?:TF|TFE|Millrace)_\w+)\(", "\n".join(tests)))
    found += [f"no test calls {name}" for name in sorted(functions - called)]
    return found


def main():
    library, test_dir, *header_dirs = sys.argv[1:]
    headers = [text for folder in header_dirs for text in texts(folder, ".h")]
    # All have the same version or none, whose own name is an absolute symbol then.
    symbols = [line.split() for line in run("nm", "-D", "--defined-only", library).splitlines()]
    exports = {symbol[-1].split("@")[0] for symbol in symbols if symbol[-2] != "A"}
    soname = re.search(r"SONAME.*\[(.*)\]", run("readelf", "-d", library))
    found = problems(exports, declared(headers), soname.group(1) if soname else "",
                     list(texts(test_dir, ".c")))
    print("\n".join(found + [f"C API: {len(exports)} functions, {len(found)} problems"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
