# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Decompositions, solvers and norms of matrices."""
from __future__ import annotations

from typing import Any, Optional, TYPE_CHECKING

import numpy as np

from millrace.python.framework import constant_op, dtypes, ops, tensor_shape  # noqa: F401
from millrace.python.ops import array_ops, gen_linalg_ops, linalg_ops_impl, map_fn, math_ops
from millrace.python.util import deprecation

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Names of gen_linalg_ops that this module does not define."""

else:
    from millrace.python.ops.gen_linalg_ops import *  # noqa: F401,F403

# Names of the generated module for which there is no wrapper here.
cholesky = gen_linalg_ops.cholesky
matrix_determinant = gen_linalg_ops.matrix_determinant
matrix_inverse = gen_linalg_ops.matrix_inverse
matrix_solve = gen_linalg_ops.matrix_solve
matrix_triangular_solve = gen_linalg_ops.matrix_triangular_solve
matrix_square_root = gen_linalg_ops.matrix_square_root
qr = gen_linalg_ops.qr


def _RegularizedGramianCholesky(matrix: Any, l2_regularizer: Any, first_kind: bool) -> Any:
    """Returns the Cholesky factor of A^H A + l I (`first_kind`) or of A A^H + l I."""
    gramian = math_ops.matmul(matrix, matrix, adjoint_a=first_kind, adjoint_b=not first_kind)
    if isinstance(l2_regularizer, ops.Tensor) or l2_regularizer != 0:
        matrix_shape = array_ops.shape(matrix)
        batch_shape = matrix_shape[:-2]
        small_dim = matrix_shape[-1] if first_kind else matrix_shape[-2]
        identity = eye(small_dim, batch_shape=batch_shape, dtype=matrix.dtype)
        small_dim_static = matrix.shape[-1 if first_kind else -2]
        identity.set_shape(matrix.shape[:-2].concatenate([small_dim_static, small_dim_static]))
        gramian += l2_regularizer * identity
    return gen_linalg_ops.cholesky(gramian)


def cholesky_solve(chol: Any, rhs: Any, name: Optional[str] = None) -> Any:
    """Solves A X = rhs, given `chol`, the lower Cholesky factor of A.

    Args:
      chol: [..., m, m].
      rhs: [..., m, k].
      name: name scope.
    """
    with ops.name_scope(name, "cholesky_solve", [chol, rhs]):
        y = gen_linalg_ops.matrix_triangular_solve(chol, rhs, adjoint=False, lower=True)
        return gen_linalg_ops.matrix_triangular_solve(chol, y, adjoint=True, lower=True)


def eye(
    num_rows: Any,
    num_columns: Any = None,
    batch_shape: Any = None,
    dtype: Any = dtypes.float32,
    name: Optional[str] = None,
) -> Any:
    """Returns identity matrices; see `linalg_ops_impl.eye`."""
    return linalg_ops_impl.eye(
        num_rows, num_columns=num_columns, batch_shape=batch_shape, dtype=dtype, name=name
    )


def matrix_solve_ls(
    matrix: Any, rhs: Any, l2_regularizer: Any = 0.0, fast: bool = True, name: Optional[str] = None
) -> Any:
    """Solves A X = rhs in the sense of least squares, or, for fewer rows than columns, with the smallest norm.

    Args:
      matrix: [..., m, n].
      rhs: [..., m, k].
      l2_regularizer: a float64 scalar, the weight of the norm of X.
      fast: by Cholesky of the normal equations (then with the regularizer), else by a complete decomposition.
      name: name scope.

    Returns:
      [..., n, k].
    """

    def _use_composite_impl(fast: bool, tensor_shape: Any) -> bool:
        """Whether several matrix ops replace the fused op: they are faster for batches."""
        if not fast:
            return False
        batch_shape = tensor_shape[:-2]
        matrix_shape = tensor_shape[-2:]
        if not tensor_shape.is_fully_defined():
            return True
        tensor_size = tensor_shape.num_elements() * matrix.dtype.size
        is_io_bound = batch_shape.num_elements() > np.min(matrix_shape)
        return bool(is_io_bound and tensor_size > 1 << 19)  # half a mebibyte

    def _overdetermined(matrix: Any, rhs: Any, l2_regularizer: Any) -> Any:
        """(A^H A + l I)^-1 A^H rhs."""
        chol = _RegularizedGramianCholesky(matrix, l2_regularizer=l2_regularizer, first_kind=True)
        return cholesky_solve(chol, math_ops.matmul(matrix, rhs, adjoint_a=True))

    def _underdetermined(matrix: Any, rhs: Any, l2_regularizer: Any) -> Any:
        """A^H (A A^H + l I)^-1 rhs."""
        chol = _RegularizedGramianCholesky(matrix, l2_regularizer=l2_regularizer, first_kind=False)
        return math_ops.matmul(matrix, cholesky_solve(chol, rhs), adjoint_a=True)

    def _composite_impl(matrix: Any, rhs: Any, l2_regularizer: Any) -> Any:
        from millrace.python.ops import control_flow_ops

        with ops.name_scope(name, "matrix_solve_ls", [matrix, rhs, l2_regularizer]):
            matrix_shape = matrix.get_shape()[-2:]
            if matrix_shape.is_fully_defined():
                solve = _overdetermined if matrix_shape[-2] >= matrix_shape[-1] else _underdetermined
                return solve(matrix, rhs, l2_regularizer)
            dynamic_shape = array_ops.shape(matrix)[-2:]
            return control_flow_ops.cond(
                dynamic_shape[0] >= dynamic_shape[1],
                lambda: _overdetermined(matrix, rhs, l2_regularizer),
                lambda: _underdetermined(matrix, rhs, l2_regularizer),
            )

    matrix = ops.convert_to_tensor(matrix, name="matrix")
    if matrix.dtype.is_complex and l2_regularizer != 0:
        # The fused op needs the regularizer in double precision.
        raise ValueError("matrix_solve_ls does not support l2_regularizer with complex dtypes.")
    if _use_composite_impl(fast, matrix.get_shape()):
        return _composite_impl(matrix, rhs, l2_regularizer)
    return gen_linalg_ops.matrix_solve_ls(matrix, rhs, l2_regularizer, fast=fast, name=name)


def self_adjoint_eig(tensor: Any, name: Optional[str] = None) -> Any:
    """Returns (eigenvalues [..., n], in ascending order, eigenvectors [..., n, n]) of self-adjoint matrices."""
    e, v = gen_linalg_ops.self_adjoint_eig_v2(tensor, compute_v=True, name=name)
    return e, v


def self_adjoint_eigvals(tensor: Any, name: Optional[str] = None) -> Any:
    """Returns the eigenvalues [..., n], in ascending order, of self-adjoint matrices."""
    e, _ = gen_linalg_ops.self_adjoint_eig_v2(tensor, compute_v=False, name=name)
    return e


def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: Optional[str] = None) -> Any:
    """Returns the singular values s [..., p], in descending order, or (s, u, v) with tensor = u diag(s) v^H."""
    s, u, v = gen_linalg_ops.svd(tensor, compute_uv=compute_uv, full_matrices=full_matrices, name=name)
    if compute_uv:
        return math_ops.real(s), u, v
    return math_ops.real(s)


def norm_v2(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: Any = None, name: Optional[str] = None
) -> Any:
    """As `norm`, with the arguments of version 2."""
    return norm(tensor=tensor, ord=ord, axis=axis, keepdims=keepdims, name=name)


def _absolute(tensor: Any) -> Any:
    """|x|, or for real numbers x itself, which has the same even powers."""
    return tensor * math_ops.conj(tensor) if tensor.dtype.is_complex else tensor * tensor


def norm(
    tensor: Any,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: Any = None,
    name: Optional[str] = None,
    keep_dims: Any = None,
) -> Any:
    """Returns norms of vectors (`axis` an integer), of matrices (a pair) or of the whole tensor (None).

    Args:
      tensor: of real or complex numbers.
      ord: "fro", "euclidean", 1, 2, np.inf or, for vectors only, any positive number.
      axis: see above.
      keepdims: whether reduced axes stay with size 1.
      name: name scope.
      keep_dims: old name of `keepdims`.

    Raises:
      ValueError: another `ord` or `axis`.
    """
    keepdims = deprecation.deprecated_argument_lookup("keepdims", keepdims, "keep_dims", keep_dims)
    if keepdims is None:
        keepdims = False
    is_matrix_norm = isinstance(axis, (tuple, list)) and len(axis) == 2
    if is_matrix_norm:
        axis = tuple(axis)
        if not np.all([isinstance(x, (int, np.integer)) for x in axis]) or axis[0] == axis[1]:
            raise ValueError("'axis' must be None, an integer, or a tuple of 2 unique integers")
        supported: Any = ["euclidean", "fro", 1, 2, np.inf]
        if ord not in supported:
            raise ValueError("'ord' must be a supported matrix norm in %s, got %s" % (supported, ord))
    else:
        if not (isinstance(axis, (int, np.integer)) or axis is None):
            raise ValueError("'axis' must be None, an integer, or a tuple of 2 unique integers")
        supported = ["euclidean", 1, 2, np.inf]
        if (not np.isreal(ord) or ord <= 0) and ord not in supported:
            raise ValueError("'ord' must be a supported vector norm, got %s" % ord)
        if axis is not None:
            axis = (axis,)
    with ops.name_scope(name, "norm", [tensor]):
        tensor = ops.convert_to_tensor(tensor)
        if ord in ["fro", "euclidean", 2, 2.0]:
            if is_matrix_norm and ord in [2, 2.0]:
                rank = array_ops.rank(tensor)
                positive_axis = map_fn.map_fn(lambda i: _nonnegative(i, rank), ops.convert_to_tensor(axis))
                axes = math_ops.range(rank)
                perm_before = array_ops.concat(
                    [array_ops.setdiff1d(axes, positive_axis)[0], positive_axis], axis=0
                )
                perm_after = map_fn.map_fn(
                    lambda i: math_ops.cast(
                        array_ops.squeeze(array_ops.where_v2(math_ops.equal(perm_before, i))),
                        dtype=dtypes.int32,
                    ),
                    axes,
                )
                permed = array_ops.transpose(tensor, perm=perm_before)
                matrix_2_norm = array_ops.expand_dims(
                    math_ops.reduce_max(math_ops.abs(svd(permed, compute_uv=False)), axis=-1, keepdims=True),
                    axis=-1,
                )
                result = array_ops.transpose(matrix_2_norm, perm=perm_after)
            else:
                result = math_ops.sqrt(math_ops.reduce_sum(_absolute(tensor), axis, keepdims=True))
        else:
            result = math_ops.abs(tensor)
            if ord == 1:
                sum_axis = None if axis is None else axis[0]
                result = math_ops.reduce_sum(result, sum_axis, keepdims=True)
                if is_matrix_norm:
                    result = math_ops.reduce_max(result, axis[-1], keepdims=True)
            elif ord == np.inf:
                if is_matrix_norm:
                    result = math_ops.reduce_sum(result, axis[1], keepdims=True)
                max_axis = None if axis is None else axis[0]
                result = math_ops.reduce_max(result, max_axis, keepdims=True)
            else:
                result = math_ops.pow(
                    math_ops.reduce_sum(math_ops.pow(result, ord), axis, keepdims=True), 1.0 / ord
                )
        if not keepdims:
            result = array_ops.squeeze(result, axis)
        return result


def _nonnegative(i: Any, rank: Any) -> Any:
    from millrace.python.ops import control_flow_ops

    return control_flow_ops.cond(i >= 0, lambda: i, lambda: i + rank)
