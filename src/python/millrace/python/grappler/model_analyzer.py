# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A text about the operations of a graph and their known shapes."""
from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.framework import tensor_util
from millrace.python.grappler import item as gitem


def GenerateModelReport(
    metagraph: Any, assume_valid_feeds: bool = True, debug: bool = False
) -> bytes:  # noqa: N802
    """Shows each operation that the fetches of a meta graph need, with types and shapes.

    Args:
      metagraph: a MetaGraphDef with the fetches in its collection "train_op".
      assume_valid_feeds: whether placeholders have the shapes that they declare.
      debug: whether inputs, with their values if they are known, and attributes are shown, too.
    """
    item = gitem.Item(metagraph)
    wanted = item.IdentifyImportantOps(sort_topologically=True)
    lines = []
    for name in wanted:
        op = item._imported().get_operation_by_name(name)
        lines.append("%s [%s]" % (op.name, op.type))
        for i, tensor in enumerate(op.outputs):
            known = assume_valid_feeds or op.type not in ("Placeholder", "PlaceholderV2")
            shape = _shape_text(tensor.shape) if known else "?"
            lines.append("\toutput %d (%s) has shape %s" % (i, tensor.dtype.name, shape))
        if debug:
            for i, tensor in enumerate(op.inputs):
                value = tensor_util.constant_value(tensor)
                text = (
                    "has known value: %s" % np.array2string(value)
                    if value is not None
                    else "is %s" % tensor.name
                )
                lines.append("\tinput %d (%s) %s" % (i, tensor.dtype.name, text))
            lines += ["\tattribute %s" % key for key in sorted(op.node_def.attr)]
    return ("\n".join(lines) + "\n").encode()


def _shape_text(shape: Any) -> str:
    if shape.ndims is None:
        return "?"
    return "[%s]" % ", ".join("?" if size is None else str(size) for size in shape.as_list())
