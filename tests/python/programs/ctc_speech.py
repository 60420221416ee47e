# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A small speech-like model: connectionist temporal classification on sparse labels."""
import numpy as np
import tensorflow as tf

num_features, num_classes, num_hidden, batch_size = 5, 4, 24, 4  # the last class is the blank
random = np.random.RandomState(1)


def sparse_tuple_from(sequences, dtype=np.int32):
    indices, values = [], []
    for n, seq in enumerate(sequences):
        indices.extend(zip([n] * len(seq), range(len(seq))))
        values.extend(seq)
    indices = np.asarray(indices, dtype=np.int64)
    shape = np.asarray([len(sequences), indices.max(0)[1] + 1], dtype=np.int64)
    return indices, np.asarray(values, dtype=dtype), shape


targets = [list(random.randint(0, 3, random.randint(2, 4))) for _ in range(batch_size)]
lengths = np.array([3 * len(t) for t in targets], np.int32)
sounds = random.randn(num_classes, num_features)
batch = np.zeros([batch_size, lengths.max(), num_features], np.float32)
for row, target in enumerate(targets):
    for i, label in enumerate(target):  # two frames of the sound and one of silence
        batch[row, 3 * i : 3 * i + 3] = sounds[[label, label, 3]]


def naive_ctc(logits, labels):
    """The negative logarithm of the sum over all paths, by the forward recursion."""
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    blank = logits.shape[-1] - 1
    path = [blank]
    for label in labels:
        path += [label, blank]
    alpha = np.zeros(len(path))
    alpha[:2] = p[0, path[:2]]
    for t in range(1, len(p)):
        new = np.zeros_like(alpha)
        for s, label in enumerate(path):
            new[s] = alpha[s] + (alpha[s - 1] if s else 0)
            if s > 1 and label != blank and label != path[s - 2]:
                new[s] += alpha[s - 2]
            new[s] *= p[t, label]
        alpha = new
    return -np.log(alpha[-2:].sum())


graph = tf.Graph()
with graph.as_default():
    tf.set_random_seed(3)
    inputs = tf.placeholder(tf.float32, [None, None, num_features])
    labels = tf.sparse_placeholder(tf.int32)
    seq_len = tf.placeholder(tf.int32, [None])
    cell = tf.contrib.rnn.LSTMCell(num_hidden, state_is_tuple=True)
    outputs, _ = tf.nn.dynamic_rnn(cell, inputs, seq_len, dtype=tf.float32)
    shape = tf.shape(inputs)
    outputs = tf.reshape(outputs, [-1, num_hidden])
    W = tf.Variable(tf.truncated_normal([num_hidden, num_classes], stddev=0.1))
    b = tf.Variable(tf.constant(0.0, shape=[num_classes]))
    logits = tf.reshape(tf.matmul(outputs, W) + b, [shape[0], -1, num_classes])
    logits = tf.transpose(logits, (1, 0, 2))
    loss = tf.nn.ctc_loss(labels, logits, seq_len)
    cost = tf.reduce_mean(loss)
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9).minimize(cost)
    decoded, log_prob = tf.nn.ctc_beam_search_decoder(logits, seq_len, merge_repeated=False)
    greedy, _ = tf.nn.ctc_greedy_decoder(logits, seq_len)
    distance = tf.edit_distance(tf.cast(decoded[0], tf.int32), labels)
    ler = tf.reduce_mean(distance)
    text = tf.sparse_tensor_to_dense(greedy[0], default_value=-1)

with tf.Session(graph=graph) as session:
    tf.global_variables_initializer().run()
    feed = {inputs: batch, labels: sparse_tuple_from(targets), seq_len: lengths}
    each, values, first = session.run([loss, logits, ler], feed)
    expected = [naive_ctc(values[:n, i], targets[i]) for i, n in enumerate(lengths)]
    np.testing.assert_allclose(each, expected, rtol=1e-4)
    for epoch in range(200):
        batch_cost, _ = session.run([cost, optimizer], feed)
    train_ler, found, best, lp = session.run([ler, text, decoded[0], log_prob], feed)
    dense = np.full(best.dense_shape, -1)
    dense[tuple(best.indices.T)] = best.values
    assert (
        [[v for v in row if v >= 0] for row in found]
        == targets
        == [[v for v in row if v >= 0] for row in dense]
    )
    assert train_ler == 0 and lp.shape == (batch_size, 1)
    wrong = [t[:-1] if i == 0 else t for i, t in enumerate(targets)]
    got = session.run(distance, {inputs: batch, labels: sparse_tuple_from(wrong), seq_len: lengths})
    np.testing.assert_allclose(got, [1.0 / len(wrong[0])] + [0] * (batch_size - 1))  # one letter too many
    print("cost %.3f ler %.3f" % (batch_cost, train_ler))
