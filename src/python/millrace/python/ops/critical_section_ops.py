# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions that run one at a time."""
from __future__ import annotations

import collections
from typing import Any, Optional

from millrace.python.framework import dtypes, ops
from millrace.python.ops import array_ops, control_flow_ops, gen_resource_variable_ops, tensor_array_ops
from millrace.python.util import nest, object_identity

# The record of each execution, kept in a collection.
_ExecutionSignature = collections.namedtuple(
    "_ExecutionSignature", ("op", "handle", "resources", "exclusive_resource_access")
)
CRITICAL_SECTIONS = "critical_sections"
CRITICAL_SECTION_EXECUTIONS = "critical_section_executions"


def _identity(x: Any) -> Any:
    if isinstance(x, tensor_array_ops.TensorArray):
        return x.identity()
    if isinstance(x, ops.Operation):
        return control_flow_ops.group(x)
    return array_ops.identity(x)


class CriticalSection:
    """A mutual exclusion lock: functions executed in it run one at a time, across steps.

    Args:
      name: of the lock.
      shared_name: the name under which sessions of a server share it; by default its own.
      critical_section_def: not supported.
      import_scope: not supported.
    """

    def __init__(
        self,
        name: Optional[str] = None,
        shared_name: Optional[str] = None,
        critical_section_def: Any = None,
        import_scope: Any = None,
    ):
        if critical_section_def and name is not None:
            raise ValueError(
                "critical_section_def and shared_name are mutually exclusive."
                if shared_name is not None
                else "critical_section_def and name are mutually exclusive."
            )
        if critical_section_def:
            raise ValueError("critical_section_def is not supported.")
        del import_scope
        with ops.name_scope(name, "CriticalSection", []) as name:
            with ops.control_dependencies(None):
                container = ops.get_default_graph()._container
                if shared_name is None:
                    shared_name = name
                self._handle = gen_resource_variable_ops.mutex_v2(
                    shared_name=shared_name, container=container, name=name
                )
                self._signature = (container, shared_name)
        ops.add_to_collections(CRITICAL_SECTIONS, self)

    @property
    def name(self) -> str:
        """The name of the lock's op."""
        return str(self._handle.op.name)

    def execute(self, fn: Any, exclusive_resource_access: bool = True, name: Optional[str] = None) -> Any:
        """Returns what `fn()` returns, computed while the lock is held.

        Args:
          fn: a function without arguments that makes ops and returns a nested structure of tensors,
            operations, TensorArrays.
          exclusive_resource_access: whether the resources that `fn` uses may be used in no other lock.
          name: name scope.

        Raises:
          ValueError: `fn` enters the same critical section again (a deadlock), or another one uses the same
            resources.
        """
        with ops.name_scope(name, "critical_section_execute", []):
            with ops.control_dependencies([]):
                lock = gen_resource_variable_ops.mutex_lock(self._handle)
            # Captured tensors are computed before the lock is taken, tensors of the body after it.
            existing_ops = object_identity.ObjectIdentitySet(lock.graph.get_operations())
            with ops.control_dependencies([lock]):
                r = fn()
            created_ops = [op for op in lock.graph.get_operations() if op not in existing_ops]
            if self._is_self_handle_used(created_ops):
                raise ValueError(
                    "The function fn attempts to directly access the CriticalSection in which it would be running.  "
                    "This is illegal and would cause deadlocks."
                )
            resources = self._resources_of(created_ops, lock)
            signature = _ExecutionSignature(
                op=lock.op,
                handle=self._handle,
                resources=list(resources),
                exclusive_resource_access=exclusive_resource_access,
            )
            self._check_multiple_access_to_resources(resources, exclusive_resource_access)
            control_deps = self._wait_for_captured(created_ops, existing_ops, lock)
            self._add_control_dependencies_to_lock(control_deps, lock.op)
            # Results are copied, so that they may be used after the lock is released.
            flat = [_identity(x) if x is not None else None for x in nest.flatten(r, expand_composites=True)]
            with ops.control_dependencies([x for x in flat if x is not None] + created_ops):
                ensure_lock_exists = gen_resource_variable_ops.consume_mutex_lock(lock)
            with ops.control_dependencies([ensure_lock_exists]):
                flat = [_identity(x) if x is not None else None for x in flat]
            ops.add_to_collections(CRITICAL_SECTION_EXECUTIONS, signature)
            return nest.pack_sequence_as(r, flat, expand_composites=True)

    def _is_self_handle_used(self, created_ops: Any) -> bool:
        return any(x is self._handle for op in created_ops for x in op.inputs)

    def _resources_of(self, created_ops: Any, lock: Any) -> Any:
        """The resources that ops of `fn` read, by identity."""
        captured = object_identity.ObjectIdentitySet()
        for op in created_ops:
            for tensor in op.inputs:
                if (
                    tensor.dtype == dtypes.resource
                    and tensor is not self._handle
                    and tensor.op is not lock.op
                ):
                    captured.add(tensor)
        return captured

    def _check_multiple_access_to_resources(self, captured: Any, exclusive: bool) -> None:
        for sg in ops.get_collection(CRITICAL_SECTION_EXECUTIONS):
            if sg.handle is self._handle:
                continue
            if not (exclusive or sg.exclusive_resource_access):
                continue
            shared = [r for r in sg.resources if r in captured]
            if shared:
                raise ValueError(
                    "This execution would access resources: %s.  Either this lock (CriticalSection: %s) or lock '%s' "
                    "(CriticalSection: %s) requested exclusive resource access of this resource.  Did you mean to call "
                    "execute with keyword argument exclusive_resource_access=False?"
                    % (shared, self._handle, sg, sg.handle)
                )

    def _wait_for_captured(self, created_ops: Any, existing_ops: Any, lock: Any) -> list[Any]:
        """The ops from outside that `fn` reads: they run before the lock is taken."""
        found = object_identity.ObjectIdentitySet()
        for op in created_ops:
            for before in [t.op for t in op.inputs] + list(op.control_inputs):
                if before in existing_ops and before is not lock.op:
                    found.add(before)
        return [op for op in found if op.type not in ("Const", "Placeholder", "VarHandleOp")]

    def _add_control_dependencies_to_lock(self, control_deps: list[Any], lock_op: Any) -> None:
        """Adds control inputs to the lock, except operations that depend on the lock."""
        if not control_deps:
            return
        waiting = object_identity.ObjectIdentitySet([lock_op])
        for op in lock_op.graph.get_operations():
            if any(t.op in waiting for t in op.inputs) or any(c in waiting for c in op.control_inputs):
                waiting.add(op)
        lock_op._add_control_inputs([op for op in control_deps if op not in waiting])
