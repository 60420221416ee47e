# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Each loss and its reductions against NumPy."""

import numpy as np
import pytest

import millrace as tf

PRED = np.array([[4.0, 8.0, 12.0], [8.0, 1.0, 3.0]], np.float32)
LABEL = np.array([[1.0, 9.0, 2.0], [-5.0, -2.0, 6.0]], np.float32)
LOGITS = np.array([[1.0, -2.0, 0.5], [3.0, 0.1, -1.0]], np.float32)
ONE_HOT = np.array([[0, 1, 0], [1, 0, 0]], np.float32)


def value(tensor, feed=None):
    with tf.Session() as sess:
        return sess.run(tensor, feed)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid_loss(labels, logits):
    return np.maximum(logits, 0) - logits * labels + np.log1p(np.exp(-np.abs(logits)))


def huber(labels, predictions, delta=1.0):
    error = np.abs(predictions - labels)
    return np.where(error <= delta, 0.5 * error**2, delta * error - 0.5 * delta**2)


ELEMENTS = {
    "absolute_difference": (
        lambda w, **k: tf.losses.absolute_difference(LABEL, PRED, w, **k),
        np.abs(PRED - LABEL),
    ),
    "mean_squared_error": (
        lambda w, **k: tf.losses.mean_squared_error(LABEL, PRED, w, **k),
        (PRED - LABEL) ** 2,
    ),
    "huber_loss": (
        lambda w, **k: tf.losses.huber_loss(LABEL, PRED, w, delta=2.0, **k),
        huber(LABEL, PRED, 2.0),
    ),
    "hinge_loss": (
        lambda w, **k: tf.losses.hinge_loss(ONE_HOT, LOGITS, w, **k),
        np.maximum(0, 1 - (2 * ONE_HOT - 1) * LOGITS),
    ),
    "log_loss": (
        lambda w, **k: tf.losses.log_loss(ONE_HOT, softmax(LOGITS), w, epsilon=1e-6, **k),
        -ONE_HOT * np.log(softmax(LOGITS) + 1e-6) - (1 - ONE_HOT) * np.log(1 - softmax(LOGITS) + 1e-6),
    ),
    "sigmoid_cross_entropy": (
        lambda w, **k: tf.losses.sigmoid_cross_entropy(ONE_HOT, LOGITS, w, **k),
        sigmoid_loss(ONE_HOT, LOGITS),
    ),
}


@pytest.mark.parametrize("name", sorted(ELEMENTS))
@pytest.mark.parametrize(
    "weights", [1.0, 2.3, [[1.2], [3.4]], [[1.0, 0.0, 2.0], [0.0, 0.0, 1.0]], 0.0], ids=repr
)
def test_elementwise_losses_with_every_reduction(name, weights):
    make, elements = ELEMENTS[name]
    w = np.broadcast_to(np.array(weights, np.float32), elements.shape)
    total, present = (elements * w).sum(), (w != 0).sum()
    wanted = {
        tf.losses.Reduction.NONE: elements * w,
        tf.losses.Reduction.SUM: total,
        tf.losses.Reduction.MEAN: total / w.sum() if w.sum() else 0.0,
        tf.losses.Reduction.SUM_OVER_BATCH_SIZE: total / elements.size,
        tf.losses.Reduction.SUM_BY_NONZERO_WEIGHTS: total / present if present else 0.0,
    }
    for reduction, expected in wanted.items():
        np.testing.assert_allclose(value(make(weights, reduction=reduction)), expected, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(
        value(make(weights)), wanted[tf.losses.Reduction.SUM_BY_NONZERO_WEIGHTS], rtol=2e-5, atol=1e-6
    )


def test_softmax_losses():
    rows = -np.log(softmax(LOGITS))[[0, 1], [1, 0]]
    np.testing.assert_allclose(
        value(tf.losses.softmax_cross_entropy(ONE_HOT, LOGITS)), rows.mean(), rtol=1e-6
    )
    np.testing.assert_allclose(
        value(tf.losses.sparse_softmax_cross_entropy([1, 0], LOGITS, weights=[1.0, 3.0])),
        (rows * [1, 3]).sum() / 2,
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        value(tf.losses.sparse_softmax_cross_entropy([[1], [0]], LOGITS)), rows.mean(), rtol=1e-6
    )
    smooth = ONE_HOT * 0.9 + 0.1 / 3
    wanted = (-np.log(softmax(LOGITS)) * smooth).sum(1).mean()
    np.testing.assert_allclose(
        value(tf.losses.softmax_cross_entropy(ONE_HOT, LOGITS, label_smoothing=0.1)), wanted, rtol=1e-6
    )
    smooth = ONE_HOT * 0.8 + 0.1
    np.testing.assert_allclose(
        value(tf.losses.sigmoid_cross_entropy(ONE_HOT, LOGITS, label_smoothing=0.2)),
        sigmoid_loss(smooth, LOGITS).mean(),
        rtol=1e-6,
    )


def test_cosine_distance():
    a = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    b = np.array([[0.6, 0.8], [0.0, -1.0]], np.float32)
    np.testing.assert_allclose(
        value(tf.losses.cosine_distance(a, b, axis=1)), ((1 - 0.6) + 2.0) / 2, rtol=1e-6
    )
    np.testing.assert_allclose(
        value(tf.losses.cosine_distance(a, b, dim=1, weights=[[1.0], [0.0]])), 0.4, rtol=1e-6
    )
    with pytest.raises(ValueError):
        tf.losses.cosine_distance(a, b)


def test_pairwise_squared_error():
    def reference(labels, predictions, weights):
        total = 0.0
        for l, p, w in zip(labels, predictions, weights):
            d = p - l
            n = len(d)
            total += (
                w * sum((d[i] - d[j]) ** 2 for i in range(n) for j in range(i + 1, n)) / (n * (n - 1) / 2)
            )
        return total  # TensorFlow sums over the batch.

    for weights in ([1.0, 1.0], [2.0, 0.5], [0.0, 3.0]):
        np.testing.assert_allclose(
            value(tf.losses.mean_pairwise_squared_error(LABEL, PRED, np.array(weights, np.float32)[:, None])),
            reference(LABEL, PRED, weights),
            rtol=1e-5,
        )


def test_losses_are_collected():
    with tf.name_scope("a"):
        one = tf.losses.absolute_difference(LABEL, PRED)
    two = tf.losses.mean_squared_error(LABEL, PRED, loss_collection=None)
    tf.losses.add_loss(two)
    regular = tf.constant(3.0)
    tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, regular)
    assert tf.losses.get_losses() == [one, two] and tf.losses.get_losses("a") == [one]
    assert tf.losses.get_regularization_losses() == [regular]
    found = value(
        [
            tf.losses.get_total_loss(),
            tf.losses.get_total_loss(False),
            one,
            two,
            tf.losses.get_regularization_loss(),
        ]
    )
    np.testing.assert_allclose(found[0], found[2] + found[3] + 3.0)
    np.testing.assert_allclose(found[1], found[2] + found[3])
    assert found[4] == 3.0


def test_compute_weighted_loss_gradient_and_wrong_arguments():
    x = tf.constant([1.0, 2.0])
    loss = tf.losses.compute_weighted_loss(x * x, weights=[1.0, 0.0])
    np.testing.assert_allclose(value(tf.gradients(loss, x)[0]), [2.0, 0.0])
    with pytest.raises(ValueError):
        tf.losses.compute_weighted_loss(x, reduction="none of these")
    with pytest.raises(ValueError):
        tf.losses.mean_squared_error(None, PRED)
    with pytest.raises(ValueError):
        tf.losses.mean_squared_error(LABEL, PRED[:, :2])
    with pytest.raises(ValueError):
        tf.losses.mean_squared_error(LABEL, PRED, weights=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError):
        tf.losses.Reduction.validate("x")
