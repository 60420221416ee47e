# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Resources of a graph: objects that live in a session and must be created before use."""
from __future__ import annotations

import collections
from typing import Any

from millrace.python.framework import dtypes, ops
from millrace.python.ops import array_ops, control_flow_ops, math_ops

_Resource = collections.namedtuple("_Resource", ["handle", "create", "is_initialized"])


def register_resource(handle: Any, create_op: Any, is_initialized_op: Any, is_shared: bool = True) -> None:
    """Adds a resource to a collection of the graph.

    Args:
      handle: the tensor that names it.
      create_op: the operation that makes it.
      is_initialized_op: a bool tensor: whether it exists.
      is_shared: whether the tasks of a cluster share it.
    """
    resource = _Resource(handle, create_op, is_initialized_op)
    ops.add_to_collection(ops.GraphKeys.RESOURCES if is_shared else ops.GraphKeys.LOCAL_RESOURCES, resource)


def shared_resources() -> list[Any]:
    """The resources that tasks share."""
    return ops.get_collection(ops.GraphKeys.RESOURCES)


def local_resources() -> list[Any]:
    """The resources of one task."""
    return ops.get_collection(ops.GraphKeys.LOCAL_RESOURCES)


def report_uninitialized_resources(
    resource_list: Any = None, name: str = "report_uninitialized_resources"
) -> Any:
    """A string vector of the names of uninitialized resources.

    Args:
      resource_list: the resources; None: all.
      name: of the operation.
    """
    if resource_list is None:
        resource_list = shared_resources() + local_resources()
    with ops.name_scope(name):
        with ops.device("/cpu:0"):
            if not resource_list:
                return array_ops.constant([], dtype=dtypes.string)
            variables_mask = math_ops.logical_not(array_ops.stack([r.is_initialized for r in resource_list]))
            names = array_ops.constant([s.handle.name for s in resource_list])
            return array_ops.boolean_mask(names, variables_mask)


def initialize_resources(resource_list: Any, name: str = "init") -> Any:
    """An operation that makes resources."""
    if resource_list:
        return control_flow_ops.group(*[r.create for r in resource_list], name=name)
    return control_flow_ops.no_op(name=name)
