# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Saver: what is written comes back, in every format and with every option."""

import os

import numpy as np
import pytest

import millrace as tf
from millrace.core.protobuf import saver_pb2


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def variables(resource=False):
    v0 = tf.Variable([10.0, 20.0], name="v0", use_resource=resource)
    v1 = tf.Variable([[1, 2], [3, 4]], name="v1", use_resource=resource)
    v2 = tf.Variable(["a", "bc"], name="v2", use_resource=False)
    return [v0, v1, v2]


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
@pytest.mark.parametrize("sharded", [False, True], ids=["whole", "sharded"])
@pytest.mark.parametrize("version", [tf.train.SaverDef.V1, tf.train.SaverDef.V2], ids=["V1", "V2"])
def test_round_trip(tmp_path, version, sharded, resource):
    vs = variables(resource)
    saver = tf.train.Saver(write_version=version, sharded=sharded)
    prefix = str(tmp_path / "model")
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(vs[0].assign([1.5, 2.5]))
        path = saver.save(sess, prefix, latest_filename="state")
        assert path == (prefix + "-?????-of-00001" if sharded and version == 1 else prefix)
        assert tf.train.checkpoint_exists(path)
    with tf.Session() as sess:
        saver.restore(sess, path)
        values = sess.run(vs)
        assert values[0].tolist() == [1.5, 2.5] and values[1].tolist() == [[1, 2], [3, 4]]
        assert values[2].tolist() == [b"a", b"bc"]


def test_names_in_the_checkpoint_are_the_keys_of_the_dict(tmp_path):
    v = tf.Variable(3.0, name="v")
    other = tf.Variable([1.0], name="other")
    saver = tf.train.Saver({"renamed": v})
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        path = saver.save(sess, str(tmp_path / "m"))
        assert tf.train.list_variables(path) == [("renamed", [])]
        saver.restore(sess, path)
        with pytest.raises(tf.errors.NotFoundError, match="Restoring from checkpoint failed"):
            tf.train.Saver([other]).restore(sess, path)


def test_step_in_the_name_and_state_file(tmp_path):
    v = tf.Variable(1.0, name="v")
    step = tf.Variable(40, name="step", dtype=tf.int64)
    saver = tf.train.Saver(max_to_keep=2)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        prefix = str(tmp_path / "m")
        paths = [saver.save(sess, prefix, global_step=s) for s in (1, np.int64(2))]
        paths.append(saver.save(sess, prefix, global_step=step))
        assert paths == [prefix + "-1", prefix + "-2", prefix + "-40"]
        assert saver.last_checkpoints == paths[1:]
        assert not tf.train.checkpoint_exists(paths[0]) and not os.path.exists(paths[0] + ".meta")
        state = tf.train.get_checkpoint_state(str(tmp_path))
        assert state.model_checkpoint_path == paths[2] and list(state.all_model_checkpoint_paths) == paths[1:]
        assert tf.train.latest_checkpoint(str(tmp_path)) == paths[2]
        # Saving one again makes it the newest.
        saver.save(sess, prefix, global_step=2)
        assert saver.last_checkpoints == [paths[2], paths[1]]
        padded = tf.train.Saver(pad_step_number=True)
        assert padded.save(sess, prefix, global_step=7) == prefix + "-00000007"
    assert v is not None


def test_a_new_saver_takes_over_old_checkpoints(tmp_path):
    tf.Variable(1.0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        first = tf.train.Saver(max_to_keep=2)
        paths = [first.save(sess, str(tmp_path / "m"), global_step=s) for s in range(2)]
        second = tf.train.Saver(max_to_keep=2)
        second.recover_last_checkpoints(paths + [str(tmp_path / "gone")])
        assert second.last_checkpoints == paths
        third = second.save(sess, str(tmp_path / "m"), global_step=5)
        assert second.last_checkpoints == [paths[1], third]
        assert not tf.train.checkpoint_exists(paths[0])


def test_none_and_zero_keep_all(tmp_path):
    tf.Variable(1.0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for limit in (None, 0):
            saver = tf.train.Saver(max_to_keep=limit)
            paths = [saver.save(sess, str(tmp_path / "m"), global_step=s) for s in range(7)]
            assert all(tf.train.checkpoint_exists(p) for p in paths) and saver.last_checkpoints == []


def test_one_checkpoint_in_n_hours_stays(tmp_path):
    tf.Variable(1.0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        saver = tf.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=1.0)
        first = saver.save(sess, str(tmp_path / "m"), global_step=1)
        # As if it had been written two hours later.
        saver.set_last_checkpoints_with_time([(first, saver._last_checkpoints[0][1] + 7200)])
        second = saver.save(sess, str(tmp_path / "m"), global_step=2)
        third = saver.save(sess, str(tmp_path / "m"), global_step=3)
        assert [tf.train.checkpoint_exists(p) for p in (first, second, third)] == [True, False, True]


def test_reshape(tmp_path):
    with tf.Session() as sess:
        v = tf.Variable([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], name="v")
        sess.run(v.initializer)
        path = tf.train.Saver().save(sess, str(tmp_path / "m"))
    for reshape in (False, True):
        with tf.Graph().as_default(), tf.Session() as sess:
            v = tf.Variable([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]], name="v")
            saver = tf.train.Saver(reshape=reshape)
            if not reshape:
                with pytest.raises(
                    tf.errors.InvalidArgumentError, match="a mismatch between the current graph"
                ):
                    saver.restore(sess, path)
            else:
                saver.restore(sess, path)
                assert sess.run(v).tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


@pytest.mark.parametrize("resource", [False, True])
def test_parts_of_a_partitioned_variable_are_one(tmp_path, resource):
    def make(parts):
        return tf.get_variable(
            "v",
            [6, 2],
            initializer=tf.random_uniform_initializer(),
            use_resource=resource,
            partitioner=tf.fixed_size_partitioner(parts) if parts else None,
        )

    with tf.Session() as sess:
        v = make(3)
        sess.run(tf.global_variables_initializer())
        whole = sess.run(tf.convert_to_tensor(v))
        path = tf.train.Saver().save(sess, str(tmp_path / "m"))
        assert tf.train.list_variables(path) == [("v", [6, 2])]
    for parts in (2, 0):
        with tf.Graph().as_default(), tf.Session() as sess:
            v = make(parts)
            tf.train.Saver().restore(sess, path)
            np.testing.assert_array_equal(sess.run(tf.convert_to_tensor(v)), whole)


def test_restore_sequentially_and_relative_paths(tmp_path):
    vs = variables()
    saver = tf.train.Saver(restore_sequentially=True, save_relative_paths=True)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        saver.save(sess, str(tmp_path / "m"), global_step=1)
    text = (tmp_path / "checkpoint").read_text()
    assert 'model_checkpoint_path: "m-1"' in text and str(tmp_path) not in text
    moved = tmp_path.parent / (tmp_path.name + "_moved")
    os.rename(tmp_path, moved)
    with tf.Session() as sess:
        saver.restore(sess, tf.train.latest_checkpoint(str(moved)))
        assert sess.run(vs[1]).tolist() == [[1, 2], [3, 4]]


def test_relative_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkdir("sub")
    tf.Variable(1.0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for prefix in ("m", "./n", "sub/m"):
            saver = tf.train.Saver()
            path = saver.save(sess, prefix)
            assert path == prefix
            found = tf.train.latest_checkpoint(os.path.dirname(prefix))
            assert os.path.abspath(found) == os.path.abspath(prefix)


def test_wrong_arguments(tmp_path):
    with pytest.raises(ValueError, match="No variables to save"):
        tf.train.Saver()
    empty = tf.train.Saver(allow_empty=True)
    with tf.Session() as sess:
        assert empty.save(sess, str(tmp_path / "m")) is None
        empty.restore(sess, str(tmp_path / "none"))
    v = tf.Variable(1.0, name="v")
    with pytest.raises(TypeError, match="Variable to save is not a Variable"):
        tf.train.Saver([tf.constant(1.0)])
    with pytest.raises(TypeError, match="Variables to save should be passed in a dict or a list"):
        tf.train.Saver(3)
    with pytest.raises(ValueError, match="The same saveable will be restored with two names"):
        tf.train.Saver({"a": v, "b": v})
    w = tf.get_variable("w", initializer=1.0, use_resource=True)
    for twice in ([v, v], [v, [w, (v,)]], [w, w]):
        with pytest.raises(ValueError, match="At least two variables have the same name: [vw]"):
            tf.train.Saver(twice)
    tf.train.Saver([v, [w]])
    with pytest.raises(ValueError, match="build cannot be deferred"):
        tf.train.Saver([v], defer_build=True)
    saver = tf.train.Saver()
    (tmp_path / "file").write_text("")
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        with pytest.raises(ValueError, match="Can't load save_path when it is None"):
            saver.restore(sess, None)
        with pytest.raises(ValueError, match="not a valid checkpoint"):
            saver.restore(sess, str(tmp_path / "none"))
        with pytest.raises(ValueError, match="must not contain path components"):
            saver.save(sess, str(tmp_path / "m"), latest_filename="a/b")
        with pytest.raises(ValueError, match="'latest_filename' collides with 'save_path'"):
            saver.save(sess, str(tmp_path / "checkpoint"))
        with pytest.raises(ValueError, match="Parent directory of .* doesn't exist, can't save"):
            saver.save(sess, str(tmp_path / "file" / "m"))
        with pytest.raises(TypeError, match="'sess' must be a Session"):
            saver.save(None, str(tmp_path / "m"))
    deferred = tf.train.Saver(defer_build=True)
    with tf.Session() as sess, pytest.raises(RuntimeError, match="should be called before save"):
        deferred.save(sess, str(tmp_path / "m"))


def test_uninitialized_variables_are_not_saved(tmp_path):
    tf.Variable(1.0, name="v")
    saver = tf.train.Saver()
    with tf.Session() as sess, pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
        saver.save(sess, str(tmp_path / "m"))


def test_saver_def_and_saving_in_a_scope():
    tf.Variable(1.0, name="v")
    saver = tf.train.Saver(name="my", max_to_keep=3)
    definition = saver.as_saver_def()
    assert isinstance(definition, saver_pb2.SaverDef)
    assert definition.filename_tensor_name == "my/Const:0" and definition.max_to_keep == 3
    assert definition.save_tensor_name == "my/control_dependency:0"
    assert definition.restore_op_name == "my/restore_all" and definition.version == saver_pb2.SaverDef.V2
    again = tf.train.Saver(saver_def=definition)
    assert again.as_saver_def() == definition
    assert (
        tf.train.Saver.from_proto(definition, "scope").as_saver_def().restore_op_name
        == "scope/my/restore_all"
    )


def test_moving_averages_are_restored_in_place_of_variables(tmp_path):
    v = tf.Variable(2.0, name="v")
    average = tf.train.ExponentialMovingAverage(0.5)
    update = average.apply([v])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(v.assign(4.0))
        sess.run(update)
        path = tf.train.Saver().save(sess, str(tmp_path / "m"))
        restorer = tf.train.Saver(average.variables_to_restore())
        restorer.restore(sess, path)
        assert sess.run(v) == 3.0


def test_meta_graph_round_trip(tmp_path):
    v = tf.Variable([1.0, 2.0], name="v")
    tf.add_to_collection("fetch", tf.multiply(v, 2.0, name="twice"))
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        path = saver.save(sess, str(tmp_path / "m"), global_step=3)
    assert path.endswith("m-3") and os.path.exists(path + ".meta")
    with tf.Graph().as_default(), tf.Session() as sess:
        loaded = tf.train.import_meta_graph(path + ".meta")
        loaded.restore(sess, path)
        (fetch,) = tf.get_collection("fetch")
        assert sess.run(fetch).tolist() == [2.0, 4.0]
        assert [x.name for x in tf.trainable_variables()] == ["v:0"]
    with tf.Graph().as_default(), tf.Session() as sess:
        loaded = tf.train.import_meta_graph(path + ".meta", import_scope="in")
        loaded.restore(sess, path)
        assert sess.run("in/twice:0").tolist() == [2.0, 4.0]
        assert [x.name for x in tf.global_variables()] == ["in/v:0"]


def test_exported_meta_graph_without_variables_gives_no_saver(tmp_path):
    tf.constant(1.0, name="c")
    exported = tf.train.export_meta_graph(str(tmp_path / "g.meta"), as_text=True)
    assert exported.graph_def.node[0].name == "c"
    with tf.Graph().as_default() as graph:
        assert tf.train.import_meta_graph(str(tmp_path / "g.meta")) is None
        assert graph.get_tensor_by_name("c:0").dtype == tf.float32


def test_scope_of_a_graph_as_a_meta_graph(tmp_path):
    with tf.name_scope("hidden"):
        v = tf.Variable(3.0, name="v")
        tf.add(v, 1.0, name="sum")
    tf.constant(0.0, name="outside")
    exported = tf.train.export_meta_graph(export_scope="hidden")
    names = [n.name for n in exported.graph_def.node]
    assert "v" in names and "sum" in names and "outside" not in names
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.train.import_meta_graph(exported, import_scope="new")
        sess.run(tf.global_variables_initializer())
        assert sess.run("new/sum:0") == 4.0


def test_meta_graph_goes_into_the_current_scope(tmp_path):
    v = tf.Variable(3.0, name="v")
    tf.add(v, 1.0, name="sum")
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(v.initializer)
        path = saver.save(sess, str(tmp_path / "m"))
    with tf.Graph().as_default(), tf.Session() as sess:
        with tf.name_scope("outer"):
            tf.train.import_meta_graph(path + ".meta").restore(sess, path)
        assert sess.run("outer/sum:0") == 4.0 and [x.name for x in tf.global_variables()] == ["outer/v:0"]
