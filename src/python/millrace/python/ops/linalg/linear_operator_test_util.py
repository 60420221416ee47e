# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Utilities for tests of linear operators: random matrices, comparisons of operators and matrices."""
from __future__ import annotations

import itertools
from typing import Any, Callable

import numpy as np

from millrace.python.framework import dtypes, ops, random_seed, tensor_shape, test_util
from millrace.python.ops import array_ops, linalg_ops, math_ops, random_ops
from millrace.python.ops.linalg import linalg_impl as linalg
from millrace.python.ops.linalg import linear_operator_util
from millrace.python.platform import test


class OperatorShapesInfo:
    """The shape of an operator, and whatever else a test needs as attributes."""

    def __init__(self, shape: Any, **kwargs: Any) -> None:
        self.shape = shape
        self.__dict__.update(kwargs)


OperatorBuildInfo = OperatorShapesInfo


class CheckTapeSafeSkipOptions:
    """The parts that `check_tape_safe` skips."""

    DETERMINANT = "determinant"
    DIAG_PART = "diag_part"
    LOG_ABS_DETERMINANT = "log_abs_determinant"
    TRACE = "trace"


class LinearOperatorDerivedClassTest(test.TestCase):  # type: ignore[misc]
    """Base of tests of a class of operators: subclasses define `operator_and_matrix`, `make_rhs` and `make_x`."""

    _atol = {
        dtypes.float16: 1e-3,
        dtypes.float32: 1e-6,
        dtypes.float64: 1e-12,
        dtypes.complex64: 1e-6,
        dtypes.complex128: 1e-12,
    }
    _rtol = dict(_atol)

    def assertAC(self, x: Any, y: Any, check_dtype: bool = False) -> None:  # noqa: N802
        """Fails unless two arrays are close, by the tolerances of their type."""
        dtype = dtypes.as_dtype(x.dtype)
        self.assertAllClose(x, y, atol=self._atol[dtype], rtol=self._rtol[dtype])
        if check_dtype:
            self.assertDTypeEqual(x, y.dtype)

    @staticmethod
    def adjoint_options() -> list[bool]:
        """Whether the adjoint is applied."""
        return [False, True]

    @staticmethod
    def adjoint_arg_options() -> list[bool]:
        """Whether the adjoint of the argument is taken."""
        return [False, True]

    @staticmethod
    def dtypes_to_test() -> list[Any]:
        """The types."""
        return [dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128]

    @staticmethod
    def use_placeholder_options() -> list[bool]:
        """Whether shapes are unknown while the graph is made."""
        return [False, True]

    @staticmethod
    def operator_build_infos() -> Any:
        """The shapes, OperatorShapesInfo; the older name."""
        raise NotImplementedError("operator_shapes_infos has not been implemented.")

    @classmethod
    def operator_shapes_infos(cls) -> Any:
        """The shapes, OperatorShapesInfo."""
        return cls.operator_build_infos()

    @staticmethod
    def skip_these_tests() -> list[str]:
        """Names of tests that do not fit the class."""
        return []

    def operator_and_matrix(
        self, shapes_info: Any, dtype: Any, use_placeholder: bool, ensure_self_adjoint_and_pd: bool = False
    ) -> Any:
        """Returns (operator, its dense matrix)."""
        raise NotImplementedError("Not implemented yet.")

    def make_rhs(self, operator: Any, adjoint: bool, with_batch: bool = True) -> Any:
        """Returns a right side for `solve`."""
        raise NotImplementedError("make_rhs is not defined.")

    def make_x(self, operator: Any, adjoint: bool, with_batch: bool = True) -> Any:
        """Returns an argument for `matmul`."""
        raise NotImplementedError("make_x is not defined.")

    def check_tape_safe(self, operator: Any, skip_options: Any = None) -> None:
        """Fails unless there is a gradient of each function of the operator to its variables."""
        from millrace.python.ops import gradients_impl

        skip = skip_options or []
        self.assertTrue(operator.trainable_variables, "Operator has no trainable variables.")
        for option, function in (
            (CheckTapeSafeSkipOptions.DETERMINANT, operator.determinant),
            (CheckTapeSafeSkipOptions.LOG_ABS_DETERMINANT, operator.log_abs_determinant),
            (CheckTapeSafeSkipOptions.DIAG_PART, operator.diag_part),
            (CheckTapeSafeSkipOptions.TRACE, operator.trace),
            ("to_dense", operator.to_dense),
        ):
            if option not in skip:
                for grad in gradients_impl.gradients(function(), list(operator.trainable_variables)):
                    self.assertIsNotNone(grad)


def _case(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a test of a function of (test, session, operator, matrix, adjoint, adjoint_arg)."""

    def make(
        use_placeholder: bool,
        shapes_info: Any,
        dtype: Any,
        adjoint: bool = False,
        adjoint_arg: bool = False,
        **kwargs: Any,
    ) -> Any:
        def run(self: Any) -> None:
            with self.session(graph=ops.Graph()) as sess:
                sess.graph.seed = random_seed.DEFAULT_GRAPH_SEED
                operator, mat = self.operator_and_matrix(
                    shapes_info, dtype, use_placeholder=use_placeholder, **kwargs
                )
                function(self, sess, operator, mat, adjoint, adjoint_arg, use_placeholder, shapes_info)

        return run

    return make


def _compare(self: Any, sess: Any, got: Any, want: Any, use_placeholder: bool) -> None:
    if not use_placeholder:
        self.assertAllEqual(got.get_shape(), want.get_shape())
    self.assertAC(*sess.run([got, want]))


def _test_to_dense(self: Any, sess: Any, operator: Any, mat: Any, *rest: Any) -> None:
    if not rest[2]:
        self.assertAllEqual(rest[3].shape, operator.to_dense().get_shape())
    self.assertAC(*sess.run([operator.to_dense(), mat]))


def _test_det(self: Any, sess: Any, operator: Any, mat: Any, *rest: Any) -> None:
    op_det = operator.determinant()
    if not rest[2]:
        self.assertAllEqual(rest[3].shape[:-2], op_det.get_shape())
    self.assertAC(*sess.run([op_det, linalg_ops.matrix_determinant(mat)]))


def _test_log_abs_det(self: Any, sess: Any, operator: Any, mat: Any, *rest: Any) -> None:
    op_log_abs_det = operator.log_abs_determinant()
    _, mat_log_abs_det = linalg.slogdet(mat)
    if not rest[2]:
        self.assertAllEqual(rest[3].shape[:-2], op_log_abs_det.get_shape())
    self.assertAC(*sess.run([op_log_abs_det, mat_log_abs_det]))


def _apply(method: str, with_batch: bool) -> Callable[..., None]:
    def check(
        self: Any,
        sess: Any,
        operator: Any,
        mat: Any,
        adjoint: bool,
        adjoint_arg: bool,
        use_placeholder: bool,
        shapes_info: Any,
    ) -> None:
        if not with_batch and len(shapes_info.shape) <= 2:
            return  # nothing to broadcast
        make = self.make_x if method == "matmul" else self.make_rhs
        x = make(operator, adjoint=adjoint, with_batch=with_batch)
        arg = linalg.adjoint(x) if adjoint_arg else x
        got = getattr(operator, method)(arg, adjoint=adjoint, adjoint_arg=adjoint_arg)
        if method == "matmul":
            want = math_ops.matmul(mat, x, adjoint_a=adjoint)
        else:
            want = linear_operator_util.matrix_solve_with_broadcast(mat, x, adjoint=adjoint)
        _compare(self, sess, got, want, use_placeholder)

    return check


def _test_trace(self: Any, sess: Any, operator: Any, mat: Any, *rest: Any) -> None:
    _compare(self, sess, operator.trace(), math_ops.trace(mat), rest[2])


def _test_add_to_tensor(self: Any, sess: Any, operator: Any, mat: Any, *rest: Any) -> None:
    got = operator.add_to_tensor(2 * mat)
    if not rest[2]:
        self.assertAllEqual(rest[3].shape, got.get_shape())
    self.assertAC(*sess.run([got, 3 * mat]))


def _test_diag_part(self: Any, sess: Any, operator: Any, mat: Any, *rest: Any) -> None:
    _compare(self, sess, operator.diag_part(), array_ops.matrix_diag_part(mat), rest[2])


def _test_inverse(self: Any, sess: Any, operator: Any, mat: Any, *rest: Any) -> None:
    got, want = sess.run([operator.inverse().to_dense(), linalg.inv(mat)])
    self.assertAC(got, want, check_dtype=True)


def _test_cholesky(self: Any, sess: Any, operator: Any, mat: Any, *rest: Any) -> None:
    got, want = sess.run([operator.cholesky().to_dense(), linalg_ops.cholesky(mat)])
    self.assertAC(got, want, check_dtype=True)


_TESTS: dict[str, Any] = {
    "add_to_tensor": _test_add_to_tensor,
    "cholesky": _test_cholesky,
    "det": _test_det,
    "diag_part": _test_diag_part,
    "inverse": _test_inverse,
    "log_abs_det": _test_log_abs_det,
    "matmul": _apply("matmul", True),
    "matmul_with_broadcast": _apply("matmul", False),
    "solve": _apply("solve", True),
    "solve_with_broadcast": _apply("solve", False),
    "to_dense": _test_to_dense,
    "trace": _test_trace,
}


def add_tests(test_cls: Any) -> None:
    """Adds a test for each function, type and shape to a class; RuntimeError when one exists already."""
    for name, function in _TESTS.items():
        if name in test_cls.skip_these_tests():
            continue
        takes_adjoints = name.split("_")[0] in ("matmul", "solve")
        kwargs = {"ensure_self_adjoint_and_pd": True} if name == "cholesky" else {}
        for dtype, use_placeholder, info in itertools.product(
            test_cls.dtypes_to_test(), test_cls.use_placeholder_options(), test_cls.operator_shapes_infos()
        ):
            base = "test_%s_shape=%s,dtype=%s,use_placeholder=%s" % (name, info.shape, dtype, use_placeholder)
            options = (
                itertools.product(test_cls.adjoint_options(), test_cls.adjoint_arg_options())
                if takes_adjoints
                else [(False, False)]
            )
            for adjoint, adjoint_arg in options:
                test_name = base + (
                    ",adjoint=%s,adjoint_arg=%s" % (adjoint, adjoint_arg) if takes_adjoints else ""
                )
                if hasattr(test_cls, test_name):
                    raise RuntimeError("Test %s defined more than once" % test_name)
                case = _case(function)(use_placeholder, info, dtype, adjoint, adjoint_arg, **kwargs)
                setattr(test_cls, test_name, test_util.run_deprecated_v1(case))


def _random_argument(operator: Any, rows: Any, columns: int, with_batch: bool) -> Any:
    if operator.shape.is_fully_defined():
        batch = operator.batch_shape.as_list() if with_batch else []
        return random_normal(batch + [tensor_shape.dimension_value(rows[0]), columns], dtype=operator.dtype)
    sizes = array_ops.stack([rows[1](), columns])
    shape = array_ops.concat((operator.batch_shape_tensor(), sizes), 0) if with_batch else sizes
    return random_normal(shape, dtype=operator.dtype)


class SquareLinearOperatorDerivedClassTest(LinearOperatorDerivedClassTest):
    """Base of tests of operators that are square."""

    @staticmethod
    def operator_build_infos() -> Any:
        info = OperatorShapesInfo
        return [info((0, 0)), info((1, 1)), info((1, 3, 3)), info((3, 4, 4)), info((2, 1, 4, 4))]

    def make_rhs(self, operator: Any, adjoint: bool, with_batch: bool = True) -> Any:
        return self.make_x(operator, adjoint=not adjoint, with_batch=with_batch)

    def make_x(self, operator: Any, adjoint: bool, with_batch: bool = True) -> Any:
        return _random_argument(
            operator, (operator.domain_dimension, operator.domain_dimension_tensor), 2, with_batch
        )


class NonSquareLinearOperatorDerivedClassTest(LinearOperatorDerivedClassTest):
    """Base of tests of operators that are not square."""

    @staticmethod
    def skip_these_tests() -> list[str]:
        return ["cholesky", "inverse", "solve", "solve_with_broadcast", "det", "log_abs_det"]

    @staticmethod
    def operator_build_infos() -> Any:
        info = OperatorShapesInfo
        return [info((2, 1)), info((1, 2)), info((1, 3, 2)), info((3, 3, 4)), info((2, 1, 2, 4))]

    def make_rhs(self, operator: Any, adjoint: bool, with_batch: bool = True) -> Any:
        raise NotImplementedError("make_rhs not implemented because we don't test solve")

    def make_x(self, operator: Any, adjoint: bool, with_batch: bool = True) -> Any:
        if adjoint:
            rows = (operator.range_dimension, operator.range_dimension_tensor)
        else:
            rows = (operator.domain_dimension, operator.domain_dimension_tensor)
        return _random_argument(operator, rows, 2, with_batch)


def random_positive_definite_matrix(shape: Any, dtype: Any, force_well_conditioned: bool = False) -> Any:
    """Returns random self-adjoint and positive definite matrices [..., n, n]."""
    dtype = dtypes.as_dtype(dtype)
    shape = shape.as_list() if isinstance(shape, tensor_shape.TensorShape) else shape
    tril = random_tril_matrix(shape, dtype, force_well_conditioned=force_well_conditioned)
    return math_ops.matmul(tril, tril, adjoint_b=True)


def random_tril_matrix(
    shape: Any, dtype: Any, force_well_conditioned: bool = False, remove_upper: bool = True
) -> Any:
    """Returns random lower triangular matrices; well-conditioned ones have diagonals in [2, 4]."""
    with ops.name_scope("random_tril_matrix"):
        tril = random_normal(shape, dtype=dtype)
        if remove_upper:
            tril = array_ops.matrix_band_part(tril, -1, 0)
        if force_well_conditioned:
            maxval = ops.convert_to_tensor(np.sqrt(2.0), dtype=dtypes.as_dtype(dtype).real_dtype)
            diag = random_sign_uniform(shape[:-1], dtype=dtype, minval=1.0, maxval=maxval)
            tril = array_ops.matrix_set_diag(tril / (1.5 * np.sqrt(max(int(shape[-1]), 1))), diag)
        return tril


def random_normal(
    shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = dtypes.float32, seed: Any = None
) -> Any:
    """Returns normal numbers, real or complex."""
    dtype = dtypes.as_dtype(dtype)
    with ops.name_scope("random_normal"):
        samples = random_ops.random_normal(shape, mean=mean, stddev=stddev, dtype=dtype.real_dtype, seed=seed)
        if not dtype.is_complex:
            return samples
        seed = seed if seed is None else seed + 1234
        more = random_ops.random_normal(shape, mean=mean, stddev=stddev, dtype=dtype.real_dtype, seed=seed)
        return math_ops.complex(samples, more)


def random_uniform(
    shape: Any, minval: Any = None, maxval: Any = None, dtype: Any = dtypes.float32, seed: Any = None
) -> Any:
    """Returns uniform numbers, real or complex."""
    dtype = dtypes.as_dtype(dtype)
    minval = 0 if minval is None else minval
    with ops.name_scope("random_uniform"):
        samples = random_ops.random_uniform(
            shape, dtype=dtype.real_dtype, minval=minval, maxval=maxval, seed=seed
        )
        if not dtype.is_complex:
            return samples
        seed = seed if seed is None else seed + 12345
        more = random_ops.random_uniform(
            shape, dtype=dtype.real_dtype, minval=minval, maxval=maxval, seed=seed
        )
        return math_ops.complex(samples, more)


def random_sign_uniform(
    shape: Any, minval: Any = None, maxval: Any = None, dtype: Any = dtypes.float32, seed: Any = None
) -> Any:
    """Returns uniform numbers with random signs."""
    dtype = dtypes.as_dtype(dtype)
    with ops.name_scope("random_sign_uniform"):
        unsigned = random_uniform(shape, minval=minval, maxval=maxval, dtype=dtype, seed=seed)
        seed = seed if seed is None else seed + 12
        signs = math_ops.sign(random_ops.random_uniform(shape, minval=-1.0, maxval=1.0, seed=seed))
        return unsigned * math_ops.cast(signs, unsigned.dtype)


def random_normal_correlated_columns(
    shape: Any,
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: Any = dtypes.float32,
    eps: float = 1e-4,
    seed: Any = None,
) -> Any:
    """Returns normal matrices [..., m, n] whose last columns are nearly those before; ValueError for fewer than two."""
    dtype = dtypes.as_dtype(dtype)
    if len(shape) < 2:
        raise ValueError("Argument shape must be at least length 2.  Found: %s" % (shape,))
    shape = list(shape)
    if shape[-1] < 2:
        return random_normal(shape, mean=mean, stddev=stddev, dtype=dtype, seed=seed)
    half = shape[-1] // 2
    first = random_normal(shape[:-1] + [half], mean=mean, stddev=stddev, dtype=dtype, seed=seed)
    second = first + random_normal(shape[:-1] + [half], stddev=eps, dtype=dtype, seed=1234)
    parts = [first, second]
    if half * 2 < shape[-1]:
        parts.append(random_normal(shape[:-1] + [1], mean=mean, stddev=stddev, dtype=dtype, seed=4321))
    return array_ops.concat(parts, axis=-1)
