# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that tensors are finite."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import control_flow_ops
from millrace.python.util import deprecation


def verify_tensor_all_finite(
    t: Any = None, msg: str | None = None, name: str | None = None, x: Any = None, message: str | None = None
) -> Any:
    """Returns the tensor; fails with `message` if it has infinite elements or NaN."""
    x = deprecation.deprecated_argument_lookup("x", x, "t", t)
    message = deprecation.deprecated_argument_lookup("message", message, "msg", msg)
    return verify_tensor_all_finite_v2(x, message, name)


def verify_tensor_all_finite_v2(x: Any, message: Any, name: str | None = None) -> Any:
    """Returns the tensor; fails with `message` if it has infinite elements or NaN."""
    with ops.name_scope(name, "VerifyFinite", [x]) as name:
        x = ops.convert_to_tensor(x, name="x")
        with ops.colocate_with(x):
            verify_input = array_ops.check_numerics(x, message=message)
            return control_flow_ops.with_dependencies([verify_input], x)


def add_check_numerics_ops() -> Any:
    """Returns an op that checks all floating point tensors of the graph.

    Raises:
      ValueError: an op is in a condition or a loop.
    """
    check_op: list[Any] = []
    for op in ops.get_default_graph().get_operations():
        for output in op.outputs:
            if output.dtype in (dtypes.float16, dtypes.float32, dtypes.float64):
                if op._get_control_flow_context() is not None:
                    raise ValueError(
                        "`tf.add_check_numerics_ops() is not compatible with TensorFlow control flow operations such"
                        " as `tf.cond()` or `tf.while_loop()`."
                    )
                message = op.name + ":" + str(output.value_index)
                with ops.control_dependencies(check_op):
                    check_op = [array_ops.check_numerics(output, message=message)]
    return control_flow_ops.group(*check_op)
