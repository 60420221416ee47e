# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The names of tf.signal."""
from __future__ import annotations

from millrace.python.ops.signal.dct_ops import dct, idct  # noqa: F401
from millrace.python.ops.signal.fft_ops import (  # noqa: F401
    fft,
    fft2d,
    fft3d,
    fftshift,
    ifft,
    ifft2d,
    ifft3d,
    ifftshift,
    irfft,
    irfft2d,
    irfft3d,
    rfft,
    rfft2d,
    rfft3d,
)
from millrace.python.ops.signal.mel_ops import linear_to_mel_weight_matrix  # noqa: F401
from millrace.python.ops.signal.mfcc_ops import mfccs_from_log_mel_spectrograms  # noqa: F401
from millrace.python.ops.signal.reconstruction_ops import overlap_and_add  # noqa: F401
from millrace.python.ops.signal.shape_ops import frame  # noqa: F401
from millrace.python.ops.signal.spectral_ops import inverse_stft, inverse_stft_window_fn, stft  # noqa: F401
from millrace.python.ops.signal.window_ops import hamming_window, hann_window  # noqa: F401
