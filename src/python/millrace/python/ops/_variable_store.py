# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The variables of a graph that tf.get_variable made, by name."""

from __future__ import annotations

import collections.abc
import enum
import inspect
import traceback
from typing import Any, Iterator

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.ops import array_ops
from millrace.python.ops import init_ops
from millrace.python.ops import resource_variable_ops
from millrace.python.ops import variables
from millrace.python.ops._variable_slices import _call_partitioner
from millrace.python.ops._variable_slices import _get_slice_dim_and_num_slices
from millrace.python.ops._variable_slices import _iter_slices
from millrace.python.util import function_utils


class _ReuseMode(enum.Enum):
    """The value of `reuse` besides True, False and None: AUTO_REUSE makes variables that do not exist."""

    AUTO_REUSE = 1


AUTO_REUSE = _ReuseMode.AUTO_REUSE


class _Defaults:
    use_resource = False


class _PartitionInfo:
    """Shape and offset of the part of a variable that an initializer makes."""

    def __init__(self, full_shape: Any, var_offset: Any) -> None:
        """Keeps the shape of the whole and the offset of the part.

        Raises:
          TypeError: an argument is no sequence.
          ValueError: they do not fit.
        """
        if not isinstance(full_shape, collections.abc.Sequence) or isinstance(full_shape, str):
            raise TypeError(
                "`full_shape` must be a sequence (like tuple or list) instead of " + type(full_shape).__name__
            )
        if not isinstance(var_offset, collections.abc.Sequence) or isinstance(var_offset, str):
            raise TypeError(
                "`var_offset` must be a sequence (like tuple or list) instead of " + type(var_offset).__name__
            )
        if len(var_offset) != len(full_shape):
            raise ValueError(
                "Expected equal length, but `var_offset` is of length {} while full_shape is of length {}.".format(
                    len(var_offset), len(full_shape)
                )
            )
        for offset, shape in zip(var_offset, full_shape):
            if offset < 0 or offset >= shape:
                raise ValueError(
                    "Expected 0 <= offset < shape but found offset={}, shape={}".format(offset, shape)
                )
        self._full_shape = full_shape
        self._var_offset = var_offset

    @property
    def full_shape(self) -> Any:
        """Shape of the whole."""
        return self._full_shape

    @property
    def var_offset(self) -> Any:
        """Offset of the part."""
        return self._var_offset

    def _check_shape(self, shape: Any) -> None:
        if not isinstance(shape, collections.abc.Sequence) or isinstance(shape, str):
            raise TypeError(
                "`shape` must be a sequence (like tuple or list) instead of " + type(shape).__name__
            )
        if len(shape) != len(self.full_shape):
            raise ValueError(
                "Expected equal length, but received shape={} of length {} while self.full_shape={} is of length"
                " {}.".format(shape, len(shape), self.full_shape, len(self.full_shape))
            )

    def single_offset(self, shape: Any) -> int:
        """The offset along the axis that is cut; 0 where none is."""
        single = self.single_slice_dim(shape)
        return 0 if single is None else self.var_offset[single]

    def single_slice_dim(self, shape: Any) -> int | None:
        """The axis that is cut, None where none is; ValueError where several are."""
        self._check_shape(shape)
        slice_dim = None
        for i, size in enumerate(self.full_shape):
            if self.var_offset[i] + shape[i] > size:
                raise ValueError(
                    "With self.var_offset={}, a partition of shape={} would exceed self.full_shape={} in dimension"
                    " {}.".format(self.var_offset, shape, self.full_shape, i)
                )
            if shape[i] == size:
                continue
            if slice_dim is not None:
                raise ValueError(
                    "Cannot use single_slice_dim() with shape={} and self.full_shape={} since slice dim could be"
                    " either dimension {} or {}.".format(shape, self.full_shape, i, slice_dim)
                )
            slice_dim = i
        return slice_dim


def _parameters(fn: Any) -> tuple[list[str], bool]:
    """The names of a function's parameters, and whether it can be called without arguments."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return [], False
    positional = [
        p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    return [p.name for p in positional], all(p.default is not p.empty for p in positional)


class _VariableStore:
    """Makes variables, and finds them again."""

    def __init__(self) -> None:
        self._vars: dict[str, Any] = {}
        self._partitioned_vars: dict[str, Any] = {}
        self._store_eager_variables = False

    def get_variable(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = dtypes.float32,
        initializer: Any = None,
        regularizer: Any = None,
        reuse: Any = None,
        trainable: Any = None,
        collections: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        validate_shape: bool = True,
        use_resource: Any = None,
        custom_getter: Any = None,
        constraint: Any = None,
        synchronization: Any = variables.VariableSynchronization.AUTO,
        aggregation: Any = variables.VariableAggregation.NONE,
    ) -> Any:
        """Returns the variable `name`: an existing one if `reuse`, else a new one.

        The arguments are those of tf.get_variable; `name` is the full name.

        Raises:
          ValueError: the variable exists but `reuse` is not set, does not exist but must be reused, or has
            another shape or type.
        """
        if custom_getter is not None and not callable(custom_getter):
            raise ValueError("Passed a custom_getter which is not callable: %s" % custom_getter)
        dtype = getattr(dtype, "base_dtype", dtype)
        synchronization, aggregation, trainable = variables.validate_synchronization_aggregation_trainable(
            synchronization, aggregation, trainable, name
        )
        arguments = {
            "name": name,
            "shape": shape,
            "dtype": dtype,
            "initializer": initializer,
            "regularizer": regularizer,
            "reuse": reuse,
            "trainable": trainable,
            "collections": collections,
            "caching_device": caching_device,
            "partitioner": partitioner,
            "validate_shape": validate_shape,
            "use_resource": use_resource,
            "synchronization": synchronization,
            "aggregation": aggregation,
        }
        if custom_getter is None:
            return self._true_getter(constraint=constraint, **arguments)
        # Getters that were written before constraints existed do not take them.
        if "constraint" in function_utils.fn_args(custom_getter) or function_utils.has_kwargs(custom_getter):
            arguments["constraint"] = constraint
        return custom_getter(getter=self._true_getter, **arguments)

    def _true_getter(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = dtypes.float32,
        initializer: Any = None,
        regularizer: Any = None,
        reuse: Any = None,
        trainable: Any = None,
        collections: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        validate_shape: bool = True,
        use_resource: Any = None,
        constraint: Any = None,
        synchronization: Any = variables.VariableSynchronization.AUTO,
        aggregation: Any = variables.VariableAggregation.NONE,
    ) -> Any:
        """The default getter, which custom getters call last."""
        if ops.executing_eagerly():
            use_resource = True
            reuse = AUTO_REUSE if self._store_eager_variables else False
        arguments = {
            "name": name,
            "shape": shape,
            "dtype": dtype,
            "initializer": initializer,
            "regularizer": regularizer,
            "reuse": reuse,
            "trainable": trainable,
            "collections": collections,
            "caching_device": caching_device,
            "validate_shape": validate_shape,
            "use_resource": use_resource,
            "constraint": constraint,
            "synchronization": synchronization,
            "aggregation": aggregation,
        }
        is_scalar = shape is not None and isinstance(shape, collections_abc_sequence) and not shape
        if partitioner is not None and not is_scalar:
            if not callable(partitioner):
                raise ValueError("Partitioner must be callable, but received: %s" % partitioner)
            with ops.name_scope(None):
                return self._get_partitioned_variable(partitioner=partitioner, **arguments)
        if reuse is True and partitioner is None and name in self._partitioned_vars:
            return self._get_partitioned_variable(partitioner=None, **arguments)
        if "%s/part_0" % name in self._vars:
            raise ValueError(
                "No partitioner was provided, but a partitioned version of the "
                "variable was found: %s/part_0. Perhaps a variable of the same "
                "name was already created with partitioning?" % name
            )
        return self._get_single_variable(**arguments)

    def _check_partitioned(self, name: str, shape: Any, dtype: Any, partitions: Any, reuse: Any) -> Any:
        """The existing partitioned variable, None if there is none yet; errors as for single ones."""
        existing = self._partitioned_vars.get(name)
        if existing is None:
            if reuse is True:
                raise ValueError(
                    "PartitionedVariable %s does not exist, or was not "
                    "created with tf.get_variable(). Did you mean to set "
                    "reuse=False or reuse=tf.AUTO_REUSE in VarScope?" % name
                )
            return None
        if reuse is False:
            raise ValueError(
                "Partitioned variable with name %s already exists. Did you mean to "
                "set reuse=True or reuse=tf.AUTO_REUSE in VarScope?" % name
            )
        if not shape.is_compatible_with(existing.get_shape()):
            raise ValueError(
                "Trying to reuse partitioned variable %s, but specified shape %s "
                "and found shape %s." % (name, shape, existing.get_shape())
            )
        if not dtype.is_compatible_with(existing.dtype):
            raise ValueError(
                "Trying to reuse partitioned variable %s, but specified dtype %s "
                "and found dtype %s." % (name, dtype.name, existing.dtype.name)
            )
        if partitions is not None and existing._get_partitions() != partitions:
            raise ValueError(
                "Trying to reuse partitioned variable %s, but specified partitions "
                "%s and found partitions %s." % (name, partitions, existing._get_partitions())
            )
        return existing

    def _get_partitioned_variable(
        self, name: str, partitioner: Any, shape: Any, dtype: Any, initializer: Any, reuse: Any, **others: Any
    ) -> Any:
        """A variable in parts, each `name`/part_i."""
        initializing_from_value = initializer is not None and isinstance(initializer, ops.Tensor)
        if name in self._vars:
            raise ValueError(
                "A partitioner was provided, but an unpartitioned version of the "
                "variable was found: %s.  Perhaps a variable of the same name was "
                "already created without partitioning?" % name
            )
        dtype = dtypes.as_dtype(dtype)
        shape = tensor_shape.as_shape(shape)
        if initializing_from_value:
            shape = shape.merge_with(initializer.get_shape())
        partitions = _call_partitioner(partitioner, shape, dtype) if not reuse or partitioner else None
        existing = self._check_partitioned(name, shape, dtype, partitions, reuse)
        if existing is not None:
            return existing
        slice_dim, num_slices = _get_slice_dim_and_num_slices(partitions)
        if "%s/part_0" % name in self._vars:
            if "%s/part_%d" % (name, num_slices - 1) not in self._vars:
                raise ValueError(
                    "Partitioner returned a different partitioning than what was "
                    "already found.  Partitioner returned %d shards, and shard "
                    "%s/part_0 was found, but %s/part_%d was not." % (num_slices, name, name, num_slices - 1)
                )
            if "%s/part_%d" % (name, num_slices) in self._vars:
                raise ValueError(
                    "Partitioner returned a different partitioning than what was "
                    "already found.  Partitioner returned %d shards, and shard "
                    "%s/part_0 was found, but so was the extra shard %s/part_%d."
                    % (num_slices, name, name, num_slices)
                )
        parts = []
        for i, (var_offset, var_shape) in enumerate(_iter_slices(shape.as_list(), num_slices, slice_dim)):
            partition_info = _PartitionInfo(full_shape=shape.as_list(), var_offset=var_offset)
            var_full_name = "%s/part_%d" % (name, i)
            with ops.name_scope(var_full_name + "/PartitionedInitializer"):
                init, init_shape = initializer, var_shape
                if initializer is None:
                    init, from_value = self._get_default_initializer(name=name, shape=shape, dtype=dtype)
                    init_shape = None if from_value else var_shape  # type: ignore[assignment]
                elif not callable(initializer):
                    whole = (
                        initializer
                        if isinstance(initializer, ops.Tensor)
                        else ops.convert_to_tensor(initializer, dtype=dtype)
                    )
                    init = array_ops.slice(whole, var_offset, var_shape)
                    dtype = init.dtype.base_dtype
                    init_shape = None  # type: ignore[assignment]
            with ops.name_scope(None):
                var = self._get_single_variable(
                    name=var_full_name,
                    shape=init_shape,
                    dtype=dtype,
                    initializer=init,
                    partition_info=partition_info,
                    reuse=reuse,
                    **others,
                )
            var._set_save_slice_info(variables.SaveSliceInfo(name, shape.as_list(), var_offset, var_shape))
            parts.append(var)
        partitioned_var = variables.PartitionedVariable(
            name=name, shape=shape, dtype=dtype, variable_list=parts, partitions=partitions
        )
        self._partitioned_vars[name] = partitioned_var
        return partitioned_var

    def _existing_variable(self, name: str, shape: Any, dtype: Any, reuse: Any) -> Any:
        """The variable that exists, after checking that it fits."""
        found_var = self._vars[name]
        if reuse is False:
            err_msg = (
                "Variable %s already exists, disallowed."
                " Did you mean to set reuse=True or "
                "reuse=tf.AUTO_REUSE in VarScope?" % name
            )
            if isinstance(found_var, resource_variable_ops.ResourceVariable):
                raise ValueError(err_msg)
            tb = [x for x in found_var.op.traceback[::-1] if "millrace/python" not in x[0]][:5]
            raise ValueError(
                "%s Originally defined at:\n\n%s"
                % (err_msg, "".join(traceback.format_list([tuple(x)[:4] for x in tb])))  # type: ignore[misc]
            )
        if not shape.is_compatible_with(found_var.get_shape()):
            raise ValueError(
                "Trying to share variable %s, but specified shape %s"
                " and found shape %s." % (name, shape, found_var.get_shape())
            )
        if not dtype.is_compatible_with(found_var.dtype):
            raise ValueError(
                "Trying to share variable %s, but specified dtype %s"
                " and found dtype %s." % (name, dtype.name, found_var.dtype.name)
            )
        return found_var

    def _get_single_variable(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = dtypes.float32,
        initializer: Any = None,
        regularizer: Any = None,
        partition_info: Any = None,
        reuse: Any = None,
        trainable: Any = None,
        collections: Any = None,
        caching_device: Any = None,
        validate_shape: bool = True,
        use_resource: Any = None,
        constraint: Any = None,
        synchronization: Any = variables.VariableSynchronization.AUTO,
        aggregation: Any = variables.VariableAggregation.NONE,
    ) -> Any:
        """A variable in one piece."""
        from_value = initializer is not None and not callable(initializer)
        if shape is not None and from_value:
            raise ValueError("If initializer is a constant, do not specify shape.")
        dtype = dtypes.as_dtype(dtype)
        shape = tensor_shape.as_shape(shape)
        if name in self._vars:
            return self._existing_variable(name, shape, dtype, reuse)
        if reuse is True:
            raise ValueError(
                "Variable %s does not exist, or was not created with "
                "tf.get_variable(). Did you mean to set "
                "reuse=tf.AUTO_REUSE in VarScope?" % name
            )
        if initializer is None:
            initializer, from_value = self._get_default_initializer(name=name, shape=shape, dtype=dtype)
        if from_value:
            init_val, variable_dtype = initializer, None
        else:
            init_val, variable_dtype = _initial_value_function(initializer, shape, dtype, partition_info)
        v = variables.VariableV1(
            initial_value=init_val,
            name=name,
            trainable=trainable,
            collections=collections,
            caching_device=caching_device,
            dtype=variable_dtype,
            validate_shape=validate_shape,
            constraint=constraint,
            use_resource=_Defaults.use_resource if use_resource is None else use_resource,
            synchronization=synchronization,
            aggregation=aggregation,
        )
        if not ops.executing_eagerly() or self._store_eager_variables:
            # Otherwise (in eager mode) a variable lives as long as the program holds a reference to it.
            self._vars[name] = v
        if regularizer and not ops.executing_eagerly():
            with ops.colocate_with(v):
                with ops.name_scope(name + "/Regularizer/"):
                    with ops.init_scope():
                        loss = regularizer(v)
                if loss is not None:
                    ops.add_to_collection(ops.GraphKeys.REGULARIZATION_LOSSES, loss)
        return v

    def _get_default_initializer(
        self, name: str, shape: Any = None, dtype: Any = dtypes.float32
    ) -> tuple[Any, bool]:
        """(an initializer, whether it is a value): Glorot's uniform one for floats, zeros for the rest."""
        del shape
        if dtype.is_floating:
            return init_ops.glorot_uniform_initializer(), False
        if dtype.is_integer or dtype.is_unsigned or dtype.is_bool or dtype == dtypes.string:
            return init_ops.zeros_initializer(), False
        raise ValueError("An initializer for variable %s of %s is required" % (name, dtype.base_dtype))


def _initial_value_function(initializer: Any, shape: Any, dtype: Any, partition_info: Any) -> tuple[Any, Any]:
    """A function without arguments that makes the initial value, and the type of the variable."""
    if inspect.isclass(initializer):
        initializer = initializer()
    names, needs_nothing = _parameters(initializer)
    if shape.is_fully_defined():
        if "partition_info" in names:
            return (
                lambda: initializer(shape.as_list(), dtype=dtype, partition_info=partition_info),
                dtype.base_dtype,
            )
        return lambda: initializer(shape.as_list(), dtype=dtype), dtype.base_dtype
    if needs_nothing:
        return initializer, None
    raise ValueError(
        "The initializer passed is not valid. It should "
        "be a callable with no arguments and the "
        "shape should not be provided or an instance of "
        "`tf.keras.initializers.*' and `shape` should be "
        "fully defined."
    )


collections_abc_sequence = collections.abc.Sequence
