# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Operations with side effects run in the order in which a program makes them."""
from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import Any, Iterator

from millrace.python.framework import dtypes, ops
from millrace.python.util import nest

# Ops whose effects nobody sees in another order.
ASYNC_STATEFUL_OPS = ["CollectiveGather", "CollectiveReduce", "CollectiveBcastSend", "CollectiveBcastRecv", "NcclAllReduce",
                      "Send", "Recv", "RandomUniform", "RandomStandardNormal", "RandomUniformInt", "TruncatedNormal",
                      "RandomShuffle", "Multinomial", "RandomGamma", "RandomPoissonV2"]  # fmt: skip


class AutomaticControlDependencies:
    """A context: operations with side effects that are made in it wait for those before them on the same thing."""

    def __init__(self) -> None:
        self._returned_tensors: set[Any] = set()
        self.ops_which_must_run: set[Any] = set()
        self._marked: list[Any] = []

    def mark_as_return(self, tensor: Any) -> Any:
        """A tensor that is returned: it waits for what must run."""
        from millrace.python.ops import array_ops

        def mark(t: Any) -> Any:
            copied = array_ops.identity(t)
            self._returned_tensors.add(copied)
            return copied

        if isinstance(tensor, ops.Tensor):
            return mark(tensor)
        return nest.map_structure(mark, tensor, expand_composites=True)

    def ops_which_must_run_list(self) -> list[Any]:
        return sorted(self.ops_which_must_run, key=lambda op: op._id)

    def __enter__(self) -> AutomaticControlDependencies:
        self._graph = ops.get_default_graph()
        self._before = self._graph._num_ids
        return self

    def __exit__(self, unused_type: Any, unused_value: Any, unused_traceback: Any) -> None:
        if unused_type is not None:
            return
        if self._graph is not ops.get_default_graph():
            raise RuntimeError("Graph changed while trying to add control dependencies.")
        last: dict[Any, Any] = {}  # handle, or None for other effects -> the operation that was last
        made = [op for op in self._graph.get_operations() if op._id > self._before]
        for op in made:
            handles = [t for t in op.inputs if t.dtype == dtypes.resource]
            effects = (
                op._is_stateful
                and op.type not in ASYNC_STATEFUL_OPS
                and op.type not in ("VarHandleOp", "Placeholder")
            )
            if not effects:
                continue
            self.ops_which_must_run.add(op)
            if op._control_flow_context is not None:
                continue
            controls = []
            for key in handles or [None]:
                before = last.get(key)
                if before is not None and before not in controls:
                    controls.append(before)
                last[key] = op
            op._add_control_inputs([c for c in controls if c is not op])
        must = [op for op in self.ops_which_must_run_list() if op._control_flow_context is None]
        for tensor in self._returned_tensors:
            tensor.op._add_control_inputs(
                [op for op in must if op is not tensor.op and op._control_flow_context is None]
            )


@contextmanager
def context_of(wanted: bool) -> Iterator[Any]:
    """AutomaticControlDependencies, or None if they are not wanted."""
    if not wanted:
        yield None
        return
    with AutomaticControlDependencies() as controls:
        yield controls


def automatic_control_dependencies(f: Any) -> Any:
    """Decorator: the operations that a function makes run in their order before its results."""

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with AutomaticControlDependencies() as controls:
            result = f(*args, **kwargs)
            return nest.map_structure(controls.mark_as_return, result)

    return wrapper
