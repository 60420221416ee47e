# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Actors and critics in threads that share a session."""
import threading, multiprocessing, numpy as np, tensorflow as tf


def update_target_graph(f, t):
    fv = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, f)
    tv = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, t)
    return [b.assign(a) for a, b in zip(fv, tv)]


def normalized_columns_initializer(std=1.0):
    def _initializer(shape, dtype=None, partition_info=None):
        out = np.random.randn(*shape).astype(np.float32)
        out *= std / np.sqrt(np.square(out).sum(axis=0, keepdims=True))
        return tf.constant(out)

    return _initializer


class AC_Network:
    def __init__(self, s_size, a_size, scope, trainer):
        with tf.variable_scope(scope):
            self.inputs = tf.placeholder(shape=[None, s_size], dtype=tf.float32)
            self.imageIn = tf.reshape(self.inputs, shape=[-1, 6, 6, 1])
            self.conv1 = tf.layers.conv2d(self.imageIn, 4, 3, 2, "valid", activation=tf.nn.elu)
            hidden = tf.layers.dense(tf.layers.flatten(self.conv1), 8, activation=tf.nn.elu)
            lstm_cell = tf.nn.rnn_cell.BasicLSTMCell(8, state_is_tuple=True)
            c_init = np.zeros((1, lstm_cell.state_size.c), np.float32)
            h_init = np.zeros((1, lstm_cell.state_size.h), np.float32)
            self.state_init = [c_init, h_init]
            c_in = tf.placeholder(tf.float32, [1, lstm_cell.state_size.c])
            h_in = tf.placeholder(tf.float32, [1, lstm_cell.state_size.h])
            self.state_in = (c_in, h_in)
            rnn_in = tf.expand_dims(hidden, [0])
            step_size = tf.shape(self.imageIn)[:1]
            state_in = tf.nn.rnn_cell.LSTMStateTuple(c_in, h_in)
            o, st = tf.nn.dynamic_rnn(
                lstm_cell, rnn_in, initial_state=state_in, sequence_length=step_size, time_major=False
            )
            lc, lh = st
            self.state_out = (lc[:1, :], lh[:1, :])
            rnn_out = tf.reshape(o, [-1, 8])
            self.policy = tf.layers.dense(
                rnn_out,
                a_size,
                activation=tf.nn.softmax,
                kernel_initializer=normalized_columns_initializer(0.01),
                use_bias=False,
            )
            self.value = tf.layers.dense(
                rnn_out, 1, kernel_initializer=normalized_columns_initializer(1.0), bias_initializer=None
            )
            if scope != "global":
                self.actions = tf.placeholder(shape=[None], dtype=tf.int32)
                oh = tf.one_hot(self.actions, a_size, dtype=tf.float32)
                self.target_v = tf.placeholder(shape=[None], dtype=tf.float32)
                self.adv = tf.placeholder(shape=[None], dtype=tf.float32)
                resp = tf.reduce_sum(self.policy * oh, [1])
                self.value_loss = 0.5 * tf.reduce_sum(tf.square(self.target_v - tf.reshape(self.value, [-1])))
                self.entropy = -tf.reduce_sum(self.policy * tf.log(self.policy))
                self.policy_loss = -tf.reduce_sum(tf.log(resp) * self.adv)
                self.loss = 0.5 * self.value_loss + self.policy_loss - self.entropy * 0.01
                lv = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope)
                self.gradients = tf.gradients(self.loss, lv)
                self.var_norms = tf.global_norm(lv)
                grads, self.grad_norms = tf.clip_by_global_norm(self.gradients, 40.0)
                gv = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, "global")
                self.apply_grads = trainer.apply_gradients(zip(grads, gv))


class Worker:
    def __init__(self, n, trainer, ge):
        self.name = "worker_" + str(n)
        self.n = n
        self.ge = ge
        self.inc = ge.assign_add(1)
        self.ac = AC_Network(36, 3, self.name, trainer)
        self.up = update_target_graph("global", self.name)
        self.log = []

    def work(self, sess, coord):
        r = np.random.RandomState(self.n)
        with sess.as_default(), sess.graph.as_default():
            while not coord.should_stop():
                sess.run(self.up)
                st = self.ac.state_init
                S = []
                for _ in range(4):
                    s = r.rand(36)
                    a, v, st = sess.run(
                        [self.ac.policy, self.ac.value, self.ac.state_out],
                        feed_dict={
                            self.ac.inputs: [s],
                            self.ac.state_in[0]: st[0],
                            self.ac.state_in[1]: st[1],
                        },
                    )
                    S.append(s)
                    assert abs(a.sum() - 1) < 1e-4
                out = sess.run(
                    [
                        self.ac.value_loss,
                        self.ac.policy_loss,
                        self.ac.entropy,
                        self.ac.grad_norms,
                        self.ac.var_norms,
                        self.ac.apply_grads,
                    ],
                    {
                        self.ac.inputs: np.vstack(S),
                        self.ac.target_v: r.rand(4),
                        self.ac.adv: r.rand(4),
                        self.ac.actions: r.randint(3, size=4),
                        self.ac.state_in[0]: self.ac.state_init[0],
                        self.ac.state_in[1]: self.ac.state_init[1],
                    },
                )
                self.log.append(out[0])
                if sess.run(self.ge) >= 12:
                    coord.request_stop()
                sess.run(self.inc)


tf.reset_default_graph()
with tf.device("/cpu:0"):
    ge = tf.Variable(0, dtype=tf.int32, name="global_episodes", trainable=False)
    trainer = tf.train.AdamOptimizer(learning_rate=1e-4)
    master = AC_Network(36, 3, "global", None)
    workers = [Worker(i, trainer, ge) for i in range(3)]
    saver = tf.train.Saver(max_to_keep=5)
with tf.Session() as sess:
    coord = tf.train.Coordinator()
    sess.run(tf.global_variables_initializer())
    ts = []
    for w in workers:
        t = threading.Thread(target=(lambda w=w: w.work(sess, coord)))
        t.start()
        ts.append(t)
    coord.join(ts)
    print("episodes", sess.run(ge) >= 12, len(workers[0].log) > 0)
