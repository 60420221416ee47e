# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Objects as SavedModels: saved, loaded and called again."""
from __future__ import annotations

import os
import random
from typing import Any, Iterator

import numpy as np
import pytest

import millrace as tf
from millrace.core.protobuf import saved_model_pb2
from millrace.python.eager import context
from millrace.python.saved_model import nested_structure_coder

W = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
B = np.array([0.5, -0.5], np.float32)
X = np.array([[1.0, -1.0], [2.0, 5.0]], np.float32)
VECTOR = tf.TensorSpec([None, 2], tf.float32, name="x")


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    with context.eager_mode():
        yield


@pytest.fixture
def folder(tmp_path: Any) -> str:
    return str(tmp_path / "model")


class Inner(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.b = tf.Variable(B, name="b")


class Linear(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable(W, name="w")
        self.inner = Inner()
        self.parts = [tf.Variable(5.0), tf.Variable(6.0)]
        self.by_name = {"k": tf.Variable(7)}
        self.steps = tf.Variable(0, trainable=False, name="steps")
        self.offset = tf.constant(10.0)

    @tf.function(input_signature=[VECTOR])
    def __call__(self, x: Any) -> Any:
        return tf.matmul(x, self.w) + self.inner.b + self.offset

    @tf.function
    def scale(self, x: Any, k: int = 2, double: bool = False) -> Any:
        return {"scaled": x * k, "pair": [x, x + x if double else x]}

    @tf.function
    def count(self) -> Any:
        self.steps.assign_add(1)
        return self.steps.read_value()


def test_attributes_and_functions_come_back(folder: str) -> None:
    model = Linear()
    model.scale(tf.constant(1.0))
    model.scale(tf.constant([1, 2]), k=3)
    model.count()
    tf.saved_model.save(model, folder)
    model.w.assign(W * 0)  # what is loaded has its own variables
    loaded = tf.saved_model.load_v2(folder)
    np.testing.assert_array_equal(loaded.w.numpy(), W)
    np.testing.assert_array_equal(loaded.inner.b.numpy(), B)
    assert [v.numpy() for v in loaded.parts] == [5.0, 6.0] and loaded.by_name["k"].numpy() == 7
    assert loaded.steps.numpy() == 1 and not loaded.steps.trainable and loaded.w.trainable
    assert loaded.tensorflow_version == tf.VERSION
    np.testing.assert_allclose(loaded(X).numpy(), X @ W + B + 10.0, rtol=1e-6)
    assert loaded.scale(tf.constant(3.0))["scaled"].numpy() == 6.0
    tripled = loaded.scale(tf.constant([4, 5]), k=3)
    np.testing.assert_array_equal(tripled["scaled"].numpy(), [12, 15])
    assert [v.numpy().tolist() for v in tripled["pair"]] == [[4, 5], [4, 5]]
    assert loaded.count().numpy() == 2 and loaded.steps.numpy() == 2


def test_changed_variables_change_results_and_have_gradients(folder: str) -> None:
    tf.saved_model.save(Linear(), folder)
    loaded = tf.saved_model.load_v2(folder)
    loaded.w.assign(W + 1.0)
    np.testing.assert_allclose(loaded(X).numpy(), X @ (W + 1.0) + B + 10.0, rtol=1e-6)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(loaded(X))
    of_w, of_b = tape.gradient(loss, [loaded.w, loaded.inner.b])
    np.testing.assert_allclose(of_w.numpy(), X.T @ np.ones((2, 2)), rtol=1e-6)
    np.testing.assert_allclose(of_b.numpy(), [2.0, 2.0])

    @tf.function
    def outer(x: Any) -> Any:
        return loaded(x) * 2.0

    np.testing.assert_allclose(outer(tf.constant(X)).numpy(), 2.0 * (X @ (W + 1.0) + B + 10.0), rtol=1e-6)


def test_other_arguments_are_refused(folder: str) -> None:
    model = Linear()
    model.scale(tf.constant(1.0))
    tf.saved_model.save(model, folder)
    loaded = tf.saved_model.load_v2(folder)
    text = r"Could not find matching function to call loaded from the SavedModel. Got:\n  Positional arguments \(3 total\):"
    for arguments in [("a",), (tf.constant(1),), (tf.constant([1.0]),), (tf.constant(1.0), 4)]:
        with pytest.raises(ValueError, match=text):
            loaded.scale(*arguments)


def test_signatures(folder: str) -> None:
    model = Linear()
    twice = tf.function(lambda a, b: {"sum": a + b, "a": a})
    body = twice.get_concrete_function(tf.TensorSpec([], tf.float32, "a"), tf.TensorSpec([], tf.float32, "b"))
    tf.saved_model.save(model, folder, signatures={"serving_default": model.__call__, "add": body})
    loaded = tf.saved_model.load_v2(folder, tags=["serve"])
    assert sorted(loaded.signatures) == ["add", "serving_default"] and len(loaded.signatures) == 2
    np.testing.assert_allclose(
        loaded.signatures["serving_default"](x=tf.constant(X))["output_0"].numpy(),
        X @ W + B + 10.0,
        rtol=1e-6,
    )
    add = loaded.signatures["add"]
    got = add(b=tf.constant(2.0), a=tf.constant(3.0))
    assert sorted(got) == ["a", "sum"] and got["sum"].numpy() == 5.0 and got["a"].numpy() == 3.0
    with pytest.raises(TypeError, match="Expected argument names .* Missing"):
        add(a=tf.constant(1.0))
    with pytest.raises(TypeError, match="unexpected keyword arguments: c"):
        add(a=tf.constant(1.0), b=tf.constant(1.0), c=tf.constant(1.0))
    with pytest.raises(TypeError, match="at most 0 positional"):
        add(tf.constant(1.0), tf.constant(1.0))


def test_the_only_function_with_a_signature_is_the_default(folder: str) -> None:
    tf.saved_model.save(Linear(), folder)
    model = saved_model_pb2.SavedModel.FromString(open(os.path.join(folder, "saved_model.pb"), "rb").read())
    meta_graph = model.meta_graphs[0]
    assert list(meta_graph.meta_info_def.tags) == ["serve"]
    signature = meta_graph.signature_def["serving_default"]
    assert signature.method_name == "tensorflow/serving/predict"
    assert signature.inputs["x"].name == "serving_default_x:0"
    assert [d.size for d in signature.inputs["x"].tensor_shape.dim] == [-1, 2]
    kinds = [node.WhichOneof("kind") for node in meta_graph.object_graph_def.nodes]
    assert kinds[0] == "user_object" and kinds.count("variable") == 6 and kinds.count("constant") == 1
    names = {child.local_name for child in meta_graph.object_graph_def.nodes[0].children}
    assert {"w", "inner", "parts", "by_name", "steps", "__call__", "scale", "count", "signatures"} == names


def test_sessions_and_graphs_load_it_too(folder: str) -> None:
    tf.saved_model.save(Linear(), folder)
    with context.graph_mode(), tf.Graph().as_default(), tf.Session() as sess:
        signature = tf.saved_model.load(sess, ["serve"], folder).signature_def["serving_default"]
        got = sess.run(signature.outputs["output_0"].name, {signature.inputs["x"].name: X})
        np.testing.assert_allclose(got, X @ W + B + 10.0, rtol=1e-6)
    with context.graph_mode(), tf.Graph().as_default(), tf.Session() as sess:
        result = tf.saved_model.load_v2(folder)(tf.constant(X))
        sess.run(tf.global_variables_initializer())
        np.testing.assert_allclose(sess.run(result), X @ W + B + 10.0, rtol=1e-6)


class Tables(tf.Module):
    def __init__(self, path: str) -> None:
        super().__init__()
        words = tf.lookup.TextFileInitializer(
            path, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
        )
        self.words = tf.lookup.StaticHashTable(words, -1)
        self.fixed = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["x"], [5]), 0)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="keys")])
    def look(self, keys: Any) -> Any:
        return self.words.lookup(keys), self.fixed.lookup(keys)


def test_tables_and_their_files(folder: str, tmp_path: Any) -> None:
    words = tmp_path / "words.txt"
    words.write_text("a\nb\nc\n")
    tf.saved_model.save(Tables(str(words)), folder)
    words.unlink()
    assert open(os.path.join(folder, "assets", "words.txt")).read() == "a\nb\nc\n"
    loaded = tf.saved_model.load_v2(folder)
    found, fixed = loaded.look(tf.constant(["c", "x", "a"]))
    assert found.numpy().tolist() == [2, -1, 0] and fixed.numpy().tolist() == [0, 5, 0]
    with context.graph_mode(), tf.Graph().as_default(), tf.Session() as sess:
        signature = tf.saved_model.load(sess, ["serve"], folder).signature_def["serving_default"]
        got = sess.run(signature.outputs["output_0"].name, {signature.inputs["keys"].name: ["b", "q"]})
        assert got.tolist() == [1, -1]


def test_a_loaded_object_can_be_saved(folder: str) -> None:
    tf.saved_model.save(Linear(), folder)
    loaded = tf.saved_model.load_v2(folder)
    loaded.w.assign(W * 3.0)
    tf.saved_model.save(loaded, folder + "2")
    again = tf.saved_model.load_v2(folder + "2")
    np.testing.assert_allclose(again(X).numpy(), X @ (W * 3.0) + B + 10.0, rtol=1e-6)
    assert list(again.signatures) == ["serving_default"]


def test_what_cannot_be_saved(folder: str) -> None:
    outside = tf.Variable(1.0)

    class Untracked(tf.Module):
        @tf.function(input_signature=[])
        def f(self) -> Any:
            return outside + 1.0

    with pytest.raises(AssertionError, match="untracked object"):
        tf.saved_model.save(Untracked(), folder)
    with pytest.raises(ValueError, match="Expected a Trackable object for export"):
        tf.saved_model.save("text", folder)
    with pytest.raises(ValueError, match="Expected a TensorFlow function to generate a signature for"):
        tf.saved_model.save(Linear(), folder, signatures=lambda x: x)
    with pytest.raises(ValueError, match="Only `tf.functions` with an input signature or concrete functions"):
        tf.saved_model.save(Linear(), folder, signatures=tf.function(lambda x: x))
    with pytest.raises(ValueError, match="non-Tensor value"):
        tf.saved_model.save(
            Linear(), folder, signatures=tf.function(lambda x: [[x]], input_signature=[tf.TensorSpec([])])
        )
    with context.graph_mode(), pytest.raises(RuntimeError, match="not supported when graph building"):
        tf.saved_model.save(Linear.__new__(Linear), folder)
    with pytest.raises(AssertionError, match="inside a traced"):
        tf.function(lambda: tf.saved_model.save(Linear.__new__(Linear), folder))()
    assert not os.path.exists(folder)


def test_tags_and_folders_that_are_not_there(folder: str) -> None:
    with pytest.raises(IOError, match="SavedModel file does not exist"):
        tf.saved_model.load_v2(folder)
    tf.saved_model.save(Linear(), folder)
    with pytest.raises(ValueError, match="incompatible argument tags"):
        tf.saved_model.load_v2(folder, tags=["train"])
    assert tf.saved_model.load_v2(folder, tags="serve") is not None


def test_a_model_of_a_session_as_an_object(folder: str) -> None:
    with context.graph_mode(), tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        w = tf.Variable(W, name="w")
        y = tf.matmul(x, w, name="y")
        sess.run(w.initializer)
        tf.saved_model.simple_save(sess, folder, {"x": x}, {"y": y})
    loaded = tf.saved_model.load_v2(folder)
    np.testing.assert_allclose(loaded.signatures["serving_default"](x=tf.constant(X))["y"].numpy(), X @ W)
    np.testing.assert_allclose(loaded.prune("x:0", "y:0")(X).numpy(), X @ W)
    assert [v.op.name for v in loaded.variables] == ["w"]
    with pytest.raises(TypeError, match="Expected argument names"):
        loaded.signatures["serving_default"](z=1.0)


def test_structures_survive_their_messages() -> None:
    coder = nested_structure_coder.StructureCoder()
    structure = (
        [1, -2, 2.5, "text", True, None],
        {"shape": tf.TensorShape([None, 3]), "type": tf.int64, "spec": tf.TensorSpec([2], tf.string, "s")},
        (),
    )
    assert coder.decode_proto(coder.encode_structure(structure)) == structure
    assert coder.decode_proto(coder.encode_structure(tf.TensorShape(None))).ndims is None
    assert not coder.can_encode([object()]) and not coder.can_encode({1: 2})
    with pytest.raises(nested_structure_coder.NotEncodableError, match="No encoder for object"):
        coder.encode_structure(object())


def _damage(chance: random.Random, meta_graph: Any) -> None:
    """Changes one place of the object graph."""
    objects = meta_graph.object_graph_def
    node = chance.choice(objects.nodes)
    kind = chance.randrange(6)
    if kind == 0 and node.children:
        chance.choice(node.children).node_id = chance.randrange(-2, 40)
    elif kind == 1:
        chance.choice(list(objects.concrete_functions.values())).bound_inputs.append(chance.randrange(-2, 40))
    elif kind == 2:
        del objects.nodes[chance.randrange(len(objects.nodes)) :]
    elif kind == 3:
        del meta_graph.graph_def.library.function[
            chance.randrange(len(meta_graph.graph_def.library.function))
        ]
    elif kind == 4:
        function = chance.choice(meta_graph.graph_def.library.function)
        del function.node_def[chance.randrange(len(function.node_def) + 1) :]
    else:
        other = chance.choice(objects.nodes)
        node.CopyFrom(other)


def test_damaged_models_give_errors(folder: str) -> None:
    tf.saved_model.save(Linear(), folder)
    path = os.path.join(folder, "saved_model.pb")
    good = open(path, "rb").read()
    refused = 0
    for seed in range(60):
        model = saved_model_pb2.SavedModel.FromString(good)
        _damage(random.Random(seed), model.meta_graphs[0])
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        try:
            tf.saved_model.load_v2(folder)
        except (ValueError, TypeError, tf.errors.OpError):
            refused += 1
    assert 20 < refused < 60
