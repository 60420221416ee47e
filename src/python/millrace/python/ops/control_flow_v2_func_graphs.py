# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Graphs of the functions of conditions and loops."""
from __future__ import annotations

from millrace.python.framework import func_graph


class CondBranchFuncGraph(func_graph.FuncGraph):
    """The graph of a branch of a condition."""


class WhileCondFuncGraph(func_graph.FuncGraph):
    """The graph of the condition of a loop."""


class WhileBodyFuncGraph(func_graph.FuncGraph):
    """The graph of the body of a loop."""
