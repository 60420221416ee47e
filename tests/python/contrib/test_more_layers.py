# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""More of tf.contrib's layers, losses, cells and training, beside NumPy."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf

layers = tf.contrib.layers
slim = tf.contrib.slim


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        yield


def run(*fetches: Any) -> Any:
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        found = sess.run(fetches)
        return found[0] if len(found) == 1 else found


def test_normalizations():
    x = np.random.RandomState(0).rand(2, 3, 4, 6).astype(np.float32)

    def normal(axes, value=x):
        return (value - value.mean(axes, keepdims=True)) / np.sqrt(value.var(axes, keepdims=True) + 1e-6)

    np.testing.assert_allclose(run(layers.layer_norm(tf.constant(x))), normal((1, 2, 3)), atol=1e-3)
    np.testing.assert_allclose(run(layers.instance_norm(tf.constant(x))), normal((1, 2)), atol=1e-4)
    grouped = normal((1, 2, 4), x.reshape(2, 3, 4, 3, 2)).reshape(x.shape)
    np.testing.assert_allclose(run(layers.group_norm(tf.constant(x), groups=3)), grouped, atol=1e-4)
    unit = run(layers.unit_norm(tf.constant(x), 1))
    np.testing.assert_allclose((unit**2).sum(1), np.ones([2, 4, 6]), rtol=1e-4)
    assert [v.op.name for v in slim.get_model_variables("LayerNorm")] == ["LayerNorm/beta", "LayerNorm/gamma"]
    np.testing.assert_array_equal(run(layers.maxout(tf.constant(x), 2)), x.reshape(2, 3, 4, 2, 3).max(-1))
    with pytest.raises(ValueError, match="is not commensurate with 4 groups"):
        layers.group_norm(tf.constant(x), groups=4)


def test_convolutions_of_other_kinds():
    x = tf.constant(np.random.RandomState(0).rand(2, 8, 8, 3).astype(np.float32))
    y = layers.conv2d_transpose(x, 5, 3, stride=2, scope="up")
    z = slim.separable_conv2d(x, 4, [3, 3], depth_multiplier=2, scope="sep")
    w = layers.conv2d_in_plane(x, 3, activation_fn=None)
    v = layers.conv1d(tf.zeros([2, 8, 3]), 4, 3, scope="one")
    u = layers.conv3d(tf.zeros([2, 4, 4, 4, 3]), 4, 3, scope="three")
    names = [v.op.name for v in tf.trainable_variables() if v.op.name.startswith(("up", "sep"))]
    assert names == [
        "up/weights",
        "up/biases",
        "sep/depthwise_weights",
        "sep/pointwise_weights",
        "sep/biases",
    ]
    assert [t.shape.as_list() for t in (y, z, w, v, u)] == [
        [2, 16, 16, 5], [2, 8, 8, 4], [2, 8, 8, 3], [2, 8, 4], [2, 4, 4, 4, 4],
    ]  # fmt: skip
    got, kernel, image = run(w, "ConvInPlane/weights:0", x)
    padded = np.pad(image, [(0, 0), (1, 1), (1, 1), (0, 0)])
    expected = sum(kernel[i, j, 0, 0] * padded[:, i : i + 8, j : j + 8] for i in range(3) for j in range(3))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_embeddings_and_encodings():
    ids = tf.constant([[1, 2], [2, 0]])
    rows = layers.embed_sequence(ids, 4, 3, unique=True, scope="e")
    bag = layers.bow_encoder(ids, 4, 3, sparse_lookup=False, scope="b")
    table, got, mean, other = run("e/embeddings:0", rows, bag, "b/embeddings:0")
    np.testing.assert_array_equal(got, table[[[1, 2], [2, 0]]])
    np.testing.assert_allclose(mean, other[[[1, 2], [2, 0]]].mean(1), rtol=1e-6)
    sparse = layers.dense_to_sparse(ids)
    assert run(sparse).values.tolist() == [1, 2, 2]
    with pytest.raises(ValueError, match="Must specify vocab size"):
        layers.embed_sequence(ids)


def test_losses_have_predictions_first():
    logits, labels = np.array([[1.0, 2.0], [0.5, -1.0]], np.float32), np.array([[0, 1], [1, 0]])
    soft = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    expected = -np.log((soft * labels).sum(1))
    a = slim.losses.softmax_cross_entropy(tf.constant(logits), tf.constant(labels))
    b = slim.losses.sparse_softmax_cross_entropy(
        tf.constant(logits), tf.constant([[1], [0]]), weights=[1.0, 0.0]
    )
    c = tf.contrib.losses.mean_squared_error(tf.constant(logits), tf.constant(labels))
    total = slim.losses.get_total_loss()
    va, vb, vc, vt = run(a, b, c, total)
    np.testing.assert_allclose(
        [va, vb, vc], [expected.mean(), expected[0], ((logits - labels) ** 2).mean()], rtol=1e-5
    )
    np.testing.assert_allclose(vt, va + vb + vc, rtol=1e-5)


@pytest.mark.parametrize(
    "optimizer", ["SGD", tf.train.GradientDescentOptimizer, lambda rate: tf.train.AdamOptimizer(rate)]
)
def test_optimize_loss(optimizer):
    x = tf.get_variable("x", initializer=3.0)
    step = tf.train.get_or_create_global_step()
    op = layers.optimize_loss(
        x * x, step, 0.1, optimizer, clip_gradients=1.0, gradient_multipliers={"x:0": 2.0},
        learning_rate_decay_fn=lambda rate, at: tf.train.exponential_decay(rate, at, 100, 0.5),
        summaries=layers.OPTIMIZER_SUMMARIES,
    )  # fmt: skip
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(op) == 9.0
        np.testing.assert_allclose(sess.run(x), 2.9, rtol=1e-5)  # the clipped gradient is 1
        assert sess.run(step) == 1
        tags = {v.tag.split("/")[-1] for v in tf.Summary.FromString(sess.run(tf.summary.merge_all())).value}
        assert {"loss", "learning_rate_1", "gradient_norm", "clipped_gradient_norm"} <= tags
    with pytest.raises(ValueError, match="Optimizer name should be one of"):
        layers.optimize_loss(x * x, step, 0.1, "Other")


def test_train_ops_multiply_and_clip():
    x = tf.get_variable("x", initializer=[3.0, 4.0])
    loss = tf.reduce_sum(x * x) / 2
    op = slim.learning.create_train_op(
        loss, tf.train.GradientDescentOptimizer(1.0), clip_gradient_norm=1.0, gradient_multipliers={"x": 10.0}
    )
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(op) == 12.5
        np.testing.assert_allclose(sess.run(x), [3 - 0.6, 4 - 0.8], rtol=1e-5)
    with pytest.raises(ValueError, match="`gradient_multipliers` is empty"):
        slim.learning.multiply_gradients([(None, x)], {})


def test_training_ends_at_a_step_and_is_evaluated(tmp_path):
    x = tf.get_variable("x", initializer=3.0)
    op = tf.contrib.training.create_train_op(x * x, tf.train.GradientDescentOptimizer(0.25))
    folder = str(tmp_path / "train")
    tf.contrib.training.train(
        op, folder, hooks=[tf.train.StopAtStepHook(num_steps=3)], save_summaries_steps=None
    )
    with tf.Graph().as_default():
        x = tf.get_variable("x", shape=[])
        tf.train.get_or_create_global_step()
        values = tf.contrib.training.evaluate_repeatedly(
            folder, eval_ops=tf.identity(x), final_ops={"x": x}, max_number_of_evaluations=1,
            hooks=[tf.contrib.training.StopAfterNEvalsHook(2)], eval_interval_secs=0,
        )  # fmt: skip
    np.testing.assert_allclose(values["x"], 3.0 / 8)


@pytest.mark.parametrize("name", ["LayerNormBasicLSTMCell", "UGRNNCell", "NASCell"])
def test_cells_run_and_have_gradients(name):
    cell = getattr(tf.contrib.rnn, name)(4)
    outputs, _ = tf.nn.dynamic_rnn(cell, tf.ones([2, 3, 5]), dtype=tf.float32)
    gradients = tf.gradients(tf.reduce_sum(outputs**2), tf.trainable_variables())
    assert outputs.shape.as_list() == [2, 3, 4] and None not in gradients
    assert all(np.isfinite(g).all() for g in run(gradients))


def test_cells_around_others_and_of_images():
    rnn = tf.contrib.rnn
    cell = rnn.AttentionCellWrapper(rnn.BasicLSTMCell(4), attn_length=3)
    outputs, _ = tf.nn.dynamic_rnn(cell, tf.ones([2, 3, 5]), dtype=tf.float32, scope="a")
    highway = rnn.HighwayWrapper(rnn.GRUCell(5))
    mixed, _ = tf.nn.dynamic_rnn(highway, tf.ones([2, 3, 5]), dtype=tf.float32, scope="h")
    images = rnn.Conv2DLSTMCell(input_shape=[4, 4, 3], output_channels=2, kernel_shape=[3, 3])
    video, state = images(tf.ones([2, 4, 4, 3]), images.zero_state(2, tf.float32))
    stacked, forward, _ = rnn.stack_bidirectional_dynamic_rnn(
        [rnn.GRUCell(3), rnn.GRUCell(2)],
        [rnn.GRUCell(3), rnn.GRUCell(2)],
        tf.ones([2, 3, 5]),
        dtype=tf.float32,
    )
    found = run(outputs, mixed, video, stacked)
    assert [f.shape for f in found] == [(2, 3, 4), (2, 3, 5), (2, 4, 4, 2), (2, 3, 4)] and len(forward) == 2


def test_aliases_of_outputs():
    net = slim.conv2d(tf.zeros([1, 4, 4, 1]), 2, 3, scope="c", outputs_collections="ends")
    assert list(slim.utils.convert_collection_to_dict("ends").values()) == [net]
    assert slim.utils.two_element_tuple(3) == (3, 3) and slim.utils.n_positive_integers(3, 2) == (2, 2, 2)
    with pytest.raises(ValueError, match="Must be a list with 2 elements"):
        slim.utils.two_element_tuple([1, 2, 3])
