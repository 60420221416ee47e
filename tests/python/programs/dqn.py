# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Deep Q learning and a policy gradient on random states."""
import tensorflow as tf, numpy as np, random, collections


class Net(object):
    def __init__(self, scope, trainable=True):
        with tf.variable_scope(scope):
            self.s = tf.placeholder(shape=[None, 8, 8, 4], dtype=tf.uint8, name="X")
            self.y = tf.placeholder(shape=[None], dtype=tf.float32, name="y")
            self.a = tf.placeholder(shape=[None], dtype=tf.int32, name="actions")
            X = tf.to_float(self.s) / 255.0
            bs = tf.shape(self.s)[0]
            c = tf.contrib.layers.conv2d(X, 4, 4, 2, activation_fn=tf.nn.relu)
            f = tf.contrib.layers.flatten(c)
            f = tf.contrib.layers.fully_connected(f, 16)
            self.q = tf.contrib.layers.fully_connected(f, 3, activation_fn=None)
            ind = tf.range(bs) * tf.shape(self.q)[1] + self.a
            self.ap = tf.gather(tf.reshape(self.q, [-1]), ind)
            self.loss = tf.reduce_mean(tf.squared_difference(self.y, self.ap))
            self.opt = tf.train.RMSPropOptimizer(0.00025, 0.99, 0.0, 1e-6)
            gs = self.opt.compute_gradients(
                self.loss, var_list=[v for v in tf.trainable_variables() if v.name.startswith(scope)]
            )
            gs = [(None if g is None else tf.clip_by_norm(g, 10), v) for g, v in gs]
            self.train = self.opt.apply_gradients(gs, global_step=tf.train.get_global_step())
            self.summaries = tf.summary.merge(
                [
                    tf.summary.scalar("loss", self.loss),
                    tf.summary.histogram("q", self.q),
                    tf.summary.scalar("max_q", tf.reduce_max(self.q)),
                ]
            )


tf.reset_default_graph()
global_step = tf.Variable(0, name="global_step", trainable=False)
q, t = Net("q"), Net("target_q")


class StateProcessor:
    def __init__(self):
        with tf.variable_scope("state_processor"):
            self.i = tf.placeholder(shape=[21, 16, 3], dtype=tf.uint8)
            o = tf.image.rgb_to_grayscale(self.i)
            o = tf.image.crop_to_bounding_box(o, 3, 0, 16, 16)
            o = tf.image.resize_images(o, [8, 8], method=tf.image.ResizeMethod.NEAREST_NEIGHBOR)
            self.o = tf.squeeze(o)

    def process(self, sess, s):
        return sess.run(self.o, {self.i: s})


sp = StateProcessor()
e1 = sorted([v for v in tf.trainable_variables() if v.name.startswith("q")], key=lambda v: v.name)
e2 = sorted([v for v in tf.trainable_variables() if v.name.startswith("target_q")], key=lambda v: v.name)
ops = [b.assign(a) for a, b in zip(e1, e2)]
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    r = np.random.RandomState(0)
    mem = collections.deque(maxlen=100)
    for i in range(30):
        st = np.stack([sp.process(sess, r.randint(0, 255, (21, 16, 3)))] * 4, axis=2)
        mem.append((st, r.randint(3), r.rand(), st, bool(r.randint(2))))
    for i in range(20):
        if i % 5 == 0:
            sess.run(ops)
        sb, ab, rb, nb, db = map(np.array, zip(*random.sample(mem, 8)))
        qn = sess.run(q.q, {q.s: nb})
        best = np.argmax(qn, axis=1)
        qt = sess.run(t.q, {t.s: nb})
        tb = rb + np.invert(db).astype(np.float32) * 0.99 * qt[np.arange(8), best]
        s, gs, _, l = sess.run(
            [q.summaries, tf.train.get_global_step(), q.train, q.loss], {q.s: sb, q.y: tb, q.a: ab}
        )
    print("gs", gs, "loss", l, [v.name for v in e1])
# policy gradient
tf.reset_default_graph()


class Agent:
    def __init__(self, lr, s_size, a_size, h_size):
        self.state_in = tf.placeholder(shape=[None, s_size], dtype=tf.float32)
        hidden = tf.contrib.layers.fully_connected(
            self.state_in, h_size, biases_initializer=None, activation_fn=tf.nn.relu
        )
        self.output = tf.contrib.layers.fully_connected(
            hidden, a_size, activation_fn=tf.nn.softmax, biases_initializer=None
        )
        self.chosen = tf.argmax(self.output, 1)
        self.reward_holder = tf.placeholder(shape=[None], dtype=tf.float32)
        self.action_holder = tf.placeholder(shape=[None], dtype=tf.int32)
        self.indexes = tf.range(0, tf.shape(self.output)[0]) * tf.shape(self.output)[1] + self.action_holder
        self.resp = tf.gather(tf.reshape(self.output, [-1]), self.indexes)
        self.loss = -tf.reduce_mean(tf.log(self.resp) * self.reward_holder)
        tvars = tf.trainable_variables()
        self.gradient_holders = []
        for idx, var in enumerate(tvars):
            self.gradient_holders.append(tf.placeholder(tf.float32, name=str(idx) + "_holder"))
        self.gradients = tf.gradients(self.loss, tvars)
        self.update_batch = tf.train.AdamOptimizer(learning_rate=lr).apply_gradients(
            zip(self.gradient_holders, tvars)
        )


ag = Agent(lr=1e-2, s_size=4, a_size=2, h_size=8)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    buf = sess.run(tf.trainable_variables())
    for ix, g in enumerate(buf):
        buf[ix] = g * 0
    for i in range(10):
        s = r.rand(5, 4)
        a = [
            np.random.choice(2, p=sess.run(ag.output, {ag.state_in: [x]})[0] / 1.0000001 if False else None)
            for x in s
        ]
        grads = sess.run(
            ag.gradients,
            feed_dict={ag.reward_holder: r.rand(5), ag.action_holder: a, ag.state_in: np.vstack(s)},
        )
        for idx, g in enumerate(grads):
            buf[idx] += g
    sess.run(ag.update_batch, feed_dict=dict(zip(ag.gradient_holders, buf)))
    m = tf.multinomial(tf.log(ag.output), num_samples=1)
    print(sess.run(m, {ag.state_in: s}).shape)
