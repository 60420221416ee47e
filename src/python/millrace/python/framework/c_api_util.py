# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Helpers of programs that use the C API's graphs."""
from __future__ import annotations

from typing import Any

from millrace.python import _engine
from millrace.python.util import compat


def tf_output(c_op: Any, index: int) -> Any:
    """The tensor that an operation has as its output `index`."""
    return c_op.outputs[index]


def tf_operations(graph: Any) -> Any:
    """Iterates over the operations of a graph."""
    return iter(graph.get_operations())


def new_tf_operations(graph: Any) -> Any:
    """Iterates over the operations that have no objects yet."""
    return iter(graph._adopt_new_operations())


class ApiDefMap:
    """The documentation of ops, which is empty: there are no ApiDefs."""

    def __init__(self) -> None:
        from millrace.core.framework import op_def_pb2

        self._op_per_name = {op.name: op for op in op_def_pb2.OpList.FromString(_engine.all_ops()).op}

    def op_names(self) -> Any:
        """The names of all ops."""
        return self._op_per_name.keys()

    def get_op_def(self, op_name: str) -> Any:
        """The OpDef of an op; ValueError if there is none."""
        if op_name in self._op_per_name:
            return self._op_per_name[op_name]
        raise ValueError("No entry found for " + op_name + ".")


def as_text(value: Any) -> str:
    return compat.as_str(value)
