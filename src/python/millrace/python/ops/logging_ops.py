# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Ops that print, and the summaries of old versions."""

from __future__ import annotations

import os
import pprint
import sys
from typing import Any, TYPE_CHECKING

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework import sparse_tensor
from millrace.python.framework import tensor_util
from millrace.python.ops import gen_logging_ops
from millrace.python.ops import string_ops
from millrace.python.platform import tf_logging
from millrace.python.util import nest

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Names of gen_logging_ops that this module does not define."""

else:
    from millrace.python.ops.gen_logging_ops import *  # noqa: F401,F403


def Print(
    input_: Any,
    data: Any,
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Any:
    """Returns `input_`; prints `message` and the tensors `data` to standard error when it is computed.

    Args:
      input_: a tensor.
      data: tensors to print.
      message: text printed before the tensors.
      first_n: the most times that it prints; None: no limit.
      summarize: how many elements of each, 3 by default.
      name: name of the op.
    """
    return gen_logging_ops._print(
        input_,
        data,
        message="" if message is None else message,
        first_n=-1 if first_n is None else first_n,
        summarize=3 if summarize is None else summarize,
        name=name,
    )


def _generate_placeholder_string(x: Any, default_placeholder: str = "{}") -> str:
    """A placeholder that is not in the text `x`."""
    placeholder = default_placeholder
    n = 0
    while placeholder in x:
        n += 1
        placeholder = "{" + "_" * n + "}"
    return placeholder


def _is_filepath(output_stream: Any) -> bool:
    return isinstance(output_stream, str) and output_stream.startswith("file://")


def _output_stream_name(output_stream: Any) -> str:
    """The name of a stream for the attribute of PrintV2; ValueError for an unknown one."""
    if output_stream is sys.stdout or output_stream is sys.__stdout__ or output_stream == "sys.stdout":
        return "stdout"
    if output_stream is sys.stderr or output_stream is sys.__stderr__ or output_stream == "sys.stderr":
        return "stderr"
    if output_stream is tf_logging.info or output_stream == "tf.logging.info":
        return "log(info)"
    if output_stream is getattr(tf_logging, "warning", None) or output_stream is tf_logging.warn:
        return "log(warning)"
    if output_stream is tf_logging.error:
        return "log(error)"
    if isinstance(output_stream, str) and output_stream in (
        "stdout",
        "stderr",
        "log(info)",
        "log(warning)",
        "log(error)",
    ):
        return output_stream
    raise ValueError(
        "Unsupported output stream, logging level, or file."
        + str(output_stream)
        + ". Supported streams are sys.stdout, sys.stderr, tf.logging.info, tf.logging.warning, tf.logging.error."
        " File needs to be in the form of 'file://<filepath>'."
    )


def _templates(inputs: Any) -> tuple[list[str], list[str], list[Any]]:
    """A template with placeholders, the placeholder and the tensors of each input."""
    templates, placeholders, tensors = [], [], []
    for inp in inputs:
        placeholder = _generate_placeholder_string(str(inp))
        placeholders.append(placeholder)
        if tensor_util.is_tensor(inp) and not isinstance(inp, sparse_tensor.SparseTensor):
            templates.append(placeholder)
            tensors.append([ops.convert_to_tensor(inp)])
            continue
        inp_tensors: list[Any] = []
        names: dict[str, str] = {}

        def leaf(x: Any) -> Any:
            if isinstance(x, sparse_tensor.SparseTensor):
                inp_tensors.extend([x.indices, x.values, x.dense_shape])
                key = "SparseTensor(indices=%s, values=%s, shape=%s)" % ((placeholder,) * 3)
            elif tensor_util.is_tensor(x):
                inp_tensors.append(ops.convert_to_tensor(x))
                key = placeholder
            else:
                return x
            marker = "__marker_%d__" % len(names)
            names[marker] = key
            return marker

        if isinstance(inp, sparse_tensor.SparseTensor):
            text = leaf(inp)
        else:
            mapped = nest.map_structure(leaf, inp) if nest.is_sequence(inp) else leaf(inp)
            text = mapped if isinstance(mapped, str) and not nest.is_sequence(inp) else pprint.pformat(mapped)
        for marker, key in names.items():
            text = text.replace("'%s'" % marker, key).replace(marker, key)
        templates.append(text)
        tensors.append(inp_tensors)
    return templates, placeholders, tensors


def print_v2(*inputs: Any, **kwargs: Any) -> Any:
    """Returns an op that prints its inputs, joined by spaces and ended by a new line.

    Args:
      *inputs: tensors, structures of tensors and other values.
      **kwargs: `output_stream` (sys.stderr by default, sys.stdout, a function of tf.logging, or "file://..."),
        `summarize` (how many elements at each end of an axis, 3 by default, -1: all), `sep`, `end`, `name`.

    Raises:
      ValueError: another keyword argument or stream.
    """
    if "end" in kwargs and kwargs["end"] is None:
        kwargs["end"] = os.linesep
    output_stream = kwargs.pop("output_stream", sys.stderr)
    name = kwargs.pop("name", None)
    summarize = kwargs.pop("summarize", 3)
    sep = kwargs.pop("sep", " ")
    end = kwargs.pop("end", os.linesep)
    if kwargs:
        raise ValueError("Unrecognized keyword arguments for tf.print: {}".format(kwargs))
    format_name = name + "_format" if name else None
    stream = output_stream if _is_filepath(output_stream) else _output_stream_name(output_stream)
    # A single string tensor is printed as it is.
    if (
        len(inputs) == 1
        and tensor_util.is_tensor(inputs[0])
        and not isinstance(inputs[0], sparse_tensor.SparseTensor)
    ):
        only = ops.convert_to_tensor(inputs[0])
        if only.shape.ndims == 0 and only.dtype == dtypes.string:
            return gen_logging_ops.print_v2(input=only, output_stream=stream, name=name, end=end)
    templates, placeholders, tensors = _templates(inputs)
    parts = [
        string_ops.string_format(template=t, inputs=xs, placeholder=p, summarize=summarize, name=format_name)
        for t, p, xs in zip(templates, placeholders, tensors)
    ]
    formatted = string_ops.reduce_join(parts, separator=sep) if len(parts) != 1 else parts[0]
    if not parts:
        formatted = ops.convert_to_tensor("")
    return gen_logging_ops.print_v2(input=formatted, output_stream=stream, name=name, end=end)


print = print_v2


def _add_summary(val: Any, collections: Any) -> Any:
    keys = [ops.GraphKeys.SUMMARIES] if collections is None else collections
    ops.add_to_collections(list(keys), val)
    return val


def histogram_summary(tag: Any, values: Any, collections: Any = None, name: str | None = None) -> Any:
    """Returns a Summary with a histogram of `values` under `tag`."""
    with ops.name_scope(name, "HistogramSummary", [tag, values]) as scope:
        return _add_summary(
            gen_logging_ops.histogram_summary(tag=tag, values=values, name=scope), collections
        )


def image_summary(
    tag: Any, tensor: Any, max_images: int = 3, collections: Any = None, name: str | None = None
) -> Any:
    """Returns a Summary with up to `max_images` images of a [batch, height, width, channels] tensor."""
    with ops.name_scope(name, "ImageSummary", [tag, tensor]) as scope:
        val = gen_logging_ops.image_summary(tag=tag, tensor=tensor, max_images=max_images, name=scope)
        return _add_summary(val, collections)


def audio_summary(
    tag: Any,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int = 3,
    collections: Any = None,
    name: str | None = None,
) -> Any:
    """Returns a Summary with up to `max_outputs` audio clips of a [batch, frames(, channels)] tensor."""
    with ops.name_scope(name, "AudioSummary", [tag, tensor]) as scope:
        sample_rate = ops.convert_to_tensor(sample_rate, dtype=dtypes.float32, name="sample_rate")
        val = gen_logging_ops.audio_summary_v2(
            tag=tag, tensor=tensor, max_outputs=max_outputs, sample_rate=sample_rate, name=scope
        )
        return _add_summary(val, collections)


def merge_summary(inputs: Any, collections: Any = None, name: str | None = None) -> Any:
    """Returns a Summary with the values of all inputs."""
    with ops.name_scope(name, "MergeSummary", inputs):
        val = gen_logging_ops.merge_summary(inputs=inputs, name=name)
        ops.add_to_collections([] if collections is None else list(collections), val)
        return val


def merge_all_summaries(key: Any = ops.GraphKeys.SUMMARIES) -> Any:
    """Returns a Summary with the values of all summaries of the graph, None if there are none."""
    summary_ops = ops.get_collection(key)
    return merge_summary(summary_ops) if summary_ops else None


def get_summary_op() -> Any:
    """Returns the op of the collection SUMMARY_OP, made by merging all summaries if there is none."""
    summary_op = ops.get_collection(ops.GraphKeys.SUMMARY_OP)
    if summary_op:
        return summary_op[0]
    merged = merge_all_summaries()
    if merged is not None:
        ops.add_to_collection(ops.GraphKeys.SUMMARY_OP, merged)
    return merged


def scalar_summary(tags: Any, values: Any, collections: Any = None, name: str | None = None) -> Any:
    """Returns a Summary with scalars."""
    with ops.name_scope(name, "ScalarSummary", [tags, values]) as scope:
        return _add_summary(gen_logging_ops.scalar_summary(tags=tags, values=values, name=scope), collections)


def timestamp(name: str | None = None) -> Any:
    """Returns the seconds since 1970 as a float64 scalar."""
    return gen_logging_ops.timestamp(name=name)
