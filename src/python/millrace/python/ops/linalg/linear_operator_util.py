# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The common part of linear operators: checks, shapes and products of batches that broadcast."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import constant_op, dtypes, ops, tensor_shape
from millrace.python.ops import array_ops, check_ops, linalg_ops, math_ops


def assert_no_entries_with_modulus_zero(
    x: Any, message: Optional[str] = None, name: str = "assert_no_entries_with_modulus_zero"
) -> Any:
    """Returns an op that fails where an element of `x` is 0."""
    with ops.name_scope(name, values=[x]):
        x = ops.convert_to_tensor(x, name="x")
        should_be_nonzero = math_ops.abs(x)
        return check_ops.assert_less(
            ops.convert_to_tensor(0, dtype=should_be_nonzero.dtype), should_be_nonzero, message=message
        )


def assert_zero_imag_part(x: Any, message: Optional[str] = None, name: str = "assert_zero_imag_part") -> Any:
    """Returns an op that fails where an element of `x` has an imaginary part."""
    from millrace.python.ops import control_flow_ops

    with ops.name_scope(name, values=[x]):
        x = ops.convert_to_tensor(x, name="x")
        if x.dtype.is_floating:
            return control_flow_ops.no_op()
        zero = ops.convert_to_tensor(0, dtype=x.dtype.real_dtype)
        return check_ops.assert_equal(zero, math_ops.imag(x), message=message)


def assert_compatible_matrix_dimensions(operator: Any, x: Any) -> Any:
    """Returns an op that fails unless the operator can be applied to `x` [..., n, r]."""
    message = "Incompatible matrix dimensions.  shape[-2] of argument to be the same as this operator"
    return check_ops.assert_equal(array_ops.shape(x)[-2], operator.domain_dimension_tensor(), message=message)


def assert_is_batch_matrix(tensor: Any) -> None:
    """Raises ValueError for tensors known to have fewer than two axes."""
    if tensor.get_shape().ndims is not None and tensor.get_shape().ndims < 2:
        raise ValueError("Expected [batch] matrix with at least two dimensions.  Found: %s" % tensor)


def shape_tensor(shape: Any, name: Optional[str] = None) -> Any:
    """Returns a shape, a list of sizes, as an int32 vector."""
    dtype = dtypes.int32 if isinstance(shape, (tuple, list)) and not shape else None
    return ops.convert_to_tensor(shape, dtype=dtype, name=name)


def broadcast_matrix_batch_dims(batch_matrices: Any, name: Optional[str] = None) -> list[Any]:
    """Returns matrices [..., m, n], their leading axes broadcast to the same.

    Raises:
      ValueError: some are no matrices, or the axes do not broadcast.
    """
    with ops.name_scope(name, "broadcast_matrix_batch_dims", values=batch_matrices):
        batch_matrices = [ops.convert_to_tensor(mat) for mat in batch_matrices]
        for mat in batch_matrices:
            assert_is_batch_matrix(mat)
        if len(batch_matrices) < 2:
            return batch_matrices
        bcast = batch_matrices[0].get_shape()[:-2]
        for mat in batch_matrices[1:]:
            bcast = array_ops.broadcast_static_shape(bcast, mat.get_shape()[:-2])
        if bcast.is_fully_defined():
            for i, mat in enumerate(batch_matrices):
                if mat.get_shape()[:-2] != bcast:
                    shape = array_ops.concat([bcast.as_list(), array_ops.shape(mat)[-2:]], axis=0)
                    batch_matrices[i] = array_ops.broadcast_to(mat, shape)
            return batch_matrices
        dynamic = array_ops.shape(batch_matrices[0])[:-2]
        for mat in batch_matrices[1:]:
            dynamic = array_ops.broadcast_dynamic_shape(dynamic, array_ops.shape(mat)[:-2])
        for i, mat in enumerate(batch_matrices):
            static = mat.get_shape()
            batch_matrices[i] = array_ops.broadcast_to(
                mat, array_ops.concat([dynamic, array_ops.shape(mat)[-2:]], 0)
            )
            if static.ndims is not None:
                batch_matrices[i].set_shape(bcast.concatenate(static[-2:]))
        return batch_matrices


def cholesky_solve_with_broadcast(chol: Any, rhs: Any, name: Optional[str] = None) -> Any:
    """As `cholesky_solve`, for batches that broadcast."""
    with ops.name_scope(name, "CholeskySolveWithBroadcast", [chol, rhs]):
        chol, rhs = broadcast_matrix_batch_dims([chol, rhs])
        return linalg_ops.cholesky_solve(chol, rhs)


def matmul_with_broadcast(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: Optional[str] = None,
) -> Any:
    """As `matmul`, for batches that broadcast."""
    return math_ops.matmul(
        a, b, transpose_a, transpose_b, adjoint_a, adjoint_b, a_is_sparse, b_is_sparse, name
    )


def matrix_solve_with_broadcast(
    matrix: Any, rhs: Any, adjoint: bool = False, name: Optional[str] = None
) -> Any:
    """As `matrix_solve`, for batches that broadcast."""
    with ops.name_scope(name, "MatrixSolveWithBroadcast", [matrix, rhs]):
        matrix, rhs = broadcast_matrix_batch_dims([matrix, rhs])
        return linalg_ops.matrix_solve(matrix, rhs, adjoint=adjoint)


def matrix_triangular_solve_with_broadcast(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: Optional[str] = None
) -> Any:
    """As `matrix_triangular_solve`, for batches that broadcast."""
    with ops.name_scope(name, "MatrixTriangularSolve", [matrix, rhs]):
        matrix, rhs = broadcast_matrix_batch_dims([matrix, rhs])
        return linalg_ops.matrix_triangular_solve(matrix, rhs, lower=lower, adjoint=adjoint)


def use_operator_or_provided_hint_unless_contradicting(
    operator: Any, hint_attr_name: str, provided_hint_value: Any, message: str
) -> Any:
    """Returns the hint of an operator or the one given; ValueError when they contradict each other."""
    check_operator(operator)
    op_hint = getattr(operator, hint_attr_name)
    if (op_hint is False and provided_hint_value) or (op_hint and provided_hint_value is False):
        raise ValueError(message)
    if op_hint or provided_hint_value:
        return True
    if op_hint is False or provided_hint_value is False:
        return False
    return None


def all_hints(operators: Any, attribute: str) -> Any:
    """True when a hint is True of all operators, else None."""
    return True if all(getattr(operator, attribute) for operator in operators) else None


def check_operator(operator: Any) -> Any:
    """The operator; TypeError for other objects."""
    if not hasattr(operator, "is_non_singular") or not hasattr(operator, "dtype"):
        raise TypeError("Expected a LinearOperator, got %r of type %s." % (operator, type(operator).__name__))
    return operator


def check_operators(operators: Any) -> Any:
    """Returns the type of operators; ValueError or TypeError if there are none or types differ."""
    if not operators:
        raise ValueError("Expected a non-empty list of operators. Found: %s" % operators)
    dtype = check_operator(operators[0]).dtype
    for operator in operators:
        if check_operator(operator).dtype != dtype:
            name_type = (str((o.name, o.dtype)) for o in operators)
            raise TypeError(
                "Expected all operators to have the same dtype.  Found %s" % "   ".join(name_type)
            )
    return dtype


def number_of(dimension: Any) -> Any:
    """A dimension as a number, or None."""
    return tensor_shape.dimension_value(dimension)


def constant(value: Any, dtype: Any) -> Any:
    """A constant."""
    return constant_op.constant(value, dtype=dtype)
