# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""python -m millrace PROGRAM.py ARGS: runs a program of TensorFlow 1.x with Millrace under that name."""
import runpy
import sys

from millrace import _import_hook


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(
            "Usage: python3 -m millrace PROGRAM.py [ARGUMENTS]\n       python3 -m millrace -m MODULE [ARGUMENTS]"
        )
        sys.exit(0 if len(sys.argv) > 1 else 2)
    _import_hook.install()
    if sys.argv[1] == "-m":
        if len(sys.argv) < 3:
            sys.exit("millrace: -m needs a module")
        name = sys.argv[2]
        sys.argv = sys.argv[2:]
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        return
    import os

    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


main()
