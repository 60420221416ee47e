# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""CIFAR-10 in the style of the tutorial, part train."""
from __future__ import absolute_import, division, print_function
from datetime import datetime
import time, os, sys
import numpy as np
import tensorflow as tf
import cifar10

FLAGS = tf.app.flags.FLAGS
tf.app.flags.DEFINE_string("train_dir", "cifar10_train", "dir")
tf.app.flags.DEFINE_integer("max_steps", 30, "n")
tf.app.flags.DEFINE_boolean("log_device_placement", False, "log")
tf.app.flags.DEFINE_integer("log_frequency", 10, "n")


def make_data():
    tf.gfile.MakeDirs(FLAGS.data_dir)
    r = np.random.RandomState(0)
    for n in ["data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"]:
        with open(os.path.join(FLAGS.data_dir, n), "wb") as f:
            for i in range(50):
                l = r.randint(10)
                f.write(bytes(bytearray([l])))
                f.write((r.randint(0, 128, 3072) + l * 10).astype(np.uint8).tobytes())


def train():
    with tf.Graph().as_default():
        global_step = (
            tf.contrib.framework.get_or_create_global_step() if True else tf.train.get_or_create_global_step()
        )
        with tf.device("/cpu:0"):
            images, labels = cifar10.distorted_inputs()
        logits = cifar10.inference(images)
        loss = cifar10.loss(logits, labels)
        train_op = cifar10.train(loss, global_step)

        class _LoggerHook(tf.train.SessionRunHook):
            def begin(self):
                self._step = -1
                self._start_time = time.time()

            def before_run(self, run_context):
                self._step += 1
                return tf.train.SessionRunArgs(loss)

            def after_run(self, run_context, run_values):
                if self._step % FLAGS.log_frequency == 0:
                    d = time.time() - self._start_time
                    self._start_time = time.time()
                    lv = run_values.results
                    print(
                        "%s: step %d, loss = %.2f (%.1f examples/sec)"
                        % (datetime.now(), self._step, lv, FLAGS.log_frequency * FLAGS.batch_size / d)
                    )

        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=FLAGS.train_dir,
            hooks=[
                tf.train.StopAtStepHook(last_step=FLAGS.max_steps),
                tf.train.NanTensorHook(loss),
                _LoggerHook(),
            ],
            config=tf.ConfigProto(log_device_placement=FLAGS.log_device_placement),
        ) as mon_sess:
            while not mon_sess.should_stop():
                mon_sess.run(train_op)


def main(argv=None):
    make_data()
    if tf.gfile.Exists(FLAGS.train_dir):
        tf.gfile.DeleteRecursively(FLAGS.train_dir)
    tf.gfile.MakeDirs(FLAGS.train_dir)
    train()


if __name__ == "__main__":
    tf.app.run()
