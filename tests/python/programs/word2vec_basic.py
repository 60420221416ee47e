# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Word vectors with nce_loss, summaries, traces and the projector."""
from __future__ import absolute_import, division, print_function
import argparse, collections, math, os, random, sys
from tempfile import gettempdir
import numpy as np
from six.moves import xrange
import tensorflow as tf
from tensorflow.contrib.tensorboard.plugins import projector

data_index = 0


def build_dataset(words, n_words):
    count = [["UNK", -1]]
    count.extend(collections.Counter(words).most_common(n_words - 1))
    dictionary = {word: index for index, (word, _) in enumerate(count)}
    data = [dictionary.get(w, 0) for w in words]
    return data, count, dictionary, dict(zip(dictionary.values(), dictionary.keys()))


def generate_batch(data, batch_size, num_skips, skip_window):
    global data_index
    batch = np.ndarray(shape=(batch_size), dtype=np.int32)
    labels = np.ndarray(shape=(batch_size, 1), dtype=np.int32)
    span = 2 * skip_window + 1
    buffer = collections.deque(maxlen=span)
    if data_index + span > len(data):
        data_index = 0
    buffer.extend(data[data_index : data_index + span])
    data_index += span
    for i in range(batch_size // num_skips):
        context_words = [w for w in range(span) if w != skip_window]
        for j, cw in enumerate(random.sample(context_words, num_skips)):
            batch[i * num_skips + j] = buffer[skip_window]
            labels[i * num_skips + j, 0] = buffer[cw]
        if data_index == len(data):
            buffer.extend(data[0:span])
            data_index = span
        else:
            buffer.append(data[data_index])
            data_index += 1
    data_index = (data_index + len(data) - span) % len(data)
    return batch, labels


def word2vec_basic(log_dir):
    if not os.path.exists(log_dir):
        os.makedirs(log_dir)
    random.seed(0)
    np.random.seed(0)
    vocabulary = [("w%d" % (i * i % 37)) for i in range(3000)]
    vocabulary_size = 38

    data, count, dictionary, reverse = build_dataset(vocabulary, vocabulary_size)

    batch_size, embedding_size, skip_window, num_skips, num_sampled = 32, 16, 1, 2, 8
    valid_examples = np.random.choice(20, 8, replace=False)
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(1)
        with tf.name_scope("inputs"):
            train_inputs = tf.placeholder(tf.int32, shape=[batch_size])
            train_labels = tf.placeholder(tf.int32, shape=[batch_size, 1])
            valid_dataset = tf.constant(valid_examples, dtype=tf.int32)
        with tf.device("/cpu:0"):
            with tf.name_scope("embeddings"):
                embeddings = tf.Variable(tf.random_uniform([vocabulary_size, embedding_size], -1.0, 1.0))
                embed = tf.nn.embedding_lookup(embeddings, train_inputs)
            with tf.name_scope("weights"):
                nce_weights = tf.Variable(
                    tf.truncated_normal(
                        [vocabulary_size, embedding_size], stddev=1.0 / math.sqrt(embedding_size)
                    )
                )
            with tf.name_scope("biases"):
                nce_biases = tf.Variable(tf.zeros([vocabulary_size]))
        with tf.name_scope("loss"):
            loss = tf.reduce_mean(
                tf.nn.nce_loss(
                    weights=nce_weights,
                    biases=nce_biases,
                    labels=train_labels,
                    inputs=embed,
                    num_sampled=num_sampled,
                    num_classes=vocabulary_size,
                )
            )
        tf.summary.scalar("loss", loss)
        with tf.name_scope("optimizer"):
            optimizer = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
        norm = tf.sqrt(tf.reduce_sum(tf.square(embeddings), 1, keepdims=True))
        normalized_embeddings = embeddings / norm
        valid_embeddings = tf.nn.embedding_lookup(normalized_embeddings, valid_dataset)
        similarity = tf.matmul(valid_embeddings, normalized_embeddings, transpose_b=True)
        merged = tf.summary.merge_all()
        init = tf.global_variables_initializer()
        saver = tf.train.Saver()
    with tf.compat.v1.Session(graph=graph) as session:
        writer = tf.summary.FileWriter(log_dir, session.graph)
        init.run()
        average_loss = 0
        for step in xrange(200):
            bi, bl = generate_batch(data, batch_size, num_skips, skip_window)
            run_metadata = tf.RunMetadata()
            _, summary, loss_val = session.run(
                [optimizer, merged, loss],
                feed_dict={train_inputs: bi, train_labels: bl},
                options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE) if step == 199 else None,
                run_metadata=run_metadata,
            )
            average_loss += loss_val
            writer.add_summary(summary, step)
            if step == 199:
                writer.add_run_metadata(run_metadata, "step%d" % step)
            if step % 50 == 0 and step:
                print("Average loss at step ", step, ": ", average_loss / 50)
                average_loss = 0
        sim = similarity.eval()
        for i in xrange(3):
            nearest = (-sim[i, :]).argsort()[1:4]
            print("Nearest to", reverse[valid_examples[i]], [reverse.get(k) for k in nearest])
        final = normalized_embeddings.eval()
        with open(log_dir + "/metadata.tsv", "w") as f:
            for i in xrange(vocabulary_size):
                f.write(reverse.get(i, "x") + "\n")
        saver.save(session, os.path.join(log_dir, "model.ckpt"))
        config = projector.ProjectorConfig()
        e = config.embeddings.add()
        e.tensor_name = embeddings.name
        e.metadata_path = os.path.join(log_dir, "metadata.tsv")
        e.sprite.image_path = "sprite.png"
        e.sprite.single_image_dim.extend([28, 28])
        projector.visualize_embeddings(writer, config)
    writer.close()
    print(open(log_dir + "/projector_config.pbtxt").read(), final.shape)


def main(unused_argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--log_dir", type=str, default="w2v_log")
    flags, unused = parser.parse_known_args()
    word2vec_basic(flags.log_dir)


if __name__ == "__main__":
    tf.app.run()
