# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions of matrices made of other ops."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from millrace.python.framework import dtypes, ops, tensor_shape
from millrace.python.ops import (
    array_ops,
    check_ops,
    control_flow_ops,
    gen_linalg_ops,
    linalg_ops,
    math_ops,
    special_math_ops,
)

band_part = array_ops.matrix_band_part
cholesky = linalg_ops.cholesky
cholesky_solve = linalg_ops.cholesky_solve
det = linalg_ops.matrix_determinant
slogdet = gen_linalg_ops.log_matrix_determinant
diag = array_ops.matrix_diag
diag_part = array_ops.matrix_diag_part
eigh = linalg_ops.self_adjoint_eig
eigvalsh = linalg_ops.self_adjoint_eigvals
einsum = special_math_ops.einsum
eye = linalg_ops.eye
inv = linalg_ops.matrix_inverse
logm = gen_linalg_ops.matrix_logarithm
lu = gen_linalg_ops.lu
lstsq = linalg_ops.matrix_solve_ls
norm = linalg_ops.norm
qr = linalg_ops.qr
set_diag = array_ops.matrix_set_diag
solve = linalg_ops.matrix_solve
sqrtm = linalg_ops.matrix_square_root
svd = linalg_ops.svd
tensordot = math_ops.tensordot
trace = math_ops.trace
transpose = array_ops.matrix_transpose
triangular_solve = linalg_ops.matrix_triangular_solve


def logdet(matrix: Any, name: Optional[str] = None) -> Any:
    """Returns the logarithm of the determinants, [...], of positive definite matrices [..., m, m]."""
    with ops.name_scope(name, "logdet", [matrix]):
        chol = gen_linalg_ops.cholesky(matrix)
        return 2.0 * math_ops.reduce_sum(
            math_ops.log(math_ops.real(array_ops.matrix_diag_part(chol))), axis=[-1]
        )


def adjoint(matrix: Any, name: Optional[str] = None) -> Any:
    """Returns the transposed and conjugated matrices."""
    with ops.name_scope(name, "adjoint", [matrix]):
        matrix = ops.convert_to_tensor(matrix, name="matrix")
        return array_ops.matrix_transpose(matrix, conjugate=True)


_PADE = {
    3: [120.0, 60.0, 12.0],
    5: [30240.0, 15120.0, 3360.0, 420.0, 30.0],
    7: [17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0],
    9: [
        17643225600.0,
        8821612800.0,
        2075673600.0,
        302702400.0,
        30270240.0,
        2162160.0,
        110880.0,
        3960.0,
        90.0,
    ],
    13: [
        64764752532480000.0,
        32382376266240000.0,
        7771770303897600.0,
        1187353796428800.0,
        129060195264000.0,
        10559470521600.0,
        670442572800.0,
        33522128640.0,
        1323241920.0,
        40840800.0,
        960960.0,
        16380.0,
        182.0,
    ],
}


def _matrix_exp_pade(matrix: Any, order: int) -> tuple[Any, Any]:
    """Returns (U, V), odd and even part of the Pade approximant of an order to the exponential."""
    b = _PADE[order]
    dtype = matrix.dtype.real_dtype.as_numpy_dtype

    def c(k: int) -> Any:
        return (
            ops.convert_to_tensor(np.asarray(b[k], dtype), dtype=matrix.dtype.real_dtype)
            if not matrix.dtype.is_complex
            else math_ops.cast(np.asarray(b[k], dtype), matrix.dtype)
        )

    ident = linalg_ops.eye(
        array_ops.shape(matrix)[-2], batch_shape=array_ops.shape(matrix)[:-2], dtype=matrix.dtype
    )
    a2 = math_ops.matmul(matrix, matrix)
    a4 = math_ops.matmul(a2, a2) if order >= 5 else None
    a6 = math_ops.matmul(a4, a2) if order >= 7 else None
    if order == 13:
        inner_u = math_ops.matmul(a6, a6 + c(11) * a4 + c(9) * a2)
        odd = inner_u + c(7) * a6 + c(5) * a4 + c(3) * a2 + c(1) * ident
        even = (
            math_ops.matmul(a6, c(12) * a6 + c(10) * a4 + c(8) * a2)
            + c(6) * a6
            + c(4) * a4
            + c(2) * a2
            + c(0) * ident
        )
        return math_ops.matmul(matrix, odd), even
    powers = [ident, a2, a4, a6, math_ops.matmul(a6, a2) if order == 9 else None]
    count = (order + 1) // 2
    # The highest power of the odd part has the coefficient 1.
    odd = powers[count - 1]
    for k in range(count - 1):
        odd = odd + c(2 * k + 1) * powers[k]
    even = c(0) * powers[0]
    for k in range(1, count):
        even = even + c(2 * k) * powers[k]
    return math_ops.matmul(matrix, odd), even


def matrix_exponential(input: Any, name: Optional[str] = None) -> Any:
    """Returns the exponentials of square matrices [..., m, m], by Pade approximants, scaling and squaring.

    Args:
      input: float16, float32, float64, complex64 or complex128.
      name: name scope.

    Raises:
      ValueError: the type is none of these.
    """
    with ops.name_scope(name, "matrix_exponential", [input]):
        matrix = ops.convert_to_tensor(input, name="input")
        if matrix.shape[-2:] == [0, 0]:
            return matrix
        batch_shape = matrix.shape[:-2]
        if not batch_shape.is_fully_defined():
            batch_shape = array_ops.shape(matrix)[:-2]
        # A batch of matrices along one axis.
        matrix = array_ops.reshape(matrix, array_ops.concat(([-1], array_ops.shape(matrix)[-2:]), axis=0))
        l1_norm = math_ops.reduce_max(
            math_ops.reduce_sum(math_ops.abs(matrix), axis=-2),
            axis=-1,
        )[..., None, None]
        real = matrix.dtype.real_dtype

        def const(x: float) -> Any:
            return ops.convert_to_tensor(x, l1_norm.dtype)

        def nest_where(vals: list[float], cases: list[Any]) -> Any:
            assert len(vals) == len(cases) - 1
            if len(vals) == 1:
                return array_ops.where_v2(math_ops.less(l1_norm, const(vals[0])), cases[0], cases[1])
            return array_ops.where_v2(
                math_ops.less(l1_norm, const(vals[0])), cases[0], nest_where(vals[1:], cases[1:])
            )

        orders: tuple[int, ...]
        if real in (dtypes.float16, dtypes.float32):
            maxnorm, orders, bounds = (
                3.925724783138660,
                (3, 5, 7),
                [4.258730016922831e-001, 1.880152677804762e000],
            )
        elif real == dtypes.float64:
            maxnorm, orders = 5.371920351148152, (3, 5, 7, 9, 13)
            bounds = [
                1.495585217958292e-002,
                2.539398330063230e-001,
                9.504178996162932e-001,
                2.097847961257068e000,
            ]
        else:
            raise ValueError("tf.linalg.expm does not support matrices of type %s" % matrix.dtype)
        squarings = math_ops.maximum(
            math_ops.floor(math_ops.log(l1_norm / const(maxnorm)) / math_ops.log(const(2.0))), const(0.0)
        )
        parts = [_matrix_exp_pade(matrix, order) for order in orders[:-1]]
        scale = math_ops.pow(const(2.0), squarings)
        parts.append(_matrix_exp_pade(matrix / math_ops.cast(scale, matrix.dtype), orders[-1]))
        u = nest_where(bounds, [p[0] for p in parts])
        v = nest_where(bounds, [p[1] for p in parts])
        numer, denom = u + v, -u + v
        result = linalg_ops.matrix_solve(denom, numer)
        max_squarings = math_ops.reduce_max(squarings)

        def body(i: Any, r: Any) -> Any:
            return i + 1, array_ops.where_v2(math_ops.less(i, squarings), math_ops.matmul(r, r), r)

        _, result = control_flow_ops.while_loop(
            lambda i, _: math_ops.less(i, max_squarings), body, [const(0.0), result]
        )
        if not isinstance(batch_shape, tensor_shape.TensorShape):
            return array_ops.reshape(
                result, array_ops.concat((batch_shape, array_ops.shape(result)[-2:]), axis=0)
            )
        return array_ops.reshape(result, batch_shape.concatenate(result.shape[-2:]))


expm = matrix_exponential


def _diagonals_of_matrix(diagonals: Any) -> Any:
    """Returns [..., 3, m]: super-, main and sub-diagonal of tridiagonal matrices."""
    main = array_ops.matrix_diag_part(diagonals)
    zeros = array_ops.zeros_like(main[..., :1])
    upper = array_ops.concat([array_ops.matrix_diag_part(diagonals[..., :-1, 1:]), zeros], axis=-1)
    lower = array_ops.concat([zeros, array_ops.matrix_diag_part(diagonals[..., 1:, :-1])], axis=-1)
    return array_ops.stack([upper, main, lower], axis=-2)


def _check_rank(name: str, value: Any) -> None:
    if value.shape.ndims is not None and value.shape.ndims < 2:
        raise ValueError("Expected {} to have rank at least 2, got {}".format(name, value.shape.ndims))


def _check_matrix_format(diagonals: Any) -> None:
    m1 = tensor_shape.dimension_value(diagonals.shape[-1])
    m2 = tensor_shape.dimension_value(diagonals.shape[-2])
    if m1 is not None and m2 is not None and m1 != m2:
        raise ValueError("Expected last two dimensions of diagonals to be same, got {} and {}".format(m1, m2))


def _pad_sequence(diagonals: Any, m: Any) -> tuple[Any, Any, Any]:
    """Returns diagonals of a sequence as tensors with as many elements as the main one."""
    superdiag, maindiag, subdiag = (ops.convert_to_tensor(d) for d in diagonals)
    zeros = array_ops.zeros_like(maindiag[..., :1])
    if tensor_shape.dimension_value(superdiag.shape[-1]) == m - 1 if isinstance(m, int) else False:
        superdiag = array_ops.concat([superdiag, zeros], axis=-1)
    if tensor_shape.dimension_value(subdiag.shape[-1]) == m - 1 if isinstance(m, int) else False:
        subdiag = array_ops.concat([zeros, subdiag], axis=-1)
    return superdiag, maindiag, subdiag


def _compact(diagonals: Any, diagonals_format: str) -> Any:
    if diagonals_format == "compact":
        diagonals = ops.convert_to_tensor(diagonals, name="diagonals")
        _check_rank("diagonals", diagonals)
        return diagonals
    if diagonals_format == "sequence":
        if not isinstance(diagonals, (tuple, list)) or len(diagonals) != 3:
            raise ValueError("Expected diagonals to be a sequence of length 3.")
        main = ops.convert_to_tensor(diagonals[1])
        return array_ops.stack(
            _pad_sequence(diagonals, tensor_shape.dimension_value(main.shape[-1])), axis=-2
        )
    if diagonals_format == "matrix":
        diagonals = ops.convert_to_tensor(diagonals, name="diagonals")
        _check_rank("diagonals", diagonals)
        _check_matrix_format(diagonals)
        return _diagonals_of_matrix(diagonals)
    raise ValueError("Unrecognized diagonals_format: {}".format(diagonals_format))


def tridiagonal_solve(
    diagonals: Any,
    rhs: Any,
    diagonals_format: str = "compact",
    transpose_rhs: bool = False,
    conjugate_rhs: bool = False,
    name: Optional[str] = None,
    partial_pivoting: bool = True,
) -> Any:
    """Solves tridiagonal systems.

    Args:
      diagonals: "compact": [..., 3, m], super-, main and sub-diagonal; "sequence": a tuple of the three, [..., m];
        "matrix": [..., m, m].
      rhs: [..., m] or [..., m, k].
      diagonals_format: see above.
      transpose_rhs: whether `rhs` is transposed first.
      conjugate_rhs: whether it is conjugated.
      name: name scope.
      partial_pivoting: whether rows are swapped for numerical stability.

    Returns:
      [..., m] or [..., m, k].

    Raises:
      ValueError: another format, or shapes that do not fit.
    """
    with ops.name_scope(name, "tridiagonal_solve", [diagonals, rhs]):
        diagonals = _compact(diagonals, diagonals_format)
        rhs = ops.convert_to_tensor(rhs, name="rhs")
        _check_rank("diagonals", diagonals)
        num_diags = tensor_shape.dimension_value(diagonals.shape[-2])
        if num_diags is not None and num_diags != 3:
            raise ValueError("Expected 3 diagonals got {}".format(num_diags))
        rank, rhs_rank = diagonals.shape.ndims, rhs.shape.ndims
        if rank is not None and rhs_rank is not None:
            if rhs_rank not in (rank - 1, rank):
                raise ValueError(
                    "Expected the rank of rhs to be {} or {}, got {}".format(rank - 1, rank, rhs_rank)
                )
            diagonals.shape[:-2].assert_is_compatible_with(rhs.shape[: rank - 2])
        is_vector = rank is not None and rhs_rank == rank - 1
        if not is_vector:
            _check_rank("rhs", rhs)

        def prepare(r: Any) -> Any:
            if conjugate_rhs and not transpose_rhs:
                r = math_ops.conj(r)
            return r

        if is_vector:
            rhs = prepare(rhs)
            m = tensor_shape.dimension_value(rhs.shape[-1])
            want = tensor_shape.dimension_value(diagonals.shape[-1])
            if m is not None and want is not None and m != want:
                raise ValueError(
                    "Expected number of left-hand sided and right-hand sides to be equal, got {} and {}".format(
                        want, m
                    )
                )
            rhs = array_ops.expand_dims(
                rhs if not transpose_rhs or not conjugate_rhs else math_ops.conj(rhs), -1
            )
            return array_ops.squeeze(
                gen_linalg_ops.tridiagonal_solve(diagonals, rhs, partial_pivoting=partial_pivoting), -1
            )
        if transpose_rhs:
            rhs = array_ops.matrix_transpose(rhs, conjugate=conjugate_rhs)
        else:
            rhs = prepare(rhs)
        m = tensor_shape.dimension_value(rhs.shape[-2])
        want = tensor_shape.dimension_value(diagonals.shape[-1])
        if m is not None and want is not None and m != want:
            raise ValueError(
                "Expected number of left-hand sided and right-hand sides to be equal, got {} and {}".format(
                    want, m
                )
            )
        return gen_linalg_ops.tridiagonal_solve(diagonals, rhs, partial_pivoting=partial_pivoting)


def tridiagonal_matmul(
    diagonals: Any, rhs: Any, diagonals_format: str = "compact", name: Optional[str] = None
) -> Any:
    """Multiplies tridiagonal matrices by `rhs` [..., m, k]; see `tridiagonal_solve` for the formats."""
    with ops.name_scope(name, "tridiagonal_matmul", [diagonals, rhs]):
        diagonals = _compact(diagonals, diagonals_format)
        rhs = ops.convert_to_tensor(rhs, name="rhs")
        rows = [diagonals[..., k, :] for k in range(3)]
        superdiag, maindiag, subdiag = (array_ops.expand_dims(d, -2) for d in rows)
        return gen_linalg_ops.tridiagonal_mat_mul(superdiag, maindiag, subdiag, rhs)


def _maybe_validate_matrix(a: Any, validate_args: bool) -> list[Any]:
    """Returns asserts that `a` is a matrix of floats; TypeError or ValueError when it is known not to be."""
    assertions = []
    if not a.dtype.is_floating:
        raise TypeError("Input `a` must have `float`-like `dtype` (saw {}).".format(a.dtype.name))
    if a.shape is not None and a.shape.rank is not None:
        if a.shape.rank < 2:
            raise ValueError("Input `a` must have at least 2 dimensions (saw: {}).".format(a.shape.rank))
    elif validate_args:
        assertions.append(
            check_ops.assert_rank_at_least(a, rank=2, message="Input `a` must have at least 2 dimensions.")
        )
    return assertions


def matrix_rank(a: Any, tol: Any = None, validate_args: bool = False, name: Optional[str] = None) -> Any:
    """Returns the ranks, int32 [...], of matrices: how many singular values are above `tol`."""
    with ops.name_scope(name or "matrix_rank"):
        a = ops.convert_to_tensor(a, preferred_dtype=dtypes.float32, name="a")
        assertions = _maybe_validate_matrix(a, validate_args)
        if assertions:
            with ops.control_dependencies(assertions):
                a = array_ops.identity(a)
        s = linalg_ops.svd(a, compute_uv=False)
        if tol is None:
            if a.shape[-2:].is_fully_defined():
                m: Any = np.max(a.shape[-2:].as_list())
            else:
                m = math_ops.reduce_max(array_ops.shape(a)[-2:])
            eps = np.finfo(a.dtype.as_numpy_dtype).eps
            tol = eps * math_ops.cast(m, a.dtype) * math_ops.reduce_max(s, axis=-1, keepdims=True)
        return math_ops.reduce_sum(math_ops.cast(s > tol, dtypes.int32), axis=-1)


def pinv(a: Any, rcond: Any = None, validate_args: bool = False, name: Optional[str] = None) -> Any:
    """Returns the Moore-Penrose inverses [..., n, m] of matrices [..., m, n].

    Args:
      a: of floats.
      rcond: singular values below `rcond` times the largest one count as 0; by default 10 max(m, n) eps.
      validate_args: whether shapes are checked when the op runs.
      name: name scope.

    Raises:
      TypeError: no floats.
      ValueError: fewer than two axes.
    """
    with ops.name_scope(name or "pinv"):
        a = ops.convert_to_tensor(a, name="a")
        assertions = _maybe_validate_matrix(a, validate_args)
        if assertions:
            with ops.control_dependencies(assertions):
                a = array_ops.identity(a)
        dtype = a.dtype.as_numpy_dtype
        if rcond is None:

            def get_dim_size(dim: int) -> Any:
                dim_val = tensor_shape.dimension_value(a.shape[dim])
                return dim_val if dim_val is not None else array_ops.shape(a)[dim]

            num_rows, num_cols = get_dim_size(-2), get_dim_size(-1)
            if isinstance(num_rows, int) and isinstance(num_cols, int):
                max_rows_cols: Any = float(max(num_rows, num_cols))
            else:
                max_rows_cols = math_ops.cast(math_ops.maximum(num_rows, num_cols), dtype)
            rcond = 10.0 * max_rows_cols * np.finfo(dtype).eps
        rcond = ops.convert_to_tensor(rcond, dtype=dtype, name="rcond")
        singular_values, left, right = svd(a, full_matrices=False, compute_uv=True)
        cutoff = rcond * math_ops.reduce_max(singular_values, axis=-1)
        singular_values = array_ops.where_v2(
            singular_values > array_ops.expand_dims_v2(cutoff, -1), singular_values, np.array(np.inf, dtype)
        )
        a_pinv = math_ops.matmul(right / array_ops.expand_dims_v2(singular_values, -2), left, adjoint_b=True)
        if a.shape is not None and a.shape.rank is not None:
            a_pinv.set_shape(a.shape[:-2].concatenate([a.shape[-1], a.shape[-2]]))
        return a_pinv
