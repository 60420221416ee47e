# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Frames of signals."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import ops, tensor_util
from millrace.python.ops import array_ops, math_ops
from millrace.python.ops.signal import util_ops  # noqa: F401


def _infer_frame_shape(signal: Any, frame_length: Any, frame_step: Any, pad_end: Any, axis: Any) -> Any:
    """Returns the shape of the frames as far as it is known, a list, or None."""
    frame_length = tensor_util.constant_value(frame_length)
    frame_step = tensor_util.constant_value(frame_step)
    axis = tensor_util.constant_value(axis)
    if signal.shape.ndims is None:
        return None
    if axis is None:
        return [None] * (signal.shape.ndims + 1)
    signal_shape = signal.shape.as_list()
    num_frames = None
    frame_axis = signal_shape[axis]
    outer_dimensions = signal_shape[:axis]
    inner_dimensions = signal_shape[axis:][1:]
    if signal_shape and frame_axis is not None:
        if frame_step is not None and pad_end:
            num_frames = max(0, -(-frame_axis // frame_step))
        elif frame_step is not None and frame_length is not None:
            num_frames = max(0, (frame_axis - frame_length + frame_step) // frame_step)
    return outer_dimensions + [num_frames, frame_length] + inner_dimensions


def frame(
    signal: Any,
    frame_length: Any,
    frame_step: Any,
    pad_end: bool = False,
    pad_value: Any = 0,
    axis: Any = -1,
    name: Optional[str] = None,
) -> Any:
    """Cuts `axis` of a signal into frames, which may overlap.

    Args:
      signal: [..., samples, ...] of any type.
      frame_length: samples of a frame, an integer.
      frame_step: samples between the beginnings of frames.
      pad_end: whether frames that begin before the end are filled up with `pad_value`, or left out.
      pad_value: a scalar of the type of the signal.
      axis: which axis.
      name: name scope.

    Returns:
      [..., frames, frame_length, ...].
    """
    with ops.name_scope(name, "frame", [signal, frame_length, frame_step, pad_value]):
        signal = ops.convert_to_tensor(signal, name="signal")
        frame_length = ops.convert_to_tensor(frame_length, name="frame_length")
        frame_step = ops.convert_to_tensor(frame_step, name="frame_step")
        axis = ops.convert_to_tensor(axis, name="axis")
        signal.shape.with_rank_at_least(1)
        frame_length.shape.assert_has_rank(0)
        frame_step.shape.assert_has_rank(0)
        axis.shape.assert_has_rank(0)
        result_shape = _infer_frame_shape(signal, frame_length, frame_step, pad_end, axis)
        axis = math_ops.range(array_ops.rank(signal))[axis]
        signal_shape = array_ops.shape(signal)
        signal_rank = array_ops.rank(signal)
        outer, length_samples, inner = array_ops.split(signal_shape, [axis, 1, signal_rank - 1 - axis])
        length_samples = array_ops.reshape(length_samples, [])
        num_outer, num_inner = array_ops.size(outer), array_ops.size(inner)
        if pad_end:
            pad_value = ops.convert_to_tensor(pad_value, signal.dtype)
            pad_value.shape.assert_has_rank(0)
            num_frames = -(-length_samples // frame_step)
            missing = math_ops.maximum(0, frame_length + frame_step * (num_frames - 1) - length_samples)
            paddings = array_ops.concat(
                [
                    array_ops.zeros([num_outer, 2], dtype=missing.dtype),
                    [[0, missing]],
                    array_ops.zeros([num_inner, 2], dtype=missing.dtype),
                ],
                0,
            )
            signal = array_ops.pad(signal, paddings, constant_values=pad_value)
        else:
            num_frames = math_ops.maximum(0, 1 + (length_samples - frame_length) // frame_step)
        begins = array_ops.reshape(math_ops.range(num_frames) * frame_step, [num_frames, 1])
        places = begins + array_ops.reshape(math_ops.range(frame_length), [1, frame_length])
        frames = array_ops.reshape(
            array_ops.gather(signal, array_ops.reshape(places, [-1]), axis=axis),
            array_ops.concat([outer, [num_frames, frame_length], inner], 0),
        )
        if result_shape:
            frames.set_shape(result_shape)
        return frames
