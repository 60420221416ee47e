# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The mel scale of frequencies."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import dtypes, ops, tensor_util
from millrace.python.ops import array_ops, math_ops
from millrace.python.ops.signal import shape_ops

_MEL_BREAK_FREQUENCY_HERTZ = 700.0
_MEL_HIGH_FREQUENCY_Q = 1127.0


def _mel_to_hertz(mel_values: Any, name: Optional[str] = None) -> Any:
    with ops.name_scope(name, "mel_to_hertz", [mel_values]):
        mel_values = ops.convert_to_tensor(mel_values)
        return _MEL_BREAK_FREQUENCY_HERTZ * (math_ops.exp(mel_values / _MEL_HIGH_FREQUENCY_Q) - 1.0)


def _hertz_to_mel(frequencies_hertz: Any, name: Optional[str] = None) -> Any:
    with ops.name_scope(name, "hertz_to_mel", [frequencies_hertz]):
        frequencies_hertz = ops.convert_to_tensor(frequencies_hertz)
        return _MEL_HIGH_FREQUENCY_Q * math_ops.log(1.0 + (frequencies_hertz / _MEL_BREAK_FREQUENCY_HERTZ))


def _validate_arguments(
    num_mel_bins: Any, sample_rate: Any, lower_edge_hertz: Any, upper_edge_hertz: Any, dtype: Any
) -> None:
    if num_mel_bins <= 0:
        raise ValueError("num_mel_bins must be positive. Got: %s" % num_mel_bins)
    if lower_edge_hertz < 0.0:
        raise ValueError("lower_edge_hertz must be non-negative. Got: %s" % lower_edge_hertz)
    if lower_edge_hertz >= upper_edge_hertz:
        raise ValueError(
            "lower_edge_hertz %.1f >= upper_edge_hertz %.1f" % (lower_edge_hertz, upper_edge_hertz)
        )
    if not isinstance(sample_rate, ops.Tensor):
        if sample_rate <= 0.0:
            raise ValueError("sample_rate must be positive. Got: %s" % sample_rate)
        if upper_edge_hertz > sample_rate / 2:
            raise ValueError(
                "upper_edge_hertz must not be larger than the Nyquist frequency (sample_rate / 2). Got %s for sample_rate: %s"
                % (upper_edge_hertz, sample_rate)
            )
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_floating:
        raise ValueError("dtype must be a floating point type. Got: %s" % dtype)


def linear_to_mel_weight_matrix(
    num_mel_bins: Any = 20,
    num_spectrogram_bins: Any = 129,
    sample_rate: Any = 8000,
    lower_edge_hertz: Any = 125.0,
    upper_edge_hertz: Any = 3800.0,
    dtype: Any = dtypes.float32,
    name: Optional[str] = None,
) -> Any:
    """Returns a matrix [num_spectrogram_bins, num_mel_bins] that sums a spectrogram in triangles on the mel scale.

    Raises:
      ValueError: a number is not positive, or the edges are out of order or above half the sample rate.
    """
    with ops.name_scope(name, "linear_to_mel_weight_matrix") as name:
        if isinstance(sample_rate, ops.Tensor):
            maybe_const = tensor_util.constant_value(sample_rate)
            if maybe_const is not None:
                sample_rate = maybe_const
        _validate_arguments(num_mel_bins, sample_rate, lower_edge_hertz, upper_edge_hertz, dtype)
        sample_rate = math_ops.cast(sample_rate, dtype, name="sample_rate")
        lower_edge_hertz = ops.convert_to_tensor(lower_edge_hertz, dtype, name="lower_edge_hertz")
        upper_edge_hertz = ops.convert_to_tensor(upper_edge_hertz, dtype, name="upper_edge_hertz")
        zero = ops.convert_to_tensor(0.0, dtype)
        # The lowest bin (0 Hz) has weight 0.
        bands_to_zero = 1
        nyquist_hertz = sample_rate / 2.0
        linear_frequencies = math_ops.linspace(zero, nyquist_hertz, num_spectrogram_bins)[bands_to_zero:]
        spectrogram_bins_mel = array_ops.expand_dims(_hertz_to_mel(linear_frequencies), 1)
        band_edges_mel = shape_ops.frame(
            math_ops.linspace(
                _hertz_to_mel(lower_edge_hertz), _hertz_to_mel(upper_edge_hertz), num_mel_bins + 2
            ),
            frame_length=3,
            frame_step=1,
        )
        lower_edge_mel, center_mel, upper_edge_mel = (
            array_ops.reshape(t, [1, num_mel_bins]) for t in array_ops.split(band_edges_mel, 3, axis=1)
        )
        lower_slopes = (spectrogram_bins_mel - lower_edge_mel) / (center_mel - lower_edge_mel)
        upper_slopes = (upper_edge_mel - spectrogram_bins_mel) / (upper_edge_mel - center_mel)
        mel_weights_matrix = math_ops.maximum(zero, math_ops.minimum(lower_slopes, upper_slopes))
        return array_ops.pad(mel_weights_matrix, [[bands_to_zero, 0], [0, 0]], name=name)
