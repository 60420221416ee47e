# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The losses and buckets of tf.contrib.legacy_seq2seq against NumPy."""
from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

import millrace as tf

seq2seq = tf.contrib.legacy_seq2seq

_RANDOM = np.random.RandomState(5)
_LOGITS = _RANDOM.normal(size=(3, 2, 4)).astype(np.float32)
_TARGETS = np.array([[0, 3], [1, 2], [2, 2]])
_WEIGHTS = np.array([[1, 0.5], [2, 0], [0, 0.25]], np.float32)


def _losses(logits: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """[steps, batch]: weighted cross entropy of each step."""
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -np.take_along_axis(log_p, targets[..., None], -1)[..., 0] * weights


def _lists() -> List[List[Any]]:
    return [[tf.constant(step) for step in value] for value in (_LOGITS, _TARGETS, _WEIGHTS)]


@pytest.mark.parametrize("averages", [True, False])
def test_losses(averages: bool) -> None:
    want = _losses(_LOGITS, _TARGETS, _WEIGHTS).sum(0)
    if averages:
        want = want / _WEIGHTS.sum(0)
    with tf.Graph().as_default(), tf.Session() as sess:
        logits, targets, weights = _lists()
        by_example = seq2seq.sequence_loss_by_example(logits, targets, weights, averages)
        mean = seq2seq.sequence_loss(logits, targets, weights, averages)
        total = seq2seq.sequence_loss(logits, targets, weights, averages, average_across_batch=False)
        got = sess.run([by_example, mean, total])
        np.testing.assert_allclose(got[0], want, rtol=1e-5)
        np.testing.assert_allclose(got[1], want.mean(), rtol=1e-5)
        np.testing.assert_allclose(got[2], want.sum(), rtol=1e-5)
        for step in range(3):
            value = _LOGITS[step]
            assert tf.test.compute_gradient_error(logits[step], [2, 4], mean, [], value, 1e-2) < 2e-3


def test_loss_of_no_weight_and_other_loss() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        logits, targets, weights = _lists()
        zeros = [tf.zeros([2])] * 3
        assert sess.run(seq2seq.sequence_loss(logits, targets, zeros)) == 0
        first = lambda labels, logits: logits[:, 0] + tf.cast(labels, tf.float32)  # noqa: E731
        got = sess.run(seq2seq.sequence_loss_by_example(logits, targets, weights, False, first))
        np.testing.assert_allclose(got, ((_LOGITS[:, :, 0] + _TARGETS) * _WEIGHTS).sum(0), rtol=1e-5)


@pytest.mark.parametrize("per_example", [False, True])
def test_model_with_buckets(per_example: bool) -> None:
    buckets = [(1, 2), (2, 3)]

    def model(encoder: Any, decoder: Any) -> Any:
        scale = tf.get_variable("scale", [], initializer=tf.constant_initializer(2.0))
        return [scale * tf.add_n(encoder) + x for x in decoder], None

    with tf.Graph().as_default(), tf.Session() as sess:
        logits, targets, weights = _lists()
        outputs, losses = seq2seq.model_with_buckets(
            logits[:2], logits, targets, weights, buckets, model, per_example_loss=per_example
        )
        assert len(tf.global_variables()) == 1
        sess.run(tf.global_variables_initializer())
        for (m, n), got_outputs, got in zip(buckets, *sess.run([outputs, losses])):
            want = 2 * _LOGITS[:m].sum(0) + _LOGITS[:n]
            np.testing.assert_allclose(got_outputs, want, rtol=1e-5, atol=1e-6)
            loss = _losses(want, _TARGETS[:n], _WEIGHTS[:n]).sum(0) / _WEIGHTS[:n].sum(0)
            np.testing.assert_allclose(got, loss if per_example else loss.mean(), rtol=1e-5)


def test_errors() -> None:
    with tf.Graph().as_default():
        logits, targets, weights = _lists()
        with pytest.raises(
            ValueError, match="Lengths of logits, weights, and targets must be the same 3, 2, 3"
        ):
            seq2seq.sequence_loss_by_example(logits, targets, weights[:2])
        for n, what in ((0, "encoder_inputs"), (2, "targets"), (3, "weights")):
            arguments: List[Any] = [logits, logits, targets, weights]
            arguments[n] = arguments[n][:2]
            text = r"Length of %s \(2\) must be at least that of last bucket \(3\)" % what
            with pytest.raises(ValueError, match=text):
                seq2seq.model_with_buckets(*arguments, [(3, 3)], None)
