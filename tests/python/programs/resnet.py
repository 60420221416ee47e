# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A residual network on TFRecords of JPEG pictures, with tf.data and tf.layers."""
import tensorflow as tf, numpy as np, os, glob

D = "rn"
tf.gfile.MakeDirs(D)


def _int64(v):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[v]))


def _bytes(v):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[v]))


r = np.random.RandomState(0)
with tf.Session(graph=tf.Graph()) as s:
    ph = tf.placeholder(tf.uint8, [None, None, 3])
    enc = tf.image.encode_jpeg(ph, format="rgb", quality=100)
    for k in range(2):
        with tf.python_io.TFRecordWriter(
            os.path.join(D, "train-%05d-of-00002" % k),
            options=tf.python_io.TFRecordOptions(tf.python_io.TFRecordCompressionType.GZIP),
        ) as w:
            for i in range(20):
                l = r.randint(3)
                im = s.run(
                    enc, {ph: (np.ones((20, 24, 3)) * 80 * l + r.randint(0, 9, (20, 24, 3))).astype(np.uint8)}
                )
                w.write(
                    tf.train.Example(
                        features=tf.train.Features(
                            feature={
                                "image/encoded": _bytes(im),
                                "image/class/label": _int64(l),
                                "image/object/bbox/xmin": tf.train.Feature(
                                    float_list=tf.train.FloatList(value=[0.1, 0.2])
                                ),
                            }
                        )
                    ).SerializeToString()
                )


def parse(ser, is_training):
    fm = {
        "image/encoded": tf.FixedLenFeature([], dtype=tf.string, default_value=""),
        "image/class/label": tf.FixedLenFeature([1], dtype=tf.int64, default_value=-1),
        "image/class/text": tf.FixedLenFeature([], tf.string, ""),
        "image/object/bbox/xmin": tf.VarLenFeature(dtype=tf.float32),
    }
    f = tf.parse_single_example(ser, fm)
    im = tf.image.decode_jpeg(f["image/encoded"], channels=3)
    if is_training:
        b, sz, _ = tf.image.sample_distorted_bounding_box(
            tf.image.extract_jpeg_shape(f["image/encoded"]),
            bounding_boxes=tf.constant([0.0, 0.0, 1.0, 1.0], shape=[1, 1, 4]),
            min_object_covered=0.1,
            aspect_ratio_range=[0.75, 1.33],
            area_range=[0.5, 1.0],
            max_attempts=100,
            use_image_if_no_bounding_boxes=True,
        )
        im = tf.slice(im, b, sz)
        im = tf.image.random_flip_left_right(im)
    im = tf.image.resize_images(im, [16, 16], method=tf.image.ResizeMethod.BILINEAR, align_corners=False)
    im.set_shape([16, 16, 3])
    means = tf.expand_dims(tf.expand_dims([123.68, 116.78, 103.94], 0), 0)
    return (im - means) / 100.0, tf.one_hot(
        tf.cast(tf.reshape(f["image/class/label"], shape=[]), tf.int32), 3
    )


def input_fn(is_training, bs=8, n=None):
    ds = tf.data.Dataset.from_tensor_slices(sorted(glob.glob(D + "/train-*")))
    if is_training:
        ds = ds.shuffle(buffer_size=2)
    ds = ds.apply(
        tf.contrib.data.parallel_interleave(
            lambda f: tf.data.TFRecordDataset(f, compression_type="GZIP"), cycle_length=2
        )
    )
    if is_training:
        ds = ds.shuffle(16, seed=np.int64(3)).repeat(n)
    ds = ds.apply(
        tf.contrib.data.map_and_batch(
            lambda v: parse(v, is_training), batch_size=bs, num_parallel_batches=1, drop_remainder=False
        )
    )
    return ds.prefetch(buffer_size=tf.contrib.data.AUTOTUNE if hasattr(tf.contrib.data, "AUTOTUNE") else 1)


def bn(x, t):
    return tf.layers.batch_normalization(
        inputs=x,
        axis=1 if DF == "channels_first" else 3,
        momentum=0.9,
        epsilon=1e-5,
        center=True,
        scale=True,
        training=t,
        fused=True,
    )


DF = "channels_last"


def fixed_padding(x, k):
    p = k - 1
    return tf.pad(x, [[0, 0], [p // 2, p - p // 2], [p // 2, p - p // 2], [0, 0]])


def conv(x, f, k, s):
    if s > 1:
        x = fixed_padding(x, k)
    return tf.layers.conv2d(
        inputs=x,
        filters=f,
        kernel_size=k,
        strides=s,
        padding=("SAME" if s == 1 else "VALID"),
        use_bias=False,
        kernel_initializer=tf.variance_scaling_initializer(),
        data_format=DF,
    )


def block(x, f, t, proj, s):
    sc = x
    x = tf.nn.relu(bn(x, t))
    if proj:
        sc = conv(x, f, 1, s)
    x = conv(x, f, 3, s)
    x = tf.nn.relu(bn(x, t))
    return conv(x, f, 3, 1) + sc


def model(x, t):
    x = conv(x, 4, 3, 1)
    x = tf.identity(x, "initial_conv")
    x = block(x, 4, t, False, 1)
    x = block(x, 8, t, True, 2)
    x = tf.nn.relu(bn(x, t))
    x = tf.reduce_mean(x, [1, 2], keep_dims=True)
    x = tf.identity(x, "final_reduce_mean")
    x = tf.squeeze(x, [1, 2])
    return tf.identity(tf.layers.dense(inputs=x, units=3), "final_dense")


tf.set_random_seed(1)
train, ev = input_fn(True), input_fn(False)
it = tf.data.Iterator.from_structure(train.output_types, train.output_shapes)
im, lab = it.get_next()
training = tf.placeholder_with_default(False, shape=(), name="training")
print(train.output_shapes, train.output_types, im)
logits = model(im, training)
pred = {"classes": tf.argmax(logits, axis=1), "probabilities": tf.nn.softmax(logits, name="softmax_tensor")}
ce = tf.losses.softmax_cross_entropy(logits=logits, onehot_labels=lab)
loss = ce + 1e-4 * tf.add_n(
    [
        tf.nn.l2_loss(tf.cast(v, tf.float32))
        for v in tf.trainable_variables()
        if "batch_normalization" not in v.name
    ]
)
gs = tf.train.get_or_create_global_step()
lr = tf.train.piecewise_constant(tf.cast(gs, tf.int32), [40, 60], [0.05, 0.02, 0.01])
opt = tf.train.MomentumOptimizer(learning_rate=lr, momentum=0.9)
tr = tf.group(opt.minimize(loss, gs), tf.get_collection(tf.GraphKeys.UPDATE_OPS))
acc = tf.metrics.accuracy(tf.argmax(lab, axis=1), pred["classes"])
top = tf.metrics.mean(tf.nn.in_top_k(predictions=logits, targets=tf.argmax(lab, 1), k=2, name="top_5_op"))
with tf.Session() as s:
    s.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    s.run(it.make_initializer(train))
    for i in range(80):
        _, l = s.run([tr, loss], feed_dict={training: True})
    s.run(it.make_initializer(ev))
    while True:
        try:
            s.run([acc[1], top[1]])
        except tf.errors.OutOfRangeError:
            break
    print("loss", l, "acc", s.run((acc[0], top[0])))
