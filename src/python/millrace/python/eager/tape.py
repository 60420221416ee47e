# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Tapes of eager execution: there is nothing to record in graphs."""
from __future__ import annotations

import contextlib
from typing import Any


def stop_recording() -> Any:
    """A context without effect."""
    return contextlib.nullcontext()


def watch(tape: Any, tensor: Any) -> None:
    """Tells a tape of a tensor."""
    tape.watch(tensor)


def variable_accessed(variable: Any) -> None:
    """Nothing is recorded."""


def could_possibly_record() -> bool:
    return False


def should_record(tensors: Any) -> bool:
    return False


def record_operation(
    op_type: Any,
    output_tensors: Any,
    input_tensors: Any,
    backward_function: Any,
    forward_function: Any = None,
) -> None:
    """Nothing is recorded."""


def delete_trace(tensor_id: Any) -> None:
    """Nothing was recorded."""


class VariableWatcher:
    """A context that notes the variables that are read in it."""

    def __enter__(self) -> VariableWatcher:
        from millrace.python.framework import ops

        self._before = set(map(id, ops.get_collection(ops.GraphKeys.TRAINABLE_VARIABLES)))
        return self

    def __exit__(self, typ: Any, value: Any, traceback: Any) -> None:
        """Nothing is left to do."""

    def watched_variables(self) -> tuple[Any, ...]:
        """The trainable variables of the graph."""
        from millrace.python.framework import ops

        return tuple(ops.get_collection(ops.GraphKeys.TRAINABLE_VARIABLES))
