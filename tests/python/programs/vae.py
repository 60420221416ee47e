# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A variational autoencoder as a class that can be pickled."""
import numpy as np, tensorflow as tf, pickle, os

np.random.seed(0)
tf.set_random_seed(0)


def xavier_init(fan_in, fan_out, constant=1):
    low = -constant * np.sqrt(6.0 / (fan_in + fan_out))
    high = constant * np.sqrt(6.0 / (fan_in + fan_out))
    return tf.random_uniform((fan_in, fan_out), minval=low, maxval=high, dtype=tf.float32)


class VAE(object):
    def __init__(self, arch, transfer_fct=tf.nn.softplus, learning_rate=0.001, batch_size=10):
        self.arch = arch
        self.transfer_fct = transfer_fct
        self.lr = learning_rate
        self.batch_size = batch_size
        self.x = tf.placeholder(tf.float32, [None, arch["n_input"]])
        self._create()
        self._loss()
        init = tf.initialize_all_variables()
        self.sess = tf.InteractiveSession()
        self.sess.run(init)

    def _create(self):
        w = self._weights(**self.arch)
        self.z_mean, self.z_log_sigma_sq = self._rec(w["rec"], w["rec_b"])
        eps = tf.random_normal((self.batch_size, self.arch["n_z"]), 0, 1, dtype=tf.float32)
        self.z = tf.add(
            self.z_mean,
            tf.mul(tf.sqrt(tf.exp(self.z_log_sigma_sq)), eps)
            if hasattr(tf, "mul")
            else tf.multiply(tf.sqrt(tf.exp(self.z_log_sigma_sq)), eps),
        )
        self.x_reconstr_mean = tf.nn.sigmoid(
            tf.add(
                tf.matmul(
                    self.transfer_fct(tf.add(tf.matmul(self.z, w["gen"]["h1"]), w["gen_b"]["b1"])),
                    w["gen"]["out"],
                ),
                w["gen_b"]["out"],
            )
        )

    def _weights(self, n_hidden, n_input, n_z):
        a = dict()
        a["rec"] = {
            "h1": tf.Variable(xavier_init(n_input, n_hidden)),
            "mean": tf.Variable(xavier_init(n_hidden, n_z)),
            "ls": tf.Variable(xavier_init(n_hidden, n_z)),
        }
        a["rec_b"] = {
            "b1": tf.Variable(tf.zeros([n_hidden], dtype=tf.float32)),
            "mean": tf.Variable(tf.zeros([n_z])),
            "ls": tf.Variable(tf.zeros([n_z])),
        }
        a["gen"] = {
            "h1": tf.Variable(xavier_init(n_z, n_hidden)),
            "out": tf.Variable(xavier_init(n_hidden, n_input)),
        }
        a["gen_b"] = {"b1": tf.Variable(tf.zeros([n_hidden])), "out": tf.Variable(tf.zeros([n_input]))}
        return a

    def _rec(self, w, b):
        l = self.transfer_fct(tf.add(tf.matmul(self.x, w["h1"]), b["b1"]))
        return tf.add(tf.matmul(l, w["mean"]), b["mean"]), tf.add(tf.matmul(l, w["ls"]), b["ls"])

    def _loss(self):
        r = -tf.reduce_sum(
            self.x * tf.log(1e-10 + self.x_reconstr_mean)
            + (1 - self.x) * tf.log(1e-10 + 1 - self.x_reconstr_mean),
            1,
        )
        l = -0.5 * tf.reduce_sum(
            1 + self.z_log_sigma_sq - tf.square(self.z_mean) - tf.exp(self.z_log_sigma_sq), 1
        )
        self.cost = tf.reduce_mean(r + l)
        self.optimizer = tf.train.AdamOptimizer(learning_rate=self.lr).minimize(self.cost)

    def partial_fit(self, X):
        opt, cost = self.sess.run((self.optimizer, self.cost), feed_dict={self.x: X})
        return cost

    def transform(self, X):
        return self.sess.run(self.z_mean, feed_dict={self.x: X})

    def generate(self, z_mu=None):
        if z_mu is None:
            z_mu = np.random.normal(size=(self.batch_size, self.arch["n_z"]))
        return self.sess.run(self.x_reconstr_mean, feed_dict={self.z: z_mu})

    def __getstate__(self):
        return {"arch": self.arch, "w": self.sess.run(tf.trainable_variables()), "lr": np.float32(self.lr)}

    def __setstate__(self, s):
        tf.reset_default_graph()
        self.__init__(s["arch"], learning_rate=s["lr"])
        for v, a in zip(tf.trainable_variables(), s["w"]):
            v.load(a, self.sess)


v = VAE(dict(n_hidden=12, n_input=20, n_z=2), batch_size=10, learning_rate=0.01)
X = (np.random.rand(10, 20) > 0.5).astype(np.float32)
c = [v.partial_fit(X) for _ in range(200)]
a = v.transform(X)
s = pickle.dumps(v)
v.sess.close()
w = pickle.loads(s)
print(c[0], c[-1], np.abs(w.transform(X) - a).max(), w.generate().shape)
assert c[-1] < c[0]
