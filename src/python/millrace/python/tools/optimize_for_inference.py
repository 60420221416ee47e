# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes a smaller graph that computes the outputs of a trained model.

    python -m millrace.python.tools.optimize_for_inference --input=frozen.pb --output=/tmp/optimized.pb
        --input_names=x --output_names=softmax
"""
from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from millrace.core.framework import graph_pb2
from millrace.python.framework import graph_io
from millrace.python.platform import app, gfile
from millrace.python.tools import optimize_for_inference_lib

FLAGS: Any = None


def main(unused_args: Any) -> int:
    """Optimizes the graph set by the flags."""
    from google.protobuf import text_format

    if not gfile.Exists(FLAGS.input):
        print("Input graph file '" + FLAGS.input + "' does not exist!")
        return -1
    graph_def = graph_pb2.GraphDef()
    with gfile.GFile(FLAGS.input, "rb") as f:
        data = f.read()
        if FLAGS.frozen_graph:
            graph_def.ParseFromString(data)
        else:
            text_format.Merge(data.decode("utf-8"), graph_def)
    made = optimize_for_inference_lib.optimize_for_inference(
        graph_def, FLAGS.input_names.split(","), FLAGS.output_names.split(","),
        optimize_for_inference_lib.placeholder_types(FLAGS.placeholder_type_enum), FLAGS.toco_compatible,
    )  # fmt: skip
    if FLAGS.frozen_graph:
        with gfile.GFile(FLAGS.output, "w") as f:
            f.write(made.SerializeToString())
    else:
        graph_io.write_graph(made, os.path.dirname(FLAGS.output), os.path.basename(FLAGS.output))
    return 0


def parse_args() -> Any:
    """The flags, and the other arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    yes_or_no: dict[str, Any] = {"nargs": "?", "const": True, "type": lambda text: text.lower() == "true"}
    parser.add_argument("--input", default="", help="file of a GraphDef")
    parser.add_argument("--output", default="", help="file to write")
    parser.add_argument("--input_names", default="", help="nodes that become placeholders")
    parser.add_argument("--output_names", default="", help="nodes that stay")
    parser.add_argument("--frozen_graph", default=True, help="whether files are binary", **yes_or_no)
    parser.add_argument(
        "--placeholder_type_enum", default="float32", help="type of the placeholders, or one for each"
    )
    parser.add_argument("--toco_compatible", default=False, help="without effect", **yes_or_no)
    return parser.parse_known_args()


if __name__ == "__main__":
    FLAGS, rest = parse_args()
    app.run(main=main, argv=[sys.argv[0]] + rest)
