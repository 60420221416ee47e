# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Transforms of signals give NumPy's values."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf

RNG = np.random.RandomState(1)


def run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.local_variables_initializer())
        return session.run(fetches, feed)


X = RNG.randn(2, 64).astype(np.float32)


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_fourier_transforms() -> None:
    z = X.astype(np.complex64)
    close(run(tf.fft(z)), np.fft.fft(X))
    close(run(tf.ifft(tf.fft(z))), X)
    close(run(tf.fft2d(z)), np.fft.fft2(X))
    close(run(tf.signal.fft3d(z.reshape(2, 8, 8))), np.fft.fftn(X.reshape(2, 8, 8)))
    close(run(tf.spectral.rfft(X)), np.fft.rfft(X))
    close(run(tf.spectral.irfft(tf.spectral.rfft(X))), X)
    close(run(tf.signal.rfft(X, [100])), np.fft.rfft(X, 100))
    close(run(tf.signal.rfft(X, [10])), np.fft.rfft(X, 10))
    close(run(tf.signal.rfft2d(X)), np.fft.rfft2(X))
    close(run(tf.signal.irfft2d(tf.signal.rfft2d(X))), X)
    close(run(tf.signal.rfft3d(X.reshape(2, 8, 8))), np.fft.rfftn(X.reshape(2, 8, 8)))
    p = tf.placeholder(tf.float32)
    close(run(tf.signal.irfft(tf.signal.rfft(p)), {p: X}), X)
    for axes in (None, 1, [0, 1]):
        close(run(tf.signal.fftshift(X, axes)), np.fft.fftshift(X, axes))
        close(run(tf.signal.ifftshift(X, axes)), np.fft.ifftshift(X, axes))


def test_cosine_transforms() -> None:
    n = np.arange(64)
    matrix = 2 * np.cos(np.pi * np.outer(n, 2 * n + 1) / 128)
    close(run(tf.signal.dct(X)), X @ matrix.T)
    ortho = matrix / np.sqrt(2 * 64)
    ortho[0] /= np.sqrt(2)
    close(run(tf.spectral.dct(X, norm="ortho")), X @ ortho.T)
    close(run(tf.spectral.idct(tf.spectral.dct(X, norm="ortho"), norm="ortho")), X)
    close(run(tf.signal.idct(tf.signal.dct(X))) / 128, X)
    close(run(tf.signal.idct(tf.signal.dct(X, type=1), type=1)) / (2 * 63), X)
    close(run(tf.signal.dct(X, n=32)), run(tf.signal.dct(X[:, :32])))
    for kwargs, text in (
        ({"type": 4}, "Only Types I, II and III \\(I\\)DCT are supported."),
        ({"norm": "x"}, "Unknown normalization. Expected None or 'ortho', got: x"),
        ({"type": 1, "norm": "ortho"}, "Normalization is not supported for the Type-I DCT."),
        ({"n": 0}, "n should be a positive integer or None"),
    ):
        with pytest.raises(ValueError, match=text):
            tf.signal.dct(X, **kwargs)
    with pytest.raises(NotImplementedError, match="axis must be -1. Got: 0"):
        tf.signal.dct(X, axis=0)


def test_frames() -> None:
    x = np.arange(10)
    assert run(tf.signal.frame(x, 4, 3)).tolist() == [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]]
    padded = tf.signal.frame(x, 4, 3, pad_end=True, pad_value=-1)
    assert padded.shape == [4, 4] and run(padded)[-1].tolist() == [9, -1, -1, -1]
    assert (
        run(tf.signal.frame(np.arange(12).reshape(6, 2), 2, 2, axis=0)).tolist()
        == np.arange(12).reshape(3, 2, 2).tolist()
    )
    p = tf.placeholder(tf.float32, [None])
    assert run(tf.signal.frame(p, 3, 2), {p: np.arange(6.0)}).tolist() == [[0, 1, 2], [2, 3, 4]]
    added = tf.signal.overlap_and_add([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], 2)
    assert added.shape == [5] and run(added).tolist() == [1, 2, 7, 5, 6]


def test_windows() -> None:
    n = np.arange(8)
    close(run(tf.signal.hann_window(8)), 0.5 - 0.5 * np.cos(2 * np.pi * n / 8))
    close(run(tf.signal.hamming_window(8, periodic=False)), np.hamming(8))
    assert run(tf.signal.hann_window(1)).tolist() == [1]
    with pytest.raises(ValueError, match="dtype must be a floating point type."):
        tf.signal.hann_window(8, dtype=tf.int32)


def test_short_time_transforms() -> None:
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(16) / 16)
    frames = np.lib.stride_tricks.sliding_window_view(X, 16, 1)[:, ::4]
    spectrum = tf.signal.stft(X, 16, 4)
    assert spectrum.shape == [2, 13, 9]
    close(run(spectrum), np.fft.rfft(frames * window))
    back = tf.signal.inverse_stft(spectrum, 16, 4, window_fn=tf.signal.inverse_stft_window_fn(4))
    assert back.shape == [2, 64]
    close(run(back)[:, 12:-12], X[:, 12:-12])


def test_mel_scale() -> None:
    weights = run(tf.signal.linear_to_mel_weight_matrix(10, 65, 8000, 100.0, 3000.0))
    hz = np.linspace(0, 4000, 65)
    mel = 1127 * np.log(1 + hz / 700)
    edges = np.linspace(1127 * np.log(1 + 100 / 700), 1127 * np.log(1 + 3000 / 700), 12)
    want = np.maximum(
        0,
        np.minimum(
            (mel[:, None] - edges[:-2]) / np.diff(edges)[:-1], (edges[2:] - mel[:, None]) / np.diff(edges)[1:]
        ),
    )
    want[0] = 0
    np.testing.assert_allclose(weights, want, atol=1e-4)
    close(run(tf.signal.mfccs_from_log_mel_spectrograms(X)), run(tf.signal.dct(X)) / np.sqrt(128))
    with pytest.raises(ValueError, match="num_mel_bins must be positive. Got: 0"):
        tf.signal.linear_to_mel_weight_matrix(0)
    with pytest.raises(ValueError, match="lower_edge_hertz 200.0 >= upper_edge_hertz 10.0"):
        tf.signal.linear_to_mel_weight_matrix(lower_edge_hertz=200.0, upper_edge_hertz=10.0)


def test_gradients() -> None:
    x = tf.constant(X)
    (grad,) = tf.gradients(tf.reduce_sum(tf.square(tf.abs(tf.signal.rfft(x)))), x)
    spectrum = np.fft.rfft(X)
    np.testing.assert_allclose(run(tf.reduce_sum(grad * x)), 2 * np.sum(np.abs(spectrum) ** 2), rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(1, 256), (40, 256), (5, 3, 90), (3, 20, 34, 17), (2, 8, 16, 32), (9, 37)])
def test_transforms_of_many_lines_are_as_exact_as_their_type(dtype: Any, shape: tuple[int, ...]) -> None:
    rng = np.random.RandomState(4)
    x = (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    limit = 4e-7 if dtype == np.complex64 else 1e-15

    def compare(found: Any, expected: Any) -> None:
        assert np.linalg.norm(found - expected) <= limit * np.linalg.norm(expected)

    for rank in range(1, min(len(shape), 3) + 1):
        axes = list(range(-rank, 0))
        suffix = "" if rank == 1 else f"{rank}D"
        compare(run(getattr(tf.raw_ops, "FFT" + suffix)(input=tf.constant(x))), np.fft.fftn(x, axes=axes))
        compare(run(getattr(tf.raw_ops, "IFFT" + suffix)(input=tf.constant(x))), np.fft.ifftn(x, axes=axes))
        if dtype == np.complex64:
            real = x.real.copy()
            spectrum = np.fft.rfftn(real, axes=axes)
            lengths = list(shape[-rank:])
            compare(run(getattr(tf.raw_ops, "RFFT" + suffix)(input=real, fft_length=lengths)), spectrum)
            back = getattr(tf.raw_ops, "IRFFT" + suffix)(input=spectrum.astype(dtype), fft_length=lengths)
            compare(run(back), real)
