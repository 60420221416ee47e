# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the graph of a GraphDef or SavedModel for TensorBoard.

    python -m millrace.python.tools.import_pb_to_tensorboard --model_dir=frozen.pb --log_dir=/tmp/log
"""
from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from millrace.core.framework import graph_pb2
from millrace.python.client import session
from millrace.python.framework import importer, ops
from millrace.python.platform import app, gfile
from millrace.python.saved_model import loader
from millrace.python.summary import summary
from millrace.python.summary.writer import writer

__all__ = ["import_to_tensorboard", "summary"]


def import_to_tensorboard(model_dir: str, log_dir: str, tag_set: Any = ("serve",)) -> None:
    """Writes the graph of a file of a GraphDef, or of the folder of a SavedModel, as an event."""
    with session.Session(graph=ops.Graph()) as sess:
        if os.path.isdir(model_dir):
            loader.load(sess, list(tag_set), model_dir)
        else:
            with gfile.FastGFile(model_dir, "rb") as f:
                graph_def = graph_pb2.GraphDef()
                graph_def.ParseFromString(f.read())
                importer.import_graph_def(graph_def)
        pb_visual_writer = writer.FileWriter(log_dir)
        pb_visual_writer.add_graph(sess.graph)
        pb_visual_writer.close()
        print("Model Imported. Visualize by running: tensorboard --logdir={}".format(log_dir))


def main(unused_args: Any) -> None:
    """Imports the graph set by the flags."""
    del unused_args
    import_to_tensorboard(FLAGS.model_dir, FLAGS.log_dir)


FLAGS: Any = None
if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model_dir", default="", required=True, help="the file or the folder")
    parser.add_argument("--log_dir", default="", required=True, help="where the event goes")
    FLAGS, rest = parser.parse_known_args()
    app.run(main=main, argv=[sys.argv[0]] + rest)
