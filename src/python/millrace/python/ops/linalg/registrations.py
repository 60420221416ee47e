# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Adjoints, Cholesky factors, inverses, products and solutions of the classes of linear operators."""
from __future__ import annotations

from typing import Any


from millrace.python.ops import linalg_ops, math_ops
from millrace.python.ops.linalg import linear_operator_algebra as algebra
from millrace.python.ops.linalg import registrations_util as util
from millrace.python.ops.linalg.linear_operator import LinearOperator
from millrace.python.ops.linalg.linear_operator_adjoint import LinearOperatorAdjoint
from millrace.python.ops.linalg.linear_operator_block_diag import LinearOperatorBlockDiag
from millrace.python.ops.linalg.linear_operator_circulant import (
    LinearOperatorCirculant,
    _BaseLinearOperatorCirculant,
)
from millrace.python.ops.linalg.linear_operator_composition import LinearOperatorComposition
from millrace.python.ops.linalg.linear_operator_diag import LinearOperatorDiag
from millrace.python.ops.linalg.linear_operator_householder import LinearOperatorHouseholder
from millrace.python.ops.linalg.linear_operator_identity import (
    LinearOperatorIdentity,
    LinearOperatorScaledIdentity,
)
from millrace.python.ops.linalg.linear_operator_inversion import LinearOperatorInversion
from millrace.python.ops.linalg.linear_operator_kronecker import LinearOperatorKronecker
from millrace.python.ops.linalg.linear_operator_lower_triangular import LinearOperatorLowerTriangular
from millrace.python.ops.linalg.linear_operator_zeros import LinearOperatorZeros


def _hints(operator: Any, square: Any = True) -> dict[str, Any]:
    return {
        "is_non_singular": operator.is_non_singular,
        "is_self_adjoint": operator.is_self_adjoint,
        "is_positive_definite": operator.is_positive_definite,
        "is_square": square,
    }


# --- Adjoints


@algebra.RegisterAdjoint(LinearOperator)
def _adjoint_linear_operator(linop: Any) -> Any:
    return LinearOperatorAdjoint(linop, **_hints(linop, linop.is_square))


@algebra.RegisterAdjoint(LinearOperatorAdjoint)
def _adjoint_adjoint(linop: Any) -> Any:
    return linop.operator


@algebra.RegisterAdjoint(LinearOperatorIdentity)
def _adjoint_identity(identity: Any) -> Any:
    return identity


@algebra.RegisterAdjoint(LinearOperatorScaledIdentity)
def _adjoint_scaled_identity(identity: Any) -> Any:
    multiplier = identity.multiplier
    if multiplier.dtype.is_complex:
        multiplier = math_ops.conj(multiplier)
    return LinearOperatorScaledIdentity(
        num_rows=identity._num_rows, multiplier=multiplier, **_hints(identity)
    )


@algebra.RegisterAdjoint(LinearOperatorDiag)
def _adjoint_diag(diag: Any) -> Any:
    value = math_ops.conj(diag.diag) if diag.diag.dtype.is_complex else diag.diag
    return LinearOperatorDiag(diag=value, **_hints(diag))


@algebra.RegisterAdjoint(LinearOperatorBlockDiag)
def _adjoint_block_diag(block_diag: Any) -> Any:
    return LinearOperatorBlockDiag(
        [operator.adjoint() for operator in block_diag.operators], **_hints(block_diag)
    )


@algebra.RegisterAdjoint(LinearOperatorKronecker)
def _adjoint_kronecker(kronecker: Any) -> Any:
    return LinearOperatorKronecker(
        [operator.adjoint() for operator in kronecker.operators], **_hints(kronecker, kronecker.is_square)
    )


@algebra.RegisterAdjoint(LinearOperatorCirculant)
def _adjoint_circulant(circulant: Any) -> Any:
    spectrum = circulant.spectrum
    if spectrum.dtype.is_complex:
        spectrum = math_ops.conj(spectrum)
    return type(circulant)(spectrum=spectrum, input_output_dtype=circulant.dtype, **_hints(circulant))


@algebra.RegisterAdjoint(LinearOperatorHouseholder)
def _adjoint_householder(householder: Any) -> Any:
    return householder


# --- Cholesky factors


def _factor_hints() -> dict[str, Any]:
    return {"is_non_singular": True, "is_self_adjoint": True, "is_positive_definite": True, "is_square": True}


@algebra.RegisterCholesky(LinearOperator)
def _cholesky_linear_operator(linop: Any) -> Any:
    return LinearOperatorLowerTriangular(
        linalg_ops.cholesky(linop.to_dense()), is_non_singular=True, is_self_adjoint=False, is_square=True
    )


@algebra.RegisterCholesky(LinearOperatorDiag)
def _cholesky_diag(diag_operator: Any) -> Any:
    return LinearOperatorDiag(math_ops.sqrt(diag_operator.diag), **_factor_hints())


@algebra.RegisterCholesky(LinearOperatorIdentity)
def _cholesky_identity(identity_operator: Any) -> Any:
    return LinearOperatorIdentity(
        num_rows=identity_operator._num_rows,
        batch_shape=identity_operator.batch_shape,
        dtype=identity_operator.dtype,
        **_factor_hints(),
    )


@algebra.RegisterCholesky(LinearOperatorScaledIdentity)
def _cholesky_scaled_identity(identity_operator: Any) -> Any:
    return LinearOperatorScaledIdentity(
        num_rows=identity_operator._num_rows,
        multiplier=math_ops.sqrt(identity_operator.multiplier),
        **_factor_hints(),
    )


@algebra.RegisterCholesky(LinearOperatorBlockDiag)
def _cholesky_block_diag(block_diag_operator: Any) -> Any:
    return LinearOperatorBlockDiag(
        [operator.cholesky() for operator in block_diag_operator.operators],
        is_non_singular=True,
        is_self_adjoint=None,
        is_square=True,
    )


@algebra.RegisterCholesky(LinearOperatorKronecker)
def _cholesky_kronecker(kronecker_operator: Any) -> Any:
    return LinearOperatorKronecker(
        [operator.cholesky() for operator in kronecker_operator.operators],
        is_non_singular=True,
        is_self_adjoint=None,
        is_square=True,
    )


# --- Inverses


@algebra.RegisterInverse(LinearOperator)
def _inverse_linear_operator(linop: Any) -> Any:
    return LinearOperatorInversion(linop, **_hints(linop, linop.is_square))


@algebra.RegisterInverse(LinearOperatorInversion)
def _inverse_inverse_linear_operator(linop_inversion: Any) -> Any:
    return linop_inversion.operator


@algebra.RegisterInverse(LinearOperatorDiag)
def _inverse_diag(diag_operator: Any) -> Any:
    return LinearOperatorDiag(1.0 / diag_operator.diag, **_hints(diag_operator))


@algebra.RegisterInverse(LinearOperatorIdentity)
def _inverse_identity(identity_operator: Any) -> Any:
    return identity_operator


@algebra.RegisterInverse(LinearOperatorScaledIdentity)
def _inverse_scaled_identity(identity_operator: Any) -> Any:
    return LinearOperatorScaledIdentity(
        num_rows=identity_operator._num_rows,
        multiplier=1.0 / identity_operator.multiplier,
        **_hints(identity_operator),
    )


@algebra.RegisterInverse(LinearOperatorBlockDiag)
def _inverse_block_diag(block_diag_operator: Any) -> Any:
    return LinearOperatorBlockDiag(
        [operator.inverse() for operator in block_diag_operator.operators], **_hints(block_diag_operator)
    )


@algebra.RegisterInverse(LinearOperatorKronecker)
def _inverse_kronecker(kronecker_operator: Any) -> Any:
    return LinearOperatorKronecker(
        [operator.inverse() for operator in kronecker_operator.operators], **_hints(kronecker_operator)
    )


@algebra.RegisterInverse(LinearOperatorCirculant)
def _inverse_circulant(circulant_operator: Any) -> Any:
    return LinearOperatorCirculant(
        spectrum=1.0 / circulant_operator.spectrum,
        input_output_dtype=circulant_operator.dtype,
        **_hints(circulant_operator),
    )


@algebra.RegisterInverse(LinearOperatorHouseholder)
def _inverse_householder(householder_operator: Any) -> Any:
    return householder_operator


# --- Products


def _product_hints(a: Any, b: Any) -> dict[str, Any]:
    return {
        "is_non_singular": util.combined_non_singular_hint(a, b),
        "is_self_adjoint": util.combined_commuting_self_adjoint_hint(a, b),
        "is_positive_definite": util.combined_commuting_positive_definite_hint(a, b),
        "is_square": True,
    }


@algebra.RegisterMatmul(LinearOperator, LinearOperator)
def _matmul_linear_operator(linop_a: Any, linop_b: Any) -> Any:
    square = util.is_square(linop_a, linop_b)
    non_singular = util.combined_non_singular_hint(linop_a, linop_b) if square else None
    if square is False:
        non_singular = False
    return LinearOperatorComposition(
        operators=[linop_a, linop_b], is_non_singular=non_singular or None, is_square=square
    )


@algebra.RegisterMatmul(LinearOperatorIdentity, LinearOperator)
def _matmul_linear_operator_identity_left(identity: Any, linop: Any) -> Any:
    del identity
    return linop


@algebra.RegisterMatmul(LinearOperator, LinearOperatorIdentity)
def _matmul_linear_operator_identity_right(linop: Any, identity: Any) -> Any:
    del identity
    return linop


@algebra.RegisterMatmul(LinearOperatorScaledIdentity, LinearOperatorScaledIdentity)
def _matmul_linear_operator_scaled_identity(linop_a: Any, linop_b: Any) -> Any:
    return LinearOperatorScaledIdentity(
        num_rows=linop_a._num_rows,
        multiplier=linop_a.multiplier * linop_b.multiplier,
        **_product_hints(linop_a, linop_b),
    )


@algebra.RegisterMatmul(LinearOperatorZeros, LinearOperator)
@algebra.RegisterMatmul(LinearOperator, LinearOperatorZeros)
def _matmul_linear_operator_zeros(linop_a: Any, linop_b: Any) -> Any:
    zeros = linop_a if isinstance(linop_a, LinearOperatorZeros) else linop_b
    if not (zeros.is_square and (linop_a.is_square and linop_b.is_square)):
        raise ValueError(
            "Matmul with non-square `LinearOperator`s or non-square `LinearOperatorZeros` not supported at this time."
        )
    return zeros


@algebra.RegisterMatmul(LinearOperatorDiag, LinearOperatorDiag)
def _matmul_linear_operator_diag(linop_a: Any, linop_b: Any) -> Any:
    return LinearOperatorDiag(diag=linop_a.diag * linop_b.diag, **_product_hints(linop_a, linop_b))


@algebra.RegisterMatmul(LinearOperatorDiag, LinearOperatorScaledIdentity)
def _matmul_diag_scaled_identity(diag: Any, scaled: Any) -> Any:
    return LinearOperatorDiag(diag=diag.diag * scaled.multiplier[..., None], **_product_hints(diag, scaled))


@algebra.RegisterMatmul(LinearOperatorScaledIdentity, LinearOperatorDiag)
def _matmul_scaled_identity_diag(scaled: Any, diag: Any) -> Any:
    return _matmul_diag_scaled_identity(diag, scaled)


@algebra.RegisterMatmul(LinearOperatorDiag, LinearOperatorLowerTriangular)
def _matmul_linear_operator_diag_tril(linop_diag: Any, linop_triangular: Any) -> Any:
    return LinearOperatorLowerTriangular(
        tril=linop_diag.diag[..., None] * linop_triangular.to_dense(),
        is_non_singular=util.combined_non_singular_hint(linop_diag, linop_triangular),
        is_self_adjoint=None,
        is_positive_definite=None,
        is_square=True,
    )


@algebra.RegisterMatmul(LinearOperatorLowerTriangular, LinearOperatorDiag)
def _matmul_linear_operator_tril_diag(linop_triangular: Any, linop_diag: Any) -> Any:
    return LinearOperatorLowerTriangular(
        tril=linop_triangular.to_dense() * linop_diag.diag[..., None, :],
        is_non_singular=util.combined_non_singular_hint(linop_diag, linop_triangular),
        is_self_adjoint=None,
        is_positive_definite=None,
        is_square=True,
    )


@algebra.RegisterMatmul(_BaseLinearOperatorCirculant, _BaseLinearOperatorCirculant)
def _matmul_linear_operator_circulant_circulant(linop_a: Any, linop_b: Any) -> Any:
    if type(linop_a) is not type(linop_b):
        return _matmul_linear_operator(linop_a, linop_b)
    return type(linop_a)(
        spectrum=linop_a.spectrum * linop_b.spectrum,
        input_output_dtype=linop_a.dtype,
        **_product_hints(linop_a, linop_b),
    )


@algebra.RegisterMatmul(LinearOperatorBlockDiag, LinearOperatorBlockDiag)
def _matmul_linear_operator_block_diag(linop_a: Any, linop_b: Any) -> Any:
    if len(linop_a.operators) != len(linop_b.operators) or any(
        a.domain_dimension != b.range_dimension for a, b in zip(linop_a.operators, linop_b.operators)
    ):
        return _matmul_linear_operator(linop_a, linop_b)
    return LinearOperatorBlockDiag(
        operators=[a.matmul(b) for a, b in zip(linop_a.operators, linop_b.operators)],
        is_non_singular=util.combined_non_singular_hint(linop_a, linop_b),
        is_self_adjoint=None,
        is_positive_definite=None,
        is_square=True,
    )


# --- Solutions


@algebra.RegisterSolve(LinearOperator, LinearOperator)
def _solve_linear_operator(linop_a: Any, linop_b: Any) -> Any:
    return linop_a.inverse().matmul(linop_b)


@algebra.RegisterSolve(LinearOperatorInversion, LinearOperator)
def _solve_inverse_linear_operator(linop_a: Any, linop_b: Any) -> Any:
    return linop_a.operator.matmul(linop_b)


@algebra.RegisterSolve(LinearOperatorIdentity, LinearOperator)
def _solve_identity(identity: Any, linop: Any) -> Any:
    del identity
    return linop
