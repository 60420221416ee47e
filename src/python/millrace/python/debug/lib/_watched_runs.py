# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs whose tensors are written to files."""
from __future__ import annotations

from typing import Any

from millrace.core.protobuf import config_pb2
from millrace.python.client import _fetches
from millrace.python.debug.lib import _dump_files


def run(sess: Any, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Any:
    """Runs a step; writes its tensors, graphs and fetches to the folders that the options name."""
    asked = config_pb2.RunOptions()
    asked.CopyFrom(options)
    asked.output_partition_graphs = True
    metadata = config_pb2.RunMetadata()
    handler = _fetches._FetchHandler(sess.graph, fetches, {})
    known = sess._watched_runs
    sess._watched_runs += 1
    try:
        return sess._run(None, fetches, feed_dict, asked.SerializeToString(), metadata)
    finally:
        feeds = [key if isinstance(key, str) else getattr(key, "name", str(key)) for key in feed_dict or ()]
        _dump_files.write_run(
            options,
            known,
            known,
            feeds,
            [tensor.name for tensor in handler.fetches()],
            [op.name for op in handler.targets()],
            metadata.partition_graphs,
        )
        if run_metadata is not None:
            run_metadata.CopyFrom(metadata)
            if not options.output_partition_graphs:
                run_metadata.ClearField("partition_graphs")
