# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Specs of values, specs of devices, and switches of tf.config."""
from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import millrace as tf
from millrace.python.data.ops import dataset_ops, optional_ops
from millrace.python.data.util import structure
from millrace.python.framework import device as pydev
from millrace.python.framework import device_spec, sparse_tensor, tensor_spec, type_spec
from millrace.python.ops import tensor_array_ops


def test_tensor_specs() -> None:
    spec = tf.TensorSpec([None, 2], tf.int32, name="x")
    assert repr(spec) == "TensorSpec(shape=(?, 2), dtype=tf.int32, name='x')"
    assert spec == tf.TensorSpec([None, 2], "int32", "x") and spec != tf.TensorSpec([None, 2], tf.int32)
    assert hash(spec) == hash(tf.TensorSpec([None, 2], tf.int32, "x"))
    assert spec.is_compatible_with(tf.zeros([5, 2], tf.int32)) and not spec.is_compatible_with(
        tf.zeros([5, 2])
    )
    assert tf.TensorSpec.from_spec(spec, name="y").name == "y"
    t = tf.placeholder(tf.float32, [3], name="p")
    assert tf.TensorSpec.from_tensor(t) == tf.TensorSpec([3], tf.float32, "p")
    assert pickle.loads(pickle.dumps(spec)) == spec
    wide = tf.TensorSpec([1, 2], tf.int32).most_specific_compatible_type(tf.TensorSpec([3, 2], tf.int32))
    assert wide.shape.as_list() == [None, 2]
    with pytest.raises(ValueError):
        tf.TensorSpec([1], tf.int32).most_specific_compatible_type(tf.TensorSpec([1], tf.int64))


def test_bounded_specs() -> None:
    spec = tensor_spec.BoundedTensorSpec([3, 5], tf.float32, 0, [1, 2, 3, 4, 5], name="b")
    assert spec.minimum == 0 and spec.maximum.tolist() == [1, 2, 3, 4, 5]
    assert repr(spec) == (
        "BoundedTensorSpec(shape=(3, 5), dtype=tf.float32, name='b', minimum=array(0., dtype=float32), "
        "maximum=array([1., 2., 3., 4., 5.], dtype=float32))"
    )
    assert tensor_spec.BoundedTensorSpec.from_spec(spec) == spec
    assert pickle.loads(pickle.dumps(spec)) == spec
    with pytest.raises(ValueError, match="not compatible with shape"):
        tensor_spec.BoundedTensorSpec([3], tf.float32, [0, 0], 1)
    with pytest.raises(ValueError):
        spec.minimum[...] = 3
    for missing in ((None, 1), (0, None)):
        with pytest.raises(ValueError, match="minimum and maximum must be provided"):
            tensor_spec.BoundedTensorSpec([3], tf.float32, *missing)


@pytest.mark.parametrize(
    "spec",
    [
        tf.TensorSpec([2, None], tf.float32),
        tf.SparseTensorSpec([2, None], tf.int64),
        tf.IndexedSlicesSpec([4, 2], tf.float32, tf.int32, tf.int64),
        tf.TensorArraySpec([3], tf.float32),
        tf.OptionalSpec(tf.TensorSpec([], tf.string)),
        tf.data.DatasetSpec(tf.TensorSpec([], tf.int64)),
        structure.NoneTensorSpec(),
    ],
)
def test_every_spec_is_a_value(spec: type_spec.TypeSpec) -> None:
    again = pickle.loads(pickle.dumps(spec))
    assert again == spec and not again != spec and hash(again) == hash(spec)
    assert copy.deepcopy(spec) == spec
    assert repr(spec).startswith(type(spec).__name__ + "(")
    assert spec.is_compatible_with(again) and not spec.is_compatible_with(tf.TensorSpec([7, 7], tf.bool))
    assert spec.most_specific_compatible_type(again) == spec
    assert spec.value_type is not None


def test_specs_of_values() -> None:
    sparse = tf.SparseTensor([[0, 1]], [1.0], [2, 3])
    assert type_spec.type_spec_from_value(sparse) == tf.SparseTensorSpec([2, 3], tf.float32)
    assert tf.SparseTensorSpec.from_value(sparse).dtype == tf.float32
    assert type_spec.type_spec_from_value(tf.Variable([1.0])) == tf.TensorSpec([1], tf.float32)
    assert type_spec.type_spec_from_value(np.zeros([2], np.int32)) == tf.TensorSpec([2], tf.int32)
    assert type_spec.type_spec_from_value(tf.zeros([2])) == tf.TensorSpec([2], tf.float32)
    with pytest.raises(TypeError, match="Could not build a TypeSpec"):
        type_spec.type_spec_from_value(object())
    array = tf.TensorArray(tf.float32, 3, element_shape=[2])
    assert tf.TensorArraySpec.from_value(array).is_compatible_with(
        tensor_array_ops.TensorArraySpec([2], tf.float32)
    )
    dataset = tf.data.Dataset.range(3)
    assert dataset_ops.DatasetSpec.from_value(dataset) == tf.data.DatasetSpec(tf.TensorSpec([], tf.int64))
    optional = optional_ops.Optional.none_from_structure(tf.TensorSpec([], tf.int64))
    assert optional_ops.OptionalSpec.from_value(optional) == tf.OptionalSpec(tf.TensorSpec([], tf.int64))
    with tf.Session() as session:
        assert session.run(optional.has_value()) is np.False_ or not session.run(optional.has_value())
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(optional.get_value())
        full = optional_ops.Optional.from_value({"a": tf.constant(3), "b": sparse})
        assert session.run(full.get_value()["a"]) == 3 and session.run(full.has_value())
        assert session.run(full.get_value()["b"]).values.tolist() == [1.0]


def test_components_of_specs() -> None:
    sparse = tf.SparseTensor([[0, 1]], [1.0], [2, 3])
    spec = tf.SparseTensorSpec([2, 3], tf.float32)
    again = spec._from_components(spec._to_components(sparse))
    with tf.Session() as session:
        assert session.run(again).dense_shape.tolist() == [2, 3]
        batch = spec._to_tensor_list(sparse)
        assert session.run(spec._from_compatible_tensor_list(batch)).values.tolist() == [1.0]
    assert sparse_tensor.SparseTensorSpec([2], tf.int32)._batch(5).shape.as_list() == [5, 2]
    assert tf.TensorSpec([5, 2], tf.int32)._unbatch().shape.as_list() == [2]
    assert tf.TensorSpec([2], tf.int32)._to_legacy_output_types() == tf.int32


def test_device_specs() -> None:
    spec = tf.DeviceSpec(job="ps", task=3)
    spec.device_type, spec.device_index, spec.replica = "gpu", 1, 2
    assert spec.to_string() == "/job:ps/replica:2/task:3/device:GPU:1"
    assert (spec.job, spec.replica, spec.task, spec.device_type, spec.device_index) == ("ps", 2, 3, "GPU", 1)
    assert tf.DeviceSpec().parse_from_string("/job:w/cpu:*").to_string() == "/job:w/device:CPU:*"
    other = tf.DeviceSpec(job="worker")
    other.merge_from(spec)
    assert other.job == "ps" and other.task == 3
    second = device_spec.DeviceSpecV2.from_string("/job:foo/task:1")
    assert second == device_spec.DeviceSpecV2(job="foo", task=1) and hash(second) == hash(
        device_spec.DeviceSpecV2(job="foo", task=1)
    )
    assert second.replace(task=2, device_type="CPU").to_string() == "/job:foo/task:2/device:CPU:*"
    assert second.parse_from_string("/job:bar").job == "bar" and second.job == "foo"
    merged = second.make_merged_spec(device_spec.DeviceSpecV2(device_type="GPU", device_index=0))
    assert merged.to_string() == "/job:foo/task:1/device:GPU:0"
    with pytest.raises(AttributeError):
        second.job = "x"
    for wrong in ("/device:GPU:3/gpu:2", "/foo:bar", "/cpu:x"):
        with pytest.raises(ValueError):
            tf.DeviceSpec.from_string(wrong)
    pydev.check_valid("/job:worker/task:1")
    with pytest.raises(ValueError):
        pydev.check_valid("/job:a/foo:1/bar")
    assert pydev.canonical_name(None) == "" and pydev.canonical_name("/cpu:0") == "/device:CPU:0"
    merge = pydev.merge_device("/job:a")
    with tf.device("/task:1"), tf.device(merge):
        assert tf.no_op().device == "/job:a/task:1"


def test_config_values_are_remembered() -> None:
    for get, set_, value in (
        (tf.config.get_soft_device_placement, tf.config.set_soft_device_placement, True),
        (tf.debugging.get_log_device_placement, tf.debugging.set_log_device_placement, False),
        (tf.config.optimizer.get_jit, tf.config.optimizer.set_jit, False),
    ):
        before = get()
        set_(value)
        assert get() == value
        set_(before)
    tf.config.optimizer.set_experimental_options({"constant_folding": True})
    assert tf.config.optimizer.get_experimental_options()["constant_folding"] is True
    physical = tf.config.experimental.list_physical_devices("CPU")
    assert physical[0].device_type == "CPU" and physical[0].name == "/physical_device:CPU:0"
    assert tf.config.experimental.list_logical_devices("CPU")[0].device_type == "CPU"
    assert tf.config.experimental.get_visible_devices("CPU") == physical
    with pytest.raises(ValueError):
        tf.config.experimental.set_visible_devices("not a device", "CPU")


def test_values_that_do_not_fit_a_spec() -> None:
    spec = tf.TensorSpec([2], tf.float32)
    assert spec._to_tensor_list([1.0, 2.0])[0].shape.as_list() == [2]
    for wrong in ([1.0], "a", tf.SparseTensor([[0]], [1.0], [2])):
        with pytest.raises(ValueError, match="is not convertible to a tensor with dtype"):
            spec._to_tensor_list(wrong)
