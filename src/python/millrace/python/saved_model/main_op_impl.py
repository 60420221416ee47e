# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The op that is run when a SavedModel is loaded."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import lookup_ops
from millrace.python.ops import variables


def main_op() -> Any:
    """An op that initialises variables, local variables and tables."""
    init = variables.global_variables_initializer()
    init_local = variables.local_variables_initializer()
    init_tables = lookup_ops.tables_initializer()
    return control_flow_ops.group(init, init_local, init_tables)


def main_op_with_restore(restore_op_name: str) -> Any:
    """As `main_op`, run after the restore op of the given name."""
    with ops.control_dependencies([main_op()]):
        return control_flow_ops.group(restore_op_name)
