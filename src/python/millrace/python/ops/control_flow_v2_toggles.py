# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Whether conditions and loops become the ops If and While of functions; off by default."""
from __future__ import annotations

from millrace.python.ops import control_flow_util


def enable_control_flow_v2() -> None:
    """Makes `tf.cond` and `tf.while_loop` add operations If and While."""
    control_flow_util.ENABLE_CONTROL_FLOW_V2 = True


def disable_control_flow_v2() -> None:
    """Makes `tf.cond` and `tf.while_loop` add Switch, Merge and similar ops."""
    control_flow_util.ENABLE_CONTROL_FLOW_V2 = False


def control_flow_v2_enabled() -> bool:
    """Whether `enable_control_flow_v2` was called last."""
    return control_flow_util.ENABLE_CONTROL_FLOW_V2


def output_all_intermediates(state: bool) -> None:
    """Has no effect: the engine recomputes the values that gradients of functions need."""
