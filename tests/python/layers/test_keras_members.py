# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Members that layers and cells have of Keras: configurations, metrics, specifications, layers that own their variables."""

import numpy as np
import pytest

import millrace as tf


def test_layers_are_modules():
    layer = tf.layers.Dense(3)
    assert isinstance(layer, tf.Module)
    assert layer.call.__func__ is tf.layers.Dense.call


def test_input_spec_takes_only_input_specs():
    layer = tf.layers.Layer()
    assert layer.input_spec is None
    layer.input_spec = [tf.layers.InputSpec(ndim=2), None]
    with pytest.raises(TypeError, match="must be an instance of InputSpec"):
        layer.input_spec = 3


def test_metrics_of_layers():
    class WithMetrics(tf.layers.Layer):
        def call(self, inputs):
            self.add_metric(tf.reduce_max(inputs), name="largest")
            self.add_metric(inputs, name="mean", aggregation="mean")
            return inputs

    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None])
        layer = WithMetrics()
        layer(x)
        assert len(layer.metrics) == 2 and len(layer.updates) == 1
        session.run(tf.local_variables_initializer())
        session.run(layer.updates, {x: [1.0, 2.0]})
        session.run(layer.updates, {x: [6.0, 7.0]})
        largest, mean = session.run(layer.metrics, {x: [5.0, 9.0]})
        assert largest == 9.0 and mean == 4.0
        with pytest.raises(ValueError, match="only `mean`"):
            layer.add_metric(x, name="sum", aggregation="sum")
        with pytest.raises(ValueError, match="provide a name"):
            layer.add_metric(x)


def test_output_signature():
    layer = tf.layers.Dense(5)
    spec = layer.compute_output_signature(tf.TensorSpec([None, 7], tf.float32))
    assert spec == tf.TensorSpec([None, 5], tf.float32)
    with pytest.raises(TypeError, match="Only TensorSpec"):
        layer.compute_output_signature((2, 3))


@pytest.mark.parametrize(
    "layer",
    [
        lambda: tf.layers.Dense(4, activation=tf.nn.relu, use_bias=False, name="d"),
        lambda: tf.layers.Conv2D(
            4, (3, 2), strides=2, padding="same", kernel_initializer=tf.ones_initializer()
        ),
        lambda: tf.layers.BatchNormalization(axis=1, momentum=0.5, epsilon=0.1),
        lambda: tf.layers.MaxPooling2D(2, 3),
        lambda: tf.layers.Dropout(0.25, seed=3),
        lambda: tf.layers.Flatten(),
        lambda: tf.nn.rnn_cell.BasicRNNCell(4, activation="relu"),
        lambda: tf.nn.rnn_cell.GRUCell(4, kernel_initializer=tf.zeros_initializer()),
        lambda: tf.nn.rnn_cell.LSTMCell(4, use_peepholes=True, num_proj=3, forget_bias=0.5),
        lambda: tf.nn.rnn_cell.ResidualWrapper(tf.nn.rnn_cell.GRUCell(4)),
        lambda: tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(4), 0.5, seed=7),
        lambda: tf.nn.rnn_cell.DeviceWrapper(tf.nn.rnn_cell.GRUCell(4), "/cpu:0"),
        lambda: tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.GRUCell(4), tf.nn.rnn_cell.LSTMCell(5)]),
    ],
)
def test_layers_can_be_made_again_from_their_configurations(layer):
    first = layer()
    config = first.get_config()
    second = type(first).from_config(config)
    assert type(second) is type(first)
    assert second.get_config() == config


def test_configuration_of_dense():
    config = tf.layers.Dense(3, kernel_initializer=tf.constant_initializer(2.0), name="fc").get_config()
    assert config["name"] == "fc" and config["units"] == 3 and config["activation"] == "linear"
    assert config["kernel_initializer"]["class_name"] == "Constant"
    assert config["kernel_initializer"]["config"]["value"] == 2.0
    with tf.Graph().as_default(), tf.Session() as session:
        output = tf.layers.Dense.from_config(config)(tf.ones([1, 2]))
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run(output), [[4.0, 4.0, 4.0]])


def test_unknown_cells_in_configurations_are_refused():
    config = {"cell": {"class_name": "NoSuchCell", "config": {}}}
    with pytest.raises(ValueError, match="Unknown object: NoSuchCell"):
        tf.nn.rnn_cell.ResidualWrapper.from_config(config)


def test_layers_of_keras_style_own_their_variables():
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.layers.experimental.keras_style_scope():
            first = tf.layers.Dense(3, kernel_regularizer=tf.nn.l2_loss)
            second = tf.layers.Dense(3, name="own")
            with pytest.raises(ValueError, match="not allowed when keras style layers"):
                tf.layers.Dense(3, _reuse=True)
        third = tf.layers.Dense(3)
        with tf.variable_scope("ignored"):
            outputs = [layer(tf.ones([2, 2])) for layer in (first, second)]
        with pytest.raises(ValueError, match="not allowed when keras style layers"):
            first(tf.ones([2, 2]), scope="other")
        third(tf.ones([2, 2]))
        assert first.kernel.name == "ignored/dense/kernel:0"
        assert second.kernel.name == "ignored/own/kernel:0"
        assert third.kernel.name == "dense/kernel:0"
        assert len(first.losses) == 1
        assert not tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        session.run(tf.global_variables_initializer())
        assert session.run(outputs[0]).shape == (2, 3)
