# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Layers: what they compute, what variables they make, how they share and regularize them."""

import copy
import numpy as np
import pytest

import millrace as tf

RNG = np.random.RandomState(11)


def run(fetch, feed=None):
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        return sess.run(fetch, feed)


def names(variables=None):
    return [v.op.name for v in (tf.trainable_variables() if variables is None else variables)]


def test_dense():
    x = RNG.randn(2, 3, 4).astype(np.float32)
    y = tf.layers.dense(x, 5, activation=tf.nn.relu, bias_initializer=tf.constant_initializer(0.1))
    assert y.get_shape().as_list() == [2, 3, 5] and names() == ["dense/kernel", "dense/bias"]
    got, kernel, bias = run([y] + tf.trainable_variables())
    np.testing.assert_allclose(got, np.maximum(x @ kernel + bias, 0), rtol=1e-5, atol=1e-6)
    assert np.abs(kernel).max() <= np.sqrt(6 / 9) and (bias == np.float32(0.1)).all()


def test_names_are_unique_and_scopes_share():
    x = tf.ones([2, 3])
    for _ in range(2):
        tf.layers.dense(x, 2)
    tf.layers.dense(x, 2, name="mine")
    tf.layers.dense(x, 2, name="mine", reuse=True)
    with tf.variable_scope("scope"):
        tf.layers.dense(x, 2, use_bias=False)
    assert names() == [
        "dense/kernel",
        "dense/bias",
        "dense_1/kernel",
        "dense_1/bias",
        "mine/kernel",
        "mine/bias",
        "scope/dense/kernel",
    ]
    with pytest.raises(ValueError, match="already exists"):
        tf.layers.dense(x, 2, name="mine")
    with pytest.raises(ValueError):
        tf.layers.dense(x, 2, name="nobody", reuse=True)


def test_layer_objects():
    layer = tf.layers.Dense(4, name="d", kernel_regularizer=lambda w: tf.reduce_sum(w) * 0.5, trainable=True)
    x = tf.placeholder(tf.float32, [None, 3])
    assert not layer.built and layer.units == 4
    one, two = layer(x), layer.apply(x * 2.0)
    assert layer.built and len(layer.weights) == 2 and layer.trainable_variables == tf.trainable_variables()
    assert layer.kernel is layer.weights[0] and layer.bias is layer.weights[1] and layer.name == "d"
    assert len(layer.losses) == 1 and tf.losses.get_regularization_losses() == layer.losses
    assert layer.input_spec.axes == {-1: 3} and layer.count_params() == 16
    assert layer.compute_output_shape((5, 3)).as_list() == [5, 4]
    assert layer.get_input_at(0) is x and layer.get_output_at(1) is two and layer.scope_name == "d"
    got = run([one, two, layer.kernel, layer.losses[0]], {x: np.ones((1, 3))})
    np.testing.assert_allclose(got[1], 2 * got[0], rtol=1e-5)
    # The terms are up to 1, and their sum may be close to 0.
    np.testing.assert_allclose(got[3], got[2].sum() * 0.5, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError):
        layer(tf.ones([2, 5]))
    with pytest.raises(ValueError):
        tf.layers.Dense(3)(tf.placeholder(tf.float32))


def test_partitioned_constrained_and_typed_variables():
    with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(2)):
        tf.layers.dense(tf.ones([2, 4], tf.float64), 3)
    assert names() == [
        "s/dense/kernel/part_0",
        "s/dense/kernel/part_1",
        "s/dense/bias/part_0",
        "s/dense/bias/part_1",
    ]
    assert tf.trainable_variables()[0].dtype.base_dtype == tf.float64
    layer = tf.layers.Dense(2, kernel_constraint=lambda v: v / tf.reduce_sum(v), bias_constraint=tf.nn.relu)
    layer(tf.ones([1, 2]))
    assert (
        layer.kernel.constraint is layer.kernel_constraint and layer.bias.constraint is layer.bias_constraint
    )


def test_dropout_only_when_training():
    x = tf.ones([20, 50])
    training = tf.placeholder(tf.bool, [])
    fed = tf.layers.dropout(x, 0.4, training=training, seed=1)
    still, dropped = tf.layers.dropout(x, 0.4), tf.layers.dropout(
        x, 0.4, training=True, noise_shape=[None, 1], seed=2
    )
    with tf.Session() as sess:
        on = sess.run(fed, {training: True})
        off = sess.run(fed, {training: False})
        other, rows = sess.run([still, dropped])
    assert (off == 1).all() and (other == 1).all()
    np.testing.assert_allclose(np.unique(on), [0, 1 / 0.6], rtol=1e-5)
    assert (rows == rows[:, :1]).all()


def test_flatten():
    x = tf.placeholder(tf.float32, [None, 2, 3, 4])
    assert tf.layers.flatten(x).get_shape().as_list() == [None, 24]
    unknown = tf.placeholder(tf.float32, [5, None])
    assert tf.layers.flatten(unknown).get_shape().as_list() == [5, None]
    moved = tf.layers.flatten(x, data_format="channels_first")
    value = RNG.randn(2, 2, 3, 4).astype(np.float32)
    got = run(moved, {x: value})
    np.testing.assert_array_equal(got, value.transpose(0, 2, 3, 1).reshape(2, -1))


CONVOLUTIONS = [
    (tf.layers.conv1d, [2, 8, 3], [3, 3, 4], dict(filters=4, kernel_size=3), [2, 6, 4]),
    (
        tf.layers.conv1d,
        [2, 8, 3],
        [3, 3, 4],
        dict(filters=4, kernel_size=3, strides=2, padding="same"),
        [2, 4, 4],
    ),
    (tf.layers.conv1d, [2, 8, 3], [3, 3, 4], dict(filters=4, kernel_size=3, dilation_rate=2), [2, 4, 4]),
    (tf.layers.conv2d, [2, 8, 7, 3], [3, 2, 3, 4], dict(filters=4, kernel_size=(3, 2)), [2, 6, 6, 4]),
    (
        tf.layers.conv2d,
        [2, 8, 7, 3],
        [3, 3, 3, 4],
        dict(filters=4, kernel_size=3, strides=(2, 1), padding="same"),
        [2, 4, 7, 4],
    ),
    (tf.layers.conv3d, [2, 5, 5, 5, 2], [2, 2, 2, 2, 3], dict(filters=3, kernel_size=2), [2, 4, 4, 4, 3]),
    (
        tf.layers.conv2d_transpose,
        [2, 4, 4, 3],
        [3, 3, 5, 3],
        dict(filters=5, kernel_size=3, strides=2),
        [2, 9, 9, 5],
    ),
    (
        tf.layers.conv2d_transpose,
        [2, 4, 4, 3],
        [3, 3, 5, 3],
        dict(filters=5, kernel_size=3, strides=2, padding="same"),
        [2, 8, 8, 5],
    ),
    (
        tf.layers.conv3d_transpose,
        [1, 3, 3, 3, 2],
        [2, 2, 2, 4, 2],
        dict(filters=4, kernel_size=2),
        [1, 4, 4, 4, 4],
    ),
]


@pytest.mark.parametrize("number", range(len(CONVOLUTIONS)))
def test_convolution_shapes(number):
    make, shape, kernel, options, wanted = CONVOLUTIONS[number]
    y = make(tf.ones(shape), name="c", **options)
    kernel_var, bias = tf.trainable_variables()
    assert kernel_var.get_shape().as_list() == kernel and names() == ["c/kernel", "c/bias"]
    assert bias.get_shape().as_list() == [options["filters"]] and y.get_shape().as_list() == wanted
    assert list(run(y).shape) == wanted


def test_convolution_is_that_of_tf_nn():
    x = RNG.randn(2, 6, 6, 3).astype(np.float32)
    y = tf.layers.conv2d(
        x, 4, 3, padding="same", activation=tf.nn.tanh, bias_initializer=tf.constant_initializer(0.5)
    )
    kernel, bias = tf.trainable_variables()
    wanted = tf.tanh(tf.nn.conv2d(x, kernel, [1, 1, 1, 1], "SAME") + bias)
    got, expected = run([y, wanted])
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_separable_convolutions():
    x = RNG.randn(2, 6, 6, 3).astype(np.float32)
    y = tf.layers.separable_conv2d(x, 5, 3, depth_multiplier=2, padding="same", name="s")
    assert names() == ["s/depthwise_kernel", "s/pointwise_kernel", "s/bias"]
    depth, point, _ = tf.trainable_variables()
    got, expected = run([y, tf.nn.separable_conv2d(x, depth, point, [1, 1, 1, 1], "SAME")])
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    one = tf.layers.separable_conv1d(x[:, 0], 5, 3)
    assert one.get_shape().as_list() == [2, 4, 5]


def test_pooling():
    x = RNG.randn(2, 6, 6, 3).astype(np.float32)
    blocks = x.reshape(2, 3, 2, 3, 2, 3)
    largest, mean = run([tf.layers.max_pooling2d(x, 2, 2), tf.layers.average_pooling2d(x, 2, 2)])
    np.testing.assert_allclose(largest, blocks.max((2, 4)))
    np.testing.assert_allclose(mean, blocks.mean((2, 4)), rtol=1e-5, atol=1e-6)
    line = tf.layers.max_pooling1d(x[:, :, 0], 2, 2)
    cube = tf.layers.average_pooling3d(tf.ones([1, 4, 4, 4, 2]), 2, 2)
    first = tf.layers.max_pooling1d(x[:, :, 0].transpose(0, 2, 1), 2, 2, data_format="channels_first")
    got = run([line, cube, first])
    np.testing.assert_allclose(got[0], x[:, :, 0].reshape(2, 3, 2, 3).max(2))
    assert got[1].shape == (1, 2, 2, 2, 2)
    np.testing.assert_allclose(got[2], got[0].transpose(0, 2, 1))


@pytest.mark.parametrize("fused", [False, True, None])
@pytest.mark.parametrize("renorm", [False, True])
def test_batch_normalization(fused, renorm):
    if renorm and fused:
        pytest.skip("renormalization is not fused")
    x = RNG.randn(4, 3, 3, 2).astype(np.float32) * 2 + 1
    training = tf.placeholder(tf.bool, [])
    layer = tf.layers.BatchNormalization(epsilon=0.01, momentum=0.9, fused=fused, renorm=renorm, name="bn")
    y = layer.apply(tf.constant(x), training=training)
    assert names() == ["bn/gamma", "bn/beta"]
    assert names(layer.non_trainable_variables)[:2] == ["bn/moving_mean", "bn/moving_variance"]
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert updates and len(layer.updates) == len(updates)
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    size = x.size // 2
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        start = sess.run(y, {training: False})
        np.testing.assert_allclose(start, x / np.sqrt(1.01), rtol=1e-4, atol=1e-4)
        for _ in range(3):
            got, _ = sess.run([y, updates], {training: True})
        if not renorm:
            np.testing.assert_allclose(got, (x - mean) / np.sqrt(variance + 0.01), rtol=1e-3, atol=1e-3)
            kept = 0.9**3
            np.testing.assert_allclose(sess.run(layer.moving_mean), mean * (1 - kept), rtol=1e-3, atol=1e-5)
            grown = variance * (size / (size - 1) if layer.fused else 1.0)
            np.testing.assert_allclose(sess.run(layer.moving_variance), kept + grown * (1 - kept), rtol=1e-3)
        m, v = sess.run([layer.moving_mean, layer.moving_variance])
        after = sess.run(y, {training: False})
        np.testing.assert_allclose(after, (x - m) / np.sqrt(v + 0.01), rtol=1e-3, atol=1e-3)


def test_batch_normalization_of_matrices_and_axes():
    x = RNG.randn(5, 3).astype(np.float32)
    y = tf.layers.batch_normalization(
        x, training=True, gamma_initializer=tf.constant_initializer(2.0), center=False
    )
    first = tf.layers.batch_normalization(RNG.randn(2, 3, 4, 4).astype(np.float32), axis=1, training=True)
    got, other = run([y, first])
    np.testing.assert_allclose(got, 2 * (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(other.mean((0, 2, 3)), 0, atol=1e-4)
    with pytest.raises(ValueError):
        tf.layers.batch_normalization(x, axis=7)


def test_training_with_update_ops():
    x = tf.placeholder(tf.float32, [None, 4])
    hidden = tf.layers.batch_normalization(tf.layers.dense(x, 8), training=True)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.nn.relu(hidden), 1) - 1.0))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = tf.train.AdamOptimizer(0.05).minimize(loss)
    data = RNG.randn(32, 4)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        before = sess.run(loss, {x: data})
        for _ in range(60):
            sess.run(train, {x: data})
        assert sess.run(loss, {x: data}) < before / 10
        moving = tf.get_default_graph().get_tensor_by_name("batch_normalization/moving_mean:0")
        assert sess.run(moving).any()


def test_own_layer_and_network():
    class Scale(tf.layers.Layer):
        def build(self, input_shape):
            self.scale = self.add_variable(
                "scale", [int(input_shape[-1])], initializer=tf.constant_initializer(3.0)
            )
            self.frozen = self.add_weight("frozen", [], initializer=tf.zeros_initializer(), trainable=False)
            self.built = True

        def call(self, inputs):
            self.add_loss(tf.reduce_sum(self.scale), inputs=inputs)
            return inputs * self.scale

    layer = Scale(name="s")
    y = layer(tf.ones([2, 3]))
    assert names() == ["s/scale"] and len(layer.non_trainable_variables) == 1 and len(layer.losses) == 1
    got, loss = run([y, layer.losses[0]])
    assert (got == 3).all() and loss == 9
    layer.trainable = False
    assert layer.trainable_weights == [] and len(layer.non_trainable_weights) == 2


def test_layers_in_object_checkpoints(tmp_path):
    layer = tf.layers.Dense(2)
    layer(tf.ones([1, 3]))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        path = tf.train.Checkpoint(layer=layer).write(str(tmp_path / "c"), session=sess)
    assert [n for n, _ in tf.train.list_variables(path) if not n.startswith("_")] == [
        "layer/bias/.ATTRIBUTES/VARIABLE_VALUE",
        "layer/kernel/.ATTRIBUTES/VARIABLE_VALUE",
    ]


def test_input_checks():
    from millrace.python.layers import base, utils

    spec = tf.layers.InputSpec(min_ndim=2, axes={-1: 3})
    assert spec.min_ndim == 2 and base.InputSpec is tf.layers.InputSpec
    assert utils.normalize_tuple(3, 2, "k") == (3, 3) and utils.normalize_padding("SAME") == "same"
    with pytest.raises(ValueError):
        utils.normalize_tuple((1, 2, 3), 2, "k")
    with pytest.raises(ValueError):
        tf.layers.conv2d(tf.ones([1, 2]), 3, 3)
    with pytest.raises(ValueError):
        tf.layers.conv2d(tf.ones([1, 4, 4, 1]), 3, 3, data_format="none")
    with pytest.raises(ValueError):
        tf.layers.conv2d(tf.ones([1, 4, 4, 1]), 3, 3, strides=2, dilation_rate=2)


def test_layers_of_layers_are_tracked():
    from millrace.python.keras.engine import training
    from millrace.python.keras.layers import core

    class Two(training.Model):
        def __init__(self):
            super().__init__()
            self.first, self.second = core.Dense(3), core.Dense(1)

        def call(self, inputs):
            return self.second(self.first(inputs))

    model = Two()
    y = model(tf.ones([2, 4]))
    assert (
        y.get_shape().as_list() == [2, 1]
        and len(model.weights) == 4
        and model.layers == [model.first, model.second]
    )
    assert {name for name, _ in model._checkpoint_dependencies} == {"first", "second"}
    with pytest.raises(NotImplementedError):
        model.fit()
    with pytest.raises(AttributeError):
        model.none


def test_layers_that_were_called_are_copied():
    class Square(tf.layers.Layer):
        def build(self, shape):
            self.scale = self.add_variable("scale", ())
            self.both = [self.scale, tf.ones([])]
            self.built = True

        def call(self, inputs):
            return tf.square(inputs) * self.scale

    with tf.Graph().as_default():
        layer = Square(name="my_layer")
        layer.private = tf.random_uniform(())
        layer.apply(tf.ones([5]))
        other = copy.deepcopy(layer)
        assert (other.name, other._scope.name) == (layer.name, layer._scope.name)
        assert (
            other.private is layer.private and other.scale is layer.scale and other.both[1] is layer.both[1]
        )
        other.apply(tf.ones([4]))
        assert other.get_output_shape_at(1) == (4,) and layer.output_shape == (5,)
