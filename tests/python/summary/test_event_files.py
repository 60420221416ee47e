# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Event files as a reader of their formats sees them that shares nothing with the library."""
import glob
import os
import sys

import numpy as np
import pytest

import millrace as tf

sys.path.insert(0, os.path.dirname(__file__))
import event_reader  # noqa: E402


def read(folder):
    (path,) = glob.glob(str(folder / "events.*"))
    return event_reader.events(path)


def test_sums_are_castagnolis():
    # The check value of CRC-32C, masked.
    crc = 0xE3069283
    assert event_reader.masked_crc(b"123456789") == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def test_every_kind_of_value(tmp_path):
    numbers = np.array([-2.0, -1.0, 0.0, 0.25, 3.0, 3.5], np.float32)
    pictures = np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3)
    sounds = np.sin(np.arange(100, dtype=np.float32)).reshape(1, 50, 2)
    tf.summary.scalar("loss", 0.5)
    tf.summary.histogram("weights", numbers)
    tf.summary.image("pictures", pictures, max_outputs=2)
    tf.summary.audio("sounds", sounds, sample_rate=8000)
    tf.summary.text("notes", tf.constant(["one", "two"]))
    tf.summary.tensor_summary("raw", tf.constant([1.0, 2.0]))
    with tf.Session() as sess, tf.summary.FileWriter(str(tmp_path), sess.graph) as writer:
        writer.add_summary(sess.run(tf.summary.merge_all()), 7)
        writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START), 8)
    found = read(tmp_path)
    kinds = ["file_version", "graph_def", "meta_graph_def", "summary", "session_log"]
    assert [e["kind"] for e in found] == kinds
    assert [e["step"] for e in found] == [0, 0, 0, 7, 8]
    values = {v["tag"]: v for v in found[3]["values"]}
    assert values["loss"]["scalar"] == 0.5
    histogram = values["weights"]["histogram"]
    assert (histogram["min"], histogram["max"], histogram["num"]) == (-2.0, 3.5, 6)
    assert histogram["sum"] == numbers.sum() and histogram["sum_squares"] == (numbers**2).sum()
    # Each count is of the numbers between its limit and the one before.
    limits = [-np.inf, *histogram["limits"]]
    expected = [int(((numbers >= a) & (numbers < b)).sum()) for a, b in zip(limits, limits[1:])]
    assert histogram["counts"] == expected
    for i in range(2):
        assert values[f"pictures/image/{i}"]["image"] == {"height": 3, "width": 4, "channels": 3}
    assert values["sounds/audio/0"]["audio"] == {"rate": 8000, "channels": 2, "frames": 50}
    assert values["notes"]["plugin"] == "text"
    assert values["notes"]["tensor"][8] == [b"one", b"two"]
    assert "tensor" in values["raw"]


def test_a_record_that_was_not_written_to_its_end_is_waited_for(tmp_path):
    with tf.summary.FileWriter(str(tmp_path)) as writer:
        for step in range(3):
            writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="a", simple_value=1.0)]), step)
    (path,) = glob.glob(str(tmp_path / "events.*"))
    whole = open(path, "rb").read()
    assert [e["step"] for e in event_reader.events(path)] == [0, 0, 1, 2]
    with open(path, "wb") as file:
        file.write(whole[:-3])
    assert [e["step"] for e in event_reader.events(path)] == [0, 0, 1]
    with open(path, "wb") as file:
        file.write(whole[:-6] + b"?" + whole[-5:])
    with pytest.raises(event_reader.BadFile, match="sum of the record"):
        event_reader.events(path)


def test_writers_of_one_session_share_a_file(tmp_path):
    def tagged(tag):
        return tf.Summary(value=[tf.Summary.Value(tag=tag, simple_value=1.0)])

    with tf.Session() as first, tf.Session() as second:
        for tag, session, folder in (
            ("a", first, "x"),
            ("b", first, "x"),
            ("c", first, "y"),
            ("d", second, "z"),
        ):
            writer = tf.summary.FileWriter(str(tmp_path / folder), session=session)
            writer.add_summary(tagged(tag), 3)
            writer.flush()
        writer.close()
        with pytest.warns(UserWarning, match="closed FileWriter"):
            writer.add_summary(tagged("lost"), 4)
        writer.reopen()
        writer.close()
    for folder, tags in (("x", ["a", "b"]), ("y", ["c"])):
        assert [v["tag"] for e in read(tmp_path / folder) for v in e.get("values", ())] == tags
