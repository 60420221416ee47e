# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Start of programs: `tf.app.run()` parses the flags and calls `main`."""

from __future__ import annotations

import errno as _errno
import sys as _sys
from typing import Any

from millrace.python.platform import flags

__all__ = ["run"]


def _usage(program: str) -> str:
    doc = getattr(_sys.modules.get("__main__"), "__doc__", None)
    text = doc.strip().replace("%s", program) if doc else "USAGE: %s [flags]" % program
    return "%s\nflags:\n\n%s" % (text, flags.FLAGS.get_help())


def _wants_help(argv: list[str]) -> bool:
    for arg in argv[1:]:
        if arg == "--":
            return False
        if arg in ("--help", "-help", "--helpfull", "-helpfull", "--helpshort", "-helpshort", "-h", "-?"):
            return "help" not in flags.FLAGS
    return False


def run(main: Any = None, argv: Any = None) -> None:
    """Parses the flags of `argv` and calls `main` with the other arguments; then ends the program with its result.

    Args:
      main: function of a list of arguments; `main` of the program if None.
      argv: name of the program and its arguments; sys.argv if None.

    Flags that are not defined are left among the arguments. A flag's value that is not valid ends the program with
    a message and exit status 1.
    """
    args = list(_sys.argv if argv is None else argv)
    main = main or _sys.modules["__main__"].main
    absl_app: Any = _sys.modules.get("absl.app")
    if absl_app is not None:
        # Programs that also use absl.app expect its setup: logging, exception handlers, callbacks.
        absl_app.run(main=main, argv=args, flags_parser=lambda rest: flags.FLAGS(rest, known_only=True))
        return
    if _wants_help(args):
        print(_usage(args[0]))
        _sys.exit(1)
    try:
        rest = flags.FLAGS(args, known_only=True)
    except flags.Error as error:
        _sys.stderr.write("FATAL Flags parsing error:\n  %s\n" % error)
        _sys.stderr.write("Pass --helpshort or --helpfull to see help on flags.\n")
        _sys.exit(1)
    try:
        _sys.exit(main(rest))
    except OSError as e:
        # The reader of the output may end before the program, which is not an error.
        if e.errno == _errno.EPIPE:
            _sys.stderr.close()
            _sys.exit(1)
        raise
