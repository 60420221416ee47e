# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Mel-frequency cepstral coefficients."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import dtypes, ops
from millrace.python.ops import array_ops, math_ops
from millrace.python.ops.signal import dct_ops


def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: Any, name: Optional[str] = None) -> Any:
    """Returns the coefficients [..., bins] of log magnitudes on the mel scale, float32 [..., bins].

    Raises:
      ValueError: there are no bins.
    """
    with ops.name_scope(name, "mfccs_from_log_mel_spectrograms", [log_mel_spectrograms]):
        log_mel_spectrograms = ops.convert_to_tensor(log_mel_spectrograms, dtype=dtypes.float32)
        if log_mel_spectrograms.shape.ndims and log_mel_spectrograms.shape.dims[-1].value is not None:
            num_mel_bins: Any = log_mel_spectrograms.shape.dims[-1].value
            if num_mel_bins == 0:
                raise ValueError("num_mel_bins must be positive. Got: %s" % log_mel_spectrograms)
        else:
            num_mel_bins = array_ops.shape(log_mel_spectrograms)[-1]
        dct2 = dct_ops.dct(log_mel_spectrograms, type=2)
        return dct2 * math_ops.rsqrt(math_ops.cast(num_mel_bins, dtypes.float32) * 2.0)
