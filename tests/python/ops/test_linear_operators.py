# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Linear operators do what their dense matrices do."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import millrace as tf

L = tf.linalg


def run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(fetches, feed)


def spd(rng: Any, n: int, batch: Any = ()) -> Any:
    a = rng.randn(*batch, n, n)
    return a @ np.swapaxes(a, -1, -2) + n * np.eye(n)


def kron(a: Any, b: Any) -> Any:
    product = a[..., :, None, :, None] * b[..., None, :, None, :]
    return product.reshape(*product.shape[:-4], product.shape[-4] * product.shape[-3], -1)


def block(a: Any, b: Any) -> Any:
    n, m = a.shape[-1], b.shape[-1]
    result = np.zeros([*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), n + m, n + m], a.dtype)
    result[..., :n, :n], result[..., n:, n:] = a, b
    return result


def circulant(spectrum: Any, dtype: Any) -> Any:
    kernel = np.fft.ifft(spectrum)
    n = kernel.shape[-1]
    return np.stack([np.roll(kernel, k, -1) for k in range(n)], -1).astype(dtype)


def make_cases() -> dict[str, Callable[[Any], Any]]:
    """Name -> function of a random state that returns (operator, dense matrix)."""

    def diag(rng: Any) -> Any:
        d = rng.rand(2, 3) + 1
        return L.LinearOperatorDiag(d, is_positive_definite=True), np.stack([np.diag(r) for r in d])

    def full(rng: Any) -> Any:
        m = spd(rng, 3, (2,))
        return L.LinearOperatorFullMatrix(m, is_self_adjoint=True, is_positive_definite=True), m

    def full_plain(rng: Any) -> Any:
        m = rng.randn(3, 3) + 3 * np.eye(3)
        return L.LinearOperatorFullMatrix(m), m

    def complex_full(rng: Any) -> Any:
        m = rng.randn(3, 3) + 1j * rng.randn(3, 3) + 3 * np.eye(3)
        return L.LinearOperatorFullMatrix(m), m

    def tril(rng: Any) -> Any:
        m = rng.randn(2, 3, 3) + 3 * np.eye(3)
        return L.LinearOperatorLowerTriangular(m), np.tril(m)

    def identity(rng: Any) -> Any:
        return L.LinearOperatorIdentity(3, batch_shape=[2], dtype=tf.float64), np.stack([np.eye(3)] * 2)

    def scaled(rng: Any) -> Any:
        s = np.array([2.0, 3.0])
        return L.LinearOperatorScaledIdentity(3, s), s[:, None, None] * np.eye(3)

    def composition(rng: Any) -> Any:
        a, b = rng.randn(2, 3, 3), rng.randn(3, 3)
        return (
            L.LinearOperatorComposition([L.LinearOperatorFullMatrix(a), L.LinearOperatorFullMatrix(b)]),
            a @ b,
        )

    def blocks(rng: Any) -> Any:
        a, b = spd(rng, 2, (2,)), rng.randn(3, 3) + 3 * np.eye(3)
        return L.LinearOperatorBlockDiag(
            [L.LinearOperatorFullMatrix(a), L.LinearOperatorFullMatrix(b)]
        ), block(a, b)

    def kronecker(rng: Any) -> Any:
        a, b = rng.randn(2, 2, 2) + 2 * np.eye(2), rng.randn(3, 3) + 3 * np.eye(3)
        return L.LinearOperatorKronecker(
            [L.LinearOperatorFullMatrix(a), L.LinearOperatorFullMatrix(b)]
        ), kron(a, b)

    def kronecker3(rng: Any) -> Any:
        parts = [rng.randn(2, 2) + 2 * np.eye(2) for _ in range(3)]
        return L.LinearOperatorKronecker([L.LinearOperatorFullMatrix(p) for p in parts]), kron(
            kron(*parts[:2]), parts[2]
        )

    def adjoint(rng: Any) -> Any:
        m = rng.randn(3, 3) + 1j * rng.randn(3, 3)
        return L.LinearOperatorAdjoint(L.LinearOperatorFullMatrix(m)), m.conj().T

    def inversion(rng: Any) -> Any:
        m = rng.randn(3, 3) + 3 * np.eye(3)
        return L.LinearOperatorInversion(L.LinearOperatorFullMatrix(m)), np.linalg.inv(m)

    def householder(rng: Any) -> Any:
        v = rng.randn(2, 3)
        return (
            L.LinearOperatorHouseholder(v),
            np.eye(3) - 2 * v[:, :, None] * v[:, None] / (v * v).sum(-1)[:, None, None],
        )

    def low_rank(rng: Any) -> Any:
        u, v, d, base = rng.randn(4, 2), rng.randn(4, 2), rng.rand(2) + 1, rng.rand(4) + 1
        operator = L.LinearOperatorLowRankUpdate(
            L.LinearOperatorDiag(base, is_positive_definite=True), u, d, v
        )
        return operator, np.diag(base) + u @ np.diag(d) @ v.T

    def low_rank_spd(rng: Any) -> Any:
        u, base = rng.randn(2, 4, 2), rng.rand(4) + 1
        operator = L.LinearOperatorLowRankUpdate(L.LinearOperatorDiag(base, is_positive_definite=True), u)
        return operator, np.diag(base) + u @ np.swapaxes(u, 1, 2)

    return {k: v for k, v in locals().items()}


def make_shifted_cases() -> dict[str, Callable[[Any], Any]]:
    """The same for matrices whose rows are shifted ones."""

    def toeplitz(rng: Any) -> Any:
        col, row = rng.randn(2, 4), rng.randn(2, 4)
        col[:, 0] = row[:, 0] = 5
        dense = np.zeros([2, 4, 4])
        for i in range(4):
            for j in range(4):
                dense[:, i, j] = col[:, i - j] if i >= j else row[:, j - i]
        return L.LinearOperatorToeplitz(col, row), dense

    def circulant1(rng: Any) -> Any:
        spectrum = rng.rand(2, 5) + 1 + 1j * rng.rand(2, 5)
        return L.LinearOperatorCirculant(spectrum, input_output_dtype=tf.complex128), circulant(
            spectrum, np.complex128
        )

    def circulant2(rng: Any) -> Any:
        spectrum = rng.rand(2, 3) + 1
        kernel = np.fft.ifft2(spectrum)
        dense = np.stack([np.roll(kernel, (i, j), (0, 1)).ravel() for i in range(2) for j in range(3)], -1)
        return L.LinearOperatorCirculant2D(spectrum, input_output_dtype=tf.complex128), dense

    return {k: v for k, v in locals().items()}


CASES = {**make_cases(), **make_shifted_cases()}


@pytest.mark.parametrize("name", CASES)
def test_against_dense_matrices(name: str) -> None:
    rng = np.random.RandomState(3)
    operator, dense = CASES[name](rng)
    n = dense.shape[-1]
    assert operator.shape.as_list() == list(dense.shape) and operator.dtype == tf.as_dtype(dense.dtype)
    assert operator.batch_shape.as_list() == list(dense.shape[:-2]) and operator.is_square
    x = rng.randn(*dense.shape[:-2], n, 2).astype(dense.dtype)
    adjoint = np.swapaxes(dense, -1, -2).conj()
    x_adjoint = np.swapaxes(x, -1, -2).conj()
    close = lambda got, want: np.testing.assert_allclose(run(got), want, rtol=1e-7, atol=1e-7)  # noqa: E731
    close(operator.to_dense(), dense)
    close(operator.shape_tensor(), dense.shape)
    close(operator.matmul(x), dense @ x)
    assert operator.matmul(x).shape.as_list() == list((dense @ x).shape)
    close(operator.matmul(x, adjoint=True), adjoint @ x)
    close(operator.matmul(x_adjoint, adjoint_arg=True), dense @ x)
    close(operator.matvec(x[..., 0]), (dense @ x[..., :1])[..., 0])
    close(operator.solve(x), np.linalg.solve(dense, x))
    close(operator.solve(x, adjoint=True), np.linalg.solve(adjoint, x))
    close(operator.solve(x_adjoint, adjoint_arg=True), np.linalg.solve(dense, x))
    close(operator.solvevec(x[..., 0]), np.linalg.solve(dense, x[..., :1])[..., 0])
    close(operator.determinant(), np.linalg.det(dense))
    close(operator.log_abs_determinant(), np.linalg.slogdet(dense)[1])
    close(operator.trace(), np.trace(dense, axis1=-2, axis2=-1))
    close(operator.diag_part(), np.diagonal(dense, axis1=-2, axis2=-1))
    close(operator.add_to_tensor(dense), 2 * dense)
    close(operator.adjoint().to_dense(), adjoint)
    close(operator.inverse().to_dense(), np.linalg.inv(dense))
    close(operator.matmul(operator).to_dense(), dense @ dense)
    close((operator @ L.LinearOperatorFullMatrix(dense)).to_dense(), dense @ dense)
    close(
        operator.solve(L.LinearOperatorFullMatrix(dense)).to_dense(), np.broadcast_to(np.eye(n), dense.shape)
    )
    run(operator.assert_non_singular())


@pytest.mark.parametrize("name", ["diag", "full", "identity", "scaled", "low_rank_spd"])
def test_cholesky_factors(name: str) -> None:
    operator, dense = CASES[name](np.random.RandomState(3))
    if name == "scaled":
        operator = L.LinearOperatorScaledIdentity(3, np.array([2.0, 3.0]), is_positive_definite=True)
    np.testing.assert_allclose(run(operator.cholesky().to_dense()), np.linalg.cholesky(dense), atol=1e-10)
    run([operator.assert_positive_definite(), operator.assert_self_adjoint()])


def test_shapes_known_only_when_run() -> None:
    p = tf.placeholder(tf.float64)
    m = spd(np.random.RandomState(1), 3, (2,))
    operator = L.LinearOperatorFullMatrix(p, is_square=True)
    assert run(operator.shape_tensor(), {p: m}).tolist() == [2, 3, 3]
    np.testing.assert_allclose(
        run(operator.solve(np.ones([2, 3, 1])), {p: m}), np.linalg.solve(m, np.ones([2, 3, 1]))
    )
    product = L.LinearOperatorKronecker([operator, L.LinearOperatorIdentity(2, dtype=tf.float64)])
    np.testing.assert_allclose(
        run(product.matmul(np.ones([2, 6, 1])), {p: m}), kron(m, np.eye(2)) @ np.ones([2, 6, 1])
    )


def test_zeros() -> None:
    zeros = L.LinearOperatorZeros(3, batch_shape=[2], dtype=tf.float64)
    assert run(zeros.to_dense()).tolist() == np.zeros([2, 3, 3]).tolist()
    assert not run(zeros.matmul(np.ones([2, 3, 4]))).any() and run(zeros.determinant()).tolist() == [0, 0]
    with pytest.raises(NotImplementedError, match="expected to be singular"):
        zeros.solve(np.ones([2, 3, 1]))


def test_products_by_class() -> None:
    d = L.LinearOperatorDiag([1.0, 2.0])
    assert isinstance(d.matmul(d), L.LinearOperatorDiag) and isinstance(d.inverse(), L.LinearOperatorDiag)
    assert d.matmul(L.LinearOperatorIdentity(2)) is d and d.adjoint() is d
    full = L.LinearOperatorFullMatrix([[1.0, 2.0], [3.0, 4.0]])
    assert isinstance(full.matmul(d), L.LinearOperatorComposition)
    assert isinstance(full.adjoint(), L.LinearOperatorAdjoint) and full.adjoint().adjoint() is full
    assert isinstance(full.inverse(), L.LinearOperatorInversion) and full.inverse().inverse() is full


def test_wrong_hints_and_arguments() -> None:
    for make, text in (
        (
            lambda: L.LinearOperatorFullMatrix(np.eye(2), is_positive_definite=True, is_non_singular=False),
            "A positive definite matrix is always non-singular.",
        ),
        (
            lambda: L.LinearOperatorDiag([1.0], is_self_adjoint=False),
            "A real diagonal operator is always self adjoint.",
        ),
        (lambda: L.LinearOperatorIdentity(-2), "Argument num_rows must be non-negative."),
        (lambda: L.LinearOperatorComposition([]), "Expected a non-empty list of operators"),
        (lambda: L.LinearOperatorFullMatrix([1.0]), "Argument matrix must have at least 2 dimensions."),
        (
            lambda: L.LinearOperatorFullMatrix(np.eye(2)).matmul(np.ones([3, 1])),
            "are not compatible|not compatible",
        ),
        (
            lambda: L.LinearOperatorFullMatrix(np.eye(2)).cholesky(),
            "Not a positive definite self adjoint matrix.",
        ),
    ):
        with pytest.raises(ValueError, match=text):
            make()
    with pytest.raises(TypeError, match="Expected argument to have dtype"):
        L.LinearOperatorFullMatrix(np.eye(2)).matmul(np.ones([2, 1], np.float32))
    with pytest.raises(NotImplementedError, match="expected to not be square"):
        L.LinearOperatorFullMatrix(np.ones([2, 3])).solve(np.ones([2, 1]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Singular operator"):
        run(L.LinearOperatorDiag([1.0, 0.0]).assert_non_singular())
