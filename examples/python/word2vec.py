# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Skip-gram vectors of words, learned with noise-contrastive estimation.

    PYTHONPATH=build/release/python /usr/bin/python3 -m millrace examples/python/word2vec.py --text=FILE

Without a text it makes one up, of words that stand in two groups: words of a group end up near each other.
"""
from __future__ import annotations

import collections

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_string("text", "", "file of words; generated words without it")
tf.app.flags.DEFINE_integer("steps", 4000, "steps of training")
tf.app.flags.DEFINE_integer("batch", 64, "pairs in a step")
tf.app.flags.DEFINE_integer("window", 2, "how far away a neighbour may be")
tf.app.flags.DEFINE_integer("dimensions", 8, "of a vector")
tf.app.flags.DEFINE_integer("sampled", 4, "words that are not neighbours, for each step")
tf.app.flags.DEFINE_integer("vocabulary", 5000, "most words that get a vector")
FLAGS = tf.app.flags.FLAGS


def generated_words(count: int = 20000) -> list[str]:
    """Runs of words of one group, then of the other, and so on."""
    random = np.random.RandomState(0)
    groups = [["red", "green", "blue", "yellow"], ["one", "two", "three", "four"]]
    words: list[str] = []
    while len(words) < count:
        words += list(random.choice(groups[len(words) // 100 % 2], 100))
    return words


def number_words(words: list[str], most: int) -> tuple[np.ndarray, list[str]]:
    """The words as numbers, the most frequent first; rare ones are the word UNK."""
    names = ["UNK"] + [w for w, _ in collections.Counter(words).most_common(most - 1)]
    index = {w: i for i, w in enumerate(names)}
    return np.array([index.get(w, 0) for w in words], np.int32), names


def pairs(numbers: np.ndarray, random: np.random.RandomState, count: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` words [count] and a neighbour of each [count, 1]."""
    at = random.randint(FLAGS.window, len(numbers) - FLAGS.window, count)
    away = random.randint(1, FLAGS.window + 1, count) * random.choice([-1, 1], count)
    return numbers[at], numbers[at + away][:, None]


def main(unused_argv: list[str]) -> None:
    words = open(FLAGS.text, encoding="utf-8").read().split() if FLAGS.text else generated_words()
    numbers, names = number_words(words, FLAGS.vocabulary)
    size = len(names)
    tf.set_random_seed(2)
    inputs = tf.placeholder(tf.int32, [None])
    labels = tf.placeholder(tf.int32, [None, 1])
    embeddings = tf.Variable(tf.random_uniform([size, FLAGS.dimensions], -1.0, 1.0), name="embeddings")
    weights = tf.Variable(tf.truncated_normal([size, FLAGS.dimensions], stddev=FLAGS.dimensions**-0.5))
    biases = tf.Variable(tf.zeros([size]))
    loss = tf.reduce_mean(
        tf.nn.nce_loss(
            weights=weights,
            biases=biases,
            labels=labels,
            inputs=tf.nn.embedding_lookup(embeddings, inputs),
            num_sampled=FLAGS.sampled,
            num_classes=size,
        )
    )
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    normal = tf.nn.l2_normalize(embeddings, 1)
    similarity = tf.matmul(normal, normal, transpose_b=True)
    random, total = np.random.RandomState(3), 0.0
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(1, FLAGS.steps + 1):
            x, y = pairs(numbers, random, FLAGS.batch)
            value, _ = sess.run([loss, train], {inputs: x, labels: y})
            total += value
            if step % 1000 == 0:
                print("step %d: mean loss %.4f" % (step, total / 1000))
                total = 0.0
        near = sess.run(similarity)
        for word in range(1, min(size, 9)):
            best = [names[i] for i in np.argsort(-near[word]) if i not in (0, word)][:3]
            print("near %s: %s" % (names[word], ", ".join(best)))


if __name__ == "__main__":
    tf.app.run()
