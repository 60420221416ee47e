# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The part of Graph that keeps the scopes of new operations: names, devices, control inputs, attributes."""
from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Iterator

from millrace.python.framework import device as pydev
from millrace.python.framework._operation import Operation
from millrace.python.framework._tensor import Tensor

if TYPE_CHECKING:  # members of the class of graphs that are defined elsewhere
    from millrace.python._engine import GraphBase as _Base
else:
    _Base = object


class _DeviceScope:
    """An entry of the stack of device scopes."""

    __slots__ = ("function", "display_name", "lineno", "filename")

    def __init__(self, device_name_or_function: Any) -> None:
        self.display_name = str(device_name_or_function)
        if callable(device_name_or_function) and not isinstance(device_name_or_function, pydev.MergeDevice):
            self.function = device_name_or_function
        else:
            self.function = pydev.merge_device(device_name_or_function)


class _Stacks:
    """The stacks of a graph's scopes."""

    def __init__(self) -> None:
        self.devices: list[_DeviceScope | None] = []
        self.controls: list[Any] = []
        self.colocation: list[Any] = []


class _ThreadStacks(threading.local):
    """As _Stacks for each thread, initially a copy of the shared stacks."""

    def __init__(self, start: _Stacks) -> None:
        self.devices = list(start.devices)
        self.controls = list(start.controls)
        self.colocation = list(start.colocation)


class GraphScopes(_Base):
    """Base of Graph."""

    _container: str

    def _init_scopes(self) -> None:
        self._stacks: Any = _Stacks()
        self._stack_state_is_thread_local = False
        self._attr_scope_map: dict[str, Any] = {}
        self._op_to_kernel_label_map: dict[str, str] = {}
        self._gradient_override_map: dict[str, str] = {}
        self._default_original_op: Any = None
        self._scope_exit_callbacks: Any = None
        self._variable_creator_stack: list[Any] = []  # (priority, creator), outermost first

    @contextmanager
    def _slow(self) -> Iterator[None]:
        """Marks that new operations depend on scopes, so the fast path is not used."""
        self._slow_reasons += 1
        try:
            yield
        finally:
            self._slow_reasons -= 1

    def switch_to_thread_local(self) -> None:
        """From now on each thread has device, control input and colocation scopes of its own."""
        if not self._stack_state_is_thread_local:
            self._stack_state_is_thread_local = True
            self._slow_reasons += 1
            self._stacks = _ThreadStacks(self._stacks)

    # --- Names

    def get_name_scope(self) -> str:
        """The current name scope."""
        return self._name_stack

    @contextmanager
    def name_scope(self, name: Any) -> Iterator[str]:
        """Operations made in the context have names that begin with `name` and '/'.

        A name that ends with '/' is taken as it is; None or "" resets the scope.
        """
        if name:
            if isinstance(name, bytes):
                name = name.decode()
            from millrace.python.framework._graph import _VALID_OP_NAME_REGEX, _VALID_SCOPE_NAME_REGEX

            regex = _VALID_SCOPE_NAME_REGEX if self._name_stack else _VALID_OP_NAME_REGEX
            if not regex.match(name):
                raise ValueError("'%s' is not a valid scope name" % name)
        old_stack = self._name_stack
        if not name:
            new_stack = ""
        elif name[-1] == "/":
            new_stack = name[:-1]
        else:
            new_stack = self.unique_name(name)
        self._name_stack = new_stack
        try:
            yield "" if not new_stack else new_stack + "/"
        finally:
            self._name_stack = old_stack

    # --- Devices

    @contextmanager
    def device(self, device_name_or_function: Any) -> Iterator[None]:
        """Requests a device for operations made in the context: a name, a DeviceSpec, a function of the operation, or None."""
        self._add_device_to_stack(device_name_or_function)
        old = self._stacks.devices
        self._slow_reasons += 1
        try:
            yield
        finally:
            self._slow_reasons -= 1
            if self._stacks.devices is not old:
                raise RuntimeError("Exiting device scope without proper scope nesting.")
            old.pop()

    def _add_device_to_stack(self, device_name_or_function: Any, offset: int = 0) -> Any:
        spec = None if device_name_or_function is None else _DeviceScope(device_name_or_function)
        self._stacks.devices.append(spec)
        return spec

    @property
    def _device_function_stack(self) -> Any:
        return _DeviceStack(self._stacks.devices)

    @_device_function_stack.setter
    def _device_function_stack(self, stack: Any) -> None:
        self._stacks.devices = list(stack.entries)

    @property
    def _device_functions_outer_to_inner(self) -> tuple[Any, ...]:
        found: list[Any] = []
        for spec in self._stacks.devices:
            if spec is None:
                found = []
            else:
                found.append(spec.function)
        return tuple(found)

    def _apply_device_functions(self, op: Any) -> None:
        for spec in reversed(self._stacks.devices):
            if spec is None:
                break
            op._set_device(spec.function(op))

    # --- Colocation

    @contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        """Operations made in the context are placed with `op`; None ends outer scopes."""
        from millrace.python.framework import ops

        if op is None and not ignore_existing:
            raise ValueError("Trying to reset colocation (op is None) but ignore_existing is not True")
        op = ops._op_to_colocate_with(op, self)
        # Devices of outer scopes are ignored: the device of the operation applies.
        old_devices = self._stacks.devices
        self._stacks.devices = []
        old_colocation = self._stacks.colocation
        if ignore_existing:
            self._stacks.colocation = []
        if op is not None:
            self._stacks.colocation = self._stacks.colocation + [op]
        self._slow_reasons += 1
        try:
            yield
        finally:
            self._slow_reasons -= 1
            self._stacks.devices = old_devices
            self._stacks.colocation = old_colocation

    @property
    def _colocation_stack(self) -> Any:
        return self._stacks.colocation

    @_colocation_stack.setter
    def _colocation_stack(self, stack: Any) -> None:
        self._stacks.colocation = stack

    def _apply_colocation(self, op: Any) -> None:
        if not self._stacks.colocation:
            return
        groups: list[bytes] = []
        for other in self._stacks.colocation:
            groups.extend(other.colocation_groups())
            if other.device:
                op._set_device(other.device)
        op._set_attr_value("_class", sorted(set(groups)))

    # --- Control inputs

    def control_dependencies(self, control_inputs: Any) -> Any:
        """Operations made in the context run after `control_inputs`; None ends outer scopes."""
        from millrace.python.framework import ops

        if control_inputs is None:
            return _ControlDependenciesController(self, None)
        control_ops: list[Any] = []
        current = self._current_control_dependencies()
        for c in control_inputs:
            # An IndexedSlices or a variable represents its operation.
            if hasattr(c, "_handle") and hasattr(c, "op") and not isinstance(c, (Tensor, Operation)):
                c = c.op
            if hasattr(c, "values") and hasattr(c, "indices") and not isinstance(c, (Tensor, Operation)):
                c = c.values if isinstance(c.values, Tensor) else c
                if not isinstance(c, Tensor):
                    c = c.op
            c = self.as_graph_element(c)
            if isinstance(c, Tensor):
                c = c.op
            elif not isinstance(c, ops.Operation):
                raise TypeError("Control input must be Operation or Tensor: %s" % c)
            if c not in current:
                control_ops.append(c)
                current.add(c)
        return _ControlDependenciesController(self, control_ops)

    @property
    def _control_dependencies_stack(self) -> list[Any]:
        return self._stacks.controls

    @_control_dependencies_stack.setter
    def _control_dependencies_stack(self, stack: list[Any]) -> None:
        self._stacks.controls = stack

    def _current_control_dependencies(self) -> set[Any]:
        return {op for controller in self._stacks.controls for op in controller.control_inputs}

    def _push_control_dependencies_controller(self, controller: Any) -> None:
        self._slow_reasons += 1
        self._stacks.controls.append(controller)

    def _pop_control_dependencies_controller(self, controller: Any) -> None:
        assert self._stacks.controls[-1] is controller
        self._slow_reasons -= 1
        self._stacks.controls.pop()

    def _control_dependencies_for_inputs(self, input_ops: Any) -> list[Any]:
        found: list[Any] = []
        for controller in self._stacks.controls:
            # An input that was made in the scope has its control inputs already.
            if not any(controller.op_in_group(op) for op in input_ops):
                found.extend(c for c in controller.control_inputs if c not in input_ops)
        return found

    def _record_op_seen_by_control_dependencies(self, op: Any) -> None:
        for controller in self._stacks.controls:
            controller.add_op(op)

    # --- Attributes

    @contextmanager
    def _attr_scope(self, attr_map: dict[str, Any]) -> Iterator[None]:
        """Operations made in the context get attributes: AttrValues, functions of a NodeDef that return one, or None."""
        if not isinstance(attr_map, dict):
            raise TypeError("attr_map must be a dictionary mapping strings to Callable or AttrValue")
        from millrace.core.framework import attr_value_pb2

        for name, attr in attr_map.items():
            if not (
                isinstance(name, str)
                and (attr is None or callable(attr) or isinstance(attr, attr_value_pb2.AttrValue))
            ):
                raise TypeError(
                    "attr_map must be a dictionary mapping strings to AttrValue protocol buffers or callables that emit "
                    "AttrValue protocol buffers."
                )
        old = dict(self._attr_scope_map)
        for name, attr in attr_map.items():
            if attr is None:
                self._attr_scope_map.pop(name, None)
            else:
                self._attr_scope_map[name] = attr
        with self._slow():
            try:
                yield
            finally:
                self._attr_scope_map = old

    @contextmanager
    def _kernel_label_map(self, op_to_kernel_label_map: dict[str, str]) -> Iterator[None]:
        """Operations made in the context use kernels with a label, by type of op."""
        yield from self._with_map("_op_to_kernel_label_map", op_to_kernel_label_map, "op_to_kernel_label_map")

    @contextmanager
    def gradient_override_map(self, op_type_map: dict[str, str]) -> Iterator[None]:
        """Operations made in the context have the gradient of another op: {"Sqrt": "MySqrt"}."""
        yield from self._with_map("_gradient_override_map", op_type_map, "op_type_map")

    def _with_map(self, attribute: str, changes: dict[str, str], argument: str) -> Iterator[None]:
        if not isinstance(changes, dict):
            raise TypeError("%s must be a dictionary mapping strings to strings" % argument)
        for key, value in changes.items():
            if not (isinstance(key, str) and isinstance(value, str)):
                raise TypeError("%s must be a dictionary mapping strings to strings" % argument)
        old = getattr(self, attribute)
        setattr(self, attribute, {**old, **changes})
        with self._slow():
            try:
                yield
            finally:
                setattr(self, attribute, old)

    @contextmanager
    def _original_op(self, op: Any) -> Iterator[None]:
        """Operations made in the context belong to the gradient of `op`."""
        old = self._default_original_op
        self._default_original_op = op
        with self._slow():
            try:
                yield
            finally:
                self._default_original_op = old

    def _apply_attr_scopes(self, op: Any) -> None:
        if self._default_original_op is not None:
            op._original_op = self._default_original_op
        for key, value in self._attr_scope_map.items():
            try:
                op._get_attr(key)
            except ValueError:
                if callable(value):
                    value = value(op.node_def)
                if value:
                    op._set_attr(key, value)
        label = self._op_to_kernel_label_map.get(op.type)
        if label is not None:
            op._set_attr_value("_kernel", label)
        mapped = self._gradient_override_map.get(op.type)
        if mapped is not None:
            op._set_attr_value("_gradient_op_type", mapped)

    @contextmanager
    def _variable_creator_scope(self, creator: Any, priority: int = 100) -> Iterator[None]:
        """Variables made in the context are made by `creator(next_creator, **kwargs)`."""
        old = self._variable_creator_stack
        self._variable_creator_stack = sorted(old + [(priority, creator)], key=lambda entry: entry[0])
        try:
            yield
        finally:
            self._variable_creator_stack = old

    # --- Containers

    @contextmanager
    def container(self, container_name: str) -> Iterator[str]:
        """Variables and queues made in the context live in a container, which Session.reset empties."""
        old = self._container
        self._container = container_name
        with self._slow():
            try:
                yield self._container
            finally:
                self._container = old

    def _apply_container(self, op: Any) -> None:
        if not self._container:
            return
        try:
            if op._get_attr("container"):
                return
        except ValueError:
            return
        if op._is_stateful:
            op._set_attr_value("container", self._container)

    def _get_control_flow_context(self) -> Any:
        return self._control_flow_context

    def _set_control_flow_context(self, ctx: Any) -> None:
        self._control_flow_context = ctx

    def _copy_functions_to_graph_def(self, graph_def: Any, starting_bytesize: int) -> None:
        for function in self._functions.values():
            graph_def.library.function.extend([function.definition])


class _DeviceStack:
    """A view of the stack of device scopes, whose objects are in the order innermost first."""

    def __init__(self, entries: list[Any]) -> None:
        self.entries = entries

    def peek_objs(self) -> list[Any]:
        return list(reversed(self.entries))

    def peek_top_obj(self) -> Any:
        return self.entries[-1]

    def copy(self) -> _DeviceStack:
        return _DeviceStack(list(self.entries))


class _ControlDependenciesController:
    """The context of control_dependencies."""

    def __init__(self, graph: Any, control_inputs: Any) -> None:
        self._graph = graph
        self._new_stack = control_inputs is None
        self._control_inputs_val = [] if control_inputs is None else control_inputs
        self._seen_nodes: set[Any] = set()
        self._old_stack: Any = None
        self._old_control_flow_context: Any = None

    def __enter__(self) -> None:
        if self._new_stack:
            # Outer control dependencies and control flow contexts do not apply in this context.
            self._old_stack = self._graph._control_dependencies_stack
            self._graph._control_dependencies_stack = []
            self._old_control_flow_context = self._graph._get_control_flow_context()
            self._graph._set_control_flow_context(None)
        self._graph._push_control_dependencies_controller(self)

    def __exit__(self, unused_type: Any, unused_value: Any, unused_traceback: Any) -> None:
        self._graph._pop_control_dependencies_controller(self)
        if self._new_stack:
            self._graph._control_dependencies_stack = self._old_stack
            self._graph._set_control_flow_context(self._old_control_flow_context)

    @property
    def control_inputs(self) -> list[Any]:
        return self._control_inputs_val

    def add_op(self, op: Any) -> None:
        self._seen_nodes.add(op)

    def op_in_group(self, op: Any) -> bool:
        return op in self._seen_nodes
