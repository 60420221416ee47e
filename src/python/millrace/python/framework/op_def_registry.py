# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The OpDefs of the engine, by name."""
from __future__ import annotations

from typing import Any

from millrace.python import _engine

_registered_ops: dict[str, Any] = {}


def _load() -> dict[str, Any]:
    if not _registered_ops:
        from millrace.core.framework import op_def_pb2

        for op_def in op_def_pb2.OpList.FromString(_engine.all_ops()).op:
            _registered_ops.setdefault(op_def.name, op_def)
    return _registered_ops


def get(name: str) -> Any:
    """The OpDef of an op, or None."""
    return _load().get(name)


def get_registered_ops() -> dict[str, Any]:
    """All OpDefs by name."""
    return _load()


def register_op_list(op_list: Any) -> None:
    """Adds the OpDefs of an OpList; ValueError for another definition of a registered op."""
    known = _load()
    for op_def in op_list.op:
        if op_def.name in known and known[op_def.name] != op_def:
            raise ValueError(
                "Registered op_def for %s (%s) not equal to op_def to register (%s)"
                % (op_def.name, known[op_def.name], op_def)
            )
        known[op_def.name] = op_def
