# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.gradients and tf.hessians."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import constant_op
from millrace.python.framework import dtypes
from millrace.python.framework import ops  # noqa: F401
from millrace.python.ops import array_ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import gradients_util
from millrace.python.ops import math_ops
from millrace.python.ops import tensor_array_ops
from millrace.python.ops.gradients_util import AggregationMethod  # noqa: F401
from millrace.python.ops.gradients_util import _GradientsHelper  # noqa: F401
from millrace.python.ops.unconnected_gradients import UnconnectedGradients


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = UnconnectedGradients.NONE,
) -> list[Any]:
    """Adds operations that compute, for each x, the sum over the ys of the derivative of y with respect to x.

    Args:
      ys: a tensor or a list of them.
      xs: a tensor or variable, or a list of them; also tensors that the ys are computed from.
      grad_ys: the initial gradient of each y, of its shape; None: ones. Complex ys must have one.
      name: of the scope of the new operations.
      colocate_gradients_with_ops: whether a gradient is computed on the device of its operation.
      gate_gradients: whether the gradients of an operation are used only when all of them are computed.
      aggregation_method: how gradients of several consumers are added up, see `AggregationMethod`.
      stop_gradients: tensors that count as constants.
      unconnected_gradients: the gradient if no y depends on x: None, or zeros of its shape.

    Returns:
      A list with a tensor, IndexedSlices (for tables whose rows were looked up) or None for each x.

    Raises:
      LookupError: an operation between x and y has no gradient.
      ValueError: lists differ in length, or an argument has an invalid value.
      TypeError: a grad_y has another type than its y.
    """
    if ops.executing_eagerly():
        raise RuntimeError(
            "tf.gradients is not supported when eager execution is enabled. Use tf.GradientTape instead."
        )
    return gradients_util._GradientsHelper(
        ys, xs, grad_ys, name, colocate_gradients_with_ops, gate_gradients, aggregation_method, stop_gradients,
        unconnected_gradients,
    )  # fmt: skip


def gradients_v2(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    gate_gradients: bool = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = UnconnectedGradients.NONE,
) -> list[Any]:
    """`gradients` with colocation."""
    return gradients_util._GradientsHelper(
        ys, xs, grad_ys, name, True, gate_gradients, aggregation_method, stop_gradients, unconnected_gradients
    )


def _hessian_vector_product(ys: Any, xs: Any, v: Any) -> list[Any]:
    """The product of the matrix of second derivatives of `ys` with `v`, for each x.

    Args:
      ys: a scalar, or a tensor or list of tensors to be summed up.
      xs, v: lists of tensors of the same length and shapes.

    Raises:
      ValueError: the lists differ in length.
    """
    length = len(xs)
    if len(v) != length:
        raise ValueError("xs and v must have the same length.")
    grads = gradients(ys, xs)
    products = [
        math_ops.multiply(grad, array_ops.stop_gradient(v_elem))
        for grad, v_elem in zip(grads, v)
        if grad is not None
    ]
    return gradients(products, xs)


def hessians(
    ys: Any,
    xs: Any,
    name: str = "hessians",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: Any = None,
) -> list[Any]:
    """Adds operations that compute the second derivatives of the sum of `ys` with respect to each x.

    Args:
      ys: a tensor or a list of them.
      xs: a tensor or a list of them.
      name, colocate_gradients_with_ops, gate_gradients, aggregation_method: as in `gradients`.

    Returns:
      A list of tensors of the shape of x twice.

    Raises:
      LookupError: an operation has no gradient.
    """
    xs = gradients_util._AsList(xs)
    kwargs = {
        "colocate_gradients_with_ops": colocate_gradients_with_ops,
        "gate_gradients": gate_gradients,
        "aggregation_method": aggregation_method,
    }
    result = []
    for gradient, x in zip(gradients(ys, xs, **kwargs), xs):
        result.append(_hessian_of(gradient, x, kwargs))
    return result


def _hessian_of(gradient: Any, x: Any, kwargs: dict[str, Any]) -> Any:
    """The derivatives of each element of a gradient, by a loop with an iteration for each."""
    gradient = array_ops.reshape(gradient, [-1])
    n = array_ops.size(x)
    rows = tensor_array_ops.TensorArray(x.dtype, n)

    def row(j: Any, result: Any) -> Any:
        return j + 1, result.write(j, gradients(gradient[j], x, **kwargs)[0])

    _, hessian = control_flow_ops.while_loop(
        lambda j, _: j < n, row, [constant_op.constant(0, dtypes.int32), rows]
    )
    shape = array_ops.shape(x)
    return array_ops.reshape(hessian.stack(), array_ops.concat((shape, shape), 0))


def HessiansV2(
    ys: Any, xs: Any, gate_gradients: bool = False, aggregation_method: Any = None, name: str = "hessians"
) -> list[Any]:
    """`hessians` with colocation."""
    return hessians(
        ys,
        xs,
        name=name,
        colocate_gradients_with_ops=True,
        gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
    )
