# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A new last layer for a frozen network: pictures in folders, bottlenecks in files, a graph that is
exported."""
from __future__ import print_function

import argparse
import hashlib
import os
import re

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import graph_util, tensor_shape
from tensorflow.python.platform import gfile
from tensorflow.python.util import compat

SIZE, BOTTLENECK = 12, 32
FLAGS = None


def make_pictures(folder):
    """JPEG files of two classes: light above, light below."""
    image = tf.placeholder(tf.uint8, [None, None, 3])
    encode = tf.image.encode_jpeg(image, quality=95)
    rng = np.random.RandomState(0)
    with tf.Session() as sess:
        for label in ("above", "below"):
            os.makedirs(os.path.join(folder, label))
            for i in range(30):
                pixels = rng.randint(0, 90, size=[16, 20, 3])
                half = slice(0, 8) if label == "above" else slice(8, 16)
                pixels[half] += 150
                data = sess.run(encode, {image: pixels.astype(np.uint8)})
                with gfile.GFile(os.path.join(folder, label, "%d.jpg" % i), "wb") as f:
                    f.write(data)


def make_network(path):
    """A frozen network with a node for the bytes of a picture, and a bottleneck."""
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        tf.set_random_seed(3)
        data = tf.placeholder(tf.string, name="DecodeJpeg/contents")
        image = tf.cast(tf.image.decode_jpeg(data, channels=3), tf.float32)
        image = tf.image.resize_bilinear(tf.expand_dims(image, 0), [SIZE, SIZE], name="ResizeBilinear")
        x = tf.layers.conv2d((image - 128) / 128.0, 8, 3, strides=2, activation=tf.nn.relu, name="conv")
        x = tf.layers.dense(tf.layers.flatten(x), BOTTLENECK, activation=tf.nn.relu, name="fc")
        tf.identity(x, name="pool_3/_reshape")
        sess.run(tf.global_variables_initializer())
        frozen = graph_util.convert_variables_to_constants(sess, graph.as_graph_def(), ["pool_3/_reshape"])
    with gfile.FastGFile(path, "wb") as f:
        f.write(frozen.SerializeToString())


def create_image_lists(image_dir, testing_percentage):
    result = {}
    for sub_dir in [x[0] for x in gfile.Walk(image_dir)][1:]:
        file_list = []
        for extension in ["jpg", "jpeg", "JPG"]:
            file_list.extend(gfile.Glob(os.path.join(sub_dir, "*." + extension)))
        label_name = re.sub(r"[^a-z0-9]+", " ", os.path.basename(sub_dir).lower())
        sets = {"training": [], "testing": []}
        for file_name in file_list:
            base = os.path.basename(file_name)
            hashed = hashlib.sha1(compat.as_bytes(base)).hexdigest()
            sets["testing" if int(hashed, 16) % 100 < testing_percentage else "training"].append(base)
        result[label_name] = dict(sets, dir=os.path.basename(sub_dir))
    return result


def bottleneck(sess, path, cache, jpeg_data_tensor, bottleneck_tensor):
    """The values of a picture, from a file if there is one."""
    text = os.path.join(cache, path.replace(os.sep, "_") + ".txt")
    if not os.path.exists(text):
        values = sess.run(bottleneck_tensor, {jpeg_data_tensor: gfile.FastGFile(path, "rb").read()})
        with open(text, "w") as f:
            f.write(",".join(str(x) for x in np.squeeze(values)))
    with open(text) as f:
        return [float(x) for x in f.read().split(",")]


def add_final_training_ops(class_count, name, bottleneck_tensor):
    with tf.name_scope("input"):
        inputs = tf.placeholder_with_default(
            bottleneck_tensor, shape=[None, BOTTLENECK], name="BottleneckInputPlaceholder"
        )
        truth = tf.placeholder(tf.float32, [None, class_count], name="GroundTruthInput")
    with tf.name_scope("final_training_ops"):
        with tf.name_scope("weights"):
            initial = tf.truncated_normal([BOTTLENECK, class_count], stddev=0.001)
            weights = tf.Variable(initial, name="final_weights")
            tf.summary.histogram("w", weights)
        with tf.name_scope("biases"):
            biases = tf.Variable(tf.zeros([class_count]), name="final_biases")
        with tf.name_scope("Wx_plus_b"):
            logits = tf.matmul(inputs, weights) + biases
    final = tf.nn.softmax(logits, name=name)
    with tf.name_scope("cross_entropy"):
        mean = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=truth, logits=logits))
    tf.summary.scalar("cross_entropy", mean)
    with tf.name_scope("train"):
        step = tf.train.GradientDescentOptimizer(0.1).minimize(mean)
    return step, inputs, truth, final


def main(_):
    make_pictures(FLAGS.image_dir)
    make_network("network.pb")
    graph_def = tf.GraphDef()
    with gfile.FastGFile("network.pb", "rb") as f:
        graph_def.ParseFromString(f.read())
    with tf.Graph().as_default() as graph:
        bottleneck_tensor, jpeg_data_tensor, resized = tf.import_graph_def(
            graph_def,
            name="",
            return_elements=["pool_3/_reshape:0", "DecodeJpeg/contents:0", "ResizeBilinear:0"],
        )
    assert bottleneck_tensor.shape == tensor_shape.TensorShape([1, BOTTLENECK]), bottleneck_tensor.shape
    lists = create_image_lists(FLAGS.image_dir, 20)
    labels = sorted(lists)
    gfile.MakeDirs("bottlenecks")
    with tf.Session(graph=graph) as sess:
        sets = {}
        for category in ("training", "testing"):
            pairs = [
                (
                    bottleneck(
                        sess,
                        os.path.join(FLAGS.image_dir, lists[label]["dir"], base),
                        "bottlenecks",
                        jpeg_data_tensor,
                        bottleneck_tensor,
                    ),
                    np.eye(len(labels))[i],
                )
                for i, label in enumerate(labels)
                for base in lists[label][category]
            ]
            sets[category] = [np.array(x) for x in zip(*pairs)]
        train_step, inputs, truth, final = add_final_training_ops(
            len(labels), "final_result", bottleneck_tensor
        )
        with tf.name_scope("accuracy"):
            prediction = tf.argmax(final, 1)
            evaluation = tf.reduce_mean(tf.cast(tf.equal(prediction, tf.argmax(truth, 1)), tf.float32))
        merged = tf.summary.merge_all()
        writer = tf.summary.FileWriter("retrain_logs/train", sess.graph)
        sess.run(tf.global_variables_initializer())
        for i in range(100):
            summary, _ = sess.run(
                [merged, train_step], {inputs: sets["training"][0], truth: sets["training"][1]}
            )
            writer.add_summary(summary, i)
        accuracy = sess.run(evaluation, {inputs: sets["testing"][0], truth: sets["testing"][1]})
        print("Final test accuracy = %.1f%% (N=%d)" % (accuracy * 100, len(sets["testing"][0])))
        output = graph_util.convert_variables_to_constants(sess, graph.as_graph_def(), ["final_result"])
        with gfile.FastGFile("output_graph.pb", "wb") as f:
            f.write(output.SerializeToString())
        with gfile.FastGFile("output_labels.txt", "w") as f:
            f.write("\n".join(labels) + "\n")
    # label_image
    graph = tf.Graph()
    with graph.as_default():
        graph_def = tf.GraphDef.FromString(open("output_graph.pb", "rb").read())
        tf.import_graph_def(graph_def)
    names = [line.rstrip() for line in tf.gfile.GFile("output_labels.txt").readlines()]
    with tf.Session(graph=graph) as sess:
        data = gfile.FastGFile(os.path.join(FLAGS.image_dir, "below", "3.jpg"), "rb").read()
        scores = np.squeeze(sess.run("import/final_result:0", {"import/DecodeJpeg/contents:0": data}))
        print("label %s (%.3f)" % (names[scores.argmax()], scores.max()))
        assert names[scores.argmax()] == "below" and accuracy > 0.9


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--image_dir", type=str, default="pictures")
    FLAGS, unparsed = parser.parse_known_args()
    tf.app.run(main=main)
