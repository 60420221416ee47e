# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Word vectors with a candidate sampler, trained by several threads."""
import threading, time, sys, os, math
import numpy as np, tensorflow as tf

flags = tf.app.flags
flags.DEFINE_string("save_path", "w2vopt", "d")
flags.DEFINE_integer("emb_dim", 16, "")
flags.DEFINE_integer("num_neg_samples", 5, "")
flags.DEFINE_float("learning_rate", 0.2, "")
flags.DEFINE_integer("concurrent_steps", 3, "")
flags.DEFINE_boolean("interactive", False, "")
FLAGS = flags.FLAGS


class Options(object):
    pass


class Word2Vec(object):
    def __init__(self, options, session):
        self._options = options
        self._session = session
        self._word2id = {}
        self._id2word = []
        self.build_graph()
        self.build_eval_graph()
        self.save_vocab()

    def forward(self, examples, labels):
        opts = self._options
        init_width = 0.5 / opts.emb_dim
        emb = tf.Variable(
            tf.random_uniform([opts.vocab_size, opts.emb_dim], -init_width, init_width), name="emb"
        )
        self._emb = emb
        sm_w_t = tf.Variable(tf.zeros([opts.vocab_size, opts.emb_dim]), name="sm_w_t")
        sm_b = tf.Variable(tf.zeros([opts.vocab_size]), name="sm_b")
        self.global_step = tf.Variable(0, name="global_step")
        labels_matrix = tf.reshape(tf.cast(labels, dtype=tf.int64), [opts.batch_size, 1])
        sampled_ids, _, _ = tf.nn.fixed_unigram_candidate_sampler(
            true_classes=labels_matrix,
            num_true=1,
            num_sampled=opts.num_samples,
            unique=True,
            range_max=opts.vocab_size,
            distortion=0.75,
            unigrams=opts.vocab_counts.tolist(),
        )
        example_emb = tf.nn.embedding_lookup(emb, examples)
        true_w = tf.nn.embedding_lookup(sm_w_t, labels)
        true_b = tf.nn.embedding_lookup(sm_b, labels)
        sampled_w = tf.nn.embedding_lookup(sm_w_t, sampled_ids)
        sampled_b = tf.nn.embedding_lookup(sm_b, sampled_ids)
        true_logits = tf.reduce_sum(tf.multiply(example_emb, true_w), 1) + true_b
        sampled_b_vec = tf.reshape(sampled_b, [opts.num_samples])
        sampled_logits = tf.matmul(example_emb, sampled_w, transpose_b=True) + sampled_b_vec
        return true_logits, sampled_logits

    def nce_loss(self, t, s):
        a = tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.ones_like(t), logits=t)
        b = tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.zeros_like(s), logits=s)
        return (tf.reduce_sum(a) + tf.reduce_sum(b)) / self._options.batch_size

    def optimize(self, loss):
        opts = self._options
        words = tf.to_float(self.global_step) * 16
        lr = opts.learning_rate * tf.maximum(0.0001, 1.0 - tf.cast(words, tf.float32) / 1e5)
        self._lr = lr
        optimizer = tf.train.GradientDescentOptimizer(lr)
        self._train = optimizer.minimize(
            loss, global_step=self.global_step, gate_gradients=optimizer.GATE_NONE
        )

    def build_graph(self):
        opts = self._options
        r = np.random.RandomState(0)
        opts.vocab_size = 50
        opts.vocab_counts = r.randint(1, 99, 50)
        opts.batch_size = 16
        opts.num_samples = FLAGS.num_neg_samples
        self._id2word = [tf.compat.as_text(b"w%d" % i) for i in range(50)]
        for i, w in enumerate(self._id2word):
            self._word2id[w] = i
        ex = tf.random_uniform([16], 0, 50, dtype=tf.int32)
        lab = tf.mod(ex + 1, 50)
        self._examples, self._labels = ex, lab
        t, s = self.forward(ex, lab)
        loss = self.nce_loss(t, s)
        tf.summary.scalar("NCE loss", loss)
        self._loss = loss
        self.optimize(loss)
        tf.global_variables_initializer().run()
        self.saver = tf.train.Saver()

    def save_vocab(self):
        opts = self._options
        with open(os.path.join(opts.save_path, "vocab.txt"), "w") as f:
            for i in range(opts.vocab_size):
                vocab_word = tf.compat.as_text(opts_text(self._id2word[i])).encode("utf-8")
                f.write("%s %d\n" % (vocab_word, opts.vocab_counts[i]))

    def build_eval_graph(self):
        a = tf.placeholder(dtype=tf.int32)
        b = tf.placeholder(dtype=tf.int32)
        c = tf.placeholder(dtype=tf.int32)
        nemb = tf.nn.l2_normalize(self._emb, 1)
        ae, be, ce = tf.gather(nemb, a), tf.gather(nemb, b), tf.gather(nemb, c)
        target = ce + (be - ae)
        dist = tf.matmul(target, nemb, transpose_b=True)
        _, pred_idx = tf.nn.top_k(dist, 4)
        nearby_word = tf.placeholder(dtype=tf.int32)
        nearby_emb = tf.gather(nemb, nearby_word)
        nearby_dist = tf.matmul(nearby_emb, nemb, transpose_b=True)
        self._nearby_val, self._nearby_idx = tf.nn.top_k(nearby_dist, min(1000, 50))
        self._nearby_word = nearby_word
        self._a, self._b, self._c, self._pred = a, b, c, pred_idx

    def _train_thread_body(self):
        for _ in range(100):
            self._session.run([self._train])

    def train(self):
        before = self._session.run(self._loss)
        summary_op = tf.summary.merge_all()
        sw = tf.summary.FileWriter(self._options.save_path, self._session.graph)
        ws = []
        for _ in range(FLAGS.concurrent_steps):
            t = threading.Thread(target=self._train_thread_body)
            t.start()
            ws.append(t)
        for t in ws:
            t.join()
        sw.add_summary(self._session.run(summary_op), self._session.run(self.global_step))
        (loss, step, lr) = self._session.run([self._loss, self.global_step, self._lr])
        print("Step %8d: lr = %5.3f loss = %6.2f before %6.2f" % (step, lr, loss, before))
        self.saver.save(
            self._session, os.path.join(self._options.save_path, "model.ckpt"), global_step=step.astype(int)
        )

    def nearby(self, words, num=5):
        ids = np.array([self._word2id.get(x, 0) for x in words])
        vals, idx = self._session.run([self._nearby_val, self._nearby_idx], {self._nearby_word: ids})
        for i in range(len(words)):
            print(words[i], [self._id2word[n] for n in idx[i, :num]], vals[i, :num])

    def analogy(self, w):
        (idx,) = self._session.run([self._pred], {self._a: w[:, 0], self._b: w[:, 1], self._c: w[:, 2]})
        return idx


def opts_text(x):
    return x


def main(_):
    opts = Options()
    opts.emb_dim = FLAGS.emb_dim
    opts.learning_rate = FLAGS.learning_rate
    opts.save_path = FLAGS.save_path
    if not os.path.exists(opts.save_path):
        os.makedirs(opts.save_path)
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.device("/cpu:0"):
            model = Word2Vec(opts, session)
        model.train()
        model.saver.save(session, os.path.join(opts.save_path, "model.ckpt"), global_step=model.global_step)
        model.nearby(["w1", "w7"])
        print(model.analogy(np.array([[1, 2, 3], [3, 4, 5]])).shape)


if __name__ == "__main__":
    tf.app.run()
