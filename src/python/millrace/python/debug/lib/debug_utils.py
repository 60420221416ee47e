# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Selection of the tensors that a run writes to files."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


def add_debug_tensor_watch(
    run_options: Any,
    node_name: str,
    output_slot: int = 0,
    debug_ops: Any = "DebugIdentity",
    debug_urls: Any = None,
    tolerate_debug_op_creation_failures: bool = False,
    global_step: int = -1,
) -> None:
    """Adds one tensor to those that a run writes to files.

    Args:
      run_options: the RunOptions of the run, which are changed.
      node_name: the name of the node; "*": all of them.
      output_slot: which of its outputs; -1: all of them.
      debug_ops: the name of a debug op, or a list of names, with attributes in brackets if wanted.
      debug_urls: "file:///folder", or a list.
      tolerate_debug_op_creation_failures: whether an op that is not applicable to the tensor is skipped.
      global_step: a number that is written with the run.
    """
    watch = run_options.debug_options.debug_tensor_watch_opts.add()
    run_options.debug_options.global_step = global_step
    watch.node_name = node_name
    watch.output_slot = output_slot
    watch.tolerate_debug_op_creation_failures = tolerate_debug_op_creation_failures
    watch.debug_ops.extend([debug_ops] if isinstance(debug_ops, str) else debug_ops)
    if debug_urls:
        watch.debug_urls.extend([debug_urls] if isinstance(debug_urls, str) else debug_urls)


def _watch(run_options: Any, graph: Any, wanted: Callable[[Any, int], bool], options: dict[str, Any]) -> None:
    reset = options.pop("reset_disk_byte_usage")
    run_options.debug_options.reset_disk_byte_usage = reset
    for op in graph.get_operations():
        for slot in range(len(op.outputs)):
            if wanted(op, slot):
                add_debug_tensor_watch(run_options, op.name, slot, **options)


def _patterns(*texts: Any) -> list[Any]:
    return [re.compile(text) if text else None for text in texts]


def watch_graph(
    run_options: Any,
    graph: Any,
    debug_ops: Any = "DebugIdentity",
    debug_urls: Any = None,
    node_name_regex_whitelist: Any = None,
    op_type_regex_whitelist: Any = None,
    tensor_dtype_regex_whitelist: Any = None,
    tolerate_debug_op_creation_failures: bool = False,
    global_step: int = -1,
    reset_disk_byte_usage: bool = False,
) -> None:
    """Adds the tensors of a graph that match all patterns (regular expressions, matched at the start).

    Args:
      run_options: the RunOptions of the run, which are changed.
      graph: the graph.
      debug_ops: see add_debug_tensor_watch, as for the other arguments.
      debug_urls: "file:///folder", or a list.
      node_name_regex_whitelist: a pattern of names; None: all.
      op_type_regex_whitelist: a pattern of types of operations.
      tensor_dtype_regex_whitelist: a pattern of names of data types.
      tolerate_debug_op_creation_failures: whether an op that is not applicable to a tensor is skipped.
      global_step: a number that is written with the run.
      reset_disk_byte_usage: not used, since the bytes written are not limited.
    """
    names, types, dtypes = _patterns(
        node_name_regex_whitelist, op_type_regex_whitelist, tensor_dtype_regex_whitelist
    )

    def wanted(op: Any, slot: int) -> bool:
        return bool(
            (names is None or names.match(op.name))
            and (types is None or types.match(op.type))
            and (dtypes is None or dtypes.match(op.outputs[slot].dtype.name))
        )

    _watch(run_options, graph, wanted, {
        "debug_ops": debug_ops, "debug_urls": debug_urls, "global_step": global_step,
        "tolerate_debug_op_creation_failures": tolerate_debug_op_creation_failures,
        "reset_disk_byte_usage": reset_disk_byte_usage,
    })  # fmt: skip


def watch_graph_with_blacklists(
    run_options: Any,
    graph: Any,
    debug_ops: Any = "DebugIdentity",
    debug_urls: Any = None,
    node_name_regex_blacklist: Any = None,
    op_type_regex_blacklist: Any = None,
    tensor_dtype_regex_blacklist: Any = None,
    tolerate_debug_op_creation_failures: bool = False,
    global_step: int = -1,
    reset_disk_byte_usage: bool = False,
) -> None:
    """As watch_graph, for the tensors that match none of the patterns."""
    names, types, dtypes = _patterns(
        node_name_regex_blacklist, op_type_regex_blacklist, tensor_dtype_regex_blacklist
    )

    def wanted(op: Any, slot: int) -> bool:
        return not (
            (names is not None and names.match(op.name))
            or (types is not None and types.match(op.type))
            or (dtypes is not None and dtypes.match(op.outputs[slot].dtype.name))
        )

    _watch(run_options, graph, wanted, {
        "debug_ops": debug_ops, "debug_urls": debug_urls, "global_step": global_step,
        "tolerate_debug_op_creation_failures": tolerate_debug_op_creation_failures,
        "reset_disk_byte_usage": reset_disk_byte_usage,
    })  # fmt: skip
