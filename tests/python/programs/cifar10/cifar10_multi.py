# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""CIFAR-10 in the style of the tutorial, part multi."""
from __future__ import absolute_import, division, print_function
import re, time, os
import numpy as np
from six.moves import xrange
import tensorflow as tf
import cifar10

FLAGS = tf.app.flags.FLAGS
tf.app.flags.DEFINE_string("train_dir", "cifar10_multi", "")
tf.app.flags.DEFINE_integer("max_steps", 12, "")
tf.app.flags.DEFINE_integer("num_gpus", 2, "")
tf.app.flags.DEFINE_boolean("log_device_placement", False, "")


def tower_loss(scope, images, labels):
    logits = cifar10.inference(images)
    _ = cifar10.loss(logits, labels)
    losses = tf.get_collection("losses", scope)
    total_loss = tf.add_n(losses, name="total_loss")
    for l in losses + [total_loss]:
        loss_name = re.sub("%s_[0-9]*/" % cifar10.TOWER_NAME, "", l.op.name)
        tf.summary.scalar(loss_name, l)
    return total_loss


def average_gradients(tower_grads):
    average_grads = []
    for grad_and_vars in zip(*tower_grads):
        grads = []
        for g, _ in grad_and_vars:
            expanded_g = tf.expand_dims(g, 0)
            grads.append(expanded_g)
        grad = tf.concat(axis=0, values=grads)
        grad = tf.reduce_mean(grad, 0)
        v = grad_and_vars[0][1]
        average_grads.append((grad, v))
    return average_grads


def train():
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        global_step = tf.get_variable(
            "global_step", [], initializer=tf.constant_initializer(0), trainable=False
        )
        lr = tf.train.exponential_decay(0.1, global_step, 100, 0.9, staircase=True)
        opt = tf.train.GradientDescentOptimizer(lr)
        images, labels = cifar10.distorted_inputs()
        batch_queue = (
            tf.contrib.slim.prefetch_queue.prefetch_queue([images, labels], capacity=2 * FLAGS.num_gpus)
            if FLAGS.num_gpus == 99
            else None
        )
        tower_grads = []
        with tf.variable_scope(tf.get_variable_scope()):
            for i in xrange(FLAGS.num_gpus):
                with tf.device("/gpu:%d" % i):
                    with tf.name_scope("%s_%d" % (cifar10.TOWER_NAME, i)) as scope:
                        loss = tower_loss(scope, images, labels)
                        tf.get_variable_scope().reuse_variables()
                        summaries = tf.get_collection(tf.GraphKeys.SUMMARIES, scope)
                        grads = opt.compute_gradients(loss)
                        tower_grads.append(grads)
        grads = average_gradients(tower_grads)
        summaries.append(tf.summary.scalar("learning_rate", lr))
        for grad, var in grads:
            if grad is not None:
                summaries.append(tf.summary.histogram(var.op.name + "/gradients", grad))
        apply_gradient_op = opt.apply_gradients(grads, global_step=global_step)
        for var in tf.trainable_variables():
            summaries.append(tf.summary.histogram(var.op.name, var))
        ema = tf.train.ExponentialMovingAverage(cifar10.MOVING_AVERAGE_DECAY, global_step)
        vop = ema.apply(tf.trainable_variables())
        train_op = tf.group(apply_gradient_op, vop)
        saver = tf.train.Saver(tf.global_variables())
        summary_op = tf.summary.merge(summaries)
        init = tf.global_variables_initializer()
        sess = tf.Session(
            config=tf.ConfigProto(allow_soft_placement=True, log_device_placement=FLAGS.log_device_placement)
        )
        sess.run(init)
        tf.train.start_queue_runners(sess=sess)
        summary_writer = tf.summary.FileWriter(FLAGS.train_dir, sess.graph)
        for step in xrange(FLAGS.max_steps):
            _, loss_value = sess.run([train_op, loss])
            assert not np.isnan(loss_value), "Model diverged with loss = NaN"
            if step % 5 == 0:
                print("step", step, "loss", loss_value)
                summary_str = sess.run(summary_op)
                summary_writer.add_summary(summary_str, step)
            if (step + 1) == FLAGS.max_steps:
                saver.save(sess, os.path.join(FLAGS.train_dir, "model.ckpt"), global_step=step)
        print(sorted(v.op.name for v in tf.global_variables()))


def main(argv=None):
    if tf.gfile.Exists(FLAGS.train_dir):
        tf.gfile.DeleteRecursively(FLAGS.train_dir)
    tf.gfile.MakeDirs(FLAGS.train_dir)
    train()


if __name__ == "__main__":
    tf.app.run()
