# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels that write rows by blocks, beside plain NumPy: rows of every length around a block, with others behind them or none."""
import numpy as np
import pytest

import millrace as tf


def _run(outputs):
    with tf.compat.v1.Session() as session:
        return session.run(outputs)


def _splits(lengths):
    return np.concatenate([[0], np.cumsum(lengths)])


LENGTHS = [
    [0],
    [1],
    [3, 0, 1, 2, 5, 4],
    list(range(40)),
    list(range(39, -1, -1)),
    [8] * 30,
    [16, 17] * 7,
    [300, 1, 0, 257],
]


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("splits_type", [np.int32, np.int64])
def test_ragged_range(lengths, splits_type):
    lengths = np.asarray(lengths)
    for dtype in (np.int32, np.int64, np.float32):
        for delta in (1, 3, -2):
            starts = np.arange(len(lengths)) * 5 - 7
            limits = starts + lengths * delta
            splits, values = _run(
                tf.raw_ops.RaggedRange(
                    starts=tf.constant(starts.astype(dtype)),
                    limits=tf.constant(limits.astype(dtype)),
                    deltas=tf.constant(np.asarray(delta, dtype)),
                    Tsplits=splits_type,
                )
            )
            wanted = [np.arange(n) * delta + s for s, n in zip(starts, lengths, strict=True)]
            assert splits.dtype == splits_type
            np.testing.assert_array_equal(splits, _splits(lengths))
            np.testing.assert_array_equal(values, np.concatenate(wanted).astype(dtype))


def test_ragged_range_at_the_ends_of_integers():
    for dtype in (np.int32, np.int64):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        values = _run(
            tf.raw_ops.RaggedRange(
                starts=tf.constant(np.asarray([high - 9, low, low], dtype)),
                limits=tf.constant(np.asarray([high, low + 3, high], dtype)),
                deltas=tf.constant(np.asarray([1, 1, high], dtype)),
            )
        )[1]
        wanted = [high - 9 + i for i in range(9)] + [low, low + 1, low + 2] + [low, low + high, low + 2 * high]
        np.testing.assert_array_equal(values, np.asarray(wanted, dtype))


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("splits_type", [np.int32, np.int64])
def test_ragged_tensor_to_sparse(lengths, splits_type):
    values = np.arange(sum(lengths), dtype=np.float32)
    indices, out, shape = _run(
        tf.raw_ops.RaggedTensorToSparse(
            rt_nested_splits=[_splits(lengths).astype(splits_type)], rt_dense_values=values
        )
    )
    wanted = [(row, k) for row, n in enumerate(lengths) for k in range(n)]
    np.testing.assert_array_equal(indices, np.asarray(wanted, np.int64).reshape(-1, 2))
    np.testing.assert_array_equal(out, values)
    np.testing.assert_array_equal(shape, [len(lengths), max(lengths)])


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("inner", [(), (3,)])
@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.complex128])
def test_ragged_gather(lengths, inner, dtype):
    random = np.random.RandomState(1)
    splits = _splits(lengths)
    values = random.randint(-99, 99, (sum(lengths), *inner)).astype(dtype)
    for indices in (
        random.randint(0, len(lengths), 50),
        np.arange(len(lengths)),
        np.arange(len(lengths))[::-1],
        np.zeros(0, int),
    ):
        out_splits, out = _run(
            tf.raw_ops.RaggedGather(
                params_nested_splits=[splits],
                params_dense_values=values,
                indices=indices.astype(np.int64),
                OUTPUT_RAGGED_RANK=1,
            )
        )
        rows = [values[splits[i] : splits[i + 1]] for i in indices]
        np.testing.assert_array_equal(out_splits[0], _splits([len(row) for row in rows]))
        np.testing.assert_array_equal(out, np.concatenate([*rows, values[:0]]))


def test_ragged_gather_of_two_depths():
    outer, inner = np.asarray([0, 2, 2, 5, 6]), _splits([3, 0, 9, 1, 20, 2])
    values = np.arange(35)
    for indices in ([3, 0, 2], [1], [2, 2, 1, 0]):
        out_splits, out = _run(
            tf.raw_ops.RaggedGather(
                params_nested_splits=[outer, inner],
                params_dense_values=values,
                indices=np.asarray(indices, np.int32),
                OUTPUT_RAGGED_RANK=2,
            )
        )
        rows = [range(outer[i], outer[i + 1]) for i in indices]
        taken = [row for group in rows for row in group]
        np.testing.assert_array_equal(out_splits[0], _splits([len(row) for row in rows]))
        np.testing.assert_array_equal(out_splits[1], _splits([inner[row + 1] - inner[row] for row in taken]))
        wanted = [values[inner[row] : inner[row + 1]] for row in taken]
        np.testing.assert_array_equal(out, np.concatenate([*wanted, values[:0]]))


def _ctc(scores, labels, blank, merge=True):
    """Loss and gradient of one sequence of [time, classes], in logarithms and double precision."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = scores.astype(np.float64)
        log_y = scores - scores.max(-1, keepdims=True)
        log_y -= np.log(np.exp(log_y).sum(-1, keepdims=True))
        path = [blank]
        for label in labels:
            path += [label, blank]
        steps, size = len(scores), len(path)
        stays = [merge or c == blank for c in path]
        jumps = [
            u > 1 and path[u] != blank and not (merge and path[u] == path[u - 2]) for u in range(size)
        ] + [False] * 2
        alpha = np.full((steps, size), -np.inf)
        beta = np.full((steps, size), -np.inf)
        for t in range(steps):
            for u in range(size):
                if t == 0:
                    alpha[t, u] = log_y[0, path[u]] if u < 2 else -np.inf
                    continue
                terms = [-np.inf] + [alpha[t - 1, u]] * stays[u]
                if u > 0:
                    terms.append(alpha[t - 1, u - 1])
                if jumps[u]:
                    terms.append(alpha[t - 1, u - 2])
                alpha[t, u] = np.logaddexp.reduce(terms)
                alpha[t, u] += log_y[t, path[u]]
        beta[-1, -2:] = 0
        for t in range(steps - 2, -1, -1):
            following = [beta[t + 1, u] + log_y[t + 1, path[u]] for u in range(size)] + [-np.inf] * 2
            for u in range(size):
                terms = [following[u]] * stays[u] + [following[u + 1], -np.inf]
                beta[t, u] = np.logaddexp.reduce(terms + [following[u + 2]] * jumps[u + 2])
        log_p = np.logaddexp.reduce(alpha[-1, -2:])
        gradient = np.exp(log_y)
        if log_p > -np.inf:
            for u in range(size):
                gradient[:, path[u]] -= np.exp(alpha[:, u] + beta[:, u] - log_p)
        return -log_p, gradient


@pytest.mark.parametrize("spread", [1.0, 30.0, 1e6])
@pytest.mark.parametrize("steps, classes", [(1, 2), (5, 3), (70, 33)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ctc_loss(spread, steps, classes, dtype):
    random = np.random.RandomState(steps)
    batch = 5
    scores = random.uniform(-spread, spread, (steps, batch, classes)).astype(dtype)
    lengths = [steps, steps, max(steps // 2, 1), steps, steps]
    # None, one, repeated, as many as there are steps for, and others.
    labels = [
        [],
        [0],
        [0] * (lengths[2] // 3),
        list(random.randint(0, classes - 1, steps // 2)),
        list(random.randint(0, classes - 1, steps // 4)),
    ]
    indices = [(b, k) for b, row in enumerate(labels) for k in range(len(row))]
    for merge in (True, False):
        loss, gradient = _run(
            tf.raw_ops.CTCLoss(
                inputs=tf.constant(scores),
                labels_indices=np.asarray(indices, np.int64).reshape(-1, 2),
                labels_values=np.asarray([c for row in labels for c in row], np.int32),
                sequence_length=np.asarray(lengths, np.int32),
                ctc_merge_repeated=merge,
            )
        )
        for b in range(batch):
            wanted, wanted_gradient = _ctc(scores[: lengths[b], b], labels[b], classes - 1, merge)
            tolerance = 1e-6 if dtype == np.float32 else 1e-11
            np.testing.assert_allclose(loss[b], wanted, rtol=tolerance, atol=tolerance)
            # The logarithms of the reference are rounded.
            tolerance = max(10 * tolerance, 1e-14 * wanted)
            np.testing.assert_allclose(gradient[: lengths[b], b], wanted_gradient, atol=tolerance)
            assert not gradient[lengths[b] :, b].any()


def test_ctc_loss_without_a_path():
    scores = np.zeros((3, 1, 3), np.float32)
    scores[:, :, 0] = -np.inf  # the label never comes
    inputs = {"labels_indices": [[0, 0]], "labels_values": [0], "sequence_length": [3]}
    loss, gradient = _run(tf.raw_ops.CTCLoss(inputs=scores, **inputs))
    assert loss[0] == np.inf
    np.testing.assert_allclose(gradient[:, 0], [[0, 0.5, 0.5]] * 3, atol=1e-7)
    scores[1, 0, 1] = np.nan
    loss, gradient = _run(tf.raw_ops.CTCLoss(inputs=scores, **inputs))
    assert np.isnan(gradient[1, 0]).all()
    scores[1, 0] = [0, np.nan, 0]
    scores[0, 0, 0] = 0
    assert np.isnan(_run(tf.raw_ops.CTCLoss(inputs=scores, **inputs))[0][0])


@pytest.mark.parametrize("lines", [1, 3, 4, 15, 33])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype, tolerance", [(np.float16, 2e-3), (np.float32, 4e-7), (np.float64, 1e-15)])
def test_cumulative_logsumexp(lines, exclusive, reverse, dtype, tolerance):
    random = np.random.RandomState(lines)
    largest = float(np.finfo(dtype).max)
    for spread in (1e-3, 3, 40, 2000):
        x = random.uniform(-spread, spread, (lines, 29)).astype(dtype)
        x[0, [3, 4]] = -np.inf
        x[-1, [0, 1]] = -np.inf
        x[0, [5, 20]] = [0, -spread]
        if lines > 3:
            x[1, [9, 11]] = [np.inf, -np.inf]
            x[2, [8, 10]] = [np.inf, np.inf]
            x[3, [7, 12]] = [-largest, largest]
        if lines > 4:
            x[4, 6] = np.nan
        out = _run(tf.math.cumulative_logsumexp(tf.constant(x), axis=1, exclusive=exclusive, reverse=reverse))
        assert out.dtype == dtype
        terms = x.astype(np.float64)[:, :: -1 if reverse else 1]
        wanted = np.logaddexp.accumulate(terms, axis=1)
        if exclusive:
            wanted = np.concatenate([np.full((lines, 1), np.finfo(dtype).min, np.float64), wanted[:, :-1]], 1)
        wanted = wanted[:, :: -1 if reverse else 1]
        np.testing.assert_allclose(out.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)


def test_cumulative_logsumexp_of_what_hardly_adds():
    x = np.zeros((16, 3))
    x[:, 1:] = [-40, -45]
    for dtype, tolerance in ((np.float32, 3e-7), (np.float64, 1e-15)):
        out = _run(tf.math.cumulative_logsumexp(tf.constant(x.astype(dtype)), axis=1))
        np.testing.assert_allclose(out[:, 1:], [[np.exp(-40), np.exp(-40) + np.exp(-45)]] * 16, rtol=tolerance)


@pytest.mark.parametrize("window, stride", [(256, 256), (200, 64), (31, 7), (2, 1)])
@pytest.mark.parametrize("channels, slices", [(1, 1), (1, 3), (1, 40), (2, 5)])
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("size", [1.0, 1e-12, 1e35])
def test_audio_spectrogram(window, stride, channels, slices, squared, size):
    if squared and size > 1:
        size = 1e15
    random = np.random.RandomState(window)
    samples = (size * random.uniform(-1, 1, (window + stride * (slices - 1), channels))).astype(np.float32)
    # A tone beside the noise, in one slice only.
    samples[: window // 2, 0] += np.float32(size) * np.sin(np.arange(window // 2)).astype(np.float32)
    out = _run(
        tf.raw_ops.AudioSpectrogram(
            input=samples, window_size=window, stride=stride, magnitude_squared=squared
        )
    )
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    length = 1 << (window - 1).bit_length()
    assert out.shape == (channels, slices, length // 2 + 1)
    for c in range(channels):
        for i in range(slices):
            piece = samples[i * stride : i * stride + window, c].astype(np.float64)
            wanted = np.abs(np.fft.rfft(piece * hann, length)) ** (2 if squared else 1)
            if not squared and size > 1:
                # The powers are numbers in single precision.
                wanted[wanted > np.sqrt(np.finfo(np.float32).max)] = np.inf
            largest = wanted[np.isfinite(wanted)].max(initial=0)
            if size < 1:
                largest = max(largest, 1e-22)  # powers that are not normal
            np.testing.assert_allclose(out[c, i], wanted, rtol=2e-6, atol=1e-6 * largest)


def test_huge_samples_do_not_change_other_slices():
    samples = np.random.RandomState(2).uniform(-1, 1, (16 * 20, 1)).astype(np.float32)
    quiet = _run(tf.raw_ops.AudioSpectrogram(input=samples, window_size=16, stride=16))
    samples[16 * 7 : 16 * 8] *= np.float32(1e37)
    loud = _run(tf.raw_ops.AudioSpectrogram(input=samples, window_size=16, stride=16))
    assert np.isinf(loud[0, 7]).any()
    np.testing.assert_array_equal(np.delete(loud, 7, axis=1), np.delete(quiet, 7, axis=1))


def test_audio_spectrogram_of_nan():
    samples = np.zeros((64, 1), np.float32)
    samples[40] = np.nan
    out = _run(tf.raw_ops.AudioSpectrogram(input=samples, window_size=16, stride=16))
    assert np.isnan(out[0, 2]).all()
    assert not out[0, [0, 1, 3]].any()


@pytest.mark.parametrize("spectra", [1, 15, 16, 35])
@pytest.mark.parametrize("bins, rate, channels, coefficients", [(129, 16000, 40, 13), (65, 8000, 20, 20)])
def test_mfcc(spectra, bins, rate, channels, coefficients):
    lower, upper = 20.0, 3500.0
    random = np.random.RandomState(spectra)
    powers = 10.0 ** random.uniform(-30, 20, (1, spectra, bins)).astype(np.float32)
    powers[0, spectra // 2] = 0
    out = _run(
        tf.raw_ops.Mfcc(
            spectrogram=powers,
            sample_rate=rate,
            upper_frequency_limit=upper,
            lower_frequency_limit=lower,
            filterbank_channel_count=channels,
            dct_coefficient_count=coefficients,
        )
    )

    def mel(hertz):
        return 1127.0 * np.log1p(hertz / 700.0)

    edges = np.linspace(mel(lower), mel(upper), channels + 2)
    hertz = 0.5 * rate / (bins - 1)
    weights = np.zeros((channels, bins))
    for i in range(int(1.5 + lower / hertz), int(upper / hertz) + 1):
        at = mel(i * hertz)
        above = int(np.searchsorted(edges, at))  # the edge after this bin
        falling = (edges[above] - at) / (edges[above] - edges[above - 1])
        if above >= 2:
            weights[above - 2, i] = falling
        if above - 1 < channels:
            weights[above - 1, i] = 1 - falling
    energies = np.sqrt(powers[0].astype(np.float64)) @ weights.T
    logs = np.log(np.maximum(energies, 1e-12))
    arc = np.pi / channels * (np.arange(channels) + 0.5)
    cosines = np.sqrt(2.0 / channels) * np.cos(np.arange(coefficients)[:, None] * arc)
    wanted = logs @ cosines.T
    np.testing.assert_allclose(out[0], wanted, atol=2e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.complex64, np.str_])
def test_list_diff(dtype):
    random = np.random.RandomState(3)
    for size, values in ((0, 5), (7, 5), (400, 300), (3000, 5000)):
        x, y = (random.randint(-values, values, n) for n in (size, size // 2))
        if dtype == np.float32:
            x, y = x / np.float32(7), y / np.float32(7)
            x[::5], y[::5] = np.nan, np.nan
            x[1::9], y[1::9] = 0.0, -0.0
        x, y = x.astype(dtype), y.astype(dtype)
        out, places = _run(tf.raw_ops.ListDiff(x=tf.constant(x), y=tf.constant(y)))
        known = {value for value in y.tolist() if value == value}
        wanted = [i for i, value in enumerate(x.tolist()) if value not in known]
        np.testing.assert_array_equal(places, wanted)
        np.testing.assert_array_equal(out.astype(dtype), x[wanted])


@pytest.mark.parametrize("columns", [0, 1, 5, 16, 67])
@pytest.mark.parametrize("adjoint_a", [False, True])
@pytest.mark.parametrize("adjoint_b", [False, True])
@pytest.mark.parametrize("index_type", [np.int32, np.int64])
def test_sparse_tensor_dense_mat_mul(columns, adjoint_a, adjoint_b, index_type):
    random = np.random.RandomState(columns)
    dense_a = random.uniform(-1, 1, (9, 7)) * (random.uniform(0, 1, (9, 7)) < 0.4)
    at = np.argwhere(dense_a)
    b = random.uniform(-1, 1, (9 if adjoint_a else 7, columns))

    def product(indices):
        return tf.raw_ops.SparseTensorDenseMatMul(
            a_indices=tf.constant(indices.astype(index_type)),
            a_values=dense_a[tuple(at.T)],
            a_shape=np.asarray([9, 7], np.int64),
            b=b.T.copy() if adjoint_b else b,
            adjoint_a=adjoint_a,
            adjoint_b=adjoint_b,
        )

    np.testing.assert_allclose(_run(product(at)), (dense_a.T if adjoint_a else dense_a) @ b, atol=1e-14)
    for row, place, value in ((0, 0, -1), (len(at) - 1, 0, 9), (3, 1, 7), (3, 1, -5)):
        wrong = at.copy()
        wrong[row, place] = value
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"{value}\) from index\[{row},{place}\]"):
            _run(product(wrong))
