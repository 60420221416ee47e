# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""CIFAR-10 in the style of the tutorial, part eval."""
from __future__ import absolute_import, division, print_function
from datetime import datetime
import math, time
import numpy as np
import tensorflow as tf
import cifar10

FLAGS = tf.app.flags.FLAGS
tf.app.flags.DEFINE_string("eval_dir", "cifar10_eval", "")
tf.app.flags.DEFINE_string("eval_data", "test", "")
tf.app.flags.DEFINE_string("checkpoint_dir", "cifar10_train", "")
tf.app.flags.DEFINE_integer("num_examples", 48, "")


def eval_once(saver, summary_writer, top_k_op, summary_op):
    with tf.Session() as sess:
        ckpt = tf.train.get_checkpoint_state(FLAGS.checkpoint_dir)
        if ckpt and ckpt.model_checkpoint_path:
            saver.restore(sess, ckpt.model_checkpoint_path)
            global_step = ckpt.model_checkpoint_path.split("/")[-1].split("-")[-1]
        else:
            print("No checkpoint file found")
            return
        coord = tf.train.Coordinator()
        try:
            threads = []
            for qr in tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS):
                threads.extend(qr.create_threads(sess, coord=coord, daemon=True, start=True))
            num_iter = int(math.ceil(FLAGS.num_examples / FLAGS.batch_size))
            true_count = 0
            step = 0
            while step < num_iter and not coord.should_stop():
                predictions = sess.run([top_k_op])
                true_count += np.sum(predictions)
                step += 1
            precision = true_count / (num_iter * FLAGS.batch_size)
            print("%s: precision @ 1 = %.3f" % (datetime.now(), precision), global_step)
            summary = tf.Summary()
            summary.ParseFromString(sess.run(summary_op))
            summary.value.add(tag="Precision @ 1", simple_value=precision)
            summary_writer.add_summary(summary, global_step)
        except Exception as e:
            coord.request_stop(e)
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=10)


def evaluate():
    with tf.Graph().as_default() as g:
        images, labels = cifar10.inputs(eval_data=FLAGS.eval_data == "test")
        logits = cifar10.inference(images)
        top_k_op = tf.nn.in_top_k(logits, labels, 1)
        ema = tf.train.ExponentialMovingAverage(cifar10.MOVING_AVERAGE_DECAY)
        saver = tf.train.Saver(ema.variables_to_restore())
        summary_op = tf.summary.merge_all()
        w = tf.summary.FileWriter(FLAGS.eval_dir, g)
        eval_once(saver, w, top_k_op, summary_op)


def main(argv=None):
    evaluate()


if __name__ == "__main__":
    tf.app.run()
