# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Summaries: ops whose output is a serialized Summary, which TensorBoard shows."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import gen_logging_ops
from millrace.python.ops import summary_op_util as _summary_op_util
from millrace.python.ops.summary_ops import tensor_summary
from millrace.python.summary.plugin_asset import PluginAsset
from millrace.python.summary.plugin_asset import get_plugin_asset
from millrace.python.summary.text_summary import text_summary as _text_summary
from millrace.python.summary.writer.writer import FileWriter
from millrace.python.summary.writer.writer_cache import FileWriterCache

__all__ = [
    "FileWriter",
    "FileWriterCache",
    "PluginAsset",
    "audio",
    "get_plugin_asset",
    "get_summary_description",
    "histogram",
    "image",
    "merge",
    "merge_all",
    "scalar",
    "tensor_summary",
    "text",
]

_MESSAGES = {
    "Event": ("millrace.core.util.event_pb2", "Event"),
    "SessionLog": ("millrace.core.util.event_pb2", "SessionLog"),
    "TaggedRunMetadata": ("millrace.core.util.event_pb2", "TaggedRunMetadata"),
    "Summary": ("millrace.core.framework.summary_pb2", "Summary"),
    "SummaryDescription": ("millrace.core.framework.summary_pb2", "SummaryDescription"),
}


def __getattr__(name: str) -> Any:
    # Messages are loaded on demand.
    if name in _MESSAGES:
        import importlib

        module, attribute = _MESSAGES[name]
        return getattr(importlib.import_module(module), attribute)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))


def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> Any:
    """Summary of one number.

    Args:
      name: of the op; with its scope also the tag.
      tensor: scalar of a real type.
      collections: graph collections to add the summary to, [GraphKeys.SUMMARIES] if None.
      family: prefix of the tag, so that TensorBoard groups it.

    Returns:
      A string scalar: a serialized Summary.
    """
    with _summary_op_util.summary_scope(name, family, values=[tensor]) as (tag, scope):
        val = gen_logging_ops.scalar_summary(tags=tag, values=tensor, name=scope)
        _summary_op_util.collect(val, collections, [ops.GraphKeys.SUMMARIES])
    return val


def image(
    name: str, tensor: Any, max_outputs: int = 3, collections: Any = None, family: str | None = None
) -> Any:
    """Summary of images.

    Args:
      tensor: uint8 or float of shape [batch, height, width, channels], with 1, 3 or 4 channels. Floats are
        scaled to 0..255, with zero at 127 if there are negative values.
      max_outputs: the maximum number of images of the batch that are shown.
      others: as in `scalar`.

    Returns:
      A string scalar: a serialized Summary.
    """
    with _summary_op_util.summary_scope(name, family, values=[tensor]) as (tag, scope):
        val = gen_logging_ops.image_summary(tag=tag, tensor=tensor, max_images=max_outputs, name=scope)
        _summary_op_util.collect(val, collections, [ops.GraphKeys.SUMMARIES])
    return val


def histogram(name: str, values: Any, collections: Any = None, family: str | None = None) -> Any:
    """Summary of the distribution of values of a real type and any shape. Arguments: as of `scalar`."""
    with _summary_op_util.summary_scope(name, family, values=[values], default_name="HistogramSummary") as (
        tag,
        scope,
    ):
        val = gen_logging_ops.histogram_summary(tag=tag, values=values, name=scope)
        _summary_op_util.collect(val, collections, [ops.GraphKeys.SUMMARIES])
    return val


def audio(
    name: str,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int = 3,
    collections: Any = None,
    family: str | None = None,
) -> Any:
    """Summary of audio.

    Args:
      tensor: float in [-1, 1] of shape [batch, frames, channels] or [batch, frames].
      sample_rate: float scalar: samples per second.
      others: as in `image`.
    """
    with _summary_op_util.summary_scope(name, family=family, values=[tensor]) as (tag, scope):
        sample_rate = ops.convert_to_tensor(sample_rate, dtype=dtypes.float32, name="sample_rate")
        val = gen_logging_ops.audio_summary_v2(
            tag=tag, tensor=tensor, max_outputs=max_outputs, sample_rate=sample_rate, name=scope
        )
        _summary_op_util.collect(val, collections, [ops.GraphKeys.SUMMARIES])
    return val


def text(name: str, tensor: Any, collections: Any = None) -> Any:
    """Summary of texts, strings of any shape; Markdown is shown as such, and two dimensions as a table."""
    return _text_summary(name, tensor, collections)


def merge(inputs: Any, collections: Any = None, name: str | None = None) -> Any:
    """One summary of several.

    Args:
      inputs: serialized summaries of any shape.
      collections: graph collections to add the result to, none if None.
      name: of the op.

    Raises:
      ValueError: if an input is invalid. The op fails when two summaries have the same tag.
    """
    name = _summary_op_util.clean_tag(name)
    with ops.name_scope(name, "Merge", inputs):
        val = gen_logging_ops.merge_summary(inputs=inputs, name=name)
        _summary_op_util.collect(val, collections, [])
    return val


def merge_all(key: str = ops.GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None) -> Any:
    """One summary of all in a collection, below `scope` if given; None if there are none."""
    summary_ops = ops.get_collection(key, scope=scope)
    if not summary_ops:
        return None
    return merge(summary_ops, name=name)


def get_summary_description(node_def: Any) -> Any:
    """The SummaryDescription of a TensorSummary node. Raises ValueError for other nodes."""
    from google.protobuf import json_format
    from millrace.core.framework import summary_pb2

    if not hasattr(node_def, "op"):
        raise TypeError("Expected a NodeDef, got: %r" % (node_def,))
    if node_def.op != "TensorSummary":
        raise ValueError("Can't get_summary_description on %s" % node_def.op)
    description_str = _decode(node_def.attr["description"].s)
    summary_description = summary_pb2.SummaryDescription()
    json_format.Parse(description_str, summary_description)
    return summary_description


def _decode(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)
