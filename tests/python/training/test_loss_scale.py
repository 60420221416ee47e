# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Loss scales, evaluation of checkpoints, and tables that Savers keep."""

import numpy as np
import pytest

import millrace as tf
from millrace.python.training import evaluation
from millrace.python.training import saver_test_utils
from millrace.python.training.experimental import loss_scale


def test_scale_grows_and_shrinks_and_bad_steps_are_left_out():
    v = tf.Variable(2.0, use_resource=True)
    scale = tf.train.experimental.DynamicLossScale(8.0, 2, 2.0)
    optimizer = tf.train.experimental.MixedPrecisionLossScaleOptimizer(
        tf.train.MomentumOptimizer(1.0, 0.9), scale
    )
    p = tf.placeholder(tf.float32, [])
    step = tf.train.get_or_create_global_step()
    train = optimizer.minimize(v * p, global_step=step)
    found = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for x in (1.0, 1.0, float("inf"), 1.0):
            sess.run(train, {p: x})
            found.append(sess.run([v, scale(), step]))
    # Momentum: 1, then 0.9 + 1, then nothing, then 0.9 * 1.9 + 1.
    wanted = [(1.0, 8.0, 1), (-0.9, 16.0, 2), (-0.9, 8.0, 2), (-3.61, 8.0, 3)]
    assert [(pytest.approx(a, abs=1e-5), b, c) for a, b, c in wanted] == [tuple(f) for f in found]


def test_scales_by_name_and_their_arguments():
    assert loss_scale.get(None) is None and loss_scale.get(4)().dtype == tf.float32
    assert isinstance(loss_scale.get("dynamic"), tf.train.experimental.DynamicLossScale)
    made = tf.train.experimental.DynamicLossScale.from_config(
        {"initial_loss_scale": 1, "increment_period": 2, "multiplier": 3}
    )
    assert made.get_config() == {"initial_loss_scale": 1.0, "increment_period": 2, "multiplier": 3.0}
    with pytest.raises(ValueError, match="must be at least 1"):
        tf.train.experimental.FixedLossScale(0.5)
    with pytest.raises(ValueError, match="Could not interpret loss scale identifier"):
        loss_scale.get("none")
    with pytest.raises(ValueError, match="must be an instance of Optimizer"):
        tf.train.experimental.MixedPrecisionLossScaleOptimizer(3, 4)
    wrapped = tf.train.experimental.enable_mixed_precision_graph_rewrite(tf.train.AdamOptimizer())
    with pytest.raises(ValueError, match="must not already be an instance"):
        tf.train.experimental.enable_mixed_precision_graph_rewrite(wrapped)
    tf.train.experimental.disable_mixed_precision_graph_rewrite()


def test_a_checkpoint_is_evaluated(tmp_path):
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.get_variable("v", initializer=3.0)
        tf.train.get_or_create_global_step()
        sess.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(sess, str(tmp_path / "m"))
    with tf.Graph().as_default():
        v = tf.get_variable("v", initializer=0.0)
        tf.train.get_or_create_global_step()
        value, update = tf.metrics.mean(v)
        final = evaluation._evaluate_once(
            path,
            eval_ops=update,
            final_ops={"mean": value, "evals": evaluation._get_or_create_eval_step()},
            hooks=[evaluation._StopAfterNEvalsHook(4)],
        )
    assert final == {"mean": 3.0, "evals": 4}


def test_a_table_in_a_checkpoint(tmp_path):
    table = saver_test_utils.CheckpointedOp("t")
    v = tf.Variable(1.0)
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run([v.initializer, table.insert(b"k", 30.0)])
        path = saver.save(sess, str(tmp_path / "m"))
    with tf.Session() as sess:
        saver.restore(sess, path)
        assert sess.run(table.keys()).tolist() == [b"k"] and sess.run(table.values()).tolist() == [30.0]
        assert sess.run(table.lookup(b"none", -1.0)) == -1.0


def test_sessions_use_mixed_precision_when_it_is_enabled():
    """A product of bfloat16 forgets the last bits of 1 + 2^-12; processors without them compute as always."""
    experimental = tf.train.experimental
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [64, 64])
        y = tf.matmul(x, tf.constant(np.eye(64, dtype=np.float32)))
        value = np.full([64, 64], 1 + 2.0**-12, np.float32)

        def product(config=None):
            with tf.Session(config=config) as sess:
                return sess.run(y, {x: value})[0, 0]

        on = tf.ConfigProto()
        on.graph_options.rewrite_options.auto_mixed_precision = 1
        off = tf.ConfigProto()
        off.graph_options.rewrite_options.auto_mixed_precision = 2
        mixed = product(on)
        assert mixed in (1.0, value[0, 0])
        assert product() == value[0, 0]
        experimental.enable_mixed_precision_graph_rewrite(tf.train.GradientDescentOptimizer(0.1))
        try:
            assert product() == mixed
            assert product(off) == value[0, 0]
            # The requested options do not depend on the processor.
            for config, wanted in ((None, 1), (tf.ConfigProto(), 1), (off, 2)):
                with tf.Session(config=config) as sess:
                    assert sess._config.graph_options.rewrite_options.auto_mixed_precision == wanted
        finally:
            experimental.disable_mixed_precision_graph_rewrite()
        assert product() == value[0, 0]
