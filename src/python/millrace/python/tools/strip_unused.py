# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes a graph without the nodes that given outputs do not need.

    python -m millrace.python.tools.strip_unused --input_graph=graph.pb --output_graph=/tmp/stripped.pb
        --input_node_names=input --output_node_names=softmax --input_binary
"""
from __future__ import annotations

import argparse
import sys
from typing import Any

from millrace.python.framework import dtypes
from millrace.python.platform import app
from millrace.python.tools import strip_unused_lib


def main(unused_args: Any, flags: Any) -> None:
    """Strips the graph set by the flags."""
    del unused_args
    names = flags.placeholder_type_enum.split(",")
    types: Any = [dtypes.as_dtype(int(n) if n.isdigit() else n).as_datatype_enum for n in names]
    made = strip_unused_lib.strip_unused_from_files(
        flags.input_graph, flags.input_binary, flags.output_graph, flags.output_binary, flags.input_node_names,
        flags.output_node_names, types[0] if len(types) == 1 else types,
    )  # fmt: skip
    if made == -1:
        sys.exit(1)


def parse_args() -> Any:
    """The flags, and the other arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    yes_or_no: dict[str, Any] = {"nargs": "?", "const": True, "type": lambda text: text.lower() == "true"}
    parser.add_argument("--input_graph", required=True, help="file of a GraphDef")
    parser.add_argument("--input_binary", default=False, help="whether it is binary", **yes_or_no)
    parser.add_argument("--output_graph", required=True, help="file to write")
    parser.add_argument("--output_binary", default=True, help="whether it is binary", **yes_or_no)
    parser.add_argument("--input_node_names", required=True, help="nodes that become placeholders")
    parser.add_argument("--output_node_names", required=True, help="nodes that stay")
    parser.add_argument(
        "--placeholder_type_enum", default="float32", help="type of the placeholders, or one for each"
    )
    return parser.parse_known_args()


if __name__ == "__main__":
    FLAGS, rest = parse_args()
    app.run(main=lambda args: main(args, FLAGS), argv=[sys.argv[0]] + rest)
