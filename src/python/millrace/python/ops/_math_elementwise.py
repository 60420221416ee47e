# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Element-wise math: casts, complex parts, division in its forms, comparisons, powers."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from millrace.python.framework import constant_op
from millrace.python.framework import dtypes
from millrace.python.framework import indexed_slices
from millrace.python.framework import ops
from millrace.python.framework import sparse_tensor
from millrace.python.framework import tensor_util
from millrace.python.ops import array_ops
from millrace.python.ops import gen_math_ops
from millrace.python.ops import gen_nn_ops
from millrace.python.platform import tf_logging as logging
from millrace.python.util import deprecation

# The type in which a quotient of two tensors is computed, by their type; None: the same type.
_TRUEDIV_TABLE = {
    dtypes.uint8: dtypes.float32,
    dtypes.int8: dtypes.float32,
    dtypes.uint16: dtypes.float32,
    dtypes.int16: dtypes.float32,
    dtypes.int32: dtypes.float64,
    dtypes.int64: dtypes.float64,
    dtypes.bfloat16: None,
    dtypes.float16: None,
    dtypes.float32: None,
    dtypes.float64: None,
    dtypes.complex64: None,
    dtypes.complex128: None,
}


def _map_values(fn: Any, x: Any, name: str | None, scope: str) -> Any:
    """`fn` on a tensor, or on the values of a SparseTensor, whose indices stay."""
    if isinstance(x, sparse_tensor.SparseTensor):
        with ops.name_scope(name, scope, [x]) as name:
            return sparse_tensor.SparseTensor(
                indices=x.indices, values=fn(x.values, name=name), dense_shape=x.dense_shape
            )
    return fn(x, name=name)


def argmax(
    input: Any,
    axis: Any = None,
    name: str | None = None,
    dimension: Any = None,
    output_type: Any = dtypes.int64,
) -> Any:
    """Returns the index of the largest element along `axis` (default 0; `dimension` is its old name)."""
    axis = deprecation.deprecated_argument_lookup("axis", axis, "dimension", dimension)
    return argmax_v2(input, axis, output_type, name)


def argmax_v2(input: Any, axis: Any = None, output_type: Any = dtypes.int64, name: str | None = None) -> Any:
    """Returns the index of the largest element along `axis` (default 0)."""
    return gen_math_ops.arg_max(input, 0 if axis is None else axis, name=name, output_type=output_type)


def argmin(
    input: Any,
    axis: Any = None,
    name: str | None = None,
    dimension: Any = None,
    output_type: Any = dtypes.int64,
) -> Any:
    """Returns the index of the smallest element along `axis` (default 0; `dimension` is its old name)."""
    axis = deprecation.deprecated_argument_lookup("axis", axis, "dimension", dimension)
    return argmin_v2(input, axis, output_type, name)


def argmin_v2(input: Any, axis: Any = None, output_type: Any = dtypes.int64, name: str | None = None) -> Any:
    """Returns the index of the smallest element along `axis` (default 0)."""
    return gen_math_ops.arg_min(input, 0 if axis is None else axis, name=name, output_type=output_type)


def abs(x: Any, name: str | None = None) -> Any:
    """Returns the absolute value of each element; of complex numbers the modulus, a real tensor."""
    if isinstance(x, sparse_tensor.SparseTensor):
        return _map_values(abs, x, name, "Abs")
    with ops.name_scope(name, "Abs", [x]) as name:
        x = ops.convert_to_tensor(x, name="x")
        if x.dtype.is_complex:
            return gen_math_ops.complex_abs(x, Tout=x.dtype.real_dtype, name=name)
        return gen_math_ops._abs(x, name=name)


def negative(x: Any, name: str | None = None) -> Any:
    """Returns -x, of a tensor or of the values of a SparseTensor."""
    return _map_values(gen_math_ops.neg, x, name, "Neg")


def sign(x: Any, name: str | None = None) -> Any:
    """Returns -1, 0 or 1 by the sign of each element; for complex numbers x / |x|."""
    return _map_values(gen_math_ops.sign, x, name, "Sign")


def square(x: Any, name: str | None = None) -> Any:
    """Returns the square of each element."""
    return _map_values(gen_math_ops.square, x, name, "Square")


def sqrt(x: Any, name: str | None = None) -> Any:
    """Returns the square root of each element."""
    return _map_values(gen_math_ops.sqrt, x, name, "Sqrt")


def erf(x: Any, name: str | None = None) -> Any:
    """Returns the Gauss error function of each element."""
    return _map_values(gen_math_ops.erf, x, name, "Erf")


def tanh(x: Any, name: str | None = None) -> Any:
    """Returns the hyperbolic tangent of each element."""
    return _map_values(gen_math_ops.tanh, x, name, "Tanh")


class DivideDelegateWithName:
    """Divides with Python's operators, giving the ops a name."""

    def __init__(self, x: Any, name: str | None) -> None:
        self.x = x
        self.name = name

    def __truediv__(self, y: Any) -> Any:
        return _truediv_python3(self.x, y, self.name)

    def __floordiv__(self, y: Any) -> Any:
        return floordiv(self.x, y, self.name)

    def __div__(self, y: Any) -> Any:
        return _div_python2(self.x, y, self.name)


def divide(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns `x / y` as Python's operator does it."""
    if name is not None:
        return DivideDelegateWithName(x, name) / y
    if not tensor_util.is_tensor(x):
        dtype = y.dtype.base_dtype if tensor_util.is_tensor(y) else None
        x = ops.convert_to_tensor(x, dtype=dtype)
    return x / y


def multiply(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns x * y element-wise, with broadcasting."""
    return gen_math_ops.mul(x, y, name)


def subtract(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns x - y element-wise, with broadcasting."""
    return gen_math_ops.sub(x, y, name)


def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """Returns `scalar * x` for a tensor or IndexedSlices; ValueError if `scalar` is not a scalar."""
    x = x if isinstance(x, indexed_slices.IndexedSlices) else ops.convert_to_tensor(x, name="x")
    scalar = ops.convert_to_tensor(scalar, dtype=x.dtype.base_dtype, name="scalar")
    shape = scalar.get_shape()
    if shape.ndims == 0:
        if isinstance(x, indexed_slices.IndexedSlices):
            return indexed_slices.IndexedSlices(
                gen_math_ops.mul(scalar, x.values, name), x.indices, x.dense_shape
            )
        return gen_math_ops.mul(scalar, x, name)
    raise ValueError("Only scalar multiply works, got shape %s" % shape)


scalar_mul_v2 = scalar_mul


def pow(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns x to the power of y element-wise, with broadcasting."""
    with ops.name_scope(name, "Pow", [x]) as name:
        return gen_math_ops._pow(x, y, name=name)


def complex(real: Any, imag: Any, name: str | None = None) -> Any:
    """Returns the complex tensor real + i imag; TypeError unless both are float32 or both float64."""
    real = ops.convert_to_tensor(real, name="real")
    imag = ops.convert_to_tensor(imag, name="imag")
    with ops.name_scope(name, "Complex", [real, imag]) as name:
        input_types = (real.dtype, imag.dtype)
        if input_types == (dtypes.float64, dtypes.float64):
            Tout = dtypes.complex128
        elif input_types == (dtypes.float32, dtypes.float32):
            Tout = dtypes.complex64
        else:
            raise TypeError(
                "real and imag have incorrect types: {} {}".format(real.dtype.name, imag.dtype.name)
            )
        return gen_math_ops._complex(real, imag, Tout=Tout, name=name)


def real(input: Any, name: str | None = None) -> Any:
    """Returns the real part of each element."""
    with ops.name_scope(name, "Real", [input]) as name:
        input = ops.convert_to_tensor(input, name="input")
        if input.dtype.is_complex:
            return gen_math_ops.real(input, Tout=input.dtype.real_dtype, name=name)
        return input


def imag(input: Any, name: str | None = None) -> Any:
    """Returns the imaginary part of each element: zeros for real tensors."""
    with ops.name_scope(name, "Imag", [input]) as name:
        input = ops.convert_to_tensor(input, name="input")
        if input.dtype.is_complex:
            return gen_math_ops.imag(input, Tout=input.dtype.real_dtype, name=name)
        return array_ops.zeros_like(input)


def angle(input: Any, name: str | None = None) -> Any:
    """Returns the argument of each element in radians: zeros for real tensors."""
    with ops.name_scope(name, "Angle", [input]) as name:
        input = ops.convert_to_tensor(input, name="input")
        if input.dtype.is_complex:
            return gen_math_ops.angle(input, Tout=input.dtype.real_dtype, name=name)
        return array_ops.zeros_like(input)


def conj(x: Any, name: str | None = None) -> Any:
    """Returns the complex conjugate of each element; TypeError where they are not numbers."""
    if isinstance(x, ops.Tensor):
        dtype = x.dtype
        if dtype.is_floating or dtype.is_integer:
            return x
    with ops.name_scope(name, "Conj", [x]) as name:
        x = ops.convert_to_tensor(x, name="x")
        if x.dtype.is_complex or x.dtype == dtypes.variant:
            return gen_math_ops.conj(x, name=name)
        if x.dtype.is_floating or x.dtype.is_integer:
            return x
        raise TypeError("Expected numeric or variant tensor, got dtype %r" % x.dtype)


def round(x: Any, name: str | None = None) -> Any:
    """Returns each element rounded to the nearest integer, halves to the even one."""
    x = ops.convert_to_tensor(x, name="x")
    if x.dtype.is_integer:
        return x
    return gen_math_ops.round(x, name=name)


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """Converts a tensor, SparseTensor or IndexedSlices to the type `dtype`.

    Raises:
      TypeError: `x` cannot be cast to `dtype`.
    """
    base_type = dtypes.as_dtype(dtype).base_dtype
    if isinstance(x, ops.Tensor) and base_type == x.dtype:
        return x
    with ops.name_scope(name, "Cast", [x]) as name:
        if isinstance(x, sparse_tensor.SparseTensor):
            values = cast(x.values, base_type, name=name)
            return sparse_tensor.SparseTensor(x.indices, values, x.dense_shape)
        if isinstance(x, indexed_slices.IndexedSlices):
            values = cast(x.values, base_type, name=name)
            return indexed_slices.IndexedSlices(values, x.indices, x.dense_shape)
        x = ops.convert_to_tensor(x, name="x")
        if x.dtype.base_dtype != base_type:
            if x.dtype.is_complex and base_type.is_floating:
                logging.warn("Casting complex to real discards imaginary part.")
            x = gen_math_ops.cast(x, base_type, name=name)
        return x


def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Any:
    """Converts to `dtype`; values outside of its range become its smallest or largest value."""
    with ops.name_scope(name, "saturate_cast", [value]) as name:
        value = ops.convert_to_tensor(value, name="value")
        dtype = dtypes.as_dtype(dtype).base_dtype
        if value.dtype.min < dtype.min:
            value = gen_math_ops.maximum(
                value, ops.convert_to_tensor(dtype.min, dtype=value.dtype, name="min")
            )
        if value.dtype.max > dtype.max:
            value = gen_math_ops.minimum(
                value, ops.convert_to_tensor(dtype.max, dtype=value.dtype, name="max")
            )
        return cast(value, dtype, name=name)


def _same_types(x: Any, y: Any) -> tuple[Any, Any]:
    """Converts two operands to tensors; TypeError where their types differ."""
    x = ops.convert_to_tensor(x, name="x")
    y = ops.convert_to_tensor(y, name="y", dtype=None if isinstance(y, ops.Tensor) else x.dtype.base_dtype)
    x_dtype, y_dtype = x.dtype.base_dtype, y.dtype.base_dtype
    if x_dtype != y_dtype:
        raise TypeError("x and y must have the same dtype, got %r != %r" % (x_dtype, y_dtype))
    return x, y


def _truediv_python3(x: Any, y: Any, name: str | None = None) -> Any:
    with ops.name_scope(name, "truediv", [x, y]) as name:
        x, y = _same_types(x, y)
        try:
            dtype = _TRUEDIV_TABLE[x.dtype.base_dtype]
        except KeyError:
            raise TypeError("Invalid dtype %r in __truediv__" % x.dtype.base_dtype) from None
        if dtype is not None:
            x = cast(x, dtype)
            y = cast(y, dtype)
        return gen_math_ops.real_div(x, y, name=name)


def _div_python2(x: Any, y: Any, name: str | None = None) -> Any:
    with ops.name_scope(name, "div", [x, y]) as name:
        x, y = _same_types(x, y)
        if x.dtype.base_dtype.is_floating or x.dtype.base_dtype.is_complex:
            return gen_math_ops.real_div(x, y, name=name)
        return gen_math_ops.floor_div(x, y, name=name)


def truediv(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns x / y; integers are divided as floating point numbers, as Python 3 does."""
    return _truediv_python3(x, y, name)


def div(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns x / y as Python 2: integers are divided to integers, rounded down."""
    return _div_python2(x, y, name)


def div_no_nan(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns x / y, and 0 where y is 0."""
    with ops.name_scope(name, "div_no_nan", [x, y]) as name:
        x = ops.convert_to_tensor(x, name="x")
        y = ops.convert_to_tensor(y, name="y", dtype=x.dtype.base_dtype)
        return gen_math_ops.div_no_nan(x, y, name=name)


def multiply_no_nan(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns x * y, and 0 where y is 0, even if x is infinite or not a number."""
    with ops.name_scope(name, "multiply_no_nan", [x, y]) as name:
        x = ops.convert_to_tensor(x, name="x")
        y = ops.convert_to_tensor(y, name="y", dtype=x.dtype.base_dtype)
        x_dtype, y_dtype = x.dtype.base_dtype, y.dtype.base_dtype
        if x_dtype != y_dtype:
            raise TypeError("x and y must have the same dtype, got %r != %r" % (x_dtype, y_dtype))
        return gen_math_ops.mul_no_nan(x, y, name=name)


def reciprocal_no_nan(x: Any, name: str | None = None) -> Any:
    """Returns 1 / x, and 0 where x is 0."""
    with ops.name_scope(name, "reciprocal_no_nan", [x]) as scope:
        x = ops.convert_to_tensor(x, name="x")
        one = constant_op.constant(1, dtype=x.dtype.base_dtype, name="one")
        return gen_math_ops.div_no_nan(one, x, name=scope)


def floordiv(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns x / y rounded down."""
    with ops.name_scope(name, "floordiv", [x, y]) as name:
        return gen_math_ops.floor_div(x, y, name=name)


realdiv = gen_math_ops.real_div
truncatediv = gen_math_ops.truncate_div
floor_div = gen_math_ops.floor_div
truncatemod = gen_math_ops.truncate_mod
floormod = gen_math_ops.floor_mod
mod = gen_math_ops.floor_mod


def logical_xor(x: Any, y: Any, name: str = "LogicalXor") -> Any:
    """Returns (x or y) and not (x and y) for boolean tensors."""
    return gen_math_ops.logical_and(
        gen_math_ops.logical_or(x, y), gen_math_ops.logical_not(gen_math_ops.logical_and(x, y)), name=name
    )


def equal(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns x == y element-wise, with broadcasting."""
    return gen_math_ops.equal(x, y, name=name)


def not_equal(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns x != y element-wise, with broadcasting."""
    return gen_math_ops.not_equal(x, y, name=name)


def add(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns x + y element-wise, with broadcasting; joins strings."""
    return gen_math_ops.add(x, y, name)


def range(
    start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str | None = "range"
) -> Any:
    """Returns the vector start, start + delta, ... up to `limit`, which is not in it.

    Args:
      start: first number; the limit where only one argument is given.
      limit: upper limit, exclusive.
      delta: the step.
      dtype: type of the result; by default the largest of the arguments' types.
      name: name of the op.
    """
    if limit is None:
        start, limit = 0, start
    if isinstance(dtype, dtypes.DType) and dtype._is_ref_dtype:
        raise TypeError("range makes no references; dtype: %s" % dtype.name)
    with ops.name_scope(name, "Range", [start, limit, delta]) as name:
        start = ops.convert_to_tensor(start, dtype=dtype, name="start")
        limit = ops.convert_to_tensor(limit, dtype=dtype, name="limit")
        delta = ops.convert_to_tensor(delta, dtype=dtype, name="delta")
        if dtype is None:
            hierarchy = [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64]
            arguments = [start, limit, delta]
            if not all(arg.dtype in hierarchy for arg in arguments):
                raise TypeError("range needs numbers, got: %s" % [arg.dtype.name for arg in arguments])
            inferred = max([arg.dtype for arg in arguments], key=hierarchy.index)
            start, limit, delta = (cast(arg, inferred) for arg in arguments)
        return gen_math_ops._range(start, limit, delta, name=name)


def sigmoid(x: Any, name: str | None = None) -> Any:
    """Returns 1 / (1 + exp(-x))."""
    with ops.name_scope(name, "Sigmoid", [x]) as name:
        x = ops.convert_to_tensor(x, name="x")
        return gen_math_ops.sigmoid(x, name=name)


def log_sigmoid(x: Any, name: str | None = None) -> Any:
    """Returns log(1 / (1 + exp(-x)))."""
    with ops.name_scope(name, "LogSigmoid", [x]) as name:
        x = ops.convert_to_tensor(x, name="x")
        return gen_math_ops.neg(gen_nn_ops.softplus(-x), name=name)


def polyval(coeffs: Any, x: Any, name: str | None = None) -> Any:
    """Returns the polynomial with the list of coefficients `coeffs`, the highest power first, at `x`.

    Raises:
      ValueError: `coeffs` is no list.
    """
    if not isinstance(coeffs, list):
        raise ValueError("Argument coeffs must be list type found {}.".format(type(coeffs)))
    with ops.name_scope(name, "polyval", list(coeffs) + [x]) as name:
        x = ops.convert_to_tensor(x, name="x")
        if len(coeffs) < 1:
            return array_ops.zeros_like(x, name=name)
        terms = [ops.convert_to_tensor(c, name="coeff_%d" % i) for i, c in enumerate(coeffs)]
        p = terms[0]
        for c in terms[1:]:
            p = c + p * x
        return p


def nextafter(x1: Any, x2: Any, name: str | None = None) -> Any:
    """Returns the next floating-point number after x1 in the direction of x2."""
    return gen_math_ops.next_after(x1, x2, name=name)


def is_number(value: Any) -> bool:
    """Whether a value is a number of Python or NumPy."""
    return isinstance(value, (numbers.Number, np.number))


def bessel_i0e(x: Any, name: str | None = None) -> Any:
    """Returns exp(-|x|) times the modified Bessel function of order 0 of each element."""
    return _map_values(gen_math_ops.bessel_i0e, x, name, "bessel_i0e")


def bessel_i1e(x: Any, name: str | None = None) -> Any:
    """Returns exp(-|x|) times the modified Bessel function of order 1 of each element."""
    return _map_values(gen_math_ops.bessel_i1e, x, name, "bessel_i1e")
