# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The NumPy type bfloat16, beside float32 with its lower half cleared by hand."""
from __future__ import annotations

import copy
import math
import operator
import pickle
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.python import pywrap_tensorflow
from millrace.python.eager import context

bfloat16 = tf.bfloat16.as_numpy_dtype
EVERY = np.arange(65536, dtype=np.uint16)
VALUES = [
    0.0,
    1.0,
    -1.0,
    0.5,
    3.140625,
    -3.5,
    128.0,
    2.0**60,
    2.0**-60,
    float("inf"),
    float("-inf"),
    float("nan"),
]
NUMBERS = [
    np.float16, np.float32, np.float64, np.longdouble, np.int8, np.int16, np.int32, np.int64, np.longlong, np.uint8,
    np.uint16, np.uint32, np.uint64, np.ulonglong, np.complex64, np.complex128, np.clongdouble,
]  # fmt: skip


def rounded(array: Any) -> Any:
    """float32 rounded to the nearest number whose lower 16 bits are 0, ties to an even upper half."""
    value = np.asarray(array, np.float32)
    bits = value.view(np.uint32).astype(np.uint64)
    low = bits & 0xFFFF
    up = (low > 0x8000) | ((low == 0x8000) & ((bits >> 16) & 1 == 1))
    result = ((((bits >> 16) + up) << 16) & 0xFFFFFFFF).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(value), np.float32(np.nan), result)


def test_rounding_and_every_element():
    assert pywrap_tensorflow.TF_bfloat16_type() is bfloat16
    rng = np.random.RandomState(0)
    values = rng.randint(0, 2**32, 20000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    ties = (EVERY.astype(np.uint32) << 16 | 0x8000).view(np.float32)
    with np.errstate(invalid="ignore"):
        for given in (values, ties, EVERY.view(np.float16).astype(np.float32)):
            np.testing.assert_array_equal(given.astype(bfloat16).astype(np.float32), rounded(given))
        halves = EVERY.view(np.float16).astype(bfloat16).astype(np.float32)
        np.testing.assert_array_equal(halves, rounded(EVERY.view(np.float16).astype(np.float32)))
    wide = (EVERY.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(EVERY.view(bfloat16).astype(np.float32), wide)
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(EVERY.view(bfloat16).astype(np.float16), wide.astype(np.float16))


def test_scalars():
    for v in VALUES:
        x = bfloat16(v)
        assert float(x) == v or math.isnan(v)
        assert bool(x) == bool(v) and (float(abs(x)), float(-x)) == (abs(v), -v) or math.isnan(v)
        for w in VALUES:
            for op in (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge):
                assert op(x, bfloat16(w)) == op(v, w)
    assert [int(bfloat16(v)) for v in (-256, -255, -1, 0, 47, 512)] == [-256, -255, -1, 0, 47, 512]
    a, b = bfloat16(3.5), bfloat16(-2.0)
    assert [float(x) for x in (a + b, a - b, a * b, a / b)] == [1.5, 5.5, -7.0, -1.75]
    assert float(bfloat16(1) / bfloat16(0)) == math.inf and type(a + b) is bfloat16
    assert a * 3 == 10.5 and 3 + a == 6.5
    assert (str(a), repr(a), str(bfloat16(0.1)), str(bfloat16(np.nan))) == (
        "3.5", "bfloat16(3.5)", "0.100097656", "nan",
    )  # fmt: skip
    assert (hash(bfloat16(0.0)), hash(bfloat16(1.0)), hash(bfloat16(np.nan))) == (0, 0x3F80, 0x7FC0)
    assert type(pickle.loads(pickle.dumps(a))) is bfloat16 and copy.deepcopy(a) == a
    assert float(bfloat16(np.array(4.5))) == 4.5 and bfloat16(np.array([2, 5])).dtype == bfloat16
    for wrong in ("1", b"1", [1], None, 1j):
        with pytest.raises(TypeError):
            bfloat16(wrong)
    with pytest.raises(TypeError, match="keyword"):
        bfloat16(x=1)
    with pytest.raises(TypeError, match="expected number as argument"):
        bfloat16()


@pytest.mark.parametrize("dtype", NUMBERS)
def test_casts(dtype: Any):
    numbers = np.array([[1, 2, 3]], dtype=dtype)
    array = numbers.astype(bfloat16)
    assert array.dtype == bfloat16 and np.all(array == numbers)
    back = array.astype(dtype)
    assert back.dtype == dtype and np.all(back == numbers)


def test_arrays():
    array = np.array([[1, 2, 3]], dtype=bfloat16)
    assert str(array) == "[[bfloat16(1) bfloat16(2) bfloat16(3)]]"
    assert repr(array) == "array([[bfloat16(1), bfloat16(2), bfloat16(3)]], dtype=bfloat16)"
    assert np.array([bfloat16(1), bfloat16(2)]).dtype == bfloat16
    assert np.arange(100, dtype=bfloat16).astype(int).tolist() == list(range(100))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array)), array)
    np.testing.assert_array_equal(array.byteswap().byteswap(), array)
    filled = np.empty([3], bfloat16)
    filled.fill(2)
    filled[0] = 5
    assert filled.astype(int).tolist() == [5, 2, 2] and filled.argmax() == 0
    for wrong in ("x", [1, 2], None):
        with pytest.raises((TypeError, ValueError)):
            filled[0] = wrong
    with_nan = np.array([1, np.nan, 3, -0.0], bfloat16)
    assert np.isnan(with_nan).tolist() == [False, True, False, False] and with_nan.argmax() == 1
    assert np.isnan(np.sort(with_nan).astype(np.float32)[-1])
    assert np.nonzero(with_nan)[0].tolist() == [0, 1, 2]
    real = np.array([1.1, 2 + 2j], np.complex64).astype(bfloat16)
    np.testing.assert_array_equal(real, np.array([1.1, 2], bfloat16))


def test_functions_of_arrays():
    rng = np.random.RandomState(1)
    a, b = (rounded(rng.randn(3, 4)) for _ in range(2))
    x, y = a.astype(bfloat16), b.astype(bfloat16)
    for function in (np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum):
        result = function(x, y)
        assert result.dtype == bfloat16
        np.testing.assert_array_equal(result.astype(np.float32), rounded(function(a, b)))
    for function in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal):
        np.testing.assert_array_equal(function(x, y), function(a, b))
    np.testing.assert_array_equal((-x).astype(np.float32), -a)
    np.testing.assert_array_equal(np.abs(x).astype(np.float32), np.abs(a))
    np.testing.assert_array_equal(np.exp(x), np.exp(a))
    np.testing.assert_allclose(np.dot(x, y.T).astype(np.float32), a @ b.T, 2**-7, 0.01)
    assert float(x.max()) == a.max() and (x * 2).dtype == bfloat16
    np.testing.assert_allclose(float(x.sum()), a.sum(), atol=0.1)


def test_tensors():
    values = np.array([1.5, -2.0, 0.1], np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.bfloat16, [None])
        for fed in (values, values.astype(bfloat16), values.tolist()):
            got = session.run(x * 2, {x: fed})
            assert got.dtype == bfloat16
            np.testing.assert_array_equal(got.astype(np.float32), 2 * rounded(values))
        assert type(session.run(tf.cast(1.5, tf.bfloat16))) is bfloat16
        constant = tf.constant(values.astype(bfloat16))
        assert constant.dtype == tf.bfloat16 and tf.constant(bfloat16(3)).dtype == tf.bfloat16
        assert session.run(tf.constant([1.5, 2], tf.bfloat16)).astype(float).tolist() == [1.5, 2.0]
        doubled = tf.py_func(lambda array: array + array, [constant], tf.bfloat16)
        np.testing.assert_array_equal(session.run(tf.cast(doubled, tf.float32)), 2 * rounded(values))
        large = np.full([300, 300], 2, bfloat16)
        y = tf.placeholder(tf.bfloat16, [300, 300])
        assert session.run(tf.identity(y), {y: large}).astype(np.float32).sum() == 180000
    assert tf.as_dtype(bfloat16) == tf.as_dtype(np.dtype(bfloat16)) == tf.bfloat16
    message = tf.make_tensor_proto([1.5, -2], tf.bfloat16)
    assert list(message.half_val) == [0x3FC0, 0xC000]
    assert tf.make_ndarray(message).astype(float).tolist() == [1.5, -2.0]
    with context.eager_mode():
        eager = tf.convert_to_tensor(values.astype(bfloat16))
        assert eager.dtype == tf.bfloat16 and eager.numpy().dtype == bfloat16
        np.testing.assert_array_equal(tf.cast(eager, tf.float32).numpy(), rounded(values))


def test_other_objects_are_refused_without_recursion():
    scalar, array = bfloat16(2), np.ones(2, bfloat16)
    for other in (None, object()):
        for op in (
            operator.add,
            operator.mul,
            operator.mod,
            operator.pow,
            operator.floordiv,
            operator.lshift,
        ):
            for a, b in ((scalar, other), (other, scalar), (array, other)):
                with pytest.raises((TypeError, ValueError)):
                    op(a, b)
        assert not scalar == other and scalar != other
    for function in (np.bitwise_and, np.left_shift, np.invert):
        with pytest.raises(TypeError):
            function(*[array] * function.nin)
