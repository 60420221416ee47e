# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A DCGAN of the time: batch normalization of layers and of contrib, two optimizers."""
import os, time, math, pprint
import numpy as np, tensorflow as tf
from tensorflow.python.framework import ops

flags = tf.app.flags
flags.DEFINE_integer("epoch", 2, "Epoch to train [25]")
flags.DEFINE_float("learning_rate", 0.0002, "")
flags.DEFINE_float("beta1", 0.5, "")
flags.DEFINE_integer("train_size", np.inf if False else 32, "")
flags.DEFINE_string("input_fname_pattern", "*.jpg", "")
FLAGS = flags.FLAGS
pp = pprint.PrettyPrinter()
if "concat_v2" in dir(tf):

    def concat(tensors, axis, *args, **kwargs):
        return tf.concat_v2(tensors, axis, *args, **kwargs)

else:

    def concat(tensors, axis, *args, **kwargs):
        return tf.concat(tensors, axis, *args, **kwargs)


try:
    image_summary = tf.image_summary
    scalar_summary = tf.scalar_summary
except:
    image_summary = tf.summary.image
    scalar_summary = tf.summary.scalar
    histogram_summary = tf.summary.histogram
    merge_summary = tf.summary.merge
    SummaryWriter = tf.summary.FileWriter


class batch_norm(object):
    def __init__(self, epsilon=1e-5, momentum=0.9, name="batch_norm"):
        with tf.variable_scope(name):
            self.epsilon = epsilon
            self.momentum = momentum
            self.name = name

    def __call__(self, x, train=True):
        return tf.contrib.layers.batch_norm(
            x,
            decay=self.momentum,
            updates_collections=None,
            epsilon=self.epsilon,
            scale=True,
            is_training=train,
            scope=self.name,
        )


class bn2(object):
    def __init__(self, name):
        self.name = name

    def __call__(self, x, train=True):
        return tf.layers.batch_normalization(x, momentum=0.9, epsilon=1e-5, training=train, name=self.name)


def conv_cond_concat(x, y):
    x_shapes = x.get_shape()
    y_shapes = y.get_shape()
    return concat([x, y * tf.ones([x_shapes[0], x_shapes[1], x_shapes[2], y_shapes[3]])], 3)


def conv2d(input_, output_dim, k_h=5, k_w=5, d_h=2, d_w=2, stddev=0.02, name="conv2d"):
    with tf.variable_scope(name):
        w = tf.get_variable(
            "w",
            [k_h, k_w, input_.get_shape()[-1], output_dim],
            initializer=tf.truncated_normal_initializer(stddev=stddev),
        )
        conv = tf.nn.conv2d(input_, w, strides=[1, d_h, d_w, 1], padding="SAME")
        biases = tf.get_variable("biases", [output_dim], initializer=tf.constant_initializer(0.0))
        return tf.reshape(tf.nn.bias_add(conv, biases), conv.get_shape())


def deconv2d(input_, output_shape, k_h=5, k_w=5, d_h=2, d_w=2, stddev=0.02, name="deconv2d", with_w=False):
    with tf.variable_scope(name):
        w = tf.get_variable(
            "w",
            [k_h, k_w, output_shape[-1], input_.get_shape()[-1]],
            initializer=tf.random_normal_initializer(stddev=stddev),
        )
        try:
            deconv = tf.nn.conv2d_transpose(input_, w, output_shape=output_shape, strides=[1, d_h, d_w, 1])
        except AttributeError:
            deconv = tf.nn.deconv2d(input_, w, output_shape=output_shape, strides=[1, d_h, d_w, 1])
        biases = tf.get_variable("biases", [output_shape[-1]], initializer=tf.constant_initializer(0.0))
        deconv = tf.reshape(tf.nn.bias_add(deconv, biases), deconv.get_shape())
        return (deconv, w, biases) if with_w else deconv


def lrelu(x, leak=0.2, name="lrelu"):
    return tf.maximum(x, leak * x)


def linear(input_, output_size, scope=None, stddev=0.02, bias_start=0.0, with_w=False):
    shape = input_.get_shape().as_list()
    with tf.variable_scope(scope or "Linear"):
        try:
            matrix = tf.get_variable(
                "Matrix", [shape[1], output_size], tf.float32, tf.random_normal_initializer(stddev=stddev)
            )
        except ValueError as err:
            raise
        bias = tf.get_variable("bias", [output_size], initializer=tf.constant_initializer(bias_start))
        return tf.matmul(input_, matrix) + bias


class DCGAN(object):
    def __init__(self, sess, bn):
        self.sess = sess
        self.batch_size = 8
        self.z_dim = 10
        self.gf = 4
        self.df = 4
        self.d_bn1 = bn(name="d_bn1")
        self.g_bn0 = bn(name="g_bn0")
        self.g_bn1 = bn(name="g_bn1")
        self.inputs = tf.placeholder(tf.float32, [self.batch_size, 16, 16, 3], name="real_images")
        self.y = tf.placeholder(tf.float32, [self.batch_size, 5], name="y")
        self.z = tf.placeholder(tf.float32, [None, self.z_dim], name="z")
        self.z_sum = histogram_summary("z", self.z)
        self.G = self.generator(self.z)
        self.D, self.D_logits = self.discriminator(self.inputs, reuse=False)
        self.sampler_ = self.sampler(self.z)
        self.D_, self.D_logits_ = self.discriminator(self.G, reuse=True)
        self.d_sum = histogram_summary("d", self.D)
        self.G_sum = image_summary("G", self.G)

        def sce(x, y):
            try:
                return tf.nn.sigmoid_cross_entropy_with_logits(logits=x, labels=y)
            except:
                return tf.nn.sigmoid_cross_entropy_with_logits(logits=x, targets=y)

        self.d_loss_real = tf.reduce_mean(sce(self.D_logits, tf.ones_like(self.D)))
        self.d_loss_fake = tf.reduce_mean(sce(self.D_logits_, tf.zeros_like(self.D_)))
        self.g_loss = tf.reduce_mean(sce(self.D_logits_, tf.ones_like(self.D_)))
        self.d_loss = self.d_loss_real + self.d_loss_fake
        self.d_loss_sum = scalar_summary("d_loss", self.d_loss)
        self.g_loss_sum = scalar_summary("g_loss", self.g_loss)
        t_vars = tf.trainable_variables()
        self.d_vars = [var for var in t_vars if "d_" in var.name]
        self.g_vars = [var for var in t_vars if "g_" in var.name]
        self.saver = tf.train.Saver()

    def discriminator(self, image, reuse=False):
        with tf.variable_scope("discriminator") as scope:
            if reuse:
                scope.reuse_variables()
            yb = tf.reshape(self.y, [self.batch_size, 1, 1, 5])
            x = conv_cond_concat(image, yb)
            h0 = lrelu(conv2d(x, self.df, name="d_h0_conv"))
            h1 = lrelu(self.d_bn1(conv2d(h0, self.df * 2, name="d_h1_conv")))
            h3 = linear(tf.reshape(h1, [self.batch_size, -1]), 1, "d_h3_lin")
            return tf.nn.sigmoid(h3), h3

    def generator(self, z, train=True, reuse=False):
        with tf.variable_scope("generator") as scope:
            if reuse:
                scope.reuse_variables()
            self.h0 = tf.reshape(linear(z, self.gf * 2 * 4 * 4, "g_h0_lin"), [-1, 4, 4, self.gf * 2])
            h0 = tf.nn.relu(self.g_bn0(self.h0, train=train))
            h1 = deconv2d(h0, [self.batch_size, 8, 8, self.gf], name="g_h1")
            h1 = tf.nn.relu(self.g_bn1(h1, train=train))
            h2, self.w2, self.b2 = (
                deconv2d(h1, [self.batch_size, 16, 16, 3], name="g_h2", with_w=True)
                if not reuse
                else (deconv2d(h1, [self.batch_size, 16, 16, 3], name="g_h2"), None, None)
            )
            return tf.nn.tanh(h2)

    def sampler(self, z):
        return self.generator(z, train=False, reuse=True)

    def train(self, config):
        update = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        with tf.control_dependencies(update):
            d_optim = tf.train.AdamOptimizer(config.learning_rate, beta1=config.beta1).minimize(
                self.d_loss, var_list=self.d_vars
            )
            g_optim = tf.train.AdamOptimizer(config.learning_rate, beta1=config.beta1).minimize(
                self.g_loss, var_list=self.g_vars
            )
        try:
            tf.global_variables_initializer().run()
        except:
            tf.initialize_all_variables().run()
        self.g_sum = merge_summary([self.z_sum, self.d_sum, self.G_sum, self.g_loss_sum])
        writer = SummaryWriter("dcgan_logs", self.sess.graph)
        r = np.random.RandomState(0)
        for step in range(6):
            b = r.uniform(-1, 1, (8, 16, 16, 3)).astype(np.float32)
            y = np.eye(5)[r.randint(5, size=8)]
            z = r.uniform(-1, 1, [8, 10]).astype(np.float32)
            _, s = self.sess.run([d_optim, self.d_loss_sum], feed_dict={self.inputs: b, self.z: z, self.y: y})
            writer.add_summary(s, step)
            _, s = self.sess.run([g_optim, self.g_sum], feed_dict={self.z: z, self.inputs: b, self.y: y})
            writer.add_summary(s, step)
            e = self.d_loss_fake.eval({self.z: z, self.y: y}) + self.d_loss_real.eval(
                {self.inputs: b, self.y: y}
            )
            print("d_loss: %.8f, g_loss: %.8f" % (e, self.g_loss.eval({self.z: z, self.y: y})))
        print(self.sess.run(self.sampler_, feed_dict={self.z: z}).shape)


def show_all_variables():
    model_vars = tf.trainable_variables()
    tf.contrib.slim.model_analyzer.analyze_vars(model_vars, print_info=True)


def main(_):
    pp.pprint(flags.FLAGS.__flags)
    run_config = tf.ConfigProto()
    run_config.gpu_options.allow_growth = True
    for bn in (bn2, batch_norm):
        tf.reset_default_graph()
        with tf.Session(config=run_config) as sess:
            DCGAN(sess, bn).train(FLAGS)
            if bn is batch_norm:
                show_all_variables()


if __name__ == "__main__":
    tf.app.run()
