# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Summaries of tensors of any type."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import gen_logging_ops
from millrace.python.ops import summary_op_util


def tensor_summary(
    name: str,
    tensor: Any,
    summary_description: Any = None,
    collections: Any = None,
    summary_metadata: Any = None,
    family: str | None = None,
    display_name: str | None = None,
) -> Any:
    """Summary that holds a tensor, for plugins of TensorBoard.

    Args:
      name: of the op, and its tag.
      tensor: of any type and shape.
      summary_description, display_name: texts for the user interface, put into the metadata.
      collections: graph collections, [GraphKeys.SUMMARIES] if None.
      summary_metadata: SummaryMetadata that names the plugin.
      family: prefix of the tag.

    Returns:
      A string scalar: a serialized Summary.
    """
    from millrace.core.framework import summary_pb2

    if summary_metadata is None:
        summary_metadata = summary_pb2.SummaryMetadata()
    if not isinstance(summary_metadata, summary_pb2.SummaryMetadata):
        raise TypeError("summary_metadata must be a SummaryMetadata, got: %r" % (summary_metadata,))
    if summary_description is not None:
        summary_metadata.summary_description = summary_description
    if display_name is not None:
        summary_metadata.display_name = display_name
    serialized_summary_metadata = summary_metadata.SerializeToString()
    with summary_op_util.summary_scope(name, family, values=[tensor]) as (tag, scope):
        val = gen_logging_ops.tensor_summary_v2(
            tensor=tensor, tag=tag, name=scope, serialized_summary_metadata=serialized_summary_metadata
        )
        summary_op_util.collect(val, collections, [ops.GraphKeys.SUMMARIES])
    return val
