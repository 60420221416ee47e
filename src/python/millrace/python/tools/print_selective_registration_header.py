# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Prints a C++ header that names the ops and kernels that given graphs need.

    python -m millrace.python.tools.print_selective_registration_header --graphs=a.pb,b.pb > ops_to_register.h
"""
from __future__ import annotations

import argparse
import sys
from typing import Any

from millrace.python.platform import app
from millrace.python.tools import selective_registration_header_lib

FLAGS: Any = None


def main(unused_argv: Any) -> None:
    """Prints the header of the graphs that the flags name."""
    del unused_argv
    print(
        selective_registration_header_lib.get_header(
            FLAGS.graphs.split(","), FLAGS.proto_fileformat, FLAGS.default_ops
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", default="", help="files of GraphDefs, separated by commas", required=True)
    parser.add_argument("--proto_fileformat", default="rawproto", help="rawproto, textproto or ops_list")
    parser.add_argument(
        "--default_ops", default="NoOp:NoOp,_Recv:RecvOp,_Send:SendOp", help="further op:kernel pairs, or all"
    )
    FLAGS, rest = parser.parse_known_args()
    app.run(main=main, argv=[sys.argv[0]] + rest)
