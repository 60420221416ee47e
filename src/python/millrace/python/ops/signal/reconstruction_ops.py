# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Signals reconstructed from frames."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import ops, tensor_util
from millrace.python.ops import array_ops, math_ops


def overlap_and_add(signal: Any, frame_step: Any, name: Optional[str] = None) -> Any:
    """Adds frames [..., frames, frame_length] that begin `frame_step` samples apart.

    Returns:
      [..., (frames - 1) * frame_step + frame_length].

    Raises:
      ValueError: fewer than two axes, or a step that is no integer scalar.
    """
    with ops.name_scope(name, "overlap_and_add", [signal, frame_step]):
        signal = ops.convert_to_tensor(signal, name="signal")
        signal.shape.with_rank_at_least(2)
        frame_step = ops.convert_to_tensor(frame_step, name="frame_step")
        frame_step.shape.assert_has_rank(0)
        if not frame_step.dtype.is_integer:
            raise ValueError("frame_step must be an integer. Got %s" % frame_step.dtype)
        signal_shape = array_ops.shape(signal)
        outer_dimensions = signal_shape[:-2]
        frames, frame_length = signal_shape[-2], signal_shape[-1]
        output_length = frame_length + frame_step * (frames - 1)
        begins = array_ops.reshape(math_ops.range(frames) * frame_step, [frames, 1])
        places = array_ops.reshape(
            begins + array_ops.reshape(math_ops.range(frame_length), [1, frame_length]), [-1]
        )
        # Samples come first, so that samples at the same position form a segment.
        flat = array_ops.reshape(signal, [math_ops.reduce_prod(outer_dimensions), frames * frame_length])
        summed = math_ops.unsorted_segment_sum(array_ops.transpose(flat), places, output_length)
        result = array_ops.reshape(
            array_ops.transpose(summed), array_ops.concat([outer_dimensions, [output_length]], 0)
        )
        if signal.shape.ndims is not None:
            static_step: Any = tensor_util.constant_value(frame_step)
            count, length = signal.shape.as_list()[-2:]
            known = None if None in (static_step, count, length) else length + int(static_step) * (count - 1)
            result.set_shape(signal.shape[:-2].concatenate([known]))
        return result
