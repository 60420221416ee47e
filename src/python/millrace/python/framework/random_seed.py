# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Seeds of random operations."""
from __future__ import annotations

from typing import Any

from millrace.python.eager import context
from millrace.python.framework import ops

DEFAULT_GRAPH_SEED = 87654321
_MAXINT32 = 2**31 - 1


def _truncate_seed(seed: int) -> int:
    return seed % _MAXINT32


def get_seed(op_seed: Any) -> tuple[Any, Any]:
    """The two seeds of an operation: from the graph's seed and its own; (None, None) when neither is set."""
    graph = ops.get_default_graph()
    eager = context.executing_eagerly()
    graph_seed = context.global_seed() if eager else graph.seed
    if graph_seed is not None:
        if op_seed is None:
            op_seed = context.internal_operation_seed() if eager else graph._last_id
        seeds: Any = _truncate_seed(graph_seed), _truncate_seed(op_seed)
    elif op_seed is not None:
        seeds = DEFAULT_GRAPH_SEED, _truncate_seed(op_seed)
    else:
        seeds = None, None
    # (0, 0) means no seed to the engine.
    return (0, _MAXINT32) if seeds == (0, 0) else seeds


def set_random_seed(seed: Any) -> None:
    """Sets the seed of the default graph, from which operations without a seed of their own get theirs."""
    if context.executing_eagerly():
        context.set_global_seed(seed)
    else:
        ops.get_default_graph().seed = seed


set_seed = set_random_seed
