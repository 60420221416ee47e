# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Saveables of variables, and the conversion of arguments of a Saver into saveables."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

from millrace.python.framework import constant_op
from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.ops import array_ops
from millrace.python.ops import resource_variable_ops
from millrace.python.ops import state_ops
from millrace.python.ops import variables
from millrace.python.training.saving import saveable_object
from millrace.python.training.tracking import base as trackable
from millrace.python.util import nest

# Ops whose output is a reference to a variable.
_VARIABLE_OPS = frozenset(["Variable", "VariableV2", "AutoReloadVariable", "VarHandleOp", "ReadVariableOp"])


def set_cpu0(device_string: Any) -> str:
    """The device CPU:0 of the same task, which writes and reads files."""
    from millrace.python.framework import device as pydev

    parsed_device = pydev.DeviceSpec.from_string(device_string or "")
    parsed_device = parsed_device.replace(device_type="CPU", device_index=0)
    result: str = parsed_device.to_string()
    return result


class ReferenceVariableSaveable(saveable_object.SaveableObject):
    """Saveable of a reference variable or a part of one."""

    def __init__(self, var: Any, slice_spec: str, name: str) -> None:
        spec = saveable_object.SaveSpec(var, slice_spec, name, dtype=var.dtype)
        super().__init__(var, [spec], name)

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
        restored_tensor = restored_tensors[0]
        if restored_shapes is not None:
            restored_tensor = array_ops.reshape(restored_tensor, restored_shapes[0])
        return state_ops.assign(
            self.op,
            restored_tensor,
            validate_shape=restored_shapes is None and self.op.get_shape().is_fully_defined(),
        )


class ResourceVariableSaveable(saveable_object.SaveableObject):
    """Saveable of a resource variable or a part of one."""

    def __init__(self, var: Any, slice_spec: str, name: str) -> None:
        self._var_device = var.device
        self._var_shape = var.get_shape() if hasattr(var, "get_shape") else var.shape
        if isinstance(var, ops.Tensor):
            # A read of the variable.
            self.handle_op = var.op.inputs[0]
            tensor: Any = var
        elif resource_variable_ops.is_resource_variable(var):

            def read_variable() -> Any:
                with ops.device(var.device):
                    x = var.read_value()
                    # A copy on the variable's device, then one on the device that writes files.
                    with ops.device("/device:CPU:0"):
                        return array_ops.identity(x)

            self.handle_op = var.handle
            tensor = read_variable
        else:
            raise ValueError(
                "Saveable is neither a resource variable nor a read operation. Got: {}".format(repr(var))
            )
        spec = saveable_object.SaveSpec(tensor, slice_spec, name, dtype=var.dtype, device=var.device)
        super().__init__(var, [spec], name)

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
        restored_tensor = restored_tensors[0]
        if restored_shapes is not None:
            restored_tensor = array_ops.reshape(restored_tensor, restored_shapes[0])
        with ops.device(self._var_device):
            restored_tensor = array_ops.identity(restored_tensor)
            return resource_variable_ops.shape_safe_assign_variable_handle(
                self.handle_op, self._var_shape, restored_tensor
            )


class PythonStringStateSaveable(saveable_object.SaveableObject):
    """Saveable of a string that a Python function returns at each save."""

    def __init__(self, name: str, state_callback: Any, restore_callback: Any = None) -> None:
        self.state_callback = state_callback
        self.restore_callback = restore_callback
        with ops.device("/cpu:0"):
            self._save_string = constant_op.constant("", dtype=dtypes.string)
        spec = saveable_object.SaveSpec(self._save_string, "", name, dtype=dtypes.string)
        super().__init__(self._save_string, [spec], name)

    @property
    def optional_restore(self) -> bool:
        return True

    def feed_dict_additions(self) -> dict[Any, Any]:
        """The feeds when the state is saved."""
        return {self._save_string: self.state_callback()}

    def freeze(self) -> Any:
        """A saveable of the present state."""
        state = constant_op.constant(self.state_callback(), dtype=dtypes.string)
        return NoRestoreSaveable(tensor=state, dtype=dtypes.string, name=self.name, device="cpu:0")

    def python_restore(self, restored_strings: Any) -> None:
        if self.restore_callback:
            self.restore_callback(restored_strings[0])

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
        from millrace.python.ops import control_flow_ops

        return control_flow_ops.no_op()


class NoRestoreSaveable(saveable_object.SaveableObject):
    """Saves a tensor, and ignores it when a checkpoint is restored."""

    def __init__(self, tensor: Any, name: str, dtype: Any = None, device: Any = None) -> None:
        spec = saveable_object.SaveSpec(tensor, "", name, dtype=dtype, device=device)
        super().__init__(tensor, [spec], name)

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
        from millrace.python.ops import control_flow_ops

        return control_flow_ops.no_op()


def _slice_spec(variable: Any) -> tuple[str, str]:
    """Name in the checkpoint and slice of a part of a partitioned variable."""
    info = variable._save_slice_info
    return info.full_name, info.spec


def saveable_objects_for_op(op: Any, name: str) -> Iterator[Any]:
    """Yields the saveables of an argument of a Saver: a variable, its parts, a saveable, a Trackable.

    Raises:
      TypeError: if `name` is no string or `op` cannot be saved.
      ValueError: if parts do not belong to one variable.
    """
    if not isinstance(name, str):
        raise TypeError(
            "names_to_saveables must be a dict mapping string names to trackable operations. "
            "Name is not a string: %s" % name
        )
    if isinstance(op, saveable_object.SaveableObject):
        yield op
    elif isinstance(op, (list, tuple, variables.PartitionedVariable)):
        yield from _saveables_of_parts(op, name)
    elif isinstance(op, trackable.Trackable) and not isinstance(op, variables.Variable):
        for attr, factory in op._gather_saveables_for_checkpoint().items():
            full = name if attr == trackable.VARIABLE_VALUE_KEY else name + "_" + attr
            made = factory(full) if callable(factory) else factory
            yield from saveable_objects_for_op(op=made, name=full)
    else:
        yield _saveable_of_variable(op, name)


def _saveables_of_parts(op: Any, name: str) -> Iterator[Any]:
    parts = list(op)
    slice_name = None
    for variable in parts:
        if not isinstance(variable, variables.Variable):
            raise ValueError("Slices must all be Variables: %s" % variable)
        if not variable._save_slice_info:
            raise ValueError("Slices must all be slices: %s" % variable)
        if slice_name is None:
            slice_name = variable._save_slice_info.full_name
        elif slice_name != variable._save_slice_info.full_name:
            raise ValueError(
                "Slices must all be from the same tensor: %s != %s"
                % (slice_name, variable._save_slice_info.full_name)
            )
        if isinstance(variable, variables.RefVariable):
            yield ReferenceVariableSaveable(variable, variable._save_slice_info.spec, name)
        else:
            yield ResourceVariableSaveable(variable, variable._save_slice_info.spec, name)


def _saveable_of_variable(op: Any, name: str) -> Any:
    if resource_variable_ops.is_resource_variable(op):
        return ResourceVariableSaveable(op, "", name)
    with ops.init_scope():
        variable = ops.internal_convert_to_tensor(op, as_ref=True)
        if not _tensor_comes_from_variable(variable):
            raise TypeError(
                "names_to_saveables must be a dict mapping string names to Tensors/Variables. Not a variable: %s"
                % variable
            )
        if variable.op.type in ["Variable", "VariableV2", "AutoReloadVariable"]:
            return ReferenceVariableSaveable(variable, "", name)
        return ResourceVariableSaveable(variable, "", name)


def _tensor_comes_from_variable(v: Any) -> bool:
    return isinstance(v, ops.Tensor) and v.op.type in _VARIABLE_OPS


def op_list_to_dict(op_list: Any, convert_variable_to_tensor: bool = True) -> dict[str, Any]:
    """A dict from names in checkpoints to saved objects, for a list of variables; parts of one are gathered.

    Raises:
      TypeError: if an element is no variable.
      ValueError: if two have the same name.
    """
    if not isinstance(op_list, (list, tuple, set)):
        raise TypeError("Variables to save should be passed in a dict or a list: %s" % op_list)
    names_to_saveables: dict[str, Any] = {}
    for var in _by_name(op_list):
        resource_or_ref = isinstance(var, variables.Variable)
        if isinstance(var, saveable_object.SaveableObject):
            names_to_saveables[var.name] = var
        elif isinstance(var, variables.PartitionedVariable):
            if var.name in names_to_saveables:
                raise ValueError("At least two variables have the same name: %s" % var.name)
            names_to_saveables[var.name] = var
        elif resource_or_ref and var._save_slice_info:
            name = var._save_slice_info.full_name
            if name in names_to_saveables:
                if not isinstance(names_to_saveables[name], list):
                    raise ValueError("Mixing slices and non-slices with the same name: %s" % name)
                names_to_saveables[name].append(var)
            else:
                names_to_saveables[name] = [var]
        elif isinstance(var, trackable.Trackable) and not resource_or_ref:
            for attr, factory in var._gather_saveables_for_checkpoint().items():
                made = factory(attr) if callable(factory) else factory
                name = getattr(made, "name", attr)
                names_to_saveables[name] = made
        else:
            name, saved = _named_variable(var)
            if name in names_to_saveables:
                raise ValueError("At least two variables have the same name: %s" % name)
            names_to_saveables[name] = saved if convert_variable_to_tensor else var
    return names_to_saveables


def _named_variable(var: Any) -> tuple[str, Any]:
    if resource_variable_ops.is_resource_variable(var):
        return str(var._shared_name if hasattr(var, "_shared_name") else var.op.name), var
    with ops.init_scope():
        saved = ops.internal_convert_to_tensor(var, as_ref=True)
    if not _tensor_comes_from_variable(saved):
        raise TypeError("Variable to save is not a Variable: %s" % saved)
    if saved.op.type == "ReadVariableOp":
        return str(saved.op.inputs[0].op.name), saved
    return str(saved.op.name), saved


def _by_name(op_list: Any) -> list[Any]:
    """The variables of nested lists sorted by name, so that the graph does not depend on the order given."""
    flat = nest.flatten(list(op_list))
    for variable in flat:
        if not hasattr(variable, "name"):
            raise TypeError("Variable to save is not a Variable: %s" % (variable,))
    return sorted(flat, key=lambda v: str(v.name))


def _add_saveable(saveables: list[Any], seen_ops: Any, saveable: Any) -> None:
    if id(saveable.op) in seen_ops:
        raise ValueError("The same saveable will be restored with two names: %s" % saveable.name)
    saveables.append(saveable)
    # Kept alive, so that no other object gets its id.
    seen_ops[id(saveable.op)] = saveable.op


def validate_and_slice_inputs(names_to_saveables: Any) -> list[Any]:
    """The saveables of a dict or list of variables, sorted by name.

    Raises:
      TypeError: if something cannot be saved.
      ValueError: if something is saved under two names, or two things under one.
    """
    if not isinstance(names_to_saveables, dict):
        names_to_saveables = op_list_to_dict(names_to_saveables)
    saveables: list[Any] = []
    seen_ops: Any = collections.OrderedDict()
    for name, op in sorted(names_to_saveables.items(), key=lambda item: str(item[0])):
        for converted in saveable_objects_for_op(op, name):
            _add_saveable(saveables, seen_ops, converted)
    return saveables


def unknown_shapes(count: int) -> list[Any]:
    """`count` unknown shapes."""
    return [tensor_shape.TensorShape(None)] * count
