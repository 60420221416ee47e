# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of steps name the lines that made the operations."""
from __future__ import annotations

import inspect

import pytest

import millrace as tf
from millrace.python.framework import error_interpolation, traceable_stack


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


def test_devices_and_colocations_in_a_text() -> None:
    places = [
        traceable_stack.TraceableObject("/cpu:0", filename="hope.py", lineno=24),
        traceable_stack.TraceableObject("/gpu:2", filename="please.py", lineno=42),
    ]
    text = error_interpolation._compute_device_summary_from_list("nodename", places, prefix="  ")
    assert text.splitlines() == [
        "  Device assignments active during op 'nodename' creation:",
        "    with tf.device(/cpu:0): <hope.py:24>",
        "    with tf.device(/gpu:2): <please.py:42>",
    ]
    assert "No device assignments" in error_interpolation._compute_device_summary_from_list(
        "n", [], prefix="  "
    )
    text = error_interpolation._compute_colocation_summary_from_dict("n", {"other": places[0]})
    assert text.splitlines()[1] == "  with tf.colocate_with(other): <hope.py:24>"
    assert "No node-device colocations" in error_interpolation._compute_colocation_summary_from_dict("n", {})


def test_tracebacks_that_are_replaced() -> None:
    op = tf.constant(42).op
    frames = list(op._traceback)
    own = [error_interpolation._FRAMEWORK_PATH_PREFIXES[0] + "%d.py" % i for i in range(len(frames))]
    user = len(frames) - 6
    op._traceback = [
        (own[i] if i != user else "hope.py",) + tuple(frame[1:]) for i, frame in enumerate(frames)
    ]
    assert error_interpolation._find_index_of_defining_frame_for_op(op) == user
    assert error_interpolation._get_defining_frame_from_op(op)[0] == "hope.py"
    assert "defined at hope.py:" in error_interpolation.interpolate("{{node %s}}" % op.name, op.graph)
    op._traceback = [(name,) + tuple(frame[1:]) for name, frame in zip(own, frames)]
    assert error_interpolation._find_index_of_defining_frame_for_op(op) == 0
    del op._traceback
    assert not hasattr(op, "_traceback") and len(op.traceback) == len(frames)


def test_traces_of_operations_as_a_message() -> None:
    with tf.Graph().as_default():
        line = inspect.currentframe().f_lineno  # type: ignore[union-attr]
        one = tf.constant(1, name="One").op
        two = tf.constant(2, name="Two").op
        gone = tf.constant(3, name="Gone").op
        del gone._traceback
        info = error_interpolation.create_graph_debug_info_def([("", one), ("func", two), ("func", gone)])
    assert sorted(info.traces) == ["One@", "Two@func"]
    here = list(info.files).index(__file__)
    found = [
        [flc.line for flc in info.traces[key].file_line_cols if flc.file_index == here]
        for key in ("One@", "Two@func")
    ]
    assert found == [[line + 1], [line + 2]]
