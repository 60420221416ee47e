# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Ops that use the other headers of TensorFlow: texts, random numbers, files, formats, Eigen's path."""

import os
import subprocess
import sys

import millrace as tf
import numpy as np
import pytest

sys.path.insert(0, os.path.dirname(__file__))
from test_custom_ops import compile_ops, run  # noqa: E402  pylint: disable=wrong-import-position


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    return tf.load_op_library(
        compile_ops(
            tmp_path_factory.mktemp("ops"), "-std=c++11", "-Wall", "-Wextra", "-Werror", source="library.cc"
        )
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_boxes_of_images(ops, dtype):
    images = np.random.RandomState(1).permutation(2 * 7 * 9 * 3).reshape(2, 7, 9, 3).astype(dtype)
    boxes = np.array([[0, 0, 0, 7, 9], [1, 2, 3, 6, 7], [0, 1, 1, 3, 3]], np.int32)
    largest, argmax = ops.custom_box_max(images, boxes, size=2, padding="VALID")
    assert largest.shape == argmax.shape == [3, 2, 2, 3]
    values, places = run([largest, argmax])
    for b, (image, top, left, bottom, right) in enumerate(boxes):
        rows, columns = bottom - top, right - left
        for y in range(2):
            of_row = slice(top + y * rows // 2, top + (y + 1) * rows // 2)
            for x in range(2):
                of_column = slice(left + x * columns // 2, left + (x + 1) * columns // 2)
                part = images[image, of_row, of_column]
                np.testing.assert_array_equal(values[b, y, x], part.max((0, 1)))
    np.testing.assert_array_equal(images.reshape(2, -1)[boxes[:, :1, None, None], places], values)


def test_wrong_boxes_and_attributes(ops):
    images = np.zeros([1, 4, 4, 1], np.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a box is outside the images"):
        run(ops.custom_box_max(images, [[1, 0, 0, 4, 4]], size=2, padding="SAME"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="only NHWC, not NCHW"):
        run(ops.custom_box_max(images, [[0, 0, 0, 4, 4]], size=2, padding="SAME", data_format="NCHW"))
    with pytest.raises(ValueError, match="Dimension must be 5 but is 4"):
        ops.custom_box_max(images, [[0, 0, 0, 4]], size=2, padding="SAME")


def test_words_of_a_file(ops, tmp_path):
    file = tmp_path / "words.txt"
    file.write_text("b a b c a b\nb rare a\n")
    op = ops.custom_skipgram(filename=str(file), batch_size=500, window_size=1, min_count=2, seed=3, seed2=4)
    words, counts, examples, labels, negatives = run(list(op))
    assert words.tolist() == [b"b", b"a"] and counts.tolist() == [4, 3]
    corpus = [0, 1, 0, 1, 0, 0, 1]
    pairs = set(zip(corpus, corpus[1:] + corpus[-1:]))
    assert set(zip(examples.tolist(), labels.tolist())) == pairs
    assert abs(negatives.mean() - 3 / 7) < 0.1  # four standard deviations
    with pytest.raises(tf.errors.InvalidArgumentError, match="words.txt has no word often enough: 9 words"):
        run(ops.custom_skipgram(filename=str(file), batch_size=1))
    with pytest.raises(tf.errors.NotFoundError):
        run(ops.custom_skipgram(filename=str(tmp_path / "none"), batch_size=1))


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.int32, tf.int64])
def test_random_numbers_are_those_of_the_random_ops(ops, dtype):
    low, high = (-5, 1000) if dtype.is_integer else (0, None)
    ours = ops.custom_random(101, T=dtype, seed=7, seed2=9)
    with tf.Session() as session:
        expected = tf.raw_ops.RandomUniformInt if dtype.is_integer else tf.raw_ops.RandomUniform
        bounds = (
            {"minval": tf.constant(low, dtype), "maxval": tf.constant(high, dtype)}
            if high
            else {"dtype": dtype}
        )
        core = expected(shape=[101], seed=7, seed2=9, **bounds)
        for _ in range(2):  # each run continues the stream
            np.testing.assert_array_equal(*session.run([ours, core]))
        if not dtype.is_integer:
            normal = ops.custom_random(101, T=dtype, seed=7, seed2=9, normal=True)
            core = tf.raw_ops.RandomStandardNormal(shape=[101], dtype=dtype, seed=7, seed2=9)
            np.testing.assert_allclose(*session.run([normal, core]), rtol=1e-5, atol=1e-6)


def test_texts_and_paths(ops):
    text = " a,B;  ,b b,12x,-3, 7 ,1e3,99999999999,9"
    lines, hashed = run(ops.custom_texts(text))
    assert [line.decode() for line in lines] == [
        " a|B;  |b b|12x|-3| 7 |1e3|99999999999|9",
        " a|B|  |b b|12x|-3| 7 |1e3|99999999999|9",
        text.lower() + text.upper(),
        "1:" + text.strip(),
        "1 " + text.strip()[1:] + " 03.14",
        text.replace("b", "<b>"),
        text.replace("b", "", 1),
        # Whether it is an int32, a uint64, a float, with the values: those of before, -1, 1 and -1, else.
        # The parts of ",B;  ,b b,12x,-3, 7 ,1e3,99999999999,9".
        "0-101" "0-1;" * 4 + "1-301" "1-3;171717;0-101" "11000;0-1199999999999" "11e+11;191919;",
        "/tmp/x/y.txt",
        "/a b.c c",
        "-3 -4 4 6",
        "x1y2.5z",
        "5[[2,3], []]",
    ]  # fmt: skip
    murmur = run(tf.raw_ops.StringToHashBucket(string_tensor=text, num_buckets=1 << 62))
    assert hashed % (1 << 62) == murmur


def test_lists_by_name_in_shape_functions(ops):
    unknown, two = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [2])
    op = ops.custom_sums([unknown, two], [two, two])
    assert [s.shape.as_list() for s in op.sums] == [[2, 3], [2]] and op.last.shape == []
    sums, last = run([op.sums, op.last], {unknown: np.ones([2, 3]), two: [5, 6]})
    assert sums[1].tolist() == [5, 6] and last == 2
    with pytest.raises(ValueError, match="must be at least rank 1 but is rank 0"):
        ops.custom_sums([1.0], [[1.0]])


@pytest.mark.parametrize(
    "a, b, expected",
    [
        ([2, 1, 3], [4, 1], [2, 4, 3]), ([None, 3], [1], [None, 3]), ([None], [5], [5]),
        ([None], [1], [None]),
        (None, [1], None), ([], [2], [2]), ([0], [1], [0]),
    ],
)  # fmt: skip
def test_shapes_that_are_broadcast(ops, a, b, expected):
    shape = ops.custom_broadcast(tf.placeholder(tf.float32, a), tf.placeholder(tf.float32, b)).shape
    assert (None if shape.ndims is None else shape.as_list()) == expected


def test_shapes_that_cannot_be_broadcast(ops):
    with pytest.raises(ValueError, match="Dimensions must be equal, but are 2 and 3"):
        ops.custom_broadcast([1.0, 2.0], [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "size, window, stride, padding, expected",
    [
        (10, 3, 2, "VALID", [4, 0, 0]),
        (10, 3, 2, "SAME", [5, 0, 1]),
        (9, 4, 1, "SAME", [9, 1, 2]),
        (2, 2, 2, "VALID", [1, 0, 0]),
    ],
)
def test_windows(ops, size, window, stride, padding, expected):
    op = ops.custom_windows(tf.constant(size, tf.int64), window=window, stride=stride, padding=padding)
    assert run(op).tolist() == expected


def test_too_large_windows(ops):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Computed output size would be negative: -6"):
        run(ops.custom_windows(tf.constant(2, tf.int64), window=9, stride=1, padding="VALID"))


def test_without_eigen(tmp_path):
    library = compile_ops(tmp_path, "-std=c++17", "-O0", "-DMILLRACE_NO_EIGEN", source="library.cc")
    program = f"""
import millrace as tf
ops = tf.load_op_library({library!r})
with tf.Session() as session:
    print(session.run(ops.custom_texts("a"))[0][-1].decode())
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.stdout.strip() == "5[[2,3], []]", result.stderr
