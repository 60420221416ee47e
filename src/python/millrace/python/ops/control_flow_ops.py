# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Conditions, loops and dependencies: the home of tf.cond, tf.while_loop, tf.group, ..."""

from __future__ import annotations

from millrace.python.framework import ops
from millrace.python.ops.gen_control_flow_ops import *  # noqa: F401,F403
from millrace.python.ops._control_flow_base import ControlFlowContext  # noqa: F401
from millrace.python.ops._control_flow_base import _Enter  # noqa: F401
from millrace.python.ops._control_flow_base import _Identity  # noqa: F401
from millrace.python.ops._control_flow_base import _NextIteration  # noqa: F401
from millrace.python.ops._control_flow_base import _ShapeLessThanOrEqual  # noqa: F401
from millrace.python.ops._control_flow_base import _SwitchRefOrTensor  # noqa: F401
from millrace.python.ops._control_flow_base import _convert_flows_to_tensorarrays  # noqa: F401
from millrace.python.ops._control_flow_base import _convert_tensorarray_to_flow  # noqa: F401
from millrace.python.ops._control_flow_base import exit  # noqa: F401
from millrace.python.ops._control_flow_base import loop_cond  # noqa: F401
from millrace.python.ops._control_flow_base import merge  # noqa: F401
from millrace.python.ops._control_flow_base import no_op  # noqa: F401
from millrace.python.ops._control_flow_base import ref_switch  # noqa: F401
from millrace.python.ops._control_flow_base import switch  # type: ignore[assignment]  # noqa: F401
from millrace.python.ops._control_flow_case import Assert  # noqa: F401
from millrace.python.ops._control_flow_case import _assert_at_most_n_true  # noqa: F401
from millrace.python.ops._control_flow_case import _case_create_default_action  # noqa: F401
from millrace.python.ops._control_flow_case import _case_helper  # noqa: F401
from millrace.python.ops._control_flow_case import _case_verify_and_canonicalize_args  # noqa: F401
from millrace.python.ops._control_flow_case import case  # noqa: F401
from millrace.python.ops._control_flow_case import case_v2  # noqa: F401
from millrace.python.ops._control_flow_case import switch_case  # noqa: F401
from millrace.python.ops._control_flow_cond import CondContext  # noqa: F401
from millrace.python.ops._control_flow_cond import _UnpackIfSingleton  # noqa: F401
from millrace.python.ops._control_flow_cond import cond  # noqa: F401
from millrace.python.ops._control_flow_cond import cond_for_tf_v2  # noqa: F401
from millrace.python.ops._control_flow_groups import _GroupControlDeps  # noqa: F401
from millrace.python.ops._control_flow_groups import group  # noqa: F401
from millrace.python.ops._control_flow_groups import tuple  # noqa: F401,A004
from millrace.python.ops._control_flow_groups import tuple_v2  # noqa: F401
from millrace.python.ops._control_flow_groups import with_dependencies  # noqa: F401
from millrace.python.ops._control_flow_while import WhileContext  # noqa: F401
from millrace.python.ops._control_flow_while import _AddNextAndBackEdge  # noqa: F401
from millrace.python.ops._control_flow_while import from_control_flow_context_def  # noqa: F401
from millrace.python.ops._control_flow_loop import while_loop  # noqa: F401
from millrace.python.ops._control_flow_loop import while_loop_v2  # noqa: F401


def _cond_context_def() -> object:
    from millrace.core.protobuf import control_flow_pb2

    return control_flow_pb2.CondContextDef


def _while_context_def() -> object:
    from millrace.core.protobuf import control_flow_pb2

    return control_flow_pb2.WhileContextDef


ops.register_proto_function(
    ops.GraphKeys.COND_CONTEXT,
    proto_type=_cond_context_def,
    to_proto=CondContext.to_proto,
    from_proto=CondContext.from_proto,
)
ops.register_proto_function(
    ops.GraphKeys.WHILE_CONTEXT,
    proto_type=_while_context_def,
    to_proto=WhileContext.to_proto,
    from_proto=WhileContext.from_proto,
)
