# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Python's operators on tensors and sparse tensors."""

from __future__ import annotations

from typing import Any, Callable

from millrace.python import _engine
from millrace.python.framework import common_shapes
from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework import sparse_tensor
from millrace.python.ops import gen_math_ops
from millrace.python.ops import gen_sparse_ops
from millrace.python.ops._math_elementwise import _TRUEDIV_TABLE
from millrace.python.ops._math_elementwise import _div_python2
from millrace.python.ops._math_elementwise import _truediv_python3
from millrace.python.ops._math_elementwise import abs as abs_fn
from millrace.python.ops._math_elementwise import cast
from millrace.python.ops._math_elementwise import floordiv
from millrace.python.ops._math_elementwise import pow as pow_fn
from millrace.python.ops._math_products import matmul

_Tensor = ops.Tensor


def _override_binary_operator_helper(
    func: Callable[..., Any], op_name: str, clazz_object: Any = _Tensor
) -> None:
    """Installs `__op__` and `__rop__` that call `func(x, y, name=...)` after converting the other operand."""

    def binary_op_wrapper(x: Any, y: Any) -> Any:
        if isinstance(y, _Tensor) and isinstance(x, _Tensor):
            # Neither operand has to be converted, so there is nothing to put into a scope.
            return func(x, y, name=op_name)
        if ops.executing_eagerly():
            number = _engine.eager_number(y, x.dtype._type_enum)
            if number is not None:
                return func(x, number)
        with ops.name_scope(None, op_name, [x, y]) as name:
            if not isinstance(y, sparse_tensor.SparseTensor):
                try:
                    y = ops.convert_to_tensor(y, preferred_dtype=x.dtype.base_dtype, name="y")
                except TypeError:
                    # The other operand may know how to work with a tensor.
                    if hasattr(type(y), "__r%s__" % op_name):
                        return NotImplemented
                    raise
            return func(x, y, name=name)

    def binary_op_wrapper_sparse(sp_x: Any, y: Any) -> Any:
        with ops.name_scope(None, op_name, [sp_x, y]) as name:
            y = ops.convert_to_tensor(y, dtype=sp_x.dtype.base_dtype, name="y")
            values = func(sp_x.indices, sp_x.values, sp_x.dense_shape, y, name=name)
            return sparse_tensor.SparseTensor(sp_x.indices, values, sp_x.dense_shape)

    def r_binary_op_wrapper(y: Any, x: Any) -> Any:
        if ops.executing_eagerly():
            number = _engine.eager_number(x, y.dtype._type_enum)
            if number is not None:
                return func(number, y)
        with ops.name_scope(None, op_name, [x, y]) as name:
            x = ops.convert_to_tensor(x, dtype=y.dtype.base_dtype, name="x")
            return func(x, y, name=name)

    sparse = clazz_object is sparse_tensor.SparseTensor
    wrapper = binary_op_wrapper_sparse if sparse else binary_op_wrapper
    wrapper.__doc__ = getattr(func, "__doc__", None)
    clazz_object._override_operator("__%s__" % op_name, wrapper)
    if not sparse:
        clazz_object._override_operator("__r%s__" % op_name, r_binary_op_wrapper)


_OverrideBinaryOperatorHelper = _override_binary_operator_helper


def _add_dispatch(x: Any, y: Any, name: str | None = None) -> Any:
    if x.dtype == dtypes.string:
        return gen_math_ops.add(x, y, name=name)
    return gen_math_ops.add_v2(x, y, name=name)


def _mul_dispatch(x: Any, y: Any, name: str | None = None) -> Any:
    if isinstance(y, _Tensor):
        return gen_math_ops.mul(x, y, name=name)
    assert isinstance(y, sparse_tensor.SparseTensor)
    new_vals = gen_sparse_ops.sparse_dense_cwise_mul(y.indices, y.values, y.dense_shape, x, name)
    return sparse_tensor.SparseTensor(y.indices, new_vals, y.dense_shape)


def _sparse_dense_truediv(
    sp_indices: Any, sp_values: Any, sp_shape: Any, y: Any, name: str | None = None
) -> Any:
    """Divides the values of a SparseTensor by a dense tensor, as Python 3 does."""
    with ops.name_scope(name, "truediv", [sp_indices, sp_values, sp_shape, y]) as name:
        sp_values = ops.convert_to_tensor(sp_values, name="sp_values")
        y = ops.convert_to_tensor(y, name="y")
        x_dtype, y_dtype = sp_values.dtype.base_dtype, y.dtype.base_dtype
        if x_dtype != y_dtype:
            raise TypeError("x and y must have the same dtype, got %r != %r" % (x_dtype, y_dtype))
        try:
            dtype = _TRUEDIV_TABLE[x_dtype]
        except KeyError:
            raise TypeError("Invalid dtype %r in __truediv__" % x_dtype) from None
        if dtype is not None:
            sp_values = cast(sp_values, dtype)
            y = cast(y, dtype)
        return gen_sparse_ops.sparse_dense_cwise_div(sp_indices, sp_values, sp_shape, y, name=name)


def _logical_xor(x: Any, y: Any, name: str | None = None) -> Any:
    return gen_math_ops.logical_and(
        gen_math_ops.logical_or(x, y),
        gen_math_ops.logical_not(gen_math_ops.logical_and(x, y)),
        name=name or "LogicalXor",
    )


def _compares_values(value: Any) -> bool:
    """Whether `==` of tensors and variables compares values; otherwise it compares objects."""
    if not ops.Tensor._USE_EQUALITY or not ops.executing_eagerly_outside_functions():
        return False
    graph = getattr(value, "graph", None)
    return graph is None or graph.building_function


def _by_element(fn: Callable[..., Any], x: Any, y: Any, otherwise: bool) -> Any:
    """A comparison; a scalar where the shapes do not fit."""
    x = ops.convert_to_tensor(x)
    y = ops.convert_to_tensor(y, dtype_hint=x.dtype.base_dtype)
    try:
        common_shapes.broadcast_shape(x.shape, y.shape)
    except ValueError:
        return ops.convert_to_tensor(otherwise)
    return fn(x, y)


def tensor_equals(self: Any, other: Any) -> Any:
    """Tensor == other: by element in eager mode after `enable_tensor_equality`, else by identity."""
    if other is None:
        return False
    if _compares_values(self):
        return _by_element(gen_math_ops.equal, self, other, False)
    return self is other


def tensor_not_equals(self: Any, other: Any) -> Any:
    """Tensor != other: the opposite of `tensor_equals`."""
    if other is None:
        return True
    if _compares_values(self):
        return _by_element(gen_math_ops.not_equal, self, other, True)
    return self is not other


def _unary(fn: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda x: fn(x)


def _comparison(fn: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: fn(x, y)


def install() -> None:
    """Installs all operators. Called once, when math_ops is imported."""
    helper = _override_binary_operator_helper
    helper(_add_dispatch, "add")
    helper(gen_math_ops.sub, "sub")
    helper(_mul_dispatch, "mul")
    helper(_div_python2, "div")
    helper(_truediv_python3, "truediv")
    helper(floordiv, "floordiv")
    helper(gen_math_ops.floor_mod, "mod")
    helper(pow_fn, "pow")
    helper(matmul, "matmul")
    helper(gen_math_ops.logical_and, "and")
    helper(gen_math_ops.logical_or, "or")
    helper(_logical_xor, "xor")
    helper(gen_sparse_ops.sparse_dense_cwise_div, "div", sparse_tensor.SparseTensor)
    helper(_sparse_dense_truediv, "truediv", sparse_tensor.SparseTensor)
    helper(gen_sparse_ops.sparse_dense_cwise_mul, "mul", sparse_tensor.SparseTensor)
    override = _Tensor._override_operator
    override("__invert__", _unary(gen_math_ops.logical_not))
    override("__neg__", _unary(gen_math_ops.neg))
    override("__abs__", _unary(abs_fn))
    override("__lt__", _comparison(gen_math_ops.less))
    override("__le__", _comparison(gen_math_ops.less_equal))
    override("__gt__", _comparison(gen_math_ops.greater))
    override("__ge__", _comparison(gen_math_ops.greater_equal))
