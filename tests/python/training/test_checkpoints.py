# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Reading checkpoints, initial values from them, their state files, and managers."""

import os

import numpy as np
import pytest

import millrace as tf
from millrace.python.training import checkpoint_management
from millrace.python.training import checkpoint_utils
from millrace.python.training import py_checkpoint_reader


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def checkpoint(tmp_path):
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.get_variable("var1", initializer=np.arange(4, dtype=np.float32).reshape(1, 4))
        tf.get_variable("var2", initializer=np.array([1, -2], np.int64))
        with tf.variable_scope("scope"):
            tf.get_variable("var3", initializer=[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
            tf.get_variable("text", initializer=tf.constant([b"a\x00b", b""]))
        tf.get_variable("flag", initializer=tf.constant(True))
        tf.get_variable("half", initializer=tf.constant([1.5, -2.0], tf.float16))
        sess.run(tf.global_variables_initializer())
        tf.train.Saver().save(sess, str(tmp_path / "model"), global_step=5)
    return str(tmp_path)


def test_list_and_load(checkpoint):
    assert tf.train.list_variables(checkpoint) == [
        ("flag", []),
        ("half", [2]),
        ("scope/text", [2]),
        ("scope/var3", [3, 2]),
        ("var1", [1, 4]),
        ("var2", [2]),
    ]
    path = os.path.join(checkpoint, "model-5")
    assert tf.train.load_variable(path, "var1").tolist() == [[0.0, 1.0, 2.0, 3.0]]
    value = tf.train.load_variable(checkpoint, "var2:0")
    assert value.dtype == np.int64 and value.tolist() == [1, -2]
    assert tf.train.load_variable(checkpoint, "scope/text").tolist() == [b"a\x00b", b""]
    assert tf.train.load_variable(checkpoint, "flag") == np.bool_(True)
    assert tf.train.load_variable(checkpoint, "half").dtype == np.float16
    reader = tf.train.load_checkpoint(checkpoint)
    assert reader.has_tensor("var1") and not reader.has_tensor("none")
    assert reader.get_variable_to_dtype_map()["var2"] == tf.int64
    assert b"scope/var3 (DT_FLOAT) [3,2]" in reader.debug_string()
    with pytest.raises(tf.errors.NotFoundError, match="none"):
        reader.get_tensor("none")


def test_missing_checkpoints(tmp_path):
    with pytest.raises(ValueError, match="Couldn't find 'checkpoint' file or checkpoints in given directory"):
        tf.train.load_checkpoint(str(tmp_path))
    with pytest.raises(tf.errors.OpError):
        py_checkpoint_reader.NewCheckpointReader(str(tmp_path / "none"))
    with pytest.raises(tf.errors.OpError):
        tf.train.NewCheckpointReader(str(tmp_path / "none"))


def test_damaged_checkpoint(checkpoint):
    path = os.path.join(checkpoint, "model-5")
    with open(path + ".data-00000-of-00001", "r+b") as file:
        byte = file.read(1)
        file.seek(0)
        file.write(bytes([byte[0] ^ 255]))
    reader = tf.train.load_checkpoint(path)
    failures = 0
    for name in reader.get_variable_to_shape_map():
        try:
            reader.get_tensor(name)
        except tf.errors.DataLossError:
            failures += 1
    assert failures == 1


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
def test_init_from_checkpoint(checkpoint, resource):
    with tf.Session() as sess:
        with tf.variable_scope("", use_resource=resource):
            with tf.variable_scope("some"):
                one = tf.get_variable("my1", [1, 4], initializer=tf.zeros_initializer())
                with tf.variable_scope("inner"):
                    three = tf.get_variable("var3", [3, 2], initializer=tf.zeros_initializer())
            two = tf.get_variable("my2", [2], tf.int64, initializer=tf.zeros_initializer())
        tf.train.init_from_checkpoint(checkpoint, {"var1": "some/my1", "scope/": "some/inner/"})
        tf.train.init_from_checkpoint(checkpoint, {"var2": two})
        sess.run(tf.global_variables_initializer())
        assert sess.run(one).tolist() == [[0.0, 1.0, 2.0, 3.0]]
        assert sess.run(two).tolist() == [1, -2]
        assert sess.run(three).tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
        assert sess.run(one.initialized_value()).tolist() == [[0.0, 1.0, 2.0, 3.0]]


def test_init_root_scope_and_parts(checkpoint):
    with tf.Session() as sess:
        with tf.variable_scope("scope"):
            parts = tf.get_variable(
                "var3", [3, 2], initializer=tf.zeros_initializer(), partitioner=tf.fixed_size_partitioner(2)
            )
        one = tf.get_variable("var1", [1, 4], initializer=tf.zeros_initializer())
        tf.train.init_from_checkpoint(checkpoint, {"/": "/"})
        sess.run(tf.global_variables_initializer())
        assert [sess.run(p).tolist() for p in parts] == [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]]
        assert sess.run(one).tolist() == [[0.0, 1.0, 2.0, 3.0]]


def test_init_from_checkpoint_refuses_what_does_not_fit(checkpoint):
    tf.get_variable("a", [10, 10])
    with tf.variable_scope("s"):
        tf.get_variable("new", [2])
    with pytest.raises(ValueError, match="not found in"):
        tf.train.init_from_checkpoint(checkpoint, {"no_var": "a"})
    with pytest.raises(ValueError, match="Shape of variable a:0 .* doesn't match with shape of tensor var1"):
        tf.train.init_from_checkpoint(checkpoint, {"var1": "a"})
    with pytest.raises(ValueError, match="is not found in"):
        tf.train.init_from_checkpoint(checkpoint, {"scope/": "s/"})
    with pytest.raises(TypeError):
        tf.train.init_from_checkpoint(checkpoint, {"var1": 3})


def test_checkpoints_iterator(checkpoint):
    found = checkpoint_utils.checkpoints_iterator(checkpoint, timeout=0)
    assert next(found) == os.path.join(checkpoint, "model-5")
    with pytest.raises(StopIteration):
        next(found)
    calls = []

    def give_up():
        calls.append(1)
        return True

    assert list(checkpoint_utils.checkpoints_iterator("/nonexistent", timeout=0, timeout_fn=give_up)) == []
    assert calls == [1]


def test_state_file(tmp_path):
    save_dir = str(tmp_path / "s")
    os.makedirs(save_dir)
    paths = [os.path.join(save_dir, "m-%d" % i) for i in range(3)]
    tf.train.update_checkpoint_state(save_dir, paths[1], all_model_checkpoint_paths=paths[:1])
    state = tf.train.get_checkpoint_state(save_dir)
    assert state.model_checkpoint_path == paths[1] and list(state.all_model_checkpoint_paths) == paths[:2]
    assert tf.train.get_checkpoint_state(str(tmp_path / "none")) is None
    assert tf.train.latest_checkpoint(save_dir) is None  # The files do not exist.
    with pytest.raises(ValueError, match="must match checkpoint paths"):
        tf.train.generate_checkpoint_state_proto(
            save_dir, paths[1], all_model_checkpoint_paths=[paths[0]], all_model_checkpoint_timestamps=[1.0]
        )
    (tmp_path / "s" / "checkpoint").write_text("what is this")
    assert tf.train.get_checkpoint_state(save_dir) is None
    (tmp_path / "s" / "checkpoint").write_text('all_model_checkpoint_paths: "a"')
    with pytest.raises(ValueError, match="Invalid checkpoint state"):
        tf.train.get_checkpoint_state(save_dir)


def test_mtimes_and_removal(tmp_path):
    with tf.Session() as sess:
        tf.Variable(1.0)
        sess.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(sess, str(tmp_path / "m"))
    (mtime,) = tf.train.get_checkpoint_mtimes([path])
    assert abs(mtime - os.stat(path + ".index").st_mtime) < 1e-3
    assert tf.train.get_checkpoint_mtimes([path, "none"]) == [mtime]
    tf.train.remove_checkpoint(path)
    assert sorted(os.listdir(tmp_path)) == ["checkpoint"]


def test_meta_graph_filename():
    f = checkpoint_management.meta_graph_filename
    assert f("foo") == "foo.meta" and f("foo-?????-of-00003") == "foo.meta"
    assert f("/a/foo-12", meta_graph_suffix="graph") == "/a/foo-12.graph"


def test_manager_keeps_the_newest(tmp_path):
    v = tf.Variable(0.0, use_resource=True)
    root = tf.train.Checkpoint(v=v)
    with tf.Session().as_default() as sess:
        manager = tf.train.CheckpointManager(root, str(tmp_path), max_to_keep=2)
        assert manager.latest_checkpoint is None and manager.checkpoints == []
        root.restore(manager.latest_checkpoint).initialize_or_restore()
        sess.run(v.initializer)
        paths = [manager.save() for _ in range(3)]
        assert paths == [str(tmp_path / ("ckpt-%d" % i)) for i in (1, 2, 3)]
        assert manager.checkpoints == paths[1:] and manager.latest_checkpoint == paths[2]
        assert [tf.train.checkpoint_exists(p) for p in paths] == [False, True, True]
        again = tf.train.CheckpointManager(root, str(tmp_path), max_to_keep=2)
        assert again.checkpoints == paths[1:]
        assert again.save(checkpoint_number=9) == str(tmp_path / "ckpt-9")
        assert not tf.train.checkpoint_exists(paths[1])
        assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "ckpt-9")
    with pytest.raises(ValueError, match="Expected a positive integer or `None`"):
        tf.train.CheckpointManager(root, str(tmp_path), max_to_keep=0)


def test_manager_keeps_one_in_n_hours(tmp_path, monkeypatch):
    now = [10000.0]
    monkeypatch.setattr(checkpoint_management.time, "time", lambda: now[0])
    root = tf.train.Checkpoint(v=tf.Variable(0.0, use_resource=True))
    with tf.Session().as_default() as sess:
        sess.run([root.v.initializer, root.save_counter.initializer])
        manager = tf.train.CheckpointManager(root, str(tmp_path), 1, keep_checkpoint_every_n_hours=1.0)
        paths = []
        for _ in range(5):
            now[0] += 2000.0
            paths.append(manager.save())
        # The second of the times 12000, 14000, ..., 20000 is the first that is an hour after 10000.
        assert [tf.train.checkpoint_exists(p) for p in paths] == [False, True, False, True, True]
