# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A table of the costs of a graph's operations."""
from __future__ import annotations

import collections
from typing import Any

from millrace.python.grappler import cluster as gcluster
from millrace.python.grappler import item as gitem


def GenerateCostReport(  # noqa: N802
    metagraph: Any, per_node_report: bool = False, verbose: bool = False, cluster: Any = None
) -> bytes:
    """Runs a meta graph once and reports the time of its operations.

    Args:
      metagraph: a MetaGraphDef with the fetches in its collection "train_op".
      per_node_report: whether each operation has a line, not only each kind of them.
      verbose: not used.
      cluster: a Cluster that measures details; None: one of this process.

    Returns:
      The text: one line for each kind of operation, the most expensive first.
    """
    measured = cluster or gcluster.Cluster(disable_detailed_stats=False, disable_timeline=False)
    item = gitem.Item(metagraph)
    types = {node.name: node.op for node in metagraph.graph_def.node}
    costs, seconds, _ = measured.MeasureCosts(item)
    times: dict[str, list[int]] = collections.defaultdict(list)
    lines = []
    for node in costs:
        name = node.node_name.split(":")[0]
        nanoseconds = int(node.op_end_rel_micros - node.op_start_rel_micros) * 1000
        if node.op_end_rel_nanos > node.op_start_rel_nanos:
            nanoseconds = int(node.op_end_rel_nanos - node.op_start_rel_nanos)
        times[types.get(name, "(added by the engine)")].append(nanoseconds)
        lines.append("%-40s %-24s %12d" % (name, types.get(name, ""), nanoseconds))
    total = sum(sum(t) for t in times.values())
    head = [
        "Total time measured in ns (serialized): %d" % total,
        "Total time measured in ns (actual): %d" % round(seconds * 1e9),
        "",
        "%-24s %8s %14s %8s" % ("Op", "Count", "Measured ns", "Percent"),
    ]
    for kind, each in sorted(times.items(), key=lambda pair: -sum(pair[1])):
        head.append(
            "%-24s %8d %14d %7.2f%%" % (kind, len(each), sum(each), 100.0 * sum(each) / max(total, 1))
        )
    if per_node_report:
        head += ["", "%-40s %-24s %12s" % ("Node", "Op", "Measured ns"), *lines]
    return ("\n".join(head) + "\n").encode()
