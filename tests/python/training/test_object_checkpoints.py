# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.train.Checkpoint: objects found again by the names of attributes."""

import pytest

import millrace as tf
from millrace.python.training.tracking import graph_view
from millrace.python.training.tracking import tracking
from millrace.python.training.tracking import util


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


class Model(tracking.AutoTrackable):
    def __init__(self, value, resource=True):
        self.w = tf.Variable(value, name="weight", use_resource=resource)
        self.parts = [tf.Variable(value + 1, use_resource=resource), {"deep/er": tf.Variable(value + 2)}]


def train(model):
    optimizer = tf.train.AdamOptimizer(0.1)
    return optimizer, optimizer.apply_gradients([(tf.constant(1.0), model.w)])


def test_keys_follow_attributes(tmp_path):
    model = Model(1.0)
    optimizer, _ = train(model)
    root = tf.train.Checkpoint(model=model, optimizer=optimizer)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        path = root.save(str(tmp_path / "ckpt"), session=sess)
        assert path == str(tmp_path / "ckpt-1") and tf.train.latest_checkpoint(str(tmp_path)) == path
    value = "/.ATTRIBUTES/VARIABLE_VALUE"
    assert [name for name, _ in tf.train.list_variables(path)] == sorted(
        [
            "_CHECKPOINTABLE_OBJECT_GRAPH",
            "model/w" + value,
            "model/w/.OPTIMIZER_SLOT/optimizer/m" + value,
            "model/w/.OPTIMIZER_SLOT/optimizer/v" + value,
            "model/parts/0" + value,
            "model/parts/1/deep.Ser" + value,
            "optimizer/beta1_power" + value,
            "optimizer/beta2_power" + value,
            "save_counter" + value,
        ]
    )
    proto = util.object_metadata(path)
    assert {c.local_name for c in proto.nodes[0].children} == {"model", "optimizer", "save_counter"}
    names = {a.full_name for node in proto.nodes for a in node.attributes}
    assert "weight" in names and "weight/Adam" in names


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
def test_round_trip_with_slots_into_another_program(tmp_path, resource):
    model = Model(1.0, resource)
    optimizer, step = train(model)
    root = tf.train.Checkpoint(model=model, optimizer=optimizer)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(step)
        path = root.save(str(tmp_path / "ckpt"), session=sess)
        wanted = sess.run([model.w, optimizer.get_slot(model.w, "m"), optimizer.get_slot(model.w, "v")])
        sess.run(step)
        after = sess.run(model.w)
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.Variable(0.0, name="weight")  # Names of variables do not matter.
        model = Model(7.0, resource)
        optimizer, step = train(model)
        root = tf.train.Checkpoint(model=model, optimizer=optimizer)
        status = root.restore(path)
        status.assert_consumed().run_restore_ops(sess)
        found = sess.run([model.w, optimizer.get_slot(model.w, "m"), optimizer.get_slot(model.w, "v")])
        assert found == wanted
        sess.run(step)
        assert sess.run(model.w) == after
        assert sess.run(root.save_counter) == 1
        assert root.save(str(tmp_path / "ckpt"), session=sess) == str(tmp_path / "ckpt-2")


def test_slots_made_after_restore(tmp_path):
    model = Model(1.0)
    optimizer, step = train(model)
    root = tf.train.Checkpoint(model=model, optimizer=optimizer)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(step)
        path = root.save(str(tmp_path / "ckpt"), session=sess)
        wanted = sess.run(optimizer.get_slot(model.w, "m"))
    with tf.Graph().as_default(), tf.Session() as sess:
        model, optimizer = Model(7.0), tf.train.AdamOptimizer(0.1)
        status = tf.train.Checkpoint(model=model, optimizer=optimizer).restore(path)
        with pytest.raises(AssertionError):
            status.assert_consumed()
        optimizer.apply_gradients([(tf.constant(1.0), model.w)])
        status.assert_consumed().run_restore_ops(sess)
        assert sess.run(optimizer.get_slot(model.w, "m")) == wanted


def test_objects_attached_after_restore(tmp_path):
    with tf.Session() as sess:
        root = tf.train.Checkpoint(model=Model(5.0))
        sess.run(tf.global_variables_initializer())
        path = root.save(str(tmp_path / "ckpt"), session=sess)
    with tf.Graph().as_default(), tf.Session() as sess:
        root = tf.train.Checkpoint()
        status = root.restore(path)
        with pytest.raises(AssertionError, match="Unresolved object in checkpoint"):
            status.assert_consumed()
        root.model = Model(0.0)
        status.assert_consumed()
        status.run_restore_ops(sess)
        assert sess.run(root.model.w) == 5.0


def test_objects_that_the_checkpoint_lacks(tmp_path):
    with tf.Session() as sess:
        v = tf.Variable(5.0, use_resource=True)
        sess.run(v.initializer)
        path = tf.train.Checkpoint(v=v).write(str(tmp_path / "ckpt"), session=sess)
        assert path == str(tmp_path / "ckpt")
    with tf.Graph().as_default(), tf.Session() as sess:
        v, extra = tf.Variable(0.0, use_resource=True), tf.Variable(3.0, use_resource=True)
        status = tf.train.Checkpoint(v=v, extra=extra).restore(path)
        with pytest.raises(AssertionError, match="Some Python objects were not bound to checkpointed values"):
            status.assert_existing_objects_matched()
        status.assert_nontrivial_match()
        status.initialize_or_restore(sess)
        assert sess.run([v, extra]) == [5.0, 3.0]
    with tf.Graph().as_default(), tf.Session():
        status = tf.train.Checkpoint(other=tf.Variable(0.0)).restore(path)
        with pytest.raises(AssertionError, match="Nothing except the root object matched"):
            status.assert_nontrivial_match()


def test_without_a_checkpoint_variables_are_initialized():
    v = tf.Variable(3.0, use_resource=True)
    root = tf.train.Checkpoint(v=v)
    status = root.restore(None)
    with pytest.raises(AssertionError, match="No checkpoint specified"):
        status.assert_consumed()
    with tf.Session() as sess:
        status.initialize_or_restore(sess)
        assert sess.run(v) == 3.0 and sess.run(root.save_counter) == 0


def test_the_newest_restore_wins(tmp_path):
    v = tf.Variable(1.0, use_resource=True)
    root = tf.train.Checkpoint(v=v)
    with tf.Session() as sess:
        sess.run([v.initializer, root.save_counter.initializer])
        first = root.save(str(tmp_path / "ckpt"), session=sess)
        sess.run(v.assign(2.0))
        second = root.save(str(tmp_path / "ckpt"), session=sess)
        for path, wanted in ((first, 1.0), (second, 2.0), (first, 1.0)):
            root.restore(path).run_restore_ops(sess)
            assert sess.run(v) == wanted
        operations = len(sess.graph.get_operations())
        root.restore(second).run_restore_ops(sess)
        root.write(str(tmp_path / "again"), session=sess)
        assert len(sess.graph.get_operations()) == operations  # Ops are made once.


def test_saver_reads_checkpoints_of_objects_and_the_other_way(tmp_path):
    with tf.Session() as sess:
        v = tf.Variable(5.0, name="v", use_resource=True)
        sess.run(v.initializer)
        by_objects = tf.train.Checkpoint(v=v).write(str(tmp_path / "objects"), session=sess)
        by_names = tf.train.Saver([v]).save(sess, str(tmp_path / "names"))
        sess.run(v.assign(0.0))
        tf.train.Saver([v]).restore(sess, by_objects)
        assert sess.run(v) == 5.0
        sess.run(v.assign(0.0))
        status = tf.train.Checkpoint(other=v).restore(by_names)
        status.run_restore_ops(sess)
        assert sess.run(v) == 5.0
        with pytest.raises(ValueError, match="does not appear to be object-based"):
            util.object_metadata(by_names)


def test_python_state_is_saved(tmp_path):
    class Text(tf.train.experimental.PythonState):
        text = "first"

        def serialize(self):
            return self.text

        def deserialize(self, string_value):
            self.text = string_value.decode()

    state = Text()
    root = tf.train.Checkpoint(state=state)
    with tf.Session() as sess:
        sess.run(root.save_counter.initializer)
        first = root.save(str(tmp_path / "ckpt"), session=sess)
        state.text = "second"
        second = root.save(str(tmp_path / "ckpt"), session=sess)
        root.restore(first).assert_consumed().run_restore_ops(sess)
        assert state.text == "first"
        root.restore(second)
        assert state.text == "second"


def test_what_is_not_trackable():
    with pytest.raises(ValueError, match="was expecting a trackable object"):
        tf.train.Checkpoint(v=3)


def test_list_objects_and_names():
    model = Model(1.0)
    objects = util.list_objects(model)
    assert objects[0] is model and model.w in objects and len(objects) == 6
    assert graph_view._escape_local_name("a/b.c") == "a.Sb..c"
