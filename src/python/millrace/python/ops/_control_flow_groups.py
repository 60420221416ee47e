# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Ops that only order others: groups, tuples and dependencies."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import indexed_slices
from millrace.python.framework import ops
from millrace.python.framework import tensor_util
from millrace.python.ops._control_flow_base import _Identity
from millrace.python.ops._control_flow_base import no_op
from millrace.python.util import nest


def with_dependencies(dependencies: Any, output_tensor: Any, name: str | None = None) -> Any:
    """Returns `output_tensor`, a tensor or IndexedSlices, after all of `dependencies` have run."""
    if ops.executing_eagerly():
        return output_tensor
    with ops.name_scope(name, "control_dependency", list(dependencies) + [output_tensor]) as name:
        with ops.colocate_with(output_tensor):
            with ops.control_dependencies(dependencies):
                output_tensor = ops.internal_convert_to_tensor_or_composite(output_tensor)
                if isinstance(output_tensor, indexed_slices.IndexedSlices):
                    return indexed_slices.IndexedSlices(
                        _Identity(output_tensor.values, name=name),
                        output_tensor.indices,
                        output_tensor.dense_shape,
                    )
                return _Identity(output_tensor, name=name)


def _GroupControlDeps(dev: Any, deps: Any, name: str | None = None) -> Any:
    with ops.control_dependencies(deps):
        if dev is None:
            return no_op(name=name)
        with ops.device(dev):
            return no_op(name=name)


def group(*inputs: Any, **kwargs: Any) -> Any:
    """Returns an op that finishes after all inputs (tensors, ops or structures of them) have run.

    Args:
      *inputs: tensors or operations.
      **kwargs: `name`.

    Raises:
      ValueError: another keyword argument.
      TypeError: an input is neither a tensor nor an operation.
    """
    name = kwargs.pop("name", None)
    if kwargs:
        raise ValueError("Unknown keyword arguments: " + ", ".join(kwargs.keys()))
    if ops.executing_eagerly():
        return None
    with ops.name_scope(name, "group_deps", inputs) as name:
        if not inputs:
            return no_op(name=name)
        ops_on_device: dict[Any, list[Any]] = {}
        for inp in nest.flatten(inputs, expand_composites=True):
            if not hasattr(inp, "device"):
                raise TypeError(
                    "Expected tf.group() expected Tensor objects not '%s' with type '%s'" % (inp, type(inp))
                )
            ops_on_device.setdefault(inp.device, []).append(inp)
        if len(ops_on_device) == 1:
            ((dev, deps),) = ops_on_device.items()
            return _GroupControlDeps(dev, deps, name=name)
        # One op on each device keeps the number of edges between devices small.
        grouped = [
            _GroupControlDeps(dev, ops_on_device[dev])
            for dev in sorted(ops_on_device, key=lambda dev: "" if dev is None else dev)
        ]
        with ops.control_dependencies(grouped):
            return no_op(name=name)


def tuple(tensors: Any, name: str | None = None, control_inputs: Any = None) -> Any:
    """Returns a list like `tensors` whose elements are available only once all of `tensors` are computed.

    Args:
      tensors: tensors or IndexedSlices; None stays None.
      name: name scope.
      control_inputs: more ops to wait for.

    Raises:
      ValueError: there is no tensor.
      TypeError: a control input is neither a tensor nor an operation.
    """
    if ops.executing_eagerly():
        return tensors
    with ops.name_scope(name, "tuple", tensors) as name:
        tensors = [
            t
            if isinstance(t, ops.Operation) or tensor_util.is_tensor(t) or t is None
            else ops.convert_to_tensor(t)
            for t in tensors
        ]
        gating_ops = [t if isinstance(t, ops.Operation) else t.op for t in tensors if t is not None]
        for c in control_inputs or ():
            if isinstance(c, ops.Tensor):
                c = c.op
            elif not isinstance(c, ops.Operation):
                raise TypeError("Control input must be Operation or Tensor: %s" % c)
            gating_ops.append(c)
        gating_ops = sorted(set(gating_ops), key=lambda op: op._id)
        if not gating_ops:
            raise ValueError("Must have at least one Tensor: %s" % tensors)
        gate = group(*gating_ops)
        tpl: list[Any] = []
        for t in tensors:
            if tensor_util.is_tensor(t):
                tpl.append(with_dependencies([gate], t))
            elif isinstance(t, ops.Operation):
                with ops.control_dependencies([gate]):
                    tpl.append(group(t))
            else:
                tpl.append(None)
        return tpl


tuple_v2 = tuple
