# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Math ops give NumPy's values, types and shapes, and TensorFlow's errors."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.python.ops import gen_math_ops, math_ops


def run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(fetches, feed)


@pytest.fixture(autouse=True)
def _graph() -> Any:
    with tf.Graph().as_default():
        yield


RNG = np.random.RandomState(1)
UNARY = [
    ("abs", np.abs, "any"),
    ("negative", np.negative, "any"),
    ("sign", np.sign, "any"),
    ("square", np.square, "any"),
    ("sqrt", np.sqrt, "positive"),
    ("rsqrt", lambda x: 1 / np.sqrt(x), "positive"),
    ("exp", np.exp, "any"),
    ("expm1", np.expm1, "any"),
    ("log", np.log, "positive"),
    ("log1p", np.log1p, "positive"),
    ("sin", np.sin, "any"),
    ("cos", np.cos, "any"),
    ("tan", np.tan, "any"),
    ("sinh", np.sinh, "any"),
    ("cosh", np.cosh, "any"),
    ("tanh", np.tanh, "any"),
    ("asin", np.arcsin, "unit"),
    ("acos", np.arccos, "unit"),
    ("atan", np.arctan, "any"),
    ("asinh", np.arcsinh, "any"),
    ("acosh", lambda x: np.arccosh(x + 1), "acosh"),
    ("atanh", np.arctanh, "unit"),
    ("floor", np.floor, "any"),
    ("ceil", np.ceil, "any"),
    ("round", np.round, "any"),
    ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), "any"),
    ("reciprocal", lambda x: 1 / x, "positive"),
    ("lgamma", np.vectorize(math.lgamma), "positive"),
    ("erf", np.vectorize(math.erf), "any"),
    ("erfc", np.vectorize(math.erfc), "any"),
]


@pytest.mark.parametrize("name, numpy, domain", UNARY, ids=[u[0] for u in UNARY])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unary(name: str, numpy: Any, domain: str, dtype: Any) -> None:
    x = RNG.uniform(-3, 3, [2, 3, 4])
    x = {"any": x, "positive": np.abs(x) + 0.1, "unit": x / 3.1, "acosh": np.abs(x)}[domain].astype(dtype)
    fn = getattr(tf, name, None) or getattr(tf.math, name)
    result = fn(x + 1 if domain == "acosh" else x)
    assert result.dtype == tf.as_dtype(dtype) and result.shape == [2, 3, 4]
    np.testing.assert_allclose(run(result), numpy(x), rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-6)


def test_unary_of_sparse_tensors() -> None:
    sp = tf.SparseTensor([[0, 1], [1, 0]], [-1.5, 4.0], [2, 2])
    for fn, want in (
        (tf.abs, [1.5, 4]),
        (tf.negative, [1.5, -4]),
        (tf.square, [2.25, 16]),
        (tf.sign, [-1, 1]),
    ):
        result = run(fn(sp))
        assert isinstance(result, tf.SparseTensorValue)
        np.testing.assert_allclose(result.values, want)


BINARY = [
    ("add", np.add),
    ("subtract", np.subtract),
    ("multiply", np.multiply),
    ("divide", np.true_divide),
    ("truediv", np.true_divide),
    ("floordiv", np.floor_divide),
    ("floormod", np.mod),
    ("mod", np.mod),
    ("maximum", np.maximum),
    ("minimum", np.minimum),
    ("squared_difference", lambda x, y: (x - y) ** 2),
    ("pow", lambda x, y: np.abs(x) ** y),
    ("atan2", np.arctan2),
]


@pytest.mark.parametrize("name, numpy", BINARY, ids=[b[0] for b in BINARY])
@pytest.mark.parametrize("shapes", [([2, 3], [2, 3]), ([2, 1], [3]), ([], [4]), ([0, 3], [1, 3])])
def test_binary_with_broadcast(name: str, numpy: Any, shapes: Any) -> None:
    x, y = (RNG.uniform(0.5, 4, s) * RNG.choice([-1, 1], s) for s in shapes)
    fn = getattr(tf, name, None) or getattr(tf.math, name)
    if name == "pow":
        x = np.abs(x)
    result = fn(x, y)
    want = numpy(x, y)
    assert result.shape.as_list() == list(want.shape)
    np.testing.assert_allclose(run(result), want, rtol=1e-12)


def test_integer_division() -> None:
    x, y = np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])
    t = tf.constant(x)
    assert run(tf.div(x, y)).tolist() == [3, -4, -4, 3]
    assert run(t // y).tolist() == [3, -4, -4, 3]
    assert run(t % y).tolist() == [1, 1, -1, -1]
    assert run(tf.truncatediv(x, y)).tolist() == [3, -3, -3, 3]
    assert run(tf.truncatemod(x, y)).tolist() == [1, -1, 1, -1]
    assert run(t / y).dtype == np.float64
    assert run(tf.constant([7], tf.int32) / 2).dtype == np.float64
    assert run(tf.constant([7], tf.int16) / 2).dtype == np.float32
    with pytest.raises(tf.errors.InvalidArgumentError, match="Integer division by zero"):
        run(t // 0)
    assert run(tf.div_no_nan([1.0, 2.0], [0.0, 4.0])).tolist() == [0.0, 0.5]
    assert run(tf.math.multiply_no_nan([np.nan, 2.0], [0.0, 4.0])).tolist() == [0.0, 8.0]


def test_division_of_other_types_is_an_error() -> None:
    with pytest.raises(TypeError, match="x and y must have the same dtype, got"):
        tf.truediv(tf.constant(1), tf.constant(1.0))


def test_operators() -> None:
    x = tf.constant([1.0, 2.0])
    values = run(
        [x + 1, 1 + x, x - 1, 1 - x, x * 2, 2 * x, x / 2, 2 / x, x**2, 2**x, -x, abs(-x), x // 2, x % 2]
    )
    want = [
        [2, 3],
        [2, 3],
        [0, 1],
        [0, -1],
        [2, 4],
        [2, 4],
        [0.5, 1],
        [2, 1],
        [1, 4],
        [2, 4],
        [-1, -2],
        [1, 2],
        [0, 1],
        [1, 0],
    ]
    np.testing.assert_allclose(values, want)
    assert [v.tolist() for v in run([x < 2, x <= 1, x > 1, x >= 2])] == [[True, False]] * 2 + [
        [False, True]
    ] * 2
    b = tf.constant([True, False])
    assert [v.tolist() for v in run([b & True, b | True, b ^ True, ~b])] == [
        [True, False],
        [True, True],
        [False, True],
        [False, True],
    ]
    array = np.ones(2, np.float32)
    assert isinstance(array + x, tf.Tensor) and isinstance(array * x, tf.Tensor)
    m = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_allclose(run(m @ m), [[7, 10], [15, 22]])


def test_operand_of_another_type() -> None:
    with pytest.raises(TypeError):
        tf.constant([1.0]) + "text"
    with pytest.raises(
        (TypeError, ValueError), match="has type float32 that does not match type int32 of argument 'x'"
    ):
        tf.constant(1) + tf.constant(1.0)


REDUCTIONS = [
    ("reduce_sum", np.sum),
    ("reduce_mean", np.mean),
    ("reduce_prod", np.prod),
    ("reduce_max", np.max),
    ("reduce_min", np.min),
    ("reduce_std", np.std),
    ("reduce_variance", np.var),
    ("reduce_logsumexp", lambda x, axis, keepdims: np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))),
    ("reduce_euclidean_norm", lambda x, axis, keepdims: np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))),
]


@pytest.mark.parametrize("name, numpy", REDUCTIONS, ids=[r[0] for r in REDUCTIONS])
def test_reductions(name: str, numpy: Any) -> None:
    x = RNG.randn(2, 3, 4)
    fn = getattr(tf, name, None) or getattr(tf.math, name)
    for axis in (None, 0, -1, (0, 2), [1], []):
        for keepdims in (False, True):
            result = fn(x, axis, keepdims)
            want = numpy(x, axis=tuple(axis) if isinstance(axis, list) else axis, keepdims=keepdims)
            assert result.shape.as_list() == list(np.shape(want)), (axis, keepdims)
            np.testing.assert_allclose(run(result), want, rtol=1e-10)


def test_reductions_of_bools_and_counts() -> None:
    x = np.array([[True, False], [True, True]])
    assert run([tf.reduce_all(x), tf.reduce_any(x)]) == [False, True]
    assert run(tf.reduce_all(x, 1)).tolist() == [False, True]
    counts = run(tf.math.count_nonzero([[0.0, 1.0], [2.0, 3.0]], 0))
    assert counts.tolist() == [1, 2] and counts.dtype == np.int64
    assert run(tf.count_nonzero(["", "a"])) == 1
    assert run(tf.reduce_sum(np.zeros([0, 3]), 0)).tolist() == [0, 0, 0]
    assert run(tf.reduce_max(np.zeros([0]))) == -np.inf


def test_old_names_of_reduction_arguments() -> None:
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(run(tf.reduce_sum(x, reduction_indices=1, keep_dims=True)), [[3], [12]])
    with pytest.raises(ValueError, match="Cannot specify both 'reduction_indices' and 'axis'"):
        tf.reduce_sum(x, axis=0, reduction_indices=1)


def test_reduction_shapes_with_unknown_dimensions() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    assert tf.reduce_sum(x, 0).shape.as_list() == [3]
    assert tf.reduce_sum(x, 1).shape.as_list() == [None]
    assert tf.reduce_sum(x, 1, keepdims=True).shape.as_list() == [None, 1]
    assert tf.reduce_sum(x).shape.as_list() == []
    assert tf.reduce_sum(tf.placeholder(tf.float32)).shape.ndims == 0
    with pytest.raises(ValueError, match="Invalid reduction dimension"):
        tf.reduce_sum(x, 2)


def test_matmul() -> None:
    a, b = RNG.randn(2, 3, 4), RNG.randn(2, 4, 5)
    np.testing.assert_allclose(run(tf.matmul(a, b)), a @ b)
    np.testing.assert_allclose(run(tf.matmul(a, b.transpose(0, 2, 1), transpose_b=True)), a @ b)
    np.testing.assert_allclose(run(tf.matmul(a[0], b[0])), a[0] @ b[0])
    np.testing.assert_allclose(run(tf.matmul(a[0].T, b[0], transpose_a=True)), a[0] @ b[0])
    np.testing.assert_allclose(run(tf.matmul(a[0], b)), a[0] @ b)
    c = (a[0] + 1j * a[1]).astype(np.complex64)
    np.testing.assert_allclose(run(tf.matmul(c, c, adjoint_b=True)), c @ c.conj().T, rtol=1e-5)
    np.testing.assert_allclose(run(tf.linalg.matvec(a, b[:, :, 0])), np.einsum("bij,bj->bi", a, b[:, :, 0]))
    with pytest.raises(ValueError, match="Only one of transpose_a and adjoint_a can be True."):
        tf.matmul(a, b, transpose_a=True, adjoint_a=True)
    with pytest.raises(ValueError, match="Dimensions must be equal, but are 4 and 3"):
        tf.matmul(a[0], a[1])
    with pytest.raises(ValueError, match="Shape must be rank 2 but is rank 1"):
        tf.matmul([1.0], [[1.0]])


@pytest.mark.parametrize("axes", [3, 10**12])
def test_tensordot_over_more_axes_than_a_tensor_has(axes: int) -> None:
    with pytest.raises(ValueError, match="'axes' must not be larger than the number of dimensions"):
        tf.tensordot([[1.0]], [[1.0]], axes)
    if axes > 3:
        with pytest.raises(ValueError, match="'axes' must not be larger than the number of dimensions"):
            tf.tensordot(tf.placeholder(tf.float32), [[1.0]], axes)


def test_tensordot_and_einsum() -> None:
    a, b = RNG.randn(2, 3, 4), RNG.randn(4, 3, 5)
    for axes in (1, [[2], [0]], [[1, 2], [1, 0]], 0):
        np.testing.assert_allclose(run(tf.tensordot(a, b, axes)), np.tensordot(a, b, axes))
    pa, pb = tf.placeholder(tf.float64), tf.placeholder(tf.float64)
    np.testing.assert_allclose(
        run(tf.tensordot(pa, pb, [[1, 2], [1, 0]]), {pa: a, pb: b}), np.tensordot(a, b, [[1, 2], [1, 0]])
    )
    with pytest.raises(ValueError, match="'axes' must be an integer or have length 2."):
        tf.tensordot(a, b, [[1]])
    for equation in ("ij,jk->ik", "ijk,jl->il", "ij,ij->", "ijk->k", "i,j->ij", "...ij,...jk->...ik"):
        shapes = {"i": 2, "j": 3, "k": 4, "l": 5}
        arrays = [
            RNG.randn(*([6] if "..." in part else []), *[shapes[c] for c in part.replace("...", "")])
            for part in equation.split("->")[0].split(",")
        ]
        np.testing.assert_allclose(
            run(tf.einsum(equation, *map(tf.constant, arrays))), np.einsum(equation, *arrays)
        )
    with pytest.raises(ValueError, match="expecting 2"):
        tf.einsum("ij,jk->ik", tf.ones([2, 2]))


def test_cumulative_ops() -> None:
    x = RNG.randn(3, 4)
    np.testing.assert_allclose(run(tf.cumsum(x, 1)), np.cumsum(x, 1))
    np.testing.assert_allclose(run(tf.cumprod(x)), np.cumprod(x, 0))
    np.testing.assert_allclose(run(tf.cumsum(x, 0, exclusive=True)), np.cumsum(x, 0) - x)
    np.testing.assert_allclose(run(tf.cumsum(x, 0, reverse=True)), np.cumsum(x[::-1], 0)[::-1])
    np.testing.assert_allclose(run(tf.math.cumulative_logsumexp(x, 1)), np.log(np.cumsum(np.exp(x), 1)))


def test_range_and_linspace() -> None:
    assert run(tf.range(3)).tolist() == [0, 1, 2]
    assert run(tf.range(3, 18, 3)).tolist() == [3, 6, 9, 12, 15]
    np.testing.assert_allclose(run(tf.range(3, 1, -0.5)), [3, 2.5, 2, 1.5])
    assert tf.range(3).dtype == tf.int32 and tf.range(3.0).dtype == tf.float32
    assert tf.range(3, dtype=tf.int64).dtype == tf.int64 and tf.range(0, 6, 2).shape == [3]
    np.testing.assert_allclose(run(tf.linspace(1.0, 2.0, 5)), np.linspace(1, 2, 5))
    with pytest.raises(
        (ValueError, tf.errors.InvalidArgumentError), match="Requires start <= limit when delta > 0"
    ):
        run(tf.range(3, 1))


def test_casts() -> None:
    x = np.array([1.9, -1.9, 300.0])
    assert run(tf.cast(x, tf.int32)).tolist() == [1, -1, 300]
    assert run(tf.to_float([1])).dtype == np.float32 and run(tf.to_int64([1.5])).dtype == np.int64
    assert run(tf.saturate_cast(x, tf.uint8)).tolist() == [1, 0, 255]
    assert run(tf.cast([0.0, 2.0], tf.bool)).tolist() == [False, True]
    assert run(tf.cast(tf.constant(1 + 2j), tf.float32)) == 1.0
    t = tf.constant(1.0)
    assert tf.cast(t, tf.float32) is t
    sp = run(tf.cast(tf.SparseTensor([[0]], [1.5], [2]), tf.int32))
    assert sp.values.dtype == np.int32


def test_complex_numbers() -> None:
    z = tf.complex([1.0, 3.0], [2.0, -4.0])
    assert z.dtype == tf.complex64
    real, imag, conj, size, angle = run([tf.real(z), tf.imag(z), tf.conj(z), tf.abs(z), tf.angle(z)])
    assert real.tolist() == [1, 3] and imag.tolist() == [2, -4] and conj.tolist() == [1 - 2j, 3 + 4j]
    np.testing.assert_allclose(size, [np.sqrt(5), 5], rtol=1e-6)
    np.testing.assert_allclose(angle, np.angle([1 + 2j, 3 - 4j]), rtol=1e-6)
    real_tensor = tf.constant([1.0])
    assert tf.real(real_tensor) is real_tensor and tf.conj(real_tensor) is real_tensor
    assert run(tf.imag(real_tensor)).tolist() == [0]
    with pytest.raises(TypeError, match="real and imag have incorrect types"):
        tf.complex(tf.constant(1), tf.constant(1))


def test_comparisons_and_logic() -> None:
    assert run(tf.equal([1, 2], [1, 3])).tolist() == [True, False]
    assert run(tf.not_equal(["a", "b"], ["a", "c"])).tolist() == [False, True]
    assert run(tf.logical_xor([True, True], [True, False])).tolist() == [False, True]
    assert run(tf.is_nan([np.nan, 1.0])).tolist() == [True, False]
    assert run(tf.math.is_inf([np.inf, 1.0])).tolist() == [True, False]
    assert run(tf.math.is_finite([np.inf, 1.0])).tolist() == [False, True]
    assert (tf.constant(1) == tf.constant(1)) is False  # identity, as in version 1


def test_argmax_and_argmin() -> None:
    x = RNG.randn(3, 5)
    assert run(tf.argmax(x, 1)).tolist() == np.argmax(x, 1).tolist()
    assert run(tf.argmin(x)).tolist() == np.argmin(x, 0).tolist()
    assert run(tf.argmax(x, axis=-1, output_type=tf.int32)).dtype == np.int32
    assert run(tf.arg_max(x, 0)).tolist() == np.argmax(x, 0).tolist()
    assert run(tf.argmax(x, dimension=1)).tolist() == np.argmax(x, 1).tolist()


def test_add_n_and_accumulate_n() -> None:
    x = [np.full([2], float(i), np.float32) for i in range(4)]
    assert run(tf.add_n(x)).tolist() == [6, 6] and run(tf.accumulate_n(x)).tolist() == [6, 6]
    t = tf.constant(1.0)
    assert tf.add_n([t]) is t
    with pytest.raises(
        ValueError,
        match="inputs must be a list of at least one Tensor/IndexedSlices with the same dtype and shape",
    ):
        tf.add_n([])
    with pytest.raises(ValueError):
        tf.add_n([tf.ones([2]), tf.ones([3])])


def test_segments() -> None:
    data = np.arange(12.0).reshape(4, 3)
    ids = np.array([0, 0, 1, 3])
    for name, numpy in (
        ("sum", np.sum),
        ("mean", np.mean),
        ("prod", np.prod),
        ("max", np.max),
        ("min", np.min),
    ):
        want = np.stack([numpy(data[:2], 0), data[2], np.ones(3) if name == "prod" else np.zeros(3), data[3]])
        np.testing.assert_allclose(run(getattr(tf, "segment_" + name)(data, ids)), want)
    np.testing.assert_allclose(run(tf.unsorted_segment_sum(data, [3, 0, 0, 0], 4))[0], data[1:].sum(0))
    np.testing.assert_allclose(
        run(tf.unsorted_segment_mean(data, [1, 0, 0, 0], 2)), [data[1:].mean(0), data[0]]
    )
    np.testing.assert_allclose(
        run(tf.unsorted_segment_sqrt_n(data, [1, 0, 0, 0], 2)), [data[1:].sum(0) / np.sqrt(3), data[0]]
    )
    np.testing.assert_allclose(run(tf.sparse_segment_sum(data, [0, 3], [0, 0])), [data[0] + data[3]])
    np.testing.assert_allclose(run(tf.sparse_segment_mean(data, [0, 3], [0, 2], num_segments=4))[2], data[3])
    np.testing.assert_allclose(
        run(tf.sparse_segment_sqrt_n(data, [0, 3], [0, 0])), [(data[0] + data[3]) / np.sqrt(2)]
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="segment ids are not increasing"):
        run(tf.segment_sum(data, [1, 0, 0, 0]))


def test_bincount_and_bucketize() -> None:
    assert run(tf.bincount([1, 1, 3])).tolist() == [0, 2, 0, 1]
    assert run(tf.bincount([1, 1, 3], minlength=6)).tolist() == [0, 2, 0, 1, 0, 0]
    assert run(tf.bincount([1, 1, 3], maxlength=2)).tolist() == [0, 2]
    assert run(tf.bincount([1, 1, 3], weights=[0.5, 1.0, 2.0])).tolist() == [0, 1.5, 0, 2]
    assert run(math_ops._bucketize([-5, 10000, 150, 10], boundaries=[0, 10, 100])).tolist() == [0, 3, 3, 2]
    assert run(tf.histogram_fixed_width([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0], [0.0, 5.0], nbins=5)).tolist() == [
        2,
        1,
        1,
        0,
        2,
    ]
    assert run(tf.histogram_fixed_width_bins([-1.0, 0.0, 1.5, 15.0], [0.0, 5.0], nbins=5)).tolist() == [
        0,
        0,
        1,
        4,
    ]


def test_special_functions() -> None:
    np.testing.assert_allclose(run(tf.lbeta([[1.0, 2.0, 3.0]])), [math.log(1 * 1 * 2 / 120.0)], rtol=1e-5)
    np.testing.assert_allclose(run(tf.math.bessel_i0([0.0, 1.0])), [1.0, 1.2660658777520082], rtol=1e-5)
    np.testing.assert_allclose(run(tf.math.bessel_i1([0.0, 1.0])), [0.0, 0.5651591039924851], rtol=1e-5)
    np.testing.assert_allclose(run(tf.digamma([1.0])), [-0.5772156649], rtol=1e-5)
    np.testing.assert_allclose(run(tf.igamma([1.0], [2.0])), [1 - math.exp(-2)], rtol=1e-5)
    np.testing.assert_allclose(run(tf.igammac([1.0], [2.0])), [math.exp(-2)], rtol=1e-5)
    np.testing.assert_allclose(run(tf.betainc([1.0], [1.0], [0.3])), [0.3], rtol=1e-5)
    np.testing.assert_allclose(run(tf.zeta([2.0], [1.0])), [math.pi**2 / 6], rtol=1e-5)
    np.testing.assert_allclose(run(tf.polygamma([1.0], [1.0])), [math.pi**2 / 6], rtol=1e-5)
    assert run(tf.math.xlogy([0.0, 2.0], [0.0, math.e])).tolist() == pytest.approx([0.0, 2.0])
    assert run(tf.math.xdivy([0.0, 2.0], [0.0, 4.0])).tolist() == [0.0, 0.5]
    assert run(tf.math.nextafter(tf.constant(1.0, tf.float64), 2.0)) == np.nextafter(1.0, 2.0)
    np.testing.assert_allclose(run(tf.math.log_sigmoid([0.0])), [-math.log(2)], rtol=1e-6)


def test_trace_cross_and_scalar_mul() -> None:
    x = RNG.randn(2, 3, 3)
    np.testing.assert_allclose(run(tf.trace(x)), np.trace(x, axis1=1, axis2=2))
    a, b = RNG.randn(4, 3), RNG.randn(4, 3)
    np.testing.assert_allclose(run(tf.cross(a, b)), np.cross(a, b))
    np.testing.assert_allclose(run(tf.scalar_mul(3.0, tf.constant([1.0, 2.0]))), [3, 6])
    slices = tf.scalar_mul(2.0, tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([0]), tf.constant([2, 1])))
    assert isinstance(slices, tf.IndexedSlices)
    with pytest.raises(ValueError, match="Only scalar multiply works"):
        tf.scalar_mul([1.0, 2.0], tf.constant([1.0, 2.0]))


def test_names_of_operations() -> None:
    x = tf.constant(1.0, name="x")
    assert (
        (x + x).op.name == "add" and tf.add(x, x).op.name == "Add_1" and tf.add(x, x, name="n").op.name == "n"
    )
    assert tf.reduce_sum([1.0], name="total").op.name == "total" and (x * x).op.type == "Mul"
    assert (x + x).op.type in ("Add", "AddV2") and tf.add(x, x).op.type == "Add"
    assert gen_math_ops.add_v2(x, x).op.type == "AddV2"
