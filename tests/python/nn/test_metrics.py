# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Streaming metrics over two batches against NumPy over all of them."""

import numpy as np
import pytest

import millrace as tf

RNG = np.random.RandomState(7)
LABELS = RNG.randint(0, 2, (2, 10))
SCORES = np.round(RNG.uniform(0, 1, (2, 10)), 3).astype(np.float32)
WEIGHTS = RNG.randint(0, 4, (2, 10)).astype(np.float32)
ALL = LABELS.ravel(), SCORES.ravel(), WEIGHTS.ravel()


def stream(make, *batches):
    """The value and the last update of a metric that is fed batch after batch."""
    with tf.Graph().as_default(), tf.Session() as sess:
        feeds = [tf.placeholder(tf.as_dtype(b[0].dtype), b[0].shape) for b in batches]
        metric, update = make(*feeds)
        assert not tf.trainable_variables() and tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)
        assert set(tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)) <= set(tf.local_variables())
        sess.run(tf.local_variables_initializer())
        last = None
        for i in range(len(batches[0])):
            last = sess.run(update, {p: b[i] for p, b in zip(feeds, batches)})
        for _ in range(2):
            got = sess.run(metric)
            if np.shape(last) == np.shape(got):  # For matrices the update returns the matrix.
                np.testing.assert_allclose(got, last, rtol=1e-6)
        return got


def weighted(x, w):
    return (x * w).sum() / w.sum()


def predictions(threshold=0.5):
    return (SCORES > threshold).astype(np.int64)


def confusion(threshold, weights=None):
    label, score, _ = ALL
    w = np.ones_like(score) if weights is None else weights
    positive = score > threshold
    return [
        (w * c).sum()
        for c in (label * positive, (1 - label) * positive, (1 - label) * ~positive, label * ~positive)
    ]


def test_means():
    label, score, w = ALL
    error = score - label
    L = LABELS.astype(np.float32)
    for made, plain, with_weights in (
        (lambda l, s, w=None: tf.metrics.mean(s, w), score.mean(), weighted(score, w)),
        (
            lambda l, s, w=None: tf.metrics.mean_absolute_error(l, s, w),
            np.abs(error).mean(),
            weighted(np.abs(error), w),
        ),
        (
            lambda l, s, w=None: tf.metrics.mean_squared_error(l, s, w),
            (error**2).mean(),
            weighted(error**2, w),
        ),
        (
            lambda l, s, w=None: tf.metrics.root_mean_squared_error(l, s, w),
            np.sqrt((error**2).mean()),
            np.sqrt(weighted(error**2, w)),
        ),
    ):
        np.testing.assert_allclose(stream(made, L, SCORES), plain, rtol=1e-5)
        np.testing.assert_allclose(stream(made, L, SCORES, WEIGHTS), with_weights, rtol=1e-5)


def test_mean_tensor_and_relative_error():
    np.testing.assert_allclose(stream(tf.metrics.mean_tensor, SCORES), SCORES.mean(0), rtol=1e-6)
    np.testing.assert_allclose(
        stream(tf.metrics.mean_tensor, SCORES, WEIGHTS + 1),
        (SCORES * (WEIGHTS + 1)).sum(0) / (WEIGHTS + 1).sum(0),
        rtol=1e-5,
    )
    labels, normalizer = SCORES + 1, SCORES * 2 + 0.5
    np.testing.assert_allclose(
        stream(lambda l, p, n: tf.metrics.mean_relative_error(l, p, n), labels, SCORES, normalizer),
        (np.abs(SCORES - labels) / normalizer).mean(),
        rtol=1e-5,
    )


def test_percentage_below():
    np.testing.assert_allclose(
        stream(lambda s: tf.metrics.percentage_below(s, 0.3), SCORES), (SCORES < 0.3).mean(), rtol=1e-6
    )


def test_cosine_distance():
    a = RNG.randn(2, 4, 3).astype(np.float32)
    b = RNG.randn(2, 4, 3).astype(np.float32)
    a /= np.linalg.norm(a, axis=-1, keepdims=True)
    b /= np.linalg.norm(b, axis=-1, keepdims=True)
    np.testing.assert_allclose(
        stream(lambda x, y: tf.metrics.mean_cosine_distance(x, y, dim=1), a, b),
        1 - (a * b).sum(-1).mean(),
        rtol=1e-5,
    )


def test_accuracy():
    right = (ALL[0] == predictions().ravel()).astype(np.float32)
    np.testing.assert_allclose(stream(tf.metrics.accuracy, LABELS, predictions()), right.mean(), rtol=1e-6)
    np.testing.assert_allclose(
        stream(tf.metrics.accuracy, LABELS, predictions(), WEIGHTS), weighted(right, ALL[2]), rtol=1e-6
    )


def test_counts_precision_and_recall():
    for args, w in (((LABELS, predictions()), None), ((LABELS, predictions(), WEIGHTS), ALL[2])):
        tp, fp, tn, fn = confusion(0.5, w)
        for make, wanted in (
            (tf.metrics.true_positives, tp),
            (tf.metrics.false_positives, fp),
            (tf.metrics.true_negatives, tn),
            (tf.metrics.false_negatives, fn),
            (tf.metrics.precision, tp / (tp + fp)),
            (tf.metrics.recall, tp / (tp + fn)),
        ):
            np.testing.assert_allclose(stream(make, *args), wanted, rtol=1e-6)


def test_at_thresholds():
    thresholds = [0.2, 0.5, 0.8]
    counts = np.array([confusion(t) for t in thresholds])
    tp, fp, tn, fn = counts.T
    for make, wanted in (
        (tf.metrics.true_positives_at_thresholds, tp),
        (tf.metrics.false_positives_at_thresholds, fp),
        (tf.metrics.true_negatives_at_thresholds, tn),
        (tf.metrics.false_negatives_at_thresholds, fn),
        (tf.metrics.precision_at_thresholds, tp / (tp + fp)),
        (tf.metrics.recall_at_thresholds, tp / (tp + fn)),
    ):
        got = stream(lambda l, s, make=make: make(l, s, thresholds), LABELS, SCORES)
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def area(label, score, w):
    """Exact area under the ROC curve, by pairs; ties count half."""
    total = good = 0.0
    for i in np.nonzero(label)[0]:
        for j in np.nonzero(label == 0)[0]:
            weight = w[i] * w[j]
            total += weight
            good += weight * (1.0 if score[i] > score[j] else 0.5 if score[i] == score[j] else 0.0)
    return good / total


def test_auc():
    label, score, w = ALL
    many = 2001
    np.testing.assert_allclose(
        stream(lambda l, s: tf.metrics.auc(l, s, num_thresholds=many), LABELS, SCORES),
        area(label, score, np.ones_like(score)),
        atol=5e-3,
    )
    np.testing.assert_allclose(
        stream(lambda l, s, w: tf.metrics.auc(l, s, w, num_thresholds=many), LABELS, SCORES, WEIGHTS),
        area(label, score, w),
        atol=5e-3,
    )
    perfect = np.where(LABELS, 0.9, 0.1).astype(np.float32)
    for curve in ("ROC", "PR"):
        got = stream(
            lambda l, s: tf.metrics.auc(
                l,
                s,
                curve=curve,
                summation_method="careful_interpolation" if curve == "PR" else "trapezoidal",
            ),
            LABELS,
            perfect,
        )
        np.testing.assert_allclose(got, 1.0, atol=1e-3)
    with pytest.raises(ValueError):
        tf.metrics.auc([1], [0.5], curve="none")


def test_sensitivity_and_specificity():
    label, score, _ = ALL
    kepsilon = 1e-7
    thresholds = [0 - kepsilon] + [(i + 1) / 199 for i in range(198)] + [1 + kepsilon]
    curve = [confusion(t) for t in thresholds]
    sens = np.array([tp / (tp + fn) for tp, fp, tn, fn in curve])
    spec = np.array([tn / (tn + fp) for tp, fp, tn, fn in curve])
    got = stream(lambda l, s: tf.metrics.specificity_at_sensitivity(l, s, 0.6), LABELS, SCORES)
    np.testing.assert_allclose(got, spec[np.argmin(np.abs(sens - 0.6))], rtol=1e-5)
    got = stream(lambda l, s: tf.metrics.sensitivity_at_specificity(l, s, 0.6), LABELS, SCORES)
    assert np.min(np.abs(spec - 0.6)) == pytest.approx(
        abs(spec[np.argmin(np.abs(sens - got))] - 0.6), abs=0.11
    )


def test_mean_iou_and_per_class_accuracy():
    labels = RNG.randint(0, 3, (2, 12))
    found = RNG.randint(0, 3, (2, 12))
    matrix = np.zeros((3, 3))
    np.add.at(matrix, (labels.ravel(), found.ravel()), 1)
    inter = np.diag(matrix)
    np.testing.assert_allclose(
        stream(lambda l, p: tf.metrics.mean_iou(l, p, 3), labels, found),
        (inter / (matrix.sum(0) + matrix.sum(1) - inter)).mean(),
        rtol=1e-5,
    )
    np.testing.assert_allclose(
        stream(lambda l, p: tf.metrics.mean_per_class_accuracy(l, p, 3), labels, found),
        (inter / matrix.sum(1)).mean(),
        rtol=1e-5,
    )


def top(scores, k):
    return np.argsort(-scores, axis=-1, kind="stable")[..., :k]


def test_at_k():
    scores = RNG.permutation(2 * 6 * 5).reshape(2, 6, 5).astype(np.float32)
    labels = RNG.randint(0, 5, (2, 6, 1))
    flat_scores, flat_labels = scores.reshape(12, 5), labels.reshape(12, 1)
    best = top(flat_scores, 3)
    hits = (best == flat_labels).any(1)
    np.testing.assert_allclose(
        stream(lambda l, p: tf.metrics.recall_at_k(l, p, 3), labels, scores), hits.mean(), rtol=1e-6
    )
    np.testing.assert_allclose(
        stream(lambda l, p: tf.metrics.precision_at_k(l, p, 3), labels, scores), hits.sum() / 36, rtol=1e-6
    )
    average = [(1 / (np.argmax(b == l) + 1)) if (b == l).any() else 0.0 for b, l in zip(best, flat_labels)]
    np.testing.assert_allclose(
        stream(lambda l, p: tf.metrics.average_precision_at_k(l, p, 3), labels, scores),
        np.mean(average),
        rtol=1e-6,
    )
    ids = best.reshape(2, 6, 3).astype(np.int64)
    np.testing.assert_allclose(
        stream(lambda l, p: tf.metrics.recall_at_top_k(l, p), labels, ids), hits.mean(), rtol=1e-6
    )
    np.testing.assert_allclose(
        stream(lambda l, p: tf.metrics.precision_at_top_k(l, p), labels, ids), hits.sum() / 36, rtol=1e-6
    )
    chosen = 2
    mine = flat_labels[:, 0] == chosen
    np.testing.assert_allclose(
        stream(lambda l, p: tf.metrics.recall_at_k(l, p, 3, class_id=chosen), labels, scores),
        (hits & mine).sum() / mine.sum(),
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        stream(lambda l, p: tf.metrics.precision_at_k(l, p, 3, class_id=chosen), labels, scores),
        (hits & mine).sum() / (best == chosen).any(1).sum(),
        rtol=1e-6,
    )


def test_metrics_without_data_are_zero():
    value, _ = tf.metrics.mean(tf.placeholder(tf.float32, [2]))
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        assert sess.run(value) == 0.0


def test_collections_of_results():
    value, update = tf.metrics.mean([1.0], metrics_collections=["v"], updates_collections=["u"])
    assert tf.get_collection("v") == [value] and tf.get_collection("u") == [update]
