# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Assertions about the values of tensors.

Each returns an op that fails with InvalidArgumentError unless the assertion holds. Values that are known
while the graph is made are checked then: a NoOp is returned, or InvalidArgumentError is raised. Common
arguments:
  `data`,
tensors to show instead of the usual ones; `summarize`, the number of elements shown of each; `message`, the
beginning of the error message; `name`, the name scope.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from millrace.python.framework import errors
from millrace.python.framework import ops
from millrace.python.framework import tensor_util
from millrace.python.ops import array_ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import math_ops

__all__ = [
    "assert_equal",
    "assert_greater",
    "assert_greater_equal",
    "assert_less",
    "assert_less_equal",
    "assert_near",
    "assert_negative",
    "assert_non_negative",
    "assert_non_positive",
    "assert_none_equal",
    "assert_positive",
    "is_non_decreasing",
    "is_strictly_increasing",
]


def _assert_static(condition: Any, data: Any) -> None:
    """Raises InvalidArgumentError where a condition that is known does not hold."""
    if not condition:
        data_static = [_maybe_static(x) for x in data]
        raise errors.InvalidArgumentError(
            node_def=None, op=None, message="\n".join(str(x) for x in data_static)
        )


def _maybe_static(x: Any) -> Any:
    if not isinstance(x, ops.Tensor):
        return x
    value = tensor_util.constant_value(x)
    return x if value is None else value


def _binary_assert(
    sym: str,
    opname: str,
    op_func: Callable[..., Any],
    static_func: Callable[..., Any],
    x: Any,
    y: Any,
    data: Any,
    summarize: Any,
    message: str | None,
    name: str | None,
) -> Any:
    """Asserts that `op_func(x, y)` holds for all elements, after broadcasting."""
    with ops.name_scope(name, opname, [x, y, data]):
        x = ops.convert_to_tensor(x, name="x")
        y = ops.convert_to_tensor(y, name="y")
        if isinstance(x, ops.EagerTensor) and isinstance(y, ops.EagerTensor):
            _check_now(sym, op_func, x, y, data, summarize, message)
            return None
        if data is None:
            data = [
                "" if message is None else message,
                "Condition x %s y did not hold element-wise:" % sym,
                "x (%s) = " % _name(x),
                x,
                "y (%s) = " % _name(y),
                y,
            ]
        elif message:
            data = [message] + list(data)
        condition = math_ops.reduce_all(op_func(x, y))
        x_static = tensor_util.constant_value(x)
        y_static = tensor_util.constant_value(y)
        if x_static is not None and y_static is not None:
            _assert_static(np.all(static_func(x_static, y_static)), data)
        return control_flow_ops.Assert(condition, data, summarize=summarize)


def _check_now(
    sym: str, op_func: Callable[..., Any], x: Any, y: Any, data: Any, summarize: Any, message: str | None
) -> None:
    """Checks eager tensors; the error shows the elements for which the assertion fails."""
    holds = op_func(x, y).numpy()
    if np.all(holds):
        return
    count = 3 if summarize is None else 10**9 if summarize < 0 else summarize
    if data is None:
        data = ["Condition x %s y did not hold." % sym]
        if count > 0:
            a, b = x.numpy(), y.numpy()
            if x.shape == y.shape and x.shape.as_list():
                places = np.argwhere(~holds)[:count]
                data += ["Indices of first %d different values:" % len(places), places]
                data += ["Corresponding x values:", a[~holds].reshape(-1)[:count]]
                data += ["Corresponding y values:", b[~holds].reshape(-1)[:count]]
            for what, values in (("x", np.reshape(a, -1)), ("y", np.reshape(b, -1))):
                data += ["First %d elements of %s:" % (min(values.size, count), what), values[:count]]
    lines = ([message] if message else []) + [_shown(item, count) for item in data]
    raise errors.InvalidArgumentError(None, None, "\n".join(lines))


def _shown(item: Any, count: int) -> str:
    if not isinstance(item, ops.Tensor):
        return str(item)
    values = np.asarray(item.numpy())
    if values.ndim == 0:
        return str(values[()])
    texts = [str(v) for v in values.reshape(-1)[:count]]
    return str(texts + ["..."] * (len(texts) < values.size))


def _name(x: Any) -> str:
    return "" if isinstance(x, ops.EagerTensor) else x.name  # type: ignore[no-any-return]


def _same(x: Any, y: Any) -> bool:
    return x is y


def assert_equal(
    x: Any,
    y: Any,
    data: Any = None,
    summarize: Any = None,
    message: str | None = None,
    name: str | None = None,
) -> Any:
    """Asserts that x == y for all elements."""
    with ops.name_scope(name, "assert_equal", [x, y, data]):
        # A tensor equals itself.
        if _same(x, y):
            return control_flow_ops.no_op()
    return _binary_assert(
        "==", "assert_equal", math_ops.equal, np.equal, x, y, data, summarize, message, name
    )


def assert_none_equal(
    x: Any,
    y: Any,
    data: Any = None,
    summarize: Any = None,
    message: str | None = None,
    name: str | None = None,
) -> Any:
    """Asserts that x != y for all elements."""
    fn = math_ops.not_equal
    return _binary_assert("!=", "assert_none_equal", fn, np.not_equal, x, y, data, summarize, message, name)


def assert_near(
    x: Any,
    y: Any,
    rtol: Any = None,
    atol: Any = None,
    data: Any = None,
    summarize: Any = None,
    message: str | None = None,
    name: str | None = None,
) -> Any:
    """Asserts that |x - y| <= atol + rtol |y| for all elements; both are 10 epsilons of the type by default."""
    message = message or ""
    with ops.name_scope(name, "assert_near", [x, y, rtol, atol, data]):
        x = ops.convert_to_tensor(x, name="x")
        y = ops.convert_to_tensor(y, name="y", dtype=x.dtype)
        eps = np.finfo(x.dtype.as_numpy_dtype).eps
        rtol = ops.convert_to_tensor(10 * eps if rtol is None else rtol, name="rtol", dtype=x.dtype)
        atol = ops.convert_to_tensor(10 * eps if atol is None else atol, name="atol", dtype=x.dtype)
        if data is None:
            data = [
                message,
                "x and y not equal to tolerance rtol = %s, atol = %s" % (rtol, atol),
                "x (%s) = " % _name(x),
                x,
                "y (%s) = " % _name(y),
                y,
            ]
        tol = atol + rtol * math_ops.abs(y)
        condition = math_ops.reduce_all(math_ops.less(math_ops.abs(x - y), tol))
        return control_flow_ops.Assert(condition, data, summarize=summarize)


def assert_less(
    x: Any,
    y: Any,
    data: Any = None,
    summarize: Any = None,
    message: str | None = None,
    name: str | None = None,
) -> Any:
    """Asserts that x < y for all elements."""
    return _binary_assert("<", "assert_less", math_ops.less, np.less, x, y, data, summarize, message, name)


def assert_less_equal(
    x: Any,
    y: Any,
    data: Any = None,
    summarize: Any = None,
    message: str | None = None,
    name: str | None = None,
) -> Any:
    """Asserts that x <= y for all elements."""
    fn = math_ops.less_equal
    return _binary_assert("<=", "assert_less_equal", fn, np.less_equal, x, y, data, summarize, message, name)


def assert_greater(
    x: Any,
    y: Any,
    data: Any = None,
    summarize: Any = None,
    message: str | None = None,
    name: str | None = None,
) -> Any:
    """Asserts that x > y for all elements."""
    return _binary_assert(
        ">", "assert_greater", math_ops.greater, np.greater, x, y, data, summarize, message, name
    )


def assert_greater_equal(
    x: Any,
    y: Any,
    data: Any = None,
    summarize: Any = None,
    message: str | None = None,
    name: str | None = None,
) -> Any:
    """Asserts that x >= y for all elements."""
    fn = math_ops.greater_equal
    return _binary_assert(
        ">=", "assert_greater_equal", fn, np.greater_equal, x, y, data, summarize, message, name
    )


def _unary_assert(
    x: Any,
    what: str,
    scope: str,
    against_zero: Callable[..., Any],
    data: Any,
    summarize: Any,
    message: str | None,
    name: str | None,
) -> Any:
    message = message or ""
    with ops.name_scope(name, scope, [x, data]):
        x = ops.convert_to_tensor(x, name="x")
        if data is None:
            data = [message, "Condition x %s did not hold element-wise:" % what, "x (%s) = " % _name(x), x]
        zero = ops.convert_to_tensor(0, dtype=x.dtype)
        return against_zero(x, zero, data, summarize)


def assert_negative(
    x: Any, data: Any = None, summarize: Any = None, message: str | None = None, name: str | None = None
) -> Any:
    """Asserts that x < 0 for all elements."""
    return _unary_assert(
        x,
        "< 0",
        "assert_negative",
        lambda x, zero, data, summarize: assert_less(x, zero, data=data, summarize=summarize),
        data,
        summarize,
        message,
        name,
    )


def assert_positive(
    x: Any, data: Any = None, summarize: Any = None, message: str | None = None, name: str | None = None
) -> Any:
    """Asserts that x > 0 for all elements."""
    return _unary_assert(
        x,
        "> 0",
        "assert_positive",
        lambda x, zero, data, summarize: assert_less(zero, x, data=data, summarize=summarize),
        data,
        summarize,
        message,
        name,
    )


def assert_non_negative(
    x: Any, data: Any = None, summarize: Any = None, message: str | None = None, name: str | None = None
) -> Any:
    """Asserts that x >= 0 for all elements."""
    return _unary_assert(
        x,
        ">= 0",
        "assert_non_negative",
        lambda x, zero, data, summarize: assert_less_equal(zero, x, data=data, summarize=summarize),
        data,
        summarize,
        message,
        name,
    )


def assert_non_positive(
    x: Any, data: Any = None, summarize: Any = None, message: str | None = None, name: str | None = None
) -> Any:
    """Asserts that x <= 0 for all elements."""
    return _unary_assert(
        x,
        "<= 0",
        "assert_non_positive",
        lambda x, zero, data, summarize: assert_less_equal(x, zero, data=data, summarize=summarize),
        data,
        summarize,
        message,
        name,
    )


def _get_diff_for_monotonic_comparison(x: Any) -> Any:
    """Differences of neighbours of the flattened tensor; empty for fewer than two elements."""
    x = array_ops.reshape(x, [-1])
    if not is_numeric(x):
        raise TypeError("Expected x to be numeric, instead found: %s" % x)
    is_shorter_than_two = math_ops.less(array_ops.size(x), 2)

    def short_result() -> Any:
        return ops.convert_to_tensor([], dtype=x.dtype)

    s_len = array_ops.shape(x) - 1

    def diff() -> Any:
        return array_ops.strided_slice(x, [1], [1] + s_len) - array_ops.strided_slice(x, [0], s_len)

    return control_flow_ops.cond(is_shorter_than_two, short_result, diff)


def is_numeric(tensor: Any) -> bool:
    """Whether a value is a tensor of numbers."""
    return isinstance(tensor, ops.Tensor) and (tensor.dtype.is_integer or tensor.dtype.is_floating)


def is_non_decreasing(x: Any, name: str | None = None) -> Any:
    """Returns a boolean scalar: whether each element of the flattened `x` is at least the one before."""
    with ops.name_scope(name, "is_non_decreasing", [x]):
        diff = _get_diff_for_monotonic_comparison(x)
        zero = ops.convert_to_tensor(0, dtype=diff.dtype)
        return math_ops.reduce_all(math_ops.less_equal(zero, diff))


def is_strictly_increasing(x: Any, name: str | None = None) -> Any:
    """Returns a boolean scalar: whether each element of the flattened `x` is larger than the one before."""
    with ops.name_scope(name, "is_strictly_increasing", [x]):
        diff = _get_diff_for_monotonic_comparison(x)
        zero = ops.convert_to_tensor(0, dtype=diff.dtype)
        return math_ops.reduce_all(math_ops.less(zero, diff))
