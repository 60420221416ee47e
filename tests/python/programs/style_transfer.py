# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Style transfer and deep dream: gradients with respect to the picture."""
import numpy as np, tensorflow as tf, functools

r = np.random.RandomState(0)
W = [r.randn(3, 3, 3, 6).astype("f") * 0.2, r.randn(3, 3, 6, 8).astype("f") * 0.1]


def net(img):
    out = {}
    cur = img
    for i, w in enumerate(W):
        cur = tf.nn.bias_add(
            tf.nn.conv2d(cur, tf.constant(w), strides=(1, 1, 1, 1), padding="SAME"),
            np.zeros(w.shape[-1], np.float32),
        )
        out["conv%d" % i] = cur = tf.nn.relu(cur)
        cur = tf.nn.avg_pool(cur, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
    return out


content = r.rand(1, 16, 16, 3).astype("f")
style = r.rand(1, 16, 16, 3).astype("f")
sf = {}
g = tf.Graph()
with g.as_default(), g.device("/cpu:0"), tf.Session() as sess:
    image = tf.placeholder("float", shape=content.shape)
    n = net(image)
    cf = n["conv1"].eval(feed_dict={image: content})
    f = np.reshape(n["conv0"].eval(feed_dict={image: style}), (-1, 6))
    gram = np.matmul(f.T, f) / f.size
with tf.Graph().as_default():
    tf.set_random_seed(1)
    image = tf.Variable(tf.random_normal(content.shape) * 0.256)
    n = net(image)
    closs = 2 * tf.nn.l2_loss(n["conv1"] - cf) / cf.size
    _, h, w, c = map(lambda i: i.value, n["conv0"].get_shape())
    feats = tf.reshape(n["conv0"], (-1, c))
    gm = tf.matmul(tf.transpose(feats), feats) / (h * w * c)
    sl = functools.reduce(tf.add, [2 * tf.nn.l2_loss(gm - gram) / gram.size])
    sz = lambda t: functools.reduce(lambda a, b: a * b, (d.value for d in t.get_shape()), 1)
    tv = 2 * (
        tf.nn.l2_loss(image[:, 1:, :, :] - image[:, :15, :, :]) / sz(image[:, 1:, :, :])
        + tf.nn.l2_loss(image[:, :, 1:, :] - image[:, :, :15, :]) / sz(image[:, :, 1:, :])
    )
    loss = closs + sl * 100 + tv
    tvs = tf.image.total_variation(image)
    step = tf.train.AdamOptimizer(0.1, 0.9, 0.999, 1e-8).minimize(loss)
    best = float("inf")
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        first = loss.eval()
        for i in range(60):
            step.run()
            best = min(best, loss.eval())
        print(first, best, sess.run(tvs))
        assert best < first
        # deep dream part
        t_in = tf.placeholder(np.float32, name="input")
        o = net(tf.reshape(t_in, [1, 16, 16, 3]))["conv1"]
        grad = tf.gradients(tf.reduce_mean(o[:, :, :, 3]), t_in)[0]

        def tffunc(*argtypes):
            ph = list(map(tf.placeholder, argtypes))

            def wrap(f):
                out = f(*ph)

                def wrapper(*args, **kw):
                    return out.eval(dict(zip(ph, args)), session=kw.get("session"))

                return wrapper

            return wrap

        def resize(img, size):
            return tf.image.resize_bilinear(tf.expand_dims(img, 0), size)[0, :, :, :]

        resize = tffunc(np.float32, np.int32)(resize)
        print(resize(content[0], (8, 8)).shape, sess.run(grad, {t_in: content[0]}).std() > 0)
        k = np.float32([1, 4, 6, 4, 1])
        k = np.outer(k, k)
        k5 = k[:, :, None, None] / k.sum() * np.eye(3, dtype=np.float32)
        lo = tf.nn.conv2d(content, k5, [1, 2, 2, 1], "SAME")
        hi = content - tf.nn.conv2d_transpose(lo, k5 * 4, tf.shape(content), [1, 2, 2, 1])
        print(lo.eval().shape, hi.eval().shape)
