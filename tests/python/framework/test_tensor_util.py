# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""TensorProtos of values and back, values of constant tensors, shapes of tensors."""
from __future__ import annotations

import numpy as np
import pytest

import millrace as tf
from millrace.python.framework import dtypes, tensor_shape, tensor_util


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8,
                                  np.uint16, np.uint32, np.uint64, np.bool_, np.complex64, np.complex128])  # fmt: skip
def test_arrays_survive(kind: type) -> None:
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(kind)
    proto = tensor_util.make_tensor_proto(array)
    assert proto.dtype == dtypes.as_dtype(kind).as_datatype_enum and [
        d.size for d in proto.tensor_shape.dim
    ] == [2, 3]
    back = tensor_util.MakeNdarray(proto)
    assert back.dtype == kind and back.shape == (2, 3)
    np.testing.assert_array_equal(back, array)


def test_python_values() -> None:
    proto = tensor_util.make_tensor_proto(10.0)
    assert proto.dtype == dtypes.float32.as_datatype_enum and list(proto.float_val) == [10.0]
    assert not proto.tensor_shape.dim and not proto.tensor_shape.unknown_rank
    proto = tensor_util.make_tensor_proto([10, 20])
    assert proto.dtype == dtypes.int32.as_datatype_enum
    assert proto.tensor_content == np.array([10, 20], np.int32).tobytes()
    assert (
        tensor_util.make_tensor_proto([1.0, 2.0], dtype=dtypes.float64).dtype
        == dtypes.float64.as_datatype_enum
    )
    assert tensor_util.make_tensor_proto(2**40).dtype == dtypes.int64.as_datatype_enum
    assert list(tensor_util.make_tensor_proto("foo").string_val) == [b"foo"]
    assert list(tensor_util.make_tensor_proto([b"a", "b"]).string_val) == [b"a", b"b"]
    assert tensor_util.MakeNdarray(tensor_util.make_tensor_proto([["a"], ["bc"]])).tolist() == [
        [b"a"],
        [b"bc"],
    ]
    assert list(tensor_util.make_tensor_proto((1 + 2j), dtype=dtypes.complex64).scomplex_val) == [1, 2]
    assert tensor_util.make_tensor_proto([True, False]).dtype == dtypes.bool.as_datatype_enum


def test_filled_shapes() -> None:
    proto = tensor_util.make_tensor_proto([7], shape=[2, 3])
    np.testing.assert_array_equal(tensor_util.MakeNdarray(proto), np.full([2, 3], 7))
    proto = tensor_util.make_tensor_proto([1, 2], shape=[4])
    np.testing.assert_array_equal(tensor_util.MakeNdarray(proto), [1, 2, 2, 2])
    proto = tensor_util.make_tensor_proto([], dtype=dtypes.float32, shape=[0, 5])
    assert tensor_util.MakeNdarray(proto).shape == (0, 5)
    with pytest.raises(ValueError, match="Too many elements provided. Needed at most 2, but received 3"):
        tensor_util.make_tensor_proto([1, 2, 3], shape=[2])
    with pytest.raises(TypeError, match="Expected Tensor's shape: \\(2,\\), got \\(3,\\)."):
        tensor_util.make_tensor_proto([1, 2, 3], shape=[2], verify_shape=True)


def test_wrong_values() -> None:
    with pytest.raises(ValueError, match="None values not supported."):
        tensor_util.make_tensor_proto(None)
    with pytest.raises(TypeError, match="Expected float32, got 'a' of type 'str' instead."):
        tensor_util.make_tensor_proto(["a"], dtype=dtypes.float32)
    with pytest.raises(TypeError, match="Expected int32, got 1.5 of type 'float' instead."):
        tensor_util.make_tensor_proto([1.5], dtype=dtypes.int32)
    with pytest.raises((ValueError, TypeError)):
        tensor_util.make_tensor_proto([[1], [2, 3]])
    with pytest.raises(TypeError, match="Expected binary or unicode string|Failed to convert"):
        tensor_util.make_tensor_proto([object()])


def test_equality_of_protos() -> None:
    proto = tensor_util.make_tensor_proto([1.0, 2.0])
    assert tensor_util.ShapeEquals(proto, [2]) and not tensor_util.ShapeEquals(proto, [3])
    with pytest.raises(TypeError):
        tensor_util.ShapeEquals([1], [1])


def test_constant_values() -> None:
    assert tensor_util.constant_value(tf.constant([1, 2])).tolist() == [1, 2]
    assert tensor_util.constant_value(tf.placeholder(tf.float32)) is None
    assert tensor_util.constant_value(tf.shape(tf.zeros([2, 3]))).tolist() == [2, 3]
    assert tensor_util.constant_value(tf.shape(tf.placeholder(tf.float32, [None, 3]))) is None
    assert tensor_util.constant_value(tf.size(tf.zeros([2, 3]))) == 6
    assert tensor_util.constant_value(tf.rank(tf.zeros([2, 3]))) == 2
    assert tensor_util.constant_value(tf.rank(tf.placeholder(tf.float32))) is None
    assert tensor_util.constant_value(tf.cast(tf.constant([1.5]), tf.int32)).tolist() == [1]
    np.testing.assert_array_equal(tensor_util.constant_value(tf.range(1, 10, 3)), [1, 4, 7])
    np.testing.assert_array_equal(tensor_util.constant_value(tf.fill([2], 3)), [3, 3])
    np.testing.assert_array_equal(
        tensor_util.constant_value(tf.concat([tf.constant([1]), tf.constant([2])], 0)), [1, 2]
    )
    np.testing.assert_array_equal(tensor_util.constant_value(tf.stack([1, 2])), [1, 2])
    assert tensor_util.constant_value(tf.stack([1, tf.placeholder(tf.int32, [])])) is None
    partial = tensor_util.constant_value(tf.stack([1, tf.placeholder(tf.int32, [])]), partial=True)
    assert partial.tolist() == [1, None]
    assert tensor_util.constant_value(tf.equal(tf.constant(1), tf.constant(1)))
    # A tensor whose value was used can no longer be fed.
    constant = tf.constant(4)
    tensor_util.constant_value(constant)
    assert not constant.graph.is_feedable(constant)


def test_constant_value_as_shape() -> None:
    as_shape = tensor_util.constant_value_as_shape
    assert as_shape(tf.constant([3, -1])).as_list() == [3, None]
    assert as_shape(tf.shape(tf.placeholder(tf.float32, [None, 5]))).as_list() == [None, 5]
    assert as_shape(tf.stack([2, tf.placeholder(tf.int32, [])])).as_list() == [2, None]
    assert as_shape(tf.concat([[1], tf.shape(tf.placeholder(tf.float32, [None]))], 0)).as_list() == [1, None]
    assert as_shape(tf.shape(tf.placeholder(tf.float32, [None, 5, 6]))[1:]).as_list() == [5, 6]
    assert as_shape(tf.placeholder(tf.int32, [3])).as_list() == [None] * 3
    assert as_shape(tf.placeholder(tf.int32)).ndims is None
    assert isinstance(as_shape(tf.constant([], tf.int32)), tensor_shape.TensorShape)


def test_is_tensor() -> None:
    assert tensor_util.is_tensor(tf.constant(1)) and tensor_util.is_tensor(tf.Variable(1))
    assert tensor_util.is_tensor(tf.SparseTensor([[0]], [1], [1])) and not tensor_util.is_tensor(np.zeros(2))
    assert tf.is_tensor(tf.constant(1)) and not tf.is_tensor(3)


@pytest.mark.parametrize(
    "values, dtype, shape, text",
    [
        (10.0, None, None, "dtype: DT_FLOAT tensor_shape { } float_val: 10.0"),
        (10.0, None, [1, 3], "dtype: DT_FLOAT tensor_shape { dim { size: 1 } dim { size: 3 } } float_val: 10.0"),
        (10, dtypes.int64, None, "dtype: DT_INT64 tensor_shape { } int64_val: 10"),
        ([10, 20], None, None, r'dtype: DT_INT32 tensor_shape { dim { size: 2 } } tensor_content: "\n\000\000\000\024\000\000\000"'),
        ([True, False], None, None, "dtype: DT_BOOL tensor_shape { dim { size: 2 } } bool_val: true bool_val: false"),
        ([10.0, 20.0], dtypes.float16, None, "dtype: DT_HALF tensor_shape { dim { size: 2 } } half_val: 18688 half_val: 19712"),
        ([10.0, 20.0], dtypes.bfloat16, None, "dtype: DT_BFLOAT16 tensor_shape { dim { size: 2 } } half_val: 16672 half_val: 16800"),
        (1 + 2j, dtypes.complex64, None, "dtype: DT_COMPLEX64 tensor_shape { } scomplex_val: 1 scomplex_val: 2"),
        ([b"a", "b"], None, [1, 2], "dtype: DT_STRING tensor_shape { dim { size: 1 } dim { size: 2 } } string_val: 'a' string_val: 'b'"),
        ([(21,), (22,)], dtypes.qint8, None, r'dtype: DT_QINT8 tensor_shape { dim { size: 2 } } tensor_content: "\025\026"'),
    ],
)  # fmt: skip
def test_messages_are_those_of_tensorflow(values: object, dtype: object, shape: object, text: str) -> None:
    from google.protobuf import text_format

    from millrace.core.framework import tensor_pb2

    proto = tensor_util.make_tensor_proto(values, dtype=dtype, shape=shape)
    assert proto == text_format.Parse(text, tensor_pb2.TensorProto())


def test_values_that_are_known_in_part() -> None:
    with tf.Graph().as_default():
        unknown = tf.placeholder(tf.int32)
        x = tf.zeros([4, 4])
        assert tensor_util.constant_value(tf.stack([1, unknown]), partial=True).tolist() == [1, None]
        value = tensor_util.constant_value(tf.stack([[1, 2], unknown]), partial=True)
        assert value[0].tolist() == [1, 2] and value[1] is None
        value = tensor_util.constant_value(tf.convert_to_tensor([[unknown, 0], [1, 2]]), partial=True)
        assert value.tolist() == [[None, 0], [1, 2]]
        assert tensor_util.constant_value(tf.stack([[1, 2], unknown])) is None
        assert tensor_util.constant_value(tf.stack([unknown, [1, 2]], axis=1), partial=True) is None
        assert tf.pad(x, [[1, 2], unknown]).shape.as_list() == [7, None]
        assert tf.pad(x, [[unknown, 0], [1, 2]]).shape.as_list() == [None, 7]
        assert tf.pad(x, [[1, 2], [0, unknown]]).shape.as_list() == [7, None]
