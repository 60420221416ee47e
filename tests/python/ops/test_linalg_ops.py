# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Matrix functions give NumPy's values and TensorFlow's errors."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf

RNG = np.random.RandomState(1)


def run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.local_variables_initializer())
        session.run(tf.tables_initializer())
        return session.run(fetches, feed)


def spd(n: int = 3, batch: Any = (2,)) -> Any:
    a = RNG.randn(*batch, n, n)
    return a @ np.swapaxes(a, -1, -2) + n * np.eye(n)


def test_decompositions() -> None:
    a = spd()
    chol = run(tf.cholesky(a))
    np.testing.assert_allclose(chol, np.linalg.cholesky(a))
    np.testing.assert_allclose(
        run(tf.cholesky_solve(chol, np.ones([2, 3, 1]))), np.linalg.solve(a, np.ones([2, 3, 1]))
    )
    e, v = run(tf.self_adjoint_eig(a))
    np.testing.assert_allclose(e, np.linalg.eigvalsh(a))
    np.testing.assert_allclose(v @ (e[..., None] * np.swapaxes(v, -1, -2)), a)
    np.testing.assert_allclose(run(tf.self_adjoint_eigvals(a)), e)
    m = RNG.randn(2, 4, 3)
    s, u, w = run(tf.svd(m))
    np.testing.assert_allclose(s, np.linalg.svd(m, compute_uv=False))
    np.testing.assert_allclose(u @ (s[..., None] * np.swapaxes(w, -1, -2)), m, atol=1e-10)
    np.testing.assert_allclose(run(tf.svd(m, compute_uv=False)), s)
    assert [x.shape for x in run(tf.svd(m, full_matrices=True))] == [(2, 3), (2, 4, 4), (2, 3, 3)]
    q, r = run(tf.qr(m))
    np.testing.assert_allclose(q @ r, m, atol=1e-10)
    np.testing.assert_allclose(np.swapaxes(q, -1, -2) @ q, [np.eye(3)] * 2, atol=1e-10)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Cholesky decomposition was not successful"):
        run(tf.cholesky(-np.eye(2)))
    with pytest.raises(ValueError, match="Dimensions must be equal"):
        tf.cholesky(np.zeros([2, 3]))


def test_solvers_and_inverses() -> None:
    a, b = spd(), RNG.randn(2, 3, 2)
    np.testing.assert_allclose(run(tf.matrix_inverse(a)), np.linalg.inv(a))
    np.testing.assert_allclose(run(tf.matrix_solve(a, b)), np.linalg.solve(a, b))
    np.testing.assert_allclose(
        run(tf.matrix_solve(a, b, adjoint=True)), np.linalg.solve(np.swapaxes(a, 1, 2), b)
    )
    low = np.tril(a)
    np.testing.assert_allclose(run(tf.matrix_triangular_solve(a, b)), np.linalg.solve(low, b))
    np.testing.assert_allclose(
        run(tf.matrix_triangular_solve(a, b, lower=False)), np.linalg.solve(np.triu(a), b)
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="Input is not invertible."):
        run(tf.matrix_inverse(np.ones([2, 2])))
    m, rhs = RNG.randn(5, 3), RNG.randn(5, 2)
    for fast in (True, False):
        np.testing.assert_allclose(
            run(tf.matrix_solve_ls(m, rhs, fast=fast)), np.linalg.lstsq(m, rhs, rcond=None)[0]
        )
    wide = run(tf.matrix_solve_ls(m.T, RNG.randn(3, 2)))
    assert wide.shape == (5, 2)
    ridge = np.linalg.solve(m.T @ m + 0.1 * np.eye(3), m.T @ rhs)
    np.testing.assert_allclose(run(tf.matrix_solve_ls(m, rhs, l2_regularizer=0.1)), ridge)
    p = tf.placeholder(tf.float64, [None, 3])
    np.testing.assert_allclose(
        run(tf.matrix_solve_ls(p, rhs), {p: m}), np.linalg.lstsq(m, rhs, rcond=None)[0]
    )
    np.testing.assert_allclose(run(tf.linalg.pinv(m)), np.linalg.pinv(m))
    np.testing.assert_allclose(run(tf.linalg.lstsq(m, rhs)), np.linalg.lstsq(m, rhs, rcond=None)[0])


def test_scalars_of_matrices() -> None:
    a = spd()
    np.testing.assert_allclose(run(tf.matrix_determinant(a)), np.linalg.det(a))
    np.testing.assert_allclose(run(tf.linalg.logdet(a)), np.linalg.slogdet(a)[1])
    sign, log = run(tf.linalg.slogdet(-a))
    np.testing.assert_allclose(sign, [-1, -1])
    np.testing.assert_allclose(log, np.linalg.slogdet(a)[1])
    assert run(tf.linalg.matrix_rank(np.outer([1.0, 2.0], [3.0, 4.0]))) == 1


@pytest.mark.parametrize("order", ["euclidean", 1, 2, np.inf, 3.0])
def test_norms_of_vectors(order: Any) -> None:
    x = RNG.randn(2, 3, 4)
    number = 2 if order == "euclidean" else order
    np.testing.assert_allclose(run(tf.norm(x, order)), np.linalg.norm(x.ravel(), number))
    for axis in (0, -1):
        for keep in (False, True):
            np.testing.assert_allclose(
                run(tf.norm(x, order, axis, keep)), np.linalg.norm(x, number, axis, keep)
            )
    z = x + 1j * x[::-1]
    np.testing.assert_allclose(np.real(run(tf.norm(z, order, 1))), np.linalg.norm(z, number, 1))


@pytest.mark.parametrize("order", ["fro", 1, 2, np.inf])
def test_norms_of_matrices(order: Any) -> None:
    x = RNG.randn(2, 3, 4)
    for axis in ((0, 1), (-2, -1), (2, 0)):
        np.testing.assert_allclose(run(tf.norm(x, order, axis)), np.linalg.norm(x, order, axis))
    with pytest.raises(ValueError, match="'axis' must be None, an integer, or a tuple of 2 unique integers"):
        tf.norm(x, axis=[0, 0])
    with pytest.raises(ValueError, match="'ord' must be a supported vector norm, got fro"):
        tf.norm(x, ord="fro")


def expm(a: Any) -> Any:
    result = term = np.eye(len(a))
    small = a / 2.0**12
    for k in range(1, 18):
        term = term @ small / k
        result = result + term
    for _ in range(12):
        result = result @ result
    return result


@pytest.mark.parametrize("scale", [0.001, 0.2, 0.8, 1.5, 5.0, 30.0])
def test_exponential(scale: float) -> None:
    a = RNG.randn(2, 3, 3) * scale / 3
    np.testing.assert_allclose(run(tf.linalg.expm(a)), [expm(m) for m in a], rtol=1e-6)
    p = tf.placeholder(tf.float64, [None, None, None])
    np.testing.assert_allclose(run(tf.linalg.expm(p), {p: a}), [expm(m) for m in a], rtol=1e-6)


def test_logarithm_and_root() -> None:
    a = spd()
    z = a.astype(np.complex128)
    np.testing.assert_allclose(run(tf.linalg.expm(tf.linalg.logm(z))), z, rtol=1e-8, atol=1e-8)
    root = run(tf.linalg.sqrtm(a))
    np.testing.assert_allclose(root @ root, a)
    lu, p = run(tf.linalg.lu(a[0]))
    low = np.tril(lu, -1) + np.eye(3)
    np.testing.assert_allclose((low @ np.triu(lu))[np.argsort(p)], a[0])


def test_tridiagonal_systems() -> None:
    upper, main, lower = np.array([0.1, 0.2, 0.3]), np.array([4.0, 5.0, 6.0, 7.0]), np.array([0.4, 0.5, 0.6])
    m = np.diag(main) + np.diag(upper, 1) + np.diag(lower, -1)
    rhs = RNG.randn(4, 2)
    want = np.linalg.solve(m, rhs)
    np.testing.assert_allclose(run(tf.linalg.tridiagonal_solve(m, rhs, "matrix")), want)
    np.testing.assert_allclose(run(tf.linalg.tridiagonal_solve((upper, main, lower), rhs, "sequence")), want)
    compact = np.stack([np.append(upper, 0), main, np.insert(lower, 0, 0)])
    np.testing.assert_allclose(run(tf.linalg.tridiagonal_solve(compact, rhs)), want)
    np.testing.assert_allclose(run(tf.linalg.tridiagonal_solve(compact, rhs[:, 0])), want[:, 0])
    np.testing.assert_allclose(run(tf.linalg.tridiagonal_solve(compact, rhs, partial_pivoting=False)), want)
    np.testing.assert_allclose(run(tf.linalg.tridiagonal_matmul(compact, rhs)), m @ rhs)
    with pytest.raises(ValueError, match="Unrecognized diagonals_format: other"):
        tf.linalg.tridiagonal_solve(compact, rhs, "other")


def test_adjoint() -> None:
    z = RNG.randn(2, 3) + 1j
    np.testing.assert_allclose(run(tf.linalg.adjoint(z)), z.conj().T)


def test_gradients() -> None:
    x = tf.constant(spd(3, ()))
    (grad,) = tf.gradients(tf.linalg.logdet(x), x)
    np.testing.assert_allclose(*run([grad, tf.matrix_inverse(x)]), atol=1e-10)


@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1, 1e10, 1e25, 3e37, 1.5e38])
def test_scaled_float_matrices(scale: float) -> None:
    """Inverses of pivots above 8.5e37 are denormal, and flushed to zero where denormals are."""
    rng = np.random.RandomState(3)
    for n in (1, 2, 5, 16, 33):
        general = np.eye(n) + 0.1 * rng.rand(n, n) / n
        positive = (general + general.T) / 2
        a, s = (general * scale).astype(np.float32), (positive * scale).astype(np.float32)
        b = (rng.rand(n, 3) * scale).astype(np.float32)
        exact, exact_s = a.astype(np.float64), s.astype(np.float64)
        right = b.astype(np.float64)
        got = run(tf.raw_ops.MatrixSolve(matrix=a, rhs=b))
        np.testing.assert_allclose(got, np.linalg.solve(exact, right), rtol=1e-5)
        lower, upper = np.tril(exact), np.triu(exact)
        for is_lower, part in ((True, lower), (False, upper)):
            got = run(tf.raw_ops.MatrixTriangularSolve(matrix=a, rhs=b, lower=is_lower))
            np.testing.assert_allclose(got, np.linalg.solve(part, right), rtol=1e-5)
        factor = run(tf.raw_ops.Cholesky(input=s))
        np.testing.assert_allclose(factor, np.linalg.cholesky(exact_s), rtol=1e-5, atol=1e-6 * np.sqrt(scale))
        if 1e-30 <= scale < 1e37:  # above, the inverse is denormal itself
            got = run(tf.raw_ops.MatrixInverse(input=a))
            np.testing.assert_allclose(got, np.linalg.inv(exact), rtol=1e-4, atol=1e-6 / scale)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nearly_singular_and_infinite_matrices(dtype: Any) -> None:
    eps = np.finfo(dtype).eps
    a = np.array([[1, 1], [1, 1 + 64 * eps]], dtype)
    want = np.linalg.inv(a.astype(np.longdouble).astype(np.float64))
    got = run(tf.raw_ops.MatrixInverse(input=a))
    np.testing.assert_allclose(got, want, rtol=0.1)
    for n in (1, 3, 17):
        bad = np.eye(n, dtype=dtype)
        bad[n - 1, 0] = np.inf
        for op in ("Svd", "SelfAdjointEigV2", "Qr", "Lu", "MatrixInverse", "Cholesky"):
            try:  # it ends, with an error or with results
                run(getattr(tf.raw_ops, op)(input=bad))
            except tf.errors.InvalidArgumentError:
                pass
    for n in (1, 2, 9, 40):
        for matrix in (np.zeros((n, n)), np.ones((n, n)), np.diag(np.r_[1, np.zeros(n - 1)])):
            s, u, v = run(tf.raw_ops.Svd(input=matrix.astype(dtype)))
            np.testing.assert_allclose(u @ np.diag(s) @ v.T, matrix, atol=40 * n * eps)
            np.testing.assert_allclose(s, np.linalg.svd(matrix, compute_uv=False), atol=40 * n * eps)
            e, x = run(tf.raw_ops.SelfAdjointEigV2(input=matrix.astype(dtype)))
            np.testing.assert_allclose(x @ np.diag(e) @ x.T, matrix, atol=40 * n * eps)
            np.testing.assert_allclose(x.T @ x, np.eye(n), atol=40 * n * eps)


@pytest.mark.parametrize("odd", [np.nan, 1e30])
def test_an_odd_matrix_does_not_change_its_neighbours(odd: float) -> None:
    rng = np.random.RandomState(7)
    a = (rng.rand(5, 9, 9) + 9 * np.eye(9)).astype(np.float32)
    b = rng.rand(5, 9, 2).astype(np.float32)
    symmetric = a + np.swapaxes(a, 1, 2)
    for op, inputs in (
        ("Cholesky", {"input": symmetric}),
        ("CholeskyGrad", {"l": np.tril(a), "grad": np.tril(a)}),
        ("MatrixSolve", {"matrix": a, "rhs": b}),
        ("MatrixTriangularSolve", {"matrix": a, "rhs": b}),
        ("MatrixInverse", {"input": a}),
    ):
        want = run(getattr(tf.raw_ops, op)(**inputs))
        name = next(iter(inputs))
        changed = inputs[name].copy()
        changed[2, 8, 0] = odd
        try:
            got = run(getattr(tf.raw_ops, op)(**{**inputs, name: changed}))
        except tf.errors.InvalidArgumentError:
            continue  # NaN in a pivot
        others = [0, 1, 3, 4]
        np.testing.assert_array_equal(got[others], want[others], err_msg=op)
