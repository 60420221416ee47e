# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Summaries of texts."""

from __future__ import annotations

import collections as _collections
from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops.summary_ops import tensor_summary
from millrace.python.summary import plugin_asset

PLUGIN_NAME = "text"
TextSummaryPluginData = _collections.namedtuple("TextSummaryPluginData", [])


def text_summary(name: str, tensor: Any, collections: Any = None) -> Any:
    """A TensorSummary of strings for the text page of TensorBoard. Raises ValueError for other types."""
    from millrace.core.framework import summary_pb2

    tensor = ops.convert_to_tensor(tensor)
    if tensor.dtype != dtypes.string:
        raise ValueError("Expected tensor %s to have dtype string, got %s" % (tensor.name, tensor.dtype))
    summary_metadata = summary_pb2.SummaryMetadata(
        plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name=PLUGIN_NAME)
    )
    return tensor_summary(
        name=name, tensor=tensor, summary_metadata=summary_metadata, collections=collections
    )


def is_text_summary(metadata: Any) -> bool:
    return bool(metadata.plugin_data.plugin_name == PLUGIN_NAME)


get_plugin_asset = plugin_asset.get_plugin_asset
