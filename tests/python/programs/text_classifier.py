# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Texts through lookup tables and padded batches into a bidirectional network with attention."""
import tensorflow as tf, numpy as np, io, os, collections

D = "tx"
tf.gfile.MakeDirs(D)
words = ["gut", "schön", "böse", "schlecht", "the", "a"]
with io.open(D + "/vocab.txt", "w", encoding="utf8") as f:
    f.write("<pad>\n<unk>\n" + "\n".join(words) + "\n")
r = np.random.RandomState(1)
with io.open(D + "/d.txt", "w", encoding="utf8") as f:
    for i in range(60):
        y = r.randint(2)
        f.write(
            "%s\t%s\n"
            % (
                "pos" if y else "neg",
                " ".join(
                    [words[4 + r.randint(2)]] * r.randint(4) + [words[(0 if y else 2) + r.randint(2)], "zzz"]
                ),
            )
        )
tf.set_random_seed(1)
table = tf.contrib.lookup.index_table_from_file(vocabulary_file=D + "/vocab.txt", default_value=1)
back = tf.contrib.lookup.index_to_string_table_from_file(D + "/vocab.txt")
labels = tf.contrib.lookup.index_table_from_tensor(mapping=tf.constant(["neg", "pos"]), num_oov_buckets=0)
mt = tf.contrib.lookup.MutableHashTable(key_dtype=tf.string, value_dtype=tf.int64, default_value=-1)
ds = tf.data.TextLineDataset([D + "/d.txt"]).map(
    lambda l: tf.string_split([l], delimiter="\t").values, num_parallel_calls=2
)
ds = ds.map(lambda v: (tf.string_split([v[1]]).values, v[0])).map(
    lambda t, l: (table.lookup(t), tf.size(t), labels.lookup(l))
)
ds = ds.filter(lambda a, n, l: tf.logical_and(n > 0, n < 20)).cache().shuffle(100, seed=4).repeat()
ds = ds.padded_batch(
    8,
    padded_shapes=(tf.TensorShape([None]), [], []),
    padding_values=(tf.constant(0, tf.int64), 0, np.int64(0)),
)
it = ds.make_initializable_iterator()
tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, it.initializer)
x, n, y = it.get_next()
with tf.variable_scope("emb"), tf.device("/cpu:0"):
    E = tf.get_variable(
        "embedding",
        shape=[8, 12],
        initializer=tf.contrib.layers.xavier_initializer(),
        partitioner=tf.fixed_size_partitioner(2, axis=0),
    )
    e = tf.nn.embedding_lookup(E, x, partition_strategy="div")
kp = tf.placeholder_with_default(1.0, [], "keep_prob")
fw = tf.nn.rnn_cell.DropoutWrapper(
    tf.nn.rnn_cell.LSTMCell(8, initializer=tf.glorot_normal_initializer(), use_peepholes=True),
    input_keep_prob=kp,
    variational_recurrent=False,
)
bw = tf.nn.rnn_cell.GRUCell(8)
(of, ob), (sf, sb) = tf.nn.bidirectional_dynamic_rnn(
    fw, bw, e, sequence_length=n, dtype=tf.float32, swap_memory=True
)
o = tf.concat([of, ob], 2)
a = tf.layers.dense(tf.layers.dense(o, 6, activation=tf.tanh), 1, use_bias=False)
mask = tf.sequence_mask(n, tf.shape(x)[1], dtype=tf.float32)
al = tf.nn.softmax(tf.squeeze(a, -1) + (1 - mask) * -1e9, dim=-1)
ctx = tf.einsum("bt,bth->bh", al, o)
logits = tf.layers.dense(
    tf.concat([ctx, sf.h, sb], axis=-1),
    2,
    kernel_regularizer=tf.contrib.layers.l2_regularizer(1e-3),
    name="out",
)
loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
total = tf.losses.get_total_loss()
gs = tf.train.get_or_create_global_step()
opt = tf.train.AdamOptimizer(tf.train.polynomial_decay(0.02, gs, 100, 1e-3, power=1.0))
g, v = zip(*opt.compute_gradients(total))
g, norm = tf.clip_by_global_norm(g, 5.0)
tr = opt.apply_gradients(zip(g, v), gs)
acc = tf.reduce_mean(tf.to_float(tf.equal(tf.argmax(logits, 1), y)))
f1 = tf.metrics.auc(y, tf.nn.softmax(logits)[:, 1])
sc = tf.train.Scaffold(local_init_op=tf.group(tf.local_variables_initializer(), tf.tables_initializer()))
hooks = [
    tf.train.LoggingTensorHook({"loss": total, "acc": acc}, every_n_iter=20),
    tf.train.StepCounterHook(every_n_steps=20, output_dir=D),
    tf.train.FinalOpsHook([acc, f1[0]]),
]
tf.logging.set_verbosity(tf.logging.INFO)
with tf.train.MonitoredTrainingSession(
    scaffold=sc,
    hooks=hooks + [tf.train.StopAtStepHook(num_steps=120)],
    save_summaries_steps=None,
    save_summaries_secs=None,
) as s:
    while not s.should_stop():
        s.run([tr, f1[1]], {kp: 0.9})
print("final", hooks[2].final_ops_values, [v.name for v in tf.global_variables("emb")])
with tf.Session() as s:
    s.run(tf.tables_initializer())
    print(
        b" ".join(s.run(back.lookup(tf.constant([2, 3, 99], tf.int64)))).decode("utf8"),
        s.run(mt.insert(tf.constant(["q"]), tf.constant([5], tf.int64))),
        s.run(mt.export()),
    )
