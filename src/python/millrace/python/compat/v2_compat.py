# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Switches between the behaviours of TensorFlow 1.x and 2."""
from __future__ import annotations

from millrace.python import tf2
from millrace.python.framework import ops, tensor_shape
from millrace.python.ops import control_flow_v2_toggles, variable_scope


def enable_v2_behavior() -> None:
    """Enables eager execution, resource variables, functional control flow and element-wise `==` of tensors.

    Must be called at the start of a program.

    Raises:
      ValueError: there is a graph already.
    """
    ops.enable_eager_execution()
    tf2.enable()
    tensor_shape.enable_v2_tensorshape()
    variable_scope.enable_resource_variables()
    ops.enable_tensor_equality()
    control_flow_v2_toggles.enable_control_flow_v2()


def disable_v2_behavior() -> None:
    """Reverts `enable_v2_behavior`. Must be called at the start of a program."""
    tf2.disable()
    ops.disable_eager_execution()
    tensor_shape.disable_v2_tensorshape()
    variable_scope.disable_resource_variables()
    ops.disable_tensor_equality()
    control_flow_v2_toggles.disable_control_flow_v2()
