# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Short-time Fourier transforms."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from millrace.python.framework import dtypes, ops, tensor_util
from millrace.python.ops import array_ops, math_ops
from millrace.python.ops.signal import fft_ops, reconstruction_ops, shape_ops, window_ops


def stft(
    signals: Any,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Any = window_ops.hann_window,
    pad_end: bool = False,
    name: Optional[str] = None,
) -> Any:
    """Returns the transforms of the frames of signals.

    Args:
      signals: float32 [..., samples].
      frame_length: samples of a frame.
      frame_step: samples between the beginnings of frames.
      fft_length: the size of the transform; by default the next power of 2.
      window_fn: makes a window of (length, dtype=...), or None for no window.
      pad_end: whether the last frames are filled up with zeros.
      name: name scope.

    Returns:
      complex64 [..., frames, fft_length / 2 + 1].
    """
    with ops.name_scope(name, "stft", [signals, frame_length, frame_step]):
        signals = ops.convert_to_tensor(signals, name="signals")
        signals.shape.with_rank_at_least(1)
        frame_length = ops.convert_to_tensor(frame_length, name="frame_length")
        frame_length.shape.assert_has_rank(0)
        frame_step = ops.convert_to_tensor(frame_step, name="frame_step")
        frame_step.shape.assert_has_rank(0)
        if fft_length is None:
            fft_length = _enclosing_power_of_two(frame_length)
        else:
            fft_length = ops.convert_to_tensor(fft_length, name="fft_length")
        framed_signals = shape_ops.frame(signals, frame_length, frame_step, pad_end=pad_end)
        if window_fn is not None:
            framed_signals *= window_fn(frame_length, dtype=framed_signals.dtype)
        return fft_ops.rfft(framed_signals, [fft_length])


def inverse_stft_window_fn(
    frame_step: Any, forward_window_fn: Any = window_ops.hann_window, name: Optional[str] = None
) -> Any:
    """Returns a function of (frame_length, dtype) whose window makes `inverse_stft` the inverse of `stft`."""
    with ops.name_scope(name, "inverse_stft_window_fn", [forward_window_fn]):
        frame_step = ops.convert_to_tensor(frame_step, name="frame_step")
        frame_step.shape.assert_has_rank(0)

    def inverse_stft_window_fn_inner(frame_length: Any, dtype: Any) -> Any:
        with ops.name_scope(name, "inverse_stft_window_fn", [forward_window_fn]):
            frame_length = ops.convert_to_tensor(frame_length, name="frame_length")
            frame_length.shape.assert_has_rank(0)
            forward_window = forward_window_fn(frame_length, dtype=dtype)
            denom = math_ops.square(forward_window)
            overlaps = -(-frame_length // frame_step)
            denom = array_ops.pad(denom, [(0, overlaps * frame_step - frame_length)])
            denom = array_ops.reshape(denom, [overlaps, frame_step])
            denom = math_ops.reduce_sum(denom, 0, keepdims=True)
            denom = array_ops.tile(denom, [overlaps, 1])
            denom = array_ops.reshape(denom, [overlaps * frame_step])
            return forward_window / denom[:frame_length]

    return inverse_stft_window_fn_inner


def inverse_stft(
    stfts: Any,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Any = window_ops.hann_window,
    name: Optional[str] = None,
) -> Any:
    """Returns the signals, float32 [..., samples], of transforms, complex64 [..., frames, fft_length / 2 + 1].

    `window_fn` is that of the inverse: see `inverse_stft_window_fn`.
    """
    with ops.name_scope(name, "inverse_stft", [stfts]):
        stfts = ops.convert_to_tensor(stfts, name="stfts")
        stfts.shape.with_rank_at_least(2)
        frame_length = ops.convert_to_tensor(frame_length, name="frame_length")
        frame_length.shape.assert_has_rank(0)
        frame_step = ops.convert_to_tensor(frame_step, name="frame_step")
        frame_step.shape.assert_has_rank(0)
        if fft_length is None:
            fft_length = _enclosing_power_of_two(frame_length)
        else:
            fft_length = ops.convert_to_tensor(fft_length, name="fft_length")
            fft_length.shape.assert_has_rank(0)
        real_frames = fft_ops.irfft(stfts, [fft_length])
        # Frames may be shorter or longer than the transform.
        frame_length_static: Any = tensor_util.constant_value(frame_length)
        if (
            frame_length_static is None
            or real_frames.shape.ndims is None
            or real_frames.shape.as_list()[-1] is None
        ):
            real_frames = real_frames[..., :frame_length]
            real_frames_rank = array_ops.rank(real_frames)
            real_frames_shape = array_ops.shape(real_frames)
            paddings = array_ops.concat(
                [
                    array_ops.zeros([real_frames_rank - 1, 2], dtype=frame_length.dtype),
                    [[0, math_ops.maximum(0, frame_length - real_frames_shape[-1])]],
                ],
                0,
            )
            real_frames = array_ops.pad(real_frames, paddings)
        elif real_frames.shape.as_list()[-1] > frame_length_static:
            real_frames = real_frames[..., :frame_length_static]
        elif real_frames.shape.as_list()[-1] < frame_length_static:
            pad_amount = frame_length_static - real_frames.shape.as_list()[-1]
            real_frames = array_ops.pad(
                real_frames, [[0, 0]] * (real_frames.shape.ndims - 1) + [[0, pad_amount]]
            )
        if frame_length_static is not None and real_frames.shape.ndims is not None:
            real_frames.set_shape([None] * (real_frames.shape.ndims - 1) + [int(frame_length_static)])
        if window_fn is not None:
            real_frames *= window_fn(frame_length, dtype=stfts.dtype.real_dtype)
        return reconstruction_ops.overlap_and_add(real_frames, frame_step)


def _enclosing_power_of_two(value: Any) -> Any:
    """Returns 2^N, the smallest that is not less than `value`, an int32 scalar."""
    value_static = tensor_util.constant_value(value)
    if value_static is not None:
        return ops.convert_to_tensor(int(2 ** np.ceil(np.log(value_static) / np.log(2.0))), value.dtype)
    return math_ops.cast(
        math_ops.pow(
            2.0, math_ops.ceil(math_ops.log(math_ops.cast(value, dtypes.float32)) / math_ops.log(2.0))
        ),
        value.dtype,
    )
