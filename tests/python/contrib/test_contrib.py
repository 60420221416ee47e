# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The names of tf.contrib that are aliases of names in core."""
from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace import _namespace


def test_all_names_lead_somewhere() -> None:
    _namespace._names_of("contrib")
    missing = []
    for module in [m for m in _namespace._modules if m.startswith("contrib")]:
        for name in _namespace._names_of(module) or {}:
            try:
                _namespace.resolve(module, name)
            except AttributeError as e:
                missing.append((module, name, str(e)))
    assert not missing


def test_missing_names_list_similar_ones() -> None:
    with pytest.raises(
        AttributeError, match="only a part of tf.contrib. Similar names in core: .*tf.nn.ctc_loss"
    ):
        tf.contrib.layers.ctc_los
    with pytest.raises(ImportError, match="has no attribute 'timeseries'"):
        import millrace.contrib.timeseries  # noqa: F401
    with pytest.raises(ImportError, match="has no attribute 'embedding_column'"):
        from millrace.contrib.layers import embedding_column  # noqa: F401


def test_layers_and_scopes() -> None:
    slim = tf.contrib.slim
    with tf.Graph().as_default(), tf.Session() as sess:
        x, training = tf.placeholder(tf.float32, [None, 8, 8, 3]), tf.placeholder(tf.bool)
        with slim.arg_scope(
            [slim.conv2d, slim.fully_connected], weights_regularizer=slim.l2_regularizer(0.01)
        ):
            params = {"is_training": training, "decay": 0.5}
            with slim.arg_scope([slim.conv2d], normalizer_fn=slim.batch_norm, normalizer_params=params):
                y = slim.repeat(x, 2, slim.conv2d, 4, [3, 3], scope="conv")
            y = slim.max_pool2d(y, [2, 2], scope="pool")
            y = slim.fully_connected(slim.flatten(y), 5, activation_fn=None, scope="fc")
        names = [v.op.name for v in tf.trainable_variables()]
        assert names == [
            "conv/conv_1/weights", "conv/conv_1/BatchNorm/beta", "conv/conv_2/weights", "conv/conv_2/BatchNorm/beta",
            "fc/weights", "fc/biases",
        ]  # fmt: skip
        assert len(tf.losses.get_regularization_losses()) == 3
        assert len(slim.get_model_variables("conv/conv_1")) == 4
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        assert len(updates) == 4
        sess.run(tf.global_variables_initializer())
        image = np.random.RandomState(0).rand(2, 8, 8, 3)
        assert sess.run(y, {x: image, training: False}).shape == (2, 5)
        before = sess.run("conv/conv_1/BatchNorm/moving_variance:0")
        sess.run(updates, {x: image, training: True})
        after = sess.run("conv/conv_1/BatchNorm/moving_variance:0")
        assert (before == 1).all() and (after < 1).all()
    with pytest.raises(ValueError, match="is not decorated with @add_arg_scope"):
        with slim.arg_scope([len], a=1):
            pass


def test_fully_connected_computes_a_product() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        x = np.random.RandomState(0).rand(2, 3).astype(np.float32)
        y = tf.contrib.layers.fully_connected(
            tf.constant(x),
            4,
            weights_initializer=tf.ones_initializer(),
            biases_initializer=tf.constant_initializer(0.5),
        )
        sess.run(tf.global_variables_initializer())
        np.testing.assert_allclose(sess.run(y), np.repeat(x.sum(1, keepdims=True), 4, 1) + 0.5, rtol=1e-6)


def test_initializers_and_regularizers() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        value = sess.run(tf.contrib.layers.xavier_initializer(seed=1)([400, 200]))
        limit = np.sqrt(6.0 / 600)
        assert abs(value).max() <= limit and abs(value.var() - limit**2 / 3) < 1e-4
        w = tf.constant([[3.0, -4.0]])
        layers = tf.contrib.layers
        assert sess.run(layers.l2_regularizer(0.5)(w)) == 6.25
        assert sess.run(layers.l1_regularizer(0.5)(w)) == 3.5
        assert sess.run(layers.l1_l2_regularizer(0.5, 0.5)(w)) == 9.75
        assert layers.l2_regularizer(0.0)(w) is None
        with pytest.raises(ValueError, match="scale cannot be an integer"):
            layers.l2_regularizer(1)


def test_metrics_have_predictions_first() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        predictions, labels = tf.constant([1, 1, 0, 0]), tf.constant([1, 0, 0, 0])
        value, update = tf.contrib.metrics.streaming_precision(predictions, labels)
        sess.run(tf.local_variables_initializer())
        assert sess.run(update) == 0.5 and sess.run(value) == 0.5
        assert sess.run(tf.contrib.metrics.accuracy(predictions, labels)) == 0.75


def test_hyperparameters() -> None:
    hparams: Any = tf.contrib.training.HParams(rate=0.1, layers=[1, 2], name="x", flag=False)
    hparams.parse("rate=3,layers=[4,5],name=hello,flag=true")
    assert hparams.values() == {"rate": 3.0, "layers": [4, 5], "name": "hello", "flag": True}
    hparams.parse("layers[1]=7")
    assert hparams.layers == [4, 7]
    assert hparams.to_json(sort_keys=True) == '{"flag": true, "layers": [4, 7], "name": "hello", "rate": 3.0}'
    with pytest.raises(ValueError, match="Unknown hyperparameter type for other"):
        hparams.parse("other=1")
    with pytest.raises(ValueError, match="Could not parse hparam 'rate' of type 'float' with value 'text'"):
        hparams.parse("rate=text")
    with pytest.raises(ValueError, match="Multiple assignments to variable 'rate'"):
        hparams.parse("rate=1,rate=2")
    with pytest.raises(ValueError, match="Must not pass a list for single-valued parameter: rate"):
        hparams.set_hparam("rate", [1.0])
    with pytest.raises(ValueError, match="Hyperparameter name is reserved: rate"):
        hparams.add_hparam("rate", 1.0)
    assert "rate" in hparams and hparams.get("nothing", 5) == 5


def test_modules_inside_of_contrib_have_the_same_names() -> None:
    homes = {
        "framework.python.ops.variables": ("get_or_create_global_step", tf.train.get_or_create_global_step),
        "framework.python.ops": ("arg_scope", tf.contrib.framework.arg_scope),
        "framework.python.framework.checkpoint_utils": ("load_variable", tf.train.load_variable),
        "layers.python.layers.initializers": ("xavier_initializer", tf.contrib.layers.xavier_initializer),
        "layers.python.layers.regularizers": ("l2_regularizer", tf.contrib.layers.l2_regularizer),
        "layers.python.layers.layers": ("fully_connected", tf.contrib.layers.fully_connected),
        "rnn.python.ops.core_rnn_cell": ("GRUCell", tf.nn.rnn_cell.GRUCell),
        "training.python.training.hparam": ("HParams", tf.contrib.training.HParams),
    }
    for home, (name, same) in homes.items():
        module: Any = tf.contrib
        for part in home.split("."):
            module = getattr(module, part)
        assert getattr(module, name) is same, home
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        tf.contrib.layers.python.layers.layers.nothing


def test_batches_without_a_rest() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        batches = tf.data.Dataset.range(5).apply(tf.contrib.data.batch_and_drop_remainder(2))
        assert batches.output_shapes.as_list() == [2]
        padded = tf.data.Dataset.range(1, 4).map(lambda n: tf.range(n))
        padded = padded.apply(tf.contrib.data.padded_batch_and_drop_remainder(2, [None], np.int64(9)))
        value = batches.make_one_shot_iterator().get_next()
        assert [sess.run(value).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
        with pytest.raises(tf.errors.OutOfRangeError):
            sess.run(value)
        assert sess.run(padded.make_one_shot_iterator().get_next()).tolist() == [[0, 9], [0, 1]]


def test_loss_of_sequences() -> None:
    random = np.random.RandomState(3)
    logits, targets = random.randn(2, 3, 4), np.array([[0, 1, 2], [3, 0, 0]])
    weights = np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
    entropy = np.log(np.exp(logits).sum(2)) - np.take_along_axis(logits, targets[:, :, None], 2)[:, :, 0]
    entropy *= weights
    loss = functools.partial(
        tf.contrib.seq2seq.sequence_loss, tf.constant(logits), tf.constant(targets), tf.constant(weights)
    )
    with tf.Session() as sess:
        np.testing.assert_allclose(sess.run(loss()), entropy.sum() / weights.sum())
        each = sess.run(loss(average_across_timesteps=False, average_across_batch=False))
        np.testing.assert_allclose(each, entropy)
        over_time = sess.run(loss(average_across_batch=False))
        np.testing.assert_allclose(over_time, entropy.sum(1) / weights.sum(1))
        over_batch = sess.run(loss(average_across_timesteps=False))
        np.testing.assert_allclose(over_batch, entropy.sum(0) / weights.sum(0))
    with pytest.raises(ValueError, match="Logits must be a"):
        tf.contrib.seq2seq.sequence_loss(tf.ones([2, 3]), tf.constant(targets), tf.constant(weights))


def test_settings_of_the_projector(tmp_path: Any) -> None:
    projector: Any = tf.contrib.tensorboard.plugins.projector
    config = projector.ProjectorConfig(model_checkpoint_path="m.ckpt")
    embedding = config.embeddings.add(tensor_name="emb:0", metadata_path="names.tsv")
    embedding.sprite.single_image_dim.extend([28, 28])
    assert projector.ProjectorConfig.FromString(config.SerializeToString()) == config
    assert config.SerializeToString().startswith(b"\n\x06m.ckpt\x12")
    with tf.summary.FileWriter(str(tmp_path)) as writer:
        projector.visualize_embeddings(writer, config)
    text = (tmp_path / "projector_config.pbtxt").read_text()
    assert 'tensor_name: "emb:0"' in text and text.count("single_image_dim: 28") == 2


def test_slim_sums_up_variables(capsys):
    tf.get_variable("w", [3, 2])
    tf.get_variable("n", [], tf.int64)
    assert tf.contrib.slim.model_analyzer.analyze_vars(tf.global_variables(), print_info=True) == (7, 32)
    assert "w:0 (float32_ref 3x2) [6, bytes: 24]" in capsys.readouterr().out


def test_tables_of_contrib_take_a_mapping():
    lookup = tf.contrib.lookup
    index = lookup.index_table_from_tensor(mapping=tf.constant(["neg", "pos"]), default_value=7)
    word = lookup.index_to_string_table_from_tensor(mapping=["neg", "pos"], default_value="?")
    with tf.Session() as session:
        session.run(tf.tables_initializer())
        assert session.run(index.lookup(tf.constant(["pos", "neg", "other"]))).tolist() == [1, 0, 7]
        assert session.run(word.lookup(tf.constant([1, 5], tf.int64))).tolist() == [b"pos", b"?"]
    with pytest.raises(ValueError, match="mapping must be specified"):
        lookup.index_table_from_tensor(None)


def test_xavier_fills_the_parts_of_a_variable():
    whole = tf.get_variable(
        "w",
        [8, 12],
        initializer=tf.contrib.layers.xavier_initializer(),
        partitioner=tf.fixed_size_partitioner(2),
    )
    assert [part.shape.as_list() for part in whole] == [[4, 12], [4, 12]]
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        value = session.run(tf.convert_to_tensor(whole))
    limit = np.sqrt(6.0 / (4 + 12))  # the sizes are those of a part
    assert value.shape == (8, 12) and np.abs(value).max() <= limit and saver


def test_modules_that_defined_parts_of_packages_have_their_names() -> None:
    from tensorflow.contrib.eager.python import tfe
    from tensorflow.contrib.lookup import lookup_ops
    from tensorflow.contrib.rnn.python.ops import lstm_ops
    from tensorflow.contrib.slim.python.slim import learning
    from tensorflow.contrib.training.python.training import training

    assert learning.train is tf.contrib.slim.learning.train
    assert lstm_ops.LSTMBlockCell is tf.contrib.rnn.LSTMBlockCell
    assert training.create_train_op is tf.contrib.training.create_train_op
    assert tfe.GradientTape is tf.GradientTape
    assert lookup_ops.index_table_from_tensor is tf.contrib.lookup.index_table_from_tensor
    with pytest.raises(AttributeError, match="Millrace implements only a part of tf.contrib"):
        lstm_ops.nothing_like_it
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tensorflow.contrib.slim.python.slim.nets.nasnet")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tensorflow.contrib.tensor_forest.python.tensor_forest")


def test_values_and_checkpoints_are_assigned_to_variables(tmp_path: Any) -> None:
    framework = tf.contrib.framework
    with tf.Graph().as_default(), tf.Session() as session:
        a = tf.get_variable("scope/a", initializer=[1.0, 2.0])
        b = framework.local_variable(3.0, name="b")
        c = framework.global_variable(4.0, name="c")
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        path = tf.train.Saver([a]).save(session, str(tmp_path / "m"))
        assert (
            tf.local_variables() == [b]
            and tf.global_variables() == [a, c]
            and tf.trainable_variables() == [a]
        )
        op, feeds = framework.assign_from_values({"scope/a": [5, 6], "b": 7})
        session.run(op, feeds)
        assert session.run(a).tolist() == [5, 6] and session.run(b) == 7
        op, feeds = tf.contrib.slim.assign_from_checkpoint(path, [a])
        session.run(op, feeds)
        assert session.run(a).tolist() == [1, 2]
        framework.assign_from_values_fn({"c": 9})(session)
        assert session.run(c) == 9
        with pytest.raises(ValueError, match="missing variable"):
            framework.assign_from_checkpoint(path, [a, c])
        framework.assign_from_checkpoint(path, [a, c], ignore_missing_vars=True)
        with pytest.raises(ValueError, match="Total size"):
            framework.assign_from_checkpoint(path, {"scope/a": c})
        assert (
            framework.get_unique_variable("scope/a") is a and framework.get_variable_full_name(a) == "scope/a"
        )
        assert framework.get_variables_by_suffix("a") == [a]
        with pytest.raises(ValueError):
            framework.get_unique_variable("none")


def test_parts_of_a_variable_are_assigned_from_a_checkpoint(tmp_path: Any) -> None:
    whole = np.arange(8, dtype=np.float32).reshape(4, 2)
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=whole)
        session.run(v.initializer)
        path = tf.train.Saver([v]).save(session, str(tmp_path / "m"))
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", [4, 2], partitioner=tf.fixed_size_partitioner(2))
        session.run(tf.global_variables_initializer())
        session.run(*tf.contrib.framework.assign_from_checkpoint(path, {"v": list(v)}))
        assert session.run(v.as_tensor()).tolist() == whole.tolist()
        assert tf.contrib.framework.get_variable_full_name(list(v)[1]) == "v"


def test_shapes_that_values_must_have() -> None:
    framework = tf.contrib.framework
    x = tf.placeholder(tf.float32, [None, 2])
    fixed = framework.with_shape([3, 2], x)
    assert fixed.shape.as_list() == [3, 2] and framework.with_shape([-1, 2], x).shape.as_list() == [None, 2]
    same = framework.with_same_shape(tf.placeholder_with_default(np.zeros([3, 2]), None), x)
    with tf.Session() as session:
        for value in (fixed, same):
            assert session.run(value, {x: np.ones([3, 2])}).shape == (3, 2)
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(value, {x: np.ones([4, 2])})
        assert session.run(framework.reduce_sum_n([tf.constant([1.0, 2.0]), tf.constant(4.0)])) == 7
    with pytest.raises(ValueError, match="Wrong shape for"):
        framework.with_shape([3, 3], x)
    with pytest.raises(ValueError):
        framework.assert_scalar_int(1.0)
    assert framework.assert_scalar_int(np.int64(3)).dtype == tf.int64


def test_aliases_in_small_packages() -> None:
    assert tf.contrib.checkpoint.CheckpointManager is tf.train.CheckpointManager
    assert (
        tf.contrib.bitwise.bitwise_or is tf.bitwise.bitwise_or
        and tf.contrib.proto.decode_proto is tf.io.decode_proto
    )
    assert (
        tf.contrib.framework.get_name_scope() == "" and tf.contrib.data.unique is tf.data.experimental.unique
    )
    with tf.Session() as session:
        text = session.run(tf.contrib.deprecated.scalar_summary("tag", 2.0))
    assert tf.Summary.FromString(text).value[0].simple_value == 2
    meta = tf.MetaGraphDef()
    meta.signature_def["a"].method_name = "m"
    assert tf.contrib.saved_model.get_signature_def_by_key(meta, "a").method_name == "m"
    with pytest.raises(ValueError, match="No SignatureDef"):
        tf.contrib.saved_model.get_signature_def_by_key(meta, "b")
