# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Summaries, files of events, and records."""

import glob
import os
import struct
import threading

import numpy as np
import pytest

import millrace as tf


def parse(serialized):
    message = tf.Summary()
    message.ParseFromString(serialized)
    return message


def events(folder):
    return [
        e
        for path in sorted(glob.glob(os.path.join(str(folder), "events*")))
        for e in tf.train.summary_iterator(path)
    ]


def test_scalars_with_scopes_and_families():
    with tf.Session() as sess:
        with tf.name_scope("outer"):
            one = tf.summary.scalar("inner", tf.constant(3))
            two = tf.summary.scalar("inner", 4.5)
            family = tf.summary.scalar("inner", 5.0, family="family")
        assert one.op.type == "ScalarSummary"
        for tensor, tag, value in (
            (one, "outer/inner", 3.0),
            (two, "outer/inner_1", 4.5),
            (family, "family/outer/family/inner", 5.0),
        ):
            (v,) = parse(sess.run(tensor)).value
            assert v.tag == tag and v.simple_value == value
        with tf.name_scope("other"):
            bad = tf.summary.scalar("bad name!", 1.0)
        assert parse(sess.run(bad)).value[0].tag == "other/bad_name_"


def test_histograms():
    data = np.concatenate([np.zeros(3), np.linspace(-2, 5, 50)])
    with tf.Session() as sess:
        (v,) = parse(sess.run(tf.summary.histogram("h", data))).value
    h = v.histo
    assert v.tag == "h" and h.num == 53 and h.min == -2.0 and h.max == 5.0
    np.testing.assert_allclose(h.sum, data.sum())
    np.testing.assert_allclose(h.sum_squares, (data**2).sum())
    assert sum(h.bucket) == 53 and len(h.bucket) == len(h.bucket_limit)
    with tf.Session() as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match="Nan in summary histogram"):
            sess.run(tf.summary.histogram("n", [float("nan")]))


def test_images_and_audio():
    pixels = np.random.RandomState(0).randint(0, 255, (4, 5, 6, 3)).astype(np.uint8)
    images = tf.constant(pixels)
    with tf.Session() as sess:
        message = parse(sess.run(tf.summary.image("img", images, max_outputs=2)))
        assert [v.tag for v in message.value] == ["img/image/0", "img/image/1"]
        assert (message.value[0].image.height, message.value[0].image.width) == (5, 6)
        decoded = sess.run(tf.image.decode_png(message.value[1].image.encoded_image_string))
        np.testing.assert_array_equal(decoded, pixels[1])
        single = parse(sess.run(tf.summary.image("one", images[:1], 1)))
        assert single.value[0].tag == "one/image"
        sound = parse(sess.run(tf.summary.audio("snd", np.zeros((2, 100, 1), np.float32), 8000.0)))
        assert [v.tag for v in sound.value] == ["snd/audio/0", "snd/audio/1"]
        assert sound.value[0].audio.sample_rate == 8000 and sound.value[0].audio.length_frames == 100


def test_text_and_tensors():
    with tf.Session() as sess:
        (v,) = parse(sess.run(tf.summary.text("t", tf.constant("hello")))).value
        assert v.tag == "t" and tf.make_ndarray(v.tensor) == b"hello"
        assert v.metadata.plugin_data.plugin_name == "text"
        (v,) = parse(sess.run(tf.summary.tensor_summary("ten", [1, 2], display_name="shown"))).value
        assert tf.make_ndarray(v.tensor).tolist() == [1, 2] and v.metadata.display_name == "shown"
    with pytest.raises(ValueError):
        tf.summary.text("t", tf.constant(3))


def test_merging():
    a, b = tf.summary.scalar("a", 1.0), tf.summary.scalar("b", 2.0, collections=["mine"])
    with tf.name_scope("s"):
        c = tf.summary.scalar("c", 3.0)
    with tf.Session() as sess:
        tags = lambda t: [v.tag for v in parse(sess.run(t)).value]  # noqa: E731
        assert tags(tf.summary.merge([a, b])) == ["a", "b"]
        assert tags(tf.summary.merge_all()) == ["a", "s/c"]
        assert tags(tf.summary.merge_all("mine")) == ["b"] and tags(tf.summary.merge_all(scope="s")) == [
            "s/c"
        ]
        assert tf.summary.merge_all("none") is None and c is not None
        with pytest.raises(tf.errors.InvalidArgumentError, match="Duplicate tag"):
            sess.run(tf.summary.merge([a, a]))


def test_files_of_events(tmp_path):
    summary = tf.summary.scalar("s", 2.0)
    with tf.Session() as sess, tf.summary.FileWriter(str(tmp_path), sess.graph) as writer:
        writer.add_summary(sess.run(summary), 1)
        writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="made", simple_value=7.0)]), global_step=2)
        writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START), 3)
        metadata = tf.RunMetadata()
        sess.run(summary, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
        writer.add_run_metadata(metadata, "run1", 4)
        with pytest.raises(ValueError, match="The provided tag was already used"):
            writer.add_run_metadata(metadata, "run1")
        assert writer.get_logdir() == str(tmp_path)
    found = events(tmp_path)
    assert [e.WhichOneof("what") for e in found] == [
        "file_version",
        "graph_def",
        "meta_graph_def",
        "summary",
        "summary",
        "session_log",
        "tagged_run_metadata",
    ]
    assert found[0].file_version == "brain.Event:2"
    assert [e.step for e in found[3:]] == [1, 2, 3, 4] and found[4].summary.value[0].simple_value == 7.0
    graph = tf.GraphDef.FromString(found[1].graph_def)
    assert [n.name for n in graph.node][-1] == "s"


def test_records_are_those_of_tensorboard(tmp_path):
    from millrace.python.lib.io import crc32c

    with tf.summary.FileWriter(str(tmp_path), filename_suffix=".mine") as writer:
        writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="a", simple_value=1.0)]))
    (path,) = glob.glob(str(tmp_path / "events.out.tfevents.*.mine"))
    data = open(path, "rb").read()
    count = 0
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        assert struct.unpack("<I", data[8:12])[0] == crc32c.masked(data[:8])
        body = data[12 : 12 + length]
        assert struct.unpack("<I", data[12 + length : 16 + length])[0] == crc32c.masked(body)
        tf.Event.FromString(body)
        data, count = data[16 + length :], count + 1
    assert count == 2


def test_metadata_is_written_once(tmp_path):
    t = tf.summary.text("t", tf.constant("x"))
    with tf.Session() as sess, tf.summary.FileWriter(str(tmp_path)) as writer:
        for step in range(3):
            writer.add_summary(sess.run(t), step)
    with_metadata = [
        bool(v.metadata.plugin_data.plugin_name) for e in events(tmp_path) for v in e.summary.value
    ]
    assert with_metadata == [True, False, False]


def test_closing_reopening_and_caching(tmp_path):
    writer = tf.summary.FileWriter(str(tmp_path))
    writer.close()
    writer.close()
    writer.reopen()
    writer.add_summary(tf.Summary(), 1)
    writer.flush()
    assert len([e for e in events(tmp_path) if e.WhichOneof("what") == "summary"]) == 1
    writer.close()
    one = tf.summary.FileWriterCache.get(str(tmp_path / "c"))
    assert tf.summary.FileWriterCache.get(str(tmp_path / "c")) is one
    tf.summary.FileWriterCache.clear()
    assert tf.summary.FileWriterCache.get(str(tmp_path / "c")) is not one
    tf.summary.FileWriterCache.clear()


def test_threads_write_all_their_events(tmp_path):
    writer = tf.summary.FileWriter(str(tmp_path), max_queue=3)

    def work(base):
        for i in range(50):
            writer.add_summary(tf.Summary(), base + i)

    threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    writer.close()
    steps = [e.step for e in events(tmp_path) if e.WhichOneof("what") == "summary"]
    assert sorted(steps) == sorted(100 * i + j for i in range(4) for j in range(50))


def test_truncated_file_ends_with_an_error(tmp_path):
    with tf.summary.FileWriter(str(tmp_path)) as writer:
        writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="a", simple_value=1.0)]), 1)
    (path,) = glob.glob(str(tmp_path / "events*"))
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) - 3)
    seen = []
    with pytest.raises(tf.errors.DataLossError):
        for event in tf.train.summary_iterator(path):
            seen.append(event)
    assert len(seen) == 1


def test_wrong_arguments(tmp_path):
    writer = tf.summary.FileWriter(str(tmp_path))
    with pytest.raises(TypeError, match="The passed graph must be an instance of"):
        writer.add_graph(3)
    with pytest.raises(TypeError):
        writer.add_meta_graph(3)
    writer.close()
    with pytest.raises(ValueError):
        tf.summary.scalar(None, 1.0)


def test_record_files(tmp_path):
    for kind in ("", "GZIP", "ZLIB"):
        path = str(tmp_path / ("records" + kind))
        options = tf.python_io.TFRecordOptions(getattr(tf.python_io.TFRecordCompressionType, kind or "NONE"))
        with tf.python_io.TFRecordWriter(path, options=options) as writer:
            for i in range(10):
                writer.write(b"record %d" % i * i)
        assert list(tf.python_io.tf_record_iterator(path, options)) == [
            b"record %d" % i * i for i in range(10)
        ]
    with pytest.raises(tf.errors.NotFoundError):
        next(tf.python_io.tf_record_iterator(str(tmp_path / "none")))


def test_plugin_assets():
    from millrace.python.summary import plugin_asset

    class Asset(plugin_asset.PluginAsset):
        plugin_name = "mine"
        contents = "x"

        def assets(self):
            return {"a.txt": self.contents}

    first = plugin_asset.get_plugin_asset(Asset)
    assert plugin_asset.get_plugin_asset(Asset) is first
    assert plugin_asset.get_all_plugin_assets() == [first]


def test_description():
    from millrace.python.ops import gen_logging_ops

    op = gen_logging_ops.tensor_summary(tf.constant(1.0), description='{"type_hint": "mine"}').op
    assert tf.summary.get_summary_description(op.node_def).type_hint == "mine"
    with pytest.raises(ValueError, match="Can't get_summary_description on Const"):
        tf.summary.get_summary_description(tf.constant(1.0).op.node_def)
