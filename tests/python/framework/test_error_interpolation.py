# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of steps name the lines that made the operations."""
from __future__ import annotations

import inspect

import pytest

import millrace as tf
from millrace.python.framework import error_interpolation


def test_a_failed_step_names_the_line_and_the_inputs() -> None:
    with tf.Graph().as_default():
        size = tf.placeholder(tf.int32, [], name="size")
        line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
        taken = tf.gather(tf.zeros([3], name="three"), size, name="taken")
        with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError) as caught:
            sess.run(taken, {size: 7})
    message = caught.value.message
    assert "[[node taken (defined at %s:%d) ]]" % (__file__, line) in message
    assert caught.value.op is taken.op
    inputs = message[message.index("Input Source operations connected to node taken:") :].splitlines()
    assert any(text.startswith(" three (defined at %s:%d)" % (__file__, line)) for text in inputs)


def test_identities_and_loops_are_passed_to_the_source() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [], name="x")
        y = tf.identity(tf.identity(x), name="y")
        checked = tf.check_numerics(y, "no", name="checked")
        text = error_interpolation.interpolate("a {{node checked}} b", checked.graph)
    assert text.startswith("a node checked (defined at ")
    assert "connected to node checked:\n x (defined at " in text and " y (" not in text


def test_other_tags_stay_or_go() -> None:
    with tf.Graph().as_default() as graph:
        tf.constant(1, name="c")
        interpolate = error_interpolation.interpolate
        assert interpolate("no tags", graph) == "no tags"
        assert interpolate("{{node missing}} x", graph) == "{{node missing}} x"
        assert interpolate("{{function_node f}}y", graph) == "y"
        assert "Errors may have originated" not in interpolate("{{node c}}", graph)
