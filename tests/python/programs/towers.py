# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A classifier trained by towers on two devices whose mean gradients are applied once."""
import numpy as np
import tensorflow as tf

NUM_TOWERS, BATCH = 2, 8


def tower_loss(scope, images, labels):
    weights = tf.get_variable(
        "weights", [6, 3], initializer=tf.truncated_normal_initializer(stddev=0.1, seed=1)
    )
    biases = tf.get_variable("biases", [3], initializer=tf.constant_initializer(0.0))
    logits = tf.matmul(images, weights) + biases
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    tf.add_to_collection("losses", tf.reduce_mean(loss, name="cross_entropy"))
    tf.add_to_collection("losses", tf.multiply(tf.nn.l2_loss(weights), 0.01, name="weight_loss"))
    losses = tf.get_collection("losses", scope)
    assert len(losses) == 2 and all(l.op.name.startswith(scope) for l in losses)
    return tf.add_n(losses, name="total_loss")


def average_gradients(tower_grads):
    average_grads = []
    for grad_and_vars in zip(*tower_grads):
        grads = [tf.expand_dims(g, 0) for g, _ in grad_and_vars]
        grad = tf.reduce_mean(tf.concat(axis=0, values=grads), 0)
        average_grads.append((grad, grad_and_vars[0][1]))
    return average_grads


with tf.Graph().as_default(), tf.device("/cpu:0"):
    global_step = tf.get_variable("global_step", [], initializer=tf.constant_initializer(0), trainable=False)
    lr = tf.train.exponential_decay(0.5, global_step, 2, 0.5, staircase=True)
    opt = tf.train.GradientDescentOptimizer(lr)
    x = tf.placeholder(tf.float32, [BATCH, 6])
    y = tf.placeholder(tf.int32, [BATCH])
    tower_grads = []
    with tf.variable_scope(tf.get_variable_scope()):
        for i, (part_x, part_y) in enumerate(zip(tf.split(x, NUM_TOWERS), tf.split(y, NUM_TOWERS))):
            with tf.device("/cpu:%d" % i), tf.name_scope("tower_%d" % i) as scope:
                loss = tower_loss(scope, part_x, part_y)
                assert loss.device == "/device:CPU:%d" % i, loss.device
                tf.get_variable_scope().reuse_variables()
                tower_grads.append(opt.compute_gradients(loss))
    assert [v.name for v in tf.trainable_variables()] == ["weights:0", "biases:0"]
    grads = average_gradients(tower_grads)
    apply_gradient_op = opt.apply_gradients(grads, global_step=global_step)
    averages = tf.train.ExponentialMovingAverage(0.9, global_step)
    averages_op = averages.apply(tf.trainable_variables())
    with tf.control_dependencies([apply_gradient_op]):
        averages_op = tf.group(averages_op)
    train_op = tf.group(apply_gradient_op, averages_op)
    config = tf.ConfigProto(allow_soft_placement=False, log_device_placement=False, device_count={"CPU": 2})
    sess = tf.Session(config=config)
    assert len([d for d in sess.list_devices() if d.device_type == "CPU"]) == 2
    sess.run(tf.global_variables_initializer())
    weights, biases = tf.trainable_variables()
    w, b = sess.run([weights, biases])
    random = np.random.RandomState(0)
    for step in range(5):
        images = random.randn(BATCH, 6).astype(np.float32)
        labels = random.randint(0, 3, BATCH)
        metadata = tf.RunMetadata()
        sess.run(
            train_op, {x: images, y: labels}, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata
        )
        used = {d.device.rsplit("/", 1)[-1] for d in metadata.step_stats.dev_stats if d.node_stats}
        assert {"device:CPU:0", "device:CPU:1"} <= used, used
        # the mean over equal towers is the gradient of the whole batch
        p = np.exp(images @ w + b)
        p /= p.sum(1, keepdims=True)
        p[np.arange(BATCH), labels] -= 1
        rate = 0.5 * 0.5 ** (step // 2)
        w, b = w - rate * (images.T @ p / BATCH + 0.01 * w), b - rate * p.mean(0)
        np.testing.assert_allclose(sess.run(weights), w, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(sess.run(biases), b, rtol=1e-4, atol=1e-5)
    assert sess.run(global_step) == 5
    assert averages.average(weights).op.name == "weights/ExponentialMovingAverage"
    print("towers agree")
