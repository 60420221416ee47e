# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Modules that programs and TensorFlow's own tests import by their full names."""
from __future__ import annotations

import glob
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.core.framework import types_pb2
from millrace.python import pywrap_tensorflow
from millrace.python.data.kernel_tests import test_base
from millrace.python.framework import composite_tensor_utils, cpp_shape_inference_pb2, gpu_util, test_util
from millrace.python.ops import clustering_ops, nccl_ops
from millrace.python.ops.linalg import linear_operator_addition
from millrace.python.saved_model import revived_types
from millrace.python.saved_model.model_utils import export_output, export_utils, mode_keys
from millrace.python.summary.writer import event_file_writer_v2
from millrace.python.tools import selective_registration_header_lib
from millrace.python.training import tensorboard_logging
from millrace.python.util import example_parser_configuration, function_utils, tf_inspect


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as sess:
        return sess.run(fetches, feed)


def test_datasets_are_compared():
    case = test_base.DatasetTestBase()
    case.setUp()
    numbers = tf.data.Dataset.range(3)
    case.assertDatasetProduces(numbers, [0, 1, 2], num_test_iterations=2)
    case.assertDatasetProduces(numbers.shuffle(3), [0, 1, 2], assert_items_equal=True)
    with pytest.raises(AssertionError):
        case.assertDatasetProduces(numbers, [0, 1, 3])
    with pytest.raises(AssertionError):
        case.assertDatasetProduces(numbers, [0, 1])
    bad = numbers.map(lambda x: tf.debugging.check_numerics(1.0 / tf.cast(x - 1, tf.float32), "found"))
    error = (tf.errors.InvalidArgumentError, "found")
    case.assertDatasetProduces(bad, expected_error=error, expected_error_iter=2)
    case.assertDatasetsEqual(numbers, tf.data.Dataset.from_tensor_slices(np.arange(3)))
    with pytest.raises(AssertionError):
        case.assertDatasetsEqual(numbers, tf.data.Dataset.range(4))


def test_operators_are_added_where_the_sum_is_simple():
    rng = np.random.RandomState(0)
    diag = tf.linalg.LinearOperatorDiag(
        rng.rand(3), is_positive_definite=True, is_self_adjoint=True, name="d"
    )
    identity = tf.linalg.LinearOperatorScaledIdentity(3, np.float64(2), name="i")
    tril = tf.linalg.LinearOperatorLowerTriangular(rng.rand(3, 3), name="t")
    full = tf.linalg.LinearOperatorFullMatrix(rng.rand(3, 3))
    for group, kind in (
        ([identity, identity], tf.linalg.LinearOperatorScaledIdentity),
        ([diag, identity, diag], tf.linalg.LinearOperatorDiag),
        ([diag, tril], tf.linalg.LinearOperatorLowerTriangular),
        ([diag, tril, full, identity], tf.linalg.LinearOperatorFullMatrix),
    ):
        found = linear_operator_addition.add_operators(group)
        assert len(found) == 1 and type(found[0]) is kind
        np.testing.assert_allclose(run(found[0].to_dense()), sum(run([op.to_dense() for op in group])))
    (both,) = linear_operator_addition.add_operators([diag, diag], operator_name="sum")
    assert both.is_positive_definite and both.name == "sum"
    with pytest.raises(TypeError, match="only LinearOperator instances"):
        linear_operator_addition.add_operators([1])
    with pytest.raises(ValueError, match="must have the same domain dimension"):
        linear_operator_addition.add_operators([diag, tf.linalg.LinearOperatorDiag([1.0, 2.0])])


def test_outputs_of_models_become_signatures():
    scores, texts = tf.placeholder(tf.float32, [None, 2], name="s"), tf.placeholder(
        tf.string, [None], name="e"
    )
    outputs = {
        "a": export_output.ClassificationOutput(scores=scores),
        "b": export_output.RegressionOutput(scores),
        None: export_output.PredictOutput({"x": scores}),
    }
    found = export_utils.build_all_signature_defs({"in": texts}, outputs)
    assert set(found) == {"a", "b", "serving_default"}
    assert found["a"].method_name == "tensorflow/serving/classify"
    assert found["serving_default"].outputs["x"].name == "s:0"
    train = export_output.TrainOutput(loss=scores, metrics={"m": (scores, tf.no_op())})
    names = set(train.as_signature_def({"in": texts}).outputs)
    assert names == {"loss", "metrics/m/value", "metrics/m/update_op"}
    with pytest.raises(ValueError, match="Classification scores must be a float32 Tensor"):
        export_output.ClassificationOutput(scores=texts)
    with pytest.raises(ValueError, match="Multiple export_outputs were provided"):
        export_utils.get_export_outputs({"a": outputs["a"], "b": outputs["b"]}, None)
    modes = mode_keys.ModeKeyMap(train=1, eval=2)
    assert modes["train"] == 1 and modes["test"] == 2 and list(modes) == ["train", "eval"]
    with pytest.raises(ValueError, match="Multiple keys/values found for test mode"):
        mode_keys.ModeKeyMap(test=1, eval=2)


def test_classes_are_made_again_by_version():
    class Thing:
        pass

    revived_types.register_revived_type(
        "thing_for_test", lambda x: isinstance(x, Thing),
        [
            revived_types.VersionedTypeRegistration(lambda p: "old", 1, 1, 1),
            revived_types.VersionedTypeRegistration(lambda p: "new", 3, 2, 2),
        ],
    )  # fmt: skip
    proto = revived_types.serialize(Thing())
    assert proto.version.producer == 3 and revived_types.deserialize(proto) == ("new", setattr)
    proto.version.producer, proto.version.min_consumer = 1, 1
    assert revived_types.deserialize(proto)[0] == "old"
    proto.version.min_consumer = 4
    assert revived_types.deserialize(proto) is None and revived_types.serialize(3) is None
    with pytest.raises(AssertionError, match="Duplicate registrations"):
        revived_types.register_revived_type(
            "thing_for_test", callable, [revived_types.VersionedTypeRegistration(str, 1, 1, 1)]
        )


def test_messages_and_events_reach_files(tmp_path):
    class Writer:
        events: list[Any] = []

        def add_event(self, event: Any) -> None:
            self.events.append(event)

    with pytest.raises(RuntimeError, match="Must call set_summary_writer"):
        tensorboard_logging.warn("nobody")
    tensorboard_logging.set_summary_writer(Writer())
    tensorboard_logging.info("dropped")
    tensorboard_logging.error("kept %d", 3)
    tensorboard_logging.set_summary_writer(None)
    assert [e.log_message.message for e in Writer.events] == ["kept 3"]
    with tf.Session() as sess:
        writer = event_file_writer_v2.EventFileWriterV2(sess, str(tmp_path))
        writer.add_event(tf.Event(step=7, wall_time=1.0))
        writer.close()
    (path,) = glob.glob(str(tmp_path / "*"))
    assert [e.step for e in tf.train.summary_iterator(path)] == [0, 7]
    prefix = str(tmp_path / "direct")
    direct = pywrap_tensorflow.EventsWriter(prefix.encode())
    assert direct.FileName().startswith(prefix.encode())


def test_what_graphs_need(tmp_path):
    tf.add(tf.constant(1.0), tf.placeholder(tf.float32), name="sum")
    path = str(tmp_path / "g.pb")
    tf.train.write_graph(tf.get_default_graph(), str(tmp_path), "g.pb", as_text=False)
    pairs = selective_registration_header_lib.get_ops_and_kernels("rawproto", [path], "NoOp:NoOp")
    assert [op for op, _ in pairs] == [
        "Add" if ("Add", "AddOp") in pairs else "AddV2",
        "Const",
        "NoOp",
        "Placeholder",
    ]
    header = selective_registration_header_lib.get_header([path])
    assert '|| isequal(op, "Const")' in header and "#define OPS_TO_REGISTER" in header
    examples = tf.placeholder(tf.string, [None])
    parsed = tf.parse_example(
        examples, {"d": tf.FixedLenFeature([2], tf.float32, [1.0, 2.0]), "s": tf.VarLenFeature(tf.int64)}
    )
    with tf.Session() as sess:
        config = example_parser_configuration.extract_example_parser_configuration(parsed["d"].op, sess)
    dense = config.feature_map["d"].fixed_len_feature
    assert tf.make_ndarray(dense.default_value).tolist() == [1.0, 2.0] and dense.dtype == types_pb2.DT_FLOAT
    assert config.feature_map["s"].var_len_feature.values_output_tensor_name == parsed["s"].values.name


def test_small_functions():
    value = tf.SparseTensorValue([[0, 1]], [5], [2, 3])
    both = composite_tensor_utils.append_composite_tensor(value, value)
    assert both.indices.tolist() == [[0, 1], [2, 1]] and both.dense_shape.tolist() == [4, 3]
    assert composite_tensor_utils.is_composite_or_composite_value(value)
    assert [run(t) for t in nccl_ops.all_max([tf.constant(1), tf.constant(4)])] == [4, 4]
    with pytest.raises(ValueError, match="Must pass >0 tensors"):
        nccl_ops.all_sum([])
    points = tf.constant([[0.0, 0.0], [10.0, 0.0]])
    near, distance = run(clustering_ops.nearest_neighbors(points, tf.constant([[9.0, 0.0], [1.0, 0.0]]), 1))
    assert near.tolist() == [[1], [0]] and distance.tolist() == [[1.0], [1.0]]
    result = cpp_shape_inference_pb2.CppShapeInferenceResult(shape=tf.TensorShape([2]).as_proto())
    result.handle_data.shape_and_type.add(dtype=types_pb2.DT_INT32)
    parsed = cpp_shape_inference_pb2.CppShapeInferenceResult.FromString(result.SerializeToString())
    assert parsed == result and parsed.shape.dim[0].size == 2
    device = type("D", (), {"physical_device_desc": "device: 0, name: X, pci: y, compute capability: 7.5"})
    assert gpu_util.compute_capability_from_device_desc(device) == ("X", (7, 5))
    assert tf.ConfigProto.FromString(
        function_utils.get_disabled_rewriter_config()
    ).graph_options.rewrite_options.disable_meta_optimizer
    assert tf_inspect.currentframe().f_code.co_name == "test_small_functions"


def test_layouts_of_channels():
    assert test_util.NHWCToNCHW_VECT_C([1, 2, 3, 8]) == [1, 2, 2, 3, 4]
    x = np.arange(48.0).reshape(1, 2, 3, 8)
    there = test_util.NHWCToNCHW_VECT_C(tf.constant(x))
    back = test_util.NCHW_VECT_CToNHWC(there)
    np.testing.assert_array_equal(run(back), x)
    assert run(there)[0, 1, 1, 2, 3] == x[0, 1, 2, 7]
    with pytest.raises(ValueError, match="evenly divisible by 4"):
        test_util.NHWCToNCHW_VECT_C([1, 2, 3, 5])
