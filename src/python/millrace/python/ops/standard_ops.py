# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The functions of all modules of ops in one module."""
from __future__ import annotations

from millrace.python.framework import constant_op  # noqa: F401
from millrace.python.framework.tensor_util import constant_value as get_static_value  # noqa: F401
from millrace.python.ops.array_ops import *  # noqa: F401,F403
from millrace.python.ops.check_ops import *  # noqa: F401,F403
from millrace.python.ops.clip_ops import *  # noqa: F401,F403
from millrace.python.ops.confusion_matrix import confusion_matrix  # noqa: F401
from millrace.python.ops.control_flow_ops import (  # noqa: F401
    Assert,
    case,
    cond,
    group,
    no_op,
    tuple,
    while_loop,
)
from millrace.python.ops.data_flow_ops import *  # noqa: F401,F403
from millrace.python.ops.functional_ops import *  # noqa: F401,F403
from millrace.python.ops.gradients import *  # noqa: F401,F403
from millrace.python.ops.histogram_ops import *  # noqa: F401,F403
from millrace.python.ops.init_ops import *  # noqa: F401,F403
from millrace.python.ops.io_ops import *  # noqa: F401,F403
from millrace.python.ops.linalg_ops import *  # type: ignore[assignment]  # noqa: F401,F403
from millrace.python.ops.logging_ops import Print, get_summary_op, print_v2, timestamp  # noqa: F401
from millrace.python.ops.lookup_ops import initialize_all_tables, tables_initializer  # noqa: F401
from millrace.python.ops.manip_ops import *  # noqa: F401,F403
from millrace.python.ops.map_fn import *  # noqa: F401,F403
from millrace.python.ops.math_ops import *  # noqa: F401,F403
from millrace.python.ops.numerics import *  # noqa: F401,F403
from millrace.python.ops.parsing_ops import *  # noqa: F401,F403
from millrace.python.ops.partitioned_variables import *  # noqa: F401,F403
from millrace.python.ops.random_ops import *  # noqa: F401,F403
from millrace.python.ops.script_ops import py_func  # noqa: F401
from millrace.python.ops.session_ops import *  # type: ignore[assignment]  # noqa: F401,F403
from millrace.python.ops.sort_ops import *  # noqa: F401,F403
from millrace.python.ops.sparse_ops import *  # noqa: F401,F403
from millrace.python.ops.special_math_ops import *  # noqa: F401,F403
from millrace.python.ops.state_ops import *  # noqa: F401,F403
from millrace.python.ops.stateless_random_ops import *  # noqa: F401,F403
from millrace.python.ops.string_ops import *  # noqa: F401,F403
from millrace.python.ops.template import make_template  # noqa: F401
from millrace.python.ops.tensor_array_ops import *  # noqa: F401,F403
from millrace.python.ops.variable_scope import *  # type: ignore[no-redef]  # noqa: F401,F403
from millrace.python.ops.variables import *  # type: ignore[assignment]  # noqa: F401,F403
