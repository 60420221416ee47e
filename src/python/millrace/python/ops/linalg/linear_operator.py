# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The base of linear operators: (batches of) matrices that need not be stored as such."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Optional

import numpy as np

from millrace.python.framework import dtypes, ops, tensor_shape, tensor_util
from millrace.python.module import module
from millrace.python.ops import array_ops, check_ops, linalg_ops, math_ops
from millrace.python.ops.linalg import linalg_impl as linalg
from millrace.python.ops.linalg import linear_operator_algebra, linear_operator_util
from millrace.python.platform import tf_logging as logging

__all__ = ["LinearOperator"]


class LinearOperator(module.Module):  # type: ignore[misc]
    """A linear operator: (a batch of) matrices [..., m, n] defined by their products and solutions.

    Subclasses define `_shape`, `_shape_tensor` and `_matmul`, and override methods for which a dense matrix
    is slower.

    Args:
      dtype: type of the elements.
      graph_parents: the tensors that it is made of.
      is_non_singular: whether it can be inverted; None: not known.
      is_self_adjoint: whether it is its own adjoint.
      is_positive_definite: whether x^H A x > 0 for all x but 0.
      is_square: whether m = n.
      name: of the operator.

    Raises:
      ValueError: the hints contradict each other.
    """

    def __init__(
        self,
        dtype: Any,
        graph_parents: Any = None,
        is_non_singular: Any = None,
        is_self_adjoint: Any = None,
        is_positive_definite: Any = None,
        is_square: Any = None,
        name: Optional[str] = None,
    ) -> None:
        if is_positive_definite:
            if is_non_singular is False:
                raise ValueError("A positive definite matrix is always non-singular.")
            is_non_singular = True
        if is_non_singular:
            if is_square is False:
                raise ValueError("A non-singular matrix is always square.")
            is_square = True
        if is_self_adjoint:
            if is_square is False:
                raise ValueError("A self-adjoint matrix is always square.")
            is_square = True
        self._is_square_set_or_implied_by_hints = is_square
        graph_parents = [] if graph_parents is None else graph_parents
        for i, t in enumerate(graph_parents):
            if t is None or not tensor_util.is_tensor(t):
                raise ValueError("Graph parent item %d is not a Tensor; %s." % (i, t))
        self._dtype = dtypes.as_dtype(dtype).base_dtype if dtype else dtype
        self._graph_parents = graph_parents
        self._is_non_singular = is_non_singular
        self._is_self_adjoint = is_self_adjoint
        self._is_positive_definite = is_positive_definite
        self._linop_name = name or type(self).__name__
        self._scope_name = self._linop_name + "/"

    @contextlib.contextmanager
    def _name_scope(self, name: Optional[str] = None, values: Any = None) -> Iterator[str]:
        del values
        with ops.name_scope(self.name), ops.name_scope(name) as scope:
            yield scope

    # --- Known properties

    @property
    def name(self) -> str:
        """The name of the operator."""
        return self._linop_name

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self._dtype

    @property
    def graph_parents(self) -> Any:
        """The tensors that it is made of."""
        return self._graph_parents

    @property
    def is_non_singular(self) -> Any:
        """Whether it can be inverted; None: not known."""
        return self._is_non_singular

    @property
    def is_self_adjoint(self) -> Any:
        """Whether it is its own adjoint; None: not known."""
        return self._is_self_adjoint

    @property
    def is_positive_definite(self) -> Any:
        """Whether it is positive definite; None: not known."""
        return self._is_positive_definite

    @property
    def is_square(self) -> Any:
        """Whether it has as many rows as columns; None: not known."""
        auto_square_check = self.domain_dimension == self.range_dimension
        if self._is_square_set_or_implied_by_hints is False and auto_square_check:
            raise ValueError("User set is_square hint to False, but the operator was square.")
        if self._is_square_set_or_implied_by_hints is None:
            return auto_square_check
        return self._is_square_set_or_implied_by_hints

    def _shape(self) -> Any:
        raise NotImplementedError("_shape is not implemented.")

    def _shape_tensor(self) -> Any:
        raise NotImplementedError("_shape_tensor is not implemented.")

    @property
    def shape(self) -> Any:
        """The shape [..., m, n]."""
        return self._shape()

    def shape_tensor(self, name: str = "shape_tensor") -> Any:
        """Returns the shape, an int32 vector."""
        with self._name_scope(name):
            if self.shape.is_fully_defined():
                return linear_operator_util.shape_tensor(self.shape.as_list())
            return self._shape_tensor()

    @property
    def batch_shape(self) -> Any:
        """The leading axes."""
        return self.shape[:-2]

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Any:
        """Returns the leading axes, an int32 vector."""
        with self._name_scope(name):
            if self.batch_shape.is_fully_defined():
                return linear_operator_util.shape_tensor(self.batch_shape.as_list(), name="batch_shape")
            return self.shape_tensor()[:-2]

    @property
    def tensor_rank(self) -> Any:
        """The number of axes, a Dimension."""
        with self._name_scope("tensor_rank"):
            return self.shape.ndims

    def tensor_rank_tensor(self, name: str = "tensor_rank_tensor") -> Any:
        """Returns the number of axes, an int32 scalar."""
        with self._name_scope(name):
            if self.tensor_rank is not None:
                return ops.convert_to_tensor(self.tensor_rank)
            return array_ops.size(self.shape_tensor())

    @property
    def domain_dimension(self) -> Any:
        """The number of columns."""
        return self.shape[-1] if self.shape.ndims is not None else tensor_shape.Dimension(None)

    def domain_dimension_tensor(self, name: str = "domain_dimension_tensor") -> Any:
        """Returns the number of columns, an int32 scalar."""
        with self._name_scope(name):
            value = tensor_shape.dimension_value(self.domain_dimension)
            return ops.convert_to_tensor(value) if value is not None else self.shape_tensor()[-1]

    @property
    def range_dimension(self) -> Any:
        """The number of rows."""
        return self.shape[-2] if self.shape.ndims is not None else tensor_shape.Dimension(None)

    def range_dimension_tensor(self, name: str = "range_dimension_tensor") -> Any:
        """Returns the number of rows, an int32 scalar."""
        with self._name_scope(name):
            value = tensor_shape.dimension_value(self.range_dimension)
            return ops.convert_to_tensor(value) if value is not None else self.shape_tensor()[-2]

    # --- Assertions

    def assert_non_singular(self, name: str = "assert_non_singular") -> Any:
        """Returns an op that fails for an operator that cannot be inverted."""
        with self._name_scope(name):
            return self._assert_non_singular()

    def _assert_non_singular(self) -> Any:
        logging.warn(
            "Using (possibly slow) default implementation of assert_non_singular."
            "  Requires conversion to a dense matrix and O(N^3) operations."
        )
        if self._can_use_cholesky():
            return self.assert_positive_definite()
        singular_values = linalg_ops.svd(self.to_dense(), compute_uv=False)
        cond = math_ops.reduce_max(singular_values, axis=-1) / math_ops.reduce_min(singular_values, axis=-1)
        return check_ops.assert_less(
            cond,
            self._max_condition_number_to_be_non_singular(),
            message="Singular matrix up to precision epsilon.",
        )

    def _max_condition_number_to_be_non_singular(self) -> Any:
        real = self.dtype.real_dtype
        eps = np.finfo(self.dtype.as_numpy_dtype).eps
        size = math_ops.maximum(self.range_dimension_tensor(), self.domain_dimension_tensor())
        return 1.0 / (
            math_ops.cast(math_ops.maximum(100, size), real) * ops.convert_to_tensor(eps, dtype=real)
        )

    def assert_positive_definite(self, name: str = "assert_positive_definite") -> Any:
        """Returns an op that fails for an operator that is not positive definite."""
        with self._name_scope(name):
            return self._assert_positive_definite()

    def _assert_positive_definite(self) -> Any:
        logging.warn(
            "Using (possibly slow) default implementation of assert_positive_definite."
            "  Requires conversion to a dense matrix and O(N^3) operations."
        )
        # The factor of another matrix does not exist.
        if self.is_self_adjoint:
            return check_ops.assert_positive(
                math_ops.real(array_ops.matrix_diag_part(linalg_ops.cholesky(self.to_dense()))),
                message="Matrix was not positive definite.",
            )
        raise NotImplementedError("assert_positive_definite is not implemented.")

    def assert_self_adjoint(self, name: str = "assert_self_adjoint") -> Any:
        """Returns an op that fails for an operator that is not its own adjoint."""
        with self._name_scope(name):
            return self._assert_self_adjoint()

    def _assert_self_adjoint(self) -> Any:
        dense = self.to_dense()
        logging.warn(
            "Using (possibly slow) default implementation of assert_self_adjoint."
            "  Requires conversion to a dense matrix."
        )
        return check_ops.assert_equal(
            dense, linalg.adjoint(dense), message="Matrix was not equal to its adjoint."
        )

    def _check_input_dtype(self, arg: Any) -> None:
        if arg.dtype.base_dtype != self.dtype:
            raise TypeError(
                "Expected argument to have dtype %s.  Found: %s in tensor %s" % (self.dtype, arg.dtype, arg)
            )

    # --- Products and solutions

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        raise NotImplementedError("_matmul is not implemented.")

    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Any:
        """Returns A x, for a tensor [..., n, r] or another operator.

        Args:
          x: the operand.
          adjoint: whether the adjoint is applied.
          adjoint_arg: whether to the adjoint of `x`.
          name: name scope.

        Raises:
          ValueError: the shapes do not fit.
          TypeError: `x` is of another type.
        """
        if isinstance(x, LinearOperator):
            left_operator = self.adjoint() if adjoint else self
            right_operator = x.adjoint() if adjoint_arg else x
            _check_compatible(left_operator.domain_dimension, right_operator.range_dimension)
            with self._name_scope(name):
                return linear_operator_algebra.matmul(left_operator, right_operator)
        with self._name_scope(name):
            x = ops.convert_to_tensor(x, name="x")
            self._check_input_dtype(x)
            _check_dimensions(self, -2 if adjoint else -1, x, -1 if adjoint_arg else -2)
            return self._matmul(x, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def __matmul__(self, other: Any) -> Any:
        return self.matmul(other)

    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Any:
        """Returns A x for a vector [..., n]."""
        with self._name_scope(name):
            x = ops.convert_to_tensor(x, name="x")
            self._check_input_dtype(x)
            _check_dimensions(self, -2 if adjoint else -1, x, -1)
            return self._matvec(x, adjoint=adjoint)

    def _matvec(self, x: Any, adjoint: bool = False) -> Any:
        return array_ops.squeeze(self.matmul(array_ops.expand_dims(x, axis=-1), adjoint=adjoint), axis=-1)

    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Any:
        """Returns X of A X = rhs, for a tensor [..., m, r] or another operator.

        Raises:
          NotImplementedError: the operator is known to be singular or not square.
        """
        self._check_solvable()
        if isinstance(rhs, LinearOperator):
            left_operator = self.adjoint() if adjoint else self
            right_operator = rhs.adjoint() if adjoint_arg else rhs
            _check_compatible(left_operator.domain_dimension, right_operator.range_dimension)
            with self._name_scope(name):
                return linear_operator_algebra.solve(left_operator, right_operator)
        with self._name_scope(name):
            rhs = ops.convert_to_tensor(rhs, name="rhs")
            self._check_input_dtype(rhs)
            _check_dimensions(self, -1 if adjoint else -2, rhs, -1 if adjoint_arg else -2)
            return self._solve(rhs, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def _check_solvable(self) -> None:
        if self.is_non_singular is False:
            raise NotImplementedError(
                "Exact solve not implemented for an operator that is expected to be singular."
            )
        if self.is_square is False:
            raise NotImplementedError(
                "Exact solve not implemented for an operator that is expected to not be square."
            )

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        rhs = linalg.adjoint(rhs) if adjoint_arg else rhs
        if self._can_use_cholesky():
            return linear_operator_util.cholesky_solve_with_broadcast(
                linalg_ops.cholesky(self.to_dense()), rhs
            )
        return linear_operator_util.matrix_solve_with_broadcast(self.to_dense(), rhs, adjoint=adjoint)

    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Any:
        """Returns x of A x = rhs for a vector [..., m]."""
        with self._name_scope(name):
            rhs = ops.convert_to_tensor(rhs, name="rhs")
            self._check_input_dtype(rhs)
            _check_dimensions(self, -1 if adjoint else -2, rhs, -1)
            return self._solvevec(rhs, adjoint=adjoint)

    def _solvevec(self, rhs: Any, adjoint: bool = False) -> Any:
        return array_ops.squeeze(self.solve(array_ops.expand_dims(rhs, axis=-1), adjoint=adjoint), axis=-1)

    # --- Other operators

    def adjoint(self, name: str = "adjoint") -> Any:
        """Returns the adjoint operator."""
        if self.is_self_adjoint is True:
            return self
        with self._name_scope(name):
            return linear_operator_algebra.adjoint(self)

    @property
    def H(self) -> Any:
        """The adjoint operator."""
        return self.adjoint()

    def inverse(self, name: str = "inverse") -> Any:
        """Returns the inverse operator; ValueError if it is known not to be invertible."""
        if self.is_square is False:
            raise ValueError("Cannot take the Inverse: This operator represents a non square matrix.")
        if self.is_non_singular is False:
            raise ValueError("Cannot take the Inverse: This operator represents a singular matrix.")
        with self._name_scope(name):
            return linear_operator_algebra.inverse(self)

    def cholesky(self, name: str = "cholesky") -> Any:
        """Returns the Cholesky factor; ValueError unless the operator is said to be positive definite and self-adjoint."""
        if not self._can_use_cholesky():
            raise ValueError(
                "Cannot take the Cholesky decomposition: Not a positive definite self adjoint matrix."
            )
        with self._name_scope(name):
            return linear_operator_algebra.cholesky(self)

    def _can_use_cholesky(self) -> bool:
        return bool(self.is_self_adjoint and self.is_positive_definite)

    # --- Numbers

    def determinant(self, name: str = "det") -> Any:
        """Returns the determinants [...]; NotImplementedError for an operator that is not square."""
        if self.is_square is False:
            raise NotImplementedError(
                "Determinant not implemented for an operator that is expected to not be square."
            )
        with self._name_scope(name):
            return self._determinant()

    def _determinant(self) -> Any:
        if self._can_use_cholesky():
            return math_ops.exp(self.log_abs_determinant())
        return linalg_ops.matrix_determinant(self.to_dense())

    def log_abs_determinant(self, name: str = "log_abs_det") -> Any:
        """Returns log|det| [...]; NotImplementedError for an operator that is not square."""
        if self.is_square is False:
            raise NotImplementedError(
                "Determinant not implemented for an operator that is expected to not be square."
            )
        with self._name_scope(name):
            return self._log_abs_determinant()

    def _log_abs_determinant(self) -> Any:
        if self._can_use_cholesky():
            diag = array_ops.matrix_diag_part(linalg_ops.cholesky(self.to_dense()))
            return 2 * math_ops.reduce_sum(math_ops.log(diag), axis=[-1])
        _, log_abs_det = linalg.slogdet(self.to_dense())
        return log_abs_det

    def to_dense(self, name: str = "to_dense") -> Any:
        """Returns the matrices [..., m, n]."""
        with self._name_scope(name):
            return self._to_dense()

    def _to_dense(self) -> Any:
        batch_shape = self.batch_shape if self.batch_shape.is_fully_defined() else self.batch_shape_tensor()
        n = tensor_shape.dimension_value(self.domain_dimension)
        if n is None:
            n = self.domain_dimension_tensor()
        if isinstance(batch_shape, tensor_shape.TensorShape):
            batch_shape = batch_shape.as_list()
        return self.matmul(linalg_ops.eye(num_rows=n, batch_shape=batch_shape, dtype=self.dtype))

    def diag_part(self, name: str = "diag_part") -> Any:
        """Returns the diagonals [..., min(m, n)]."""
        with self._name_scope(name):
            return self._diag_part()

    def _diag_part(self) -> Any:
        return array_ops.matrix_diag_part(self.to_dense())

    def trace(self, name: str = "trace") -> Any:
        """Returns the sums of the diagonals [...]."""
        with self._name_scope(name):
            return self._trace()

    def _trace(self) -> Any:
        return math_ops.reduce_sum(self.diag_part(), axis=-1)

    def add_to_tensor(self, x: Any, name: str = "add_to_tensor") -> Any:
        """Returns A + x for a tensor that broadcasts to the shape of the operator."""
        with self._name_scope(name):
            x = ops.convert_to_tensor(x, name="x")
            self._check_input_dtype(x)
            return self._add_to_tensor(x)

    def _add_to_tensor(self, x: Any) -> Any:
        return self.to_dense() + x


def _check_compatible(left: Any, right: Any) -> None:
    left, right = tensor_shape.dimension_value(left), tensor_shape.dimension_value(right)
    if left is not None and right is not None and left != right:
        raise ValueError(
            "Operators are incompatible. Expected `x` to have dimension {} but got {}.".format(left, right)
        )


def _check_dimensions(operator: Any, own: int, x: Any, its: int) -> None:
    if operator.shape.ndims is not None and x.shape.ndims is not None:
        tensor_shape.dimension_at_index(operator.shape, own).assert_is_compatible_with(
            tensor_shape.dimension_at_index(x.shape, its)
        )
