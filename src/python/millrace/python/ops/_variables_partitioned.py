# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A variable that is several variables, parts of it along one axis."""

from __future__ import annotations

from typing import Any, Iterator

from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.ops import array_ops


class PartitionedVariable:
    """A container of variables that are slices of one; it converts to their concatenation."""

    def __init__(self, name: str, shape: Any, dtype: Any, variable_list: Any, partitions: Any) -> None:
        """Wraps the parts of a variable.

        Args:
          name: name of the whole.
          shape: shape of the whole.
          dtype: type of the elements.
          variable_list: the parts, with their slice information set.
          partitions: the number of parts along each axis.

        Raises:
          TypeError: `variable_list` or `partitions` is no list.
          ValueError: the parts do not fit.
        """
        if not isinstance(variable_list, (list, tuple)):
            raise TypeError("variable_list is not a list or tuple: %s" % variable_list)
        if not isinstance(partitions, (list, tuple)):
            raise TypeError("partitions is not a list or tuple: %s" % partitions)
        if not all(p >= 1 for p in partitions):
            raise ValueError("partition values must be positive: %s" % partitions)
        if not variable_list:
            raise ValueError("variable_list may not be empty")
        for v in variable_list:
            slice_info = v._get_save_slice_info()
            if not all(s is not None for s in (slice_info,)):
                raise ValueError(
                    "All variables must have a save_slice_info available: %s"
                    % [v.name for v in variable_list]
                )
            if len(shape) != len(partitions):
                raise ValueError("len(shape) != len(partitions): %s vs. %s" % (shape, partitions))
            if slice_info.full_shape != shape:
                raise ValueError(
                    "All variables' full shapes must match shape: %s; but full shapes were: %s"
                    % (shape, str([v._get_save_slice_info().full_shape for v in variable_list]))
                )
        self._variable_list = sorted(variable_list, key=lambda v: v._get_save_slice_info().var_offset)
        self._name = name
        self._shape = shape
        self._dtype = dtype
        self._partitions = partitions
        self._as_tensor: Any = None

    def __iter__(self) -> Iterator[Any]:
        return iter(self._variable_list)

    def __len__(self) -> int:
        num_partition_axes = len(self._partition_axes())
        if num_partition_axes > 1:
            raise ValueError("Cannot get a length for %d > 1 partition axes" % num_partition_axes)
        return len(self._variable_list)

    def _partition_axes(self) -> list[int]:
        if all(p == 1 for p in self._partitions):
            return [0]
        return [i for i, p in enumerate(self._partitions) if p > 1]

    def _concat(self) -> Any:
        """The whole as one tensor."""
        if len(self._variable_list) == 1:
            with ops.name_scope(None):
                return array_ops.identity(self._variable_list[0], name=self._name)
        partition_axes = self._partition_axes()
        if len(partition_axes) > 1:
            raise NotImplementedError(
                "Cannot concatenate along more than one dimension: %s.  Multi-axis partition concat is not supported"
                % str(partition_axes)
            )
        partition_ix = partition_axes[0]
        with ops.name_scope(self._name + "/ConcatPartitions/"):
            concatenated = array_ops.concat(self._variable_list, partition_ix)
        with ops.name_scope(None):
            return array_ops.identity(concatenated, name=self._name)

    def as_tensor(self) -> Any:
        """Returns the concatenation of the parts."""
        with ops.control_dependencies(None):
            return self._concat()

    @staticmethod
    def _TensorConversionFunction(
        v: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False
    ) -> Any:
        del name
        if dtype is not None and not dtype.is_compatible_with(v.dtype):
            raise ValueError(
                "Incompatible type conversion requested to type '%s' for variable of type '%s'"
                % (dtype.name, v.dtype.name)
            )
        if as_ref:
            raise NotImplementedError("PartitionedVariable doesn't support being used as a reference.")
        return v.as_tensor()

    @property
    def name(self) -> str:
        """Name of the whole."""
        return self._name

    @property
    def dtype(self) -> Any:
        """Type of the elements."""
        return self._dtype

    @property
    def shape(self) -> Any:
        """Shape of the whole."""
        return self.get_shape()

    @property
    def _distribute_strategy(self) -> Any:
        return None

    def get_shape(self) -> Any:
        """Shape of the whole."""
        return tensor_shape.TensorShape(self._shape)

    def _get_variable_list(self) -> Any:
        return self._variable_list

    def _get_partitions(self) -> Any:
        return self._partitions

    def _apply_assign_fn(self, assign_fn: Any, value: Any) -> list[Any]:
        partition_axes = self._partition_axes()
        if len(partition_axes) > 1:
            raise NotImplementedError(
                "Cannot do assign action along more than one dimension: %s." % str(partition_axes)
            )
        axis = partition_axes[0]
        if isinstance(value, list):
            values = value
        elif isinstance(value, PartitionedVariable):
            values = list(value)
        else:
            sizes = [v.shape.as_list()[axis] for v in self._variable_list]
            values = array_ops.split(
                ops.convert_to_tensor(value, dtype=self._dtype.base_dtype), sizes, axis=axis
            )
        return [assign_fn(var, values[i]) for i, var in enumerate(self._variable_list)]

    def assign(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Sets the parts; returns their new values or the ops."""
        assigned = self._apply_assign_fn(
            lambda var, r: var.assign(r, use_locking=use_locking, name=name, read_value=read_value), value
        )
        return assigned if read_value else [v if isinstance(v, ops.Operation) else v.op for v in assigned]

    def assign_add(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Adds to the parts; returns their new values or the ops."""
        return self._apply_assign_fn(
            lambda var, r: var.assign_add(r, use_locking=use_locking, name=name, read_value=read_value), value
        )

    def assign_sub(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Subtracts from the parts; returns their new values or the ops."""
        return self._apply_assign_fn(
            lambda var, r: var.assign_sub(r, use_locking=use_locking, name=name, read_value=read_value), value
        )


def _partitioned_operator(operator: str) -> Any:
    def run(a: Any, *args: Any) -> Any:
        return getattr(ops.Tensor, operator)(a.as_tensor(), *args)

    run.__name__ = operator
    return run


for _operator in ops.Tensor.OVERLOADABLE_OPERATORS:
    if _operator not in ("__eq__", "__ne__"):
        setattr(PartitionedVariable, _operator, _partitioned_operator(_operator))

ops.register_tensor_conversion_function(PartitionedVariable, PartitionedVariable._TensorConversionFunction)
ops.register_dense_tensor_like_type(PartitionedVariable)
