# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""constant, convert_to_tensor, zeros, ones, fill and placeholders."""
from __future__ import annotations

import numpy as np
import pytest

import millrace as tf
from millrace.python.framework import constant_op, ops


def value_of(tensor: tf.Tensor) -> np.ndarray:
    with tf.Session(graph=tensor.graph) as session:
        return session.run(tensor)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
                                  "uint32", "uint64", "bool", "complex64", "complex128"])  # fmt: skip
def test_arrays(kind: str) -> None:
    array = (np.arange(-10, 10).reshape(2, 2, 5) % 3).astype(kind)
    made = value_of(tf.constant(array))
    assert made.dtype == array.dtype and made.shape == array.shape
    np.testing.assert_array_equal(made, array)
    assert value_of(tf.constant(np.empty((2, 0, 5), kind))).shape == (2, 0, 5)


def test_python_values_and_types() -> None:
    assert (
        tf.constant(1).dtype == tf.int32
        and tf.constant(1.0).dtype == tf.float32
        and tf.constant(True).dtype == tf.bool
    )
    assert tf.constant(1 + 2j).dtype == tf.complex128 and tf.constant("a").dtype == tf.string
    assert tf.constant([1, 2.5]).dtype == tf.float32 and tf.constant(np.float64(1)).dtype == tf.float64
    assert tf.constant([2**40]).dtype == tf.int64 and tf.constant(1, tf.float64).dtype == tf.float64
    assert value_of(tf.constant([b"\x00a", "é", ""])).tolist() == [b"\x00a", "é".encode(), b""]
    assert value_of(tf.constant(7, shape=[2, 2])).tolist() == [[7, 7], [7, 7]]
    assert value_of(tf.constant([1, 2, 3, 4], shape=[2, 2])).tolist() == [[1, 2], [3, 4]]
    assert tf.constant([[1, 2]]).shape.as_list() == [1, 2] and tf.constant(3, name="x").op.name == "x"
    assert value_of(tf.constant(np.arange(6).reshape(2, 3)[:, ::2])).tolist() == [[0, 2], [3, 5]]
    assert value_of(tf.constant(np.arange(4, dtype=">i4"))).tolist() == [0, 1, 2, 3]


def test_wrong_values() -> None:
    with pytest.raises(ValueError, match="None values not supported."):
        tf.constant(None)
    with pytest.raises(TypeError, match="Expected int32, got 'x' of type 'str' instead."):
        tf.constant("x", tf.int32)
    with pytest.raises(ValueError, match="Too many elements provided. Needed at most 5, but received 7"):
        tf.constant([1, 2, 3, 4, 5, 6, 7], shape=[5])
    with pytest.raises(TypeError):
        tf.constant([1, 2, 3], shape=[2], verify_shape=True)
    with pytest.raises(
        ValueError, match="Argument must be a dense tensor.* - got shape \\[2\\], but wanted \\[2, .*\\]"
    ):
        tf.constant([[1, 2], [3]])


def test_zeros_ones_fill_and_likes() -> None:
    assert value_of(tf.zeros([2, 3])).tolist() == [[0.0] * 3] * 2 and value_of(
        tf.ones([2], tf.int64)
    ).tolist() == [1, 1]
    assert value_of(tf.zeros([2], tf.string)).tolist() == [b"", b""] and value_of(
        tf.zeros([1], tf.bool)
    ).tolist() == [False]
    assert value_of(tf.fill([2, 2], 9)).tolist() == [[9, 9], [9, 9]]
    assert value_of(tf.zeros_like(tf.constant([[1, 2]]))).tolist() == [[0, 0]]
    assert value_of(tf.ones_like([1.0, 2.0], dtype=tf.int32)).tolist() == [1, 1]
    unknown = tf.placeholder(tf.float32)
    with tf.Session() as session:
        assert session.run(tf.zeros_like(unknown), {unknown: np.ones([1, 2])}).tolist() == [[0.0, 0.0]]
        assert session.run(tf.zeros(tf.placeholder_with_default([2], [1]))).tolist() == [0.0, 0.0]
    assert tf.zeros(tf.shape(tf.placeholder(tf.float32, [None, 3]))).shape.as_list() == [None, 3]
    assert value_of(tf.eye(2)).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_conversion() -> None:
    tensor = tf.constant([1.0])
    assert tf.convert_to_tensor(tensor) is tensor
    assert tf.convert_to_tensor(3, preferred_dtype=tf.float64).dtype == tf.float64
    assert tf.convert_to_tensor(3.5, preferred_dtype=tf.int32).dtype == tf.float32
    assert tf.convert_to_tensor([tensor, [2.0]]).shape.as_list() == [2, 1]
    assert tf.convert_to_tensor(tf.TensorShape([2, 3])).dtype == tf.int32
    assert tf.convert_to_tensor(tf.Dimension(3)).dtype == tf.int32
    assert value_of(tf.convert_to_tensor(tf.TensorShape([2, 2**33]))).tolist() == [2, 2**33]
    with pytest.raises(
        ValueError, match="Cannot convert a partially known TensorShape to a Tensor: \\(2, \\?\\)"
    ):
        tf.convert_to_tensor(tf.TensorShape([2, None]))
    with pytest.raises(ValueError, match="Cannot convert an unknown Dimension to a Tensor: \\?"):
        tf.convert_to_tensor(tf.Dimension(None))
    with pytest.raises(
        ValueError, match="Tensor conversion requested dtype int32 for Tensor with dtype float32"
    ):
        tf.convert_to_tensor(tensor, tf.int32)
    with pytest.raises(TypeError, match="Failed to convert object of type <class 'object'> to Tensor"):
        tf.convert_to_tensor(object())
    with pytest.raises(TypeError, match="Failed to convert object of type <class .list.> to Tensor"):
        tf.convert_to_tensor([1.0, None])


def test_registered_conversion() -> None:
    class Length:
        def __init__(self, metres: float) -> None:
            self.metres = metres

    def convert(value: Length, dtype: object = None, name: str | None = None, as_ref: bool = False) -> object:
        return NotImplemented if value.metres < 0 else constant_op.constant(value.metres, dtype, name=name)

    tf.register_tensor_conversion_function(Length, convert, 10)
    assert value_of(tf.add(Length(2.0), 3.0)) == 5.0
    assert value_of(ops.convert_to_tensor(Length(4.0), dtype=tf.float64)) == 4.0
    with pytest.raises(TypeError):
        tf.convert_to_tensor(Length(-1.0))
    with pytest.raises(TypeError, match="base_type must be a type or a tuple of types."):
        tf.register_tensor_conversion_function("x", convert)
    with pytest.raises(TypeError, match="conversion_func must be callable."):
        tf.register_tensor_conversion_function(Length, 3)


def test_placeholders() -> None:
    unknown, partial = tf.placeholder(tf.int32), tf.placeholder(tf.float32, (None, 3), "name")
    assert unknown.shape.ndims is None and partial.shape.as_list() == [None, 3] and partial.op.name == "name"
    assert partial.op.type == "Placeholder" and partial.op.get_attr("dtype") == tf.float32
    with pytest.raises(TypeError):
        tf.placeholder("fish")
    default = tf.placeholder_with_default(np.float32([1.0, 2.0]), [None])
    with tf.Session() as session:
        assert session.run(default).tolist() == [1.0, 2.0] and session.run(
            default, {default: [5.0]}
        ).tolist() == [5.0]
    sparse = tf.sparse_placeholder(tf.float32, [2, None])
    assert isinstance(sparse, tf.SparseTensor) and sparse.dtype == tf.float32


@pytest.mark.parametrize(
    "value,dtype,found",
    [
        (1.5, None, tf.float32), (1.5, tf.float64, tf.float64), (2, None, tf.int32), (2, tf.float32, tf.float32),
        (2**31 - 1, None, tf.int32), (2**31, tf.int64, tf.int64), (-(2**31), tf.int32, tf.int32), (True, None, tf.bool),
        (2, tf.uint8, tf.uint8), (2, tf.half, tf.half), (2, tf.complex64, tf.complex64), (2.5, tf.bfloat16, tf.bfloat16),
    ],
)  # fmt: skip
def test_single_numbers(value, dtype, found):
    t = tf.constant(value, dtype)
    assert t.dtype == found and t.shape == ()
    with tf.Session() as session:
        assert session.run(tf.cast(t, tf.complex128)) == value


@pytest.mark.parametrize("value,dtype", [(1.5, tf.int32), (True, tf.int32), (True, tf.float32), (1, tf.bool)])
def test_numbers_that_a_type_does_not_hold(value, dtype):
    with pytest.raises((TypeError, ValueError)):
        tf.constant(value, dtype)
