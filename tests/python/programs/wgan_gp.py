# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A Wasserstein GAN with gradient penalty: gradients of gradients."""
import tensorflow as tf, numpy as np, functools
import tensorflow.contrib.layers as tcl


def leaky(x, a=0.2):
    return tf.maximum(tf.minimum(0.0, a * x), x)


class Disc(object):
    def __init__(self):
        self.name = "mnist/d_net"

    def __call__(self, x, reuse=True):
        with tf.variable_scope(self.name) as vs:
            if reuse:
                vs.reuse_variables()
            bs = tf.shape(x)[0]
            x = tf.reshape(x, [bs, 8, 8, 1])
            c = tcl.convolution2d(
                x,
                4,
                [4, 4],
                [2, 2],
                weights_initializer=tf.random_normal_initializer(stddev=0.02),
                activation_fn=tf.identity,
            )
            c = leaky(c)
            c = tcl.flatten(c)
            f = tcl.fully_connected(
                c,
                16,
                weights_initializer=tf.random_normal_initializer(stddev=0.02),
                activation_fn=tf.identity,
            )
            return tcl.fully_connected(leaky(f), 1, activation_fn=tf.identity)

    @property
    def vars(self):
        return [v for v in tf.global_variables() if self.name in v.name]


class Gen(object):
    def __init__(self):
        self.name = "mnist/g_net"

    def __call__(self, z):
        with tf.variable_scope(self.name) as scope:
            fc = tf.layers.dense(
                z,
                4 * 4 * 8,
                kernel_initializer=tf.truncated_normal_initializer(stddev=0.02),
                kernel_regularizer=tcl.l2_regularizer(2.5e-5),
                activation=None,
            )
            fc = tf.nn.relu(tf.layers.batch_normalization(fc, training=True))
            fc = tf.reshape(fc, tf.stack([tf.shape(fc)[0], 4, 4, 8]))
            c = tf.layers.conv2d_transpose(
                fc, 1, (4, 4), strides=(2, 2), padding="same", activation=tf.sigmoid
            )
            return tf.reshape(c, [tf.shape(c)[0], 64])

    @property
    def vars(self):
        return [v for v in tf.global_variables() if self.name in v.name]


tf.set_random_seed(1)
g_net, d_net = Gen(), Disc()
x = tf.placeholder(tf.float32, [None, 64], name="x")
z = tf.placeholder(tf.float32, [None, 5], name="z")
x_ = g_net(z)
d = d_net(x, reuse=False)
d_ = d_net(x_)
g_loss = tf.reduce_mean(d_)
d_loss = tf.reduce_mean(d) - tf.reduce_mean(d_)
eps = tf.random_uniform([], 0.0, 1.0)
xh = eps * x + (1 - eps) * x_
ddx = tf.gradients(d_net(xh), xh)[0]
slopes = tf.sqrt(tf.reduce_sum(tf.square(ddx), reduction_indices=[1]))
gp = tf.reduce_mean(tf.square(slopes - 1.0) * 10)
d_loss = d_loss + gp
with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
    d_adam = tf.train.AdamOptimizer(learning_rate=1e-3, beta1=0.5, beta2=0.9).minimize(
        d_loss, var_list=d_net.vars
    )
    g_adam = tf.train.AdamOptimizer(learning_rate=1e-3, beta1=0.5, beta2=0.9).minimize(
        g_loss, var_list=g_net.vars
    )
clip = [p.assign(tf.clip_by_value(p, -0.5, 0.5)) for p in d_net.vars]
gpu_options = tf.GPUOptions(allow_growth=True)
sess = tf.Session(config=tf.ConfigProto(gpu_options=gpu_options))
sess.run(tf.global_variables_initializer())
r = np.random.RandomState(0)
for t in range(20):
    for _ in range(2):
        sess.run([d_adam, clip], feed_dict={x: r.rand(8, 64), z: r.rand(8, 5)})
    sess.run(g_adam, feed_dict={z: r.rand(8, 5)})
print("D %.4f gp %.4f G %.4f" % tuple(sess.run([d_loss, gp, g_loss], {x: r.rand(8, 64), z: r.rand(8, 5)})))
