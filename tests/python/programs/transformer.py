# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A transformer in raw ops with beam search, an optimizer of its own, Defun and custom gradients."""
import tensorflow as tf, numpy as np
from tensorflow.python.framework import function
from tensorflow.python.ops import array_ops, math_ops
from tensorflow.python.layers import base, core as layers_core


def shape_list(x):
    st = x.get_shape().as_list()
    dy = tf.shape(x)
    return [dy[i] if st[i] is None else st[i] for i in range(len(st))]


def layer_norm(x, scope="ln", eps=1e-6):
    with tf.variable_scope(scope, default_name="layer_norm", values=[x], reuse=tf.AUTO_REUSE):
        n = x.shape[-1].value
        g = tf.get_variable("g", [n], initializer=tf.ones_initializer())
        b = tf.get_variable("b", [n], initializer=tf.zeros_initializer)
        u = tf.reduce_mean(x, axis=[-1], keepdims=True)
        s = tf.reduce_mean(tf.squared_difference(x, u), -1, keep_dims=True)
        return (x - u) * tf.rsqrt(s + eps) * g + b


def gelu(x):
    return 0.5 * x * (1 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * tf.pow(x, 3))))


def pos(length, ch):
    p = tf.to_float(tf.range(length))
    nt = ch // 2
    inv = tf.exp(tf.to_float(tf.range(nt)) * -(np.log(1e4) / (tf.to_float(nt) - 1)))
    t = tf.expand_dims(p, 1) * tf.expand_dims(inv, 0)
    s = tf.concat([tf.sin(t), tf.cos(t)], axis=1)
    s = tf.pad(s, [[0, 0], [0, tf.mod(ch, 2)]])
    return tf.reshape(s, [1, length, ch])


def attn(q_in, kv, bias, heads, scope):
    with tf.variable_scope(scope):
        d = q_in.shape[-1].value

        def split(x, nm):
            x = tf.layers.dense(x, d, use_bias=False, name=nm)
            b, l, _ = shape_list(x)
            return tf.transpose(tf.reshape(x, [b, l, heads, d // heads]), [0, 2, 1, 3])

        q, k, v = split(q_in, "q"), split(kv, "k"), split(kv, "v")
        w = tf.matmul(q * (d // heads) ** -0.5, k, transpose_b=True)
        if bias is not None:
            w += bias
        w = tf.nn.softmax(w, name="attention_weights")
        w = tf.nn.dropout(w, keep_prob=0.9)
        o = tf.einsum("bhqk,bhkd->bqhd", w, v)
        b, l, _, _ = shape_list(o)
        return tf.layers.dense(tf.reshape(o, [b, l, d]), d, name="o")


V, Dm = 12, 8


def encoder(ids):
    with tf.variable_scope("enc"):
        E = tf.get_variable("wte", [V, Dm], initializer=tf.random_normal_initializer(0.0, Dm**-0.5))
        x = tf.gather(E, ids) * Dm**0.5
        x += pos(shape_list(ids)[1], Dm)
        pad = tf.to_float(tf.equal(ids, 0))
        bias = tf.expand_dims(tf.expand_dims(pad * -1e9, 1), 1)
        for i in range(2):
            with tf.variable_scope("layer_%d" % i):
                x += attn(layer_norm(x, "ln1"), layer_norm(x, "ln1"), bias, 2, "a")
                x += tf.layers.dense(
                    tf.layers.dense(layer_norm(x, "ln2"), 16, activation=gelu, name="h"), Dm, name="f"
                )
        return layer_norm(x, "lnf"), bias, E


def decoder(ids, enc, ebias, E):
    with tf.variable_scope("dec", reuse=tf.AUTO_REUSE):
        n = shape_list(ids)[1]
        x = tf.gather(E, ids) * Dm**0.5 + pos(n, Dm)
        low = tf.matrix_band_part(tf.ones([n, n]), -1, 0)
        cb = tf.reshape(-1e9 * (1.0 - low), [1, 1, n, n])
        x += attn(layer_norm(x, "l1"), layer_norm(x, "l1"), cb, 2, "s")
        x += attn(layer_norm(x, "l2"), enc, ebias, 2, "c")
        x = layer_norm(x, "l3")
        return tf.reshape(tf.matmul(tf.reshape(x, [-1, Dm]), E, transpose_b=True), [shape_list(ids)[0], n, V])


tf.set_random_seed(1)
src = tf.placeholder(tf.int32, [None, None], "src")
tgt = tf.placeholder(tf.int32, [None, None])
enc, eb, E = encoder(src)
logits = decoder(tf.pad(tgt, [[0, 0], [1, 0]])[:, :-1], enc, eb, E)
conf = 0.9
soft = tf.one_hot(tgt, depth=V, on_value=conf, off_value=(1 - conf) / (V - 1))
xe = tf.nn.softmax_cross_entropy_with_logits_v2(logits=logits, labels=tf.stop_gradient(soft))
w = tf.to_float(tf.not_equal(tgt, 0))
loss = tf.reduce_sum(xe * w) / tf.reduce_sum(w)


class Noam(tf.train.Optimizer):
    def __init__(self, lr, use_locking=False, name="Noam"):
        super(Noam, self).__init__(use_locking, name)
        self._lr = lr

    def _prepare(self):
        self._lr_t = tf.convert_to_tensor(self._lr, name="learning_rate")

    def _create_slots(self, var_list):
        for v in var_list:
            self._zeros_slot(v, "m", self._name)
            self._get_or_make_slot(v, tf.zeros_like(v.initialized_value()), "v", self._name)

    def _apply_dense(self, grad, var):
        m = self.get_slot(var, "m")
        mt = m.assign(0.9 * m + 0.1 * grad, use_locking=self._use_locking)
        v = self.get_slot(var, "v")
        vt = v.assign(0.99 * v + 0.01 * grad * grad)
        return tf.group(*[var.assign_sub(self._lr_t * mt / (tf.sqrt(vt) + 1e-6)), mt, vt])

    def _apply_sparse(self, grad, var):
        return self._apply_dense(tf.convert_to_tensor(grad), var)


gs = tf.train.create_global_step()
tr = Noam(0.01).minimize(
    loss,
    global_step=gs,
    aggregation_method=tf.AggregationMethod.EXPERIMENTAL_TREE,
    colocate_gradients_with_ops=True,
)
# beam search over the decoder
B, K, T = 3, 4, 5


def beam():
    e = tf.reshape(tf.tile(tf.expand_dims(enc, 1), [1, K, 1, 1]), [B * K, -1, Dm])
    b = tf.contrib.framework.nest.map_structure(
        lambda t: tf.reshape(tf.tile(t[:, None], [1, K, 1, 1, 1]), [B * K, 1, 1, -1]), eb
    )
    seq0 = tf.zeros([B, K, 1], tf.int32)
    lp0 = tf.tile(tf.constant([[0.0] + [-1e9] * (K - 1)]), [B, 1])
    fin0 = tf.zeros([B, K], tf.bool)

    def cond(i, seq, lp, fin):
        return tf.logical_and(tf.less(i, T), tf.logical_not(tf.reduce_all(fin)))

    def body(i, seq, lp, fin):
        l = decoder(tf.reshape(seq, [B * K, -1]), e, b, E)[:, -1]
        l = tf.nn.log_softmax(tf.reshape(l, [B, K, V]))
        c = tf.reshape(tf.expand_dims(lp, 2) + l, [B, K * V])
        lp, ix = tf.nn.top_k(c, k=K)
        bm = ix // V
        tok = ix % V
        co = tf.stack([tf.tile(tf.range(B)[:, None], [1, K]), bm], axis=2)
        return (
            i + 1,
            tf.concat([tf.gather_nd(seq, co), tok[:, :, None]], 2),
            lp,
            tf.logical_or(tf.gather_nd(fin, co), tf.equal(tok, 1)),
        )

    return tf.while_loop(
        cond,
        body,
        [tf.constant(0), seq0, lp0, fin0],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([B, K, None]), lp0.get_shape(), fin0.shape],
        parallel_iterations=1,
        back_prop=False,
    )


_, seqs, scores, _ = beam()


@function.Defun(tf.float32, tf.float32, func_name="sw_grad")
def swg(x, dy):
    s = tf.sigmoid(x)
    return dy * (s + x * s * (1 - s))


@function.Defun(
    tf.float32, grad_func=swg, shape_func=lambda op: [op.inputs[0].get_shape()], func_name="sw", noinline=True
)
def sw(x):
    return x * tf.sigmoid(x)


p = tf.constant([1.0, 2.0])
gsw = tf.gradients(sw(p), p)


@tf.custom_gradient
def clip_grad(x):
    def grad(dy):
        return tf.clip_by_value(dy, -0.1, 0.1)

    return tf.identity(x), grad


@tf.RegisterGradient("FlipG")
def _flip(op, g):
    return [tf.negative(g) * 2.0]


with tf.get_default_graph().gradient_override_map({"Identity": "FlipG"}):
    fl = tf.identity(p)
r = np.random.RandomState(0)
with tf.Session(
    config=tf.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, device_count={"GPU": 0}
    )
) as s:
    s.run(tf.global_variables_initializer())
    for i in range(60):
        x = r.randint(2, V, (3, 5))
        x[0, 4:] = 0
        l, _ = s.run([loss, tr], {src: x, tgt: x})
        if i == 0:
            l0 = l
    print(
        l0,
        l,
        s.run(seqs, {src: x}).shape,
        s.run([gsw, tf.gradients(clip_grad(p) * 5.0, p), tf.gradients(fl, p)]),
    )
    assert l < l0
