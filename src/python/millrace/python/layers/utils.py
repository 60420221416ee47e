# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Argument checks and output sizes of convolutional layers, and conditions that may be known statically."""
from __future__ import annotations

from typing import Any, Optional, Tuple

from millrace.python.framework import ops, tensor_util
from millrace.python.ops import control_flow_ops, variables


def convert_data_format(data_format: str, ndim: int) -> str:
    """Returns the name that ops use for "channels_last" or "channels_first" of tensors of rank 3 to 5."""
    names = {
        "channels_last": {3: "NWC", 4: "NHWC", 5: "NDHWC"},
        "channels_first": {3: "NCW", 4: "NCHW", 5: "NCDHW"},
    }
    if data_format not in names:
        raise ValueError("Invalid data_format:", data_format)
    if ndim not in names[data_format]:
        raise ValueError("Input rank not supported:", ndim)
    return names[data_format][ndim]


def normalize_tuple(value: Any, n: int, name: str) -> Tuple[int, ...]:
    """Returns an integer, or `n` integers, as a tuple of `n`; raises ValueError for anything else."""
    if isinstance(value, int):
        return (value,) * n
    text = "The `" + name + "` argument must be a tuple of " + str(n) + " integers. Received: " + str(value)
    try:
        value_tuple = tuple(value)
    except TypeError:
        raise ValueError(text) from None
    if len(value_tuple) != n:
        raise ValueError(text)
    for single_value in value_tuple:
        try:
            int(single_value)
        except (ValueError, TypeError, OverflowError):
            raise ValueError(
                text + " including element " + str(single_value) + " of type " + str(type(single_value))
            ) from None
    return value_tuple


def normalize_data_format(value: Optional[str]) -> str:
    """Returns "channels_last" (also for None) or "channels_first"; raises ValueError for anything else."""
    data_format = str(value or "channels_last").lower() if value is None or isinstance(value, str) else ""
    if data_format not in {"channels_first", "channels_last"}:
        raise ValueError(
            'The `data_format` argument must be one of "channels_first", "channels_last". Received: '
            + str(value)
        )
    return data_format


def normalize_padding(value: Any) -> Any:
    """Returns "valid", "same" or "causal"; raises ValueError for anything else."""
    if isinstance(value, (list, tuple)):
        return value
    padding = value.lower() if isinstance(value, str) else value
    if not isinstance(padding, str) or padding not in {"valid", "same", "causal"}:
        raise ValueError(
            'The `padding` argument must be a list/tuple or one of "valid", "same" (or "causal", only for `Conv1D). '
            "Received: " + str(padding)
        )
    return padding


def conv_output_length(
    input_length: Optional[int], filter_size: int, padding: str, stride: int, dilation: int = 1
) -> Optional[int]:
    """Returns the length after a convolution."""
    if input_length is None:
        return None
    dilated = filter_size + (filter_size - 1) * (dilation - 1)
    if padding in ("same", "causal"):
        length = input_length
    elif padding == "full":
        length = input_length + dilated - 1
    else:
        length = input_length - dilated + 1
    return (length + stride - 1) // stride


def conv_input_length(
    output_length: Optional[int], filter_size: int, padding: str, stride: int
) -> Optional[int]:
    """Returns the length before a convolution."""
    if output_length is None:
        return None
    pad = {"same": filter_size // 2, "valid": 0, "full": filter_size - 1}[padding]
    return (output_length - 1) * stride - 2 * pad + filter_size


def deconv_output_length(
    input_length: Any,
    filter_size: int,
    padding: str,
    output_padding: Any = None,
    stride: int = 0,
    dilation: int = 1,
) -> Any:
    """Returns the length after a transposed convolution."""
    if input_length is None:
        return None
    filter_size = filter_size + (filter_size - 1) * (dilation - 1)
    length = input_length * stride
    if padding == "valid":
        length = length + max(filter_size - stride, 0)
    elif padding == "full":
        length = length - (stride + filter_size - 2)
    return length


def smart_cond(pred: Any, true_fn: Any = None, false_fn: Any = None, name: Optional[str] = None) -> Any:
    """Calls one of the functions when `pred` is known, and makes a `cond` otherwise."""
    if isinstance(pred, variables.Variable):
        return control_flow_ops.cond(pred, true_fn=true_fn, false_fn=false_fn, name=name)
    value = constant_value(pred)
    if value is not None:
        return true_fn() if value else false_fn()
    return control_flow_ops.cond(pred, true_fn=true_fn, false_fn=false_fn, name=name)


def constant_value(pred: Any) -> Optional[bool]:
    """Returns the value of a predicate (bool, 0, 1, tensor) when it is known, else None; TypeError for other types."""
    if isinstance(pred, bool):
        return pred
    if isinstance(pred, int) and pred in (0, 1):
        return bool(pred)
    if isinstance(pred, variables.Variable):
        return None
    if isinstance(pred, ops.Tensor):
        value = tensor_util.constant_value(pred)
        return None if value is None else bool(value)
    raise TypeError("`pred` must be a Tensor, or a Python bool, or 1 or 0. Found instead: %s" % type(pred))


def object_list_uid(object_list: Any) -> str:
    """Returns a text that is unique for a list of objects."""
    from millrace.python.util import nest

    return ", ".join(str(abs(id(x))) for x in nest.flatten(object_list))
