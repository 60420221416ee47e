# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The transforms of ops.signal, under the module name of older versions."""
from __future__ import annotations

from millrace.python.ops.signal.dct_ops import dct, idct  # noqa: F401
from millrace.python.ops.signal.fft_ops import (  # noqa: F401
    _infer_fft_length_for_irfft,
    _infer_fft_length_for_rfft,
    _irfft_wrapper,
    _rfft_wrapper,
    fft,
    fft2d,
    fft3d,
    ifft,
    ifft2d,
    ifft3d,
    irfft,
    irfft2d,
    irfft3d,
    rfft,
    rfft2d,
    rfft3d,
)
