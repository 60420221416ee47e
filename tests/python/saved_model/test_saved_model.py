# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""SavedModels: written, found, loaded and run again."""

import os

import numpy as np
import pytest

import millrace as tf
from millrace.core.protobuf import meta_graph_pb2
from millrace.python.saved_model import constants
from millrace.python.saved_model import loader_impl
from millrace.python.saved_model import main_op
from millrace.python.saved_model import signature_def_utils
from millrace.python.saved_model import utils
from millrace.python.util import compat


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "model")


def model(scale=2.0):
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    w = tf.Variable([[scale], [1.0]], name="w")
    y = tf.matmul(x, w, name="y")
    return x, w, y


def test_simple_save_and_load(folder):
    with tf.Graph().as_default(), tf.Session() as sess:
        x, _, y = model()
        sess.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(sess, folder, inputs={"x": x}, outputs={"y": y})
    assert sorted(os.listdir(folder)) == ["saved_model.pb", "variables"]
    assert sorted(os.listdir(folder + "/variables")) == ["variables.data-00000-of-00001", "variables.index"]
    assert tf.saved_model.loader.maybe_saved_model_directory(folder)
    with tf.Graph().as_default(), tf.Session() as sess:
        meta = tf.saved_model.loader.load(sess, [tf.saved_model.tag_constants.SERVING], folder)
        assert isinstance(meta, meta_graph_pb2.MetaGraphDef) and list(meta.meta_info_def.tags) == ["serve"]
        assert meta.meta_info_def.tensorflow_version == tf.VERSION
        signature = meta.signature_def[tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY]
        assert signature.method_name == "tensorflow/serving/predict"
        assert signature.inputs["x"].dtype == tf.float32.as_datatype_enum
        assert [d.size for d in signature.inputs["x"].tensor_shape.dim] == [-1, 2]
        got = sess.run(signature.outputs["y"].name, {signature.inputs["x"].name: [[1.0, 2.0]]})
        assert got.tolist() == [[4.0]]
        assert [v.name for v in tf.trainable_variables()] == ["w:0"]


def test_two_graphs_share_variables(folder):
    builder = tf.saved_model.builder.SavedModelBuilder(folder)
    with tf.Graph().as_default(), tf.Session() as sess:
        model(5.0)
        with pytest.raises(
            AssertionError, match="Graph state including variables and assets has not been saved"
        ):
            builder.add_meta_graph(["early"])
        sess.run(tf.global_variables_initializer())
        builder.add_meta_graph_and_variables(sess, ["train", "cpu"])
        with pytest.raises(
            AssertionError, match="Graph state including variables and assets has already been saved"
        ):
            builder.add_meta_graph_and_variables(sess, ["again"])
    with tf.Graph().as_default():
        x, w, _ = model()
        tf.identity(w * 10.0, name="z")
        builder.add_meta_graph(["serve"])
    path = builder.save()
    assert path == compat.as_bytes(os.path.join(folder, "saved_model.pb"))
    for tags, fetch, wanted in (
        (["cpu", "train"], "w:0", [[5.0], [1.0]]),
        (["serve"], "z:0", [[50.0], [10.0]]),
    ):
        with tf.Graph().as_default(), tf.Session() as sess:
            tf.saved_model.loader.load(sess, tags, folder)
            assert sess.run(fetch).tolist() == wanted
    with tf.Graph().as_default(), tf.Session() as sess:
        with pytest.raises(RuntimeError, match="MetaGraphDef associated with tags"):
            tf.saved_model.loader.load(sess, ["none"], folder)
    with pytest.raises(AssertionError, match="Export directory already exists"):
        tf.saved_model.builder.SavedModelBuilder(folder)


def test_as_text(folder):
    builder = tf.saved_model.Builder(folder)
    with tf.Graph().as_default(), tf.Session() as sess:
        model()
        sess.run(tf.global_variables_initializer())
        builder.add_meta_graph_and_variables(sess, ["foo"])
    builder.save(as_text=True)
    assert os.path.exists(os.path.join(folder, constants.SAVED_MODEL_FILENAME_PBTXT))
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.saved_model.loader.load(sess, ["foo"], folder)
        assert sess.run("w:0").tolist() == [[2.0], [1.0]]


def test_assets_and_main_op(folder, tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("a\nb\n")
    builder = tf.saved_model.builder.SavedModelBuilder(folder)
    with tf.Graph().as_default(), tf.Session() as sess:
        asset = tf.constant(str(vocabulary), name="file")
        tf.add_to_collection(tf.GraphKeys.ASSET_FILEPATHS, asset)
        local = tf.Variable(tf.read_file(asset), name="local", collections=[tf.GraphKeys.LOCAL_VARIABLES])
        model()
        sess.run(tf.global_variables_initializer())
        builder.add_meta_graph_and_variables(
            sess,
            ["serve"],
            assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
            main_op=main_op.main_op(),
            clear_devices=True,
        )
        assert local is not None
    builder.save()
    vocabulary.unlink()
    with open(os.path.join(folder, "assets", "vocab.txt"), encoding="utf-8") as file:
        assert file.read() == "a\nb\n"
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.saved_model.loader.load(sess, ["serve"], folder)
        assert sess.run("local:0") == b"a\nb\n"


def test_legacy_init_op_and_import_scope(folder):
    builder = tf.saved_model.builder.SavedModelBuilder(folder)
    with tf.Graph().as_default(), tf.Session() as sess:
        _, w, _ = model()
        sess.run(tf.global_variables_initializer())
        double = w.assign(w * 2.0)
        builder.add_meta_graph_and_variables(sess, ["serve"], legacy_init_op=double.op)
    builder.save()
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.saved_model.loader.load(sess, ["serve"], folder, import_scope="in")
        assert sess.run("in/w:0").tolist() == [[4.0], [2.0]]


def test_stripped_defaults(folder):
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.complex(tf.constant(1.0), tf.constant(2.0), name="c")
        model()
        sess.run(tf.global_variables_initializer())
        builder = tf.saved_model.builder.SavedModelBuilder(folder)
        builder.add_meta_graph_and_variables(sess, ["serve"], strip_default_attrs=True)
        builder.add_meta_graph(["plain"], strip_default_attrs=False)
        builder.save()
    found = {}
    for meta in loader_impl.parse_saved_model(folder).meta_graphs:
        (node,) = [n for n in meta.graph_def.node if n.name == "c"]
        found[meta.meta_info_def.tags[0]] = set(node.attr)
    assert "T" not in found["serve"] and "T" in found["plain"]


def test_signatures():
    with tf.Graph().as_default():
        x, _, y = model()
        classes = tf.constant(["a"])
        predict = signature_def_utils.predict_signature_def({"in": x}, {"out": y})
        assert predict.method_name == "tensorflow/serving/predict" and predict.inputs["in"].name == "x:0"
        text = tf.placeholder(tf.string, name="text")
        classify = signature_def_utils.classification_signature_def(text, classes, y)
        assert (
            sorted(classify.outputs) == ["classes", "scores"] and classify.inputs["inputs"].name == "text:0"
        )
        regress = signature_def_utils.regression_signature_def(text, y)
        assert list(regress.outputs) == ["outputs"] and signature_def_utils.is_valid_signature(regress)
        with pytest.raises(ValueError):
            signature_def_utils.regression_signature_def(x, y)
        with pytest.raises(ValueError):
            signature_def_utils.predict_signature_def({}, {})
        info = utils.build_tensor_info(x)
        assert utils.get_tensor_from_tensor_info(info) is x
        sparse = utils.build_tensor_info(tf.SparseTensor([[0, 0]], [1.0], [1, 2]))
        assert sparse.coo_sparse.values_tensor_name
        assert isinstance(utils.get_tensor_from_tensor_info(sparse), tf.SparseTensor)


def test_what_is_no_saved_model(tmp_path):
    assert not tf.saved_model.contains_saved_model(str(tmp_path))
    with tf.Session() as sess:
        with pytest.raises(IOError, match="SavedModel file does not exist at"):
            tf.saved_model.load(sess, ["serve"], str(tmp_path))
        (tmp_path / "saved_model.pb").write_bytes(b"no message at all")
        with pytest.raises(IOError, match="Cannot parse file"):
            tf.saved_model.load(sess, ["serve"], str(tmp_path))


def test_resource_variables_and_partitions(folder):
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.get_variable(
            "v",
            [4],
            use_resource=True,
            initializer=tf.constant_initializer(2.5),
            partitioner=tf.fixed_size_partitioner(2),
        )
        total = tf.reduce_sum(tf.convert_to_tensor(v), name="total")
        sess.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(sess, folder, {"v": total}, {"total": total})
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.saved_model.load(sess, ["serve"], folder)
        assert sess.run("total:0") == np.float32(10.0)
