# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions of tf.nn against NumPy."""

import numpy as np
import pytest

import millrace as tf

RNG = np.random.RandomState(5)


def run(fetch, feed=None):
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        return sess.run(fetch, feed)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def test_activations():
    x = RNG.randn(3, 4).astype(np.float32) * 3
    table = {
        "relu": np.maximum(x, 0),
        "relu6": np.clip(x, 0, 6),
        "elu": np.where(x > 0, x, np.expm1(x)),
        "selu": 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
        "softplus": np.log1p(np.exp(x)),
        "softsign": x / (1 + np.abs(x)),
        "sigmoid": 1 / (1 + np.exp(-x)),
        "tanh": np.tanh(x),
        "leaky_relu": np.where(x > 0, x, 0.2 * x),
        "swish": x / (1 + np.exp(-x)),
        "softmax": softmax(x),
        "log_softmax": np.log(softmax(x)),
        "crelu": np.concatenate([np.maximum(x, 0), np.maximum(-x, 0)], -1),
    }
    names = sorted(table)
    for name, got in zip(names, run([getattr(tf.nn, name)(x) for name in names])):
        np.testing.assert_allclose(got, table[name], rtol=2e-5, atol=1e-6, err_msg=name)


def test_softmax_over_any_axis():
    x = RNG.randn(2, 3, 4).astype(np.float32)
    for axis in (0, 1, -1):
        got = run([tf.nn.softmax(x, axis=axis), tf.nn.softmax(x, dim=axis), tf.nn.log_softmax(x, axis)])
        np.testing.assert_allclose(got[0], softmax(x, axis), rtol=1e-5)
        np.testing.assert_allclose(got[1], got[0])
        np.testing.assert_allclose(got[2], np.log(softmax(x, axis)), rtol=1e-4, atol=1e-6)


def test_cross_entropies():
    logits = RNG.randn(4, 5).astype(np.float32)
    labels = softmax(RNG.randn(4, 5)).astype(np.float32)
    ids = np.array([0, 4, 2, 2])
    z = labels
    table = [
        (
            tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits),
            -(labels * np.log(softmax(logits))).sum(1),
        ),
        (
            tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits),
            -(labels * np.log(softmax(logits))).sum(1),
        ),
        (
            tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels.T, logits=logits.T, axis=0),
            -(labels * np.log(softmax(logits))).sum(1),
        ),
        (
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=ids, logits=logits),
            -np.log(softmax(logits))[np.arange(4), ids],
        ),
        (
            tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=logits),
            np.maximum(logits, 0) - logits * z + np.log1p(np.exp(-np.abs(logits))),
        ),
        (
            tf.nn.weighted_cross_entropy_with_logits(targets=z, logits=logits, pos_weight=2.0),
            (1 - z) * logits + (1 + z) * (np.log1p(np.exp(-np.abs(logits))) + np.maximum(-logits, 0)),
        ),
        (
            tf.nn.log_poisson_loss(targets=z, log_input=logits),
            np.exp(logits) - logits * z,
        ),
    ]
    for got, wanted in zip(run([t for t, _ in table]), [w for _, w in table]):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=1e-6)
    with pytest.raises(ValueError):
        tf.nn.softmax_cross_entropy_with_logits(labels, logits)
    with pytest.raises(ValueError):
        tf.nn.sigmoid_cross_entropy_with_logits(labels=labels[:2], logits=logits)


def test_labels_have_a_gradient_only_in_the_second_version():
    logits, labels = tf.constant(RNG.randn(2, 3).astype(np.float32)), tf.constant(
        [[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]]
    )
    one = tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    two = tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits)
    assert tf.gradients(one, labels) == [None]
    grads = run(
        [tf.gradients(two, labels)[0], tf.gradients(one, logits)[0], tf.nn.log_softmax(logits), labels]
    )
    np.testing.assert_allclose(grads[0], -grads[2], rtol=1e-5)
    np.testing.assert_allclose(grads[1], np.exp(grads[2]) - grads[3], rtol=1e-5, atol=1e-6)


def test_moments_and_normalizations():
    x = RNG.randn(3, 4, 5).astype(np.float32)
    w = RNG.uniform(0, 1, (3, 4, 5)).astype(np.float32)
    mean, variance = tf.nn.moments(x, [0, 2])
    kept, _ = tf.nn.moments(x, [0, 2], keep_dims=True)
    weighted_mean, weighted_variance = tf.nn.weighted_moments(x, [0, 1, 2], w)
    counts, sums, squares, shift = tf.nn.sufficient_statistics(x, [0], shift=tf.constant(0.3))
    back = tf.nn.normalize_moments(counts, sums, squares, shift)
    normal = tf.nn.batch_normalization(x, 0.5, 2.0, 0.25, 3.0, 1e-3)
    l2 = tf.nn.l2_normalize(x, 2)
    got = run([mean, variance, kept, weighted_mean, weighted_variance, back, normal, l2, tf.nn.l2_loss(x)])
    np.testing.assert_allclose(got[0], x.mean((0, 2)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got[1], x.var((0, 2)), rtol=1e-5)
    assert got[2].shape == (1, 4, 1)
    m = (x * w).sum() / w.sum()
    np.testing.assert_allclose(got[3], m, rtol=1e-4)
    np.testing.assert_allclose(got[4], (w * (x - m) ** 2).sum() / w.sum(), rtol=1e-4)
    np.testing.assert_allclose(got[5][0], x.mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[5][1], x.var(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[6], (x - 0.5) / np.sqrt(2.001) * 3 + 0.25, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[7], x / np.sqrt((x**2).sum(2, keepdims=True)), rtol=1e-5)
    np.testing.assert_allclose(got[8], (x**2).sum() / 2, rtol=1e-5)


def test_fused_batch_norm():
    x = RNG.randn(2, 3, 3, 4).astype(np.float32)
    scale, offset = RNG.rand(4).astype(np.float32) + 0.5, RNG.randn(4).astype(np.float32)
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    y, m, v = run(tf.nn.fused_batch_norm(x, scale, offset, epsilon=1e-3))
    np.testing.assert_allclose(
        y, (x - mean) / np.sqrt(variance + 1e-3) * scale + offset, rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(m, mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(v, variance * 18 / 17, rtol=1e-4)
    tf.reset_default_graph()
    y, _, _ = run(tf.nn.fused_batch_norm(x, scale, offset, mean, variance, epsilon=1e-3, is_training=False))
    np.testing.assert_allclose(
        y, (x - mean) / np.sqrt(variance + 1e-3) * scale + offset, rtol=1e-3, atol=1e-4
    )


def conv2d(x, w, stride, padding):
    if padding == "SAME":
        pads = []
        for size, k in zip(x.shape[1:3], w.shape[:2]):
            total = max((-(-size // stride) - 1) * stride + k - size, 0)
            pads.append((total // 2, total - total // 2))
        x = np.pad(x, [(0, 0)] + pads + [(0, 0)])
    rows, cols = [(x.shape[i + 1] - w.shape[i]) // stride + 1 for i in (0, 1)]
    y = np.zeros((x.shape[0], rows, cols, w.shape[3]))
    for r in range(rows):
        for c in range(cols):
            patch = x[:, r * stride : r * stride + w.shape[0], c * stride : c * stride + w.shape[1]]
            y[:, r, c] = np.tensordot(patch, w, 3)
    return y


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions(padding, stride):
    x, w = RNG.randn(2, 7, 6, 3).astype(np.float32), RNG.randn(3, 2, 3, 4).astype(np.float32)
    wanted = conv2d(x, w, stride, padding)
    table = [
        tf.nn.conv2d(x, w, [1, stride, stride, 1], padding),
        tf.nn.conv2d(x, filters=w, strides=stride, padding=padding),
        tf.nn.convolution(x, w, padding, strides=[stride, stride]),
    ]
    for got in run(table):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
    if stride == 1:
        dilated = np.zeros((5, 3, 3, 4), np.float32)
        dilated[::2, ::2] = w
        for got in run(
            [tf.nn.atrous_conv2d(x, w, 2, padding), tf.nn.convolution(x, w, padding, dilation_rate=[2, 2])]
        ):
            np.testing.assert_allclose(got, conv2d(x, dilated, 1, padding), rtol=1e-4, atol=1e-4)


def test_depthwise_and_separable():
    x = RNG.randn(2, 5, 5, 3).astype(np.float32)
    depth, point = RNG.randn(3, 3, 3, 2).astype(np.float32), RNG.randn(1, 1, 6, 4).astype(np.float32)
    wanted = np.stack([conv2d(x[..., i : i + 1], depth[:, :, i : i + 1], 1, "SAME") for i in range(3)], -2)
    wanted = wanted.reshape(2, 5, 5, 6)
    one, two = run(
        [
            tf.nn.depthwise_conv2d(x, depth, [1, 1, 1, 1], "SAME"),
            tf.nn.separable_conv2d(x, depth, point, [1, 1, 1, 1], "SAME"),
        ]
    )
    np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(two, conv2d(wanted, point, 1, "SAME"), rtol=1e-3, atol=1e-3)


def test_transposed_convolution_is_the_gradient():
    x, w = tf.constant(RNG.randn(1, 6, 6, 2).astype(np.float32)), RNG.randn(3, 3, 2, 4).astype(np.float32)
    y = tf.nn.conv2d(x, w, [1, 2, 2, 1], "SAME")
    g = tf.constant(RNG.randn(1, 3, 3, 4).astype(np.float32))
    back = tf.nn.conv2d_transpose(g, w, [1, 6, 6, 2], [1, 2, 2, 1])
    got, wanted = run([back, tf.gradients(y, x, g)[0]])
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_pools():
    x = RNG.randn(2, 6, 6, 3).astype(np.float32)
    blocks = x.reshape(2, 3, 2, 3, 2, 3)
    got = run(
        [
            tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"),
            tf.nn.avg_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"),
            tf.nn.pool(x, [2, 2], "MAX", "VALID", strides=[2, 2]),
            tf.nn.max_pool_with_argmax(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"),
        ]
    )
    np.testing.assert_allclose(got[0], blocks.max((2, 4)))
    np.testing.assert_allclose(got[1], blocks.mean((2, 4)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[2], got[0])
    np.testing.assert_allclose(x[0].ravel()[got[3][1][0].ravel()], got[0][0].ravel())


def test_dropout():
    x = np.ones((100, 100), np.float32)
    p = tf.placeholder(tf.float32, [])
    half, rows, none, fed = (
        tf.nn.dropout(x, keep_prob=0.5, seed=1),
        tf.nn.dropout(x, rate=0.25, noise_shape=[100, 1], seed=2),
        tf.nn.dropout(x, 1.0),
        tf.nn.dropout(x, keep_prob=p),
    )
    a, b, d = run([half, rows, fed], {p: 0.1})
    assert none is not None and set(np.unique(a)) == {0.0, 2.0} and abs((a == 0).mean() - 0.5) < 0.02
    np.testing.assert_allclose(np.unique(b), [0.0, 4 / 3], rtol=1e-6)
    assert (b == b[:, :1]).all() and abs((d == 0).mean() - 0.9) < 0.02
    with pytest.raises(ValueError):
        tf.nn.dropout(x, keep_prob=1.5)
    with pytest.raises(ValueError):
        tf.nn.dropout(np.ones(3, np.int32), keep_prob=0.5)


def test_embeddings_of_partitions():
    table = RNG.randn(7, 3).astype(np.float32)
    ids = np.array([[0, 6], [3, 3]])
    mod = [table[i::3] for i in range(3)]
    div = [table[:3], table[3:5], table[5:]]
    got = run(
        [
            tf.nn.embedding_lookup(table, ids),
            tf.nn.embedding_lookup([tf.constant(m) for m in mod], ids),
            tf.nn.embedding_lookup([tf.constant(m) for m in div], ids, partition_strategy="div"),
            tf.nn.embedding_lookup(table, ids, max_norm=0.5),
        ]
    )
    for value in got[:3]:
        np.testing.assert_allclose(value, table[ids], rtol=1e-6)
    norms = np.linalg.norm(table[ids], axis=-1, keepdims=True)
    np.testing.assert_allclose(got[3], table[ids] * np.minimum(1, 0.5 / norms), rtol=1e-5)
    with pytest.raises(ValueError):
        tf.nn.embedding_lookup([table, table], ids, partition_strategy="none")
    with pytest.raises(ValueError):
        tf.nn.embedding_lookup([], ids)


def test_sparse_embeddings():
    table = RNG.randn(7, 3).astype(np.float32)
    ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], tf.constant([1, 3, 6], tf.int64), [3, 2])
    weights = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], [2.0, 1.0, 0.5], [3, 2])
    w = np.array([2.0, 1.0, 0.5])[:, None]
    picked = table[[1, 3, 6]]
    for combiner, divisor in (
        ("sum", lambda v: 1.0),
        ("mean", np.sum),
        ("sqrtn", lambda v: np.sqrt((v**2).sum())),
    ):
        weighted, plain = run(
            [
                tf.nn.embedding_lookup_sparse(table, ids, weights, combiner=combiner),
                tf.nn.embedding_lookup_sparse(table, ids, None, combiner=combiner),
            ]
        )
        ones = np.ones_like(w)
        for got, v in ((weighted, w), (plain, ones)):
            np.testing.assert_allclose(got[0], (picked[:2] * v[:2]).sum(0) / divisor(v[:2]), rtol=1e-5)
            np.testing.assert_allclose(got[2], (picked[2:] * v[2:]).sum(0) / divisor(v[2:]), rtol=1e-5)
    safe = run(tf.nn.safe_embedding_lookup_sparse(tf.constant(table), ids, combiner="sum"))
    np.testing.assert_allclose(safe, [picked[0] + picked[1], np.zeros(3), picked[2]], rtol=1e-5)


def test_sampled_losses_with_all_classes_are_full_losses():
    classes, batch, dim = 5, 3, 4
    weights, biases = RNG.randn(classes, dim).astype(np.float32), RNG.randn(classes).astype(np.float32)
    inputs, labels = RNG.randn(batch, dim).astype(np.float32), np.array([[1], [0], [4]])
    sampled = (tf.constant([0, 1, 2, 3, 4], tf.int64), tf.ones([batch, 1]), tf.ones([classes]))
    loss = tf.nn.sampled_softmax_loss(
        weights, biases, labels, inputs, classes, classes, sampled_values=sampled, remove_accidental_hits=True
    )
    nce = tf.nn.nce_loss(weights, biases, labels, inputs, classes, classes, sampled_values=sampled)
    got, got_nce = run([loss, nce])
    logits = inputs @ weights.T + biases
    rows = np.arange(batch)
    np.testing.assert_allclose(got, -np.log(softmax(logits))[rows, labels[:, 0]], rtol=1e-4)
    positive = np.log1p(np.exp(-logits[rows, labels[:, 0]]))
    np.testing.assert_allclose(got_nce, positive + np.log1p(np.exp(logits)).sum(1), rtol=1e-4)


def test_samplers():
    labels = tf.constant([[1], [2]], tf.int64)
    for sampler in (
        tf.nn.uniform_candidate_sampler(labels, 1, 4, True, 10, seed=1),
        tf.nn.log_uniform_candidate_sampler(labels, 1, 4, True, 10, seed=1),
        tf.nn.learned_unigram_candidate_sampler(labels, 1, 4, True, 10, seed=1),
        tf.nn.fixed_unigram_candidate_sampler(labels, 1, 4, True, 10, unigrams=[1.0] * 10, seed=1),
    ):
        found, true_count, count = run(sampler)
        assert len(set(found)) == 4 and found.min() >= 0 and found.max() < 10
        assert true_count.shape == (2, 1) and (count > 0).all()


def test_ctc():
    logits = np.log(np.array([[[0.6, 0.3, 0.1]], [[0.5, 0.2, 0.3]]], np.float32))
    labels = tf.SparseTensor([[0, 0]], tf.constant([0]), [1, 1])
    loss = tf.nn.ctc_loss(labels, logits, [2])
    decoded, neg = tf.nn.ctc_greedy_decoder(logits, [2])
    beam, scores = tf.nn.ctc_beam_search_decoder(logits, [2], merge_repeated=False)
    got = run([loss, decoded[0], neg, beam[0], scores])
    # Paths that give "0": 00, 0-, -0, where - is the blank, the last class.
    np.testing.assert_allclose(got[0], [-np.log(0.6 * 0.5 + 0.6 * 0.3 + 0.1 * 0.5)], rtol=1e-5)
    assert got[1].values.tolist() == [0]
    np.testing.assert_allclose(got[2], [[-np.log(0.6) - np.log(0.5)]], rtol=1e-5)
    assert got[3].values.tolist() == [0]
    np.testing.assert_allclose(got[4], [[np.log(0.53)]], rtol=1e-5)


def test_in_top_k_and_others():
    p = np.array([[0.1, 0.5, 0.4], [0.2, 0.1, 0.7]], np.float32)
    got = run(
        [
            tf.nn.in_top_k(p, [2, 2], 1),
            tf.nn.in_top_k(p, [2, 2], 2),
            tf.nn.top_k(p, 2),
            tf.nn.zero_fraction([0.0, 1.0, 0.0, 2.0]),
            tf.nn.xw_plus_b(p, np.ones((3, 2), np.float32), [1.0, 2.0]),
            tf.nn.relu_layer(p, -np.ones((3, 2), np.float32), [1.5, 0.0]),
            tf.nn.bias_add(p, [1.0, 2.0, 3.0]),
            tf.nn.lrn(np.ones((1, 1, 1, 3), np.float32), 1),
        ]
    )
    assert got[0].tolist() == [False, True] and got[1].tolist() == [True, True]
    assert got[2].indices.tolist() == [[1, 2], [2, 0]] and got[3] == 0.5
    np.testing.assert_allclose(got[4], np.tile([[2.0, 3.0]], (2, 1)), rtol=1e-6)
    np.testing.assert_allclose(got[5], np.tile([[0.5, 0.0]], (2, 1)), rtol=1e-6)
    np.testing.assert_allclose(got[6], p + [1, 2, 3], rtol=1e-6)
    np.testing.assert_allclose(got[7].ravel(), [1 / np.sqrt(3), 1 / 2, 1 / np.sqrt(3)], rtol=1e-5)
