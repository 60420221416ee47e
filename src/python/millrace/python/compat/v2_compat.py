# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Which of two behaviours: that of 1.x, or what TensorFlow 2 made of it."""
from __future__ import annotations

from millrace.python import tf2
from millrace.python.framework import ops, tensor_shape
from millrace.python.ops import control_flow_v2_toggles, variable_scope


def enable_v2_behavior() -> None:
    """Executes ops at once, makes variables resources, conditions and loops functional ops, and `==` of tensors elementwise.

    To be called when a program begins.

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
    """Takes back what `enable_v2_behavior` does. To be called when a program begins."""
    tf2.disable()
    ops.disable_eager_execution()
    tensor_shape.disable_v2_tensorshape()
    variable_scope.disable_resource_variables()
    ops.disable_tensor_equality()
    control_flow_v2_toggles.disable_control_flow_v2()
