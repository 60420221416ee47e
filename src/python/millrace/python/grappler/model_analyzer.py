# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A text about the operations of a graph and what is known of their shapes."""
from __future__ import annotations

from typing import Any

from millrace.python.grappler import item as gitem


def GenerateModelReport(
    metagraph: Any, assume_valid_feeds: bool = True, debug: bool = False
) -> bytes:  # noqa: N802
    """Shows each operation that the fetches of a meta graph need, with types and shapes.

    Args:
      metagraph: a MetaGraphDef with the fetches in its collection "train_op".
      assume_valid_feeds: whether placeholders have the shapes that they declare.
      debug: whether attributes are shown, too.
    """
    item = gitem.Item(metagraph)
    wanted = item.IdentifyImportantOps(sort_topologically=True)
    lines = []
    for name in wanted:
        op = item._imported().get_operation_by_name(name)
        lines.append("%s [%s]" % (op.name, op.type))
        for what, tensors in (("input", op.inputs), ("output", op.outputs)):
            for i, tensor in enumerate(tensors):
                known = assume_valid_feeds or tensor.op.type not in ("Placeholder", "PlaceholderV2")
                shape = tensor.shape if known else "<unknown>"
                of = " (%s)" % tensor.name if what == "input" else ""
                lines.append("\t%s %d%s has type %s and shape %s" % (what, i, of, tensor.dtype.name, shape))
        if debug:
            lines += ["\tattribute %s" % key for key in sorted(op.node_def.attr)]
    return ("\n".join(lines) + "\n").encode()
