# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Operators changed by a product of low rank."""
from __future__ import annotations

from typing import Any


from millrace.python.framework import ops, tensor_shape
from millrace.python.ops import array_ops, linalg_ops, math_ops
from millrace.python.ops.linalg import linalg_impl as linalg
from millrace.python.ops.linalg import (
    linear_operator,
    linear_operator_diag,
    linear_operator_identity,
    linear_operator_util,
)

__all__ = ["LinearOperatorLowRankUpdate"]


class LinearOperatorLowRankUpdate(linear_operator.LinearOperator):
    """L + U D V^H.

    Args:
      base_operator: L, [..., m, n].
      u: U, [..., m, k].
      diag_update: the diagonal of D, [..., k]; ones by default.
      v: V, [..., n, k]; U by default.
      is_diag_update_positive: whether the diagonal is known to be positive.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: the hints of LinearOperator.
      name: of the operator.
    """

    def __init__(
        self,
        base_operator: Any,
        u: Any,
        diag_update: Any = None,
        v: Any = None,
        is_diag_update_positive: Any = None,
        is_non_singular: Any = None,
        is_self_adjoint: Any = None,
        is_positive_definite: Any = None,
        is_square: Any = None,
        name: str = "LinearOperatorLowRankUpdate",
    ) -> None:
        dtype = linear_operator_util.check_operator(base_operator).dtype
        if diag_update is not None and is_diag_update_positive and dtype.is_complex:
            from millrace.python.platform import tf_logging as logging

            logging.warn(
                "Note: setting is_diag_update_positive with a complex dtype means that diagonal is real and positive."
            )
        if diag_update is None:
            if is_diag_update_positive is False:
                raise ValueError(
                    "Default diagonal is the identity, which is positive.  However, user set 'is_diag_update_positive' to False."
                )
            is_diag_update_positive = True
        self._use_cholesky = bool(
            base_operator.is_positive_definite
            and base_operator.is_self_adjoint
            and is_diag_update_positive
            and v is None
        )
        if base_operator.is_self_adjoint and v is None and not dtype.is_complex:
            if is_self_adjoint is False:
                raise ValueError(
                    "A = L + UDU^H, with L self-adjoint and D real diagonal.  Since this implies A is self-adjoint, 'is_self_adjoint' cannot be False."
                )
            is_self_adjoint = True
        if base_operator.is_positive_definite and is_diag_update_positive and v is None:
            if is_positive_definite is False:
                raise ValueError(
                    "Arguments imply L + UDU^H is positive-definite, so 'is_positive_definite' cannot be False."
                )
            is_positive_definite = True
        values = base_operator.graph_parents + [u, diag_update, v]
        with ops.name_scope(name, values=values):
            self._u = ops.convert_to_tensor(u, name="u")
            self._v = self._u if v is None else ops.convert_to_tensor(v, name="v")
            if diag_update is None:
                self._diag_update: Any = None
            else:
                self._diag_update = ops.convert_to_tensor(diag_update, name="diag_update")
            self._base_operator = base_operator
            super().__init__(
                dtype=self._base_operator.dtype,
                graph_parents=base_operator.graph_parents
                + [t for t in (self._u, self._diag_update, self._v) if t is not None],
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=is_square,
                name=name,
            )
            self._set_diag_operators(diag_update, is_diag_update_positive)
            self._is_diag_update_positive = is_diag_update_positive
            self._check_shapes()

    def _check_shapes(self) -> None:
        uv_shape = array_ops.broadcast_static_shape(self.u.shape, self.v.shape)
        batch_shape = array_ops.broadcast_static_shape(self.base_operator.batch_shape, uv_shape[:-2])
        tensor_shape.Dimension(self.base_operator.domain_dimension).assert_is_compatible_with(uv_shape[-2])
        if self._diag_update is not None:
            tensor_shape.dimension_at_index(uv_shape, -1).assert_is_compatible_with(
                self._diag_update.shape[-1]
            )
            array_ops.broadcast_static_shape(batch_shape, self._diag_update.shape[:-1])

    def _set_diag_operators(self, diag_update: Any, is_diag_update_positive: Any) -> None:
        if diag_update is not None:
            self._diag_operator: Any = linear_operator_diag.LinearOperatorDiag(
                self._diag_update, is_positive_definite=is_diag_update_positive
            )
            self._diag_inv_operator: Any = linear_operator_diag.LinearOperatorDiag(
                1.0 / self._diag_update, is_positive_definite=is_diag_update_positive
            )
            return
        rank = tensor_shape.dimension_value(self.u.shape[-1])
        if rank is None:
            rank = array_ops.shape(self.u)[-1]
        self._diag_operator = linear_operator_identity.LinearOperatorIdentity(num_rows=rank, dtype=self.dtype)
        self._diag_inv_operator = self._diag_operator

    @property
    def u(self) -> Any:
        """U."""
        return self._u

    @property
    def v(self) -> Any:
        """V."""
        return self._v

    @property
    def is_diag_update_positive(self) -> Any:
        """Whether the diagonal of D is known to be positive."""
        return self._is_diag_update_positive

    @property
    def diag_update(self) -> Any:
        """The diagonal of D, or None."""
        return self._diag_update

    @property
    def diag_operator(self) -> Any:
        """D."""
        return self._diag_operator

    @property
    def base_operator(self) -> Any:
        """L."""
        return self._base_operator

    def _shape(self) -> Any:
        batch_shape = array_ops.broadcast_static_shape(
            self.base_operator.batch_shape, self.diag_operator.batch_shape
        )
        batch_shape = array_ops.broadcast_static_shape(batch_shape, self.u.shape[:-2])
        batch_shape = array_ops.broadcast_static_shape(batch_shape, self.v.shape[:-2])
        return batch_shape.concatenate(self.base_operator.shape[-2:])

    def _shape_tensor(self) -> Any:
        batch = array_ops.broadcast_dynamic_shape(
            self.base_operator.batch_shape_tensor(), self.diag_operator.batch_shape_tensor()
        )
        batch = array_ops.broadcast_dynamic_shape(batch, array_ops.shape(self.u)[:-2])
        batch = array_ops.broadcast_dynamic_shape(batch, array_ops.shape(self.v)[:-2])
        return array_ops.concat([batch, self.base_operator.shape_tensor()[-2:]], axis=0)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        left, right = (self.v, self.u) if adjoint else (self.u, self.v)
        base_x = self.base_operator.matmul(x, adjoint=adjoint, adjoint_arg=adjoint_arg)
        right_x = math_ops.matmul(right, x, adjoint_a=True, adjoint_b=adjoint_arg)
        return base_x + math_ops.matmul(left, self.diag_operator.matmul(right_x, adjoint=adjoint))

    def _determinant(self) -> Any:
        if self.is_positive_definite:
            return math_ops.exp(self.log_abs_determinant())
        det_c = linalg_ops.matrix_determinant(self._make_capacitance())
        return det_c * self.diag_operator.determinant() * self.base_operator.determinant()

    def _log_abs_determinant(self) -> Any:
        log_abs_det_d = self.diag_operator.log_abs_determinant()
        log_abs_det_l = self.base_operator.log_abs_determinant()
        if self._use_cholesky:
            diag = array_ops.matrix_diag_part(linalg_ops.cholesky(self._make_capacitance()))
            log_abs_det_c = 2 * math_ops.reduce_sum(math_ops.log(diag), axis=[-1])
        else:
            log_abs_det_c = math_ops.log(
                math_ops.abs(linalg_ops.matrix_determinant(self._make_capacitance()))
            )
            if self.dtype.is_complex:
                log_abs_det_c = math_ops.cast(log_abs_det_c, dtype=self.dtype)
        return log_abs_det_c + log_abs_det_d + log_abs_det_l

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        """By the formula of Woodbury: L^-1 rhs - L^-1 U C^-1 V^H L^-1 rhs, C = D^-1 + V^H L^-1 U."""
        left, right = (self.u, self.v) if not adjoint else (self.v, self.u)
        linv_rhs = self.base_operator.solve(rhs, adjoint=adjoint, adjoint_arg=adjoint_arg)
        vh_linv_rhs = math_ops.matmul(right, linv_rhs, adjoint_a=True)
        if self._use_cholesky:
            capinv = linear_operator_util.cholesky_solve_with_broadcast(
                linalg_ops.cholesky(self._make_capacitance()), vh_linv_rhs
            )
        else:
            capinv = linear_operator_util.matrix_solve_with_broadcast(
                self._make_capacitance(), vh_linv_rhs, adjoint=adjoint
            )
        u_capinv = math_ops.matmul(left, capinv)
        return linv_rhs - self.base_operator.solve(u_capinv, adjoint=adjoint)

    def _make_capacitance(self) -> Any:
        linv_u = self.base_operator.solve(self.u)
        return self._diag_inv_operator.add_to_tensor(math_ops.matmul(self.v, linv_u, adjoint_a=True))

    def _trace(self) -> Any:
        dense = self.diag_operator.matmul(linalg.adjoint(self.v))
        return self.base_operator.trace() + math_ops.reduce_sum(
            self.u * array_ops.matrix_transpose(dense), [-2, -1]
        )
