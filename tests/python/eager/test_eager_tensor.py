# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors that have values."""
import copy
import pickle

import millrace as tf
import numpy as np
import pytest
from millrace.python.eager import context
from millrace.python.framework import ops

pytestmark = pytest.mark.usefixtures("eager")


def test_properties():
    x = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert isinstance(x, tf.Tensor) and isinstance(x, ops.EagerTensor)
    assert x.shape == (2, 3) and x.get_shape().as_list() == [2, 3] and x.ndim == 2
    assert x.dtype == tf.float32
    np.testing.assert_array_equal(x.numpy(), [[1, 2, 3], [4, 5, 6]])
    assert x.numpy().dtype == np.float32
    assert x._id != tf.constant(1)._id


@pytest.mark.parametrize("name", ["op", "graph", "name", "value_index"])
def test_parts_of_graphs(name):
    with pytest.raises(
        AttributeError, match="^Tensor.%s is meaningless when eager execution is enabled.$" % name
    ):
        getattr(tf.constant(1), name)
    with pytest.raises(AttributeError, match="meaningless"):
        getattr(tf.Tensor, "shape").__get__(tf.constant(1))  # the descriptor of tensors in graphs


def test_methods_of_graphs():
    x = tf.constant(1)
    with pytest.raises(NotImplementedError, match="is .numpy\\(\\) what you're looking for?"):
        x.eval()
    with pytest.raises(NotImplementedError, match="Tensor.consumers is meaningless"):
        x.consumers()
    x.set_shape([])
    with pytest.raises(
        ValueError, match="Tensor's shape \\(\\) is not compatible with supplied shape \\[1\\]"
    ):
        x.set_shape([1])


def test_numpy_is_a_copy():
    source = np.arange(100_000, dtype=np.float32)  # large arrays are what might be shared
    x = tf.constant(source)
    source[0] = 7
    assert x.numpy()[0] == 0
    x.numpy()[1] = 9
    assert x.numpy()[1] == 1
    np.asarray(x)[2] = 9
    assert float(x[2]) == 2


def test_text():
    x = tf.constant([1.5, 2.0])
    assert str(x) == "tf.Tensor([1.5 2. ], shape=(2,), dtype=float32)"
    assert (
        repr(x)
        == "<tf.Tensor: id=%d, shape=(2,), dtype=float32, numpy=array([1.5, 2. ], dtype=float32)>" % x._id
    )
    y = tf.constant([[1], [2]])
    assert str(y) == "tf.Tensor(\n[[1]\n [2]], shape=(2, 1), dtype=int32)"
    assert str(tf.constant(3)) == "tf.Tensor(3, shape=(), dtype=int32)"
    assert repr(tf.constant("a")).endswith("shape=(), dtype=string, numpy=b'a'>")
    assert "<unprintable>" in str(tf.Variable(1.0).handle)
    assert "%.2f|%d" % (tf.constant(1.234), tf.constant(5)) == "1.23|5"
    assert "{:.1f}".format(tf.constant(1.25)) == "1.2"


def test_python_conversions():
    assert int(tf.constant(3)) == 3 and float(tf.constant(1.5)) == 1.5
    assert complex(tf.constant(1 + 2j)) == 1 + 2j
    assert bool(tf.constant(True)) and not tf.constant(0)
    assert [10, 20, 30][tf.constant(1)] == 20
    assert list(range(tf.constant(3))) == [0, 1, 2]
    with pytest.raises(TypeError):
        [1, 2][tf.constant(1.0)]
    with pytest.raises(ValueError):
        bool(tf.constant([True, False]))
    with pytest.raises(TypeError):
        int(tf.constant([1, 2]))


def test_sequence():
    x = tf.constant([[1, 2], [3, 4], [5, 6]])
    assert len(x) == 3
    assert [row.numpy().tolist() for row in x] == [[1, 2], [3, 4], [5, 6]]
    with pytest.raises(TypeError, match="Scalar tensor has no `len\\(\\)`"):
        len(tf.constant(1))
    with pytest.raises(TypeError, match="Cannot iterate over a scalar tensor."):
        iter(tf.constant(1))


def test_slices():
    a = np.arange(24).reshape(2, 3, 4)
    x = tf.constant(a)
    for got, want in [
        (x[1], a[1]),
        (x[:, 1], a[:, 1]),
        (x[..., ::2], a[..., ::2]),
        (x[-1, 1:, ::-1], a[-1, 1:, ::-1]),
        (x[:, tf.newaxis, 0], a[:, np.newaxis, 0]),
        (x[tf.constant(1), 2], a[1, 2]),
    ]:
        np.testing.assert_array_equal(got.numpy(), want)
    with pytest.raises(tf.errors.InvalidArgumentError, match="slice index 5 of dimension 0 out of bounds"):
        x[5]


def test_hash_and_equality_of_objects():
    x, y = tf.constant(1), tf.constant(1)
    assert {x: "x"}[x] == "x" and x != y and x == x
    assert x.experimental_ref() == x.experimental_ref()


def test_values_are_compared_on_request():
    x = tf.constant([1, 2])
    tf.compat.v1.enable_tensor_equality()
    try:
        assert (x == [1, 3]).numpy().tolist() == [True, False]
        assert (x != tf.constant([1, 3])).numpy().tolist() == [False, True]
        assert not x == None  # noqa: E711
        with pytest.raises(TypeError, match="Tensor is unhashable if Tensor equality is enabled"):
            hash(x)
        with context.graph_mode():
            t = tf.constant(1)
            assert t == t and (t != tf.constant(1)) is True and hash(t)
    finally:
        tf.compat.v1.disable_tensor_equality()
    assert x == x and hash(x)


def test_copies():
    x = tf.constant([1, 2])
    assert copy.copy(x) is x and copy.deepcopy(x) is x
    assert pickle.loads(pickle.dumps(x)).numpy().tolist() == [1, 2]
    assert x.cpu().numpy().tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="Error copying tensor to device: .*GPU:0 unknown device"):
        x.gpu()


def test_numpy_operators():
    x = tf.constant([1.0, 2.0])
    assert isinstance(np.ones(2, np.float32) + x, ops.EagerTensor)
    np.testing.assert_array_equal(np.add(x, 1), [2, 3])
    np.testing.assert_array_equal(np.array(x, np.float64), [1.0, 2.0])
    assert np.float32(2) * x is not None


@pytest.mark.parametrize(
    "value, dtype",
    [
        (1, tf.int32), (1.5, tf.float32), (True, tf.bool), ("a", tf.string), (b"a", tf.string), (1j, tf.complex128),
        (2**40, tf.int64), ([1, 2.5], tf.float32), ([[1], [2]], tf.int32), (np.float64(1), tf.float64),
        (np.arange(3, dtype=np.uint8), tf.uint8), (np.array(["x", "yz"]), tf.string), ([], tf.float32),
    ],
)  # fmt: skip
def test_constants(value, dtype):
    x = tf.constant(value)
    assert x.dtype == dtype
    back = x.numpy()
    want = np.array(value)
    if dtype == tf.string:
        back, want = np.array(back).astype(bytes), want.astype(bytes)
    np.testing.assert_array_equal(back, want.astype(back.dtype))


def test_constant_arguments():
    assert tf.constant([1, 2, 3, 4], shape=[2, 2]).numpy().tolist() == [[1, 2], [3, 4]]
    assert tf.constant(7, shape=[2]).numpy().tolist() == [7, 7]
    assert tf.constant(True, shape=[2]).numpy().tolist() == [True, True]
    assert tf.constant(1, tf.float64).dtype == tf.float64
    with pytest.raises(
        TypeError, match="unsupported shape .value has 2 elements, shape is .3,. with 3 elements"
    ):
        tf.constant([1, 2], shape=[3])
    with pytest.raises(TypeError, match="Expected Tensor's shape: .2,., got .3,.."):
        tf.constant([1, 2, 3], shape=[2], verify_shape=True)
    x = tf.constant(1)
    assert tf.constant(x) is x
    with pytest.raises(TypeError, match="Expected tensor with type tf.float32 not tf.int32"):
        tf.constant(x, tf.float32)


def test_lists_of_tensors():
    x = tf.convert_to_tensor([tf.constant(1), 2, tf.constant(3)])
    assert x.numpy().tolist() == [1, 2, 3]


def test_resources_have_no_array():
    handle = tf.Variable(1.0).handle
    with pytest.raises(tf.errors.InvalidArgumentError, match="dtype resource to a NumPy array"):
        handle.numpy()


def test_values_of_no_type_are_refused(eager):
    with pytest.raises(
        ValueError, match="Attempt to convert a value .* with an unsupported type .* to a Tensor"
    ):
        tf.constant(object())
