# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures with boxes in records, read by slim, distorted as for detection, and a VGG-like network that is
trained."""
from __future__ import print_function

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import control_flow_ops

slim = tf.contrib.slim
flags = tf.app.flags
flags.DEFINE_string("train_dir", "train", "where checkpoints go")
flags.DEFINE_integer("steps", 30, "how many")
FLAGS = flags.FLAGS
SIZE = 32


def bytes_feature(v):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[v]))


def floats(v):
    return tf.train.Feature(float_list=tf.train.FloatList(value=v))


def ints(v):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=v))


def write_records(path, n=40):
    rng = np.random.RandomState(0)
    with tf.Graph().as_default(), tf.Session() as sess, tf.python_io.TFRecordWriter(path) as writer:
        image = tf.placeholder(tf.uint8, [None, None, 3])
        png = tf.image.encode_png(image)
        for i in range(n):
            h, w = rng.randint(30, 60, size=2)
            pixels = rng.randint(0, 60, size=[h, w, 3])
            label = i % 3
            pixels[h // 4 : 3 * h // 4, w // 4 : 3 * w // 4, label] = 250
            features = {
                "image/encoded": bytes_feature(sess.run(png, {image: pixels.astype(np.uint8)})),
                "image/format": bytes_feature(b"png"),
                "image/object/class/label": ints([label + 1]),
                "image/object/bbox/ymin": floats([0.25]),
                "image/object/bbox/xmin": floats([0.25]),
                "image/object/bbox/ymax": floats([0.75]),
                "image/object/bbox/xmax": floats([0.75]),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def get_dataset(path, num_samples):
    keys_to_features = {
        "image/encoded": tf.FixedLenFeature((), tf.string, default_value=""),
        "image/format": tf.FixedLenFeature((), tf.string, default_value="png"),
        "image/object/bbox/xmin": tf.VarLenFeature(tf.float32),
        "image/object/bbox/ymin": tf.VarLenFeature(tf.float32),
        "image/object/bbox/xmax": tf.VarLenFeature(tf.float32),
        "image/object/bbox/ymax": tf.VarLenFeature(tf.float32),
        "image/object/class/label": tf.VarLenFeature(tf.int64),
    }
    items_to_handlers = {
        "image": slim.tfexample_decoder.Image("image/encoded", "image/format"),
        "object/bbox": slim.tfexample_decoder.BoundingBox(
            ["ymin", "xmin", "ymax", "xmax"], "image/object/bbox/"
        ),
        "object/label": slim.tfexample_decoder.Tensor("image/object/class/label"),
    }
    decoder = slim.tfexample_decoder.TFExampleDecoder(keys_to_features, items_to_handlers)
    return slim.dataset.Dataset(
        data_sources=path,
        reader=tf.TFRecordReader,
        decoder=decoder,
        num_samples=num_samples,
        items_to_descriptions={"image": "a picture", "object/bbox": "boxes", "object/label": "labels"},
        num_classes=3,
    )


def apply_with_random_selector(x, func, num_cases):
    sel = tf.random_uniform([], maxval=num_cases, dtype=tf.int32)
    switched = [func(control_flow_ops.switch(x, tf.equal(sel, case))[1], case) for case in range(num_cases)]
    return control_flow_ops.merge(switched)[0]


def distort_color(image, ordering):
    if ordering == 0:
        image = tf.image.random_saturation(
            tf.image.random_brightness(image, max_delta=32.0 / 255.0), 0.5, 1.5
        )
        return tf.clip_by_value(
            tf.image.random_contrast(tf.image.random_hue(image, 0.05), 0.5, 1.5), 0.0, 1.0
        )
    image = tf.image.random_contrast(tf.image.random_brightness(image, max_delta=32.0 / 255.0), 0.5, 1.5)
    return tf.clip_by_value(image, 0.0, 1.0)


def preprocess(image, bbox):
    image = tf.image.convert_image_dtype(image, dtype=tf.float32)
    boxes = tf.expand_dims(tf.clip_by_value(bbox, 0.0, 1.0), 0)
    drawn = tf.image.draw_bounding_boxes(tf.expand_dims(image, 0), boxes)
    tf.summary.image("image_with_bounding_boxes", drawn)
    begin, size, distorted_box = tf.image.sample_distorted_bounding_box(
        tf.shape(image),
        bounding_boxes=boxes,
        min_object_covered=0.5,
        aspect_ratio_range=(0.75, 1.33),
        area_range=(0.3, 1.0),
        max_attempts=100,
        use_image_if_no_bounding_boxes=True,
    )
    image = tf.slice(image, begin, size)
    image.set_shape([None, None, 3])
    image = apply_with_random_selector(
        image, lambda x, method: tf.image.resize_images(x, [SIZE, SIZE], method), num_cases=4
    )
    image = tf.image.random_flip_left_right(image)
    image = apply_with_random_selector(image, distort_color, num_cases=2)
    image.set_shape([SIZE, SIZE, 3])
    return tf.multiply(tf.subtract(image, 0.5), 2.0)


def vgg_arg_scope(weight_decay=0.0005):
    with slim.arg_scope(
        [slim.conv2d, slim.fully_connected],
        activation_fn=tf.nn.relu,
        weights_regularizer=slim.l2_regularizer(weight_decay),
        biases_initializer=tf.zeros_initializer(),
    ):
        with slim.arg_scope([slim.conv2d], padding="SAME") as arg_sc:
            return arg_sc


def vgg(inputs, num_classes, is_training=True, scope="vgg_a"):
    with tf.variable_scope(scope, "vgg_a", [inputs]) as sc:
        end_points_collection = sc.original_name_scope + "_end_points"
        with slim.arg_scope(
            [slim.conv2d, slim.fully_connected, slim.max_pool2d], outputs_collections=end_points_collection
        ):
            net = slim.repeat(inputs, 1, slim.conv2d, 8, [3, 3], scope="conv1")
            net = slim.max_pool2d(net, [2, 2], scope="pool1")
            net = slim.repeat(net, 2, slim.conv2d, 16, [3, 3], scope="conv2")
            net = slim.max_pool2d(net, [2, 2], scope="pool2")
            net = slim.conv2d(net, 32, [8, 8], padding="VALID", scope="fc6")
            net = slim.dropout(net, 0.5, is_training=is_training, scope="dropout6")
            net = slim.conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="fc8")
            end_points = slim.utils.convert_collection_to_dict(end_points_collection)
            net = tf.squeeze(net, [1, 2], name="fc8/squeezed")
            end_points[sc.name + "/fc8"] = net
            return net, end_points


def main(_):
    tf.logging.set_verbosity(tf.logging.INFO)
    write_records("detection.record")
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        dataset = get_dataset("detection.record", 40)
        provider = slim.dataset_data_provider.DatasetDataProvider(
            dataset, num_readers=2, common_queue_capacity=40, common_queue_min=20
        )
        image, bbox, label = provider.get(["image", "object/bbox", "object/label"])
        image = preprocess(image, bbox)
        images, labels = tf.train.batch(
            [image, tf.squeeze(label - 1)],
            batch_size=8,
            num_threads=2,
            capacity=40,
            shapes=[[SIZE, SIZE, 3], []],
        )
        onehot = slim.one_hot_encoding(labels, 3)
        queue = slim.prefetch_queue.prefetch_queue([images, onehot], capacity=4)
        images, onehot = queue.dequeue()
        with slim.arg_scope(vgg_arg_scope()):
            logits, end_points = vgg(images, 3)
        assert "vgg_a/conv2/conv2_2" in end_points, sorted(end_points)
        slim.losses.softmax_cross_entropy(logits, onehot)
        total_loss = slim.losses.get_total_loss()
        tf.summary.scalar("losses/total_loss", total_loss)
        step = slim.get_or_create_global_step()
        rate = tf.train.exponential_decay(0.01, step, 20, 0.9, staircase=True)
        optimizer = tf.train.AdamOptimizer(rate)
        train_op = slim.learning.create_train_op(
            total_loss, optimizer, clip_gradient_norm=4.0, summarize_gradients=True
        )
        final = slim.learning.train(
            train_op,
            FLAGS.train_dir,
            number_of_steps=FLAGS.steps,
            log_every_n_steps=10,
            save_summaries_secs=300,
            save_interval_secs=600,
        )
        print("final loss %.3f" % final)
    with tf.Graph().as_default():
        slim.get_or_create_global_step()
        dataset = get_dataset("detection.record", 40)
        provider = slim.dataset_data_provider.DatasetDataProvider(dataset, shuffle=False, num_epochs=None)
        image, label = provider.get(["image", "object/label"])
        image = (
            tf.image.resize_image_with_crop_or_pad(
                tf.image.convert_image_dtype(image, tf.float32), SIZE, SIZE
            )
            - 0.5
        ) * 2
        images, labels = tf.train.batch(
            [image, tf.squeeze(label - 1)], batch_size=10, shapes=[[SIZE, SIZE, 3], []]
        )
        with slim.arg_scope(vgg_arg_scope()):
            logits, _ = vgg(images, 3, is_training=False)
        predictions = tf.argmax(logits, 1)
        names_to_values, names_to_updates = slim.metrics.aggregate_metric_map(
            {
                "accuracy": slim.metrics.streaming_accuracy(predictions, labels),
                "mse": slim.metrics.streaming_mean_squared_error(predictions, labels),
            }
        )
        value = slim.evaluation.evaluate_once(
            "",
            tf.train.latest_checkpoint(FLAGS.train_dir),
            "eval",
            num_evals=4,
            eval_op=list(names_to_updates.values()),
            final_op=names_to_values["accuracy"],
            variables_to_restore=slim.get_variables_to_restore(),
        )
        print("accuracy %.2f" % value)


if __name__ == "__main__":
    tf.app.run()
